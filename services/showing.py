"""How messages are shown: secrets masked before anything is cut, every length bounded, what was cut flagged."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from backscroll.domain.graphemes import cut
from backscroll.domain.model import PathMessage
from backscroll.domain.parts import (
    AttachmentPart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    text_of,
)
from backscroll.domain.ports import Redactor
from backscroll.domain.redaction import masked
from backscroll.domain.results import HistoryMessage
from backscroll.domain.sizes import json_size
from backscroll.domain.text import MAX_ID, MAX_KEY

Shown = TypeVar("Shown")


class Presenter:
    """Shows one message after the other and remembers whether anything was masked."""

    def __init__(self, redactor: Redactor, message_chars: int) -> None:
        self._redactor = redactor
        self._message_chars = message_chars
        self.redacted = False

    def show(self, message: PathMessage) -> HistoryMessage:
        """The message, masked, with at most `message_chars` characters of text and as many of everything else."""
        if len(message.parts) == 1 and type(said := message.parts[0]) is TextPart:
            # As nearly every message is.
            text = self.mask(said.text)
            short = cut(text, self._message_chars)
            parts = message.parts if short is said.text else (TextPart(short),)
            return _shown(message, parts, short, truncated=short != text)
        rooms = {True: self._message_chars, False: self._message_chars}
        kept: list[Part] = []
        truncated = False
        for part in message.parts:
            spoken = type(part) is TextPart
            shown, used, whole = self._part(part, rooms[spoken])
            rooms[spoken] -= used
            truncated |= not whole
            if shown is not None:
                kept.append(shown)
        return _shown(message, tuple(kept), cut(text_of(kept), self._message_chars), truncated=truncated)

    def mask(self, text: str) -> str:
        """`text` with its secrets masked."""
        secrets = self._redactor.secrets(text)
        if not secrets:
            return text
        result = masked(text, secrets)
        self.redacted |= result.changed
        return result.text

    def _part(self, part: Part, room: int) -> tuple[Part | None, int, bool]:
        """A part in at most `room` characters (None: no room at all), how many it took, whether it is whole."""
        if room <= 0:
            return None, 0, False
        match part:
            case TextPart() | ReasoningPart() | ToolResultPart():
                text = self.mask(part.text)
                short = cut(text, room)
                return part if short is part.text else replace(part, text=short), len(short), short == text
            case ToolCallPart():
                arguments, name = self.mask(part.arguments), self.mask(part.name)
                short = cut(arguments, room)
                same = short is part.arguments and name is part.name
                return part if same else replace(part, arguments=short, name=name), len(short), short == arguments
            case AttachmentPart():
                # A data: URI is binary data, not text to be read for secrets, and of no use when it is cut.
                uri = part.uri if part.uri is None or part.uri.startswith("data:") else self.mask(part.uri)
                if uri is not None and len(uri) > room:
                    return replace(part, uri=None), 0, False
                return replace(part, uri=uri), len(uri or ""), True


def _shown(message: PathMessage, parts: tuple[Part, ...], text: str, *, truncated: bool) -> HistoryMessage:
    return HistoryMessage(
        message_id=message.message_id,
        role=message.role,
        text=text,
        parts=parts,
        timestamp=message.created_at,
        truncated=truncated,
    )


_FRAME_AT_MOST = 6 * (MAX_KEY + MAX_ID) + 256
"""What a page takes beside its items: a key and an id, of which a character takes six bytes at most, and its fields."""


def fitting(
    page: Callable[[], object],
    items: Sequence[Shown],
    most_bytes: int,
    keep: int,
    shorten: Callable[[Shown], Shown],
    fit: Callable[[Sequence[Shown], int], bool],
) -> tuple[list[Shown], int]:
    """As many `items` around the one at `keep` as fit into `most_bytes` of JSON, with an empty `page` around them.

    Returns them and how many were dropped before the first one left. The one to keep is shortened if need be. Where
    `fit` says that they surely fit into so many bytes, their sizes are not looked at.
    """
    if fit(items, most_bytes - _FRAME_AT_MOST):
        return list(items), 0
    separator = 2
    sizes = [json_size(item) + separator for item in items]
    first, last = 0, len(items)
    total = json_size(page()) + sum(sizes)
    while total > most_bytes and last - first > 1:
        if keep - first > last - 1 - keep:
            total -= sizes[first]
            first += 1
        else:
            last -= 1
            total -= sizes[last]
    kept = list(items[first:last])
    while total > most_bytes and kept:
        shorter = shorten(kept[0])
        if shorter == kept[0]:
            break
        total += json_size(shorter) - json_size(kept[0])
        kept = [shorter]
    return kept, first


def shorter_message(message: HistoryMessage) -> HistoryMessage:
    """The message with less to it: first without its parts, then with half of its text."""
    if message.parts:
        return replace(message, parts=(), truncated=True)
    return replace(message, text=cut(message.text, len(message.text) // 2), truncated=True) if message.text else message
