"""On an event loop: reindexing gives the loop its turn, begins by itself and goes on where it was."""

import asyncio
import logging
import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from backscroll import AsyncBackscroll, NewMessage
from backscroll.infrastructure import bridge, migrate
from backscroll.infrastructure.engine import begun, create_engine
from tests.factories import opened
from tests.loops.on_a_loop import OPERATOR, host_engine, settings, until


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
