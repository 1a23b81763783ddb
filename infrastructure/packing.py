"""The parts of a message as the store keeps them, beside the text that `MessageRow.text` holds.

A message of one text part has none (NULL). Else it is a JSON list of parts: a text part is its length in the text; any
other is a list of its kind's letter and its fields in the order of their class, without the last ones that are not set:
`[12,["c","read_file","{}","call_1"]]`. Earlier releases wrote the parts' public JSON form instead; such rows stay as
they are and are read for ever.
"""

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
from backscroll.infrastructure.types import json_text

_KINDS: dict[str, Any] = {
    "a": AttachmentPart,
    "c": ToolCallPart,
    "r": ToolResultPart,
    "t": ReasoningPart,  # its own thinking
}


_LETTERS = {kind: letter for letter, kind in _KINDS.items()}
# Of a single name alone a getter would give no tuple.
_VALUES = {kind: attrgetter("type", *(item.name for item in fields(kind))) for kind in _LETTERS}


def packed(parts: tuple[Part, ...]) -> str | None:
    """The parts without the text that `MessageRow.text` holds, as JSON; None for one text part."""
    if len(parts) == 1 and type(parts[0]) is TextPart:
        return None
    return f"[{','.join([str(len(part.text)) if type(part) is TextPart else _listed(part) for part in parts])}]"


def _listed(part: Part) -> str:
    values = [*_VALUES[type(part)](part)]
    while values[-1] is None or values[-1] is False:
        values.pop()
    values[0] = _LETTERS[type(part)]
    # Written here: the encoder takes longer to begin with a list than with all the strings in it.
    return f"[{','.join(['null' if value is None else json_text(value) for value in values])}]"


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
