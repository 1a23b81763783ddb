"""Inside a host's transaction, and on a host's engine: we take part, and never commit, close or change what is its."""

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import event, orm

from backscroll import (
    Backscroll,
    InvalidRequest,
    MessageConflict,
    NewMessage,
    Requester,
    SessionNotFound,
    StoreUnavailable,
)

KEY = "agent:main:main"
OPERATOR = Requester.operator()


def found(scroll: Backscroll, word: str) -> list[str]:
    return sorted(hit.message_id for hit in scroll.search(word, requester=OPERATOR).hits)


def explicit_begin(engine: sa.Engine) -> None:
    """What SQLAlchemy's documentation tells a host to do about pysqlite's transactions."""

    @event.listens_for(engine, "connect")
    def _connect(connection: sqlite3.Connection, record: object) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN")


@pytest.fixture(params=["legacy driver mode", "explicit BEGIN", "foreign keys on"])
def host(request: pytest.FixtureRequest, store_path: Path) -> Iterator[sa.Engine]:
    """A host's engine on our file, with tables of its own that bear the names we use ourselves."""
    engine = sa.create_engine(f"sqlite:///{store_path}")
    if request.param == "explicit BEGIN":
        explicit_begin(engine)
    if request.param == "foreign keys on":
        event.listen(engine, "connect", lambda connection, record: connection.execute("PRAGMA foreign_keys = ON"))
    with engine.begin() as connection:
        for table in ("sessions", "messages", "agents"):
            connection.exec_driver_sql(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, text TEXT)")
    yield engine
    engine.dispose()


@pytest.fixture
def stored(scroll: Backscroll) -> Backscroll:
    scroll.ensure_session(KEY)
    scroll.append(KEY, "user", "granite", message_id="m1")
    return scroll


def own_rows(engine: sa.Engine) -> int:
    with engine.connect() as connection:
        return connection.exec_driver_sql("SELECT count(*) FROM messages").scalar_one()


def test_the_hosts_commit_stores_ours_and_its_own_together(stored, host):
    with host.begin() as connection:
        connection.exec_driver_sql("INSERT INTO messages (text) VALUES ('host')")
        inside = stored.using(connection)
        inside.append(KEY, "user", "basalt", message_id="m2")
        assert found(inside, "basalt") == ["m2"]
        assert found(stored, "basalt") == []
        assert connection.in_transaction()
    assert found(stored, "basalt") == ["m2"]
    assert own_rows(host) == 1


def test_the_hosts_rollback_undoes_ours_and_its_own_together(stored, host):
    with host.connect() as connection:
        connection.exec_driver_sql("INSERT INTO messages (text) VALUES ('host')")
        inside = stored.using(connection)
        inside.append(KEY, "user", "basalt", message_id="m2")
        inside.edit(KEY, "m1", "changed")
        inside.ensure_session("agent:main:new")
        assert inside.verify().ok
        connection.rollback()
        assert found(inside, "basalt") == []
        connection.rollback()
    assert (found(stored, "granite"), found(stored, "changed")) == (["m1"], [])
    assert own_rows(host) == 0


def test_ours_comes_first_in_a_transaction_that_the_host_rolls_back(stored, host):
    with host.connect() as connection:
        stored.using(connection).append(KEY, "user", "basalt", message_id="m2")
        connection.exec_driver_sql("INSERT INTO messages (text) VALUES ('host')")
        connection.rollback()
    assert found(stored, "basalt") == []
    assert own_rows(host) == 0


def test_the_hosts_savepoints_undo_and_keep_ours(stored, host):
    with host.begin() as connection:
        inside = stored.using(connection)
        inside.append(KEY, "user", "outer", message_id="m2")
        with connection.begin_nested() as first:
            inside.append(KEY, "user", "undone", message_id="m3")
            with connection.begin_nested():
                inside.rewind(KEY, "m1")
            first.rollback()
        with connection.begin_nested():
            inside.append(KEY, "user", "kept", message_id="m4")
        assert inside.verify().ok
    assert [found(stored, word) for word in ("outer", "undone", "kept")] == [["m2"], [], ["m4"]]


def test_a_refused_write_leaves_the_hosts_transaction_as_it_was(stored, host):
    with host.begin() as connection:
        connection.exec_driver_sql("INSERT INTO messages (text) VALUES ('host')")
        inside = stored.using(connection)
        inside.append(KEY, "user", "before", message_id="m2")
        with pytest.raises(MessageConflict):
            inside.append_many(KEY, [NewMessage("user", "half"), NewMessage("user", "other", message_id="m1")])
        with pytest.raises(InvalidRequest):
            inside.append_many(KEY, [NewMessage("user", "half"), NewMessage("user", "x", parent_id="never")])
        with pytest.raises(SessionNotFound):
            inside.append("agent:main:never", "user", "x")
        inside.append(KEY, "user", "after", message_id="m3")
    assert [found(stored, word) for word in ("before", "half", "after")] == [["m2"], [], ["m3"]]
    assert own_rows(host) == 1


