"""Masking: how the secrets that a `Redactor` finds are hidden, and where other places move to."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

MASK = "[redacted]"

Span = tuple[int, int]
"""The characters [start, end) of a text."""


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same characters as non-overlapping spans in order; empty ones are dropped, touching ones joined."""
    result: list[Span] = []
    for start, end in sorted(spans):
        if start >= end:
            continue
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


@dataclass(frozen=True, slots=True)
class Masked:
    """A text with its secrets masked, which can say where a place of the original text has moved to."""

    text: str
    _starts: tuple[int, ...] = ()
    _ends: tuple[int, ...] = ()
    _shifts: tuple[int, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether anything was masked."""
        return bool(self._starts)

    def moved(self, start: int, end: int) -> Span:
        """Where the original characters [start, end) stand now; inside a secret that is its mask."""
        return self._place(start, at_end=False), self._place(end, at_end=True)

    def _place(self, index: int, at_end: bool) -> int:
        at = bisect_right(self._starts, index - at_end) - 1
        if at < 0:
            return index
        if index < self._ends[at] or (at_end and index == self._ends[at]):
            mask_end = self._ends[at] + self._shifts[at]
            return mask_end if at_end else mask_end - len(MASK)
        return index + self._shifts[at]


def masked(text: str, secrets: Iterable[Span]) -> Masked:
    """`text` with each of the `secrets` replaced by `MASK`."""
    spans = merged(secrets)
    if not spans:
        return Masked(text)
    pieces: list[str] = []
    shifts: list[int] = []
    done = shift = 0
    for start, end in spans:
        pieces += (text[done:start], MASK)
        shift += len(MASK) - (end - start)
        shifts.append(shift)
        done = end
    pieces.append(text[done:])
    return Masked("".join(pieces), tuple(s for s, _ in spans), tuple(e for _, e in spans), tuple(shifts))
