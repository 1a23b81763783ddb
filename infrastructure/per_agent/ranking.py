"""One order for what several files found: the newest matches of all of them, ranked as if they stood in one."""

import threading
from typing import Any, NamedTuple

import sqlalchemy as sa

from backscroll.domain.ports import Match, SearchRequest
from backscroll.domain.query import Order
from backscroll.domain.ranking import bm25
from backscroll.infrastructure import mapping
from backscroll.infrastructure.per_agent.units import Gathered
from backscroll.infrastructure.types import micros


class _Candidate(NamedTuple):
    at: int
    place: tuple[int, int]
    """The file's number, negative, and the message's key: what breaks ties. No two are the same."""
    row: sa.Row[*tuple[Any, ...]]


class Ranking:
    """Takes what each file found and keeps the newest `bound` of it.

    The words' weights come from counts over all the files asked, so that scores from different files compare.
    """

    def __init__(self, rank_bound: int) -> None:
        self._rank_bound = rank_bound
        self._lock = threading.Lock()
        self._newest: list[_Candidate] = []
        self._counts: list[int] = []
        self._bound = rank_bound
        self._request: SearchRequest | None = None

    @property
    def since(self) -> int | None:
        """Matches from before this time (microseconds) need not be taken any more."""
        with self._lock:
            return self._newest[-1].at if len(self._newest) == self._bound else None

    def take(self, number: int, request: SearchRequest, gathered: Gathered) -> None:
        """Takes what the file of that number found."""
        candidates = [_Candidate(micros(row.created_at), (-number, row.id), row) for row in gathered.rows]
        with self._lock:
            self._request = request
            self._bound = request.limit if request.order is Order.NEWEST else self._rank_bound
            self._newest = sorted(self._newest + candidates, reverse=True)[: self._bound]
            counts = self._counts or [0] * len(gathered.counts)
            self._counts = [one + other for one, other in zip(counts, gathered.counts, strict=True)]

    def best(self) -> list[Match]:
        """The best matches of all, best first."""
        if self._request is None or not self._newest:
            return []
        request = self._request
        counts = self._counts if len(self._counts) > 1 else [1]
        scores = bm25(request.query, [one.row.text for one in self._newest], counts, self._rank_bound)
        ranked = list(zip(scores, self._newest, strict=True))
        if request.order is Order.RELEVANCE:
            ranked.sort(reverse=True)
        return [
            Match(
                session_key=one.row.session_key, message=mapping.message(one.row, one.row.session_id, None), score=score
            )
            for score, one in ranked[: request.limit]
        ]
