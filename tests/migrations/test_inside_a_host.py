"""Our tables brought up to date on a host's connection, in its transaction, beside its tables and its logging."""

import asyncio
import logging
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine

from backscroll import InvalidRequest, SchemaOutdated, StoreUnavailable, migrate
from backscroll.infrastructure.migrate import HEAD, downgrade, revision
from backscroll.infrastructure.rows import VERSION_TABLE
from tests.factories import opened
from tests.migrations.databases import at_revision, dump, revision_of, tables, url


def host_store(path: Path | None) -> sa.Engine:
    engine = sa.create_engine("sqlite://" if path is None else url(path))
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('abc123')")
        connection.exec_driver_sql("CREATE TABLE messages (id INTEGER PRIMARY KEY NOT NULL, text TEXT)")
    return engine


def ours(connection: sa.Connection) -> set[str]:
    return {name for name in sa.inspect(connection).get_table_names() if name.startswith("backscroll_")}


def test_the_hosts_version_table_is_left_alone(tmp_path):
    path = tmp_path / "host.db"
    host_store(path).dispose()
    with opened(path) as scroll:
        assert scroll.verify().ok
    assert revision_of(path) == HEAD
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT * FROM alembic_version").fetchall() == [("abc123",)]
    at_revision(path, lambda connection: downgrade(connection, "base"))
    assert tables(path) - {"sqlite_sequence"} == {"alembic_version", "messages", VERSION_TABLE}


@pytest.mark.parametrize("memory", [False, True])
def test_migrating_on_the_hosts_connection_is_the_hosts_to_commit_or_roll_back(tmp_path, memory):
    engine = host_store(None if memory else tmp_path / "host.db")
    with engine.connect() as connection:
        connection.exec_driver_sql("INSERT INTO messages (text) VALUES ('the host''s own')")
        migrate(connection)
        assert "backscroll_messages" in ours(connection)
        connection.rollback()
        assert ours(connection) == set()
        assert connection.exec_driver_sql("SELECT count(*) FROM messages").scalar() == 0
        connection.rollback()
    with engine.connect() as connection:
        migrate(connection)
        migrate(connection)
        connection.commit()
    with engine.connect() as connection:
        changes = connection.exec_driver_sql("SELECT total_changes()").scalar()
        schema = connection.exec_driver_sql("PRAGMA schema_version").scalar()
        migrate(connection)
        assert connection.exec_driver_sql("SELECT total_changes()").scalar() == changes
        assert connection.exec_driver_sql("PRAGMA schema_version").scalar() == schema
        assert revision(connection) == HEAD
        assert connection.exec_driver_sql("SELECT * FROM alembic_version").all() == [("abc123",)]
        connection.rollback()
    engine.dispose()


def test_migrating_leaves_logging_alone_and_works_inside_a_running_loop(tmp_path, caplog):
    logger, root = logging.getLogger("app"), logging.getLogger()
    logger.setLevel(logging.INFO)
    before = (list(root.handlers), root.level, list(logger.handlers), logger.level, logger.disabled)

    async def upgrade() -> None:
        at_revision(tmp_path / "loop.db", migrate)
        await asyncio.to_thread(at_revision, tmp_path / "thread.db", migrate)

    with caplog.at_level(logging.INFO, logger="app"):
        asyncio.run(upgrade())
        logger.info("still heard")
    assert "still heard" in caplog.text
    logger.setLevel(logging.NOTSET)
    after = (list(root.handlers), root.level, list(logger.handlers), logging.INFO, logger.disabled)
    assert after == before
    assert revision_of(tmp_path / "loop.db") == revision_of(tmp_path / "thread.db") == HEAD


def test_an_asynchronous_connection_migrates_in_its_own_transaction(tmp_path):
    pytest.importorskip("aiosqlite")

    async def run() -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/async.db")
        async with engine.connect() as connection:
            await connection.run_sync(migrate)
            assert "backscroll_messages" in await connection.run_sync(ours)
            await connection.rollback()
            assert await connection.run_sync(ours) == set()
            await connection.rollback()
        for _ in range(2):
            async with engine.begin() as connection:
                await connection.run_sync(migrate)
        await engine.dispose()

    asyncio.run(run())
    assert revision_of(tmp_path / "async.db") == HEAD


def test_a_revision_that_fails_half_way_leaves_store_and_transaction_as_they_were(revision_1):
    before = dump(revision_1)
    engine = sa.create_engine(url(revision_1))
    with engine.begin() as connection:
        # In the way of the second table that revision 2 makes, when the messages have new columns already.
        connection.exec_driver_sql("CREATE TABLE backscroll_index_state (id INTEGER)")
    schema = tables(revision_1)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE notes (text TEXT)")
        with pytest.raises(StoreUnavailable, match="already exists"):
            migrate(connection)
        connection.exec_driver_sql("INSERT INTO notes VALUES ('goes on')")
    assert tables(revision_1) == schema | {"notes"}
    assert dump(revision_1) == before
    assert revision_of(revision_1) == "0001_backscroll"
    with engine.begin() as connection:
        assert "indexed" not in {column["name"] for column in sa.inspect(connection).get_columns("backscroll_messages")}
        connection.exec_driver_sql("DROP TABLE backscroll_index_state")
        migrate(connection)
    engine.dispose()
    with opened(revision_1) as scroll:
        assert scroll.repair().ok


def test_hosts_that_migrate_one_file_at_once_all_succeed(tmp_path):
    """Each in a plain transaction, as `engine.begin()` gives it: nobody reads before the lock is there."""
    engines = [sa.create_engine(url(tmp_path / "host.db"), connect_args={"timeout": 30}) for _ in range(4)]
    start = threading.Barrier(len(engines))

    def run(engine: sa.Engine) -> None:
        start.wait(30)
        with engine.begin() as connection:
            migrate(connection)

    with ThreadPoolExecutor(len(engines)) as threads:
        list(threads.map(run, engines))
    for engine in engines:
        engine.dispose()
    with opened(tmp_path / "host.db") as scroll:
        assert scroll.verify().ok


def test_a_locked_database_is_unavailable(tmp_path):
    engine = sa.create_engine(url(tmp_path / "host.db"), connect_args={"timeout": 0.01})
    with closing(sqlite3.connect(tmp_path / "host.db", isolation_level=None)) as other, engine.connect() as connection:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable) as refused:
            migrate(connection)
        assert refused.value.locked
        connection.rollback()
        other.execute("ROLLBACK")
        migrate(connection)
        connection.commit()
    engine.dispose()
    assert revision_of(tmp_path / "host.db") == HEAD


def test_a_store_of_a_newer_release_is_refused_and_left_alone(store_path):
    engine = sa.create_engine(url(store_path))
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '9999_backscroll'")
    with engine.connect() as connection, pytest.raises(SchemaOutdated, match="9999_backscroll"):
        migrate(connection)
    engine.dispose()
    assert revision_of(store_path) == "9999_backscroll"


@pytest.mark.parametrize("thing", ["sqlite://", None, sa.create_engine("sqlite://")])
def test_migrating_something_else_is_refused(thing):
    with pytest.raises(InvalidRequest, match=r"sqlalchemy\.Connection"):
        migrate(thing)
