"""Files with damaged pages, cut off, or no databases at all."""

import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from backscroll import StoreUnavailable
from tests.damage.a_store import (
    INDEX,
    ONE,
    OPERATOR,
    found,
    own,
    rows,
    whole,
)
from tests.factories import opened


def damaged_page(path: Path, tree: str, change: Callable[[bytearray], None]) -> None:
    """Writes over a leaf page of a table or an index, in the middle of it."""
    with opened(path) as scroll:
        scroll.maintain()
    pages = rows(path, f"SELECT pageno FROM dbstat WHERE name = '{tree}' AND pagetype = 'leaf' ORDER BY pageno")
    (number,) = pages[len(pages) // 2]
    assert isinstance(number, int)
    ((size,),) = rows(path, "PRAGMA page_size")
    assert isinstance(size, int)
    with path.open("r+b") as file:
        file.seek((number - 1) * size)
        page = bytearray(file.read(size))
        change(page)
        file.seek((number - 1) * size)
        file.write(page)


def blot(page: bytearray) -> None:
    page[-1_500:-700] = bytes(800)


def blank(page: bytearray) -> None:
    page[:] = bytes(len(page))


def scribble(page: bytearray) -> None:
    page[:] = random.Random(3).randbytes(len(page))


def compiled_with(option: str) -> bool:
    with closing(sqlite3.connect(":memory:")) as plain:
        return (option,) in plain.execute("PRAGMA compile_options").fetchall()


has_dbstat = pytest.mark.skipif(
    not compiled_with("ENABLE_DBSTAT_VTAB"),
    reason="this SQLite cannot tell where its pages are",
)


@has_dbstat
@pytest.mark.parametrize(
    "tree", ["ix_backscroll_messages_path", "sqlite_autoindex_backscroll_messages_1", f"{INDEX}_data"]
)
def test_an_index_page_partly_written_over_is_found_and_repaired(tree: str, path: Path) -> None:
    before = own(path)
    damaged_page(path, tree, blot)
    with opened(path) as scroll:
        assert scroll.verify().problems
        assert scroll.repair().ok
        assert whole(scroll)
    assert own(path) == before


@has_dbstat
@pytest.mark.parametrize("change", [blot, blank, scribble])
@pytest.mark.parametrize(
    "tree",
    ["ix_backscroll_messages_path", "sqlite_autoindex_backscroll_messages_1", f"{INDEX}_data", "backscroll_messages"],
)
def test_a_damaged_page_leads_to_problems_or_to_a_clear_error_and_to_nothing_else(
    tree: str, change: Callable[[bytearray], None], path: Path
) -> None:
    damaged_page(path, tree, change)
    with suppress(StoreUnavailable), opened(path) as scroll:
        assert not scroll.verify().ok
        scroll.repair()


@pytest.mark.parametrize("left", [0.05, 0.3, 0.6, 0.9])
def test_a_truncated_file_leads_to_problems_or_to_a_clear_error(left: float, path: Path) -> None:
    with opened(path) as scroll:
        scroll.maintain()
    os.truncate(path, int(path.stat().st_size * left))
    with pytest.raises(StoreUnavailable, match="malformed"), opened(path) as scroll:  # noqa: PT012
        assert not scroll.verify().ok
        scroll.repair()
        scroll.search("granite", requester=OPERATOR)


def test_an_empty_file_is_a_new_store(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    with opened(path) as scroll:
        scroll.ensure_session(ONE)
        scroll.append(ONE, "user", "granite")
        assert len(found(scroll, "granite")) == 1
        assert scroll.verify().ok


@pytest.mark.parametrize("content", [b"This is no database. " * 500, b"SQLite format 3\x00" + bytes(5_000)])
def test_a_file_that_is_no_database_is_refused_and_left_alone(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    path.write_bytes(content)
    with pytest.raises(StoreUnavailable):
        opened(path)
