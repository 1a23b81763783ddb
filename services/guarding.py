"""The guard that every read passes: one policy decides, one audit is told."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from backscroll.domain.audit import Action, Audit, AuditEvent, no_audit
from backscroll.domain.errors import SessionMismatch, SessionNotFound
from backscroll.domain.model import Session
from backscroll.domain.ports import Clock, UnitOfWork
from backscroll.domain.visibility import Requester, Scope, VisibilityPolicy


class Guard:
    """What stands between a requester and the sessions."""

    def __init__(self, policy: VisibilityPolicy, audit: Audit, clock: Clock) -> None:
        self._policy = policy
        self._audit = audit
        self._clock = clock

    def scope(self, requester: Requester) -> Scope:
        """What the requester may see."""
        return self._policy.scope(requester)

    def session(self, unit: UnitOfWork, session_key: str, scope: Scope) -> Session:
        """The session of that key; raises the same `SessionNotFound` whether it is absent or out of scope."""
        session = unit.sessions.visible(session_key, scope)
        if session is None:
            raise SessionNotFound
        return session

    def watched(
        self,
        action: Action,
        requester: Requester,
        *,
        query: str | None = None,
        session_key: str | None = None,
        session_id: str | None = None,
        message_id: str | None = None,
    ) -> AbstractContextManager[list[str]]:
        """Tells the audit of the read inside, which adds to the list the keys of the sessions that it shows.

        A read that ends in another error than a refusal was neither answered nor refused, and is not told.
        """
        if self._audit is no_audit:
            return nullcontext([])
        return self._told(action, requester, query, session_key, session_id, message_id)

    @contextmanager
    def _told(
        self,
        action: Action,
        requester: Requester,
        query: str | None,
        session_key: str | None,
        session_id: str | None,
        message_id: str | None,
    ) -> Iterator[list[str]]:
        at = self._clock()

        def tell(*, refused: bool) -> None:
            event = AuditEvent(
                action=action,
                requester=requester,
                at=at,
                query=query,
                session_key=session_key,
                session_id=session_id,
                message_id=message_id,
                shown=() if refused else tuple(dict.fromkeys(shown)),
                refused=refused,
            )
            self._audit(event)

        shown: list[str] = []
        try:
            yield shown
        except (SessionNotFound, SessionMismatch):
            tell(refused=True)
            raise
        tell(refused=False)
