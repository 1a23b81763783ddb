"""On an event loop: many calls at once, cancellation at every point, background work, and nothing left at the end."""

import asyncio
import gc
import logging
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from backscroll import AsyncBackscroll, Backscroll, InvalidRequest, NewMessage, Requester, Settings, StoreUnavailable
from backscroll.infrastructure import bridge, migrate
from backscroll.infrastructure.engine import begun, create_engine
from tests.factories import opened

OPERATOR = Requester.operator()
KEY, OTHER = "agent:main:main", "agent:main:other"


def settings(path: Path | None, **more: object) -> Settings:
    usual: dict[str, object] = {"background_reindex": False, "synchronous": "NORMAL"}
    return Settings(database_url=f"sqlite:///{path}" if path else "sqlite://", **{**usual, **more})


async def found(scroll: AsyncBackscroll, words: str) -> list[str]:
    return sorted(hit.message_id for hit in (await scroll.search(words, requester=OPERATOR, limit=25)).hits)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Waits for something else on the loop, for a minute at most."""
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.005)


# Opening.


@pytest.mark.parametrize("driver", ["sqlite", "sqlite+aiosqlite", "sqlite+pysqlite"])
def test_a_url_opens_by_await_and_by_async_with(driver: str, tmp_path: Path) -> None:
    async def main() -> None:
        url = f"{driver}:///{tmp_path / 'new.db'}"
        async with AsyncBackscroll.open(url) as scroll:
            await scroll.ensure_session(KEY)
            await scroll.append(KEY, "user", "granite", message_id="m")
        scroll = await AsyncBackscroll.open(url)
        assert await found(scroll, "granite") == ["m"]
        await scroll.close()
        async with await AsyncBackscroll.open(url, migrate=False) as scroll:
            assert await found(scroll, "granite") == ["m"]

    asyncio.run(main())


def test_what_an_engine_or_a_connection_is_not_for_is_refused(store_path: Path) -> None:
    async def main() -> None:
        plain = sa.create_engine(f"sqlite:///{store_path}")
        engine = create_async_engine(f"sqlite+aiosqlite:///{store_path}")
        with pytest.raises(InvalidRequest, match="AsyncEngine"):
            await AsyncBackscroll.open(plain)
        with pytest.raises(InvalidRequest, match="AsyncBackscroll"):
            Backscroll.open(engine.sync_engine)
        with pytest.raises(StoreUnavailable, match="AsyncBackscroll"):
            Backscroll.open(f"sqlite+aiosqlite:///{store_path}")
        async with AsyncBackscroll.open(settings(store_path)) as scroll:
            with pytest.raises(InvalidRequest, match="open"):
                scroll.using(engine.connect())
            with plain.connect() as connection, pytest.raises(InvalidRequest):
                scroll.using(connection)
        plain.dispose()
        await engine.dispose()

    asyncio.run(main())


def test_a_file_for_each_agent_is_refused(tmp_path: Path) -> None:
    async def refused() -> None:
        with pytest.raises(InvalidRequest, match="to_thread"):
            await AsyncBackscroll.open(f"sqlite:///{tmp_path}/{{agent_id}}.db")

    asyncio.run(refused())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["aiosqlite", "greenlet"])
def test_without_the_extra_the_error_names_it(package: str) -> None:
    program = (
        f"import sys, asyncio; sys.modules[{package!r}] = None\n"
        "from backscroll import AsyncBackscroll, Backscroll\n"
        "Backscroll.open('sqlite://').close()\n"
        "async def main():\n    await AsyncBackscroll.open('sqlite://')\n"
        "asyncio.run(main())"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert f"AsyncBackscroll needs the package {package}: pip install 'backscroll[async]'" in result.stderr


# Many at once.


@pytest.mark.parametrize("where", ["file", "memory", "the host's engine", "the host's engine with one connection"])
def test_many_writers_and_readers_at_once_lose_nothing(where: str, store_path: Path) -> None:
    async def main() -> None:
        engine = None
        if "host" in where:
            pool: dict[str, Any] = {"pool_size": 1, "max_overflow": 0} if "one" in where else {}
            engine = create_async_engine(f"sqlite+aiosqlite:///{store_path}", **pool)
        target = engine or settings(None if where == "memory" else store_path)
        async with AsyncBackscroll.open(target) as scroll:
            await scroll.ensure_session(KEY)
            calls: list[Coroutine[Any, Any, object]] = []
            for number in range(50):
                calls.append(scroll.append(KEY, "user", f"granite place{number}", message_id=f"m{number}"))
                if number % 5 == 0:
                    calls.append(scroll.search("granite", requester=OPERATOR))
                    calls.append(scroll.history(KEY, requester=OPERATOR))
            await asyncio.gather(*calls)
            page = await scroll.history(KEY, requester=OPERATOR, limit=200)
            assert {message.message_id for message in page.messages} == {f"m{number}" for number in range(50)}
            assert (await scroll.verify()).ok
        if engine is not None:
            async with engine.connect() as connection:
                assert await connection.scalar(sa.text("SELECT count(*) FROM backscroll_messages")) == 50
            await engine.dispose()

    asyncio.run(main())


def test_writers_that_wait_leave_connections_to_readers_and_give_up_in_time(store_path: Path) -> None:
    async def main() -> None:
        async with AsyncBackscroll.open(settings(store_path, busy_timeout=0.3)) as scroll:
            await scroll.ensure_session(KEY)
            with closing(sqlite3.connect(store_path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                writers = [asyncio.create_task(scroll.append(KEY, "user", "x")) for _ in range(40)]
                assert await found(scroll, "x") == []
                assert not any(writer.done() for writer in writers)
                results = await asyncio.gather(*writers, return_exceptions=True)
                other.execute("ROLLBACK")
            assert {type(result) for result in results} == {StoreUnavailable}
            assert all(result.locked for result in results if isinstance(result, StoreUnavailable))
            await scroll.append(KEY, "user", "x")

    asyncio.run(main())


def test_two_new_stores_are_migrated_at_once_on_a_loop_and_by_threads(tmp_path: Path) -> None:
    async def main() -> None:
        names = [f"{name}.db" for name in "abc"]
        opening = [AsyncBackscroll.open(settings(tmp_path / name)) for name in names]

        async def enter(one: Any) -> None:
            async with one as scroll:
                assert (await scroll.verify()).ok

        threads = [asyncio.to_thread(lambda n=n: opened(tmp_path / f"t{n}.db").close()) for n in range(3)]
        await asyncio.gather(*map(enter, opening), *threads)

    asyncio.run(main())


def test_two_stores_live_in_one_process_each_with_its_own_settings(tmp_path: Path) -> None:
    async def main() -> None:
        mine = AsyncBackscroll.open(settings(tmp_path / "a.db", visibility="self"))
        async with mine as one, AsyncBackscroll.open(settings(tmp_path / "b.db")) as two:
            with opened(tmp_path / "b.db") as same, opened(tmp_path / "c.db", visibility="self") as three:
                for scroll in (one, two):
                    await scroll.ensure_session(KEY)
                    await scroll.append(KEY, "user", "granite", message_id="m")
                three.ensure_session(KEY)
                asking = Requester(OTHER)
                assert (await one.search("granite", requester=asking)).hits == ()
                assert len((await two.search("granite", requester=asking)).hits) == 1
                assert len(same.search("granite", requester=asking).hits) == 1
                assert three.search("granite", requester=OPERATOR).hits == ()

    asyncio.run(main())


# Cancellation.


class Points:
    """The points of a call at which something happens on an engine; at one of them the call's task is cancelled."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.passed: list[str] = []
        self._cancel_at = -1
        self._cancel: Callable[[], object] = lambda: None
        for name in ("begin", "commit", "rollback", "savepoint", "rollback_savepoint", "release_savepoint"):
            event.listen(engine.sync_engine, name, self._seen(name))
        for name in ("before_cursor_execute", "after_cursor_execute"):
            event.listen(engine.sync_engine, name, self._seen(name), named=True)
        for name in ("connect", "checkout", "checkin", "reset"):
            event.listen(engine.sync_engine.pool, name, self._seen(name))

    def _seen(self, name: str) -> Callable[..., None]:
        def seen(*args: object, **kwargs: object) -> None:
            self.passed.append(name)
            if len(self.passed) == self._cancel_at:
                self._cancel()

        return seen

    async def cancelled_at(self, number: int, call: Coroutine[Any, Any, object], *, everything: bool) -> bool:
        """Does `call`, cancelled at its point of that number; whether it had so many."""
        task = asyncio.create_task(call)
        here = asyncio.current_task()

        def cancel() -> None:
            for one in asyncio.all_tasks() - {here} if everything else {task}:
                one.cancel()

        self.passed, self._cancel_at, self._cancel = [], number, cancel
        try:
            await task
        except asyncio.CancelledError:
            assert len(self.passed) >= number
        finally:
            self._cancel_at = -1
        return len(self.passed) >= number


