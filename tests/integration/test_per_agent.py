"""A file for each agent: where things are written, what is opened, and what happens when a file cannot be used."""

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from backscroll import (
    Backscroll,
    InvalidRequest,
    Requester,
    SchemaOutdated,
    SessionNotFound,
    Settings,
    StoreUnavailable,
)
from backscroll.cli import app
from backscroll.infrastructure import migrate
from backscroll.infrastructure.engine import begun, create_engine
from backscroll.infrastructure.per_agent.names import KIN, file_name

ROOT = Path(__file__).parents[2]
OPERATOR = Requester.operator()
Open = Callable[..., Backscroll]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "stores"


@pytest.fixture
def open_agents(folder: Path) -> Iterator[Open]:
    stores: list[Backscroll] = []

    def open_it(*, upgrade: bool = True, **changes: object) -> Backscroll:
        usual: dict[str, object] = {"synchronous": "NORMAL", "background_reindex": False, "busy_timeout": 5}
        settings = Settings(database_url=f"sqlite:///{folder}/{{agent_id}}.db", **{**usual, **changes})
        stores.append(Backscroll.open(settings, migrate=upgrade))
        return stores[-1]

    yield open_it
    for store in stores:
        store.close()


@pytest.fixture
def agents(open_agents: Open) -> Backscroll:
    return open_agents()


def say(scroll: Backscroll, key: str, text: str, **fields: object) -> None:
    scroll.ensure_session(key, **fields)
    scroll.append(key, "user", text)


def found(scroll: Backscroll, query: str, requester: Requester = OPERATOR, **asked: object) -> list[str]:
    return sorted(hit.session_key for hit in scroll.search(query, requester=requester, **asked).hits)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.db")) if folder.exists() else []


def open_files() -> int:
    return sum("/stores/" in os.path.realpath(f"/proc/self/fd/{handle}") for handle in os.listdir("/proc/self/fd"))


# Where things are.


def test_each_agents_sessions_are_in_its_own_file_alone(agents: Backscroll, folder: Path) -> None:
    for agent in ("bob", "Bob", "a/b"):
        say(agents, f"agent:{agent}:main", f"granite of {agent}")
    assert files(folder) == sorted(f"{file_name(agent)}.db" for agent in ("bob", "Bob", "a/b"))
    agents.close()
    for agent in ("bob", "Bob", "a/b"):
        with closing(sqlite3.connect(folder / f"{file_name(agent)}.db")) as connection:
            assert connection.execute("SELECT text FROM backscroll_messages").fetchall() == [(f"granite of {agent}",)]


