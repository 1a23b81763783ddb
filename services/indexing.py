"""Keeping the index: bringing pending transcripts up to date, comparing, repairing."""

from backscroll.domain.errors import BackscrollError
from backscroll.domain.ports import Progress, Store
from backscroll.domain.results import IndexReport, ReindexReport

_BATCH = 200
"""Messages per transaction: a writer beside it waits for no more than these."""


class Indexing:
    """The use cases of an operator."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def reindex(self, progress: Progress | None) -> ReindexReport:
        """Brings every pending transcript up to date, the newest first; a failing one does not stop the others."""
        done = added = removed = 0
        failed: list[tuple[str, str]] = []
        with self._store.reading() as unit:
            total = unit.index.pending_count()
        while (session_id := self._next([name for name, _ in failed])) is not None:
            try:
                more = self._transcript(session_id)
            except BackscrollError as error:
                failed.append((session_id, str(error)))
                continue
            done, added, removed = done + 1, added + more[0], removed + more[1]
            if progress is not None:
                progress(done, max(total, done))
        return ReindexReport(transcripts=done, added=added, removed=removed, failed=tuple(failed))

    def _next(self, skip: list[str]) -> str | None:
        with self._store.writing() as unit:
            session_id = unit.index.next_pending(skip)
            unit.commit()
            return session_id

    def _transcript(self, session_id: str) -> tuple[int, int]:
        added = removed = 0
        done = False
        while not done:
            with self._store.writing() as unit:
                more, less, done = unit.index.reindex_some(session_id, _BATCH)
                unit.commit()
            added, removed = added + more, removed + less
        return added, removed

    def verify(self, progress: Progress | None) -> IndexReport:
        """Compares index and transcripts and changes nothing."""
        # FTS5 checks itself by a statement that SQLite counts as a write; it is rolled back.
        with self._store.writing() as unit:
            return unit.index.verify(progress)

    def repair(self, progress: Progress | None) -> IndexReport:
        """Makes the index agree with the transcripts, then compares."""
        with self._store.writing() as unit:
            unit.index.settle()
            unit.commit()
        return self.verify(progress)