@asynccontextmanager
async def host_engine(path: Path | None, **more: Any) -> AsyncIterator[AsyncEngine]:
    if path is None:
        more = {"poolclass": sa.pool.AsyncAdaptedQueuePool, "pool_size": 1, "max_overflow": 0}
    engine = create_async_engine(f"sqlite+aiosqlite:///{path or ''}", **more)
    try:
        yield engine
    finally:
        await engine.dispose()


def three(number: int) -> list[NewMessage]:
    return [NewMessage("user", f"batch{number} word{n}", message_id=f"b{number}x{n}") for n in range(3)]


@pytest.mark.parametrize(
    ("where", "everything"),
    [("file", False), ("memory", False), ("file", True)],
    ids=["file", "memory", "every task is cancelled, as when a loop ends"],
)
def test_a_call_cancelled_at_any_point_stores_all_or_nothing(where: str, everything: bool, store_path: Path) -> None:
    async def main() -> None:
        path = store_path if where == "file" else None
        async with host_engine(path) as engine, AsyncBackscroll.open(engine) as scroll:
            await scroll.ensure_session(KEY)
            points = Points(engine)
            stored: dict[int, int] = {}
            number = 1
            while await points.cancelled_at(number, scroll.append_many(KEY, three(number)), everything=everything):
                names = list(points.passed)
                assert engine.sync_engine.pool.checkedout() == 0
                stored[number] = len(await found(scroll, f"batch{number}"))
                # The statement that is on its way then is the last one.
                if not everything and "commit" not in names[: number + 2]:
                    assert stored[number] == 0, names
                number += 1
            assert set(stored.values()) == {0, 3}
            assert len(await found(scroll, f"batch{number}")) == 3
            assert number > 12
            async with engine.connect() as connection:
                raw = await connection.get_raw_connection()
                assert not raw.driver_connection.in_transaction
            assert (await scroll.verify()).ok

    asyncio.run(main())


