"""Schema revisions: which one a store is at, and Alembic on a given connection; no ini file, any folder."""

import logging
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from backscroll.domain.errors import InvalidRequest, SchemaOutdated, StoreUnavailable
from backscroll.infrastructure import bridge
from backscroll.infrastructure.engine import ensure_begun, translated
from backscroll.infrastructure.fts import INDEX
from backscroll.infrastructure.rows import MESSAGES, VERSION_TABLE, Row

_OURS = re.compile(r"\d{4}_backscroll")
"""The name of each revision: a host's environment may hold ours beside revisions of its own."""
KNOWN = (
    "0001_backscroll",
    "0002_backscroll",
    "0003_backscroll",
    "0004_backscroll",
    "0005_backscroll",
    "0006_backscroll",
    "0007_backscroll",
)
"""The revisions in order. Known without reading the scripts, so that opening a current store stays cheap."""
HEAD = KNOWN[-1]
_OLD_NAMES = {"0001": "0001_backscroll", "0002": "0002_backscroll"}
"""What the first releases called these revisions, in stores that nobody has migrated since."""
_HOSTS_VERSION_TABLE = "alembic_version"
_FOLDER = Path(__file__).parent.parent
# Beside this package lies "migrations"; a checkout reached by its real path has the same folder as "alembic".
SCRIPTS = next(path for name in ("migrations", "alembic") if (path := _FOLDER / name).joinpath("env.py").exists())

_log = logging.getLogger("backscroll.migrate")


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a store's schema stands.

    `own` tells that its history is kept in our version table, and not among the revisions of a host; `revision` is
    None before the first one, and in a host's history where no version table names it.
    """

    revision: str | None
    own: bool


def migrate(connection: sa.Connection) -> None:
    """Brings Backscroll's tables up to date, inside the transaction of a host's connection.

    It never commits, and does nothing where they are up to date. In an `AsyncConnection` it is called through
    `run_sync`. A failure leaves the transaction as it was.

    Raises:
        InvalidRequest: `connection` is no `sqlalchemy.Connection`.
        SchemaOutdated: a newer release made the tables, or the host's own history holds our revisions.
        StoreUnavailable: the database is locked, is not SQLite with FTS5, or refused a change.
    """
    if not isinstance(connection, sa.Connection):
        raise InvalidRequest(f"connection must be a sqlalchemy.Connection, not {type(connection).__name__}")
    with translated():
        if connection.dialect.name != "sqlite":
            raise StoreUnavailable(f"no storage for {connection.dialect.name!r} databases")
        if revision(connection) != HEAD:
            ensure_begun(connection, writing=True)
            with connection.begin_nested():
                upgrade(connection)


def version_location() -> str:
    """The folder of the revisions, for `version_locations` of a host whose own history is to hold them."""
    return str(SCRIPTS / "versions")


def revision(connection: sa.Connection) -> str | None:
    """The revision that the store is at; None before the first one, and where none is named."""
    return standing(connection).revision


def standing(connection: sa.Connection) -> Standing:
    """Where the schema stands, by our version table, else the host's, else the tables themselves."""
    tables = set(sa.inspect(connection).get_table_names())
    if VERSION_TABLE in tables:
        for name in _stamps(connection, VERSION_TABLE):
            return Standing(_OLD_NAMES.get(name, name), own=True)
    if MESSAGES.name not in tables:
        return Standing(None, own=True)
    if _HOSTS_VERSION_TABLE in tables:
        for name in _stamps(connection, _HOSTS_VERSION_TABLE):
            if _OURS.fullmatch(name):
                return Standing(name, own=False)
    # Alembic names no revision that another one depends on; and a host may call its version table as it likes.
    return Standing(HEAD if _fits(connection, tables) else None, own=False)


