"""Where text may be cut: never inside what a reader takes for one character.

A simplified reading of Unicode Standard Annex #29 (extended grapheme clusters): combining marks, joiners, variation
selectors, emoji modifiers and tags stay with what precedes them, flags stay in pairs, Hangul letters in syllables.
"""

import re
import unicodedata

_EXTENDS = re.compile(
    "[\u0e33\u0eb3\u1160-\u11ff\u200c\u200d\ud7b0-\ud7ff\ufe00-\ufe0f\uff9e\uff9f"
    "\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]"
)
_LEADING_HANGUL = re.compile("[\u1100-\u115f\ua960-\ua97c][\u1100-\u115f\ua960-\ua97c\uac00-\ud7a3]")
_FLAG = re.compile("[\U0001f1e6-\U0001f1ff]")
_LONGEST = 64
"""Clusters longer than this (no writing has any) may be cut, so that the search for a boundary ends."""


def boundary_before(text: str, index: int) -> int:
    """The last place at or before `index` where `text` may be cut."""
    for place in range(min(index, len(text)), max(index - _LONGEST, 0), -1):
        if _is_boundary(text, place):
            return place
    return min(index, len(text)) if index > _LONGEST else 0


def boundary_after(text: str, index: int) -> int:
    """The first place at or behind `index` where `text` may be cut."""
    for place in range(max(index, 0), min(index + _LONGEST, len(text))):
        if _is_boundary(text, place):
            return place
    return min(index + _LONGEST, len(text))


def cut(text: str, longest: int, mark: str = "…") -> str:
    """`text`, or as much of its beginning as leaves `longest` characters with `mark` at the end."""
    if len(text) <= longest:
        return text
    if longest < len(mark):
        return mark[: max(longest, 0)]
    return text[: boundary_before(text, longest - len(mark))] + mark


def _is_boundary(text: str, index: int) -> bool:
    if index <= 0 or index >= len(text):
        return True
    before, after = text[index - 1], text[index]
    if before.isascii() and after.isascii():
        return (before, after) != ("\r", "\n")
    if _EXTENDS.match(after) or before == "\u200d" or unicodedata.category(after)[0] == "M":
        return False
    if _LEADING_HANGUL.match(text, index - 1):
        return False
    if _FLAG.match(after):
        run = 0
        while run < index and _FLAG.match(text[index - 1 - run]):
            run += 1
        return run % 2 == 0
    return True
