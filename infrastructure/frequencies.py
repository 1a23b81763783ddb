"""In how many rows of the index words occur that many hold: counted once, and from then on only what came since.

FTS5 finds them one by one, some milliseconds for hundreds of thousands, and BM25 has to know how many they are. What is
remembered is how many of the old rows match, those more than 16,384 keys behind the newest: a count of them holds until
one of them is changed, removed or put back, which triggers count (see revision 0006). What goes on in the newest is
counted each time.
"""

import json
import threading
from collections.abc import Sequence
from typing import NamedTuple

from backscroll.infrastructure.fts import INDEX
from backscroll.infrastructure.rows import LAST_KEY, IndexStateRow
from backscroll.infrastructure.statements import Statements

_OLD = 1 << 14
_STATE = f"SELECT rewrites, ({LAST_KEY}) - {_OLD} FROM {IndexStateRow.__tablename__}"
_MATCHES = f"SELECT count(*) FROM {INDEX} WHERE {INDEX} MATCH json_extract(asked.value, '$[0]')"
_COUNT = f"""SELECT ({_MATCHES} AND rowid > json_extract(asked.value, '$[1]') AND rowid <= :last),
    ({_MATCHES} AND rowid > :last) FROM json_each(:asked) AS asked"""
COUNTED = f"UPDATE {IndexStateRow.__tablename__} SET rewrites = rewrites + 1;"
IS_OLD = f"OLD.id <= ({LAST_KEY}) - {_OLD}"
"""What the triggers do, and of which rows."""
_WORTH_IT = 2_000
"""Rows that are quicker counted than remembered."""


class _Known(NamedTuple):
    """How many of the rows up to the key `last` match, after so many rewrites."""

    rows: int
    last: int
    rewrites: int


class Frequencies:
    """The counts of one store's index, the last `remember` of them.

    For readers' own transactions alone: what a writer's or a host's may still undo must not be remembered.
    """

    def __init__(self, remember: int = 256) -> None:
        self._remember = remember
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def counts(self, statements: Statements, expressions: Sequence[str]) -> list[int]:
        """How many rows of the whole index each of the expressions matches."""
        # Without the row of state, or before the first message, all rows are new.
        rewrites, last = statements.first(_STATE) or (None, None)
        last = max(last or 0, 0)
        known = [self._still_true(expression, rewrites, last) for expression in expressions]
        asked = [(expression, one.last) for expression, one in zip(expressions, known, strict=True)]
        found = statements.all(_COUNT, {"asked": json.dumps(asked), "last": last})
        old = [one.rows + since for one, (since, _) in zip(known, found, strict=True)]
        if rewrites is not None:
            self._note({one: _Known(rows, last, rewrites) for one, rows in zip(expressions, old, strict=True)})
        return [rows + new for rows, (_, new) in zip(old, found, strict=True)]

    def _still_true(self, expression: str, rewrites: int | None, last: int) -> _Known:
        one = self._known.get(expression)
        return one if one is not None and one.rewrites == rewrites and one.last <= last else _Known(0, 0, 0)

    def _note(self, found: dict[str, _Known]) -> None:
        with self._lock:
            for expression, one in found.items():
                self._known.pop(expression, None)
                if one.rows >= _WORTH_IT:
                    self._known[expression] = one
            while len(self._known) > self._remember:
                del self._known[next(iter(self._known))]
