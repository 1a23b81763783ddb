"""The few files that are open at a time: a pool that closes what was used longest ago, never what is in use."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from backscroll.domain.errors import StoreUnavailable
from backscroll.infrastructure.per_agent.files import identity


class Closable(Protocol):
    """Something that is open until it is closed."""

    def close(self) -> None:
        """Closes it."""
        ...


Opened = TypeVar("Opened", bound=Closable)


@dataclass(slots=True)
class _Entry(Generic[Opened]):
    path: Path
    users: int = 0
    opened: Opened | None = None
    identity: tuple[int, int] | None = None
    """Device and number of the file that was opened: another one may stand under its name since."""
    lock: threading.Lock = field(default_factory=threading.Lock)


class Pool(Generic[Opened]):
    """Opens files when they are asked for and keeps at most `most` of them open.

    Whoever asks while all are in use waits up to `patience` seconds, then meets `StoreUnavailable`.
    """

    def __init__(self, open_file: Callable[[Path], Opened], *, most: int, patience: float) -> None:
        self._open_file = open_file
        self._most = most
        self._patience = patience
        self._changed = threading.Condition()
        self._entries: OrderedDict[Path, _Entry[Opened]] = OrderedDict()
        self._closed = False

    @contextmanager
    def lease(self, path: Path) -> Iterator[Opened]:
        """The open file, which stays so until the lease ends."""
        entry = self._take(path)
        try:
            with entry.lock:
                if entry.opened is None:
                    entry.identity = identity(path)
                    entry.opened = self._open_file(path)
            yield entry.opened
        finally:
            self._give_back(entry)

    def close(self) -> None:
        """Closes every file that nobody uses; the others close when their users are done, and none stays open then."""
        self._closed = True
        self._close_all(self._retire(lambda _: True))

    def _take(self, path: Path) -> _Entry[Opened]:
        end = time.monotonic() + self._patience
        retired: list[_Entry[Opened]] = []
        try:
            with self._changed:
                retired += self._retire(
                    lambda one: one.path == path and one.opened is not None and one.identity != identity(path)
                )
                while (entry := self._entries.get(path)) is None:
                    if len(self._entries) < self._most:
                        entry = self._entries[path] = _Entry(path)
                        break
                    if idle := next((one for one in self._entries.values() if not one.users), None):
                        retired.append(self._entries.pop(idle.path))
                    elif not self._changed.wait(end - time.monotonic()):
                        raise StoreUnavailable("no agent's file could be closed in time to open another", locked=True)
                entry.users += 1
                self._entries.move_to_end(path)
                return entry
        finally:
            # Closing may write what is left in a log: nobody else waits for that.
            self._close_all(retired)

    def _give_back(self, entry: _Entry[Opened]) -> None:
        with self._changed:
            entry.users -= 1
            kept = self._entries.get(entry.path) is entry
            gone = not entry.users and (entry.opened is None or self._closed or not kept)
            if gone and kept:
                del self._entries[entry.path]
            self._changed.notify()
        if gone:
            self._close_all([entry])

    def _retire(self, which: Callable[[_Entry[Opened]], bool]) -> list[_Entry[Opened]]:
        """Takes entries out of the pool; gives those that nobody uses, to be closed."""
        with self._changed:
            out = [entry for entry in self._entries.values() if which(entry)]
            for entry in out:
                del self._entries[entry.path]
            self._changed.notify_all()
            return [entry for entry in out if not entry.users]

    def _close_all(self, entries: list[_Entry[Opened]]) -> None:
        for entry in entries:
            if entry.opened is not None:
                entry.opened.close()
