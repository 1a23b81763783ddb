"""How large results are as JSON, in bytes of UTF-8: answers are bounded."""

import json
from collections.abc import Sequence

from backscroll.domain.parts import TextPart
from backscroll.domain.results import HistoryMessage, Hit, to_json

_FRAME = 160
"""What a message, a part or half a hit takes beside its strings, at most."""
_ESCAPED = bytes(range(0x20)) + b'"\\'
_PAIR = len("[1000000000, 1000000000], ")
"""What two places in a text take, at most."""


def json_size(value: object) -> int:
    """The size of a result."""
    return len(json.dumps(to_json(value), ensure_ascii=False).encode("utf-8", "surrogatepass"))


def hits_at_most(hits: Sequence[Hit]) -> int:
    """At least the size of all hits, with commas, and not many times more, counted without making their JSON."""
    names = sum([len(hit.session_key) + len(hit.session_id) + len(hit.message_id) for hit in hits])
    places = sum([len(hit.highlights) for hit in hits])
    return 2 * _FRAME * len(hits) + 6 * names + _PAIR * places + _strings([hit.excerpt for hit in hits])


def messages_at_most(messages: Sequence[HistoryMessage]) -> int:
    """At least the size of all messages, with commas, and not many times more, counted without making their JSON."""
    names = parts = 0
    others: list[str] = []
    for message in messages:
        names += len(message.message_id)
        parts += len(message.parts)
        for part in message.parts:
            if not (type(part) is TextPart and part.text is message.text):
                values = [getattr(part, name) for name in part.__slots__]
                others += [value for value in values if isinstance(value, str)]
    # Most messages are one text, which stands in them twice.
    said = _strings([message.text for message in messages])
    return _FRAME * (len(messages) + parts) + 6 * names + 2 * said + _strings(others)


def _strings(values: Sequence[str]) -> int:
    """The size of strings in JSON at most: a sign that is escaped takes up to six bytes."""
    data = "".join(values).encode("utf-8", "surrogatepass")
    return len(data) + 5 * (len(data) - len(data.translate(None, _ESCAPED)))
