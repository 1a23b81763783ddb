"""What every facade keeps to inside a host's transaction."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from backscroll import (
    InvalidRequest,
    MessageConflict,
    NewMessage,
    SessionNotFound,
)
from tests.contract.facades import KEY, OTHER, Kind, found, shown, stored


class HostBase(orm.DeclarativeBase):
    """A host whose tables bear the names that we use ourselves."""


class HostSession(HostBase):
    __tablename__ = "sessions"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    title: orm.Mapped[str]


class HostMessage(HostBase):
    __tablename__ = "messages"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    text: orm.Mapped[str | None] = orm.mapped_column(unique=True)
    session_id: orm.Mapped[int | None] = orm.mapped_column(sa.ForeignKey(HostSession.id))


WRITE = sa.insert(HostMessage).values(text="host")
COUNT = sa.select(sa.func.count()).select_from(HostMessage)


@dataclass
class Host:
    """A host with an engine, and what it gives to `using`: a connection or a session."""

    kind: Kind
    engine: Any
    way: str

    def begun(self) -> Any:
        return self.engine.connect() if self.way == "connection" else self.kind.session(self.engine)

    def rows(self) -> int:
        with self.begun() as one:
            return int(one.execute(COUNT).scalar_one())


@pytest.fixture(params=["connection", "session"])
def host(request: pytest.FixtureRequest, filed: Kind, store_path: Path) -> Iterator[Host]:
    plain = sa.create_engine(f"sqlite:///{store_path}")
    HostBase.metadata.create_all(plain)
    plain.dispose()
    engine = filed.engine()
    yield Host(filed, engine, request.param)
    engine.dispose()


@pytest.fixture
def outside(filed: Kind) -> Iterator[Any]:
    with filed.open() as scroll:
        yield stored(scroll)
        assert scroll.verify().problems == ()


def test_the_hosts_commit_stores_ours_and_its_own_together(host: Host, outside: Any) -> None:
    with host.begun() as one:
        one.execute(WRITE)
        inside = outside.using(one)
        inside.append(KEY, "user", "basalt", message_id="b")
        assert found(inside, "basalt") == ["b"]
        assert found(outside, "basalt") == []
        assert one.in_transaction()
        one.commit()
        # The next call joins the next transaction.
        inside.append(KEY, "user", "quartz", message_id="q")
        assert found(outside, "quartz") == []
        one.rollback()
    assert (found(outside, "basalt"), found(outside, "quartz"), host.rows()) == (["b"], [], 1)


def test_the_hosts_rollback_undoes_ours_and_its_own_together(host: Host, outside: Any) -> None:
    with host.begun() as one:
        inside = outside.using(one)
        inside.append(KEY, "user", "basalt")
        inside.edit(KEY, "m1", "changed")
        inside.rewind(KEY, "m3")
        one.execute(WRITE)
        inside.delete_session(KEY)
        one.rollback()
    assert (found(outside, "granite", limit=25), host.rows()) == ([f"m{n}" for n in range(6)], 0)


def test_a_transaction_that_is_left_without_a_commit_stores_nothing(host: Host, outside: Any) -> None:
    with host.begun() as one:
        outside.using(one).append(KEY, "user", "basalt")
    assert found(outside, "basalt") == []


def test_the_hosts_savepoints_undo_and_keep_ours_at_every_depth(host: Host, outside: Any) -> None:
    with host.begun() as one:
        inside = outside.using(one)
        inside.append(KEY, "user", "outer", message_id="outer")
        first = one.begin_nested()
        inside.append(KEY, "user", "undone", message_id="undone")
        second = one.begin_nested()
        one.execute(WRITE)
        inside.reset(KEY)
        second.commit()
        inside.edit(KEY, "outer", "undone")
        first.rollback()
        third = one.begin_nested()
        inside.append(KEY, "user", "kept", message_id="kept")
        third.commit()
        assert inside.verify().ok
        one.commit()
    assert [found(outside, word) for word in ("outer", "undone", "kept")] == [["outer"], [], ["kept"]]
    assert (shown(outside)[-1], len(shown(outside)), host.rows()) == ("kept", 8, 0)


def test_several_facades_share_a_transaction(host: Host, outside: Any, filed: Kind) -> None:
    with filed.open() as other, host.begun() as one, host.begun() as two:
        first, second = outside.using(one), other.using(one)
        first.append(KEY, "user", "basalt", message_id="b1")
        second.append(KEY, "user", "basalt", message_id="b2")
        nested = one.begin_nested()
        second.append(KEY, "user", "basalt", message_id="b3")
        first.append(KEY, "user", "basalt", message_id="b4")
        assert found(first, "basalt") == ["b1", "b2", "b3", "b4"]
        nested.rollback()
        apart = other.using(two)
        assert found(apart, "basalt") == []
        two.rollback()
        one.commit()
        assert found(apart, "basalt") == ["b1", "b2"]


def test_a_refused_call_leaves_the_transaction_as_it_was(host: Host, outside: Any) -> None:
    with host.begun() as one:
        one.execute(WRITE)
        inside = outside.using(one)
        inside.append(KEY, "user", "before")
        with pytest.raises(MessageConflict):
            inside.append_many(KEY, [NewMessage("user", "half"), NewMessage("user", "other", message_id="m1")])
        with pytest.raises(SessionNotFound):
            inside.append(OTHER, "user", "x")
        with pytest.raises(InvalidRequest):
            inside.maintain()
        inside.append(KEY, "user", "after")
        one.commit()
    assert [len(found(outside, word)) for word in ("before", "half", "after")] == [1, 0, 1]
    assert host.rows() == 1


def test_closing_a_facade_inside_ends_nothing_of_the_hosts(host: Host, outside: Any) -> None:
    with host.begun() as one:
        with outside.using(one) as inside:
            inside.append(KEY, "user", "basalt", message_id="b")
        one.execute(WRITE)
        one.commit()
    assert (found(outside, "basalt"), host.rows()) == (["b"], 1)


def test_a_session_keeps_its_pending_objects_pending_and_its_failures_its_own(outside: Any, filed: Kind) -> None:
    host = Host(filed, filed.engine(), "session")
    with host.engine.begin() as connection:
        for table in HostBase.metadata.sorted_tables:
            connection.execute(sa.schema.CreateTable(table))
    with host.begun() as one:
        pending = HostMessage(text="pending")
        one.add(pending)
        inside = outside.using(one)
        inside.append(KEY, "user", "basalt", message_id="b")
        assert pending in one.new
        # The host's own failure is met where the host flushes, and takes nothing of ours along in its savepoint.
        one.flush()
        nested = one.begin_nested()
        one.add(HostMessage(text="pending"))
        with pytest.raises(sa.exc.IntegrityError):
            one.flush()
        nested.rollback()
        inside.append(KEY, "user", "quartz", message_id="q")
        one.commit()
    assert (found(outside, "basalt"), found(outside, "quartz"), host.rows()) == (["b"], ["q"], 1)
    host.engine.dispose()


def test_using_something_else_is_refused(filed: Kind, outside: Any) -> None:
    engine = filed.engine()
    for wrong in (engine, None, "sqlite://", 7):
        with pytest.raises(InvalidRequest):
            outside.using(wrong)
    engine.dispose()


def test_an_engine_of_the_hosts_is_neither_closed_nor_changed(filed: Kind, host: Host) -> None:
    before = host.rows()
    with filed.open(host.engine) as scroll:
        stored(scroll)
        assert found(scroll, "place2") == ["m2"]
    with host.begun() as one:
        assert one.execute(sa.text("PRAGMA foreign_keys")).scalar() == 0
    assert host.rows() == before
