"""Statements past SQLAlchemy answer as those through it, and whoever listens to a connection hears all of them."""

import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from backscroll.infrastructure.statements import Statements
from backscroll.infrastructure.transaction import transaction


def listened(engine: sa.Engine, heard: list[str]) -> None:
    def before(connection, cursor, statement, parameters, context, many) -> None:
        heard.append(statement)

    event.listen(engine, "before_cursor_execute", before)


@pytest.fixture(params=["alone", "listened"])
def connection(request: pytest.FixtureRequest) -> Iterator[sa.Connection]:
    engine = sa.create_engine("sqlite://")
    if request.param == "listened":
        listened(engine, [])
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE fruit (id INTEGER PRIMARY KEY, name TEXT)")
        yield connection
    engine.dispose()


def test_rows_are_plain_and_parameters_go_by_place_or_by_name(connection: sa.Connection) -> None:
    statements = Statements(connection)
    statements.run("INSERT INTO fruit (name) VALUES (?)", ("quince",))
    statements.run_many("INSERT INTO fruit (name) VALUES (?)", [("medlar",), ("sloe",)])
    assert statements.all("SELECT id, name FROM fruit WHERE id > ? ORDER BY id", (1,)) == [(2, "medlar"), (3, "sloe")]
    assert statements.first("SELECT id, name FROM fruit WHERE name = :name", {"name": "sloe"}) == (3, "sloe")
    assert statements.first("SELECT id FROM fruit ORDER BY id") == (1,)
    assert statements.first("SELECT id FROM fruit WHERE id = 9") is None
    assert statements.all("SELECT id FROM fruit WHERE id = 9") == []
    assert statements.scalar("SELECT name FROM fruit WHERE id = :id", {"id": 2}) == "medlar"
    assert statements.scalar("SELECT name FROM fruit WHERE id = 9") is None


def test_they_are_part_of_the_transaction(connection: sa.Connection) -> None:
    statements = Statements(connection)
    connection.exec_driver_sql("SAVEPOINT before")
    statements.run("INSERT INTO fruit (name) VALUES (?)", ("quince",))
    assert connection.exec_driver_sql("SELECT count(*) FROM fruit").scalar() == 1
    connection.exec_driver_sql("ROLLBACK TO before")
    assert statements.scalar("SELECT count(*) FROM fruit") == 0


def test_a_statement_that_fails_leaves_nothing_open(connection: sa.Connection) -> None:
    statements = Statements(connection)
    with pytest.raises((sqlite3.OperationalError, sa.exc.OperationalError)):
        statements.all("SELECT id FROM nowhere")
    with pytest.raises((sqlite3.IntegrityError, sa.exc.IntegrityError)):
        statements.run_many("INSERT INTO fruit VALUES (?, ?)", [(1, "quince"), (1, "medlar")])
    statements.first("SELECT 1 UNION SELECT 2")
    connection.exec_driver_sql("DROP TABLE fruit")


def test_a_listener_hears_every_statement() -> None:
    engine = sa.create_engine("sqlite://")
    heard: list[str] = []
    listened(engine, heard)
    with engine.begin() as connection:
        statements = Statements(connection)
        statements.run("CREATE TABLE fruit (id INTEGER)")
        statements.run_many("INSERT INTO fruit VALUES (?)", [(1,), (2,)])
        statements.all("SELECT id FROM fruit")
        statements.scalar("SELECT count(*) FROM fruit")
    assert [statement.split()[0] for statement in heard] == ["CREATE", "INSERT", "SELECT", "SELECT"]
    engine.dispose()


def test_an_engine_that_echoes_logs_every_statement(caplog: pytest.LogCaptureFixture) -> None:
    engine = sa.create_engine("sqlite://", echo=True)
    with caplog.at_level(logging.INFO, logger="sqlalchemy.engine"), engine.begin() as connection:
        Statements(connection).scalar("SELECT 'quince'")
    assert "SELECT 'quince'" in caplog.messages
    engine.dispose()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sa.Engine]:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'fruit.db'}", pool_reset_on_return=None)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE fruit (id INTEGER PRIMARY KEY, name TEXT)")
    yield engine
    engine.dispose()


COUNT = "SELECT count(*) FROM fruit"


@pytest.mark.parametrize("asked", ["never", "first", "between"])
@pytest.mark.parametrize("heard", [False, True])
def test_a_transaction_is_one_whether_sqlalchemys_connection_is_asked_for_or_not(
    engine: sa.Engine, asked: str, heard: bool
) -> None:
    if heard:
        listened(engine, [])
    for kept in (True, False):
        with transaction(engine, writing=True) as one:
            if asked == "first":
                assert one.connection.exec_driver_sql(COUNT).scalar() == 1 - kept
            one.statements.run("INSERT INTO fruit (name) VALUES ('quince')")
            if asked == "between":
                assert one.connection.exec_driver_sql(COUNT).scalar() == 2 - kept
                one.connection.exec_driver_sql("INSERT INTO fruit (name) VALUES ('medlar')")
                assert one.statements.scalar(COUNT) == 3 - kept
                one.connection.exec_driver_sql("DELETE FROM fruit WHERE name = 'medlar'")
            if kept:
                one.commit()
        with transaction(engine, writing=False) as one:
            assert one.statements.scalar(COUNT) == 1
    assert engine.pool.checkedout() == 0


@pytest.mark.parametrize("asked", [False, True])
def test_no_transaction_stays_open_where_the_pool_is_told_not_to_end_it(engine: sa.Engine, asked: bool) -> None:
    for writing in (False, True):
        with transaction(engine, writing=writing) as one:
            assert one.statements.scalar(COUNT) == 0
            if asked:
                assert one.connection.exec_driver_sql(COUNT).scalar() == 0
        with engine.connect() as connection:
            assert not connection.connection.driver_connection.in_transaction


def test_who_begins_to_listen_hears_the_next_transaction(engine: sa.Engine) -> None:
    heard: list[str] = []
    with transaction(engine, writing=False) as one:
        listened(engine, heard)
        one.statements.scalar(COUNT)
    assert heard == []
    with transaction(engine, writing=False) as one:
        one.statements.scalar(COUNT)
    assert heard == [COUNT]
