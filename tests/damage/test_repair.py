"""Stores whose index, marks or schema somebody damaged: it is found, named, and repaired without touching a message."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from backscroll import StoreUnavailable
from backscroll.infrastructure import fts, schema
from backscroll.infrastructure.engine import begun, create_engine
from tests.damage.a_store import (
    COUNTED,
    INDEX,
    INDEXED,
    LENGTH,
    MESSAGES_OF_ONE,
    ONE,
    OPERATOR,
    OTHER,
    PK_OF_ONE,
    found,
    own,
    raw,
    rows,
    whole,
)
from tests.factories import opened

ROW_OF_ONE = (
    f"SELECT 'delete', id, body, scope FROM backscroll_indexed_messages WHERE scope LIKE 's' || {PK_OF_ONE} || ' %'"
)
OF_ONE: dict[str, list[str]] = {
    "index rows dropped": [f"INSERT INTO {INDEX}({INDEX}, rowid, body, scope) {ROW_OF_ONE} LIMIT 4"],
    "an index row added": [
        f"INSERT INTO {INDEX}(rowid, body, scope) SELECT 90000, 'ghost', 's' || {PK_OF_ONE} || ' a1'"
    ],
    "marked as not indexed": [
        f"UPDATE backscroll_messages SET indexed = 0, {COUNTED}"
        f" WHERE transcript_pk IN {MESSAGES_OF_ONE} AND message_id IN ('m3', 'm4')"
    ],
    "marked as indexed": [
        f"UPDATE backscroll_messages SET indexed = 1, {COUNTED}"
        f" WHERE transcript_pk IN {MESSAGES_OF_ONE} AND role = 'tool'"
    ],
    "marked by nobody": [
        f"UPDATE backscroll_messages SET indexed = NULL, {COUNTED}"
        f" WHERE transcript_pk IN {MESSAGES_OF_ONE} AND message_id = 'm3'"
    ],
    "another search text": [
        f"UPDATE backscroll_messages SET search_text = 'ghost', {COUNTED}"
        f" WHERE transcript_pk IN {MESSAGES_OF_ONE} AND message_id = 'm3'"
    ],
    "search text dropped": [
        f"UPDATE backscroll_messages SET search_text = NULL, {COUNTED} WHERE transcript_pk IN {MESSAGES_OF_ONE}"
    ],
    "a message taken off the path": [
        f"UPDATE backscroll_messages SET active = 0, {COUNTED}"
        f" WHERE transcript_pk IN {MESSAGES_OF_ONE} AND message_id = 'm30'"
    ],
    "a message put on the path": [
        f"UPDATE backscroll_messages SET active = 1, {COUNTED}"
        f" WHERE transcript_pk IN {MESSAGES_OF_ONE} AND message_id = 'm{LENGTH - 1}'"
    ],
    "the whole path dropped": [
        f"UPDATE backscroll_messages SET active = 0, {COUNTED} WHERE transcript_pk IN {MESSAGES_OF_ONE}"
    ],
}
OF_THE_STORE: dict[str, list[str]] = {
    "index dropped": [f"DROP TABLE {INDEX}"],
    "index pages emptied": [f"DELETE FROM {INDEX}_data WHERE id > 10"],
    "index structure lost": [f"DELETE FROM {INDEX}_data"],
    "index sizes dropped": [f"DELETE FROM {INDEX}_docsize WHERE id < 9"],
    "index sizes added": [f"INSERT INTO {INDEX}_docsize VALUES (90000, x'0101')"],
    "index configuration lost": [f"DELETE FROM {INDEX}_config"],
    **{f"index table {name} dropped": [f"DROP TABLE {INDEX}_{name}"] for name in ("data", "idx", "docsize", "config")},
    "another index": [
        f"DROP TABLE {INDEX}",
        f"CREATE VIRTUAL TABLE {INDEX} USING fts5(body, scope, content='{fts.VIEW}', content_rowid='id')",
    ],
    "a row of no session": [f"INSERT INTO {INDEX}(rowid, body, scope) VALUES (90000, 'ghost', 's77 a77')"],
    "view dropped": [f"DROP VIEW {fts.VIEW}"],
    "another view": [f"DROP VIEW {fts.VIEW}", f"CREATE VIEW {fts.VIEW} AS SELECT 1 AS id, '' AS body, '' AS scope"],
    "view and index dropped": [f"DROP TABLE {INDEX}", f"DROP VIEW {fts.VIEW}"],
    **{
        f"trigger {name} dropped": [f"DROP TRIGGER {name}"]
        for name, (kind, _) in schema.NET.items()
        if kind == "trigger"
    },
    "another trigger": [
        "DROP TRIGGER backscroll_message_changed",
        "CREATE TRIGGER backscroll_message_changed AFTER UPDATE ON backscroll_messages BEGIN SELECT 1; END",
    ],
    "a table's index dropped": ["DROP INDEX ix_backscroll_messages_path"],
    "an orphan pending": ["INSERT INTO backscroll_pending (transcript_pk) VALUES (4711)"],
    "state lost": ["DELETE FROM backscroll_index_state"],
    "everything at once": [
        f"DROP TABLE {INDEX}_data",
        f"DROP VIEW {fts.VIEW}",
        *(f"DROP TRIGGER {name}" for name, (kind, _) in schema.NET.items() if kind == "trigger"),
        "UPDATE backscroll_messages SET indexed = NOT indexed, active = NOT active, search_text = 'ghost'",
    ],
}


@pytest.mark.parametrize("damage", [*OF_ONE, *OF_THE_STORE])
def test_damage_is_found_and_repaired_without_touching_a_message(damage: str, path: Path) -> None:
    with opened(path) as scroll:
        assert whole(scroll)
    before = own(path)
    raw(path, *(OF_ONE | OF_THE_STORE)[damage])
    with opened(path) as scroll:
        report = scroll.verify()
        assert not report.ok
        assert report.problems
        named = {problem.session_key for problem in report.problems} - {None}
        if damage in OF_ONE:
            assert named == {ONE}
        assert all(problem.rows >= 1 for problem in report.problems)
        repaired = scroll.repair()
        assert (repaired.ok, repaired.problems, repaired.pending, repaired.indexed) == (True, (), 0, INDEXED)
        assert whole(scroll)
        assert found(scroll, "ghost") == set()
    assert own(path) == before


def test_a_lost_directory_of_the_index_is_found_by_what_it_no_longer_finds(store_path: Path) -> None:
    """FTS5's own check does not look for it, and small indexes do without."""
    with opened(store_path) as scroll:
        for key in (ONE, OTHER):
            scroll.ensure_session(key)
            scroll.append_many(
                key, [{"role": "user", "content": " ".join(f"w{n}x{place}" for n in range(20))} for place in range(300)]
            )
        scroll.maintain()
        raw(store_path, f"DELETE FROM {INDEX}_idx")
        assert scroll.search("w7x7", requester=OPERATOR).hits == ()
        assert {problem.session_key for problem in scroll.verify().problems} <= {ONE, OTHER, None}
        assert not scroll.verify().ok
        assert scroll.repair().ok
        assert len(scroll.search("w7x7", requester=OPERATOR).hits) == 2


