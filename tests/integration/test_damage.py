"""Stores that somebody damaged: the damage is found and named, and repaired without touching a message."""

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from backscroll import Backscroll, BackscrollError, Requester, StoreUnavailable
from backscroll.infrastructure import fts, schema
from backscroll.infrastructure.engine import begun, create_engine
from tests.factories import opened

OPERATOR = Requester.operator()
ONE, OTHER, HIDDEN = "agent:main:one", "agent:main:other", "agent:main:hidden"
LENGTH = 80
INDEX = fts.INDEX
COUNTED = "edits = edits + 1"
"""Makes a plain write look like one that brought the index along, so that the triggers keep still."""
OWN = "id, transcript_pk, message_id, parent_pk, reset_pk, depth, shown, role, created_at, text, parts, metadata"
"""The columns that say what a message is; the others say where the path and the index stand."""
PK_OF_ONE = "(SELECT id FROM backscroll_sessions WHERE session_key = 'agent:main:one')"
MESSAGES_OF_ONE = f"(SELECT id FROM backscroll_transcripts WHERE session_pk = {PK_OF_ONE})"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of three sessions, one of them incognito, with a branch left and a reset."""
    path = tmp_path_factory.mktemp("sound") / "store.db"
    with opened(path) as scroll:
        for key in (ONE, OTHER):
            scroll.ensure_session(key)
            scroll.append_many(
                key,
                [
                    {
                        "role": "assistant" if place % 2 else "user",
                        "content": f"granite place{place} 备份策略 of {key}",
                        "message_id": f"m{place}",
                    }
                    for place in range(LENGTH)
                ],
            )
            scroll.rewind(key, f"m{LENGTH - 6}")
            scroll.append(key, "tool", [{"type": "tool_result", "text": "unindexed"}])
            scroll.reset(key, keep=3)
            scroll.append(key, "user", f"after the reset of {key}")
        scroll.ensure_session(HIDDEN, incognito=True)
        scroll.append(HIDDEN, "user", "heliotrope")
        scroll.maintain()
    return path


@pytest.fixture
def path(sound: Path, tmp_path: Path) -> Path:
    """That store's file, to be damaged."""
    return Path(shutil.copyfile(sound, tmp_path / "store.db"))


INDEXED = 2 * (LENGTH - 5 + 1)


