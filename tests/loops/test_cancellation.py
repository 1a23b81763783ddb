"""On an event loop: a call that is cancelled at any point has done all or nothing."""

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from backscroll import AsyncBackscroll, NewMessage
from tests.factories import opened
from tests.loops.on_a_loop import KEY, OPERATOR, OTHER, found, host_engine, left_open, settings


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
