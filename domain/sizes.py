"""How large results are as JSON, in bytes of UTF-8: answers are bounded."""

import json
from collections.abc import Sequence

from backscroll.domain.parts import TextPart
from backscroll.domain.results import HistoryMessage, Hit, to_json

_FRAME = 160
"""What a message, a part or half a hit takes beside its strings, at most."""
_ESCAPED = bytes(range(0x20)) + b'"\\'
_CHARACTER = 6
"""What a character takes, at most: one that is escaped does."""
_PAIR = len("[1000000000, 1000000000], ")
"""What two places in a text take, at most."""


def json_size(value: object) -> int:
    """The size of a result."""
    return len(json.dumps(to_json(value), ensure_ascii=False).encode("utf-8", "surrogatepass"))


def hits_fit(hits: Sequence[Hit], room: int) -> bool:
    """Whether all hits, with commas, surely take at most `room` bytes, told without making their JSON."""
    names = sum([len(hit.session_key) + len(hit.session_id) + len(hit.message_id) for hit in hits])
    places = sum([len(hit.highlights) for hit in hits])
    frames = 2 * _FRAME * len(hits) + _CHARACTER * names + _PAIR * places
    return _fit(room - frames, [hit.excerpt for hit in hits])


def messages_fit(messages: Sequence[HistoryMessage], room: int) -> bool:
    """Whether all messages, with commas, surely take at most `room` bytes, told without making their JSON."""
    others: list[str] = []
    for message in messages:
        parts = message.parts
        room -= _FRAME * (1 + len(parts)) + _CHARACTER * len(message.message_id)
        for part in parts:
            if not (type(part) is TextPart and part.text is message.text):
                values = [getattr(part, name) for name in part.__slots__]
                others += [value for value in values if isinstance(value, str)]
    # Most messages are one text, which stands in them twice.
    return _fit(room, others, [message.text for message in messages])


def _fit(room: int, once: Sequence[str], twice: Sequence[str] = ()) -> bool:
    """Whether strings surely fit into `room` bytes of JSON."""
    if _CHARACTER * (sum(map(len, once)) + 2 * sum(map(len, twice))) <= room:
        return True
    return _strings(once) + 2 * _strings(twice) <= room


def _strings(values: Sequence[str]) -> int:
    """The size of strings in JSON at most."""
    data = "".join(values).encode("utf-8", "surrogatepass")
    return len(data) + (_CHARACTER - 1) * (len(data) - len(data.translate(None, _ESCAPED)))
