"""How large results are as JSON, in bytes of UTF-8: answers are bounded."""

import json
from json.encoder import encode_basestring

from backscroll.domain.parts import TextPart
from backscroll.domain.results import HistoryMessage, Hit, to_json

_FRAME = 160
"""What a message, a part or half a hit takes beside its strings, at most."""
_PAIR = len("[1000000000, 1000000000], ")
"""What two places in a text take, at most."""


def json_size(value: object) -> int:
    """The size of a result."""
    return _bytes(json.dumps(to_json(value), ensure_ascii=False))


def hit_at_most(hit: Hit) -> int:
    """At least the size of a hit and not much more, counted without making its JSON."""
    names = len(hit.session_key) + len(hit.session_id) + len(hit.message_id)
    return 2 * _FRAME + 6 * names + _bytes(encode_basestring(hit.excerpt)) + _PAIR * len(hit.highlights)


def message_at_most(message: HistoryMessage) -> int:
    """At least the size of a message and not much more, counted without making its JSON."""
    said = _bytes(encode_basestring(message.text))
    total = _FRAME + 6 * len(message.message_id) + said
    for part in message.parts:
        if type(part) is TextPart and part.text is message.text:
            total += _FRAME + said
        else:
            values = [getattr(part, name) for name in part.__slots__]
            total += _FRAME + sum([_bytes(encode_basestring(value)) for value in values if isinstance(value, str)])
    return total


def _bytes(encoded: str) -> int:
    return len(encoded) if encoded.isascii() else len(encoded.encode("utf-8", "surrogatepass"))
