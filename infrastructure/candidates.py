"""The best matches of a search: a bounded number of candidates from the index, scored by the domain's ranking."""

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from backscroll.domain.model import Role
from backscroll.domain.ports import Match, SearchRequest
from backscroll.domain.query import Order, Query
from backscroll.domain.ranking import Ranked, bm25, capped_weight, weight
from backscroll.infrastructure import fts
from backscroll.infrastructure.matching import Matching, matching
from backscroll.infrastructure.types import from_micros

_OF_MANY = 0.2
"""The part of the bound that is ranked where more match: which of very many are best is worth less time."""
_FEW_PHRASES = 16
"""More are not counted in the whole index: for a page of common words that would take seconds."""
# The matches are found with as few columns as decide which of them are read. `met` counts them up to one more than the
# bound: that tells whether they are all.
_READ = f"""SELECT m.id, m.created_at, m.text, m.search_text, d.sz, (SELECT count(*) FROM found) AS met FROM found
    CROSS JOIN backscroll_messages AS m ON m.id = found.id CROSS JOIN {fts.SIZES} AS d ON d.id = found.id
    LIMIT (SELECT CASE WHEN count(*) > :bound THEN :few ELSE :bound END FROM found)"""
_BY_STORING = f"""WITH found(id) AS MATERIALIZED
    (SELECT m.id {{source}} ORDER BY {fts.INDEX}.rowid DESC LIMIT :bound + 1) {_READ}"""
_BY_TIME = f"""WITH found(id) AS MATERIALIZED
    (SELECT m.id {{source}} ORDER BY m.created_at DESC, m.id DESC LIMIT :bound) {_READ}"""
_NAMES = """SELECT m.message_id, m.role, t.session_id, s.session_key FROM json_each(?) AS best
    CROSS JOIN backscroll_messages AS m ON m.id = best.value
    CROSS JOIN backscroll_transcripts AS t ON t.id = m.transcript_pk
    CROSS JOIN backscroll_sessions AS s ON s.id = t.session_pk"""


class Candidate(NamedTuple):
    """A message that is ranked, in the order of its time (microseconds) and key."""

    created_at: int
    pk: int
    ranked: Ranked


def best_matches(connection: sa.Connection, request: SearchRequest, bound: int) -> list[Match]:
    """The best `request.limit` matches, best first; all are ranked up to `bounded(bound, request)`."""
    matched = matching(connection, request)
    if matched is None:
        return []
    candidates = Candidates(connection, request, matched, bounded(bound, request))
    found = candidates.read()
    best = in_order(request, found, *candidates.statistics()) if found else []
    names = candidates.names(one for _, one in best)
    return [match(score, one, name) for (score, one), name in zip(best, names, strict=True)]


def in_order(
    request: SearchRequest, found: Sequence[Candidate], weights: Sequence[float], average: float
) -> list[tuple[float, Candidate]]:
    """The best `request.limit` candidates with their scores, best first."""
    scores = bm25(request.query, [one.ranked for one in found], weights, average)
    scored = list(zip(scores, found, strict=True))
    scored.sort(key=(lambda one: one[1][:2]) if request.order is Order.NEWEST else None, reverse=True)
    return scored[: request.limit]


def match(score: float, one: Candidate, name: Sequence[Any]) -> Match:
    """The match of a candidate with the names that `Candidates.names` gives for it."""
    message_id, role, session_id, session_key = name
    return Match(
        session_key=session_key,
        session_id=session_id,
        message_id=message_id,
        role=Role(role),
        created_at=from_micros(one.created_at),
        text=one.ranked.text,
        score=score,
    )


def bounded(rank_bound: int, request: SearchRequest) -> int:
    """Up to how many matches all are ranked: a phrase takes as many times as long to look for as it has words."""
    return max(rank_bound // max(map(len, request.query.phrases)), min(request.limit, rank_bound))


def part_of(bound: int, limit: int) -> int:
    """How many candidates are ranked where more than `bound` messages match."""
    return min(max(round(bound * _OF_MANY), limit), bound)


class Candidates:
    """The candidates of one search in one database."""

    def __init__(self, connection: sa.Connection, request: SearchRequest, matched: Matching, bound: int) -> None:
        self._connection = connection
        self._request = request
        self._matched = matched
        self._newest = request.order is Order.NEWEST
        self._bound = bound
        self._found: list[Candidate] = []
        self.met = 0
        """How many messages match, counted up to one more than are ranked."""

    def read(self) -> list[Candidate]:
        """What is to be ranked: by time the newest that are asked for, else the last stored, up to the bound."""
        request, matched = self._request, self._matched
        bound = request.limit if self._newest else self._bound
        shape = (_BY_TIME if self._newest else _BY_STORING).format(source=matched.source)
        few = part_of(bound, request.limit)
        params = {"match": matched.expression(request.query), "bound": bound, "few": few}
        rows = self._connection.exec_driver_sql(shape, matched.params | params).all()
        self.met = rows[0][-1] if rows else 0
        self._found = [
            Candidate(at, pk, Ranked(text, search_text, fts.tokens_in(size)))
            for pk, at, text, search_text, size, _ in rows
        ]
        return self._found

    def statistics(self) -> tuple[list[float], float]:
        """The weight of each phrase, and the average length of a message.

        Who may see every indexed message, and has all matches ranked, gets what FTS5's own bm25 would say. Else only
        visible messages are counted, as many as may be ranked: a score must not tell of others.
        """
        all_seen = self.met <= self._bound and self._request.scope.admits_every_agent
        if all_seen and not self._newest and len(self._request.query.phrases) <= _FEW_PHRASES:
            total, average = fts.totals(self._connection)
            counts = [fts.count(self._connection, one) for one in self._several()]
            return [weight(total, count) for count in counts or [len(self._found)]], average
        return weights(self.frequencies(), self._bound), average_length(self._found)

    def frequencies(self) -> list[int]:
        """In how many visible messages each phrase occurs, counted up to the rank bound."""
        statement = f"SELECT count(*) FROM (SELECT 1 {self._matched.anywhere} LIMIT :bound)"
        return [
            int(
                self._connection.exec_driver_sql(
                    statement, {**self._matched.params, "match": self._matched.expression(one), "bound": self._bound}
                ).scalar_one()
            )
            for one in self._several()
        ] or [1]

    def names(self, those: Iterable[Candidate]) -> Sequence[Sequence[Any]]:
        """Message id, role, session id and session key of each."""
        pks = [one.pk for one in those]
        return self._connection.exec_driver_sql(_NAMES, (json.dumps(pks),)).all() if pks else ()

    def _several(self) -> list[Query]:
        """The phrases, if they are to be weighed against each other: a single one weighs the same in every match."""
        query = self._request.query
        return query.alone() if len(query.phrases) > 1 else []


def weights(counts: Sequence[int], bound: int) -> list[float]:
    """The weights of phrases that were counted up to the bound."""
    return [capped_weight(bound, count) for count in counts]


def average_length(found: Sequence[Candidate]) -> float:
    """The average length of the candidates, in tokens."""
    return sum(one.ranked.length for one in found) / len(found)
