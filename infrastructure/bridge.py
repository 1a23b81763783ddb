"""Synchronous work on an event loop: carried out through SQLAlchemy's greenlets, cancelled where nothing is half done.

A cancellation in the middle of a statement would leave the connection in an unknown state, and SQLAlchemy then closes
it: a host's connection in the middle of its transaction, or all there is of a database in memory. So the work runs in
a task of its own. A cancellation is noted, and takes effect where the work waits for a connection or the write lock,
between two transactions, or instead of a commit. Then the caller gets it.

The work asks its connection's dialect whether it is on a loop; none of this concerns a synchronous engine.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.util import await_only, greenlet_spawn

from backscroll.domain.errors import StoreUnavailable

T = TypeVar("T")
_BREATH = 16_384
"""Characters that are analysed before the loop gets its turn: about a millisecond."""


class _HasText(Protocol):
    @property
    def text(self) -> str: ...


TextRow = TypeVar("TextRow", bound=_HasText)


class _Call:
    """One piece of work on its way."""

    __slots__ = ("cancelled", "interruptible", "task")

    def __init__(self) -> None:
        self.task: asyncio.Task[Any] | None = None
        self.cancelled = asyncio.Event()
        self.interruptible = False

    def cancel(self) -> None:
        self.cancelled.set()
        if self.interruptible and self.task is not None:
            # Once: what tidies up after it must not be interrupted too.
            self.interruptible = False
            self.task.cancel()


_calls: ContextVar[_Call | None] = ContextVar("backscroll_call", default=None)


async def finished(work: Coroutine[Any, Any, T], on_cancel: Callable[[], None]) -> T:
    """Awaits `work` to its end, whatever happens; a cancellation meanwhile is told to `on_cancel` and raised then."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
            on_cancel()
    if cancelled is not None:
        raise cancelled from (None if task.cancelled() else task.exception())
    return task.result()


async def carried_out(work: Callable[[], T], among: set[asyncio.Task[Any]] | None = None) -> T:
    """Does synchronous `work` on this event loop, which goes on while the work waits for the database.

    While it is on its way its task is `among` the others, for somebody who must wait for the last of them.
    """
    call = _Call()

    async def body() -> T:
        call.task = task = asyncio.current_task()
        _calls.set(call)
        if among is not None and task is not None:
            among.add(task)
            task.add_done_callback(among.discard)
        return await greenlet_spawn(work)

    return await finished(body(), call.cancel)


def _call_here() -> _Call | None:
    """The call that this code is part of; not one whose context was merely inherited by a task or a thread."""
    call = _calls.get()
    try:
        return call if call is not None and asyncio.current_task() is call.task else None
    except RuntimeError:
        return None


def checkpoint() -> None:
    """Lets a cancellation take effect, if one is noted: nothing is half done here."""
    call = _call_here()
    if call is not None and call.cancelled.is_set():
        raise asyncio.CancelledError


def interruptible() -> AbstractContextManager[None]:
    """Lets a cancellation take effect at once inside: for what only waits, and tidies up after itself."""
    checkpoint()
    return _interruptible(True)


def uninterrupted() -> AbstractContextManager[None]:
    """Inside `interruptible`, a part that does not tidy up: what is noted there waits for the next checkpoint."""
    return _interruptible(False)


def _interruptible(allowed: bool) -> AbstractContextManager[None]:
    call = _call_here()
    return _NOT_ON_A_LOOP if call is None else _letting(call, allowed)


_NOT_ON_A_LOOP = nullcontext()


@contextmanager
def _letting(call: _Call, allowed: bool) -> Iterator[None]:
    before, call.interruptible = call.interruptible, allowed
    try:
        yield
    finally:
        call.interruptible = before


def pause(dialect: sa.Dialect, seconds: float) -> None:
    """Waits, outside every transaction or before one; a cancellation ends it."""
    if dialect.is_async:
        await_only(_slept(_call_here(), seconds))
    else:
        time.sleep(seconds)


async def _slept(call: _Call | None, seconds: float) -> None:
    if call is None:
        await asyncio.sleep(seconds)
        return
    try:
        async with asyncio.timeout(seconds):
            await call.cancelled.wait()
    except TimeoutError:
        return
    raise asyncio.CancelledError


def paced(dialect: sa.Dialect, rows: Iterable[TextRow]) -> Iterator[TextRow]:
    """The rows, for somebody who analyses their text, with a turn for the event loop after every few of them."""
    read = 0
    for row in rows:
        if read > _BREATH and dialect.is_async:
            await_only(asyncio.sleep(0))
            read = 0
        read += len(row.text)
        yield row


class Turn:
    """The turn of one writer after the other among those of one store on one event loop.

    Otherwise each would have a connection and ask SQLite for the write lock again and again, with none left to read.
    `patience` is in seconds; whoever waited longer for the others is refused as by a lock.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()

    @contextmanager
    def taken(self, dialect: sa.Dialect) -> Iterator[None]:
        """Waits for the turn, and has it inside. Without an event loop there are no turns."""
        if not dialect.is_async:
            yield
            return
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._lock = loop, asyncio.Lock()
        lock = self._lock
        with interruptible():
            await_only(self._acquired(lock))
        try:
            yield
        finally:
            lock.release()

    async def _acquired(self, lock: asyncio.Lock) -> None:
        try:
            async with asyncio.timeout(self._patience):
                await lock.acquire()
        except TimeoutError as error:
            raise StoreUnavailable("the writers before this one took too long", locked=True) from error
