"""Alembic's comparison of models with a database: it proposes nothing about our tables, from our side or a host's."""

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from backscroll import include_name, include_object, migrate
from backscroll.infrastructure.comparing import include_in_ours
from backscroll.infrastructure.rows import VERSION_TABLE, Row
from tests.migrations.databases import url

NAMES = {"include_name": include_name}
OBJECTS = {"include_object": include_object}


@pytest.fixture
def connection(tmp_path):
    """A host's tables and ours; the host has an index more than its models, and a model more than tables."""
    engine = sa.create_engine(url(tmp_path / "host.db"))
    with engine.connect() as connection:
        connection.exec_driver_sql("CREATE TABLE trips (id INTEGER PRIMARY KEY NOT NULL, backscroll_key TEXT)")
        connection.exec_driver_sql("CREATE INDEX backscroll_lookup ON trips (backscroll_key)")
        migrate(connection)
        yield connection
    engine.dispose()


@pytest.fixture
def host():
    models = sa.MetaData()
    sa.Table("trips", models, sa.Column("id", sa.Integer, primary_key=True), sa.Column("backscroll_key", sa.Text))
    sa.Table("stops", models, sa.Column("id", sa.Integer, primary_key=True))
    return models


def proposed(connection: sa.Connection, models: object, **options: object) -> list[tuple[str, str]]:
    context = MigrationContext.configure(
        connection, opts={"compare_type": True, "compare_server_default": True, **options}
    )
    return sorted((change[0], change[1].name) for change in compare_metadata(context, models))


# The host's own differences are still found, also those whose names only look like ours.
THE_HOSTS = [("add_table", "stops"), ("remove_index", "backscroll_lookup")]


@pytest.mark.parametrize("options", [NAMES, OBJECTS, NAMES | OBJECTS], ids=["names", "objects", "both"])
def test_a_hosts_environment_proposes_nothing_about_our_tables(connection, host, options):
    assert proposed(connection, host, **options) == THE_HOSTS


@pytest.mark.parametrize("options", [OBJECTS, NAMES | OBJECTS], ids=["objects", "both"])
def test_nor_does_one_that_compares_our_models_too(connection, host, options):
    assert proposed(connection, [host, Row.metadata], **options) == THE_HOSTS


def test_without_the_filter_our_tables_would_be_dropped(connection, host):
    dropped = {name for kind, name in proposed(connection, host) if kind == "remove_table"}
    shadows = {f"backscroll_message_index{end}" for end in ("", "_config", "_data", "_docsize", "_idx", "_terms")}
    assert shadows | {VERSION_TABLE, "backscroll_messages"} <= dropped


def test_a_host_puts_its_own_filter_beside_ours(connection, host):
    def ours_and_stops(item, name, kind, reflected, compare_to):
        return name != "stops" and include_object(item, name, kind, reflected, compare_to)

    assert proposed(connection, host, include_object=ours_and_stops) == THE_HOSTS[1:]


def test_our_own_environment_proposes_nothing_and_sees_no_table_of_the_host(connection):
    options = {"include_name": include_in_ours, "version_table": VERSION_TABLE}
    assert proposed(connection, Row.metadata, **options) == []


def test_schemas_and_names_that_are_missing_are_the_hosts():
    assert include_name(None, "schema", {})
    assert include_name("backscroll", "schema", {})
    assert include_name("backscroll_key", "column", {"schema_name": None, "table_name": "trips"})
    assert not include_name("id", "column", {"schema_name": None, "table_name": "backscroll_agents"})
    index = min(Row.metadata.tables["backscroll_sessions"].indexes, key=lambda one: str(one.name))
    assert not include_object(index, index.name, "index", True, None)
