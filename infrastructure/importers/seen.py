"""Which records of a file have been met, exactly, in memory that does not grow with the file."""

import sqlite3
from typing import NamedTuple

_MOST = 2_000
"""Records in memory; whenever there are more, all of them go to a temporary file that SQLite keeps and removes."""
_MAKE = "CREATE TABLE seen (id TEXT PRIMARY KEY, content INTEGER, era INTEGER) WITHOUT ROWID"


class Met(NamedTuple):
    """The hash of a record's content, and the era in which it was met."""

    content: int
    era: int


class Seen:
    """Records by their ids."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._newest: dict[str, Met] = {}
        self._older: sqlite3.Connection | None = None
        self._greatest = ""

    def get(self, record_id: str) -> Met | None:
        """The record of that id."""
        met = self._newest.get(record_id)
        # Ids mostly grow: one that is greater than all in the file is not looked for there.
        if met is not None or self._older is None or record_id > self._greatest:
            return met
        row = self._older.execute("SELECT content, era FROM seen WHERE id = ?", (record_id,)).fetchone()
        return Met(*row) if row else None

    def add(self, record_id: str, content: int, era: int) -> None:
        """Notes a record that has not been met."""
        if len(self._newest) >= self._most:
            self._put_away()
        self._newest[record_id] = Met(content, era)

    def close(self) -> None:
        """Removes the file."""
        if self._older is not None:
            self._older.close()

    def _put_away(self) -> None:
        if self._older is None:
            self._older = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            self._older.execute("PRAGMA journal_mode = OFF")
            self._older.execute("PRAGMA cache_size = -512")
            self._older.execute(_MAKE)
        rows = sorted((record_id, *met) for record_id, met in self._newest.items())
        self._older.execute("BEGIN")
        self._older.executemany("INSERT INTO seen VALUES (?, ?, ?)", rows)
        self._older.execute("COMMIT")
        self._greatest = max(self._greatest, rows[-1][0])
        self._newest.clear()
