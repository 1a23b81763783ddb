"""The command line: migrating, reindexing, verifying, maintaining and pruning a store."""

import json
import shlex
import sqlite3
from pathlib import Path

import sqlalchemy as sa

from backscroll.infrastructure import migrate
from tests.cli.calling import EXAMPLES, KEY, Run, complaint, document, url


def test_an_old_store_is_migrated_and_reindexed_step_by_step(samples: Run, store_path: Path) -> None:
    engine = sa.create_engine(url(store_path))
    with engine.begin() as connection:
        migrate.downgrade(connection, "0001")
    engine.dispose()

    for command in (["search", "ferry"], ["open", KEY], ["sessions"], ["verify"], ["reindex"]):
        result = samples(*command)
        assert result.exit_code == 3
        assert "run `backscroll migrate`" in complaint(result)
    checked = samples("migrate", "--check")
    assert checked.exit_code == 1
    assert "schema revision 0001" in complaint(checked)
    checked = samples("migrate", "--check", "--json")
    assert (checked.exit_code, document(checked)) == (1, {"current": False, "changed": False})
    assert document(samples("migrate", "--json")) == {"current": True, "changed": True}
    assert document(samples("migrate", "--json")) == {"current": True, "changed": False}
    checked = samples("migrate", "--check")
    assert (checked.exit_code, checked.stdout) == (0, "the schema is up to date\n")

    waiting = samples("search", "ferry", BACKSCROLL_BACKGROUND_REINDEX="false")
    assert waiting.exit_code == 1
    assert "still being indexed" in waiting.stderr
    assert waiting.stderr.rstrip().endswith("reindex")
    assert "transcripts waiting for the index" in samples("verify", BACKSCROLL_BACKGROUND_REINDEX="false").stdout
    done = samples("reindex")
    assert done.exit_code == 0
    assert "6 transcripts brought up to date" in done.stdout
    assert document(samples("reindex", "--json"))["transcripts"] == 0
    assert samples("search", "ferry").exit_code == 0


def test_migrating_makes_a_store(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    assert run("migrate", database=url(path)).stdout == "the schema was brought up to date\n"
    assert run("sessions", database=url(path)).stderr == "no sessions to show\n"
    assert [one.name for one in tmp_path.glob("new.db*")] == ["new.db"]


def test_verify_tells_of_disagreement_and_repairs_it(samples: Run, store_path: Path) -> None:
    assert document(samples("verify", "--json"))["ok"] is True
    connection = sqlite3.connect(store_path)
    connection.execute("INSERT INTO backscroll_message_index(backscroll_message_index) VALUES ('delete-all')")
    connection.commit()
    connection.close()
    broken = samples("verify")
    assert broken.exit_code == 1
    assert "index and transcripts disagree" in broken.stdout
    repair = shlex.split(broken.stderr.removeprefix("to make them agree: "))
    assert repair[3:] == ["verify", "--repair"]
    assert (result := samples("verify", "--json")).exit_code == 1
    assert document(result)["ok"] is False
    repaired = samples(*repair[3:])
    assert repaired.exit_code == 0
    assert "index and transcripts agree: 72 messages" in repaired.stdout


def test_maintain_says_what_it_gained(run: Run) -> None:
    run("import", str(EXAMPLES))
    result = run("maintain", "--vacuum")
    assert result.exit_code == 0
    assert "bytes on disk" in result.stdout
    assert json.loads(run("maintain", "--json").stdout)["vacuumed"] is False


def test_prune_lists_first_and_deletes_only_when_asked(run: Run) -> None:
    run("import", str(EXAMPLES))
    before = len(json.loads(run("sessions", "--json").stdout))
    listed = run("prune", "--older-than", "0", "--keep", "1")
    assert listed.exit_code == 0
    assert "may go" in listed.stdout
    assert "--delete" in listed.stderr
    assert len(json.loads(run("sessions", "--json").stdout)) == before
    gone = json.loads(run("prune", "--older-than", "0", "--keep", "1", "--delete", "--json").stdout)
    assert gone["deleted"] is True
    left = json.loads(run("sessions", "--json").stdout)
    assert len(left) == before - len(gone["session_keys"])
    assert run("prune", "--older-than", "-1").exit_code == 2
    assert run("prune", "--older-than", "nan").exit_code == 2
