"""What a caller asks to be stored, checked before anything is written."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple, TypeVar

from backscroll.domain.errors import InvalidRequest
from backscroll.domain.model import Message, Role
from backscroll.domain.parts import Content, Part, parts_of
from backscroll.domain.text import checked_message_id, checked_metadata

Choice = TypeVar("Choice", bound=StrEnum)


def chosen(value: object, choices: type[Choice], what: str) -> Choice:
    """`value` as one of the `choices`; raises `InvalidRequest` that lists them."""
    try:
        return choices(str(value))
    except ValueError as error:
        raise InvalidRequest(f"{what} must be one of {', '.join(choices)}, not {value!r}") from error


def checked_time(value: object, what: str) -> datetime:
    """`value` in UTC if it is an aware time; raises `InvalidRequest` for a naive one, whose zone nobody knows."""
    if type(value) is datetime and value.tzinfo is UTC:
        return value
    if not isinstance(value, datetime):
        raise InvalidRequest(f"{what} must be a datetime, not {type(value).__name__}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidRequest(f"{what} must carry a time zone")
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        raise InvalidRequest(f"{what} is out of range in UTC") from error


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to be appended; what is left out is chosen by Backscroll (id, time) or by the place (parent)."""

    role: str
    content: Content
    message_id: str | None = None
    parent_id: str | None = None
    created_at: datetime | None = None
    metadata: Mapping[str, object] | None = None


_FIELDS = [item.name for item in fields(NewMessage)]
_ALLOWED = set(_FIELDS)
_NEEDED = {"role", "content"}
_ROLES = {str(role): role for role in Role}


class Draft(NamedTuple):
    """A checked `NewMessage`; a tuple, as an import makes very many of them."""

    role: Role
    parts: tuple[Part, ...]
    message_id: str | None
    parent_id: str | None
    created_at: datetime | None
    metadata: dict[str, object]

    def message(
        self, session_id: str, message_id: str, clock: Callable[[], datetime], parent_id: str | None, depth: int
    ) -> Message:
        """The message, as the one behind `parent_id` on the active path; of now, unless it has a time."""
        return Message(
            message_id=message_id,
            session_id=session_id,
            role=self.role,
            parts=self.parts,
            created_at=self.created_at or clock(),
            parent_id=parent_id,
            depth=depth,
            metadata=self.metadata,
        )


def drafted(value: object) -> Draft:
    """The checked form of a `NewMessage` or of a mapping with its fields; raises `InvalidRequest`."""
    if not isinstance(value, NewMessage) and isinstance(value, Mapping):
        if not _NEEDED <= value.keys() <= _ALLOWED:
            raise InvalidRequest(f"a message needs role and content, and may have {', '.join(_FIELDS[2:])}")
        value = NewMessage(**value)
    if not isinstance(value, NewMessage):
        raise InvalidRequest(f"a message must be a NewMessage or a mapping, not {type(value).__name__}")
    return Draft(
        role=(_ROLES.get(value.role) if isinstance(value.role, str) else None) or chosen(value.role, Role, "role"),
        parts=parts_of(value.content),
        message_id=None if value.message_id is None else checked_message_id(value.message_id),
        parent_id=None if value.parent_id is None else checked_message_id(value.parent_id, "parent_id"),
        created_at=None if value.created_at is None else checked_time(value.created_at, "created_at"),
        metadata=checked_metadata(value.metadata),
    )
