"""The index under every way of writing: event hooks, refusals, triggers, rollbacks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from backscroll import Backscroll, InvalidRequest, Requester, Role
from backscroll.infrastructure import fts
from backscroll.infrastructure.engine import begun, create_engine
from backscroll.infrastructure.hooks import IndexedSession
from backscroll.infrastructure.rows import MESSAGES, AgentRow, BranchRow, MessageRow, SessionRow, TranscriptRow
from tests.factories import at

KEY = "agent:main:main"


def found(scroll: Backscroll, query: str) -> list[str]:
    return sorted(hit.message_id for hit in scroll.search(query, requester=Requester.operator()).hits)


class Rows:
    """A store seen by its rows: sessions of the hooked kind, and raw looks into the index."""

    def __init__(self, path: Path) -> None:
        self.engine = create_engine(f"sqlite:///{path}", busy_timeout=5, synchronous="NORMAL")

    @contextmanager
    def writing(self, **options: object) -> Iterator[IndexedSession]:
        """A session in a transaction of its own, rolled back unless it is committed."""
        with (
            begun(self.engine, writing=True) as connection,
            IndexedSession(connection, join_transaction_mode="control_fully", **options) as session,
        ):
            yield session

    def index_rows(self) -> list[int]:
        """The keys of the messages that the index itself holds."""
        with begun(self.engine, writing=False) as connection:
            return list(connection.scalars(sa.text("SELECT id FROM backscroll_message_index_docsize ORDER BY id")))

    def check(self) -> None:
        """FTS5's strict integrity check."""
        with begun(self.engine, writing=True) as connection:
            fts.check(connection)


@pytest.fixture
def rows(store_path: Path) -> Iterator[Rows]:
    rows = Rows(store_path)
    yield rows
    rows.engine.dispose()


@pytest.fixture
def talk(scroll: Backscroll) -> Backscroll:
    """A session with one message, `m1`."""
    scroll.ensure_session(KEY)
    scroll.append(KEY, "user", "dogs park", message_id="m1", created_at=at(0))
    return scroll


def message(session: orm.Session, name: str = "m1") -> MessageRow:
    return session.scalars(sa.select(MessageRow).where(MessageRow.message_id == name)).one()


def refusal(session: orm.Session, action: Callable[[orm.Session], object]) -> str | None:
    """What is said when the action is refused, which is then rolled back; None when it is done."""
    try:
        action(session)
        session.flush()
    except InvalidRequest as error:
        session.rollback()
        return str(error)
    return None


def values(session: orm.Session, text: str = "quartz", name: str = "m2", **changes: object) -> dict[str, object]:
    """The columns of a message behind the first one."""
    first = message(session)
    return {
        "transcript_pk": first.transcript_pk,
        "message_id": name,
        "parent_pk": first.id,
        "depth": 2,
        "shown": 2,
        "role": Role.USER,
        "active": True,
        "created_at": at(1),
        "text": text,
        **changes,
    }


def move_head(session: orm.Session, name: str = "m2") -> None:
    branch = session.scalars(sa.select(BranchRow).where(BranchRow.active)).one()
    branch.head_pk = session.scalars(sa.select(MessageRow.id).where(MessageRow.message_id == name)).one()
    session.flush()


# Adding.

RAW_INSERT = (
    "INSERT INTO backscroll_messages"
    " (transcript_pk, message_id, parent_pk, depth, shown, role, active, created_at, text)"
    " SELECT transcript_pk, 'm2', id, 2, 2, 'user', 1, created_at, 'quartz' FROM backscroll_messages"
)
COPIED = ["transcript_pk", "message_id", "parent_pk", "depth", "shown", "role", "active", "created_at", "text"]


def copied() -> sa.Select:
    table = MESSAGES.c
    columns = (table.transcript_pk, sa.literal("m2"), table.id, sa.literal(2), sa.literal(2))
    return sa.select(*columns, table.role, table.active, table.created_at, sa.literal("quartz"))


