"""Whether the SQLite library will do, and which of its known faults can touch a store.

Versions are those of the library that Python was linked to, which need not be the operating system's. A distribution
may have mended a fault without changing the version; that cannot be seen from here.
"""

import logging
import sqlite3
from threading import Lock

from backscroll.domain.errors import StoreUnavailable

Version = tuple[int, ...]

OLDEST: Version = (3, 35, 0)
"""Source: https://sqlite.org/changes.html: `WITH ... AS MATERIALIZED` and `ALTER TABLE DROP COLUMN` came with it."""

_SAVEPOINT = (
    "a savepoint rolled back while temporary tables are kept in memory can corrupt the database"
    " (fixed in 3.37.2; see https://sqlite.org/releaselog/3_37_2.html)"
)
_WAL_RESET = (
    "two connections that write and checkpoint at the same moment can, very rarely, corrupt the database"
    " (the WAL-reset bug, fixed in 3.51.3, 3.50.7 and 3.44.6; see https://sqlite.org/wal.html#walresetbug)"
)

_log = logging.getLogger("backscroll.sqlite")
_lock = Lock()
_told = False


def require_version(version: Version) -> None:
    """Raises `StoreUnavailable` for a library that lacks what our statements need."""
    if version < OLDEST:
        raise StoreUnavailable(f"this SQLite library is version {_text(version)}; the store needs {_text(OLDEST)}")


def hazards(version: Version) -> tuple[str, ...]:
    """The documented faults of that version which can touch a store."""
    found = []
    if (3, 35, 0) <= version < (3, 37, 2):
        found.append(_SAVEPOINT)
    mended = version >= (3, 51, 3) or (3, 50, 7) <= version < (3, 51) or (3, 44, 6) <= version < (3, 45)
    if version >= (3, 7, 0) and not mended:
        found.append(_WAL_RESET)
    return tuple(found)


def check_library(version: Version = sqlite3.sqlite_version_info) -> None:
    """Refuses a library that is too old; names the faults of one that has some, once in the life of the process."""
    global _told
    require_version(version)
    with _lock:
        told, _told = _told, True
    if not told and (found := hazards(version)):
        _log.warning("SQLite %s has known faults: %s", _text(version), "; ".join(found))


def _text(version: Version) -> str:
    return ".".join(map(str, version))
