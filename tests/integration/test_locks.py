"""A store that somebody else has locked: writers wait and give up, readers do not care, background work is put off."""

import logging
import multiprocessing
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from backscroll import Backscroll, Requester, StoreUnavailable
from backscroll.infrastructure import migrate
from backscroll.infrastructure.engine import begun, create_engine
from tests.factories import opened

OPERATOR = Requester.operator()
KEY, OTHER = "agent:main:main", "agent:main:other"
LENGTH = 30
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["backscroll"])


@pytest.fixture
def path(store_path: Path) -> Path:
    with opened(store_path) as scroll:
        for key in (KEY, OTHER):
            scroll.ensure_session(key)
            scroll.append_many(
                key, [{"role": "user", "content": f"granite place{n}", "message_id": f"m{n}"} for n in range(LENGTH)]
            )
    return store_path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """The write lock held by somebody else, who has written but not committed."""
    with closing(sqlite3.connect(path, isolation_level=None)) as plain:
        plain.execute("BEGIN IMMEDIATE")
        plain.execute("UPDATE backscroll_sessions SET title = 'never committed'")
        try:
            yield
        finally:
            plain.execute("ROLLBACK")


def dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as plain:
        return list(plain.iterdump())


def write_transcript(path: Path) -> Path:
    path.write_text(
        '{"type":"session","version":3,"id":"s","timestamp":"2026-03-01T12:00:00Z"}\n'
        '{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":"imported"}}\n'
    )
    return path


WRITING: dict[str, Callable[[Backscroll, Path], object]] = {
    "ensure_session": lambda scroll, _: scroll.ensure_session("agent:main:new"),
    "ensure_session of a known one": lambda scroll, _: scroll.ensure_session(KEY, title="changed"),
    "append": lambda scroll, _: scroll.append(KEY, "user", "more"),
    "append_many": lambda scroll, _: scroll.append_many(KEY, [{"role": "user", "content": "more"}] * 3),
    "append to another parent": lambda scroll, _: scroll.append(KEY, "user", "more", parent_id="m3"),
    "edit": lambda scroll, _: scroll.edit(KEY, "m3", "changed"),
    "rewind": lambda scroll, _: scroll.rewind(KEY, "m3"),
    "switch_branch": lambda scroll, _: scroll.switch_branch(KEY, scroll.branches(KEY)[0].branch_id),
    "reset": lambda scroll, _: scroll.reset(KEY),
    "rotating reset": lambda scroll, _: scroll.reset(KEY, rotate=True),
    "delete_session": lambda scroll, _: scroll.delete_session(KEY),
    "import": lambda scroll, folder: scroll.import_transcripts(write_transcript(folder / "s.jsonl")),
    "reindex": lambda scroll, _: scroll.reindex(),
    "verify": lambda scroll, _: scroll.verify(),
    "repair": lambda scroll, _: scroll.repair(),
    "maintain": lambda scroll, _: scroll.maintain(),
}


@pytest.mark.parametrize("call", WRITING)
def test_a_call_that_writes_gives_up_after_the_configured_time_and_leaves_nothing(
    call: str, path: Path, tmp_path: Path
) -> None:
    before = dump(path)
    with opened(path, busy_timeout=0.05) as scroll:
        with locked(path), pytest.raises(StoreUnavailable, match="locked"):
            WRITING[call](scroll, tmp_path)
        assert dump(path) == before
        # The same facade, whose connection goes on being used, does it once the lock is free.
        WRITING[call](scroll, tmp_path)
        assert scroll.verify().problems == ()


def test_vacuum_gives_up_too(path: Path) -> None:
    with opened(path, busy_timeout=0.05) as scroll:
        scroll.maintain()
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM backscroll_messages").fetchone()
            # A reader stands in nobody's way but that of the log's end.
            scroll.append(KEY, "user", "more")
            reader.execute("COMMIT")
        with locked(path), pytest.raises(StoreUnavailable, match="locked"):
            scroll.maintain(vacuum=True)
        assert scroll.maintain(vacuum=True).vacuumed


def test_pruning_gives_up_too_and_its_dry_run_needs_no_lock(path: Path) -> None:
    with opened(path, busy_timeout=0.05) as scroll:
        with locked(path):
            assert scroll.prune(older_than=timedelta(0)).session_keys == (KEY, OTHER)
            with pytest.raises(StoreUnavailable, match="locked"):
                scroll.prune(older_than=timedelta(0), dry_run=False)
        assert len(scroll.sessions(requester=OPERATOR)) == 2


def test_calls_that_read_and_opening_work_while_another_holds_the_write_lock(path: Path) -> None:
    with locked(path), opened(path, busy_timeout=0) as scroll:
        assert len(scroll.search("granite", requester=OPERATOR, limit=25).hits) == 25
        assert len(scroll.history(KEY, requester=OPERATOR).messages) == LENGTH
        assert len(scroll.history(KEY, requester=OPERATOR, message_id="m3", limit=5).messages) == 5
        assert [one.title for one in scroll.sessions(requester=OPERATOR)] == [None, None]
        assert len(scroll.branches(KEY)) == 1
        with opened(path, busy_timeout=0, background_reindex=True) as other:
            assert not other.search("granite", requester=OPERATOR).indexing


