"""Keeping the store small: merging, emptying the log, retention."""

from collections.abc import Callable
from datetime import datetime, timedelta

from backscroll.domain.drafts import checked_time
from backscroll.domain.errors import InvalidRequest
from backscroll.domain.ports import Clock, Store, UnitOfWork
from backscroll.domain.results import MaintenanceReport, PruneReport

_PAUSE = 0.005
"""Seconds without the write lock after each step of a merge: a writer that waits must find it free."""
_CHUNK = 500
"""Sessions that retention looks up at a time."""


class Maintaining:
    """The use cases that tidy."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def maintain(self, *, vacuum: bool) -> MaintenanceReport:
        """Tidies the index in short steps beside the writers, empties the log, and writes the file anew if asked."""
        before = self._store.size()
        self._in_steps(lambda unit, _: unit.index.date_some())
        self._in_steps(lambda unit, first: unit.index.merge_some(begin=first))
        self._store.tidy(vacuum=vacuum)
        return MaintenanceReport(bytes_before=before, bytes_after=self._store.size(), vacuumed=vacuum)

    def _in_steps(self, step: Callable[[UnitOfWork, bool], bool]) -> None:
        first = more = True
        while more:
            with self._store.writing() as unit:
                more = step(unit, first)
                unit.commit()
            first = False
            self._store.pause(_PAUSE)

    def prune(self, since: datetime, *, keep: int, dry_run: bool) -> PruneReport:
        """Deletes the sessions not written to since then, each in a transaction of its own."""
        if dry_run:
            with self._store.reading() as unit:
                return PruneReport(session_keys=tuple(unit.sessions.untouched(since, keep, -1)))
        deleted: list[str] = []
        while keys := self._next(since, keep):
            for key in keys:
                with self._store.writing() as unit:
                    # Looked at again under the lock: it may have been written to since it was found.
                    session = unit.sessions.get(key)
                    if session is not None and session.updated_at < since and unit.sessions.remove(key):
                        deleted.append(key)
                    unit.commit()
        return PruneReport(session_keys=tuple(deleted), deleted=True)

    def _next(self, since: datetime, keep: int) -> list[str]:
        with self._store.reading() as unit:
            return unit.sessions.untouched(since, keep, _CHUNK)


def checked_retention(older_than: object, keep: object, clock: Clock) -> datetime:
    """Since when a session must have been written to; raises `InvalidRequest` for what cannot be asked."""
    if not isinstance(keep, int) or isinstance(keep, bool) or keep < 0:
        raise InvalidRequest(f"keep must be a whole number from 0 up, not {keep!r}")
    if isinstance(older_than, timedelta):
        if older_than < timedelta():
            raise InvalidRequest("older_than must not be negative")
        return clock() - older_than
    return checked_time(older_than, "older_than")
