"""What the facade answers with, and the JSON form of each answer."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from functools import cache
from types import NoneType

from backscroll.domain.model import Role, SessionKind
from backscroll.domain.parts import Part, part_to_dict


def to_json(value: object) -> object:
    """A result as plain JSON data: dataclasses become objects, times ISO 8601 strings."""
    # What most values are comes first: a page has thousands of them.
    if type(value) in _PLAIN:
        return value
    match value:
        case StrEnum():
            return str(value)
        case None | str() | int() | float():
            return value
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case tuple() | list():
            return [to_json(item) for item in value]
        case Mapping():
            return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, Part):
        return part_to_dict(value)
    return {name: to_json(getattr(value, name)) for name in _names(type(value))}  # type: ignore[arg-type]


_PLAIN = frozenset((str, int, float, bool, NoneType))


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One message found. Session key, session id and message id are what `history` reopens it by.

    Attributes:
        timestamp: when it was said, in UTC.
        excerpt: a piece of its text around the match, secrets masked.
        score: higher is better; scores of different searches cannot be compared.
        highlights: the matches' places in the excerpt, as (start, end) in characters.
    """

    session_key: str
    session_id: str
    message_id: str
    role: Role
    timestamp: datetime
    excerpt: str
    score: float
    highlights: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPage:
    """The best hits.

    Attributes:
        indexing: some visible transcript waits for its index, so that more may match soon.
        truncated: more messages match, or hits were dropped to bound the answer's size.
    """

    hits: tuple[Hit, ...] = ()
    indexing: bool = False
    truncated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryMessage:
    """A message as it is shown, secrets masked.

    Attributes:
        timestamp: when it was said, in UTC.
        truncated: its text or parts were shortened to bound the answer.
    """

    message_id: str
    role: Role
    text: str
    parts: tuple[Part, ...]
    timestamp: datetime
    truncated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPage:
    """Messages, oldest first.

    Attributes:
        total: the messages of the view or interval that the page is cut from.
        has_more: older ones precede the page.
        next_offset: the offset that asks for them (None after an anchor: page on with `before`).
        truncated: messages or text were cut to bound the answer.
        redacted: some secret was masked.
    """

    messages: tuple[HistoryMessage, ...] = ()
    session_key: str
    session_id: str
    total: int = 0
    has_more: bool = False
    next_offset: int | None = None
    truncated: bool = False
    redacted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """A session as it is listed; `session_id` names its current transcript."""

    session_key: str
    session_id: str
    agent_id: str
    kind: SessionKind
    title: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ReindexReport:
    """What a reindexing did.

    Attributes:
        transcripts: how many were brought up to date.
        added: index rows written.
        removed: index rows removed.
        failed: the transcripts that could not be reindexed: session id and reason.
    """

    transcripts: int = 0
    added: int = 0
    removed: int = 0
    failed: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One disagreement.

    Attributes:
        what: what is wrong.
        session_key: in which session; None: in the store as a whole.
        rows: how many rows are wrong.
    """

    what: str
    session_key: str | None = None
    rows: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """Whether index and transcripts agree.

    Attributes:
        ok: they do.
        messages: messages stored.
        indexed: messages in the index.
        pending: transcripts that wait for their index; no disagreement.
        problems: what disagrees.
    """

    ok: bool
    messages: int = 0
    indexed: int = 0
    pending: int = 0
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceReport:
    """What maintenance gained: the database's bytes (file and write-ahead log) before and after."""

    bytes_before: int
    bytes_after: int
    vacuumed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneReport:
    """The sessions that retention concerns, the oldest first, and whether they were deleted or only listed."""

    session_keys: tuple[str, ...] = ()
    deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportProblem:
    """Something in a file that was not taken over.

    Attributes:
        file: the file's path.
        line: the line's number, from 1; None: the file as a whole.
        what: what is wrong with it.
    """

    file: str
    line: int | None
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import did.

    Attributes:
        files: files read.
        sessions: transcripts met.
        messages: messages newly stored.
        known: messages that were stored already.
        skipped: records that are no messages.
        bad: lines that could not be read.
        problems: what went wrong, the first 1,000 of it.
    """

    files: int = 0
    sessions: int = 0
    messages: int = 0
    known: int = 0
    skipped: int = 0
    bad: int = 0
    problems: tuple[ImportProblem, ...] = ()
