"""Stores of every released schema: up to this release, looked at, down to where they came from, and up again."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from backscroll import Backscroll, Requester, SchemaOutdated
from backscroll.domain.parts import ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from backscroll.infrastructure import migrate
from tests.factories import opened
from tests.migrations.databases import at_revision, revision_of, rows, schema
from tests.migrations.stores.make import FOLDER, TRIP, make

FILES = sorted(FOLDER.glob("*.sqlite"))
OPERATOR = Requester.operator()
# What a revision keeps of its own work: it says nothing about what was said.
WORK = {"backscroll_alembic_version", "backscroll_pending", "backscroll_index_state"}
MARKS = {"indexed", "edits", "search_text"}

# Words, and the messages that they find.
FOUND = {
    "ferry naxos": ["trip-1"],
    "上午": ["trip-3"],
    "rafina": ["trip-6"],
    "granite": ["nightly-1", "trip-7"],
    "harbour": ["trip-9"],
    "weather": ["next-2"],
    "雨伞": ["pack-1"],
    "limestone": ["long-1", "long-2", "long-3"],
    # Edited away, left behind, a tool's, reasoning, incognito, a system's, deleted.
    "piraeus": [],
    "strasse": [],
    "sodium": [],
    "timetable": [],
    "heliotrope": [],
    "plan trips": [],
    "ocelot": [],
}
# Whatever the form in which a release packed them: those of the messages after the first.
PARTS = [
    (ReasoningPart("timetable"), TextPart("Which?")),
    (TextPart("the slow one, 后天上午的船"),),
    (ToolCallPart("book", '{"port": "Piraeus"}'),),
    (ToolResultPart("confirmed sodium", "c1"),),
    (TextPart("Booked: 07:30"), TextPart("from Rafina")),
]
# A message that is asked for, in its transcript, and the messages that are shown around it, tools among them.
REOPENED = {
    (TRIP, None, None): ["next-1", "next-2"],
    (TRIP, "first", "trip-1"): ["trip-1", "trip-2", "trip-3", "trip-4", "trip-5", "trip-6"],
    (TRIP, "first", "trip-7"): ["trip-7"],
    (TRIP, "first", "trip-9"): ["trip-8", "trip-9"],
    (TRIP, "first", "trip-6b"): [],
    ("agent:main:subagent:packing", None, None): ["pack-1"],
    ("agent:main:long", None, None): ["long-1", "long-2", "long-3"],
    ("agent:ops:empty", None, None): [],
}


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a store as an earlier release left it."""
    return Path(shutil.copy(request.param, tmp_path / "store.db"))


def named(path: Path) -> str:
    """The revision of a file, by the name that it has now."""
    names: list[str] = []
    at_revision(path, lambda connection: names.append(str(migrate.revision(connection))))
    return names[0]


def look_at(scroll: Backscroll) -> None:
    report = scroll.verify()
    assert (report.problems, report.pending) == ((), 0)
    for words, ids in FOUND.items():
        page = scroll.search(words, requester=OPERATOR)
        assert not page.indexing
        assert (words, sorted(hit.message_id for hit in page.hits)) == (words, ids)
        for hit in page.hits:
            page = scroll.history(
                hit.session_key, requester=OPERATOR, session_id=hit.session_id, message_id=hit.message_id
            )
            assert hit.message_id in [message.message_id for message in page.messages]
    first = scroll.search("ferry", requester=OPERATOR).hits[0].session_id
    for (key, transcript, message_id), ids in REOPENED.items():
        page = scroll.history(
            key,
            requester=OPERATOR,
            session_id=first if transcript else None,
            message_id=message_id,
            include_tools=True,
        )
        assert (key, message_id, [message.message_id for message in page.messages]) == (key, message_id, ids)
        if message_id == "trip-1":
            assert [message.parts for message in page.messages[1:]] == PARTS
    private = scroll.history("agent:main:private", requester=Requester("agent:main:private"))
    assert [message.text for message in private.messages] == ["heliotrope is a secret"]


def of_tables(some, more):
    return {table: more[table] for table in some}


def test_every_revision_has_its_store_and_each_is_small():
    assert [path.stem[:4] for path in FILES] == [name[:4] for name in migrate.KNOWN]
    assert all(path.stat().st_size < 100_000 for path in FILES)


