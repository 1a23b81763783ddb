"""How large results are as JSON, in bytes of UTF-8: answers are bounded."""

import json

from backscroll.domain.parts import TextPart
from backscroll.domain.results import HistoryMessage, to_json

_encoded = json.JSONEncoder(ensure_ascii=False).encode


def json_size(value: object) -> int:
    """The size of a result."""
    return _size(to_json(value))


def size_at_most(message: HistoryMessage) -> int:
    """At least the size of a message, and near it; quickly for one of text, which most are."""
    said = _size(message.text)
    total = _FRAME + _size(message.message_id) + said
    for part in message.parts:
        if isinstance(part, TextPart):
            total += _TEXT_FRAME + (said if part.text is message.text else _size(part.text))
        else:
            total += json_size(part) + 2
    return total


def _size(data: object) -> int:
    encoded = _encoded(data)
    return len(encoded) if encoded.isascii() else len(encoded.encode("utf-8", "surrogatepass"))


_FRAME = 140
"""What a message takes beside its id, its text and its parts, at most."""
_TEXT_FRAME = len(json.dumps(to_json(TextPart("")))) + 2