def test_a_call_cancelled_at_any_point_leaves_the_hosts_transaction_as_it_was_or_has_done_all(
    store_path: Path,
) -> None:
    async def main() -> None:
        async with host_engine(store_path) as engine, AsyncBackscroll.open(engine) as scroll:
            await scroll.ensure_session(KEY)
            async with engine.begin() as connection:
                await connection.execute(sa.text("CREATE TABLE messages (id INTEGER)"))
            points = Points(engine)
            more, number, stored = True, 0, {0: 0}
            while more:
                number += 1
                async with engine.connect() as connection:
                    await connection.execute(sa.text("INSERT INTO messages VALUES (1)"))
                    inside = scroll.using(connection)
                    call = inside.append_many(KEY, three(number))
                    more = await points.cancelled_at(number, call, everything=False)
                    await inside.append(KEY, "user", "afterwards")
                    await connection.commit()
                stored[number] = len(await found(scroll, f"batch{number}"))
            assert set(stored.values()) == {0, 3}
            async with engine.connect() as connection:
                assert await connection.scalar(sa.text("SELECT count(*) FROM messages")) == number
            assert (await scroll.history(KEY, requester=OPERATOR)).total == number + sum(stored.values())
            assert (await scroll.verify()).ok

    asyncio.run(main())