ADDING: dict[str, Callable[[orm.Session], object]] = {
    "add": lambda s: s.add(MessageRow(**values(s))),
    "add_all": lambda s: s.add_all([MessageRow(**values(s))]),
    "merge": lambda s: s.merge(MessageRow(**values(s))),
    "insert of the entity": lambda s: s.execute(sa.insert(MessageRow), [values(s)]),
    "insert of the entity with values": lambda s: s.execute(sa.insert(MessageRow).values(**values(s))),
    "insert of the entity from a select": lambda s: s.execute(sa.insert(MessageRow).from_select(COPIED, copied())),
    "insert of the table on the session": lambda s: s.execute(sa.insert(MESSAGES), [values(s)]),
    "bulk_save_objects": lambda s: s.bulk_save_objects([MessageRow(**values(s))]),
    "bulk_insert_mappings": lambda s: s.bulk_insert_mappings(MessageRow, [values(s)]),
    "insert on the connection": lambda s: s.connection().execute(sa.insert(MESSAGES), [values(s)]),
    "insert from a select on the connection": lambda s: s.connection().execute(
        sa.insert(MESSAGES).from_select(COPIED, copied())
    ),
    "plain SQL": lambda s: s.connection().exec_driver_sql(RAW_INSERT),
    "plain SQL on the session": lambda s: s.execute(sa.text(RAW_INSERT)),
}
INDEXED_AT_ONCE = {"add", "add_all", "merge"}


@pytest.mark.parametrize("way", ADDING)
def test_an_added_message_is_indexed_pending_or_refused(talk, rows, operator, way):
    with rows.writing() as session:
        refused = refusal(session, ADDING[way])
        if added := refused is None:
            move_head(session)
            session.commit()
    if refused is not None:
        assert "Backscroll.append_many" in refused
        assert way not in INDEXED_AT_ONCE
    page = talk.search("quartz", requester=operator)
    assert bool(page.hits) == (way in INDEXED_AT_ONCE)
    assert page.indexing == (added and way not in INDEXED_AT_ONCE)
    rows.check()
    assert talk.verify().ok
    talk.reindex()
    assert found(talk, "quartz") == (["m2"] if added else [])
    assert found(talk, "dogs") == ["m1"]


# Changing.

RAW_UPDATE = "UPDATE backscroll_messages SET text = 'cats cafe' WHERE message_id = 'm1'"


def set_attribute(session: orm.Session) -> None:
    message(session).text = "cats cafe"


def set_expired(session: orm.Session) -> None:
    row = message(session)
    session.expire(row)
    row.text = "cats cafe"


def set_deferred(session: orm.Session) -> None:
    statement = sa.select(MessageRow).options(orm.load_only(MessageRow.message_id, MessageRow.transcript_pk))
    session.scalars(statement).one().text = "cats cafe"


def stream(session: orm.Session) -> None:
    row = message(session)
    for text in ("c", "ca", "cat", "cats", "cats ", "cats c", "cats ca", "cats caf", "cats 北京", "cats cafe"):
        row.text = text


def stream_with_flushes(session: orm.Session) -> None:
    row = message(session)
    for text in ("dogs and cats", "北京", "", "cats", "cats cafe"):
        row.text = text
        session.flush()


def bulk_save_changed(session: orm.Session) -> None:
    row = message(session)
    session.expunge(row)
    row.text = "cats cafe"
    session.bulk_save_objects([row])


CHANGING: dict[str, Callable[[orm.Session], object]] = {
    "attribute": set_attribute,
    "attribute of an expired object": set_expired,
    "attribute of a partly loaded object": set_deferred,
    "streaming edits in one flush": stream,
    "streaming edits in many flushes": stream_with_flushes,
    "update of the entity": lambda s: s.execute(sa.update(MessageRow).values(text="cats cafe")),
    "bulk update by primary key": lambda s: s.execute(
        sa.update(MessageRow), [{"id": message(s).id, "text": "cats cafe"}]
    ),
    "Query.update": lambda s: s.query(MessageRow).update({"text": "cats cafe"}),
    "update of the table on the session": lambda s: s.execute(sa.update(MESSAGES).values(text="cats cafe")),
    "bulk_update_mappings": lambda s: s.bulk_update_mappings(MessageRow, [{"id": message(s).id, "text": "cats cafe"}]),
    "bulk_save_objects": bulk_save_changed,
    "update on the connection": lambda s: s.connection().execute(sa.update(MESSAGES).values(text="cats cafe")),
    "plain SQL": lambda s: s.connection().exec_driver_sql(RAW_UPDATE),
}
CHANGED_AT_ONCE = set(list(CHANGING)[:5])


