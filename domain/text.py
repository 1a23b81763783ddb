"""Which strings may enter the store, and what becomes of those that may not.

One rule for text: a lone surrogate cannot be written as UTF-8 and a NUL ends a string in SQLite's text
functions, so each becomes U+FFFD before anything is stored. Names that a caller looks things up by (session
keys, session ids, agent ids) are refused instead: two different names must never become one.
"""

import json
import re
from collections.abc import Mapping

from backscroll.domain.errors import InvalidRequest

REPLACEMENT = "\ufffd"
MAX_KEY = 512
MAX_ID = 256
MAX_TITLE = 1_000

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_ESCAPED_NUL = re.compile(r"(\\\\)|\\u0000")
_CONTROL = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")


def storable(text: str) -> str:
    """`text` with every lone surrogate and NUL replaced by U+FFFD; other text comes back as it is."""
    if "\x00" not in text:
        if text.isascii():
            return text
        try:
            # Many times quicker than looking for lone surrogates, the only characters that cannot be encoded.
            text.encode()
        except UnicodeEncodeError:
            pass
        else:
            return text
    return _UNSTORABLE.sub(REPLACEMENT, text)


def checked_name(value: object, what: str, longest: int = MAX_ID) -> str:
    """`value` if it can name something: 1 to `longest` characters, no control characters or lone surrogates.

    Raises `InvalidRequest`, which names `what`.
    """
    if not isinstance(value, str):
        raise InvalidRequest(f"{what} must be a string, not {type(value).__name__}")
    if _is_plain(value, longest):
        return value
    if not value.strip():
        raise InvalidRequest(f"{what} must not be empty")
    if len(value) > longest:
        raise InvalidRequest(f"{what} has {len(value)} characters; at most {longest} are allowed")
    if _CONTROL.search(value):
        raise InvalidRequest(f"{what} must not hold control characters or lone surrogates")
    return value


def _is_plain(value: str, longest: int) -> bool:
    """Whether it is what nearly all names are: printable ASCII, in which nothing is to be cleaned or refused."""
    return value.isascii() and value.isprintable() and 0 < len(value) <= longest and not value.isspace()


def checked_message_id(value: object, what: str = "message_id") -> str:
    """A message id as it is stored: cleaned like text (programs write what they like), then bounded like a name."""
    if not isinstance(value, str):
        raise InvalidRequest(f"{what} must be a string, not {type(value).__name__}")
    if _is_plain(value, MAX_ID):
        return value
    return checked_name(storable(value), what)


def checked_title(value: object) -> str:
    """A title as it is stored: cleaned like text, at most `MAX_TITLE` characters."""
    if not isinstance(value, str):
        raise InvalidRequest(f"title must be a string, not {type(value).__name__}")
    if len(value) > MAX_TITLE:
        raise InvalidRequest(f"title has {len(value)} characters; at most {MAX_TITLE} are allowed")
    return storable(value)


def checked_metadata(value: object) -> dict[str, object]:
    """Metadata as it is stored: a mapping of plain JSON data, its strings cleaned like text; None is empty."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"metadata must be a mapping, not {type(value).__name__}")
    try:
        text = json.dumps(dict(value), ensure_ascii=False, allow_nan=False)
        # JSON writes a NUL as an escape; an escaped backslash before "u0000" is none.
        cleaned: dict[str, object] = json.loads(storable(_ESCAPED_NUL.sub(lambda found: found[1] or REPLACEMENT, text)))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"metadata must be plain JSON data: {error}") from error
    return cleaned
