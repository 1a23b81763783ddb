"""The best matches of a search: a bounded number of candidates from the index, scored by the domain's ranking.

How many match is counted in the index alone where that tells, so that of the messages only those are read that are
ranked. Where FTS5 itself may rank, which is where nothing is hidden from who asks, it does, and only the best are read.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from backscroll.domain.model import Role
from backscroll.domain.ports import Match, SearchRequest
from backscroll.domain.query import Match as By
from backscroll.domain.query import Order, Query
from backscroll.domain.ranking import Ranked, bm25, capped_weight, weight
from backscroll.infrastructure import bodies, fts, times
from backscroll.infrastructure.frequencies import Frequencies
from backscroll.infrastructure.matching import Matching, matching
from backscroll.infrastructure.statements import DATABASE_ERRORS, Statements
from backscroll.infrastructure.types import from_micros

_OF_MANY = 0.2
"""The part of the bound that is ranked where more match: which of very many are best is worth less time."""
_FEW_PHRASES = 16
"""More are not counted in the whole index: for a page of common words that would take seconds."""
_SMALL = 50_000
"""Rows that are quickly counted."""
_COLUMNS = "m.id, m.created_at, m.text, m.search_text"
_SIZES = f"CROSS JOIN {fts.SIZES} AS d ON d.id = m.id"
_INDEXED = f"SELECT rowid FROM {fts.INDEX} WHERE {fts.INDEX} MATCH :match ORDER BY rowid DESC LIMIT :bound + 1"
_FILTERED = f"SELECT m.id FROM {{source}} ORDER BY {fts.INDEX}.rowid DESC LIMIT :bound + 1"
_NEWEST = "SELECT m.id FROM {source} ORDER BY m.created_at DESC, m.id DESC LIMIT :limit"
_SORTED = 1_000
"""So many matches are sorted by time; of more the newest are looked for where they can be."""
_WITHIN = f"""SELECT m.created_at, m.id FROM json_each(:stretches) AS within CROSS JOIN {{source}}
    AND {fts.INDEX}.rowid BETWEEN json_extract(within.value, '$[0]') AND json_extract(within.value, '$[1]')
    ORDER BY m.created_at DESC, m.id DESC LIMIT :limit"""
_KEYS = "SELECT value FROM json_each(:keys)"
# `met` counts what was found, up to one more than the bound: that tells whether it is all.
_READ = f"""WITH found(id) AS MATERIALIZED ({{found}}) SELECT {_COLUMNS}, d.sz, (SELECT count(*) FROM found) AS met
    FROM found CROSS JOIN backscroll_messages AS m ON m.id = found.id {_SIZES}{{filters}}
    LIMIT (SELECT CASE WHEN count(*) > :bound THEN :few ELSE :bound END FROM found)"""
# The best as FTS5 ranks all that match, with their scores, if those are few enough; else what is to be ranked here.
_RANKED = f"""WITH found(id) AS MATERIALIZED ({_INDEXED}), met(number) AS MATERIALIZED (SELECT count(*) FROM found),
    best(id, score) AS MATERIALIZED (SELECT m.id, coalesce(-{fts.BM25}, 0.0) AS score FROM met CROSS JOIN {{source}}
        AND met.number <= :bound ORDER BY score DESC, m.created_at DESC, m.id DESC LIMIT :limit)
    SELECT {_COLUMNS}, NULL, met.number, best.score
        FROM met CROSS JOIN best CROSS JOIN backscroll_messages AS m ON m.id = best.id
    UNION ALL SELECT * FROM (SELECT {_COLUMNS}, d.sz, met.number, NULL
        FROM met CROSS JOIN found CROSS JOIN backscroll_messages AS m ON m.id = found.id {_SIZES}{{filters}}
        AND met.number > :bound LIMIT :few) AS rest"""
_NAMES = """SELECT m.message_id, m.role, t.session_id, s.session_key FROM json_each(?) AS best
    CROSS JOIN backscroll_messages AS m ON m.id = best.value
    CROSS JOIN backscroll_transcripts AS t ON t.id = m.transcript_pk
    CROSS JOIN backscroll_sessions AS s ON s.id = t.session_pk"""


class Candidate(NamedTuple):
    """A message that is ranked, in the order of its time (microseconds) and key."""

    created_at: int
    pk: int
    ranked: Ranked


def best_matches(
    statements: Statements, request: SearchRequest, bound: int, frequencies: Frequencies, *, settled: bool
) -> list[Match]:
    """The best `request.limit` matches, best first; all are ranked up to `bounded(bound, request)`.

    `settled`: nothing in scope waits to be reindexed, so that the index alone tells how many messages match.
    """
    matched = matching(statements, request, settled=settled)
    if matched is None:
        return []
    candidates = Candidates(statements, request, matched, bounded(bound, request), frequencies)
    best = candidates.best()
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

    def __init__(
        self,
        statements: Statements,
        request: SearchRequest,
        matched: Matching,
        bound: int,
        whole: Frequencies,
    ) -> None:
        self._statements = statements
        self._request = request
        self._matched = matched
        self._newest = request.order is Order.NEWEST
        self._bound = bound
        self._whole = whole
        self._found: list[Candidate] = []
        self.met = 0
        """How many messages match, counted up to one more than are ranked."""

    def best(self) -> list[tuple[float, Candidate]]:
        """The best `request.limit` candidates with their scores, best first."""
        try:
            ranked = self._read(_RANKED, self._bound) if self._suit_fts5() else None
        except DATABASE_ERRORS:
            # FTS5 does not rank without its record of lengths, which nothing else needs.
            ranked = None
        if ranked:
            return ranked
        if ranked is None:
            self.read()
        return in_order(self._request, self._found, *self.statistics()) if self._found else []

    def read(self) -> list[Candidate]:
        """What is to be ranked: by time the newest that are asked for, else the last stored, up to the bound."""
        if self._newest:
            self._read_newest()
        else:
            shape = _READ.replace("{found}", _INDEXED if self._matched.told_by_index else _FILTERED)
            for step in self._matched.steps():
                self._read(shape, self._bound, step)
                if step is None or self._suffice(self._matched.heads[step]):
                    break
        return self._found

    def _read_newest(self) -> None:
        matched, limit = self._matched, self._request.limit
        expression = matched.expression(self._request.query)
        if fts.is_rare(self._statements, expression, _SORTED):
            self._read(_READ.replace("{found}", _NEWEST), limit)
            return
        statement = _WITHIN.format(source=matched.source)
        newest: list[tuple[int, int]] = []
        for stretches, rest_before in times.newest_first(self._statements):
            params = {**matched.params, "match": expression, "stretches": json.dumps(stretches), "limit": limit}
            found = self._statements.all(statement, params)
            newest = sorted([*newest, *map(tuple, found)], reverse=True)[:limit]
            if rest_before is not None and len(newest) == limit and newest[-1][0] >= rest_before:
                break
        self._read(_READ.replace("{found}", _KEYS), limit, keys=json.dumps([pk for _, pk in newest]))

    def _suffice(self, left_out: int) -> bool:
        """Whether what was found is more than the bound, and all of it stored after the last of what was left out."""
        return self.met > self._bound and min(one.pk for one in self._found) > left_out

    def _read(self, shape: str, bound: int, step: int | None = None, **params: object) -> list[tuple[float, Candidate]]:
        """Reads candidates; returns those that FTS5 has ranked already."""
        matched = self._matched
        params |= {"match": matched.expression(self._request.query, step), "limit": self._request.limit}
        rows = self._statements.all(
            shape.format(source=matched.source, filters=matched.filters),
            matched.params | params | {"bound": bound, "few": part_of(bound, self._request.limit)},
        )
        self.met = rows[0][5] if rows else 0
        if rows and rows[0][4] is None:
            return [(score, Candidate(at, pk, Ranked(text, folded, 0))) for pk, at, text, folded, _, _, score in rows]
        self._found = [
            Candidate(at, pk, Ranked(text, bodies.folded(text, search_text), fts.tokens_in(size)))
            for pk, at, text, search_text, size, *_ in rows
        ]
        return []

    def _suit_fts5(self) -> bool:
        """Whether FTS5's own bm25 is what is asked for, and quick.

        It looks for all matches twice, and for each phrase and token once more in the whole index: too often for what
        takes long to find or to count.
        """
        query = self._request.query
        words = query.match is not By.PREFIX and all(len(phrase) == 1 for phrase in query.phrases)
        wanted = self._request.scope.admits_every_agent and not self._newest and self._matched.told_by_index
        if not (wanted and words) or len(query.phrases) + self._matched.narrowing > _FEW_PHRASES:
            return False
        alone = len(query.phrases) == 1 and not self._matched.narrowing
        return alone or fts.totals(self._statements)[0] <= _SMALL

    def statistics(self) -> tuple[list[float], float]:
        """The weight of each phrase, and the average length of a message.

        Who may see every indexed message, and has all matches ranked, gets what FTS5's own bm25 would say. Else only
        visible messages are counted, as many as may be ranked: a score must not tell of others.
        """
        all_seen = self.met <= self._bound and self._request.scope.admits_every_agent
        if all_seen and not self._newest and len(self._request.query.phrases) <= _FEW_PHRASES:
            total, average = fts.totals(self._statements)
            expressions = [self._matched.anywhere(one) for one in self._several()]
            counts = self._whole.counts(self._statements, expressions) if expressions else [len(self._found)]
            return [weight(total, count) for count in counts], average
        return weights(self.frequencies(), self._bound), average_length(self._found)

    def frequencies(self) -> list[int]:
        """In how many visible messages each phrase occurs, counted up to the rank bound."""
        several = self._several()
        if not several:
            return [1]
        counts: list[int] = []
        for step in self._matched.steps():
            expressions = json.dumps([self._matched.expression(one, step) for one in several])
            params = {**self._matched.params, "expressions": expressions, "bound": self._bound}
            counts = [count for (count,) in self._statements.all(self._matched.counted, params)]
            if min(counts) >= self._bound:
                break
        return counts

    def names(self, those: Iterable[Candidate]) -> Sequence[Sequence[Any]]:
        """Message id, role, session id and session key of each."""
        pks = [one.pk for one in those]
        return self._statements.all(_NAMES, (json.dumps(pks),)) if pks else ()

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
