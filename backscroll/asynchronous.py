"""The facade for event loops: the same use cases and hooks as `Backscroll`, over an async engine.

There is no second copy of anything: each method hands the one of the same name to `bridge.carried_out`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import partial, wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

import sqlalchemy as sa

from backscroll.bootstrap import Backscroll, built_over, settings_for
from backscroll.domain.audit import Audit, no_audit
from backscroll.domain.errors import InvalidRequest
from backscroll.domain.limits import Batches
from backscroll.domain.ports import Redactor
from backscroll.domain.telemetry import Telemetry
from backscroll.infrastructure.bridge import carried_out, finished
from backscroll.infrastructure.engine import create_async_engine, require_async
from backscroll.infrastructure.per_agent.files import is_per_agent
from backscroll.infrastructure.settings import Settings
from backscroll.infrastructure.worker import LoopWorker

if TYPE_CHECKING:
    # Not to be had without greenlet; and whoever lacks that can still import everything.
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession

P = ParamSpec("P")
T = TypeVar("T")
_BATCHES = Batches(reindexed=50, imported=100)
"""Small, since between two waits for the database the loop stands still."""


def _awaited(
    method: Callable[Concatenate[Backscroll, P], T],
) -> Callable[Concatenate["AsyncBackscroll", P], Coroutine[Any, Any, T]]:
    """The coroutine of a method: the same arguments, result, errors and documentation."""

    @wraps(method)
    async def call(self: "AsyncBackscroll", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await carried_out(partial(method, self._scroll, *args, **kwargs), self._calls)

    return call


class AsyncBackscroll:
    """A store of conversations for an event loop: `async with AsyncBackscroll.open(...) as scroll`.

    Its methods are those of `Backscroll`, as coroutines. Any number of them may run at once; a facade belongs to one
    event loop at a time. Callbacks (`progress`, `audit`, a redactor) are plain functions, called on the loop's thread.

    A cancelled call has stored all or nothing. It ends at once while it waits for a connection or the write lock,
    else as soon as its transaction is undone or, if its commit was on the way, done.
    """

    def __init__(
        self, scroll: Backscroll, worker: LoopWorker | None = None, own_engine: "AsyncEngine | None" = None
    ) -> None:
        self._scroll = scroll
        self._worker = worker
        self._own_engine = own_engine
        self._calls: set[asyncio.Task[Any]] = set()

    @classmethod
    def open(
        cls,
        target: "str | AsyncEngine | Settings | None" = None,
        *,
        settings: Settings | None = None,
        migrate: bool = True,
        redactor: Redactor | None = None,
        audit: Audit = no_audit,
        telemetry: Telemetry | None = None,
    ) -> "Opening":
        """Opens a store: to be awaited, or entered with `async with`.

        Takes what `Backscroll.open` takes, with an `AsyncEngine` for an engine; a URL may name aiosqlite's driver or
        none. Raises what that raises, and `StoreUnavailable` without the packages of `backscroll[async]`.
        """
        return Opening(partial(cls._opened, target, settings, migrate, redactor, audit, telemetry))

    @classmethod
    async def _opened(
        cls,
        target: "str | AsyncEngine | Settings | None",
        given: Settings | None,
        migrate: bool,
        redactor: Redactor | None,
        audit: Audit,
        telemetry: Telemetry | None,
    ) -> Self:
        require_async()
        from sqlalchemy.ext.asyncio import AsyncEngine

        if isinstance(target, sa.Engine):
            raise InvalidRequest("an engine that is not for event loops is for Backscroll: give an AsyncEngine")
        if isinstance(target, AsyncEngine):
            settings, engine, own = settings_for(target.sync_engine, given), target, None
        else:
            settings = settings_for(target, given)
            if is_per_agent(settings.database_url):
                raise InvalidRequest(
                    "a file for each agent is for Backscroll, whose searches use threads: call it by asyncio.to_thread"
                )
            engine = own = create_async_engine(
                settings.database_url, busy_timeout=settings.busy_timeout, synchronous=settings.synchronous
            )
        try:
            scroll, worker = await carried_out(
                lambda: built_over(
                    Backscroll,
                    engine.sync_engine,
                    settings,
                    LoopWorker,
                    migrate=migrate,
                    redactor=redactor,
                    audit=audit,
                    telemetry=telemetry,
                    batches=_BATCHES,
                )
            )
        except BaseException:
            if own is not None:
                await finished(own.dispose(), _nothing)
            raise
        return cls(scroll, worker, own)

    ensure_session = _awaited(Backscroll.ensure_session)
    append = _awaited(Backscroll.append)
    append_many = _awaited(Backscroll.append_many)
    edit = _awaited(Backscroll.edit)
    rewind = _awaited(Backscroll.rewind)
    branches = _awaited(Backscroll.branches)
    switch_branch = _awaited(Backscroll.switch_branch)
    reset = _awaited(Backscroll.reset)
    delete_session = _awaited(Backscroll.delete_session)
    search = _awaited(Backscroll.search)
    history = _awaited(Backscroll.history)
    sessions = _awaited(Backscroll.sessions)
    reindex = _awaited(Backscroll.reindex)
    verify = _awaited(Backscroll.verify)
    repair = _awaited(Backscroll.repair)
    maintain = _awaited(Backscroll.maintain)
    prune = _awaited(Backscroll.prune)
    import_transcripts = _awaited(Backscroll.import_transcripts)

    def using(self, host: "AsyncConnection | AsyncSession") -> "AsyncBackscroll":
        """A facade that works inside the open transaction of the host's connection or session, begun if there is none.

        As `Backscroll.using`; one call at a time, as with everything that uses a connection.
        """
        from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

        if isinstance(host, AsyncSession):
            return AsyncBackscroll(self._scroll.using(host.sync_session))
        if not isinstance(host, AsyncConnection):
            raise InvalidRequest(f"using takes an AsyncConnection or AsyncSession, not {type(host).__name__}")
        if host.sync_connection is None:
            raise InvalidRequest("using takes a connection that is open: await engine.connect()")
        return AsyncBackscroll(self._scroll.using(host.sync_connection))

    async def close(self) -> None:
        """Ends the background work and closes the connections that this facade opened; a second call does nothing.

        It waits for the transactions that are on their way; what comes later is refused with `StoreUnavailable`.
        """
        await finished(self._ended(), _nothing)

    async def _ended(self) -> None:
        if self._worker is not None:
            await self._worker.close()
        self._scroll.close()
        while self._calls:
            await asyncio.wait(set(self._calls))
        engine, self._own_engine = self._own_engine, None
        if engine is not None:
            await engine.dispose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Opening:
    """A store about to be opened, by `await` or by `async with`."""

    def __init__(self, opened: Callable[[], Coroutine[Any, Any, AsyncBackscroll]]) -> None:
        self._open = opened
        self._scroll: AsyncBackscroll | None = None

    def __await__(self) -> Generator[Any, None, AsyncBackscroll]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncBackscroll:
        self._scroll = await self._open()
        return self._scroll

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._scroll is not None:
            await self._scroll.close()


def _nothing() -> None:
    """There is nothing to stop."""