def test_everything_that_the_facade_does_works_inside(stored, host):
    with host.begin() as connection:
        inside = stored.using(connection)
        (whole,) = inside.branches(KEY)
        inside.append(KEY, "user", "basalt", message_id="m2")
        inside.rewind(KEY, "m1")
        inside.switch_branch(KEY, whole.branch_id)
        inside.reset(KEY, keep=1)
        inside.reset(KEY, rotate=True)
        inside.reindex()
        inside.repair()
        assert len(inside.sessions(requester=OPERATOR)) == 1
        assert inside.history(KEY, requester=OPERATOR).messages == ()
        inside.ensure_session("agent:main:other")
        inside.append("agent:main:other", "user", "basalt")
        assert inside.delete_session("agent:main:other")
    assert found(stored, "basalt") == ["m2"]


def test_a_deletion_is_whole_when_the_host_has_foreign_keys_off(stored, host, store_path):
    stored.append(KEY, "user", "x", message_id="m2")
    stored.rewind(KEY, "m1")
    stored.reset(KEY)
    with host.begin() as connection:
        assert stored.using(connection).delete_session(KEY)
    with closing(sqlite3.connect(store_path)) as connection:
        for table in ("sessions", "transcripts", "messages", "branches", "resets", "message_index_docsize"):
            assert connection.execute(f"SELECT count(*) FROM backscroll_{table}").fetchone() == (0,), table


def test_several_facades_share_a_transaction_and_each_connection_sees_its_own(stored, host, open_store):
    other = open_store()
    with host.connect() as one, host.connect() as two:
        first, second = stored.using(one), other.using(one)
        first.append(KEY, "user", "basalt", message_id="m2")
        second.append(KEY, "user", "basalt", message_id="m3")
        assert found(first, "basalt") == found(second, "basalt") == ["m2", "m3"]
        outside = other.using(two)
        assert found(outside, "basalt") == []
        two.rollback()
        one.commit()
        assert found(outside, "basalt") == ["m2", "m3"]
        two.rollback()


def test_a_facade_inside_is_used_through_an_orm_session_of_the_host(stored, host):
    with orm.Session(host) as session:
        stored.using(session.connection()).append(KEY, "user", "basalt", message_id="m2")
        session.rollback()
        stored.using(session.connection()).append(KEY, "user", "quartz", message_id="m2")
        session.commit()
    assert (found(stored, "basalt"), found(stored, "quartz")) == ([], ["m2"])


def test_using_never_closes_the_hosts_connection_nor_the_facade_it_came_from(stored, host):
    with host.connect() as connection:
        with stored.using(connection) as inside:
            inside.append(KEY, "user", "basalt", message_id="m2")
        assert not connection.closed
        assert connection.in_transaction()
        connection.rollback()
    assert found(stored, "granite") == ["m1"]


def test_using_something_else_is_refused(stored, host):
    for wrong in (host, None, "sqlite://"):
        with pytest.raises(InvalidRequest):
            stored.using(wrong)


def test_a_session_with_several_engines_gives_its_connection(stored, host):
    class Base(orm.DeclarativeBase):
        pass

    class Ticket(Base):
        __tablename__ = "messages"
        id: orm.Mapped[int] = orm.mapped_column(primary_key=True)

    with orm.Session(binds={Ticket: host}) as session:
        with pytest.raises(InvalidRequest, match="its connection"):
            stored.using(session).append(KEY, "user", "x")
        connection = session.connection(bind_arguments={"mapper": Ticket})
        stored.using(connection).append(KEY, "user", "basalt", message_id="m2")
        session.commit()
    assert found(stored, "basalt") == ["m2"]


def test_a_session_whose_flush_failed_is_unavailable_until_it_is_rolled_back(stored, host):
    class Base(orm.DeclarativeBase):
        pass

    class Ticket(Base):
        __tablename__ = "messages"
        id: orm.Mapped[int] = orm.mapped_column(primary_key=True)

    with orm.Session(host) as session:
        stored.using(session).append(KEY, "user", "basalt", message_id="m2")
        session.add_all([Ticket(id=1), Ticket(id=1)])
        with pytest.raises(sa.exc.IntegrityError):
            session.flush()
        with pytest.raises(StoreUnavailable):
            stored.using(session).append(KEY, "user", "x")
        session.rollback()
        stored.using(session).append(KEY, "user", "quartz", message_id="m3")
        session.commit()
    assert (found(stored, "basalt"), found(stored, "quartz")) == ([], ["m3"])


