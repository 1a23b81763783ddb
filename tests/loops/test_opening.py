"""On an event loop: what can be opened, and many calls and stores at once."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine

from backscroll import AsyncBackscroll, Backscroll, InvalidRequest, Requester, StoreUnavailable
from tests.factories import opened
from tests.loops.on_a_loop import KEY, OPERATOR, OTHER, found, settings


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