@pytest.mark.parametrize("way", CHANGING)
@pytest.mark.parametrize("before", ["dogs park", "dogs 评审 park"])
def test_a_changed_message_leaves_no_old_words_behind(talk, rows, operator, way, before):
    talk.edit(KEY, "m1", before)
    with rows.writing() as session:
        refused = refusal(session, CHANGING[way])
        if changed := refused is None:
            session.commit()
    if refused is not None:
        assert "Backscroll.append_many, edit" in refused
        assert way not in CHANGED_AT_ONCE
    page = talk.search("cats", requester=operator)
    assert bool(page.hits) == (way in CHANGED_AT_ONCE)
    assert page.indexing == (changed and way not in CHANGED_AT_ONCE)
    if changed:
        assert found(talk, "dogs") == found(talk, "评审") == []
    rows.check()
    assert talk.verify().ok
    talk.reindex()
    assert found(talk, "cats") == (["m1"] if changed else [])
    assert found(talk, "dogs") == ([] if changed else ["m1"])
    assert talk.delete_session(KEY)
    assert rows.index_rows() == []


def test_a_message_that_becomes_a_tool_message_and_back(talk, rows):
    for role, hits in ((Role.TOOL, []), (Role.SYSTEM, []), (Role.USER, ["m1"])):
        with rows.writing() as session:
            message(session).role = role
            session.commit()
        assert found(talk, "dogs") == hits
        assert len(rows.index_rows()) == len(hits)
        rows.check()


def test_edit_then_delete(talk, rows):
    talk.append(KEY, "user", "quartz", message_id="m2")
    for several_flushes in (True, False):
        with rows.writing() as session:
            move_head(session, "m1")
            row = message(session, "m2")
            row.text = "basalt 北京"
            if several_flushes:
                session.flush()
            session.delete(row)
            session.commit()
        assert found(talk, "quartz") == found(talk, "basalt") == []
        assert len(rows.index_rows()) == 1
        rows.check()
        talk.append(KEY, "user", "quartz", message_id="m2")


@pytest.mark.parametrize("several_flushes", [True, False])
def test_an_edit_and_the_deletion_of_its_session(talk, rows, several_flushes):
    with rows.writing() as session:
        row = message(session)
        home = session.scalars(sa.select(SessionRow)).one()
        row.text = "basalt"
        if several_flushes:
            session.flush()
        session.add(MessageRow(**values(session)))
        session.delete(home)
        session.commit()
    assert rows.index_rows() == []
    rows.check()
    assert found(talk, "dogs") == found(talk, "basalt") == []


# Removing.


def delete_home(session: orm.Session) -> None:
    session.delete(session.scalars(sa.select(SessionRow)).one())


