"""How well messages answer a query, judged by those messages alone.

BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009) with its usual k1 = 1.2
and b = 0.75. Every statistic comes from messages that the requester may see, so that a score never depends on others.
Lengths are counted in characters.
"""

import math
import re
from collections.abc import Sequence

from backscroll.domain.analyzer import JOINT, fold
from backscroll.domain.query import Match, Query

_K1 = 1.2
_B = 0.75


def bm25(query: Query, texts: Sequence[str], frequencies: Sequence[int], ceiling: int) -> list[float]:
    """A score for each of the `texts`, higher is better.

    `frequencies` says in how many visible messages each phrase of the query occurs, counted up to `ceiling`.
    """
    if not texts:
        return []
    patterns = [_pattern(phrase, prefix=_is_prefix(query, place)) for place, phrase in enumerate(query.phrases)]
    weights = [math.log(1 + (ceiling + 0.5) / (min(count, ceiling) + 0.5)) for count in frequencies]
    average = sum(map(len, texts)) / len(texts) or 1.0
    return [_score(fold(text), len(text) / average, patterns, weights) for text in texts]


def _score(folded: str, length: float, patterns: Sequence[re.Pattern[str]], weights: Sequence[float]) -> float:
    dampening = _K1 * (1 - _B + _B * length)
    total = 0.0
    for pattern, weight in zip(patterns, weights, strict=True):
        count = len(pattern.findall(folded))
        total += weight * count * (_K1 + 1) / (count + dampening)
    return total


def _is_prefix(query: Query, place: int) -> bool:
    return query.match is Match.PREFIX and place == len(query.phrases) - 1


def _pattern(phrase: Sequence[str], *, prefix: bool) -> re.Pattern[str]:
    """Finds a phrase in folded text, in which spaces and joints stand between tokens and nothing else."""
    gap = f"[ {JOINT}]+"
    end = "" if prefix else f"(?![^ {JOINT}])"
    return re.compile(f"(?<![^ {JOINT}])" + gap.join(map(re.escape, phrase)) + end)