@pytest.mark.parametrize("pattern", ["{agent_id}.db", "{agent_id}/transcripts.db"])
def test_a_relative_url_makes_its_folders(pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Backscroll.open(f"sqlite:///deep/stores/{pattern}") as scroll:
        say(scroll, "agent:bob:main", "granite")
        monkeypatch.chdir(tmp_path.parent)
        assert found(scroll, "granite") == ["agent:bob:main"]
    assert (tmp_path / "deep/stores" / pattern.replace("{agent_id}", "bob")).is_file()


REFUSED_OR_READ = {
    "history": lambda scroll: scroll.history("agent:nobody:main", requester=OPERATOR),
    "a search in a session": lambda scroll: scroll.search("x", requester=OPERATOR, session_key="agent:nobody:main"),
    "an append": lambda scroll: scroll.append("agent:nobody:main", "user", "x"),
    "an edit": lambda scroll: scroll.edit("agent:nobody:main", "m", "x"),
    "a rewind": lambda scroll: scroll.rewind("agent:nobody:main", "m"),
    "a list of branches": lambda scroll: scroll.branches("agent:nobody:main"),
    "a switch": lambda scroll: scroll.switch_branch("agent:nobody:main", "b"),
    "a reset": lambda scroll: scroll.reset("agent:nobody:main"),
    "history by a key without an agent": lambda scroll: scroll.history("room 7", requester=OPERATOR),
    "an append to a key without an agent": lambda scroll: scroll.append("room 7", "user", "x"),
}


@pytest.mark.parametrize("call", REFUSED_OR_READ.values(), ids=REFUSED_OR_READ)
def test_reading_and_refused_writes_make_no_file(call: Callable, agents: Backscroll, folder: Path) -> None:
    with pytest.raises(SessionNotFound, match=r"^no such session$"):
        call(agents)
    assert agents.delete_session("agent:nobody:main") is False
    assert agents.search("x", requester=Requester("agent:nobody:main")).hits == ()
    assert agents.sessions(requester=OPERATOR) == []
    assert agents.verify().ok
    assert files(folder) == []


@pytest.mark.parametrize(
    ("key", "agent", "what"),
    [
        ("room 7", "bob", "names no agent"),
        ("agent:bob", "bob", "names no agent"),
        ("agent:bob:main", "eve", "contradicts"),
        ("agent: :main", None, "must not be empty"),
        (f"agent:{'x' * 257}:main", None, "at most 256"),
    ],
)
def test_a_key_says_which_agents_file_it_is_in(
    key: str, agent: str | None, what: str, agents: Backscroll, folder: Path
) -> None:
    with pytest.raises(InvalidRequest, match=what):
        agents.ensure_session(key, agent_id=agent)
    assert files(folder) == []


def test_agents_with_ids_too_long_for_a_name_are_found(agents: Backscroll) -> None:
    for end in "ab":
        say(agents, f"agent:{'ü' * 200}{end}:main", f"granite {end}")
    assert len(found(agents, "granite")) == 2
    assert found(agents, "b") == [f"agent:{'ü' * 200}b:main"]


def test_work_inside_a_transaction_of_the_host_is_refused(agents: Backscroll) -> None:
    engine = sa.create_engine("sqlite://")
    with engine.connect() as connection, pytest.raises(InvalidRequest, match="each agent has a file of its own"):
        agents.using(connection)
    engine.dispose()


# One answer from many files.


def test_the_best_of_all_files_come_first_and_fill_one_limit(agents: Backscroll) -> None:
    for number in range(6):
        say(agents, f"agent:a{number}:main", "granite " * (number + 1) + "basalt " * 8)
    page = agents.search("granite", requester=OPERATOR, limit=3)
    assert [hit.session_key for hit in page.hits] == [f"agent:a{number}:main" for number in (5, 4, 3)]
    assert page.truncated
    newest = agents.search("granite", requester=OPERATOR, limit=6, order="newest")
    assert [hit.session_key for hit in newest.hits] == [f"agent:a{number}:main" for number in range(5, -1, -1)]
    assert not newest.truncated


def test_a_word_weighs_by_how_rare_it_is_in_all_files(agents: Backscroll) -> None:
    say(agents, "agent:a:main", "granite stone")
    say(agents, "agent:b:main", "marble stone")
    for number in range(20):
        agents.append("agent:b:main", "user", f"granite {number}")
    best = agents.search("granite marble", requester=OPERATOR, match="any").hits[0]
    assert best.session_key == "agent:b:main"
    assert "marble" in best.excerpt


def test_one_bound_holds_for_the_answer_of_all_files(open_agents: Open) -> None:
    scroll = open_agents(bounds={"search_bytes": 2_048, "search_hits": 25})
    for number in range(25):
        say(scroll, f"agent:a{number}:main", "granite " + "x" * 300)
    page = scroll.search("granite", requester=OPERATOR)
    assert 0 < len(page.hits) < 25
    assert page.truncated


def test_lists_are_merged_and_paged(agents: Backscroll) -> None:
    for number in range(9):
        say(agents, f"agent:a{number % 3}:s{number}", "granite")
    keys = [f"agent:a{number % 3}:s{number}" for number in range(8, -1, -1)]
    pages = [agents.sessions(requester=OPERATOR, limit=4, offset=offset) for offset in (0, 4, 8, 12)]
    assert [one.session_key for page in pages for one in page] == keys


def test_only_files_that_may_hold_something_visible_are_opened(open_agents: Open, folder: Path) -> None:
    scroll = open_agents(agent_to_agent={"allow": ["a", "b"]})
    for agent in "abc":
        say(scroll, f"agent:{agent}:main", "granite")
    # No reader of these gets as far as the third file.
    (folder / "c.db").write_bytes(b"damaged")
    assert found(scroll, "granite", Requester("agent:a:x")) == ["agent:a:main", "agent:b:main"]
    assert found(scroll, "granite", Requester("agent:b:x"), agents=["b", "c"]) == ["agent:b:main"]
    assert len(scroll.sessions(requester=Requester("agent:a:x"))) == 2


def test_what_waits_for_its_index_is_told_and_then_done(open_agents: Open, folder: Path) -> None:
    scroll = open_agents(background_reindex=True)
    for agent in "ab":
        say(scroll, f"agent:{agent}:main", "granite")
    with closing(sqlite3.connect(folder / "b.db")) as connection, connection:
        connection.execute("UPDATE backscroll_messages SET text = 'marble'")
    assert scroll.search("granite", requester=Requester("agent:a:x"), agents=["a"]).indexing is False
    assert scroll.search("marble", requester=OPERATOR).indexing is True
    for _ in range(500):
        if found(scroll, "marble"):
            break
        threading.Event().wait(0.02)
    assert found(scroll, "marble") == ["agent:b:main"]


# Trees across files.


def test_a_tree_is_followed_through_other_agents_files_and_back(open_agents: Open) -> None:
    scroll = open_agents(visibility="tree")
    # The parents are stored after their children, and one of them never is.
    say(scroll, "agent:a:grandchild", "granite", spawned_by="agent:b:child")
    say(scroll, "agent:a:below", "granite", owner="agent:a:grandchild")
    say(scroll, "agent:b:child", "granite", spawned_by="agent:a:main")
    say(scroll, "agent:c:orphan", "granite", spawned_by="agent:ghost:main")
    say(scroll, "agent:c:other", "granite")
    say(scroll, "agent:c:of-a-room", "granite", owner="room 7")
    tree = ["agent:a:below", "agent:a:grandchild", "agent:b:child"]
    assert found(scroll, "granite", Requester("agent:a:main")) == tree
    assert [one.session_key for one in scroll.sessions(requester=Requester("agent:a:main"))] == [
        "agent:b:child",
        "agent:a:below",
        "agent:a:grandchild",
    ]
    assert found(scroll, "granite", Requester("agent:ghost:main")) == ["agent:c:orphan"]
    assert found(scroll, "granite", Requester("room 7")) == ["agent:c:of-a-room"]
    assert scroll.history("agent:a:below", requester=Requester("agent:a:main")).messages
    with pytest.raises(SessionNotFound):
        scroll.history("agent:c:other", requester=Requester("agent:a:main"))
    scroll.delete_session("agent:b:child")
    assert found(scroll, "granite", Requester("agent:a:main")) == []


def test_a_tree_ends_at_an_incognito_session_in_another_file(open_agents: Open) -> None:
    scroll = open_agents(visibility="tree")
    say(scroll, "agent:b:secret", "granite", spawned_by="agent:a:main", incognito=True)
    say(scroll, "agent:c:behind", "granite", spawned_by="agent:b:secret")
    assert found(scroll, "granite", Requester("agent:a:main")) == []
    assert found(scroll, "granite", Requester("agent:b:secret")) == ["agent:c:behind"]
    with pytest.raises(SessionNotFound):
        scroll.history("agent:b:secret", requester=Requester("agent:a:main"))
    assert scroll.history("agent:b:secret", requester=Requester("agent:b:secret")).messages


def test_a_loop_across_files_ends(open_agents: Open) -> None:
    scroll = open_agents(visibility="tree")
    say(scroll, "agent:a:one", "granite", spawned_by="agent:b:two")
    say(scroll, "agent:b:two", "granite", spawned_by="agent:a:one")
    assert found(scroll, "granite", Requester("agent:a:one")) == ["agent:a:one", "agent:b:two"]


def test_no_trace_of_a_deleted_session_is_left_in_any_file(agents: Backscroll, folder: Path) -> None:
    say(agents, "agent:b:heliotrope", "a word: obsidian", spawned_by="agent:a:main")
    assert b"heliotrope" in hints(agents, folder)
    agents.ensure_session("agent:b:heliotrope", spawned_by="agent:c:main")
    assert b"agent:a:main" not in hints(agents, folder)
    assert agents.verify().ok
    assert agents.delete_session("agent:b:heliotrope")
    assert b"heliotrope" not in hints(agents, folder)
    assert agents.verify().ok


def hints(scroll: Backscroll, folder: Path) -> bytes:
    with closing(sqlite3.connect(folder / f"{KIN}.db")) as connection:
        return repr(connection.execute("SELECT * FROM backscroll_kin").fetchall()).encode()


def test_a_hint_alone_shows_nothing_and_repair_settles_it(open_agents: Open, folder: Path) -> None:
    scroll = open_agents(visibility="tree")
    say(scroll, "agent:b:child", "granite", spawned_by="agent:a:main")
    say(scroll, "agent:b:other", "granite")
    with closing(sqlite3.connect(folder / f"{KIN}.db")) as connection, connection:
        connection.execute("UPDATE backscroll_kin SET child_key = 'agent:b:other'")
    assert found(scroll, "granite", Requester("agent:a:main")) == ["agent:b:child"]
    assert [(one.what.partition(":")[0], one.rows) for one in scroll.verify().problems] == [("agent 'b'", 2)]
    assert scroll.repair().ok
    for path in folder.glob(f"{KIN}.db*"):
        path.unlink()
    assert found(scroll, "granite", Requester("agent:a:main")) == []
    assert [one.rows for one in scroll.verify().problems] == [1]
    assert scroll.repair().ok
    assert found(scroll, "granite", Requester("agent:a:main")) == ["agent:b:child"]


def test_a_crash_between_two_files_leaves_a_hint_too_many_at_most(agents: Backscroll, folder: Path) -> None:
    script = """
import os, sys
from backscroll import Backscroll
from backscroll.infrastructure.per_agent import units
from backscroll.infrastructure.sessions import SqlSessions
units.SqlSessions.add = lambda *given: os._exit(9)
Backscroll.open(sys.argv[1]).ensure_session("agent:b:child", spawned_by="agent:a:main")
"""
    say(agents, "agent:b:main", "granite")
    url = f"sqlite:///{folder}/{{agent_id}}.db"
    assert subprocess.run([sys.executable, "-c", script, url], check=False).returncode == 9
    assert b"agent:b:child" in hints(agents, folder)
    with pytest.raises(SessionNotFound):
        agents.history("agent:b:child", requester=OPERATOR)
    assert agents.delete_session("agent:b:child") is False
    assert b"agent:b:child" not in hints(agents, folder)


# Open files.


def test_hundreds_of_agents_are_few_open_files(open_agents: Open, folder: Path) -> None:
    with open_agents() as first:
        say(first, "agent:first:main", "granite")
    scroll = open_agents(open_agent_files=8, search_threads=3)
    with closing(sqlite3.connect(folder / "first.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for number in range(300):
        shutil.copyfile(folder / "first.db", folder / f"agent{number}.db")
    most = 0

    def watch() -> None:
        nonlocal most
        most = max(most, open_files())

    assert scroll.search("granite", requester=OPERATOR).truncated
    watch()
    for number in range(60):
        scroll.ensure_session(f"agent:new{number % 20}:s{number}")
        watch()
    assert len(scroll.sessions(requester=OPERATOR, limit=500)) == 361
    watch()
    # A file, its log and its shared memory; and the same for a connection that is being closed.
    assert most <= 8 * 3 + 3
    scroll.close()
    assert open_files() == 0


def test_several_threads_with_fewer_open_files_than_agents(open_agents: Open) -> None:
    scroll = open_agents(open_agent_files=2, search_threads=2)
    failures: list[BaseException] = []

    def work(agent: int) -> None:
        try:
            for number in range(5):
                say(
                    scroll, f"agent:w{agent}:s{number}", f"granite {number}", spawned_by=f"agent:w{agent - 1}:s{number}"
                )
                scroll.search("granite", requester=Requester(f"agent:w{agent}:s0"))
        except BaseException as error:  # whatever it is, it must be seen
            failures.append(error)

    threads = [threading.Thread(target=work, args=(agent,)) for agent in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(scroll.sessions(requester=OPERATOR)) == 25
    assert scroll.verify().ok


def test_several_processes_make_the_same_agents_file_once(folder: Path, open_agents: Open) -> None:
    script = """
import sys
from backscroll import Backscroll
with Backscroll.open(sys.argv[1]) as scroll:
    for number in range(3):
        key = f"agent:shared{number}:from{sys.argv[2]}"
        scroll.ensure_session(key, spawned_by="agent:a:main")
        scroll.append(key, "user", "granite")
"""
    url = f"sqlite:///{folder}/{{agent_id}}.db"
    running = [subprocess.Popen([sys.executable, "-c", script, url, str(number)]) for number in range(3)]
    assert [one.wait() for one in running] == [0, 0, 0]
    scroll = open_agents(visibility="tree")
    assert len(found(scroll, "granite", Requester("agent:a:main"), limit=25)) == 9
    assert scroll.verify().ok
    assert files(folder) == ["%kin.db", "shared0.db", "shared1.db", "shared2.db"]


CLOSED = {
    "history": lambda scroll: scroll.history("agent:a:main", requester=OPERATOR),
    "history of nobody": lambda scroll: scroll.history("nobody", requester=OPERATOR),
    "a search": lambda scroll: scroll.search("granite", requester=OPERATOR),
    "a search in a session": lambda scroll: scroll.search("granite", requester=OPERATOR, session_key="agent:a:main"),
    "a search in the tree": lambda scroll: scroll.search("granite", requester=Requester("agent:a:main")),
    "a list": lambda scroll: scroll.sessions(requester=OPERATOR),
    "a session": lambda scroll: scroll.ensure_session("agent:b:main"),
    "an append": lambda scroll: scroll.append("agent:a:main", "user", "x"),
    "a deletion": lambda scroll: scroll.delete_session("agent:a:main"),
    "reindexing": lambda scroll: scroll.reindex(),
    "a look at the index": lambda scroll: scroll.verify(),
    "maintenance": lambda scroll: scroll.maintain(),
    "retention": lambda scroll: scroll.prune(older_than=timedelta(days=1)),
}


@pytest.mark.parametrize("what", CLOSED)
@pytest.mark.parametrize("stored", [True, False])
def test_a_closed_store_refuses_what_is_called_later_and_opens_no_file(
    stored: bool, what: str, open_agents: Open, folder: Path
) -> None:
    scroll = open_agents(visibility="tree")
    if stored:
        say(scroll, "agent:a:main", "granite")
    scroll.close()
    before = files(folder)
    with pytest.raises(StoreUnavailable, match="this store is closed"):
        CLOSED[what](scroll)
    assert files(folder) == before
    assert open_files() == 0


# Files that cannot be used, and schemas.


def test_a_file_that_cannot_be_read_is_an_error_and_never_left_out(open_agents: Open, folder: Path) -> None:
    before = open_agents()
    for agent in "abc":
        say(before, f"agent:{agent}:main", "granite")
    before.close()
    (folder / "b.db").write_bytes(b"no database at all, but long enough to be looked at as one" * 20)
    agents = open_agents()
    for call in (
        lambda: agents.search("granite", requester=OPERATOR),
        lambda: agents.sessions(requester=OPERATOR),
        lambda: agents.append("agent:b:main", "user", "x"),
        agents.reindex,
        agents.maintain,
    ):
        with pytest.raises(StoreUnavailable, match="agent 'b': the database refused"):
            call()
    assert found(agents, "granite", agents=["a", "c"]) == ["agent:a:main", "agent:c:main"]
    report = agents.verify()
    assert not report.ok
    assert [one.what.partition(":")[0] for one in report.problems] == ["agent 'b'"]
    assert report.messages == 2


def outdated(path: Path, revision: str) -> None:
    engine = create_engine(f"sqlite:///{path}", busy_timeout=5, synchronous="NORMAL")
    with begun(engine, writing=True) as connection:
        migrate.downgrade(connection, revision)
        connection.commit()
    engine.dispose()


def test_a_file_is_brought_up_to_date_when_it_is_first_opened(open_agents: Open, folder: Path) -> None:
    scroll = open_agents()
    for agent in "ab":
        say(scroll, f"agent:{agent}:main", "granite")
    scroll.close()
    outdated(folder / "b.db", "0001")
    strict = open_agents(upgrade=False)
    assert found(strict, "granite", agents=["a"]) == ["agent:a:main"]
    with pytest.raises(SchemaOutdated, match="agent 'b': the store is at schema revision 0001"):
        strict.search("granite", requester=OPERATOR)
    say(strict, "agent:new:main", "marble")
    usual = open_agents()
    page = usual.search("granite", requester=OPERATOR)
    assert page.indexing
    assert len(page.hits) == 1
    usual.reindex()
    assert len(found(strict, "granite")) == 2


def test_an_agents_file_that_was_taken_away_is_gone(agents: Backscroll, folder: Path) -> None:
    for agent in "ab":
        say(agents, f"agent:{agent}:main", "granite")
    for path in folder.glob("b.db*"):
        path.unlink()
    assert found(agents, "granite") == ["agent:a:main"]
    with pytest.raises(SessionNotFound):
        agents.history("agent:b:main", requester=OPERATOR)
    say(agents, "agent:b:main", "marble")
    assert found(agents, "marble") == ["agent:b:main"]


def test_no_file_is_made_beside_the_log_of_a_deleted_one(agents: Backscroll, folder: Path) -> None:
    say(agents, "agent:b:main", "granite")
    (folder / "b.db").unlink()
    with pytest.raises(StoreUnavailable, match=r"agent 'b': b\.db-wal is left"):
        agents.ensure_session("agent:b:main")
    assert files(folder) == []


def test_retention_goes_through_every_file(agents: Backscroll) -> None:
    for agent in "ab":
        for number in range(3):
            say(agents, f"agent:{agent}:s{number}", "granite")
    keys = [f"agent:{agent}:s{number}" for agent in "ab" for number in range(2)]
    assert list(agents.prune(older_than=timedelta(), keep=1).session_keys) == keys
    assert agents.prune(older_than=timedelta(), keep=1, dry_run=False).deleted
    assert found(agents, "granite") == ["agent:a:s2", "agent:b:s2"]


def test_progress_of_all_files_only_grows(agents: Backscroll) -> None:
    for agent in "abc":
        say(agents, f"agent:{agent}:main", "granite")
    told: list[tuple[int, int]] = []
    agents.verify(progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 1), (2, 2), (3, 3)]


def test_an_import_goes_to_the_files_of_its_agents(agents: Backscroll, folder: Path, tmp_path: Path) -> None:
    for agent in ("bob", "Eve"):
        place = tmp_path / "import" / "agents" / agent / "sessions"
        place.mkdir(parents=True)
        (place / "one.jsonl").write_text(
            '{"type":"session","id":"one"}\n'
            '{"type":"message","id":"m1","message":{"role":"user","content":"granite"}}\n'
        )
    report = agents.import_transcripts(tmp_path / "import")
    assert report.messages == 2
    assert files(folder) == [f"{file_name('Eve')}.db", "bob.db"]
    assert len(found(agents, "granite")) == 2
    assert agents.import_transcripts(tmp_path / "import").known == 2


def test_the_command_line_takes_such_a_url(folder: Path) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        url = f"sqlite:///{folder}/{{agent_id}}.db"
        result = CliRunner().invoke(app, ["--database", url, *arguments], catch_exceptions=False)
        return result.exit_code, result.output

    assert run("search", "ferry")[0] == 3
    assert not folder.exists()
    assert run("import", str(ROOT / "examples" / "transcripts"))[0] == 0
    assert files(folder) == ["main.db", "ops.db"]
    assert run("search", "ferry")[0] == 0
    assert run("verify")[0] == 0
    outdated(folder / "ops.db", "0002")
    assert run("search", "ferry")[0] == 3
    code, output = run("migrate", "--check")
    assert code == 1
    assert "agent 'ops'" in output
    assert run("migrate")[0] == 0
    assert run("migrate", "--check")[0] == 0
