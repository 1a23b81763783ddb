"""On an event loop: closing waits for what is on its way and leaves nothing behind."""

import asyncio
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from backscroll import AsyncBackscroll, StoreUnavailable
from tests.factories import opened
from tests.loops.on_a_loop import KEY, OPERATOR, found, host_engine, open_files, settings, until

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
