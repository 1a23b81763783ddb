"""How well messages answer a query: BM25, with the constants and the formula of SQLite's FTS5.

BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009) with k1 = 1.2 and
b = 0.75; FTS5's form of it is in https://sqlite.org/fts5.html#the_bm25_function. Lengths are counted in tokens.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from backscroll.domain.occurrences import phrases_of
from backscroll.domain.query import Query

_K1 = 1.2
_B = 0.75
_LEAST = 1e-6


class Ranked(NamedTuple):
    """What of a message decides its rank: its text, its folded form (None: that of the text), its length in tokens."""

    text: str
    folded: str | None
    length: int


def weight(total: int, count: int) -> float:
    """How much a phrase weighs that stands in `count` of `total` messages, as FTS5 has it."""
    return max(math.log((max(total - count, 0) + 0.5) / (count + 0.5)), _LEAST)


def capped_weight(ceiling: int, count: int) -> float:
    """How much a phrase weighs whose messages were counted up to `ceiling`, of a total that nobody counted."""
    return math.log(1 + (ceiling + 0.5) / (min(count, ceiling) + 0.5))


def bm25(query: Query, found: Sequence[Ranked], weights: Sequence[float], average: float) -> list[float]:
    """A score for each message found, higher is better, given each phrase's weight and the average length."""
    most = _K1 + 1
    dampenings = [_K1 * (1 - _B + _B * one.length / average) for one in found]
    scores = [0.0] * len(found)
    counts = phrases_of(query).counts([one.text for one in found], [one.folded for one in found])
    for of_phrase, one in zip(counts, weights, strict=True):
        scores = [
            score + one * (count * most / (count + dampening))
            for score, count, dampening in zip(scores, of_phrase, dampenings, strict=True)
        ]
    return scores