def test_an_old_store_is_upgraded_searched_taken_back_and_upgraded_again(store):
    origin, before = named(store), rows(store, WORK | MARKS)
    with opened(store) as scroll:
        assert of_tables(before, rows(store, WORK | MARKS)) == before
        scroll.reindex()
        look_at(scroll)
        # It is written to like any other.
        scroll.append(TRIP, "user", "basalt after the upgrade", message_id="next-3")
        assert [hit.message_id for hit in scroll.search("basalt", requester=OPERATOR).hits] == ["next-3"]
        scroll.append("agent:main:long", "user", "marble", message_id="long-8")
    # Without the tables that later revisions added.
    after = of_tables(before, rows(store, WORK | MARKS))
    new = [row for row in after["backscroll_messages"] if row not in before["backscroll_messages"]]
    assert [row["message_id"] for row in new] == ["next-3", "long-8"]
    assert new[0]["id"] == max(row["seq"] for row in before["sqlite_sequence"] if "messages" in row["name"]) + 1
    at_revision(store, lambda connection: migrate.downgrade(connection, origin))
    assert revision_of(store) == origin
    assert rows(store, WORK | MARKS) == after
    with opened(store) as scroll:
        scroll.reindex()
        assert [hit.message_id for hit in scroll.search("marble", requester=OPERATOR).hits] == ["long-8"]
        assert scroll.verify().ok


def test_an_upgrade_and_its_downgrade_leave_every_row_and_the_schema_as_they_were(store):
    origin, before, made = named(store), rows(store, {"backscroll_alembic_version"}), schema(store)
    for _ in range(2):
        at_revision(store, migrate.upgrade)
        at_revision(store, lambda connection: migrate.downgrade(connection, origin))
        assert rows(store, {"backscroll_alembic_version"}) == before
        assert schema(store) == made


def test_parts_are_written_out_for_the_releases_before_their_lists(tmp_path):
    path = Path(shutil.copy(FOLDER / "0004.sqlite", tmp_path / "store.db"))
    with opened(path) as scroll:
        scroll.append(
            TRIP,
            "tool",
            [{"type": "tool_result", "text": "[1]", "name": "x", "is_error": True}, {"type": "text", "text": ""}],
        )
    at_revision(path, lambda connection: migrate.downgrade(connection, "0003_backscroll"))
    *found, added = (row["parts"] for row in rows(path)["backscroll_messages"])
    assert added == '[{"type":"tool_result","text":"[1]","name":"x","is_error":true},0]'
    assert found == [row["parts"] for row in rows(FOLDER / "0003.sqlite")["backscroll_messages"]]


def test_a_store_is_upgraded_to_the_schema_of_a_new_one(store, store_path):
    at_revision(store, migrate.upgrade)
    assert {(kind, name) for kind, name, _ in schema(store)} == {(kind, name) for kind, name, _ in schema(store_path)}
    assert rows(store)["backscroll_alembic_version"] == [{"version_num": migrate.HEAD}]
    assert index_settings(store) == index_settings(store_path)


def index_settings(path: Path) -> dict[str, object]:
    with closing(sqlite3.connect(path)) as db:
        return dict(db.execute("SELECT k, v FROM backscroll_message_index_config"))


def test_a_store_under_its_old_name_is_taken_for_what_it_is(tmp_path):
    path = Path(shutil.copy(FOLDER / "0002.sqlite", tmp_path / "store.db"))
    assert (revision_of(path), named(path)) == ("0002", "0002_backscroll")
    with pytest.raises(SchemaOutdated, match="is at schema revision 0002_backscroll"):
        Backscroll.open(f"sqlite:///{path}", migrate=False)
    assert revision_of(path) == "0002"
    with opened(path) as scroll:
        scroll.reindex()
        look_at(scroll)
    assert revision_of(path) == migrate.HEAD


def test_the_script_writes_the_store_of_this_release(tmp_path):
    make(tmp_path / "new.sqlite")
    with opened(tmp_path / "new.sqlite") as scroll:
        assert scroll.verify().pending == 1
        scroll.reindex()
        look_at(scroll)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.sqlite"]
