"""Between rows and domain objects, one explicit function for each direction and kind."""

import json
from collections.abc import Sequence
from typing import Any

from backscroll.domain.model import (
    Branch,
    Message,
    PathMessage,
    Reset,
    ResetReason,
    Role,
    Session,
    SessionKind,
    Transcript,
)
from backscroll.domain.parts import Part, TextPart
from backscroll.domain.results import SessionSummary
from backscroll.infrastructure.hooks import NewMessageRow
from backscroll.infrastructure.packing import packed, unpacked
from backscroll.infrastructure.rows import BranchRow, SessionRow
from backscroll.infrastructure.types import from_micros, json_text, micros

MESSAGE_COLUMNS = ("message_id", "depth", "role", "active", "created_at", "text", "parts", "metadata")
"""What a message is made from, beside its parent's id."""


_ROLES = {role.value: role for role in Role}


def message(row: Sequence[Any], session_id: str) -> Message:
    """The message of a row with the `MESSAGE_COLUMNS` and its parent's id, all as the database keeps them."""
    message_id, depth, role, active, created_at, text, parts, metadata, parent_id = row
    return Message(
        message_id=message_id,
        session_id=session_id,
        role=_ROLES[role],
        parts=_parts(text, parts),
        created_at=from_micros(created_at),
        parent_id=parent_id,
        depth=depth,
        active=bool(active),
        metadata={} if metadata is None else json.loads(metadata),
    )


PATH_COLUMNS = ("message_id", "depth", "role", "created_at", "text", "parts")
"""What a message of an active path is made from."""


def path_message(row: Sequence[Any]) -> PathMessage:
    """The message of a row with the `PATH_COLUMNS`, all as the database keeps them."""
    message_id, depth, role, created_at, text, parts = row
    return PathMessage(message_id, depth, _ROLES[role], _parts(text, parts), from_micros(created_at))


def _parts(text: str, packed_parts: str | None) -> tuple[Part, ...]:
    return (TextPart(text),) if packed_parts is None else unpacked(_from_json(packed_parts), text)


_from_json = json.JSONDecoder().decode
"""As `json.loads`, which looks at its options each time."""


def new_message(
    one: Message, pk: int, transcript_pk: int, parent_pk: int | None, reset_pk: int | None, shown: int
) -> NewMessageRow:
    """A message as it is inserted, in the forms that the database keeps."""
    return NewMessageRow(
        pk,
        transcript_pk,
        one.message_id,
        parent_pk,
        reset_pk,
        one.depth,
        shown,
        one.role.value,
        one.active,
        micros(one.created_at),
        one.text,
        packed(one.parts),
        json_text(dict(one.metadata)) if one.metadata else None,
    )


SESSION_COLUMNS = (
    "session_key",
    "agent_pk",
    "kind",
    "title",
    "spawned_by",
    "owner",
    "incognito",
    "created_at",
    "updated_at",
    "metadata",
)
SESSION = ", ".join([*(f"s.{name}" for name in SESSION_COLUMNS), "a.agent_id", "t.session_id"])
"""What a session is made from, of the tables under these aliases: its own row, its agent's and its transcript's."""


def session(row: Sequence[Any]) -> Session:
    """The session of a row of the columns `SESSION`, all as kept."""
    key, _, kind, title, spawned_by, owner, incognito, created_at, updated_at, metadata, agent_id, session_id = row
    return Session(
        session_key=key,
        session_id=session_id,
        agent_id=agent_id,
        kind=SessionKind(kind),
        title=title,
        spawned_by=spawned_by,
        owner=owner,
        incognito=bool(incognito),
        created_at=from_micros(created_at),
        updated_at=from_micros(updated_at),
        metadata=json.loads(metadata),
    )


def new_session(one: Session, agent_pk: int) -> tuple[object, ...]:
    """A session as it is inserted, in the order of `SESSION_COLUMNS` and the forms that the database keeps."""
    return (
        one.session_key,
        agent_pk,
        str(one.kind),
        one.title,
        one.spawned_by,
        one.owner,
        one.incognito,
        micros(one.created_at),
        micros(one.updated_at),
        json_text(dict(one.metadata)),
    )


def write_session(one: Session, row: SessionRow) -> None:
    """Takes over what may change in a stored session."""
    row.kind = one.kind
    row.title = one.title
    row.spawned_by = one.spawned_by
    row.owner = one.owner
    row.updated_at = one.updated_at
    row.meta = dict(one.metadata)


def summary(row: SessionRow, session_id: str) -> SessionSummary:
    """The session of a row as it is listed."""
    return SessionSummary(
        session_key=row.session_key,
        session_id=session_id,
        agent_id=row.agent.agent_id,
        kind=row.kind,
        title=row.title,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def transcript(row: Sequence[Any]) -> Transcript:
    """The transcript of its id, its session's key, its start, whether it is current, and its reason, as kept."""
    session_id, session_key, started_at, current, reason = row
    return Transcript(
        session_id=session_id,
        session_key=session_key,
        started_at=from_micros(started_at),
        current=bool(current),
        reason=None if reason is None else ResetReason(reason),
    )


def new_transcript(one: Transcript, session_pk: int) -> tuple[object, ...]:
    """A transcript as it is inserted, in the forms that the database keeps."""
    return session_pk, one.session_id, micros(one.started_at), one.current, one.reason and str(one.reason)


def branch(row: BranchRow, session_id: str, head: str | None, depth: int | None) -> Branch:
    """The branch of a row, with its head's id and depth."""
    return Branch(
        branch_id=row.branch_id,
        session_id=session_id,
        head=head,
        depth=depth or 0,
        active=row.active,
        created_at=row.created_at,
    )


RESET_COLUMNS = ("reset_id", "reason", "created_at", "depth", "first_kept_depth", "kept", "active")
"""What a reset is made from, beside the ids of the message it follows and of the first one it keeps."""


def reset(row: Sequence[Any], session_id: str) -> Reset:
    """The reset of a row with the `RESET_COLUMNS` and those two ids, all as the database keeps them."""
    reset_id, reason, created_at, depth, first_kept_depth, kept, active, after, first_kept = row
    return Reset(
        reset_id=reset_id,
        session_id=session_id,
        reason=ResetReason(reason),
        created_at=from_micros(created_at),
        after=after,
        depth=depth,
        first_kept=first_kept,
        first_kept_depth=first_kept_depth,
        kept=kept,
        active=bool(active),
    )
