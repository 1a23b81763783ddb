"""The entities: sessions, transcripts, messages, branches and resets, all immutable values."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from backscroll.domain.parts import Part, text_of


class Role(StrEnum):
    """Who speaks in a message: `user`, `assistant`, `system` or `tool`."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL = "tool"


SPOKEN = frozenset({Role.USER, Role.ASSISTANT})
"""The roles whose text is searchable and survives a reset that keeps messages."""


class SessionKind(StrEnum):
    """What a session is for: `main`, `direct`, `group`, `subagent`, `acp`, `cron`, `hook` or `other`."""

    MAIN = "main"
    DIRECT = "direct"
    GROUP = "group"
    SUBAGENT = "subagent"
    ACP = "acp"
    CRON = "cron"
    HOOK = "hook"
    OTHER = "other"


class ResetReason(StrEnum):
    """Why a session was reset: `new`, `reset`, `idle`, `daily` or `manual`."""

    NEW = "new"
    RESET = "reset"
    IDLE = "idle"
    DAILY = "daily"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One logical conversation. `session_id` names its current transcript; times are aware UTC."""

    session_key: str
    session_id: str
    agent_id: str
    kind: SessionKind
    created_at: datetime
    updated_at: datetime
    title: str | None = None
    spawned_by: str | None = None
    owner: str | None = None
    incognito: bool = False
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """One physical run of a session; `reason` is why it was started by a rotating reset, if it was."""

    session_id: str
    session_key: str
    started_at: datetime
    current: bool = True
    reason: ResetReason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a transcript.

    Attributes:
        depth: the messages from the root of the tree to this one, itself included: the first has 1.
        active: whether it lies on the active path.
    """

    message_id: str
    session_id: str
    role: Role
    parts: tuple[Part, ...]
    created_at: datetime
    parent_id: str | None = None
    depth: int = 1
    active: bool = True
    metadata: Mapping[str, object] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """What was said: the text parts alone."""
        return text_of(self.parts)

    def placed(self, parent_id: str | None, depth: int, *, active: bool) -> "Message":
        """The message at that place of its tree: itself if it stands there."""
        if (self.parent_id, self.depth, self.active) == (parent_id, depth, active):
            return self
        return replace(self, parent_id=parent_id, depth=depth, active=active)

    def same_content(self, other: "Message") -> bool:
        """Whether both say the same in the same role, whatever their place and time."""
        return self.role == other.role and self.parts == other.parts


class PathMessage(NamedTuple):
    """A message of a transcript's active path, as far as its readers are shown it."""

    message_id: str
    depth: int
    role: Role
    parts: tuple[Part, ...]
    created_at: datetime


class PathPage(NamedTuple):
    """Messages of an active path, oldest first.

    Attributes:
        has_older: whether older ones precede them.
        place: where among them what the page is about stands, or what is next to it.
    """

    messages: list[PathMessage]
    has_older: bool
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A line of messages from the root to a head.

    Attributes:
        head: the last message's id; None while the line is empty.
        depth: the line's length in messages.
        active: whether it is the branch that `append` continues.
    """

    branch_id: str
    session_id: str
    head: str | None
    depth: int
    active: bool
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """A boundary on a line of messages, or the start of a new transcript.

    Attributes:
        session_id: the transcript that the boundary is in, or that a rotating reset started.
        after: the message that it stands behind; None: before the first.
        depth: that message's depth.
        first_kept: the message from which on user and assistant messages stay in view.
        kept: how many these are.
        active: whether it lies on the active path.
        previous_session_id: the transcript that a rotating reset left.
    """

    reset_id: str
    session_id: str
    reason: ResetReason
    created_at: datetime
    after: str | None = None
    depth: int = 0
    first_kept: str | None = None
    first_kept_depth: int | None = None
    kept: int = 0
    active: bool = True
    previous_session_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Where a transcript is being written: its session, active branch and latest reset on the active path."""

    session: Session
    transcript: Transcript
    branch: Branch
    reset: Reset | None
