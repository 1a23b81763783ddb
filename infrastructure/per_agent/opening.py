"""Opening one agent's file: an engine of its own, its schema seen to once."""

import sqlite3
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.util import LRUCache

from backscroll.infrastructure.engine import begun, configuring, create_engine
from backscroll.infrastructure.per_agent.files import AgentFiles, identity


class Prepare(Protocol):
    """Sees to the schema of an engine's database."""

    def __call__(self, engine: sa.Engine, *, upgrade: bool) -> None:
        """Brings an outdated one up to date, or with `upgrade` False raises `SchemaOutdated`."""
        ...

    def __hash__(self) -> int: ...


_IDLE_CONNECTIONS = 1
_CACHE_KIB = 2_048
"""Of each open file; there may be many."""


class Opener:
    """Opens engines on files of one pattern, all in the same way."""

    def __init__(
        self, files: AgentFiles, prepare: Prepare, *, upgrade: bool, busy_timeout: float, synchronous: str
    ) -> None:
        self._files = files
        self._prepare = prepare
        self._upgrade = upgrade
        self._busy_timeout = busy_timeout
        self._synchronous = synchronous
        self._statements: LRUCache[Any, Any] = LRUCache(500)
        model = create_engine("sqlite://", busy_timeout=0, synchronous=synchronous)
        # The dialect learns from its first connection what this SQLite can do.
        with model.connect():
            self._dialect = model.dialect
        model.dispose()
        self._seen: dict[Path, tuple[object, int]] = {}

    def open(self, path: Path) -> sa.Engine:
        """An engine on a file that is there. The schema is looked at again when it or the file has changed since."""
        engine = self._engine(path)
        try:
            with begun(engine, writing=False) as connection:
                found = _schema(connection, path)
            if self._seen.get(path) != found:
                self._prepare(engine, upgrade=self._upgrade)
                with begun(engine, writing=False) as connection:
                    self._seen[path] = _schema(connection, path)
        except BaseException:
            engine.dispose()
            raise
        return engine

    def empty(self) -> bytes:
        """What is in a file of this release's schema in which nothing is stored yet."""
        return _empty(self._prepare)

    def _engine(self, path: Path) -> sa.Engine:
        """An engine like any other, but with a dialect and compiled statements that all files share.

        Making those anew takes longer than to open a file and ask it.
        """
        # In the mode that never makes a file.
        uri = path.as_uri().replace("file://", "file:", 1) + "?mode=rw"

        def connect() -> Any:
            return sqlite3.connect(uri, uri=True, timeout=self._busy_timeout, check_same_thread=False)

        pool = sa.pool.QueuePool(connect, pool_size=_IDLE_CONNECTIONS, max_overflow=-1, dialect=self._dialect)
        event.listen(pool, "connect", configuring(self._synchronous, cache_kib=_CACHE_KIB))
        return sa.Engine(pool, self._dialect, self._files.url, execution_options={"compiled_cache": self._statements})


def _schema(connection: sa.Connection, path: Path) -> tuple[object, int]:
    """Which file it is, and SQLite's count of changes to its schema."""
    return identity(path), connection.exec_driver_sql("PRAGMA schema_version").scalar_one()


@cache
def _empty(prepare: Prepare) -> bytes:
    """Made once in a process: migrating takes a hundred times as long as writing a file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        engine = create_engine(f"sqlite:///{path}", busy_timeout=0, synchronous="NORMAL")
        try:
            prepare(engine, upgrade=True)
        finally:
            engine.dispose()
        return path.read_bytes()
