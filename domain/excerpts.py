"""The short piece of a message that a hit shows: where the query's words meet, redacted before it is cut."""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush

from backscroll.domain.graphemes import boundary_after, boundary_before
from backscroll.domain.occurrences import occurrences
from backscroll.domain.query import Query
from backscroll.domain.redaction import Span, masked, merged

_ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class Excerpt:
    """At most so many characters of a text, with the matches' places in them."""

    text: str
    highlights: tuple[Span, ...]


def excerpt(text: str, query: Query, secrets: Iterable[Span], longest: int) -> Excerpt:
    """The `longest` characters of `text` in which most of the query's phrases meet, with `secrets` masked."""
    hidden = masked(text, secrets)
    found = [(*hidden.moved(start, end), number) for start, end, number in occurrences(query, text)]
    shown = hidden.text
    if len(shown) <= longest:
        return Excerpt(shown, tuple(merged((start, end) for start, end, _ in found)))
    room = longest - 2 * len(_ELLIPSIS)
    first, last = _densest(found, room)
    start, end = _around(shown, first, last, room)
    lead = _ELLIPSIS if start > 0 else ""
    tail = _ELLIPSIS if end < len(shown) else ""
    whole = [(s, e) for s, e, _ in found if start <= s and e <= end]
    places = merged(whole or ((max(s, start), min(e, end)) for s, e, _ in found))
    shift = len(lead) - start
    return Excerpt(lead + shown[start:end] + tail, tuple((s + shift, e + shift) for s, e in places))


def _densest(found: list[tuple[int, int, int]], room: int) -> Span:
    """The span, at most `room` long, that holds the most different phrases; of equal ones the shortest, then first.

    The first phrase of all when none is as short as that.
    """
    best: tuple[int, int, Span] = (0, 0, found[0][:2] if found else (0, 0))
    latest: dict[int, int] = {}
    starts: list[tuple[int, int]] = []
    # By their ends: a long phrase may begin before a short one and end behind it.
    for start, end, number in sorted(found, key=lambda one: one[1]):
        latest[number] = max(start, latest.get(number, start))
        heappush(starts, (start, number))
        while starts and (latest.get(starts[0][1]) != starts[0][0] or end - starts[0][0] > room):
            gone, left_out = heappop(starts)
            if latest.get(left_out) == gone:
                del latest[left_out]
        if starts:
            first = starts[0][0]
            best = max(best, (len(latest), first - end, (first, end)), key=lambda one: one[:2])
    return best[2]


def _around(text: str, first: int, last: int, room: int) -> Span:
    """`room` characters of `text` with [first, last) in their middle, cut between words where one is near."""
    spare = max(room - (last - first), 0)
    start = max(min(first - spare // 2, len(text) - room), 0)
    end = min(start + room, len(text))
    if start > 0:
        start = boundary_after(text, start)
        space = text.find(" ", start, min(start + 24, first))
        start = space + 1 if space >= 0 else start
    if end < len(text):
        end = boundary_before(text, end)
        space = text.rfind(" ", max(end - 24, last), end)
        end = space if space >= 0 else end
    return start, max(end, start)
