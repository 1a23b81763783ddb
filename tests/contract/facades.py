"""Facades of a thread and of an event loop, on files and in memory, all called in the same way."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from backscroll import (
    AsyncBackscroll,
    Backscroll,
    NewMessage,
    Requester,
    Settings,
)

KEY, OTHER = "agent:main:main", "agent:main:other"
OPERATOR = Requester.operator()


class Blocking:
    """Something of an event loop, called as if it were of none: whatever a method gives is awaited."""

    def __init__(self, runner: asyncio.Runner, of: Any, *, entered: bool = False) -> None:
        self._runner, self._of, self._entered = runner, of, entered

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._of, name)
        return partial(self._call, value) if callable(value) else value

    def __enter__(self) -> "Blocking":
        return self if self._entered else Blocking(self._runner, self._wait_for(self._of.__aenter__()))

    def __exit__(self, *error: object) -> None:
        self._wait_for(self._of.__aexit__(*error))

    def _call(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        value = method(*(arg._of if isinstance(arg, Blocking) else arg for arg in args), **kwargs)
        awaited = inspect.isawaitable(value)
        if awaited:
            value = self._wait_for(value)
        return Blocking(self._runner, value, entered=awaited) if hasattr(value, "__aenter__") else value

    def _wait_for(self, value: Awaitable[Any]) -> Any:
        async def wait() -> Any:
            return await value

        return self._runner.run(wait())


@dataclass
class Kind:
    """How the facades of one kind are opened, and how a host of theirs works."""

    url: str
    runner: asyncio.Runner | None

    def open(self, target: Any = None, **more: Any) -> Any:
        settings = Settings(database_url=self.url, background_reindex=False, synchronous="NORMAL")
        target = target or settings
        if self.runner is None:
            return Backscroll.open(target, **more)
        target = target._of if isinstance(target, Blocking) else target
        return Blocking(self.runner, AsyncBackscroll).open(target, **more)

    def engine(self) -> Any:
        if self.runner is None:
            return sa.create_engine(self.url)
        return Blocking(self.runner, create_async_engine(self.url.replace("sqlite:", "sqlite+aiosqlite:")))

    def session(self, engine: Any) -> Any:
        if self.runner is None:
            return orm.Session(engine)
        return Blocking(self.runner, AsyncSession(engine._of))


@contextmanager
def kind_of(name: str, path: Path) -> Iterator[Kind]:
    url = "sqlite://" if "memory" in name else f"sqlite:///{path}"
    if name.startswith("thread"):
        yield Kind(url, None)
        return
    with asyncio.Runner() as runner:
        yield Kind(url, runner)


def stored(scroll: Any) -> Any:
    scroll.ensure_session(KEY)
    scroll.append_many(KEY, [NewMessage("user", f"granite place{n}", message_id=f"m{n}") for n in range(6)])
    return scroll


def found(scroll: Any, words: str, **more: Any) -> list[str]:
    return sorted(hit.message_id for hit in scroll.search(words, requester=OPERATOR, **more).hits)


def shown(scroll: Any, key: str = KEY, **more: Any) -> list[str]:
    return [message.message_id for message in scroll.history(key, requester=OPERATOR, **more).messages]