def test_counts_of_the_index_that_are_wrong_do_not_stop_a_search(path: Path) -> None:
    """With fewer rows counted than a word is in (100 here) bm25's logarithm would have no value."""
    raw(path, f"UPDATE {INDEX}_data SET block = x'64880064' WHERE id = 1")
    with opened(path) as scroll:
        for match in ("all", "any"):
            page = scroll.search("granite", requester=OPERATOR, match=match)
            assert len(page.hits) == 10
            assert all(0 <= hit.score < 1e-3 for hit in page.hits)
        assert not scroll.verify().ok
        assert scroll.repair().ok
        assert whole(scroll)


def test_a_search_needs_no_count_of_the_index(path: Path) -> None:
    raw(path, f"DELETE FROM {INDEX}_data WHERE id = 1")
    with opened(path) as scroll:
        for match in ("all", "any", "prefix"):
            assert len(scroll.search("granite", requester=OPERATOR, match=match).hits) == 10
        assert not scroll.verify().ok
        assert scroll.repair().ok
        assert whole(scroll)


def test_a_lost_view_of_the_terms_is_made_again_and_missed_by_no_search(path: Path, monkeypatch) -> None:
    monkeypatch.setattr(fts, "_LARGE", 0)
    raw(path, f"DROP TABLE {fts.TERMS}")
    with opened(path) as scroll:
        assert len(scroll.search("gran", requester=OPERATOR, match="prefix").hits) == 10
        assert not scroll.verify().ok
        assert scroll.repair().ok
        assert whole(scroll)
        assert len(scroll.search("gran", requester=OPERATOR, match="prefix").hits) == 10


