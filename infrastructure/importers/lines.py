"""The lines of a JSONL file: read one at a time in bytes, then as JSON objects, whatever is in them.

At most one line is in memory. A line ends with a line feed and nothing else (U+2028 and the like are text), so a
program that is still writing, a crash in the middle of a record or a foreign line costs that line alone.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

LONGEST_LINE = 64 * 1024 * 1024
"""Bytes a line may have without its line feed; a longer one is passed over without being held in memory."""

_CHUNK = 1024 * 1024
_LONGEST_WHOLE_NUMBER = 600  # digits; int() may refuse more, and needs time beyond measure for very many
_BOM = b"\xef\xbb\xbf"


class UnreadableLine(ValueError):
    """A line that is no JSON object; the text says why, without repeating what is in the line."""


@dataclass(frozen=True, slots=True)
class RawLine:
    """A line's number (from 1), where it ends in the file, and its bytes (None: it is too long)."""

    number: int
    end: int
    data: bytes | None


def raw_lines(handle: BinaryIO, longest: int = LONGEST_LINE) -> Iterator[RawLine]:
    """The lines from where `handle` stands, the last one also without a line feed; `end` counts from there."""
    number = end = 0
    while data := handle.readline(longest + 1):
        number += 1
        end += len(data)
        if len(data) > longest and not data.endswith(b"\n"):
            rest = data
            while rest and not rest.endswith(b"\n"):
                rest = handle.readline(_CHUNK)
                end += len(rest)
            yield RawLine(number, end, None)
        else:
            # The mark of a file that passed through an editor is no part of the first record.
            yield RawLine(number, end, data.removeprefix(_BOM) if number == 1 else data)


def json_object(data: bytes) -> dict[str, object]:
    """The JSON object that is the line; raises `UnreadableLine`.

    Numbers that cannot be written as JSON again (NaN, infinities, 1e999) or are longer than 600 digits come as the
    text that stood there. Of equal keys the last one counts.
    """
    try:
        value = _DECODER.decode(data.rstrip(b"\r\n").decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UnreadableLine(f"not valid UTF-8 at byte {error.start + 1}") from error
    except json.JSONDecodeError as error:
        what = error.msg.removesuffix(" at").removesuffix(" starting")
        raise UnreadableLine(f"not valid JSON at character {error.pos + 1}: {what}") from error
    except RecursionError as error:
        raise UnreadableLine("JSON nested too deeply") from error
    if not isinstance(value, dict):
        raise UnreadableLine("valid JSON, but no object")
    return value


def compact_json(value: object) -> str:
    """`value` as JSON text without spaces; raises `RecursionError` when it is nested too deeply."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _whole(digits: str) -> int | str:
    return int(digits) if len(digits) <= _LONGEST_WHOLE_NUMBER else digits


def _broken(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


_DECODER = json.JSONDecoder(parse_int=_whole, parse_float=_broken, parse_constant=str)