def test_a_connection_without_our_tables_is_unavailable(stored, tmp_path):
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'other.db'}")
    with engine.connect() as connection:
        with pytest.raises(StoreUnavailable):
            stored.using(connection).append(KEY, "user", "x")
        connection.exec_driver_sql("CREATE TABLE still_usable (id INTEGER)")
        connection.commit()
    engine.dispose()


# An engine of the host's.


def test_open_takes_the_hosts_engine_and_leaves_it_open_and_as_it_was(host, store_path):
    with host.connect() as connection:
        before = connection.exec_driver_sql("PRAGMA foreign_keys").scalar()
    with Backscroll.open(host) as scroll:
        scroll.ensure_session(KEY)
        scroll.append(KEY, "user", "granite", message_id="m1")
        scroll.append(KEY, "user", "basalt", message_id="m2")
        scroll.rewind(KEY, "m1")
        with pytest.raises(MessageConflict):
            scroll.append_many(KEY, [NewMessage("user", "half"), NewMessage("user", "other", message_id="m1")])
        assert (found(scroll, "granite"), found(scroll, "basalt"), found(scroll, "half")) == (["m1"], [], [])
        assert scroll.verify().ok
        assert scroll.delete_session(KEY)
        assert scroll.verify().ok
    with host.begin() as connection:
        connection.exec_driver_sql("INSERT INTO messages (text) VALUES ('host')")
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == before
    assert own_rows(host) == 1


def test_open_migrates_on_the_hosts_engine_in_memory(tmp_path):
    engine = sa.create_engine("sqlite://", poolclass=sa.StaticPool)
    with Backscroll.open(engine) as scroll:
        scroll.ensure_session(KEY)
        scroll.append(KEY, "user", "granite", message_id="m1")
        assert found(scroll, "granite") == ["m1"]
    with Backscroll.open(engine, migrate=False) as scroll:
        assert found(scroll, "granite") == ["m1"]
        assert scroll.verify().ok
    engine.dispose()


def test_a_store_in_memory_works_and_is_gone_when_closed():
    for _ in range(2):
        with Backscroll.open("sqlite://") as scroll:
            assert scroll.sessions(requester=OPERATOR) == []
            scroll.ensure_session(KEY)
            scroll.append(KEY, "user", "granite", message_id="m1")
            assert found(scroll, "granite") == ["m1"]


def test_open_takes_nothing_else():
    with pytest.raises(InvalidRequest):
        Backscroll.open(7)


def test_no_statement_needs_a_variable_for_each_of_many_things(store_path):
    # SQLite allows as many as it was built for; here a hundred, so that the test stays small.
    engine = sa.create_engine(f"sqlite:///{store_path}")

    @event.listens_for(engine, "connect")
    def _limit(connection: sqlite3.Connection, record: object) -> None:
        connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 100)

    names = [f"m{number}" for number in range(300)]
    with Backscroll.open(engine) as scroll:
        scroll.ensure_session(KEY)
        many = [NewMessage("user", "granite", message_id=name) for name in names]
        assert len(scroll.append_many(KEY, many)) == len(scroll.append_many(KEY, many)) == 300
        (whole,) = scroll.branches(KEY)
        scroll.rewind(KEY, "m0")
        scroll.switch_branch(KEY, whole.branch_id)
        assert len(scroll.history(KEY, requester=OPERATOR, limit=200).messages) == 200
        agents = [f"agent{number}" for number in range(300)]
        assert len(scroll.search("granite", requester=OPERATOR, agents=[*agents, "main"]).hits) == 10
        for agent in agents:
            scroll.ensure_session(f"agent:{agent}:main", spawned_by=KEY)
        assert len(scroll.sessions(requester=OPERATOR)) == 50
        assert len(scroll.search("granite", requester=Requester(KEY)).hits) == 10
        assert scroll.repair().ok
        assert scroll.delete_session(KEY)
        assert scroll.verify().ok
    engine.dispose()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="connections have autocommit from Python 3.12 on")
def test_an_engine_whose_connections_end_no_transaction_is_refused(store_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{store_path}", connect_args={"autocommit": True})
    with pytest.raises(StoreUnavailable, match="autocommit=True"):
        Backscroll.open(engine)
    with Backscroll.open(f"sqlite:///{store_path}") as scroll:
        with engine.connect() as connection, pytest.raises(StoreUnavailable, match="autocommit=True"):
            scroll.using(connection).ensure_session(KEY)
        assert scroll.sessions(requester=OPERATOR) == []
    engine.dispose()