def test_a_sound_store_is_left_as_it_is_by_repair(path: Path) -> None:
    def dump() -> list[tuple[object, ...]]:
        return rows(path, "SELECT * FROM backscroll_messages ORDER BY id") + rows(path, "SELECT * FROM sqlite_master")

    before = dump()
    with opened(path) as scroll:
        assert scroll.verify().problems == ()
        assert scroll.repair().ok
    assert dump() == before


def test_repair_goes_on_from_a_disagreement_while_a_message_can_still_be_written(path: Path) -> None:
    """What a store with damage is asked meanwhile either works or says that the store is unavailable."""
    raw(path, f"DROP TABLE {INDEX}_data")
    with opened(path) as scroll:
        for call in (
            lambda: scroll.search("granite", requester=OPERATOR),
            lambda: scroll.append(ONE, "user", "during the damage"),
            lambda: scroll.edit(ONE, "m1", "changed"),
            lambda: scroll.delete_session(OTHER),
            lambda: scroll.maintain(),
        ):
            with pytest.raises(StoreUnavailable):
                call()
        assert len(scroll.history(ONE, requester=OPERATOR, limit=5).messages) == 4
        assert scroll.repair().ok
        assert whole(scroll)
        scroll.append(ONE, "user", "during the damage")
        assert len(found(scroll, "damage")) == 1


def test_the_schema_that_repair_restores_is_the_one_that_the_migrations_make(store_path: Path) -> None:
    def stored() -> dict[object, object]:
        return dict(rows(store_path, "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))

    made = stored()
    assert {name: made[name] for name in schema.NET} == {name: statement for name, (_, statement) in schema.NET.items()}
    assert made[fts.INDEX] == fts.CREATE
    triggers = rows(store_path, "SELECT name FROM sqlite_master WHERE type IN ('trigger', 'view')")
    assert {name for (name,) in triggers} == schema.NET.keys()
    named = {str(name) for (name,) in rows(store_path, "SELECT name FROM sqlite_master WHERE type = 'index'")}
    with closing(sqlite3.connect(store_path)) as plain:
        for name, (kind, _) in schema.NET.items():
            plain.execute(f"DROP {kind} {name}")
        plain.execute(f"DROP TABLE {fts.INDEX}")
        for name in named:
            if name.startswith("ix_") or name.endswith(("_current", "_active")):
                plain.execute(f"DROP INDEX {name}")
        plain.commit()
    engine = create_engine(f"sqlite:///{store_path}", busy_timeout=5, synchronous="NORMAL")
    with begun(engine, writing=True) as connection:
        assert len(list(schema.lacking(connection))) > len(schema.NET)
        schema.restore(connection)
        fts.recreate(connection)
        connection.commit()
    engine.dispose()
    assert stored() == made
