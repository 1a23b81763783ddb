"""A background thread that exists while there is work: woken when there may be some, gone when it is done."""

import logging
import threading
from collections.abc import Callable

from backscroll.domain.errors import StoreUnavailable

_log = logging.getLogger("backscroll.worker")


class Worker:
    """Runs `work` on a thread of its own whenever it is woken; `work` must return soon after the event is set."""

    def __init__(self, work: Callable[[threading.Event], None]) -> None:
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
            try:
                self._work(self._stop)
            # The next search wakes the worker again; what it was doing is still pending.
            except StoreUnavailable as error:
                _log.warning("background work is put off: %s", error)
            except Exception:
                _log.exception("background work failed")
