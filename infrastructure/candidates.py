"""The best matches of a search: a bounded number of candidates from the index, scored by the domain's ranking."""

import json

import sqlalchemy as sa

from backscroll.domain.model import Role
from backscroll.domain.ports import Match, SearchRequest
from backscroll.domain.query import Order
from backscroll.domain.ranking import Ranked, bm25, capped_weight, weight
from backscroll.infrastructure import fts
from backscroll.infrastructure.matching import Matching, matching
from backscroll.infrastructure.types import from_micros

_OF_MANY = 0.4
"""The part of the bound that is ranked where more match: which of very many are best is worth less time."""
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


def best_matches(connection: sa.Connection, request: SearchRequest, bound: int) -> list[Match]:
    """The best `request.limit` matches, best first; all are ranked up to `bound`, of more the newest `_OF_MANY`."""
    matched = matching(connection, request)
    best = [] if matched is None else _Candidates(connection, request, matched, bound).best()
    names = connection.exec_driver_sql(_NAMES, (json.dumps([pk for _, _, pk, _ in best]),)) if best else ()
    return [
        Match(
            session_key=session_key,
            session_id=session_id,
            message_id=message_id,
            role=Role(role),
            created_at=from_micros(created_at),
            text=text,
            score=score,
        )
        for (score, created_at, _, text), (message_id, role, session_id, session_key) in zip(best, names, strict=True)
    ]


class _Candidates:
    """The candidates of one search."""

    def __init__(self, connection: sa.Connection, request: SearchRequest, matched: Matching, bound: int) -> None:
        self._connection = connection
        self._request = request
        self._matched = matched
        self._bound = bound

    def best(self) -> list[tuple[float, int, int, str]]:
        """Score, time, key and text of the best, best first."""
        request, matched = self._request, self._matched
        newest = request.order is Order.NEWEST
        bound = request.limit if newest else self._bound
        shape = (_BY_TIME if newest else _BY_STORING).format(source=matched.source)
        few = min(max(round(bound * _OF_MANY), request.limit), bound)
        params = {"match": matched.expression(request.query), "bound": bound, "few": few}
        rows = self._connection.exec_driver_sql(shape, matched.params | params).all()
        if not rows:
            return []
        ranked = [Ranked(text, search_text, fts.tokens_in(size)) for _, _, text, search_text, size, _ in rows]
        weights, average = self._statistics(ranked, everything=not newest and rows[0][-1] <= bound)
        scores = bm25(request.query, ranked, weights, average)
        found = [(score, at, pk, text) for score, (pk, at, text, *_) in zip(scores, rows, strict=True)]
        found.sort(key=(lambda one: one[1:3]) if newest else None, reverse=True)
        return found[: request.limit]

    def _statistics(self, ranked: list[Ranked], *, everything: bool) -> tuple[list[float], float]:
        """The weight of each phrase, and the average length.

        Who may see every indexed message, and sees all matches ranked, gets what FTS5's own bm25 would say. Else only
        visible messages are counted, as many as may be ranked: a score must not tell of others.
        """
        phrases = self._request.query.phrases
        # A single phrase stands in what it matches.
        several = phrases if len(phrases) > 1 else ()
        if everything and self._request.scope.admits_every_agent:
            total, average = fts.totals(self._connection)
            counts = [fts.count(self._connection, self._matched.alone(phrase)) for phrase in several] or [len(ranked)]
            return [weight(total, count) for count in counts], average
        average = sum(one.length for one in ranked) / len(ranked)
        counts = [self._frequency(phrase) for phrase in several] or [len(ranked)]
        return [capped_weight(self._bound, count) for count in counts], average

    def _frequency(self, phrase: tuple[str, ...]) -> int:
        """In how many visible messages a phrase occurs, counted up to the rank bound."""
        statement = f"SELECT count(*) FROM (SELECT 1 {self._matched.anywhere} LIMIT :bound)"
        params = {**self._matched.params, "match": self._matched.alone(phrase), "bound": self._bound}
        return int(self._connection.exec_driver_sql(statement, params).scalar_one())