@pytest.mark.parametrize("call", ["delete_session", "rewind", "reset", "edit", "search", "history"])
def test_other_calls_are_cancelled_whole_too(call: str, store_path: Path) -> None:
    async def main() -> None:
        async with host_engine(store_path) as engine, AsyncBackscroll.open(engine) as scroll:
            points = Points(engine)
            more, number = True, 0
            while more:
                number += 1
                await scroll.delete_session(KEY)
                await scroll.ensure_session(KEY)
                await scroll.append_many(KEY, [NewMessage("user", f"word{n}", message_id=f"m{n}") for n in range(5)])
                calls: dict[str, Coroutine[Any, Any, object]] = {
                    "delete_session": scroll.delete_session(KEY),
                    "rewind": scroll.rewind(KEY, "m1"),
                    "reset": scroll.reset(KEY, rotate=True),
                    "edit": scroll.edit(KEY, "m4", "changed"),
                    "search": scroll.search("word3", requester=OPERATOR),
                    "history": scroll.history(KEY, requester=OPERATOR),
                }
                chosen = calls.pop(call)
                for other in calls.values():
                    other.close()
                more = await points.cancelled_at(number, chosen, everything=False)
                assert engine.sync_engine.pool.checkedout() == 0
            assert (await scroll.verify()).ok

    asyncio.run(main())


def test_a_call_that_waits_is_cancelled_at_once(store_path: Path) -> None:
    async def main() -> None:
        async with host_engine(store_path, pool_size=2, max_overflow=0) as engine:
            # Whoever waits here would wait for an hour.
            @event.listens_for(engine.sync_engine, "connect")
            def _connected(connection: Any, record: object) -> None:
                connection.execute("PRAGMA busy_timeout = 3600000").close()

            async with AsyncBackscroll.open(engine, settings=settings(None, busy_timeout=3600)) as scroll:
                await scroll.ensure_session(KEY)
                with closing(sqlite3.connect(store_path, isolation_level=None)) as other:
                    other.execute("BEGIN IMMEDIATE")
                    for_lock = asyncio.create_task(scroll.append(KEY, "user", "x"))
                    for_turn = asyncio.create_task(scroll.append(KEY, "user", "x"))
                    await asyncio.sleep(0.05)
                    for_turn.cancel()
                    for_lock.cancel()
                    assert await asyncio.gather(for_lock, for_turn, return_exceptions=True) == [IsCancelled()] * 2
                    with pytest.raises(TimeoutError):
                        async with asyncio.timeout(0.02):
                            await scroll.append(KEY, "user", "x")
                    other.execute("ROLLBACK")
                async with engine.connect(), engine.connect():
                    for_connection = asyncio.create_task(scroll.search("x", requester=OPERATOR))
                    await asyncio.sleep(0.02)
                    for_connection.cancel()
                    assert await asyncio.gather(for_connection, return_exceptions=True) == [IsCancelled()]
                assert engine.sync_engine.pool.checkedout() == 0
                assert await found(scroll, "x") == []
                await scroll.append(KEY, "user", "x", message_id="m")
                assert await found(scroll, "x") == ["m"]

    asyncio.run(main())


class IsCancelled:
    def __eq__(self, other: object) -> bool:
        return isinstance(other, asyncio.CancelledError)


