"""What callers meet until the damage is repaired."""

import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from backscroll import BackscrollError
from tests.damage.a_store import COUNTED, INDEX, LENGTH, ONE, OPERATOR, found, raw
from tests.factories import opened


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
