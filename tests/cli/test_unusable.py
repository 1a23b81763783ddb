"""The command line: stores and settings that cannot be used."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from backscroll import Backscroll
from tests.cli.calling import EXAMPLES, FIXTURES, Run, complaint, url


@pytest.mark.parametrize(
    ("database", "part"),
    [
        ("backscroll.db", "use a form such as sqlite:///backscroll.db"),
        ("", "use a form such as"),
        ("postgresql://localhost/x", "use a sqlite:/// URL"),
        ("sqlite:////", "unable to open"),
        ("sqlite:////no/such/folder/store.db", "no store"),
    ],
)
def test_a_store_that_cannot_be_opened(run: Run, database: str, part: str) -> None:
    for command in (["sessions"], ["import", str(EXAMPLES)], ["migrate"]):
        result = run(*command, database=database)
        assert result.exit_code == 3
        assert part in complaint(result)


def test_a_file_that_is_no_database_stays_as_it_is(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but somebody's notes\n" * 50)
    for command in (["search", "x"], ["migrate"], ["import", str(EXAMPLES)]):
        result = run(*command, database=url(path))
        assert result.exit_code == 3
        assert "not a database" in complaint(result)
    assert path.read_text() == "not a database, but somebody's notes\n" * 50
    assert [one.name for one in tmp_path.glob("notes*")] == ["notes.txt"]


@pytest.mark.parametrize("name", ["file:{}?uri=true", "{}?uri=true", "file:{}?mode=ro&uri=true"])
def test_a_store_named_as_sqlite_uri(run: Run, tmp_path: Path, imported_store: Path, name: str) -> None:
    missing = run("search", "ferry", database="sqlite:///" + name.format(tmp_path / "none.db"))
    assert missing.exit_code == 3
    assert "none.db" in complaint(missing)
    assert not list(tmp_path.glob("none*"))
    copy = tmp_path / "copy.db"
    shutil.copyfile(imported_store, copy)
    assert run("search", "ferry", database="sqlite:///" + name.format(copy)).exit_code == 0


def test_a_locked_store(samples: Run, store_path: Path) -> None:
    other = sqlite3.connect(store_path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        assert samples("search", "ferry", BACKSCROLL_BUSY_TIMEOUT="0").exit_code == 0
        result = samples("import", str(FIXTURES), BACKSCROLL_BUSY_TIMEOUT="0")
    finally:
        other.close()
    assert result.exit_code == 3
    assert "locked" in complaint(result)


@pytest.mark.parametrize(
    ("variable", "value", "part"),
    [
        ("BACKSCROLL_VISIBILITY", "most", "BACKSCROLL_VISIBILITY: Input should be 'self', 'tree', 'agent' or 'all'"),
        ("BACKSCROLL_BOUNDS__SEARCH_HITS", "0", "BACKSCROLL_BOUNDS__SEARCH_HITS: "),
        ("BACKSCROLL_BOUNDS", '{"search_hits": 0}', "BACKSCROLL_BOUNDS (search_hits): "),
        ("BACKSCROLL_BOUNDS", "many", "BACKSCROLL_BOUNDS: must be JSON"),
        ("BACKSCROLL_AGENT_TO_AGENT__ALLOW", "[1]", "BACKSCROLL_AGENT_TO_AGENT__ALLOW (0): "),
        ("BACKSCROLL_SYNCHRONOUS", "OFF", "BACKSCROLL_SYNCHRONOUS: "),
    ],
)
def test_a_wrong_setting_is_named(run: Run, variable: str, value: str, part: str) -> None:
    for command in (["sessions"], ["import", str(EXAMPLES)], ["migrate", "--check"]):
        result = run(*command, **{variable: value})
        assert result.exit_code == 2
        assert part in complaint(result)


def test_a_bug_shows_its_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Backscroll, "sessions", fail)
    with pytest.raises(ZeroDivisionError):
        run("sessions")
