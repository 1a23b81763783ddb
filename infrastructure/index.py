"""The search index adapter: finding messages, and what the index needs to stay right."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from backscroll.domain.ports import Match, Progress, Reindexed, SearchRequest
from backscroll.domain.results import IndexReport, Problem
from backscroll.infrastructure import checks, fts, pending, times
from backscroll.infrastructure.candidates import best_matches
from backscroll.infrastructure.frequencies import Frequencies
from backscroll.infrastructure.rows import IndexStateRow, MessageRow, PendingRow, TranscriptRow
from backscroll.infrastructure.scopes import scope_sql
from backscroll.infrastructure.transaction import Transaction
from backscroll.infrastructure.types import json_text


class SqlIndex:
    """The FTS5 index. `rank_bound` is how many of the newest matches are ranked when more match."""

    def __init__(self, transaction: Transaction, rank_bound: int, frequencies: Frequencies) -> None:
        self._transaction = transaction
        self._rank_bound = rank_bound
        self._frequencies = frequencies

    def search(self, request: SearchRequest, *, settled: bool = False) -> list[Match]:
        """The best `request.limit` matches in scope, best first; `settled`: it is known that nothing there waits."""
        statements, bound = self._transaction.statements, self._rank_bound
        return best_matches(statements, request, bound, self._frequencies, settled=settled)

    def is_pending(self, request: SearchRequest) -> bool:
        """Whether a transcript that the search reaches waits to be reindexed."""
        if request.session is not None and request.session.incognito:
            return False
        allowed = scope_sql(self._transaction.statements, request.scope)
        condition, params = f"s.incognito = 0 AND {allowed.condition}", dict(allowed.params)
        if request.session is not None:
            condition += " AND s.session_key = :pending_key"
            params["pending_key"] = request.session.session_key
        if request.agents is not None:
            agents = (
                "SELECT a.id FROM json_each(:pending_agents) AS j JOIN backscroll_agents AS a ON a.agent_id = j.value"
            )
            condition += f" AND s.agent_pk IN ({agents})"
            params["pending_agents"] = json_text(list(request.agents))
        # From what waits to who may see it: most of the time nothing waits, and nothing is read.
        queued = (
            "SELECT 1 FROM backscroll_pending AS w CROSS JOIN backscroll_transcripts AS t ON t.id = w.transcript_pk"
            f" CROSS JOIN backscroll_sessions AS s ON s.id = t.session_pk WHERE {condition}"
        )
        older = (
            "SELECT 1 FROM backscroll_index_state AS w CROSS JOIN backscroll_transcripts AS t ON t.id <= w.legacy_pk"
            f" CROSS JOIN backscroll_sessions AS s ON s.id = t.session_pk WHERE {condition}"
        )
        statement = f"SELECT EXISTS ({queued}) OR EXISTS ({older})"
        return bool(self._transaction.statements.scalar(statement, params))

    def pending_count(self) -> int:
        """How many transcripts wait to be reindexed."""
        legacy = sa.select(IndexStateRow.legacy_pk).scalar_subquery()
        older = sa.select(sa.func.count()).select_from(TranscriptRow).where(TranscriptRow.id <= legacy)
        queued = sa.select(sa.func.count()).select_from(PendingRow).where(PendingRow.transcript_pk > legacy)
        return sum(self._transaction.session.scalars(statement).one() for statement in (older, queued))

    def claim(self, worker: str, now: datetime, until: datetime, skip: Sequence[str]) -> str | None:
        """Claims the newest pending transcript that nobody holds, for `worker` until then; its session id."""
        return pending.claim(self._transaction.session, worker, now, until, skip)

    def held(self, now: datetime) -> bool:
        """Whether some pending transcript is claimed at `now`."""
        held = sa.select(PendingRow.transcript_pk).where(PendingRow.claimed_until > now, PendingRow.failure.is_(None))
        return self._transaction.session.scalar(held.limit(1)) is not None

    def reindex_some(self, session_id: str, worker: str, until: datetime, limit: int) -> Reindexed:
        """Brings the next `limit` messages of a claimed transcript up to date and prolongs the claim until then."""
        return pending.reindex_some(self._transaction.session, session_id, worker, until, limit)

    def rest(self, session_id: str, worker: str, until: datetime, failure: str) -> None:
        """Leaves a transcript that failed alone until then."""
        pending.rest(self._transaction.session, session_id, worker, until, failure)

    def date_some(self) -> bool:
        """One short step of noting how new stored messages are; whether there may be anything left to do."""
        return times.date_some(self._transaction.statements)

    def merge_some(self, *, begin: bool) -> bool:
        """One short step of merging the index into one piece; whether there was anything left to do."""
        return fts.merge_some(self._transaction.connection, begin=begin)

    def integrity(self) -> Problem | None:
        """What FTS5 finds wrong between the index and the rows that are marked as indexed."""
        return checks.integrity(self._transaction.connection)

    def verify(self, progress: Progress | None) -> IndexReport:
        """Compares marks, paths and references with the tree of messages; changes nothing."""
        problems = tuple(checks.problems(self._transaction.session, progress))
        count = sa.select(sa.func.count()).select_from(MessageRow)
        return IndexReport(
            ok=not problems,
            messages=self._transaction.session.scalars(count).one(),
            indexed=self._transaction.session.scalars(count.where(MessageRow.indexed.is_(True))).one(),
            pending=self.pending_count(),
            problems=problems,
        )

    def mend(self) -> None:
        """Makes active paths right and the index hold what is marked, and leaves every transcript pending."""
        checks.mend(self._transaction.session)
