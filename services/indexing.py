"""Keeping the index: bringing pending transcripts up to date, comparing, repairing."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from backscroll.domain.errors import StoreUnavailable
from backscroll.domain.limits import USUAL_BATCHES, Batches
from backscroll.domain.ports import Clock, NewId, Progress, Store
from backscroll.domain.results import IndexReport, ReindexReport
from backscroll.domain.telemetry import NO_TELEMETRY, Counter, Telemetry
from backscroll.services.observing import reindexed

_CLAIM_COST = 20
"""How many messages' time it takes to claim a transcript: a batch of many short ones must not grow long."""
_LEASE = timedelta(seconds=5)
"""How long a claim holds after each batch: as long as the work of a worker that died is left lying."""
_REST = timedelta(seconds=60)
"""How long a transcript that failed is left alone."""
_SPELL, _PAUSE = 0.03, 0.004
"""After so many seconds of one transaction after the other, so many without, for a writer that waits."""
_POLL = 0.2
"""Seconds between looks at what other workers still hold."""

_log = logging.getLogger("backscroll.reindex")


class Indexing:
    """The use cases of an operator."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        new_id: NewId,
        batches: Batches = USUAL_BATCHES,
        telemetry: Telemetry = NO_TELEMETRY,
    ) -> None:
        self._store = store
        self._clock = clock
        self._new_id = new_id
        self._most = batches.reindexed
        self._telemetry = telemetry

    def reindex(self, progress: Progress | None) -> ReindexReport:
        """Brings every pending transcript up to date, the newest first; waits for those that others have claimed."""
        total = self._pending()

        def tell(grown: ReindexReport) -> None:
            if progress is not None:
                progress(grown.transcripts, max(total, grown.transcripts))

        report = ReindexReport()
        while True:
            report = self._work(report, lambda: False, tell)
            with self._store.reading() as unit:
                if not unit.index.held(self._clock()):
                    return report
            self._store.pause(_POLL)

    def work(self, stopped: Callable[[], bool]) -> None:
        """Reindexes what nobody else has claimed until nothing is left or `stopped`: a background worker's turn."""

        def turn() -> ReindexReport:
            return self._work(ReindexReport(), stopped, lambda _: None)

        report = self._telemetry.observed("reindex", turn, reindexed, background=True)
        if report.transcripts:
            _log.info("reindexed %d transcripts, %d messages", report.transcripts, report.added)

    def _pending(self) -> int:
        with self._store.reading() as unit:
            return unit.index.pending_count()

    def _work(
        self, report: ReindexReport, stopped: Callable[[], bool], tell: Callable[[ReindexReport], None]
    ) -> ReindexReport:
        """Does one batch after the other and tells the grown report after each."""
        self._telemetry.pending(self._pending)
        worker, rested = self._new_id(), time.monotonic()
        claimed: str | None = None
        alone = False
        while not stopped():
            try:
                grown, claimed, more = self._batch(report, worker, claimed, alone=alone)
            except Exception as error:  # whatever it is, the other transcripts must not wait for it
                if isinstance(error, StoreUnavailable) and error.locked:
                    # But a lock is no failure of theirs.
                    raise
                if not alone:
                    # Undone as a whole. Once more, one transcript at a time, to see which one it is.
                    alone, claimed = True, None
                    continue
                if claimed is None:
                    raise
                _log.warning("reindexing transcript %s failed: %s", claimed, error)
                self._rest(claimed, worker, str(error))
                grown, more = replace(report, failed=(*report.failed, (claimed, str(error)))), True
                claimed, alone = None, False
            self._telemetry.count(Counter.REINDEXED, _rows(grown) - _rows(report))
            report = grown
            tell(report)
            if not more:
                break
            if time.monotonic() - rested > _SPELL:
                self._store.pause(_PAUSE)
                self._telemetry.pending(self._pending)
                rested = time.monotonic()
        self._telemetry.pending(self._pending)
        return report

    def _batch(
        self, report: ReindexReport, worker: str, claimed: str | None, *, alone: bool
    ) -> tuple[ReindexReport, str | None, bool]:
        """One transaction: as many transcripts as a batch holds, or with `alone` a claim or one step of one.

        Returns the grown report, the transcript that is not done yet, and whether anything is left to claim.
        """
        room, more = self._most, True
        with self._store.writing() as unit:
            while room > 0:
                now = self._clock()
                if claimed is None:
                    claimed = unit.index.claim(worker, now, now + _LEASE, [name for name, _ in report.failed])
                    if claimed is None:
                        more = False
                        break
                    if alone:
                        break
                step = unit.index.reindex_some(claimed, worker, now + _LEASE, room)
                room -= step.seen + _CLAIM_COST
                report = replace(
                    report,
                    transcripts=report.transcripts + step.done,
                    added=report.added + step.added,
                    removed=report.removed + step.removed,
                )
                if step.done:
                    claimed = None
                if alone:
                    break
            unit.commit()
        return report, claimed, more

    def _rest(self, session_id: str, worker: str, failure: str) -> None:
        with self._store.writing() as unit:
            unit.index.rest(session_id, worker, self._clock() + _REST, failure)
            unit.commit()

    def verify(self, progress: Progress | None) -> IndexReport:
        """Compares index and transcripts and changes nothing."""
        # FTS5 checks itself by a statement that SQLite counts as a write: the lock is held for that alone.
        with self._store.writing() as unit:
            damage = unit.index.integrity()
        with self._store.reading() as unit:
            report = unit.index.verify(progress)
        return replace(report, ok=False, problems=(damage, *report.problems)) if damage else report

    def repair(self, progress: Progress | None) -> IndexReport:
        """Makes the index agree with the transcripts, then compares."""
        with self._store.writing() as unit:
            unit.index.mend()
            unit.commit()
        self.reindex(progress)
        return self.verify(progress)


def _rows(report: ReindexReport) -> int:
    return report.added + report.removed