REMOVING: dict[str, Callable[[orm.Session], object]] = {
    "delete of the session": delete_home,
    "delete statement of sessions": lambda s: s.execute(sa.delete(SessionRow)),
    "delete statement of messages": lambda s: s.execute(sa.delete(MessageRow)),
    "Query.delete": lambda s: s.query(SessionRow).delete(),
    "delete of the table on the session": lambda s: s.execute(sa.delete(SessionRow.__table__)),
    "delete on the connection": lambda s: s.connection().execute(sa.delete(SessionRow.__table__)),
    "database cascade from plain SQL": lambda s: s.connection().exec_driver_sql("DELETE FROM backscroll_sessions"),
}


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize("way", REMOVING)
def test_a_deleted_session_leaves_no_index_row_in_the_same_commit(talk, rows, way, pending):
    talk.append(KEY, "user", "secretword 北京", message_id="m2")
    if pending:
        with rows.writing() as session:
            session.connection().exec_driver_sql("UPDATE backscroll_messages SET text = 'secretword' WHERE depth = 2")
            session.commit()
        assert talk.verify().pending == 1
    with rows.writing() as session:
        refused = refusal(session, REMOVING[way])
        if removed := refused is None:
            session.commit()
    if refused is not None:
        assert "delete_session" in refused
    if removed:
        with rows.writing() as session:
            for table in ("transcripts", "messages", "branches", "resets", "pending"):
                assert session.connection().exec_driver_sql(f"SELECT count(*) FROM backscroll_{table}").scalar() == 0
        assert rows.index_rows() == []
    rows.check()
    talk.ensure_session("agent:main:second")
    talk.append("agent:main:second", "user", "hello")
    talk.reindex()
    assert found(talk, "secretword") == ([] if removed else ["m2"])
    assert talk.verify().ok


@pytest.mark.parametrize("way", ["delete of the session", "database cascade from plain SQL"])
def test_rolling_the_deletion_back_restores_the_hits(talk, rows, way):
    with rows.writing() as session:
        REMOVING[way](session)
        session.flush()
        session.rollback()
    assert found(talk, "dogs") == ["m1"]
    rows.check()


def test_a_transcript_deleted_by_the_orm_takes_its_index_rows_along(talk, rows):
    talk.reset(KEY, rotate=True)
    talk.append(KEY, "user", "quartz", message_id="m2")
    with rows.writing() as session:
        session.delete(session.scalars(sa.select(TranscriptRow).order_by(TranscriptRow.id)).first())
        session.commit()
    assert found(talk, "dogs") == []
    assert found(talk, "quartz") == ["m2"]
    assert len(rows.index_rows()) == 1


# Incognito.


def test_no_way_of_writing_brings_an_incognito_message_into_the_index(scroll, rows, operator, store_path):
    scroll.ensure_session(KEY, incognito=True)
    scroll.append(KEY, "user", "dogs", message_id="m1")
    for way in ("add", "bulk_save_objects", "insert on the connection", "insert of the table on the session"):
        with rows.writing() as session:
            ADDING[way](session)
            session.flush()
            row = message(session, "m2")
            row.message_id, row.text = way, f"heliotrope {way}"
            row.active = False
            session.commit()
    scroll.reindex()
    scroll.repair()
    assert rows.index_rows() == []
    for requester in (operator, Requester(KEY)):
        page = scroll.search("heliotrope", requester=requester)
        assert (page.hits, page.indexing) == ((), False)
    with rows.writing() as session:
        terms = session.connection().exec_driver_sql("SELECT group_concat(block) FROM backscroll_message_index_data")
        assert b"heliotrope" not in bytes(str(terms.scalar()), "utf-8")


@pytest.mark.parametrize("change", [{"incognito": True}, {"agent": AgentRow(agent_id="other")}])
def test_what_never_changes_of_a_session_is_refused_in_the_orm_too(talk, rows, change):
    with rows.writing() as session:
        home = session.scalars(sa.select(SessionRow)).one()
        for name, value in change.items():
            setattr(home, name, value)
        with pytest.raises(InvalidRequest):
            session.flush()
        session.rollback()
    assert found(talk, "dogs") == ["m1"]


# Rollbacks.


def test_a_rolled_back_transaction_leaves_index_and_rows_as_they_were(talk, rows):
    with rows.writing() as session:
        session.add(MessageRow(**values(session)))
        message(session).text = "cats"
        session.flush()
        session.rollback()
    assert (found(talk, "quartz"), found(talk, "cats"), found(talk, "dogs")) == ([], [], ["m1"])
    rows.check()


