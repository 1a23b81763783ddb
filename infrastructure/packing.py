"""The parts of a message as the store keeps them, beside the text that `MessageRow.text` holds.

A message of one text part has none (NULL). Else it is a JSON list of parts: a text part is its length in the text; any
other is a list of its kind's letter and its fields in the order of their class, without the last ones that are not set:
`[12,["c","read_file","{}","call_1"]]`. Earlier releases wrote the parts' public JSON form instead; such rows stay as
they are and are read for ever.
"""

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any

from backscroll.domain.parts import (
    TEXT_SEPARATOR,
    AttachmentPart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    part_from_dict,
)

_KINDS: dict[str, Callable[..., Part]] = {
    "a": AttachmentPart,
    "c": ToolCallPart,
    "r": ToolResultPart,
    "t": ReasoningPart,  # its own thinking
}


def _reader(letter: str, kind: Any) -> Callable[[Part], list[Any]]:
    names = [item.name for item in fields(kind)]
    values = attrgetter("type", *names)  # of one name alone it would give no tuple

    def listed(part: Part) -> list[Any]:
        found = [letter, *values(part)[1:]]
        while found[-1] is None or found[-1] is False:
            found.pop()
        return found

    return listed


_LISTED = {kind: _reader(letter, kind) for letter, kind in _KINDS.items()}


def packed(parts: tuple[Part, ...]) -> list[Any] | None:
    """The parts without the text that `MessageRow.text` holds, as JSON data; None for one text part."""
    if len(parts) == 1 and type(parts[0]) is TextPart:
        return None
    return [len(part.text) if isinstance(part, TextPart) else _LISTED[type(part)](part) for part in parts]


def unpacked(layout: list[Any], text: str) -> tuple[Part, ...]:
    """The parts again, of a message that is not one text part."""
    parts: list[Part] = []
    at = 0
    for item in layout:
        if isinstance(item, list):
            letter, *values = item
            parts.append(_KINDS[letter](*values))
        elif isinstance(item, int):
            parts.append(TextPart(text[at : at + item]))
            at += item + len(TEXT_SEPARATOR)
        else:
            parts.append(part_from_dict(item))
    return tuple(parts)