def test_a_cancelled_call_that_also_failed_is_cancelled(store_path: Path) -> None:
    async def main() -> None:
        async with AsyncBackscroll.open(settings(store_path)) as scroll:
            await scroll.ensure_session(KEY)
            task: asyncio.Task[object]

            def audit(event: object) -> None:
                task.cancel()

            async with AsyncBackscroll.open(settings(store_path), audit=audit) as audited:
                task = asyncio.create_task(audited.history(OTHER, requester=OPERATOR))
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert task.cancelled()

    asyncio.run(main())


def test_opening_and_closing_may_be_cancelled(tmp_path: Path) -> None:
    async def main() -> None:
        for turns in range(0, 60, 3):
            path = tmp_path / f"{turns}.db"
            task = asyncio.create_task(_opened_and_closed(path))
            for _ in range(turns):
                await asyncio.sleep(0.001)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert await left_open(path) == []
            async with AsyncBackscroll.open(settings(path)) as scroll:
                assert (await scroll.verify()).ok

    asyncio.run(main())


async def _opened_and_closed(path: Path) -> None:
    async with AsyncBackscroll.open(settings(path)) as scroll:
        await scroll.ensure_session(KEY)


def test_a_task_that_a_callback_starts_is_not_part_of_the_call(store_path: Path) -> None:
    async def main() -> None:
        noted: list[asyncio.Task[object]] = []

        async def note() -> object:
            with opened(store_path) as plain:
                return plain.append(KEY, "user", "noted")

        def audit(event: object) -> None:
            noted.append(asyncio.create_task(note()))
            reading.cancel()

        async with AsyncBackscroll.open(settings(store_path), audit=audit) as scroll:
            await scroll.ensure_session(KEY)
            reading = asyncio.create_task(scroll.history(KEY, requester=OPERATOR))
            await asyncio.gather(reading, return_exceptions=True)
            await asyncio.gather(*noted)
            assert reading.cancelled()
            assert len(noted) == 1

    asyncio.run(main())


# Reindexing.


def outdate(path: Path, sessions: int = 6, messages: int = 40, text: str = "granite") -> int:
    """Fills the store and takes it back to the revision without an index; how many messages there are."""
    with opened(path) as scroll:
        for number in range(sessions):
            scroll.ensure_session(f"agent:main:{number}")
            scroll.append_many(
                f"agent:main:{number}", [NewMessage("user", f"{text} 备份 {place}") for place in range(messages)]
            )
    engine = create_engine(f"sqlite:///{path}", busy_timeout=5, synchronous="NORMAL")
    with begun(engine, writing=True) as connection:
        migrate.downgrade(connection, "0001")
        connection.commit()
    engine.dispose()
    return sessions * messages


async def beating(beats: list[int]) -> None:
    while True:
        beats[0] += 1
        await asyncio.sleep(0)


def test_the_loop_has_its_turn_between_all_steps_of_reindexing(store_path: Path) -> None:
    total = outdate(store_path)

    async def main() -> None:
        async with AsyncBackscroll.open(settings(store_path)) as scroll:
            beats = [0]
            heart = asyncio.create_task(beating(beats))
            seen: list[int] = []
            report = await scroll.reindex(progress=lambda done, total: seen.append(beats[0]))
            heart.cancel()
            assert report.added == total
            assert len(seen) >= total // 50
            assert all(later > earlier for earlier, later in pairwise(seen))
            assert (await scroll.verify()).ok

    asyncio.run(main())


def test_the_loop_has_its_turn_between_long_texts_of_one_step() -> None:
    class Row:
        text = "x" * 20_000

    async def main() -> None:
        engine = create_async_engine("sqlite+aiosqlite://")
        beats = [0]
        heart = asyncio.create_task(beating(beats))
        seen = await bridge.carried_out(lambda: [beats[0] for _ in bridge.paced(engine.dialect, [Row()] * 10)])
        heart.cancel()
        assert all(later > earlier for earlier, later in pairwise(seen))
        await engine.dispose()

    asyncio.run(main())


