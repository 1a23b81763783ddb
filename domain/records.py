"""What an importer's reader finds in a foreign file, one record a line, before anything is stored."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from backscroll.domain.model import ResetReason, Role
from backscroll.domain.parts import Part


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptFile:
    """One file to import: the transcript it holds and the session it belongs to, as far as its folder tells.

    `session_key` is used when the transcript is not stored yet; `current` is False for an archive of an earlier one.
    """

    name: str
    size: int
    session_id: str
    session_key: str
    agent_id: str
    current: bool = True
    started_at: datetime | None = None
    title: str | None = None
    kind: str | None = None
    spawned_by: str | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRecord:
    """A message; `parent_id` names the message before it on its line (None: it is a root)."""

    line: int
    message_id: str
    parent_id: str | None
    role: Role
    parts: tuple[Part, ...]
    created_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetRecord:
    """A reset behind the message `after`; `first_kept` names the first message that it kept."""

    line: int
    reset_id: str
    after: str | None
    reason: ResetReason
    first_kept: str | None
    created_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadRecord:
    """The line that ends in `message_id` is the active one from here on."""

    line: int
    message_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TitleRecord:
    """The session's title."""

    line: int
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedRecord:
    """A record that is no message: read, understood or not, and left out."""

    line: int
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    """A line that could not be read."""

    line: int
    reason: str


Record = MessageRecord | ResetRecord | HeadRecord | TitleRecord | SkippedRecord | BadLine


@dataclass(frozen=True, slots=True)
class ReadLine:
    """One line read: how many bytes of the file are done, and what it held."""

    bytes_done: int
    record: Record
