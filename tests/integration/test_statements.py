"""Statements past SQLAlchemy answer as those through it, and whoever listens to a connection hears all of them."""

import logging
import sqlite3
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from backscroll.infrastructure.statements import Statements


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