@pytest.mark.parametrize("where", ["own engine", "the host's engine with one connection"])
def test_the_next_search_starts_a_task_that_reindexes(where: str, store_path: Path) -> None:
    total = outdate(store_path)

    async def main() -> None:
        async with host_engine(store_path, pool_size=1, max_overflow=0) as engine:
            own = settings(store_path, background_reindex=True)
            async with AsyncBackscroll.open(own if where == "own engine" else engine) as scroll:
                assert (await scroll.search("granite", requester=OPERATOR)).indexing

                async def done() -> bool:
                    return not (await scroll.search("granite", requester=OPERATOR)).indexing

                await until(done)
                report = await scroll.verify()
                assert (report.ok, report.indexed) == (True, total)
            assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_closing_ends_the_background_task_where_nothing_is_half_done(store_path: Path) -> None:
    total = outdate(store_path)

    async def main() -> None:
        for turns in range(0, 40, 4):
            async with AsyncBackscroll.open(settings(store_path, background_reindex=True)) as scroll:
                await scroll.search("granite", requester=OPERATOR)
                for _ in range(turns):
                    await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}
        # Even while it waits for a lock that somebody holds for an hour.
        with closing(sqlite3.connect(store_path, isolation_level=None)) as other:
            own = settings(store_path, background_reindex=True, busy_timeout=3600)
            async with AsyncBackscroll.open(own) as scroll:
                other.execute("BEGIN IMMEDIATE")
                await scroll.search("granite", requester=OPERATOR)
                await asyncio.sleep(0.02)
            other.execute("ROLLBACK")

    asyncio.run(main())
    with opened(store_path) as scroll:
        assert scroll.reindex().failed == ()
        assert (scroll.verify().ok, scroll.verify().indexed) == (True, total)


