"""The operator's use cases over every store there is, one after the other, as one report."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

from backscroll.domain.errors import BackscrollError, SchemaOutdated, SessionNotFound, StoreUnavailable
from backscroll.domain.limits import USUAL_BATCHES, Batches
from backscroll.domain.ports import Clock, NewId, Progress, Store
from backscroll.domain.results import IndexReport, MaintenanceReport, Problem, PruneReport, ReindexReport
from backscroll.domain.stores import Stores
from backscroll.domain.telemetry import NO_TELEMETRY, Telemetry
from backscroll.services.indexing import Indexing
from backscroll.services.maintaining import Maintaining, checked_retention

Report = TypeVar("Report", IndexReport, MaintenanceReport, PruneReport, ReindexReport)


class Everywhere:
    """Runs a use case on each store. A store that cannot be used keeps no other from its turn.

    `verify` and `repair` count it among the problems; the others raise its error when all have had theirs.
    """

    def __init__(
        self,
        stores: Stores,
        clock: Clock,
        new_id: NewId,
        batches: Batches = USUAL_BATCHES,
        telemetry: Telemetry = NO_TELEMETRY,
    ) -> None:
        self._stores = stores
        self._clock = clock
        self._new_id = new_id
        self._batches = batches
        self._telemetry = telemetry

    def reindex(self, progress: Progress | None) -> ReindexReport:
        """Brings every pending transcript up to date."""
        told = _Told(progress)
        return self._each(
            ReindexReport(),
            lambda store: self._indexing(store).reindex(told.next()),
            lambda one, other: ReindexReport(
                transcripts=one.transcripts + other.transcripts,
                added=one.added + other.added,
                removed=one.removed + other.removed,
                failed=one.failed + other.failed,
            ),
        )

    def verify(self, progress: Progress | None) -> IndexReport:
        """Compares index and transcripts and changes nothing."""
        told = _Told(progress)
        return self._checked(lambda store: self._indexing(store).verify(told.next()))

    def repair(self, progress: Progress | None) -> IndexReport:
        """Makes the index agree with the transcripts, then compares."""
        told = _Told(progress)
        return self._checked(lambda store: self._indexing(store).repair(told.next()))

    def maintain(self, *, vacuum: bool) -> MaintenanceReport:
        """Merges the indexes, empties the logs, and writes the files anew if asked."""
        return self._each(
            MaintenanceReport(bytes_before=0, bytes_after=0, vacuumed=vacuum),
            lambda store: Maintaining(store, self._clock).maintain(vacuum=vacuum),
            lambda one, other: replace(
                one, bytes_before=one.bytes_before + other.bytes_before, bytes_after=one.bytes_after + other.bytes_after
            ),
        )

    def prune(self, *, older_than: timedelta | datetime, keep: int, dry_run: bool) -> PruneReport:
        """Deletes the sessions not written to for so long, each in a transaction of its own."""
        since = checked_retention(older_than, keep, self._clock)
        return self._each(
            PruneReport(deleted=not dry_run),
            lambda store: Maintaining(store, self._clock).prune(since, keep=keep, dry_run=dry_run),
            lambda one, other: replace(one, session_keys=one.session_keys + other.session_keys),
        )

    def _indexing(self, store: Store) -> Indexing:
        return Indexing(store, self._clock, self._new_id, self._batches, self._telemetry)

    def _each(self, report: Report, run: Callable[[Store], Report], add: Callable[[Report, Report], Report]) -> Report:
        failure: BackscrollError | None = None
        for _, store in self._stores.each():
            try:
                report = add(report, run(store))
            except SessionNotFound:
                # Taken away since it was listed.
                continue
            except (StoreUnavailable, SchemaOutdated) as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return report

    def _checked(self, run: Callable[[Store], IndexReport]) -> IndexReport:
        total = IndexReport(ok=True)
        for agent_id, store in self._stores.each():
            try:
                report = run(store)
            except SessionNotFound:
                continue
            except (StoreUnavailable, SchemaOutdated) as error:
                if agent_id is None:
                    raise
                report = IndexReport(ok=False, problems=(Problem(what=str(error)),))
            else:
                report = replace(report, problems=tuple(_named(one, agent_id) for one in report.problems))
            total = IndexReport(
                ok=total.ok and report.ok,
                messages=total.messages + report.messages,
                indexed=total.indexed + report.indexed,
                pending=total.pending + report.pending,
                problems=total.problems + report.problems,
            )
        return total


def _named(problem: Problem, agent_id: str | None) -> Problem:
    """The problem with its agent, where no session's key says it."""
    if agent_id is None or problem.session_key is not None:
        return problem
    return replace(problem, what=f"agent {agent_id!r}: {problem.what}")


class _Told:
    """Passes on what each store tells of its progress, on top of what those before it have told."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._before = self._last = (0, 0)

    def next(self) -> Progress | None:
        """What the next store is to tell."""
        self._before = self._last
        return None if self._progress is None else self._tell

    def _tell(self, done: int, total: int) -> None:
        self._last = self._before[0] + done, self._before[1] + total
        if self._progress is not None:
            self._progress(*self._last)
