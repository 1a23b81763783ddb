"""In how many rows of the index words occur that many hold: counted once, and from then on only what came since.

FTS5 finds them one by one, some milliseconds for hundreds of thousands, and BM25 has to know how many they are. A count
holds as long as no row of the index is changed, removed or put back, which triggers count (see revision 0006); new rows
stand behind all others.
"""

import json
import threading
from collections.abc import Sequence
from typing import NamedTuple

from backscroll.infrastructure.fts import INDEX, SIZES
from backscroll.infrastructure.rows import IndexStateRow
from backscroll.infrastructure.statements import Statements

_STATE = f"SELECT rewrites, (SELECT max(id) FROM {SIZES}) FROM {IndexStateRow.__tablename__}"
_COUNT = f"""SELECT (SELECT count(*) FROM {INDEX} WHERE {INDEX} MATCH json_extract(asked.value, '$[0]')
    AND rowid > json_extract(asked.value, '$[1]')) FROM json_each(?) AS asked"""
_WORTH_IT = 2_000
"""Rows that are quicker counted than remembered."""


class _Known(NamedTuple):
    """How many of the rows up to the key `last` match, after so many rewrites."""

    rows: int
    last: int
    rewrites: int


class Frequencies:
    """The counts of one store's index, the last `remember` of them.

    For transactions of its own alone: what a host's may still undo must not be remembered.
    """

    def __init__(self, remember: int = 256) -> None:
        self._remember = remember
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def counts(self, statements: Statements, expressions: Sequence[str]) -> list[int]:
        """How many rows of the whole index each of the expressions matches."""
        rewrites, last = statements.first(_STATE) or (None, None)
        known = [self._still_true(expression, rewrites, last) for expression in expressions]
        asked = [(expression, one.last) for expression, one in zip(expressions, known, strict=True)]
        since = statements.all(_COUNT, (json.dumps(asked),))
        counts = [one.rows + more for one, (more,) in zip(known, since, strict=True)]
        if rewrites is not None and last is not None:
            self._note({one: _Known(count, last, rewrites) for one, count in zip(expressions, counts, strict=True)})
        return counts

    def _still_true(self, expression: str, rewrites: int | None, last: int | None) -> _Known:
        one = self._known.get(expression)
        if one is None or one.rewrites != rewrites or last is None or one.last > last:
            return _Known(0, 0, 0)
        return one

    def _note(self, found: dict[str, _Known]) -> None:
        with self._lock:
            for expression, one in found.items():
                self._known.pop(expression, None)
                if one.rows >= _WORTH_IT:
                    self._known[expression] = one
            while len(self._known) > self._remember:
                del self._known[next(iter(self._known))]