def raw(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as plain:
        for statement in statements:
            plain.execute(statement)
        plain.commit()


def rows(path: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as plain:
        return plain.execute(statement).fetchall()


def own(path: Path) -> list[tuple[object, ...]]:
    return rows(path, f"SELECT {OWN} FROM backscroll_messages ORDER BY id")


def found(scroll: Backscroll, query: str, key: str | None = None) -> set[str]:
    return {hit.message_id for hit in scroll.search(query, requester=OPERATOR, session_key=key, limit=25).hits}


def whole(scroll: Backscroll) -> bool:
    """Whether search finds what it should of both sessions, and nothing else."""
    return (
        all(found(scroll, f"place{place}", key) == {f"m{place}"} for key in (ONE, OTHER) for place in (0, 33, 74))
        and found(scroll, "place75") == found(scroll, "heliotrope") == found(scroll, "unindexed") == set()
        and all(len(found(scroll, "备份", key)) == 25 for key in (ONE, OTHER))
        and len(found(scroll, "reset after")) == 2
    )


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


# ------------------------------------------------------------------------------------------------------- the schema


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


# ---------------------------------------------------------------------------------------------------------- the file


def damaged_page(path: Path, tree: str, change: Callable[[bytearray], None]) -> None:
    """Writes over a leaf page of a table or an index, in the middle of it."""
    with opened(path) as scroll:
        scroll.maintain()
    pages = rows(path, f"SELECT pageno FROM dbstat WHERE name = '{tree}' AND pagetype = 'leaf' ORDER BY pageno")
    (number,) = pages[len(pages) // 2]
    assert isinstance(number, int)
    ((size,),) = rows(path, "PRAGMA page_size")
    assert isinstance(size, int)
    with path.open("r+b") as file:
        file.seek((number - 1) * size)
        page = bytearray(file.read(size))
        change(page)
        file.seek((number - 1) * size)
        file.write(page)


def blot(page: bytearray) -> None:
    page[-1_500:-700] = bytes(800)


def blank(page: bytearray) -> None:
    page[:] = bytes(len(page))


def scribble(page: bytearray) -> None:
    page[:] = random.Random(3).randbytes(len(page))


def compiled_with(option: str) -> bool:
    with closing(sqlite3.connect(":memory:")) as plain:
        return (option,) in plain.execute("PRAGMA compile_options").fetchall()


has_dbstat = pytest.mark.skipif(
    not compiled_with("ENABLE_DBSTAT_VTAB"),
    reason="this SQLite cannot tell where its pages are",
)


@has_dbstat
@pytest.mark.parametrize(
    "tree", ["ix_backscroll_messages_path", "sqlite_autoindex_backscroll_messages_1", f"{INDEX}_data"]
)
def test_an_index_page_partly_written_over_is_found_and_repaired(tree: str, path: Path) -> None:
    before = own(path)
    damaged_page(path, tree, blot)
    with opened(path) as scroll:
        assert scroll.verify().problems
        assert scroll.repair().ok
        assert whole(scroll)
    assert own(path) == before


@has_dbstat
@pytest.mark.parametrize("change", [blot, blank, scribble])
@pytest.mark.parametrize(
    "tree",
    ["ix_backscroll_messages_path", "sqlite_autoindex_backscroll_messages_1", f"{INDEX}_data", "backscroll_messages"],
)
def test_a_damaged_page_leads_to_problems_or_to_a_clear_error_and_to_nothing_else(
    tree: str, change: Callable[[bytearray], None], path: Path
) -> None:
    damaged_page(path, tree, change)
    with suppress(StoreUnavailable), opened(path) as scroll:
        assert not scroll.verify().ok
        scroll.repair()


@pytest.mark.parametrize("left", [0.05, 0.3, 0.6, 0.9])
def test_a_truncated_file_leads_to_problems_or_to_a_clear_error(left: float, path: Path) -> None:
    with opened(path) as scroll:
        scroll.maintain()
    os.truncate(path, int(path.stat().st_size * left))
    with pytest.raises(StoreUnavailable, match="malformed"), opened(path) as scroll:  # noqa: PT012
        assert not scroll.verify().ok
        scroll.repair()
        scroll.search("granite", requester=OPERATOR)


def test_an_empty_file_is_a_new_store(tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    path.touch()
    with opened(path) as scroll:
        scroll.ensure_session(ONE)
        scroll.append(ONE, "user", "granite")
        assert len(found(scroll, "granite")) == 1
        assert scroll.verify().ok


@pytest.mark.parametrize("content", [b"This is no database. " * 500, b"SQLite format 3\x00" + bytes(5_000)])
def test_a_file_that_is_no_database_is_refused_and_left_alone(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    path.write_bytes(content)
    with pytest.raises(StoreUnavailable):
        opened(path)
    assert path.read_bytes() == content


def test_a_folder_and_a_place_that_does_not_exist_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere" / "store.db"):
        with pytest.raises(StoreUnavailable):
            opened(path)


def test_a_store_opened_read_only_is_read_and_searched_and_refuses_writes(path: Path) -> None:
    before = rows(path, "SELECT * FROM backscroll_messages")
    with Backscroll.open(f"sqlite:///file:{path}?mode=ro&uri=true") as scroll:
        assert whole(scroll)
        assert len(scroll.history(ONE, requester=OPERATOR).messages) == 4
        assert scroll.sessions(requester=OPERATOR)
        for call in (
            lambda: scroll.append(ONE, "user", "more"),
            lambda: scroll.ensure_session("agent:main:new"),
            lambda: scroll.delete_session(ONE),
            lambda: scroll.verify(),
            lambda: scroll.repair(),
            lambda: scroll.maintain(vacuum=True),
        ):
            with pytest.raises(StoreUnavailable, match="readonly"):
                call()
    assert rows(path, "SELECT * FROM backscroll_messages") == before


READER = """
import os, sys
from backscroll import Backscroll, Requester, StoreUnavailable
# What is imported late is imported here, while this user may still read it.
with Backscroll.open("sqlite:///:memory:") as scroll:
    scroll.ensure_session("agent:main:one")
    scroll.append("agent:main:one", "user", "more")
    scroll.search("more", requester=Requester.operator())
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    with Backscroll.open(sys.argv[1]) as scroll:
        print("found", len(scroll.search("place33", requester=Requester.operator()).hits))
        scroll.append("agent:main:one", "user", "more")
except StoreUnavailable as error:
    print("refused", error)
"""


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        # Without its log and with no right to make one SQLite cannot even read, unless it is told that nobody writes.
        ("", ["refused"]),
        ("?mode=ro&uri=true", ["refused"]),
        ("?immutable=1&uri=true", ["found 2", "refused"]),
    ],
)
def test_a_file_and_folder_that_may_only_be_read(query: str, expected: list[str], path: Path) -> None:
    with opened(path) as scroll:
        scroll.maintain()
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "store.db"
        copy.write_bytes(path.read_bytes())
        copy.chmod(0o444)
        copy.parent.chmod(0o555)
        url = f"sqlite:///file:{copy}{query}" if query else f"sqlite:///{copy}"
        root = Path(__file__).parents[2]
        done = subprocess.run(
            [sys.executable, "-c", READER, url],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
        )
        copy.parent.chmod(0o755)
    lines = done.stdout.splitlines()
    assert len(lines) == len(expected), done.stderr
    assert all(line.startswith(beginning) for line, beginning in zip(lines, expected, strict=True)), lines


# -------------------------------------------------------------------------------------------- writes round the hooks

TRANSCRIPT_OF_ONE = f"(SELECT id FROM backscroll_transcripts WHERE session_pk = {PK_OF_ONE})"
HEAD_OF_ONE = f"(SELECT head_pk FROM backscroll_branches WHERE transcript_pk = {TRANSCRIPT_OF_ONE} AND active = 1)"
STRAY = "transcript_pk, message_id, parent_pk, depth, shown, role, active, created_at, text"


def test_a_text_changed_by_plain_sql_is_never_found_by_its_old_words_and_soon_by_its_new_ones(path: Path) -> None:
    with opened(path) as scroll:
        assert found(scroll, "place12", ONE) == {"m12"}
        raw(
            path,
            f"UPDATE backscroll_messages SET text = 'obsidian 火山' WHERE transcript_pk = {TRANSCRIPT_OF_ONE}"
            " AND message_id = 'm12'",
        )
        page = scroll.search("place12", requester=OPERATOR, session_key=ONE)
        assert (page.hits, page.indexing) == ((), True)
        assert scroll.verify().ok
        assert scroll.reindex().transcripts == 1
        assert found(scroll, "obsidian") == found(scroll, "火山") == {"m12"}
        assert scroll.verify().problems == ()


def test_a_role_changed_by_plain_sql_is_followed(path: Path) -> None:
    with opened(path) as scroll:
        raw(
            path,
            f"UPDATE backscroll_messages SET role = 'system' WHERE transcript_pk = {TRANSCRIPT_OF_ONE}"
            " AND message_id = 'm12'",
        )
        assert found(scroll, "place12", ONE) == set()
        assert scroll.reindex().removed == 1
        assert scroll.verify().problems == ()


def test_a_message_stored_by_plain_sql_is_found_after_reindexing(path: Path) -> None:
    with opened(path) as scroll:
        raw(
            path,
            f"INSERT INTO backscroll_messages ({STRAY}) SELECT transcript_pk, 'raw', id, depth + 1, shown + 1, 'user',"
            f" 1, created_at + 1, 'obsidian 火山' FROM backscroll_messages WHERE id = {HEAD_OF_ONE}",
            "UPDATE backscroll_branches SET head_pk = (SELECT max(id) FROM backscroll_messages)"
            f" WHERE transcript_pk = {TRANSCRIPT_OF_ONE} AND active = 1",
        )
        page = scroll.search("obsidian", requester=OPERATOR)
        assert (page.hits, page.indexing) == ((), True)
        scroll.reindex()
        assert found(scroll, "obsidian") == found(scroll, "火山") == {"raw"}
        assert scroll.verify().problems == ()


@pytest.mark.parametrize("foreign_keys", ["ON", "OFF"])
@pytest.mark.parametrize("table", ["messages", "transcripts", "sessions"])
def test_what_plain_sql_deletes_is_gone_from_the_index_at_once(table: str, foreign_keys: str, path: Path) -> None:
    condition = {
        "messages": f"transcript_pk = {TRANSCRIPT_OF_ONE}",
        "transcripts": f"id = {TRANSCRIPT_OF_ONE}",
        "sessions": f"id = {PK_OF_ONE}",
    }[table]
    with opened(path) as scroll:
        raw(path, f"PRAGMA foreign_keys = {foreign_keys}", f"DELETE FROM backscroll_{table} WHERE {condition}")
        assert {hit.session_key for hit in scroll.search("granite", requester=OPERATOR, limit=25).hits} == {OTHER}
        assert rows(path, f"SELECT count(*) FROM {INDEX}_docsize") == [(INDEXED // 2,)]
        if table == "sessions":
            assert scroll.verify().problems == ()
        scroll.reindex()
        # Whoever deletes messages or transcripts alone leaves the session without its path: that is told.
        assert {problem.session_key for problem in scroll.verify().problems} <= {ONE, None}


def test_branches_and_resets_changed_by_plain_sql_are_told_by_session(path: Path) -> None:
    for statement in (
        "UPDATE backscroll_branches SET head_pk = head_pk - 1"
        f" WHERE active = 1 AND transcript_pk = {TRANSCRIPT_OF_ONE}",
        f"UPDATE backscroll_resets SET depth = depth + 1 WHERE transcript_pk = {TRANSCRIPT_OF_ONE}",
        f"DELETE FROM backscroll_branches WHERE transcript_pk = {TRANSCRIPT_OF_ONE}",
        f"UPDATE backscroll_transcripts SET is_current = 0 WHERE id = {TRANSCRIPT_OF_ONE}",
    ):
        raw(path, statement)
        with opened(path) as scroll:
            assert ONE in {problem.session_key for problem in scroll.verify().problems}
            assert OTHER not in {problem.session_key for problem in scroll.verify().problems}


def test_a_head_deleted_by_plain_sql_leaves_a_line_that_repair_goes_on_from(path: Path) -> None:
    with opened(path) as scroll:
        head = scroll.branches(ONE)[0].head
        raw(path, "PRAGMA foreign_keys = ON", f"DELETE FROM backscroll_messages WHERE message_id = '{head}'")
        assert not scroll.verify().ok
        assert scroll.repair().ok
        assert scroll.append(ONE, "user", "goes on").depth == LENGTH - 5 + 1 + 1
        assert [message.text for message in scroll.history(ONE, requester=OPERATOR).messages][-1] == "goes on"
        assert scroll.verify().ok


def test_opening_a_store_that_has_lost_its_triggers_trusts_no_transcript(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    raw(
        path,
        "DROP TRIGGER backscroll_message_added",
        "INSERT INTO backscroll_messages (transcript_pk, message_id, parent_pk, depth, shown, role, active, created_at,"
        f" text) SELECT transcript_pk, 'raw', id, depth + 1, shown + 1, 'user', 1, 1, 'unnoticed'"
        f" FROM backscroll_messages WHERE id = (SELECT head_pk FROM backscroll_branches WHERE active = 1"
        f" AND transcript_pk = {MESSAGES_OF_ONE})",
        f"UPDATE backscroll_branches SET head_pk = (SELECT max(id) FROM backscroll_messages) WHERE active = 1"
        f" AND transcript_pk = {MESSAGES_OF_ONE}",
    )
    with caplog.at_level("WARNING", "backscroll.open"), opened(path) as scroll:
        assert "backscroll_message_added" in caplog.text
        assert scroll.search("unnoticed", requester=OPERATOR).indexing
        scroll.reindex()
        assert len(scroll.search("unnoticed", requester=OPERATOR).hits) == 1
        assert not scroll.verify().ok
        assert scroll.repair().ok
    caplog.clear()
    with caplog.at_level("WARNING", "backscroll.open"), opened(path) as scroll:
        assert caplog.text == ""
        assert not scroll.search("unnoticed", requester=OPERATOR).indexing


def test_an_agent_and_a_key_changed_by_plain_sql(path: Path) -> None:
    with opened(path) as scroll:
        raw(path, f"UPDATE backscroll_sessions SET session_key = 'agent:main:renamed' WHERE id = {PK_OF_ONE}")
        assert found(scroll, "place33", "agent:main:renamed") == {"m33"}
        assert scroll.verify().problems == ()
        raw(
            path,
            "INSERT INTO backscroll_agents (agent_id) VALUES ('another')",
            "UPDATE backscroll_sessions SET agent_pk = (SELECT max(id) FROM backscroll_agents)"
            " WHERE session_key = 'agent:main:renamed'",
        )
        assert not scroll.verify().ok
        assert scroll.repair().ok
        hits = scroll.search("granite", requester=OPERATOR, agents=["another"], limit=25).hits
        assert {hit.session_key for hit in hits} == {"agent:main:renamed"}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE backscroll_pending SET claimed_by = 'nobody', claimed_until = 0",
        "DELETE FROM backscroll_pending",
        "UPDATE backscroll_index_state SET legacy_pk = 0",
    ],
)
def test_pending_rows_changed_by_plain_sql(statement: str, path: Path) -> None:
    """Whoever takes the mark of a pending transcript away is found out by verify; repair indexes it."""
    raw(path, f"UPDATE backscroll_messages SET text = 'obsidian' WHERE transcript_pk = {TRANSCRIPT_OF_ONE}", statement)
    with opened(path) as scroll:
        if rows(path, "SELECT count(*) FROM backscroll_pending") == [(0,)]:
            assert {problem.session_key for problem in scroll.verify().problems} == {ONE}
            assert scroll.repair().ok
        scroll.reindex()
        assert len(found(scroll, "obsidian", ONE)) == 25
        assert scroll.verify().problems == ()


def test_a_restored_backup_of_a_table_is_followed(path: Path) -> None:
    """Rows deleted and put back by another tool, with the columns that it knew: the transcript is indexed anew."""
    with opened(path) as scroll:
        raw(
            path,
            f"CREATE TABLE copy AS SELECT {OWN}, active FROM backscroll_messages"
            f" WHERE transcript_pk = {TRANSCRIPT_OF_ONE}",
            f"DELETE FROM backscroll_messages WHERE transcript_pk = {TRANSCRIPT_OF_ONE}",
            f"INSERT INTO backscroll_messages ({OWN}, active) SELECT * FROM copy",
            "DROP TABLE copy",
        )
        assert scroll.search("granite", requester=OPERATOR, session_key=ONE).indexing
        scroll.reindex()
        assert scroll.verify().problems == ()
        assert whole(scroll)


# -------------------------------------------------------------------------------------------------------- stale hits


def test_a_message_off_the_path_is_never_found_whatever_the_index_holds(path: Path) -> None:
    with opened(path) as scroll:
        raw(
            path,
            f"UPDATE backscroll_messages SET indexed = 1, {COUNTED} WHERE active = 0",
            f"INSERT INTO {INDEX}({INDEX}) VALUES ('rebuild')",
        )
        assert found(scroll, f"place{LENGTH - 1}") == set()
        with closing(sqlite3.connect(path)) as plain:
            hits = plain.execute(f"SELECT count(*) FROM {INDEX} WHERE {INDEX} MATCH 'place{LENGTH - 1}'").fetchone()
        assert hits == (2,)
        for order in ("relevance", "newest"):
            for match in ("all", "any", "prefix"):
                page = scroll.search(f"place{LENGTH - 1}", requester=OPERATOR, order=order, match=match)
                assert page.hits == ()
        assert scroll.repair().ok


def test_a_message_on_the_path_stays_findable_while_its_transcript_is_pending(store_path: Path) -> None:
    with opened(store_path, inline_reindex_limit=5) as scroll:
        scroll.ensure_session(ONE)
        scroll.append_many(
            ONE,
            [
                {"role": "user", "content": f"granite place{place}", "message_id": f"m{place}"}
                for place in range(LENGTH)
            ],
        )
        whole_branch = scroll.branches(ONE)[0].branch_id
        scroll.rewind(ONE, "m20")
        assert scroll.verify().pending == 1
        for place in range(LENGTH):
            page = scroll.search(f"place{place}", requester=OPERATOR)
            assert page.indexing
            assert {hit.message_id for hit in page.hits} == ({f"m{place}"} if place <= 20 else set())
        scroll.append(ONE, "user", "granite on the new branch", message_id="new")
        assert found(scroll, "branch") == {"new"}
        scroll.reindex()
        scroll.switch_branch(ONE, whole_branch)
        for place in range(LENGTH):
            assert found(scroll, f"place{place}") == ({f"m{place}"} if place <= 20 else set())
        assert found(scroll, "branch") == set()
        scroll.reindex()
        for place in range(LENGTH):
            assert found(scroll, f"place{place}") == {f"m{place}"}
        assert scroll.verify().problems == ()


def test_no_error_of_the_database_layer_escapes_from_a_damaged_store(path: Path) -> None:
    """Tables that are missing altogether: whatever is called, what is raised is one of ours."""
    for table in ("pending", "index_state", "resets", "branches"):
        raw(path, f"DROP TABLE backscroll_{table}")
        with opened(path) as scroll:
            for call in (
                lambda: scroll.search("granite", requester=OPERATOR),
                lambda: scroll.append(ONE, "user", "more"),
                lambda: scroll.history(ONE, requester=OPERATOR),
                lambda: scroll.reindex(),
                lambda: scroll.verify(),
                lambda: scroll.repair(),
            ):
                with suppress(BackscrollError):
                    call()
