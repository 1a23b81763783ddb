"""One order for what several files found: the newest matches of all of them, ranked as if they stood in one."""

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from backscroll.domain.ports import Match, SearchRequest
from backscroll.domain.query import Order
from backscroll.infrastructure.candidates import Candidate, average_length, bounded, in_order, match, part_of, weights


class Gathered(NamedTuple):
    """What one file gives a search over several: candidates with their names, how many messages match there, and in
    how many each phrase occurs, both counted up to the bound."""

    found: Sequence[tuple[Candidate, Sequence[Any]]]
    met: int
    counts: Sequence[int]


class Ranking:
    """Takes what each file found and keeps the newest of it, as many as are ranked.

    The words' weights come from counts over all the files asked, so that scores from different files compare.
    """

    def __init__(self, rank_bound: int) -> None:
        self._rank_bound = rank_bound
        self._lock = threading.Lock()
        # A file's number stands, negative, in front of its keys: no two places are the same.
        self._newest: list[tuple[int, int, Candidate, Sequence[Any]]] = []
        self._counts: list[int] = []
        self._met = 0
        self._request: SearchRequest | None = None

    def take(self, number: int, request: SearchRequest, gathered: Gathered) -> None:
        """Takes what the file of that number found."""
        taken = [(one.created_at, -number, one, name) for one, name in gathered.found]
        with self._lock:
            self._request = request
            self._met += gathered.met
            merged = sorted(self._newest + taken, key=lambda one: (one[0], one[1], one[2].pk), reverse=True)
            self._newest = merged[: self._most(request)]
            counts = self._counts or [0] * len(gathered.counts)
            self._counts = [one + other for one, other in zip(counts, gathered.counts, strict=True)]

    def best(self) -> list[Match]:
        """The best matches of all, best first."""
        if self._request is None or not self._newest:
            return []
        # Told apart by their files for the order of equal scores and times.
        found = [
            Candidate(one.created_at, place, one.ranked)
            for place, (_, _, one, _) in zip(range(len(self._newest), 0, -1), self._newest, strict=True)
        ]
        names = {one.pk: name for one, (_, _, _, name) in zip(found, self._newest, strict=True)}
        counts = self._counts if len(self._counts) > 1 else [1]
        best = in_order(
            self._request, found, weights(counts, bounded(self._rank_bound, self._request)), average_length(found)
        )
        return [match(score, one, names[one.pk]) for score, one in best]

    def _most(self, request: SearchRequest) -> int:
        if request.order is Order.NEWEST:
            return request.limit
        bound = bounded(self._rank_bound, request)
        return bound if self._met <= bound else part_of(bound, request.limit)
