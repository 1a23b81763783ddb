"""What a message is made of, and its plain JSON form.

The JSON form is the one a host may pass in and the one pages print.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import ClassVar

from backscroll.domain.errors import InvalidRequest
from backscroll.domain.text import storable

TEXT_SEPARATOR = "\n\n"


@dataclass(frozen=True, slots=True)
class TextPart:
    """Something said: the only kind of part that is ever searched."""

    text: str
    type: ClassVar[str] = "text"


@dataclass(frozen=True, slots=True)
class ReasoningPart:
    """The model's own thinking; stored and shown, never searched."""

    text: str
    type: ClassVar[str] = "reasoning"


@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """A call of a tool; `arguments` is the call's JSON text."""

    name: str
    arguments: str = "{}"
    call_id: str | None = None
    type: ClassVar[str] = "tool_call"


@dataclass(frozen=True, slots=True)
class ToolResultPart:
    """What a tool answered, as text."""

    text: str
    call_id: str | None = None
    name: str | None = None
    is_error: bool = False
    type: ClassVar[str] = "tool_result"


@dataclass(frozen=True, slots=True)
class AttachmentPart:
    """An image or other attachment: a media type with a URI (a `data:` URI holds the bytes themselves)."""

    media_type: str
    uri: str | None = None
    name: str | None = None
    type: ClassVar[str] = "attachment"


Part = TextPart | ReasoningPart | ToolCallPart | ToolResultPart | AttachmentPart
"""One piece of a message."""

Content = str | Sequence[Part | Mapping[str, object]]
"""What a message may be given as: text, or a sequence of parts or of their JSON form."""

_KINDS: dict[str, type[Part]] = {
    kind.type: kind for kind in (TextPart, ReasoningPart, ToolCallPart, ToolResultPart, AttachmentPart)
}


_FIELDS = {kind: tuple(item.name for item in fields(kind)) for kind in _KINDS.values()}
_NAMES = {kind: frozenset(names) for kind, names in _FIELDS.items()}
# Of a single name alone a getter would give no tuple.
_VALUES = {kind: attrgetter("type", *names) for kind, names in _FIELDS.items()}
_FLAGS = {"is_error"}
_OPTIONAL = {(kind, item.name) for kind in _KINDS.values() for item in fields(kind) if item.default is None}


def part_to_dict(part: Part) -> dict[str, object]:
    """The JSON form: `type` and every field that is set."""
    data: dict[str, object] = {"type": part.type}
    for name in _FIELDS[type(part)]:
        value = getattr(part, name)
        if value is not None and value is not False:
            data[name] = value
    return data


def part_from_dict(data: Mapping[str, object]) -> Part:
    """The part whose JSON form is `data`; raises `InvalidRequest` naming the field that is wrong."""
    kind = _KINDS.get(str(data.get("type")))
    if kind is None:
        raise InvalidRequest(f"a part's type must be one of {', '.join(_KINDS)}, not {data.get('type')!r}")
    allowed = _FIELDS[kind]
    values: dict[str, object] = {**data}
    del values["type"]
    if not _NAMES[kind].issuperset(values):
        unknown = min(str(name) for name in values if name not in allowed)
        raise InvalidRequest(f"a {kind.type} part has no field {unknown!r}; it has {', '.join(allowed)}")
    if "arguments" in values and not isinstance(values["arguments"], str):
        try:
            values["arguments"] = json.dumps(values["arguments"], ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidRequest(f"{kind.type}.arguments must be plain JSON data: {error}") from error
    try:
        return _cleaned(kind(**values))  # type: ignore[arg-type]
    except TypeError as error:
        raise InvalidRequest(f"a {kind.type} part lacks a field: it has {', '.join(allowed)}") from error


def parts_of(content: object) -> tuple[Part, ...]:
    """Message content as parts: a string is one text part; a sequence holds parts or their JSON form.

    Raises `InvalidRequest` for anything else and for a message without any part.
    """
    if isinstance(content, str):
        return (TextPart(storable(content)),)
    if isinstance(content, (bytes, Mapping)) or not isinstance(content, Iterable):
        raise InvalidRequest(f"content must be a string or a sequence of parts, not {type(content).__name__}")
    parts = tuple(part_from_dict(item) if isinstance(item, Mapping) else _cleaned(item) for item in content)
    if not parts:
        raise InvalidRequest("content must hold at least one part")
    return parts


def text_of(parts: Iterable[Part]) -> str:
    """What was said: the text parts, joined by an empty line."""
    # One part of text is what nearly every message is.
    if type(parts) is tuple and len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text
    return TEXT_SEPARATOR.join(part.text for part in parts if isinstance(part, TextPart))


def _cleaned(part: object) -> Part:
    """The same part if it holds only storable strings, else one that does."""
    if not isinstance(part, Part):
        raise InvalidRequest(f"a part must be one of {', '.join(_KINDS)}, not {type(part).__name__}")
    kind = type(part)
    cleaned: dict[str, object] = {}
    for name, value in zip(_FIELDS[kind], _VALUES[kind](part)[1:], strict=True):
        if name in _FLAGS:
            if not isinstance(value, bool):
                raise InvalidRequest(f"{kind.type}.{name} must be a bool, not {type(value).__name__}")
        elif isinstance(value, str):
            if (clean := storable(value)) is not value:
                cleaned[name] = clean
        elif value is not None or (kind, name) not in _OPTIONAL:
            raise InvalidRequest(f"{kind.type}.{name} must be a string, not {type(value).__name__}")
    return replace(part, **cleaned) if cleaned else part  # type: ignore[arg-type]