def test_an_outdated_store_waits_for_the_lock_to_be_migrated(path: Path) -> None:
    forget_index(path)
    with locked(path), pytest.raises(StoreUnavailable, match="locked"):
        opened(path, busy_timeout=0.05)
    with closing(sqlite3.connect(path)) as plain:
        assert plain.execute("SELECT version_num FROM backscroll_alembic_version").fetchall() == [("0001_backscroll",)]
    with opened(path) as scroll:
        assert scroll.reindex().failed == ()
        assert scroll.verify().problems == ()


def forget_index(path: Path) -> None:
    engine = create_engine(f"sqlite:///{path}", busy_timeout=5, synchronous="NORMAL")
    with begun(engine, writing=True) as connection:
        migrate.downgrade(connection, "0001")
        connection.commit()
    engine.dispose()


def hold(path: Path, pipe: Connection) -> None:
    with locked(path):
        pipe.send("held")
        pipe.recv()
    pipe.send("let go")


@contextmanager
def held_by_a_process(path: Path) -> Iterator[Callable[[], None]]:
    """The write lock held by another process; gives the call that makes it let go."""
    ours, theirs = _context.Pipe()
    process = _context.Process(target=hold, args=(path, theirs), daemon=True)
    process.start()

    def let_go() -> None:
        ours.send("let go")

    try:
        assert ours.poll(60)
        assert ours.recv() == "held"
        yield let_go
    finally:
        process.kill()
        process.join(30)
        ours.close()


def test_a_waiting_writer_gets_the_lock_when_another_process_lets_go(path: Path) -> None:
    with opened(path, busy_timeout=60) as scroll, held_by_a_process(path) as let_go:
        let_go()
        scroll.append(KEY, "user", "at last", message_id="last")
        assert [hit.message_id for hit in scroll.search("last", requester=OPERATOR).hits] == ["last"]
    with opened(path) as scroll:
        assert scroll.verify().problems == ()


def test_a_lock_whose_holder_died_is_free(path: Path) -> None:
    with held_by_a_process(path):
        pass
    with opened(path, busy_timeout=5) as scroll:
        scroll.append(KEY, "user", "at last")
        assert {one.title for one in scroll.sessions(requester=OPERATOR)} == {None}
        assert scroll.verify().problems == ()


def test_the_background_worker_survives_a_lock_and_goes_on_at_the_next_search(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    forget_index(path)
    opened(path).close()
    with opened(path, busy_timeout=0.05, background_reindex=True) as scroll:
        with locked(path), caplog.at_level(logging.WARNING, "backscroll.worker"):
            page = scroll.search("granite", requester=OPERATOR)
            assert (page.hits, page.indexing) == ((), True)
            wait_for(lambda: "background work is put off" in caplog.text)
        assert "locked" in caplog.text
        wait_for(lambda: not scroll.search("granite", requester=OPERATOR).indexing)
        assert len(scroll.search("granite", requester=OPERATOR, limit=25).hits) == 25
        assert scroll.verify().problems == ()


def wait_for(condition: Callable[[], bool]) -> None:
    """Waits for another thread, for a minute at most."""
    for _ in range(6_000):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("never happened")


def wanderer(path: Path, number: int, pipe: Connection) -> None:
    """Rewinds and goes on in a session of its own, far enough to leave it pending, and reindexes what is pending."""
    key = f"agent:main:wanderer{number}"
    with opened(path, busy_timeout=60, inline_reindex_limit=3) as scroll:
        scroll.ensure_session(key)
        scroll.append_many(
            key, [{"role": "user", "content": f"basalt place{n}", "message_id": f"m{n}"} for n in range(LENGTH)]
        )
        for turn in range(8):
            scroll.rewind(key, f"m{LENGTH - 8 - turn}")
            scroll.append(key, "user", f"wandered{number}x{turn}")
            scroll.search("basalt", requester=OPERATOR)
            if turn % 2:
                assert scroll.reindex().failed == ()
    pipe.send(key)


def test_processes_that_leave_work_and_do_it_end_with_an_index_that_agrees(path: Path) -> None:
    pipes, processes = [], []
    for number in range(4):
        ours, theirs = _context.Pipe(duplex=False)
        processes.append(_context.Process(target=wanderer, args=(path, number, theirs), daemon=True))
        processes[-1].start()
        theirs.close()
        pipes.append(ours)
    try:
        assert all(pipe.poll(120) for pipe in pipes)
        keys = [pipe.recv() for pipe in pipes]
    finally:
        for process in processes:
            process.join(10)
            process.kill()
            process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    with opened(path) as scroll:
        scroll.reindex()
        assert scroll.verify().problems == ()
        for number, key in enumerate(keys):
            on_path = {one.message_id for one in scroll.history(key, requester=OPERATOR, limit=200).messages}
            hits = {
                hit.message_id for hit in scroll.search("basalt", requester=OPERATOR, session_key=key, limit=25).hits
            }
            assert hits == {name for name in on_path if name.startswith("m")}
            assert len(scroll.search(f"wandered{number}x7", requester=OPERATOR).hits) == 1
