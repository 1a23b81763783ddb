"""What a host may keep of who read what: never the text of a message."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from backscroll.domain.visibility import Requester


class Action(StrEnum):
    """What was asked for: `search`, `history` or `sessions`."""

    SEARCH = "search"
    HISTORY = "history"
    SESSIONS = "sessions"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """One read, answered or refused.

    Attributes:
        query: what was searched.
        session_key: the session that was asked for by name; so with `session_id` and `message_id`.
        shown: the keys of the sessions that the answer tells of.
        refused: the session asked for does not exist or may not be seen.
    """

    action: Action
    requester: Requester
    at: datetime
    query: str | None = None
    session_key: str | None = None
    session_id: str | None = None
    message_id: str | None = None
    shown: tuple[str, ...] = ()
    refused: bool = False


Audit = Callable[[AuditEvent], None]
"""Is told of every read before its answer is given. What it raises reaches the caller instead of the answer."""


def no_audit(event: AuditEvent) -> None:
    """Keeps nothing."""