def require_current(connection: sa.Connection) -> None:
    """Raises `SchemaOutdated` unless the store is at this release's revision."""
    found = standing(connection)
    if found.revision is not None and found.revision not in KNOWN:
        raise SchemaOutdated(
            f"the store is at schema revision {found.revision}, which this release does not know:"
            " it was written by a newer one"
        )
    if found.revision != HEAD:
        remedy = "run `backscroll migrate`" if found.own else "upgrade the host's own history, which holds it"
        raise SchemaOutdated(
            f"the store is at schema revision {found.revision or 'none'}, this release needs {HEAD}: {remedy}"
        )


def upgrade(connection: sa.Connection, to: str = "head") -> None:
    """Brings the schema to a revision, inside the connection's transaction.

    Raises `StoreUnavailable` where SQLite has no FTS5, and `SchemaOutdated` for a newer store or a host's history.
    """
    from alembic import command

    require_fts5(connection)
    ensure_begun(connection)
    found = standing(connection)
    if found.own and found.revision in (None, *KNOWN):
        _log.info("migrating the schema from revision %s to %s", found.revision or "none", HEAD if to == "head" else to)
        with _alone(connection):
            command.upgrade(_config(connection), to)
    else:
        require_current(connection)


def downgrade(connection: sa.Connection, to: str) -> None:
    """Takes the schema back to a revision, inside the connection's transaction; transcripts stay.

    Raises `InvalidRequest` in a host's history: there it is the host's to take back.
    """
    from alembic import command

    ensure_begun(connection)
    found = standing(connection)
    if not found.own:
        raise InvalidRequest("the host's own history holds the schema's revisions: downgrade that")
    _log.info("migrating the schema from revision %s back to %s", found.revision or "none", to)
    with _alone(connection):
        command.downgrade(_config(connection), to)


def rename_stamp(connection: sa.Connection) -> None:
    """Gives a store's revision the name that the scripts have now."""
    if sa.inspect(connection).has_table(VERSION_TABLE):
        for name in _OLD_NAMES.keys() & set(_stamps(connection, VERSION_TABLE)):
            table = _version_table(VERSION_TABLE)
            changed = sa.update(table).where(table.c.version_num == name).values(version_num=_OLD_NAMES[name])
            connection.execute(changed)


def require_fts5(connection: sa.Connection) -> None:
    """Raises `StoreUnavailable` unless this SQLite can hold the index."""
    if "ENABLE_FTS5" not in compile_options(connection):
        raise StoreUnavailable("this SQLite library was built without FTS5, which the index needs")


def compile_options(connection: sa.Connection) -> set[str]:
    """What this SQLite library was built with."""
    return {name for (name,) in connection.exec_driver_sql("PRAGMA compile_options")}


def _version_table(name: str) -> sa.TableClause:
    return sa.table(name, sa.column("version_num", sa.String))


def _stamps(connection: sa.Connection, table: str) -> list[str]:
    return list(connection.scalars(sa.select(_version_table(table).c.version_num)))


def _fits(connection: sa.Connection, tables: set[str]) -> bool:
    """Whether the tables are those of this release, by name and column."""
    inspector = sa.inspect(connection)
    return {INDEX, *Row.metadata.tables} <= tables and all(
        {column["name"] for column in inspector.get_columns(name)} == set(table.columns.keys())
        for name, table in Row.metadata.tables.items()
    )


_ALEMBIC = threading.Lock()
_LOOK_AGAIN = 0.01
_PATIENCE = 60.0
"""Seconds."""


@contextmanager
def _alone(connection: sa.Connection) -> Iterator[None]:
    """Alembic keeps what it works on in module globals: one store at a time, whatever thread or task asks.

    Looked at again and again, since whoever holds the lock may need this very thread's event loop to go on; and not
    for ever, since who asks may be what stops that loop. Raises `StoreUnavailable` then.
    """
    end = time.monotonic() + _PATIENCE
    while not _ALEMBIC.acquire(blocking=False):
        if time.monotonic() > end:
            raise StoreUnavailable("another store has been migrated in this process for too long", locked=True)
        bridge.pause(connection.dialect, _LOOK_AGAIN)
    try:
        yield
    finally:
        _ALEMBIC.release()


def _config(connection: sa.Connection):  # type: ignore[no-untyped-def]
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
