"""Several processes and threads on one file: nothing is lost, nothing fails, readers never wait for writers."""

import multiprocessing
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from threading import Barrier

import pytest

from backscroll import Backscroll, NewMessage, Requester, StoreUnavailable
from backscroll.infrastructure import migrate
from backscroll.infrastructure.engine import begun, create_engine
from tests.factories import opened

KEY = "agent:main:shared"
OPERATOR = Requester.operator()
SPAWN = multiprocessing.get_context("spawn")


def ids(scroll: Backscroll, key: str = KEY) -> list[str]:
    """Every message of the current view, walked backwards."""
    page = scroll.history(key, requester=OPERATOR, limit=200)
    found = [message.message_id for message in page.messages]
    while page.has_more:
        page = scroll.history(key, requester=OPERATOR, limit=200, before=found[0])
        found = [message.message_id for message in page.messages] + found
    return found


def raw(path: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchall()


@contextmanager
def write_lock(path: Path) -> Iterator[sqlite3.Connection]:
    """Holds the file's write lock, as another process in the middle of its work would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("ROLLBACK")


# Processes.


def converse(path: Path, name: str, rounds: int, results: "multiprocessing.Queue[object]") -> None:
    """Reads, appends to a shared session and to one of its own, and searches what it wrote; tells what went wrong."""
    try:
        with opened(path, inline_reindex_limit=2, busy_timeout=60) as scroll:
            own = f"agent:main:{name}"
            scroll.ensure_session(own)
            for number in range(rounds):
                scroll.history(KEY, requester=OPERATOR, limit=3)
                scroll.append(KEY, "user", f"shared word{name}{number}", message_id=f"{name}-{number}")
                scroll.append(own, "assistant", f"own word{name}{number}", message_id=f"o{number}")
                if number % 10 == 9:
                    # More than is reindexed at once: the transcript is left pending for the loop.
                    scroll.rewind(own, f"o{number - 5}")
                if len(scroll.search(f"word{name}{number}", requester=OPERATOR, session_key=KEY).hits) != 1:
                    raise AssertionError(f"{name} did not find its message {number}")
        results.put(None)
    except BaseException as error:
        results.put(f"{name}: {type(error).__name__}: {error}")


def reindex_until(path: Path, stop: object, results: "multiprocessing.Queue[object]") -> None:
    try:
        with opened(path, busy_timeout=60) as scroll:
            while not stop.wait(0.01):
                failed = scroll.reindex().failed
                if failed:
                    raise AssertionError(str(failed))
        results.put(None)
    except BaseException as error:
        results.put(f"reindex: {type(error).__name__}: {error}")


def test_processes_that_read_append_search_and_reindex_lose_nothing(store_path, scroll):
    scroll.ensure_session(KEY)
    names, rounds = ["a", "b", "c", "d"], 200
    results: multiprocessing.Queue[object] = SPAWN.Queue()
    stop = SPAWN.Event()
    loop = SPAWN.Process(target=reindex_until, args=(store_path, stop, results))
    talkers = [SPAWN.Process(target=converse, args=(store_path, name, rounds, results)) for name in names]
    engine = create_engine(f"sqlite:///{store_path}", busy_timeout=5, synchronous="NORMAL")
    with begun(engine, writing=False) as reader:
        counted = reader.exec_driver_sql("SELECT count(*) FROM backscroll_messages").scalar()
        for process in (loop, *talkers):
            process.start()
        told = [results.get(timeout=120) for _ in talkers]
        # The reader's snapshot is still its own.
        assert reader.exec_driver_sql("SELECT count(*) FROM backscroll_messages").scalar() == counted == 0
    engine.dispose()
    stop.set()
    told.append(results.get(timeout=120))
    for process in (loop, *talkers):
        process.join()
        process.close()
    results.close()
    results.join_thread()
    assert told == [None] * 5
    stored = ids(scroll)
    assert sorted(stored) == sorted(f"{name}-{number}" for name in names for number in range(rounds))
    for name in names:
        assert [one for one in stored if one.startswith(f"{name}-")] == [f"{name}-{number}" for number in range(rounds)]
    scroll.reindex()
    report = scroll.verify()
    assert report.problems == ()
    assert report.messages == 2 * len(names) * rounds
    index_rows = raw(store_path, "SELECT count(*), count(DISTINCT id) FROM backscroll_message_index_docsize")
    active = raw(store_path, "SELECT count(*) FROM backscroll_messages WHERE active = 1")[0][0]
    assert index_rows == [(active, active)] == [(report.indexed, report.indexed)]


def open_fresh(path: Path, go: object, results: "multiprocessing.Queue[object]") -> None:
    try:
        go.wait()
        with opened(path, busy_timeout=60) as scroll:
            scroll.ensure_session(KEY)
            scroll.append(KEY, "user", "hello")
        results.put(None)
    except BaseException as error:
        results.put(f"{type(error).__name__}: {error}")


def test_processes_that_open_a_new_file_at_once_all_get_a_store(tmp_path):
    path = tmp_path / "fresh.db"
    results: multiprocessing.Queue[object] = SPAWN.Queue()
    go = SPAWN.Event()
    processes = [SPAWN.Process(target=open_fresh, args=(path, go, results)) for _ in range(4)]
    for process in processes:
        process.start()
    go.set()
    told = [results.get(timeout=120) for _ in processes]
    for process in processes:
        process.join()
        process.close()
    results.close()
    results.join_thread()
    assert told == [None] * 4
    with opened(path) as scroll:
        assert len(ids(scroll)) == 4
        assert scroll.verify().ok


def die_in_the_middle(path: Path) -> None:
    import os

    engine = create_engine(f"sqlite:///{path}", busy_timeout=5, synchronous="NORMAL")
    scroll = opened(path)
    with begun(engine, writing=True) as connection:
        inside = scroll.using(connection)
        inside.append_many(KEY, [NewMessage("user", f"half word{number}") for number in range(500)])
        os._exit(1)


def test_a_process_that_dies_while_it_writes_leaves_nothing_half_done(store_path, scroll):
    scroll.ensure_session(KEY)
    scroll.append(KEY, "user", "whole", message_id="m1")
    process = SPAWN.Process(target=die_in_the_middle, args=(store_path,))
    process.start()
    process.join()
    assert process.exitcode == 1
    process.close()
    assert ids(scroll) == ["m1"]
    assert scroll.search("half", requester=OPERATOR).hits == ()
    assert scroll.verify().ok


# Threads, each with a facade of its own or all with one.


def together(*tasks: Callable[[], object]) -> list[object]:
    """Runs the tasks at the same moment; raises what any of them raises."""
    barrier = Barrier(len(tasks))

    def run(task: Callable[[], object]) -> object:
        barrier.wait()
        return task()

    with ThreadPoolExecutor(len(tasks)) as pool:
        return list(pool.map(run, tasks))


def test_two_writers_on_one_session_never_lose_a_message(scroll, open_store):
    scroll.ensure_session(KEY)
    other = open_store()

    def write(store: Backscroll, name: str) -> Callable[[], object]:
        return lambda: [store.append(KEY, "user", "x", message_id=f"{name}{number}") for number in range(40)]

    together(write(scroll, "a"), write(other, "b"), write(scroll, "c"))
    stored = ids(scroll)
    assert sorted(stored) == sorted(f"{name}{number}" for name in "abc" for number in range(40))
    assert [branch.depth for branch in scroll.branches(KEY)] == [120]


def test_the_same_message_from_two_writers_is_stored_once(scroll, open_store):
    scroll.ensure_session(KEY)
    other = open_store()
    both = [
        lambda store=store: [store.append(KEY, "user", f"x{n}", message_id=f"m{n}").depth for n in range(30)]
        for store in (scroll, other)
    ]
    first, second = together(*both)
    assert first == second == list(range(1, 31))
    assert ids(scroll) == [f"m{number}" for number in range(30)]


def test_a_session_made_by_two_at_once_is_one(scroll, open_store, operator):
    other = open_store()
    keys = [f"agent:main:{number}" for number in range(20)]
    one, two = together(*[lambda s=s: [s.ensure_session(key).session_id for key in keys] for s in (scroll, other)])
    assert one == two
    assert len(scroll.sessions(requester=operator)) == 20


def test_a_reset_never_hides_a_message_accepted_at_the_same_time(scroll, open_store):
    scroll.ensure_session(KEY)
    other = open_store()
    numbers = count()

    def append() -> list[str]:
        return [scroll.append(KEY, "user", "x", message_id=f"m{next(numbers)}").message_id for _ in range(25)]

    def reset() -> list[tuple[str | None, int]]:
        return [(one.after, one.depth) for one in (other.reset(KEY) for _ in range(25))]

    appended, resets = together(append, reset)
    # Each reset says behind which message it stands; every message before the first or behind one is in one interval.
    closed: list[str] = []
    for after, depth in resets:
        assert (int(after[1:]) + 1 if after else 0) == depth
    for name in appended:
        page = scroll.history(KEY, requester=OPERATOR, message_id=name, limit=200)
        assert name in [message.message_id for message in page.messages]
        closed.append(name)
    last = max((depth for _, depth in resets), default=0)
    assert ids(scroll) == appended[last:]


def test_pages_read_beside_a_writer_are_of_one_moment(scroll, open_store):
    scroll.ensure_session(KEY)
    other = open_store()

    def write() -> None:
        for number in range(40):
            other.append_many(KEY, [NewMessage("user", "pair", message_id=f"{side}{number}") for side in "ab"])

    def read() -> list[tuple[int, int]]:
        pages = [scroll.history(KEY, requester=OPERATOR, limit=200) for _ in range(40)]
        return [(len(page.messages), page.total) for page in pages]

    _, seen = together(write, read)
    assert all(shown == total and total % 2 == 0 for shown, total in seen)


# Locks.


def test_opening_reading_and_searching_take_no_write_lock(store_path, scroll):
    scroll.ensure_session(KEY)
    scroll.append(KEY, "user", "granite", message_id="m1")
    with write_lock(store_path), opened(store_path, busy_timeout=0) as other:
        assert ids(other) == ["m1"]
        assert len(other.search("granite", requester=OPERATOR).hits) == 1
        assert len(other.sessions(requester=OPERATOR)) == 1
        assert len(other.branches(KEY)) == 1
        with Backscroll.open(f"sqlite:///{store_path}", migrate=False) as third:
            assert ids(third) == ["m1"]


WRITES: dict[str, Callable[[Backscroll], object]] = {
    "ensure_session": lambda s: s.ensure_session("agent:main:new"),
    "append": lambda s: s.append(KEY, "user", "late"),
    "append_many": lambda s: s.append_many(KEY, [NewMessage("user", "late")] * 3),
    "edit": lambda s: s.edit(KEY, "m1", "late"),
    "rewind": lambda s: s.rewind(KEY, "m1"),
    "reset": lambda s: s.reset(KEY),
    "rotate": lambda s: s.reset(KEY, rotate=True),
    "delete": lambda s: s.delete_session(KEY),
    "reindex": lambda s: s.reindex(),
    "repair": lambda s: s.repair(),
}


@pytest.mark.parametrize("what", WRITES)
def test_a_locked_store_is_unavailable_and_nothing_is_half_done(store_path, scroll, open_store, what):
    scroll.ensure_session(KEY)
    scroll.append_many(KEY, [NewMessage("user", "x", message_id=name) for name in ("m1", "m2")])
    hasty = open_store(busy_timeout=0)
    with write_lock(store_path), pytest.raises(StoreUnavailable, match="locked"):
        WRITES[what](hasty)
    assert ids(scroll) == ["m1", "m2"]
    assert [one.session_key for one in scroll.sessions(requester=OPERATOR)] == [KEY]
    WRITES[what](hasty)
    assert scroll.verify().ok


def test_a_writer_waits_for_the_lock_as_long_as_it_is_told_to(store_path, scroll, open_store):
    scroll.ensure_session(KEY)
    patient = open_store(busy_timeout=60)
    with ThreadPoolExecutor(1) as pool, write_lock(store_path) as lock:
        waiting = pool.submit(patient.append, KEY, "user", "x", message_id="m1")
        assert ids(scroll) == []
        lock.execute("ROLLBACK")
        assert waiting.result(timeout=60).message_id == "m1"
        lock.execute("BEGIN")
    assert ids(scroll) == ["m1"]


@pytest.mark.parametrize("seconds", [0, 0.25, 7])
def test_the_time_that_a_lock_is_waited_for_is_the_one_configured(store_path, seconds):
    engine = create_engine(f"sqlite:///{store_path}", busy_timeout=seconds, synchronous="NORMAL")
    with begun(engine, writing=False) as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == int(seconds * 1000)
    engine.dispose()


def test_a_migration_waits_for_the_lock_and_leaves_nothing_half_done_without_it(tmp_path):
    path = tmp_path / "old.db"
    engine = create_engine(f"sqlite:///{path}", busy_timeout=5, synchronous="NORMAL")
    with begun(engine, writing=True) as connection:
        migrate.upgrade(connection, "0001")
        connection.commit()
    engine.dispose()
    with write_lock(path), pytest.raises(StoreUnavailable, match="locked"):
        opened(path, busy_timeout=0)
    assert raw(path, "SELECT version_num FROM backscroll_alembic_version") == [("0001_backscroll",)]
    with opened(path) as scroll:
        assert scroll.verify().ok
