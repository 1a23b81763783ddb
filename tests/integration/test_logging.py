"""The log: loggers below `backscroll` alone, no handler, and nothing that was said."""

import ast
import asyncio
import logging
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from backscroll import AsyncBackscroll, Requester, Settings, StoreUnavailable
from backscroll.infrastructure import engine
from tests.factories import opened

ROOT = Path(__file__).parents[2]
FOLDERS = ("backscroll", "domain", "services", "infrastructure", "alembic")
OPERATOR = Requester.operator()
KEY = "agent:main:main"
WORD = "heliotrope"


def files() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from (file for file in (ROOT / folder).rglob("*.py") if file.resolve() == file)


def calls(name: str) -> Iterator[ast.Call]:
    """The calls of anything of that name in the package."""
    for file in files():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and name in (getattr(node.func, "attr", ""), getattr(node.func, "id", "")):
                yield node


def test_every_logger_is_named_below_backscroll_and_documented() -> None:
    names = {ast.literal_eval(call.args[0]) for call in calls("getLogger")}
    assert {name.partition(".")[0] for name in names} == {"backscroll"}
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    assert {name for name in names if f"`{name}`" not in page} == set()


def test_nothing_sets_up_logging_but_for_a_handler_that_does_nothing() -> None:
    (handler,) = calls("addHandler")
    assert ast.unparse(handler) == "logging.getLogger('backscroll').addHandler(logging.NullHandler())"
    for name in ("setLevel", "basicConfig", "dictConfig", "fileConfig", "StreamHandler", "captureWarnings", "disable"):
        assert list(calls(name)) == [], name


def settings(path: Path) -> Settings:
    return Settings(database_url=f"sqlite:///{path}", synchronous="NORMAL", busy_timeout=0.05)


def lose_the_index(path: Path) -> None:
    with closing(sqlite3.connect(path)) as plain:
        plain.execute("DROP TABLE backscroll_message_index")
        plain.commit()


def ours(record: logging.LogRecord) -> bool:
    path = Path(record.pathname).resolve()
    return any(path.is_relative_to(ROOT / folder) for folder in FOLDERS)


def check(records: list[logging.LogRecord]) -> None:
    """Our code speaks below `backscroll` alone; what other libraries say of themselves bears their names."""
    assert {record.name.partition(".")[0] for record in records if ours(record)} == {"backscroll"}
    assert {record.name.partition(".")[0] for record in records} <= {"backscroll", "alembic", "asyncio", "aiosqlite"}
    # At level DEBUG aiosqlite logs statements with their values; the page on operations warns of it.
    assert all(record.levelno == logging.DEBUG for record in records if record.name.startswith("aiosqlite"))
    formatter = logging.Formatter()
    lines = [formatter.format(record) for record in records if not record.name.startswith("aiosqlite")]
    assert [line for line in lines if WORD in line or KEY in line] == []


def test_a_whole_life_says_nothing_of_what_was_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "store.db"
    with caplog.at_level("DEBUG"), opened(path, background_reindex=True) as scroll:
        scroll.ensure_session(KEY, title=WORD)
        scroll.append(KEY, "user", WORD, message_id="m1")
        scroll.append(KEY, "assistant", f"{WORD} too")
        scroll.rewind(KEY, "m1")
        assert scroll.search(WORD, requester=OPERATOR).hits
        assert scroll.repair().ok
        lose_the_index(path)
        with pytest.raises(StoreUnavailable):
            scroll.append(KEY, "user", WORD)
        with opened(path) as again, pytest.raises(StoreUnavailable):
            again.search(WORD, requester=OPERATOR)
    check(caplog.records)
    told = {(record.name, record.levelname) for record in caplog.records if ours(record)}
    assert {("backscroll.migrate", "INFO"), ("backscroll.open", "WARNING")} <= told


def test_it_is_the_same_on_an_event_loop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        path = tmp_path / "store.db"
        async with AsyncBackscroll.open(settings(path)) as scroll:
            await scroll.ensure_session(KEY, title=WORD)
            await scroll.append(KEY, "user", WORD)
            assert (await scroll.search(WORD, requester=OPERATOR)).hits
            lose_the_index(path)
            with pytest.raises(StoreUnavailable):
                await scroll.append(KEY, "user", WORD)

    with caplog.at_level("DEBUG"):
        asyncio.run(main())
    check(caplog.records)


def test_a_long_wait_for_the_write_lock_is_told(
    store_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_LONG", 0.02)
    with opened(store_path, busy_timeout=10.0) as scroll:
        scroll.ensure_session(KEY)
        assert "backscroll.lock" not in {record.name for record in caplog.records}
        holder = sqlite3.connect(store_path, check_same_thread=False, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        release = threading.Timer(0.1, holder.execute, ("ROLLBACK",))
        release.start()
        scroll.append(KEY, "user", WORD)
        release.join()
        holder.close()
    assert [(record.name, record.levelname) for record in caplog.records] == [("backscroll.lock", "WARNING")]
