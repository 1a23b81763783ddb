"""A revision that makes a table anew loses nothing: rows, triggers, views, indexes, used keys, foreign keys."""

import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.config import Config

from alembic import command
from backscroll import Requester
from backscroll.infrastructure import migrate
from tests.factories import opened
from tests.migrations.databases import rows, schema, url
from tests.migrations.stores.make import FOLDER

ROOT = Path(__file__).parents[2]
REVISION = f"""
import sqlalchemy as sa
from alembic import op
from backscroll.infrastructure.rebuild import rebuilt

revision = "9999_backscroll"
down_revision = "{migrate.HEAD}"


def upgrade():
    with rebuilt("{{table}}") as batch:
        batch.alter_column("{{column}}", type_=sa.String(99), existing_nullable=False)


def downgrade():
    with rebuilt("{{table}}") as batch:
        batch.alter_column("{{column}}", type_=sa.{{kind}}, existing_nullable=False)
"""
# A table, a column of it that is changed, and how that column is declared.
TABLES = [
    ("backscroll_agents", "agent_id", "String()"),
    ("backscroll_sessions", "session_key", "String()"),
    ("backscroll_transcripts", "session_id", "String()"),
    ("backscroll_messages", "message_id", "String()"),
    ("backscroll_branches", "branch_id", "String()"),
    ("backscroll_pending", "done_to", "String()"),
]
# What a host may have put beside our tables, and what must not notice that one of them is made anew.
HOSTS = """
CREATE TABLE trips (
    id INTEGER PRIMARY KEY, session_key TEXT NOT NULL REFERENCES backscroll_sessions (session_key) ON DELETE CASCADE,
    agent INTEGER REFERENCES backscroll_agents (id), "first one" INTEGER REFERENCES backscroll_messages);
CREATE TABLE stops (trip_id INTEGER NOT NULL REFERENCES trips ON DELETE CASCADE, place TEXT);
INSERT INTO trips VALUES (7, 'agent:main:main', 1, 3), (8, 'agent:main:long', 2, NULL);
INSERT INTO stops VALUES (7, 'Naxos'), (8, 'Rafina');
CREATE TABLE noticed (what TEXT);
CREATE VIEW said AS SELECT m.text, s.title FROM backscroll_messages AS m
    JOIN backscroll_transcripts AS t ON t.id = m.transcript_pk JOIN backscroll_sessions AS s ON s.id = t.session_pk;
CREATE TRIGGER host_added AFTER INSERT ON backscroll_messages BEGIN INSERT INTO noticed VALUES ('added'); END;
CREATE TRIGGER host_changed AFTER UPDATE ON backscroll_messages BEGIN INSERT INTO noticed VALUES ('changed'); END;
CREATE TRIGGER host_removed AFTER DELETE ON Backscroll_Messages BEGIN INSERT INTO noticed VALUES ('removed'); END;
CREATE TRIGGER host_trips AFTER UPDATE ON trips BEGIN INSERT INTO noticed VALUES ('trips'); END;
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = Path(shutil.copy(FOLDER / f"{migrate.HEAD[:4]}.sqlite", tmp_path / "store.db"))
    with opened(path) as scroll:
        scroll.reindex()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(HOSTS)
    return path


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., None]:
    """Runs Alembic's command on a host's connection, our revisions and one more at hand."""

    def run_it(
        path: Path, to: Callable[[Config, str], None], target: str, *, foreign_keys: bool, begin: bool = True
    ) -> None:
        engine = sa.create_engine(url(path))
        config = Config()
        config.set_main_option("script_location", str(migrate.SCRIPTS))
        config.set_main_option("path_separator", "newline")
        config.set_main_option("version_locations", f"{migrate.version_location()}\n{tmp_path / 'next'}")
        try:
            with engine.connect() as connection:
                connection.exec_driver_sql(f"PRAGMA foreign_keys = {foreign_keys}")
                pragmas = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in PRAGMAS]
                if begin:
                    connection.exec_driver_sql("BEGIN")
                config.attributes["connection"] = connection
                to(config, target)
                assert [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in PRAGMAS] == pragmas
                assert connection.exec_driver_sql("PRAGMA foreign_key_check").all() == []
                connection.commit()
        finally:
            engine.dispose()

    return run_it


PRAGMAS = ("foreign_keys", "defer_foreign_keys", "legacy_alter_table")


def hosts(path: Path) -> list[list[tuple[object, ...]]]:
    with closing(sqlite3.connect(path)) as connection:
        tables = ("trips", "stops", "noticed", "said")
        return [connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables]


@pytest.mark.parametrize("foreign_keys", [True, False])
@pytest.mark.parametrize(("table", "column", "kind"), TABLES)
def test_a_rebuilt_table_and_all_that_hangs_on_it_are_as_before(
    tmp_path, store, run, table, column, kind, foreign_keys
):
    (tmp_path / "next").mkdir()
    (tmp_path / "next" / "more.py").write_text(REVISION.format(table=table, column=column, kind=kind))
    version = {"backscroll_alembic_version"}
    kept, made, host = rows(store, version), schema(store), hosts(store)
    run(store, command.upgrade, "head", foreign_keys=foreign_keys)
    changed = {one for one in schema(store) ^ made if one[1] != table}
    assert changed == set()
    (before,), (statement,) = ([one[2] for one in those if one[1] == table] for those in (made, schema(store)))
    assert "VARCHAR(99)" in statement
    assert statement.count("AUTOINCREMENT") == before.count("AUTOINCREMENT")
    assert statement.count("CONSTRAINT") == before.count("CONSTRAINT")
    assert rows(store, version) == kept
    assert hosts(store) == host
    run(store, command.downgrade, "-1", foreign_keys=foreign_keys)
    assert {one for one in schema(store) ^ made if one[1] != table} == set()
    assert rows(store, version) == kept
    assert hosts(store) == host
    with opened(store) as scroll:
        assert scroll.verify().problems == ()
        assert scroll.search("granite", requester=Requester.operator()).hits
        # Keys are not used again, triggers fire, and cascades go where they went.
        last = max((row["seq"] for row in kept["sqlite_sequence"] if row["name"] == "backscroll_messages"), default=0)
        scroll.append("agent:main:main", "user", "chert", message_id="new")
        assert rows(store)["backscroll_messages"][-1]["id"] == last + 1
        assert scroll.delete_session("agent:main:main")
        assert scroll.verify().problems == ()
    assert hosts(store)[:2] == [[(8, "agent:main:long", 2, None)], [(8, "Rafina")]]
    assert {what for (what,) in hosts(store)[2]} - {"changed"} == {"added", "removed"}


def test_the_revision_that_the_documentation_shows_runs(tmp_path, store, run):
    page = (ROOT / "docs/migrations.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```python\n(import sqlalchemy as sa\n\nfrom back.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "next").mkdir()
    names = f'revision = "9999_backscroll"\ndown_revision = "{migrate.HEAD}"\n'
    (tmp_path / "next" / "more.py").write_text(names + shown)
    run(store, command.upgrade, "head", foreign_keys=True)
    (statement,) = (one[2] for one in schema(store) if one[1] == "backscroll_branches")
    assert "VARCHAR(64)" in statement


@pytest.mark.parametrize("begin", [True, False])
def test_a_rebuild_that_fails_changes_nothing_once_it_is_rolled_back(tmp_path, store, run, begin):
    """Also where nobody has begun a transaction that SQLite knows of, as is usual with Python's driver."""
    (tmp_path / "next").mkdir()
    script = REVISION.format(table="backscroll_messages", column="message_id", kind="String()")
    failing = script.replace("def downgrade", '    op.execute("INSERT INTO nothing VALUES (1)")\n\n\ndef downgrade')
    (tmp_path / "next" / "more.py").write_text(failing)
    kept, made, host = rows(store), schema(store), hosts(store)
    with pytest.raises(sa.exc.OperationalError, match="nothing"):
        run(store, command.upgrade, "head", foreign_keys=True, begin=begin)
    assert (rows(store), schema(store), hosts(store)) == (kept, made, host)


def test_an_empty_table_keeps_its_used_keys(tmp_path, store_path, run):
    (tmp_path / "next").mkdir()
    (tmp_path / "next" / "more.py").write_text(
        REVISION.format(table="backscroll_messages", column="message_id", kind="String()")
    )
    with opened(store_path) as scroll:
        scroll.ensure_session("agent:a:b")
        scroll.append("agent:a:b", "user", "once")
        scroll.delete_session("agent:a:b")
    before = rows(store_path)["sqlite_sequence"]
    run(store_path, command.upgrade, "head", foreign_keys=True)
    assert sorted(map(str, rows(store_path)["sqlite_sequence"])) == sorted(map(str, before))


def test_no_revision_makes_a_table_anew_without_that_care():
    scripts = [path.read_text(encoding="utf-8") for path in (ROOT / "alembic/versions").glob("*.py")]
    assert scripts
    assert not any("batch_alter_table" in script for script in scripts)
