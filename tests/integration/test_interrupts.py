"""An interrupt (Ctrl+C) in the middle of a statement ends the call as an interrupt, and nothing of it is kept."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from backscroll import Backscroll, Requester, Settings

KEY = "agent:main:main"
OPERATOR = Requester.operator()


class Interrupting:
    """Raises KeyboardInterrupt in the statement of that number, counted from 1."""

    def __init__(self) -> None:
        self.at = 0
        self._met = 0

    def statement(self, *_: Any) -> None:
        self._met += 1
        if self._met == self.at:
            raise KeyboardInterrupt

    def every_statement_of(self, call: Callable[[], object]) -> Iterator[None]:
        """Does a call again and again, each time interrupted one statement later, until none is left to interrupt."""
        for at in range(1, 1_000):
            self.at, self._met = at, 0
            try:
                call()
            except KeyboardInterrupt:
                yield
            else:
                break
            finally:
                self.at = 0


@pytest.fixture
def interrupting() -> Interrupting:
    return Interrupting()


@pytest.fixture(params=["in SQLAlchemy", "in the driver"])
def engine(request: pytest.FixtureRequest, store_path: Path, interrupting: Interrupting) -> Iterator[sa.Engine]:
    """An engine all of whose statements go through SQLAlchemy, since it has listeners, and one that has none."""

    class Cursor(sqlite3.Cursor):
        def execute(self, *args: Any) -> sqlite3.Cursor:
            interrupting.statement()
            return super().execute(*args)

        def executemany(self, *args: Any) -> sqlite3.Cursor:
            interrupting.statement()
            return super().executemany(*args)

    class Connection(sqlite3.Connection):
        def cursor(self, *_: Any) -> sqlite3.Cursor:
            return Cursor(self)

        def execute(self, *args: Any) -> sqlite3.Cursor:
            return self.cursor().execute(*args)

        def commit(self) -> None:
            super().commit()
            # What the call did is kept from here on.
            interrupting.at = 0

    heard = request.param == "in SQLAlchemy"
    arguments: dict[str, Any] = {} if heard else {"factory": Connection}
    engine = sa.create_engine(f"sqlite:///{store_path}", connect_args=arguments)
    if heard:
        for name in ("do_execute", "do_executemany", "do_execute_no_params"):
            event.listen(engine, name, interrupting.statement)
    yield engine
    engine.dispose()


@pytest.fixture
def calls(tmp_path: Path) -> dict[str, Callable[[Backscroll], object]]:
    said = {"role": "user", "content": "chert"}
    lines = [{"type": "session", "version": 3, "id": "more"}, {"type": "message", "id": "m1", "message": said}]
    (tmp_path / "more.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return {
        "append": lambda scroll: scroll.append(KEY, "user", "chert"),
        "import": lambda scroll: scroll.import_transcripts(tmp_path / "more.jsonl"),
        "rewind": lambda scroll: scroll.rewind(KEY, "m2"),
        "delete": lambda scroll: scroll.delete_session(KEY),
        "search": lambda scroll: scroll.search("granite", requester=OPERATOR),
    }


@pytest.mark.parametrize("what", ["append", "import", "rewind", "delete", "search"])
def test_an_interrupt_in_any_statement_is_told_as_one_and_leaves_nothing_behind(
    what: str, engine: sa.Engine, interrupting: Interrupting, calls: dict[str, Callable[[Backscroll], object]]
) -> None:
    with Backscroll.open(engine, settings=Settings(background_reindex=False)) as scroll:
        scroll.ensure_session(KEY)
        texts = [{"role": "user", "content": f"granite {n}", "message_id": f"m{n}"} for n in range(5)]
        scroll.append_many(KEY, texts)
        interrupted = 0
        for _ in interrupting.every_statement_of(lambda: calls[what](scroll)):
            interrupted += 1
            assert engine.pool.checkedout() == 0
            assert len(scroll.history(KEY, requester=OPERATOR).messages) == 5
            assert scroll.search("chert", requester=OPERATOR).hits == ()
        assert interrupted >= 2
        assert scroll.verify().ok
