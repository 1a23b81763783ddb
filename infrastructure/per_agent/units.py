"""A unit of work on one agent's file: the repositories of any store, which also note kin in other files."""

import sqlalchemy as sa

from backscroll.domain.model import Session
from backscroll.domain.ports import SearchRequest
from backscroll.domain.results import Problem
from backscroll.domain.visibility import Scope
from backscroll.infrastructure.candidates import Candidates, bounded
from backscroll.infrastructure.frequencies import Frequencies
from backscroll.infrastructure.index import SqlIndex
from backscroll.infrastructure.matching import matching
from backscroll.infrastructure.per_agent.kin import Kin, foreign, foreign_parents
from backscroll.infrastructure.per_agent.ranking import Gathered
from backscroll.infrastructure.rows import AgentRow, SessionRow
from backscroll.infrastructure.scopes import tree_keys
from backscroll.infrastructure.sessions import SqlSessions
from backscroll.infrastructure.store import SqlUnitOfWork, StoreOptions
from backscroll.infrastructure.transaction import Transaction


class FiledSessions(SqlSessions):
    """The sessions of one agent. Kin is noted before a session is stored, under the write lock of its file."""

    def __init__(self, transaction: Transaction, kin: Kin) -> None:
        super().__init__(transaction)
        self._kin = kin
        self.unsettled: list[str] = []
        """Sessions about which hints may not be true any more once this is committed."""

    def add(self, session: Session, branch_id: str) -> None:
        """Stores a new session with its first, empty transcript, whose only branch gets `branch_id`."""
        self._kin.note(session)
        super().add(session, branch_id)

    def update(self, session: Session) -> None:
        """Stores the changed fields of a session."""
        self._kin.note(session)
        if self._kin.parents(session.session_key) - foreign_parents(session):
            self.unsettled.append(session.session_key)
        super().update(session)

    def remove(self, session_key: str) -> bool:
        """Deletes a session with everything in it and in the index; False when there is none."""
        if self._kin.parents(session_key):
            self.unsettled.append(session_key)
        return super().remove(session_key)

    def below(self, scope: Scope) -> list[str]:
        """The keys of what is below the roots of a scope's tree."""
        return tree_keys(self._transaction.statements, scope)

    def parents(self, agent_id: str) -> set[tuple[str, str]]:
        """Child and parent wherever a session of that agent names another's as its parent."""
        columns = SessionRow.session_key, SessionRow.spawned_by, SessionRow.owner
        rows = self._transaction.session.execute(
            sa.select(*columns, AgentRow.agent_id)
            .join(AgentRow, AgentRow.id == SessionRow.agent_pk)
            .where(AgentRow.agent_id == agent_id, SessionRow.incognito.is_(False))
            .where(SessionRow.spawned_by.is_not(None) | SessionRow.owner.is_not(None))
        )
        return {(row.session_key, key) for row in rows for key in foreign(row.agent_id, row.spawned_by, row.owner)}

    def settle_kin(self, agent_id: str) -> None:
        """Makes the hints about these sessions exactly true."""
        true, noted = self.parents(agent_id), self._kin.noted(agent_id)
        for key in {child for child, _ in true - noted}:
            if (session := self.get(key)) is not None:
                self._kin.note(session)
        for child, parent in noted - true:
            self._kin.forget(child, [parent])

    def forget_kin(self, session_key: str) -> None:
        """Drops the hints about a session that are not true any more."""
        session = self.get(session_key)
        self._kin.forget(session_key, self._kin.parents(session_key) - (foreign_parents(session) if session else set()))


class FiledIndex(SqlIndex):
    """The index of one agent's file, which can also give what is ranked together with other files' matches."""

    def __init__(
        self, transaction: Transaction, rank_bound: int, sessions: FiledSessions, agent_id: str, kin: Kin
    ) -> None:
        # What is found here is weighed with other files' matches, by what of it may be seen.
        super().__init__(transaction, rank_bound, Frequencies(remember=0))
        self._sessions = sessions
        self._agent_id = agent_id
        self._kin = kin

    def gather(self, request: SearchRequest, *, settled: bool) -> Gathered:
        """What is ranked together with other files' matches; `settled`: it is known that nothing in scope waits."""
        matched = matching(self._transaction.statements, request, settled=settled)
        if matched is None:
            return Gathered((), 0, [0] * len(request.query.phrases))
        bound = bounded(self._rank_bound, request)
        candidates = Candidates(self._transaction.statements, request, matched, bound, self._frequencies)
        found = candidates.read()
        named = list(zip(found, candidates.names(found), strict=True))
        return Gathered(named, candidates.met, candidates.frequencies())

    def integrity(self) -> Problem | None:
        """What is wrong in the index, else in the hints of kin, which change under the file's write lock alone."""
        if (damage := super().integrity()) is not None:
            return damage
        astray = self._sessions.parents(self._agent_id) ^ self._kin.noted(self._agent_id)
        what = "hints of trees across agents that are missing or not true"
        return Problem(what=what, rows=len(astray)) if astray else None

    def mend(self) -> None:
        """Makes paths, index and the hints of kin right, and leaves every transcript pending."""
        super().mend()
        self._sessions.settle_kin(self._agent_id)


class FiledUnitOfWork(SqlUnitOfWork):
    """One transaction on one agent's file."""

    def __init__(self, transaction: Transaction, options: StoreOptions, agent_id: str, kin: Kin) -> None:
        super().__init__(transaction, options, Frequencies(remember=0))
        self.sessions: FiledSessions = FiledSessions(transaction, kin)
        self.index: FiledIndex = FiledIndex(transaction, options.rank_bound, self.sessions, agent_id, kin)
