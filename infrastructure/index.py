"""The search index adapter: finding messages, and what the index needs to stay right."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from backscroll.domain.model import Session
from backscroll.domain.ports import Match, Progress, Reindexed, SearchRequest
from backscroll.domain.query import Order
from backscroll.domain.results import IndexReport, Problem
from backscroll.domain.visibility import Scope
from backscroll.infrastructure import checks, fts, mapping, pending
from backscroll.infrastructure.hooks import IndexedSession
from backscroll.infrastructure.rows import AgentRow, IndexStateRow, MessageRow, PendingRow, SessionRow, TranscriptRow
from backscroll.infrastructure.scopes import ScopeSql, narrow_tokens, scope_sql
from backscroll.infrastructure.types import micros


class SqlIndex:
    """The FTS5 index. `rank_bound` is how many of the newest matches are ranked when more match."""

    def __init__(self, session: IndexedSession, rank_bound: int) -> None:
        self._session = session
        self._rank_bound = rank_bound

    def search(self, request: SearchRequest) -> list[Match]:
        """The best `request.limit` matches in scope, best first."""
        plan = self._plan(request)
        if plan is None:
            return []
        scores = {pk: -rank for pk, rank in self._session.execute(sa.text(plan.condition), plan.params)}
        rows = self._session.execute(
            sa.select(MessageRow, SessionRow.session_key, TranscriptRow.session_id)
            .join(TranscriptRow, TranscriptRow.id == MessageRow.transcript_pk)
            .join(SessionRow, SessionRow.id == TranscriptRow.session_pk)
            .where(MessageRow.id.in_(scores))
        )
        found = {
            row.id: Match(session_key=key, message=mapping.message(row, session_id, None), score=scores[row.id])
            for row, key, session_id in rows
        }
        return [found[pk] for pk in scores]

    def _plan(self, request: SearchRequest) -> ScopeSql | None:
        """The statement that gives the best matches' keys and ranks; None when nothing can match."""
        connection = self._session.connection()
        conditions = ["m.active = 1"]
        params: dict[str, object] = {"limit": request.limit, "bound": self._rank_bound}
        join = ""
        if request.session is not None:
            pk = self._session.scalar(
                sa.select(SessionRow.id).where(SessionRow.session_key == request.session.session_key)
            )
            tokens: list[str] | None = [f"s{pk}"]
        else:
            tokens = narrow_tokens(connection, request.scope)
            if tokens is None and not request.scope.admits_every_agent:
                allowed = scope_sql(connection, request.scope)
                conditions.append(allowed.condition)
                params |= allowed.params
                join = (
                    " CROSS JOIN backscroll_transcripts AS t ON t.id = m.transcript_pk"
                    " CROSS JOIN backscroll_sessions AS s ON s.id = t.session_pk"
                )
        agents: list[str] = []
        if request.agents is not None:
            keys = self._session.scalars(sa.select(AgentRow.id).where(AgentRow.agent_id.in_(request.agents)))
            agents = [f"a{pk}" for pk in keys]
        if tokens == [] or (request.agents is not None and not agents):
            return None
        params["match"] = fts.match_expression(request.query, tokens or (), agents)
        for name, role in enumerate(request.roles):
            params[f"role{name}"] = str(role)
        conditions.append(f"m.role IN ({', '.join(f':role{name}' for name in range(len(request.roles)))})")
        if request.since is not None:
            conditions.append("m.created_at >= :since")
            params["since"] = micros(request.since)
        if request.until is not None:
            conditions.append("m.created_at < :until")
            params["until"] = micros(request.until)
        if request.leave_out is not None:
            session_id, stretch = request.leave_out
            conditions.append(
                "NOT (m.transcript_pk = (SELECT id FROM backscroll_transcripts WHERE session_id = :left_out)"
                " AND m.depth BETWEEN :first AND :last)"
            )
            params |= {"left_out": session_id, "first": stretch.first, "last": stretch.last}
        newest = request.order is Order.NEWEST
        order = "m.created_at DESC, m.id DESC LIMIT :limit" if newest else f"{fts.INDEX}.rowid DESC LIMIT :bound"
        candidates = (
            f"SELECT m.id, m.created_at FROM {fts.INDEX}"
            f" CROSS JOIN backscroll_messages AS m ON m.id = {fts.INDEX}.rowid{join}"
            f" WHERE {fts.INDEX} MATCH :match AND {' AND '.join(conditions)} ORDER BY {order}"
        )
        best = "" if newest else f"{fts.INDEX}.rank, "
        return ScopeSql(
            f"WITH candidate(id, created_at) AS MATERIALIZED ({candidates})"
            f" SELECT c.id, {fts.INDEX}.rank FROM {fts.INDEX} CROSS JOIN candidate AS c ON c.id = {fts.INDEX}.rowid"
            f" WHERE {fts.INDEX} MATCH :match AND {fts.INDEX}.rowid >= (SELECT min(id) FROM candidate)"
            f" ORDER BY {best}c.created_at DESC, c.id DESC LIMIT :limit",
            params,
        )

    def is_pending(self, scope: Scope, session: Session | None) -> bool:
        """Whether a transcript in scope (of that session, if one is given) waits to be reindexed."""
        if session is not None and session.incognito:
            return False
        allowed = scope_sql(self._session.connection(), scope)
        condition, params = f"s.incognito = 0 AND {allowed.condition}", dict(allowed.params)
        if session is not None:
            condition += " AND s.session_key = :pending_key"
            params["pending_key"] = session.session_key
        # From what waits to who may see it: most of the time nothing waits, and nothing is read.
        queued = (
            "SELECT 1 FROM backscroll_pending AS w CROSS JOIN backscroll_transcripts AS t ON t.id = w.transcript_pk"
            f" CROSS JOIN backscroll_sessions AS s ON s.id = t.session_pk WHERE {condition}"
        )
        older = (
            "SELECT 1 FROM backscroll_index_state AS w CROSS JOIN backscroll_transcripts AS t ON t.id <= w.legacy_pk"
            f" CROSS JOIN backscroll_sessions AS s ON s.id = t.session_pk WHERE {condition}"
        )
        statement = sa.text(f"SELECT EXISTS ({queued}) OR EXISTS ({older})")
        return bool(self._session.execute(statement, params).scalar())

    def pending_count(self) -> int:
        """How many transcripts wait to be reindexed."""
        legacy = sa.select(IndexStateRow.legacy_pk).scalar_subquery()
        older = sa.select(sa.func.count()).select_from(TranscriptRow).where(TranscriptRow.id <= legacy)
        queued = sa.select(sa.func.count()).select_from(PendingRow).where(PendingRow.transcript_pk > legacy)
        return sum(self._session.scalars(statement).one() for statement in (older, queued))

    def claim(self, worker: str, now: datetime, until: datetime, skip: Sequence[str]) -> str | None:
        """Claims the newest pending transcript that nobody holds, for `worker` until then; its session id."""
        return pending.claim(self._session, worker, now, until, skip)

    def held(self, now: datetime) -> bool:
        """Whether some pending transcript is claimed at `now`."""
        held = sa.select(PendingRow.transcript_pk).where(PendingRow.claimed_until > now, PendingRow.failure.is_(None))
        return self._session.scalar(held.limit(1)) is not None

    def reindex_some(self, session_id: str, worker: str, until: datetime, limit: int) -> Reindexed:
        """Brings the next `limit` messages of a claimed transcript up to date and prolongs the claim until then."""
        return pending.reindex_some(self._session, session_id, worker, until, limit)

    def rest(self, session_id: str, worker: str, until: datetime, failure: str) -> None:
        """Leaves a transcript that failed alone until then."""
        pending.rest(self._session, session_id, worker, until, failure)

    def merge_some(self, *, begin: bool) -> bool:
        """One short step of merging the index into one piece; whether there was anything left to do."""
        return fts.merge_some(self._session.connection(), begin=begin)

    def integrity(self) -> Problem | None:
        """What FTS5 finds wrong between the index and the rows that are marked as indexed."""
        return checks.integrity(self._session.connection())

    def verify(self, progress: Progress | None) -> IndexReport:
        """Compares marks, paths and references with the tree of messages; changes nothing."""
        problems = tuple(checks.problems(self._session, progress))
        count = sa.select(sa.func.count()).select_from(MessageRow)
        return IndexReport(
            ok=not problems,
            messages=self._session.scalars(count).one(),
            indexed=self._session.scalars(count.where(MessageRow.indexed.is_(True))).one(),
            pending=self.pending_count(),
            problems=problems,
        )

    def mend(self) -> None:
        """Makes active paths right and the index hold what is marked, and leaves every transcript pending."""
        checks.mend(self._session)
