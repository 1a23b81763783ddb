"""The schema's way up and down: for a store from before the index, when opening, from the command line."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from backscroll import Backscroll, NewMessage, Requester, SchemaOutdated, Settings, StoreUnavailable
from backscroll.infrastructure import migrate
from backscroll.infrastructure.rows import VERSION_TABLE, Row
from tests.factories import opened
from tests.migrations.databases import ROWS, T, at_revision, dump, revision_of, tables, url, write_rows

ROOT = Path(__file__).parents[2]
OPERATOR = Requester.operator()


def found(scroll: Backscroll, query: str) -> list[str]:
    return sorted(hit.message_id for hit in scroll.search(query, requester=OPERATOR).hits)


def test_a_store_from_before_the_index_waits_for_it_and_is_then_found(revision_1):
    before = dump(revision_1)
    with opened(revision_1) as scroll:
        assert revision_of(revision_1) == migrate.HEAD
        assert dump(revision_1) == before
        page = scroll.search("granite", requester=OPERATOR)
        assert (page.hits, page.indexing) == ((), True)
        report = scroll.verify()
        assert (report.ok, report.messages, report.indexed, report.pending) == (True, 8, 0, 4)
        done = scroll.reindex()
        assert (done.transcripts, done.added, done.removed, done.failed) == (4, 5, 0, ())
        assert found(scroll, "granite") == ["m4", "o1"]
        assert found(scroll, "备份策略") == ["m2"]
        assert found(scroll, "ferry naxos") == ["m1"]
        assert found(scroll, "strasse istanbul") == ["n1"]
        assert found(scroll, "limestone") == found(scroll, "sodium") == found(scroll, "heliotrope") == []
        page = scroll.search("granite", requester=OPERATOR)
        assert not page.indexing
        report = scroll.verify()
        assert (report.ok, report.indexed, report.pending) == (True, 5, 0)
        assert dump(revision_1) == before


def test_what_is_said_in_an_old_transcript_before_it_is_reindexed_is_found_at_once(revision_1):
    with opened(revision_1) as scroll:
        scroll.append("agent:main:main", "user", "fresh granite", message_id="n2")
        scroll.edit("agent:main:main", "n1", "edited basalt")
        page = scroll.search("granite", requester=OPERATOR)
        assert ([hit.message_id for hit in page.hits], page.indexing) == (["n2"], True)
        assert found(scroll, "basalt") == ["n1"]
        scroll.reindex()
        assert found(scroll, "granite") == ["m4", "n2", "o1"]
        assert found(scroll, "istanbul") == []
        assert scroll.verify().ok


def test_history_of_an_old_store_needs_no_index(revision_1):
    def ids(**asked: object) -> list[str]:
        page = scroll.history("agent:main:main", requester=OPERATOR, session_id="old", **asked)
        return [message.message_id for message in page.messages]

    with opened(revision_1) as scroll:
        assert ids() == ["m2", "m4"]
        assert ids(message_id="m1") == ["m1", "m2"]
        assert ids(message_id="m1", include_tools=True) == ["m1", "m2", "m3"]
        assert ids(message_id="x3") == []


def test_a_downgrade_keeps_the_transcripts_and_an_upgrade_finds_them_again(revision_1):
    before = dump(revision_1)
    with opened(revision_1) as scroll:
        scroll.reindex()
    at_revision(revision_1, lambda connection: migrate.downgrade(connection, "0001"))
    assert dump(revision_1) == before
    assert not {name for name in tables(revision_1) if "index" in name or "pending" in name}
    with pytest.raises(SchemaOutdated):
        Backscroll.open(Settings(database_url=url(revision_1)), migrate=False)
    with opened(revision_1) as scroll:
        assert scroll.search("granite", requester=OPERATOR).indexing
        scroll.reindex()
        assert found(scroll, "granite") == ["m4", "o1"]
        assert scroll.verify().ok
    at_revision(revision_1, lambda connection: migrate.downgrade(connection, "base"))
    assert {name for name in tables(revision_1) if name.startswith("backscroll")} == {VERSION_TABLE}
    with opened(revision_1) as scroll:
        assert found(scroll, "granite") == []
        assert scroll.verify().ok


@pytest.mark.parametrize("transcripts", [1, 50])
def test_the_upgrade_costs_the_same_at_any_size(tmp_path, transcripts):
    steps: dict[int, int] = {}
    for messages in (10, 5_000):
        path = tmp_path / f"{messages}.db"
        at_revision(path, lambda connection: migrate.upgrade(connection, "0001"))
        several = max(1, transcripts * messages // 5_000)
        write_rows(
            path,
            {
                "agents": ROWS["agents"],
                "sessions": ROWS["sessions"][:1],
                "transcripts": [(n + 1, 1, f"t{n}", T, n == several - 1, None) for n in range(several)],
                "messages": [
                    (n + 1, n % several + 1, f"m{n}", None, None, 1, 1, "user", 0, T, f"word{n} " * 20, None, None)
                    for n in range(messages)
                ],
            },
        )
        counted: list[None] = []

        def count(connection: sa.Connection, counted: list[None] = counted) -> None:
            driver = connection.connection.driver_connection
            driver.set_progress_handler(lambda: counted.append(None), 1)
            migrate.upgrade(connection)
            driver.set_progress_handler(None, 0)

        at_revision(path, count)
        steps[messages] = len(counted)
    # The seek of the newest transcript steps once more when there is more than one page of them.
    assert steps[5_000] <= steps[10] + 20
    assert steps[10] > 100


# Opening.


def test_opening_without_migrating_refuses_an_outdated_store_and_changes_nothing(tmp_path, revision_1):
    before = tables(revision_1)
    with pytest.raises(SchemaOutdated, match="0001"):
        Backscroll.open(url(revision_1), migrate=False)
    assert tables(revision_1) == before
    with pytest.raises(SchemaOutdated, match="none"):
        Backscroll.open(url(tmp_path / "new.db"), migrate=False)
    assert tables(tmp_path / "new.db") == set()


def test_opening_without_migrating_takes_a_current_store(store_path):
    with Backscroll.open(url(store_path), migrate=False) as scroll:
        assert scroll.verify().ok


def test_a_store_of_a_newer_release_is_refused(store_path):
    with closing(sqlite3.connect(store_path)) as connection, connection:
        connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    with pytest.raises(SchemaOutdated):
        Backscroll.open(url(store_path), migrate=False)


@pytest.mark.parametrize(
    "content", [b"this is no database, whatever its name says" * 50, b"SQLite format 3\x00" + b"\xff" * 5000]
)
def test_a_file_that_is_no_database_is_unavailable(tmp_path, content):
    path = tmp_path / "store.db"
    path.write_bytes(content)
    with pytest.raises(StoreUnavailable):
        Backscroll.open(url(path))
    assert path.read_bytes() == content


@pytest.mark.parametrize("bad", ["sqlite:////nowhere/at/all/store.db", "postgresql://x/y", "no url", "mysql://", ""])
def test_a_database_that_cannot_be_is_unavailable(bad):
    with pytest.raises(StoreUnavailable):
        Backscroll.open(bad)


def test_without_fts5_the_reason_is_clear_and_nothing_is_made(tmp_path, monkeypatch):
    options = migrate.compile_options
    monkeypatch.setattr(migrate, "compile_options", lambda connection: options(connection) - {"ENABLE_FTS5"})
    with pytest.raises(StoreUnavailable, match="FTS5"):
        Backscroll.open(url(tmp_path / "store.db"))
    assert tables(tmp_path / "store.db") == set()


def test_the_schema_of_the_migrations_is_that_of_the_rows(store_path):
    """Names, columns, keys and defaults of both, beyond what autogenerate compares."""

    def schema(engine: sa.Engine) -> dict[str, object]:
        inspector = sa.inspect(engine)
        return {
            name: (
                [
                    (c["name"], str(c["type"]), c["nullable"], c["default"], c["primary_key"])
                    for c in inspector.get_columns(name)
                ],
                sorted(map(str, inspector.get_unique_constraints(name))),
                sorted(map(str, inspector.get_foreign_keys(name))),
                sorted(str((i["name"], i["column_names"], i["unique"])) for i in inspector.get_indexes(name)),
            )
            for name in Row.metadata.tables
        }

    fresh = sa.create_engine("sqlite://", poolclass=sa.StaticPool)
    Row.metadata.create_all(fresh)
    migrated = sa.create_engine(url(store_path))
    for table in Row.metadata.tables:
        columns, *rest = schema(migrated)[table]
        wanted, *others = schema(fresh)[table]
        assert sorted(map(str, columns)) == sorted(map(str, wanted))
        assert rest == others
    fresh.dispose()
    migrated.dispose()


# The command line.


def alembic(path: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "BACKSCROLL_DATABASE_URL": url(path),
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    return subprocess.run(
        [sys.executable, "-m", "alembic", "-c", str(ROOT / "alembic.ini"), *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_alembic_upgrades_checks_and_downgrades_from_any_folder(tmp_path, revision_1):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    before = dump(revision_1)
    for arguments, revision in (
        (["upgrade", "head"], migrate.HEAD),
        (["check"], migrate.HEAD),
        (["downgrade", "0001"], migrate.KNOWN[0]),
        (["upgrade", "head"], migrate.HEAD),
    ):
        done = alembic(revision_1, elsewhere, *arguments)
        assert done.returncode == 0, done.stderr
        assert revision_of(revision_1) == revision
        assert dump(revision_1) == before
    with opened(revision_1) as scroll:
        scroll.reindex()
        assert found(scroll, "granite") == ["m4", "o1"]
        assert scroll.verify().ok
    assert list(elsewhere.iterdir()) == []


def test_the_head_known_to_the_code_is_that_of_the_scripts(tmp_path):
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(migrate.SCRIPTS))
    assert ScriptDirectory.from_config(config).get_heads() == [migrate.HEAD]


def test_a_store_is_opened_by_its_settings_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("BACKSCROLL_DATABASE_URL", url(tmp_path / "env.db"))
    with Backscroll.open() as scroll:
        scroll.ensure_session("agent:a:b")
        scroll.append_many("agent:a:b", [NewMessage("user", "granite", message_id="m1")])
        assert found(scroll, "granite") == ["m1"]
    assert (tmp_path / "env.db").exists()
