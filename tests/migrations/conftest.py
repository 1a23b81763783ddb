"""A store from before the index."""

from pathlib import Path

import pytest

from backscroll.infrastructure import migrate
from tests.migrations.databases import ROWS, at_revision, tables, write_rows


@pytest.fixture
def revision_1(tmp_path: Path) -> Path:
    path = tmp_path / "old.db"
    at_revision(path, lambda connection: migrate.upgrade(connection, "0001"))
    assert "backscroll_message_index" not in tables(path)
    write_rows(path, ROWS)
    return path
