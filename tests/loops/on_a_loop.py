"""What tests on an event loop share: engines, a search, waiting, and which files are left open."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from backscroll import AsyncBackscroll, Requester, Settings

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


@asynccontextmanager
async def host_engine(path: Path | None, **more: Any) -> AsyncIterator[AsyncEngine]:
    if path is None:
        more = {"poolclass": sa.pool.AsyncAdaptedQueuePool, "pool_size": 1, "max_overflow": 0}
    engine = create_async_engine(f"sqlite+aiosqlite:///{path or ''}", **more)
    try:
        yield engine
    finally:
        await engine.dispose()


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
