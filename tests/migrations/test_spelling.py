"""Revision 0006: texts whose letters the view spells out, in stores of before, and back there."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from backscroll import Backscroll, Requester, Settings
from backscroll.domain.analyzer import fold
from backscroll.infrastructure import migrate
from backscroll.infrastructure.bodies import SPELLED
from tests.migrations.databases import at_revision, url

KEY = "agent:main:main"
SAID = {"m1": "tanie loty do Łodzi", "m2": "smørrebrød auf der Straße", "m3": "备份 Łódź", "m4": "plain words"}
OPERATOR = Requester.operator()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of this release, taken back to the revision before."""
    path = tmp_path / "store.db"
    with opened(path) as scroll:
        scroll.ensure_session(KEY)
        for message_id, text in SAID.items():
            scroll.append(KEY, "user", text, message_id=message_id)
    assert list(bodies(path)) == [SPELLED, SPELLED, fold(SAID["m3"]), None]
    at_revision(path, lambda connection: migrate.downgrade(connection, "0005_backscroll"))
    return path


def opened(path: Path) -> Backscroll:
    return Backscroll.open(url(path), settings=Settings(background_reindex=False))


def bodies(path: Path) -> list[str | None]:
    with closing(sqlite3.connect(path)) as connection:
        return [one for (one,) in connection.execute("SELECT search_text FROM backscroll_messages ORDER BY id")]


def found(scroll: Backscroll, query: str) -> set[str]:
    return {hit.message_id for hit in scroll.search(query, requester=OPERATOR).hits}


def test_on_the_way_back_the_same_is_copied_that_was_indexed_and_waits_for_its_form(store: Path) -> None:
    assert bodies(store) == ["tanie loty do lodzi", "smorrebrod auf der Strasse", fold(SAID["m3"]), None]
    with closing(sqlite3.connect(store)) as connection:
        index = "backscroll_message_index"
        connection.execute(f"INSERT INTO {index}({index}, rank) VALUES ('integrity-check', 1)")
        pending = connection.execute("SELECT count(*) FROM backscroll_pending").fetchone()
    assert pending == (1,)


def test_what_is_stored_stays_as_it_is_and_is_found(store: Path) -> None:
    before = bodies(store)
    with opened(store) as scroll:
        assert bodies(store) == before
        assert found(scroll, "lodzi") == {"m1"}
        assert found(scroll, "Smorrebrod STRASSE") == {"m2"}


def test_copies_of_older_releases_are_no_fault_and_go_with_the_next_reindexing(store: Path) -> None:
    with closing(sqlite3.connect(store)) as connection:
        # As the release of the revision before wrote them.
        rows = [(fold(text), f"%{text}%") for text in list(SAID.values())[:2]]
        statement = "UPDATE backscroll_messages SET search_text = ?, edits = edits + 1 WHERE text LIKE ?"
        connection.executemany(statement, rows)
        connection.execute("INSERT INTO backscroll_message_index(backscroll_message_index) VALUES ('rebuild')")
        connection.execute("DELETE FROM backscroll_pending")
        connection.commit()
    with opened(store) as scroll:
        assert scroll.verify().ok
        assert scroll.repair().ok
        scroll.reindex()
        assert bodies(store) == [SPELLED, SPELLED, fold(SAID["m3"]), None]
        assert scroll.verify().ok
        assert found(scroll, "lodzi") == {"m1"}


def test_what_is_spelled_out_can_be_edited_rewound_and_deleted(store: Path) -> None:
    with opened(store) as scroll:
        scroll.edit(KEY, "m1", "Łódź statt Köln")
        scroll.append(KEY, "user", "wyjazd z Łodzi", message_id="m5")
        assert found(scroll, "lodz") == {"m1", "m3"}
        scroll.rewind(KEY, "m4")
        assert found(scroll, "lodzi") == set()
        assert scroll.verify().ok
        scroll.delete_session(KEY)
        assert found(scroll, "lodz") == set()
        assert scroll.verify().ok


def test_sql_of_others_leaves_no_index_row_of_what_was_spelled_out(store: Path) -> None:
    with opened(store) as scroll:
        scroll.append(KEY, "user", "wyjazd z Łodzi", message_id="m5")
        with closing(sqlite3.connect(store)) as connection:
            connection.execute("UPDATE backscroll_messages SET text = 'gone to Køge' WHERE message_id = 'm5'")
            connection.commit()
        scroll.reindex()
        assert found(scroll, "lodzi") == {"m1"}
        assert found(scroll, "koge") == {"m5"}
        assert scroll.verify().ok
