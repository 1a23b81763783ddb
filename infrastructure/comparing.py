"""For Alembic's comparison of models with a database: whose tables are whose.

Everything whose name starts with our prefix is ours: tables, the version table, and the tables that FTS5 keeps for the
index, which nobody may drop but the index itself.
"""

from collections.abc import Mapping
from typing import Any

from backscroll.infrastructure.fts import INDEX
from backscroll.infrastructure.rows import PREFIX


def include_name(name: str | None, type_: str, parent_names: Mapping[str, Any]) -> bool:
    """For `include_name` of a host's environment: not Backscroll's tables, nor anything of theirs."""
    return not _is_ours(name if type_ == "table" else parent_names.get("table_name"))


def include_object(item: Any, name: str | None, type_: str, reflected: bool, compare_to: Any) -> bool:  # noqa: ARG001
    """For `include_object` of a host's environment: not Backscroll's tables, nor anything of theirs.

    Holds for tables found in the database and for those of a `MetaData` alike.
    """
    return not _is_ours(name if type_ == "table" else getattr(getattr(item, "table", None), "name", None))


def include_in_ours(name: str | None, type_: str, parent_names: object) -> bool:  # noqa: ARG001 - Alembic's signature
    """For `include_name` of our environment: our ordinary tables, not a host's and not those of FTS5."""
    return type_ != "table" or (_is_ours(name) and not str(name).startswith(INDEX))


def _is_ours(table: str | None) -> bool:
    return table is not None and table.startswith(PREFIX)