def test_a_savepoint_rolls_back_rows_and_index_together_at_every_depth(talk, rows):
    with rows.writing() as session:
        message(session).text = "outer"
        session.flush()
        with session.begin_nested() as first:
            message(session).text = "middle 北京"
            session.flush()
            with session.begin_nested() as second:
                session.add(MessageRow(**values(session)))
                message(session).text = "inner"
                session.flush()
                second.rollback()
            fts.check(session.connection())
            first.commit()
        fts.check(session.connection())
        with session.begin_nested() as third:
            session.delete(message(session))
            session.flush()
            third.rollback()
        session.commit()
    assert found(talk, "middle 北京") == ["m1"]
    assert [found(talk, word) for word in ("dogs", "outer", "inner", "quartz")] == [[], [], [], []]
    rows.check()


def test_a_failed_flush_plans_nothing_for_the_next_one(talk, rows):
    with rows.writing() as session:
        with session.begin_nested() as failing:
            message(session).text = "cats"
            session.add(MessageRow(**values(session, name="m1")))
            with pytest.raises(sa.exc.IntegrityError):
                session.flush()
            failing.rollback()
        session.add(MessageRow(**values(session)))
        session.flush()
        move_head(session)
        session.commit()
    assert (found(talk, "dogs"), found(talk, "cats"), found(talk, "quartz")) == (["m1"], [], ["m2"])
    rows.check()


def test_a_message_without_a_transcript_is_refused(talk, rows):
    with rows.writing() as session:
        session.add(MessageRow(**values(session, transcript_pk=999)))
        with pytest.raises(InvalidRequest):
            session.flush()
        session.rollback()
    assert found(talk, "quartz") == []


# What is broken is found and mended.

DAMAGE = {
    "an index row too many": "INSERT INTO backscroll_message_index(rowid, body, scope) VALUES (4711, 'ghost', 's1 a1')",
    "an index row too few": (
        "INSERT INTO backscroll_message_index(backscroll_message_index, rowid, body, scope)"
        " SELECT 'delete', id, body, scope FROM backscroll_indexed_messages WHERE id = 1"
    ),
    "another text in the index": (
        "INSERT INTO backscroll_message_index(backscroll_message_index, rowid, body, scope)"
        " SELECT 'delete', id, 'other words', scope FROM backscroll_indexed_messages WHERE id = 1"
    ),
    "a mark that is wrong": "UPDATE backscroll_messages SET indexed = 0 WHERE id = 1",
    "a mark that is wrong the other way": "UPDATE backscroll_messages SET indexed = 1 WHERE id = 3",
    "a message moved off the path": "UPDATE backscroll_messages SET active = 0, edits = edits + 1 WHERE id = 1",
    "a message moved onto the path": "UPDATE backscroll_messages SET active = 1, edits = edits + 1 WHERE id = 3",
    "text changed behind the index": "UPDATE backscroll_messages SET text = 'dogs', edits = edits + 1 WHERE id = 2",
    "an index lost": "DROP TABLE backscroll_message_index",
    "index blocks lost": "DELETE FROM backscroll_message_index_data WHERE id > 10",
    "an incognito session made so by hand": "UPDATE backscroll_sessions SET incognito = 1",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_found_by_verify_and_mended_by_repair(talk, rows, damage):
    talk.append(KEY, "user", "cats 北京", message_id="m2")
    talk.append(KEY, "user", "left", message_id="m3")
    talk.rewind(KEY, "m2")
    with rows.writing() as session:
        session.connection().exec_driver_sql("PRAGMA writable_schema = 0")
        session.connection().exec_driver_sql(DAMAGE[damage])
        session.commit()
    report = talk.verify()
    assert not report.ok
    assert report.problems
    again = talk.verify()
    assert again == report
    mended = talk.repair()
    assert (mended.ok, mended.problems) == (True, ())
    if "incognito" in damage:
        assert rows.index_rows() == []
        assert found(talk, "cats") == []
        return
    assert found(talk, "left") == []
    if "text changed" in damage:
        assert (found(talk, "dogs"), found(talk, "北京")) == (["m1", "m2"], [])
    else:
        assert (found(talk, "dogs"), found(talk, "cats 北京")) == (["m1"], ["m2"])
    rows.check()
