"""Schema revisions, applied by Alembic on a given connection; no ini file, no logging set-up, any folder."""

import threading
from pathlib import Path

import sqlalchemy as sa

from backscroll.domain.errors import SchemaOutdated, StoreUnavailable
from backscroll.infrastructure.engine import ensure_begun
from backscroll.infrastructure.fts import INDEX
from backscroll.infrastructure.rows import PREFIX, VERSION_TABLE

KNOWN = ("0001", "0002", "0003")
"""The revisions in order. Known without reading the scripts, so that opening a current store stays cheap."""
HEAD = KNOWN[-1]
_ONE_AT_A_TIME = threading.Lock()
"""Alembic keeps what it is doing in module-wide variables."""
_FOLDER = Path(__file__).parent.parent
# Beside this package lies "migrations"; a checkout reached by its real path has the same folder as "alembic".
SCRIPTS = next(path for name in ("migrations", "alembic") if (path := _FOLDER / name).joinpath("env.py").exists())


def is_ours(name: str | None, kind: str, parents: object) -> bool:  # noqa: ARG001 - Alembic's signature
    """For Alembic's `include_name`: our ordinary tables, not a host's and not those that FTS5 keeps for itself."""
    return kind != "table" or (name is not None and name.startswith(PREFIX) and not name.startswith(INDEX))


def revision(connection: sa.Connection) -> str | None:
    """The revision that the store is at; None before the first one."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.scalar(sa.select(sa.column("version_num", sa.String)).select_from(sa.table(VERSION_TABLE)))


def require_current(connection: sa.Connection) -> None:
    """Raises `SchemaOutdated` unless the store is at this release's revision."""
    found = revision(connection)
    if found is not None and found not in KNOWN:
        raise SchemaOutdated(
            f"the store is at schema revision {found}, which this release does not know: it was written by a newer one"
        )
    if found != HEAD:
        raise SchemaOutdated(
            f"the store is at schema revision {found or 'none'}, this release needs {HEAD}: run `backscroll migrate`"
        )


def upgrade(connection: sa.Connection, to: str = "head") -> None:
    """Brings the schema to a revision, inside the connection's transaction.

    Raises `StoreUnavailable` where SQLite has no FTS5.
    """
    from alembic import command

    require_fts5(connection)
    ensure_begun(connection)
    with _ONE_AT_A_TIME:
        command.upgrade(_config(connection), to)


def downgrade(connection: sa.Connection, to: str) -> None:
    """Takes the schema back to a revision, inside the connection's transaction; transcripts stay."""
    from alembic import command

    ensure_begun(connection)
    with _ONE_AT_A_TIME:
        command.downgrade(_config(connection), to)


def require_fts5(connection: sa.Connection) -> None:
    """Raises `StoreUnavailable` unless this SQLite can hold the index."""
    if "ENABLE_FTS5" not in compile_options(connection):
        raise StoreUnavailable("this SQLite library was built without FTS5, which the index needs")


def compile_options(connection: sa.Connection) -> set[str]:
    """What this SQLite library was built with."""
    return {name for (name,) in connection.exec_driver_sql("PRAGMA compile_options")}


def _config(connection: sa.Connection):  # type: ignore[no-untyped-def]
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
