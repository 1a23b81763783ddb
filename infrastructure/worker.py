"""Background work that exists while there is some: woken when there may be some, gone when it is done.

It runs on a thread of its own, or, for a store on an event loop, in a task of that loop.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from backscroll.domain.errors import StoreUnavailable
from backscroll.infrastructure.bridge import carried_out

_log = logging.getLogger("backscroll.worker")


Work = Callable[[Callable[[], bool]], None]
"""What is to be done until nothing is left, or until what it is given says that it shall stop."""


@contextmanager
def put_off() -> Iterator[None]:
    """Logs what background work fails with: the next search wakes it again, and what it was doing is still pending."""
    try:
        yield
    except StoreUnavailable as error:
        _log.warning("background work is put off: %s", error)
    except Exception:
        _log.exception("background work failed")


class Worker:
    """Runs `work` on a thread of its own whenever it is woken."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._woken = False
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """Sees to it that `work` runs once more from its beginning; after `close`, does nothing."""
        with self._lock:
            if self._stop.is_set():
                return
            self._woken = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="backscroll-worker", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stops the work at its next step and waits for the thread to end."""
        self._stop.set()
        with self._lock:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._woken or self._stop.is_set():
                    self._thread = None
                    return
                self._woken = False
            with put_off():
                self._work(self._stop.is_set)


class LoopWorker:
    """Runs `work` in a task of the event loop that wakes it; the work gives the loop its turn at each step."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._closed = False
        self._woken = False
        self._task: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Sees to it that `work` runs once more from its beginning; after `close`, does nothing."""
        if self._closed:
            return
        self._woken = True
        loop = asyncio.get_running_loop()
        # A task of another loop ended with that one.
        if self._task is None or self._task.done() or self._task.get_loop() is not loop:
            self._task = loop.create_task(self._run(), name="backscroll-worker")

    async def close(self) -> None:
        """Stops the work where nothing is half done, and waits for that."""
        self._closed = True
        task = self._task
        if task is not None and task.get_loop() is asyncio.get_running_loop():
            task.cancel()
            await asyncio.wait((task,))

    async def _run(self) -> None:
        while self._woken and not self._closed:
            self._woken = False
            with put_off():
                await carried_out(lambda: self._work(lambda: self._closed))
