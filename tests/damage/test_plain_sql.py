"""Writes round the library: the index follows, or what does not agree is told."""

from pathlib import Path

import pytest

from tests.damage.a_store import (
    INDEX,
    INDEXED,
    LENGTH,
    MESSAGES_OF_ONE,
    ONE,
    OPERATOR,
    OTHER,
    OWN,
    PK_OF_ONE,
    found,
    raw,
    rows,
    whole,
)
from tests.factories import opened

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