def test_background_work_is_put_off_by_a_lock_and_starts_again_in_another_loop(
    store_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    outdate(store_path)
    scroll: AsyncBackscroll

    async def locked_out() -> None:
        nonlocal scroll
        scroll = await AsyncBackscroll.open(settings(store_path, background_reindex=True, busy_timeout=0.5))
        with closing(sqlite3.connect(store_path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert (await scroll.search("granite", requester=OPERATOR)).indexing

            async def logged() -> bool:
                return "background work is put off" in caplog.text

            await until(logged)
            other.execute("ROLLBACK")
        # The loop ends while work is on its way.
        await scroll.search("granite", requester=OPERATOR)
        await asyncio.sleep(0)

    async def again() -> None:
        async def done() -> bool:
            return not (await scroll.search("granite", requester=OPERATOR)).indexing

        await until(done)
        await asyncio.gather(*(scroll.append("agent:main:0", "user", "x") for _ in range(20)))
        assert (await scroll.verify()).ok
        await scroll.close()

    with caplog.at_level(logging.WARNING, "backscroll.worker"):
        asyncio.run(locked_out())
        asyncio.run(again())


def test_a_cancelled_reindexing_is_taken_up_where_it_was(store_path: Path) -> None:
    total = outdate(store_path)

    async def main() -> None:
        async with AsyncBackscroll.open(settings(store_path)) as scroll:
            task = asyncio.create_task(scroll.reindex(progress=lambda done, total: task.cancel()))
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await scroll.search("granite", requester=OPERATOR)).indexing
            first = (await scroll.verify()).indexed
            assert 0 < first < total
            assert (await scroll.reindex()).added == total - first
            assert (await scroll.verify()).ok

    asyncio.run(main())


# Nothing is left.


async def left_open(path: Path) -> list[str]:
    """The store's files that stay open, however long the driver's thread takes to close what it was opening."""
    for _ in range(500):
        # SQLite closes a file when its last statement is gone, and the traceback of a cancellation may hold one.
        gc.collect()
        if not open_files(path):
            break
        await asyncio.sleep(0.01)
    return open_files(path)


def open_files(path: Path) -> list[str]:
    """The names of this process's open files that belong to the store."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(entry)
        except OSError:
            continue
        if str(path) in target:
            found.append(target)
    return found


ENDING = """
import asyncio, gc, sys, threading
from backscroll import AsyncBackscroll, Backscroll, Requester

url, operator = sys.argv[1], Requester.operator()

async def main():
    async with AsyncBackscroll.open(url) as one, AsyncBackscroll.open("sqlite://") as two:
        for scroll in (one, two):
            await scroll.ensure_session("agent:main:main")
            await asyncio.gather(*(scroll.append("agent:main:main", "user", "granite") for _ in range(30)))
            task = asyncio.create_task(scroll.append("agent:main:main", "user", "granite"))
            await asyncio.sleep(0.001)
            task.cancel()
            await scroll.search("granite", requester=operator)
    left = asyncio.all_tasks() - {asyncio.current_task(), task}
    assert not left, left

asyncio.run(main())
with Backscroll.open(url) as scroll:
    scroll.append("agent:main:main", "user", "granite")
    scroll.search("granite", requester=operator)
gc.collect()
for thread in threading.enumerate():
    if thread is not threading.main_thread():
        thread.join(5)
assert threading.active_count() == 1, threading.enumerate()
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_closing_leaves_no_thread_file_or_warning(store_path: Path) -> None:
    program = [sys.executable, "-X", "dev", "-W", "error", "-c", ENDING, f"sqlite:///{store_path}"]
    result = subprocess.run(program, capture_output=True, text=True, check=False)
    # In its debug mode asyncio tells of slow callbacks.
    told = [line for line in result.stderr.splitlines() if not re.match(r"Executing <.* took .* seconds$", line)]
    assert (result.returncode, told) == (0, [])
    assert {file.name for file in store_path.parent.iterdir() if file.name.startswith("store")} == {"store.db"}

    async def main() -> None:
        before = threading.active_count()
        async with AsyncBackscroll.open(settings(store_path)) as scroll:
            assert open_files(store_path)
            assert await found(scroll, "granite")
        assert open_files(store_path) == []

        async def gone() -> bool:
            return threading.active_count() == before

        await until(gone)

    asyncio.run(main())
    with opened(store_path) as scroll:
        assert open_files(store_path)
        assert scroll.search("granite", requester=OPERATOR).hits
    assert open_files(store_path) == []


def test_closing_waits_for_what_is_on_its_way_and_refuses_what_comes_later(store_path: Path) -> None:
    async def main() -> None:
        async with AsyncBackscroll.open(settings(store_path)) as scroll:
            await scroll.ensure_session(KEY)
            calls = [asyncio.create_task(scroll.append(KEY, "user", "x", message_id=f"m{n}")) for n in range(30)]
            await calls[0]
        assert open_files(store_path) == []
        results = await asyncio.gather(*calls, return_exceptions=True)
        refused = [result for result in results if isinstance(result, BaseException)]
        assert {(type(error), str(error)) for error in refused} == {(StoreUnavailable, "this store is closed")}
        with opened(store_path) as plain:
            assert plain.history(KEY, requester=OPERATOR).total == 30 - len(refused)
        assert open_files(store_path) == []

    asyncio.run(main())


def test_a_hosts_connection_stays_open_and_usable_when_the_facade_closes(store_path: Path) -> None:
    async def main() -> None:
        async with host_engine(store_path) as engine:
            scroll = await AsyncBackscroll.open(engine)
            connection: AsyncConnection = await engine.connect()
            inside = scroll.using(connection)
            await inside.ensure_session(KEY)
            await inside.close()
            await scroll.close()
            assert not connection.closed
            await connection.commit()
            await connection.close()
            async with AsyncBackscroll.open(engine, migrate=False) as again:
                assert len(await again.sessions(requester=OPERATOR)) == 1

    asyncio.run(main())
