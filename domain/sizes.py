"""How large results are as JSON, in bytes of UTF-8: answers are bounded."""

import json
from json.encoder import encode_basestring

from backscroll.domain.parts import TextPart
from backscroll.domain.results import HistoryMessage, to_json

_FRAME = 160
"""What a message or a part takes beside its strings, at most."""


def json_size(value: object) -> int:
    """The size of a result."""
    return _bytes(json.dumps(to_json(value), ensure_ascii=False))


def size_at_most(message: HistoryMessage) -> int:
    """At least the size of a message and not much more, counted without making its JSON."""
    said = _bytes(encode_basestring(message.text))
    total = _FRAME + 6 * len(message.message_id) + said
    for part in message.parts:
        total += _FRAME
        if isinstance(part, TextPart) and part.text is message.text:
            total += said
        else:
            values = (getattr(part, name) for name in part.__slots__)
            total += sum(_bytes(encode_basestring(value)) for value in values if isinstance(value, str))
    return total


def _bytes(encoded: str) -> int:
    return len(encoded) if encoded.isascii() else len(encoded.encode("utf-8", "surrogatepass"))
