"""Maintenance and retention: what is deleted leaves no trace, and nothing younger than asked goes."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backscroll import Backscroll, InvalidRequest, Requester, Settings

OPERATOR = Requester.operator()
WORD = "quetzalcoatlus"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def opened(path: Path) -> Backscroll:
    return Backscroll.open(Settings(database_url=f"sqlite:///{path}", synchronous="NORMAL", background_reindex=False))


def bytes_on_disk(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.glob(path.name + "*"))


def fill(scroll: Backscroll, key: str, word: str, messages: int = 300) -> None:
    scroll.ensure_session(key)
    scroll.append_many(key, [{"role": "user", "content": f"{word} number {n} of {key}"} for n in range(messages)])


def test_deleted_words_are_in_no_page_log_or_index_after_maintenance(path: Path) -> None:
    with opened(path) as scroll:
        fill(scroll, "agent:a:kept", "granite")
        fill(scroll, "agent:a:gone", WORD)
        scroll.ensure_session("agent:a:gone", title=f"about {WORD}")
        fill(scroll, "agent:a:later", "basalt")
        assert WORD.encode() in bytes_on_disk(path)
        assert scroll.delete_session("agent:a:gone")
        report = scroll.maintain(vacuum=True)
        assert report.bytes_after < report.bytes_before
        on_disk = bytes_on_disk(path)
        # FTS5 stores a term without the beginning that it shares with the one before: look for the end too.
        assert WORD.encode() not in on_disk
        assert WORD[4:].encode() not in on_disk
        assert b"agent:a:gone" not in on_disk
        assert len(scroll.search("granite", requester=OPERATOR, limit=25).hits) == 25
        assert scroll.verify().ok


def test_maintenance_of_a_store_with_nothing_to_do_changes_no_answer(path: Path) -> None:
    with opened(path) as scroll:
        scroll.maintain()
        fill(scroll, "agent:a:kept", "granite", 10)
        before = scroll.search("granite", requester=OPERATOR)
        assert scroll.maintain().vacuumed is False
        assert scroll.maintain(vacuum=True).vacuumed is True
        assert scroll.search("granite", requester=OPERATOR) == before


def test_maintenance_inside_a_hosts_transaction_is_refused(path: Path) -> None:
    import sqlalchemy as sa

    opened(path).close()
    engine = sa.create_engine(f"sqlite:///{path}")
    with Backscroll.open(engine) as scroll, engine.connect() as connection, pytest.raises(InvalidRequest):
        scroll.using(connection).maintain()
    engine.dispose()


def aged(scroll: Backscroll, path: Path, key: str, days: float) -> None:
    scroll.ensure_session(key)
    scroll.append(key, "user", "granite")
    with closing(sqlite3.connect(path)) as plain:
        plain.execute(
            "UPDATE backscroll_sessions SET updated_at = updated_at - ? WHERE session_key = ?",
            (round(days * 86_400_000_000), key),
        )
        plain.commit()


def test_retention_lists_first_and_deletes_only_what_is_older_than_asked(path: Path) -> None:
    with opened(path) as scroll:
        for agent, days in (("a", 40), ("a", 35), ("a", 5), ("b", 90)):
            aged(scroll, path, f"agent:{agent}:{days}", days)
        listed = scroll.prune(older_than=timedelta(days=30))
        assert listed.session_keys == ("agent:b:90", "agent:a:40", "agent:a:35")
        assert not listed.deleted
        assert len(scroll.sessions(requester=OPERATOR)) == 4
        kept = scroll.prune(older_than=timedelta(days=30), keep=2)
        assert kept.session_keys == ("agent:a:40",)
        done = scroll.prune(older_than=timedelta(days=30), keep=1, dry_run=False)
        assert done.session_keys == ("agent:a:40", "agent:a:35")
        assert done.deleted
        left = {one.session_key for one in scroll.sessions(requester=OPERATOR)}
        assert left == {"agent:a:5", "agent:b:90"}
        assert scroll.prune(older_than=datetime.now(UTC) - timedelta(days=30), keep=1).session_keys == ()
        assert scroll.verify().ok


def test_retention_refuses_what_it_cannot_mean(path: Path) -> None:
    with opened(path) as scroll:
        for older_than, keep in (
            (timedelta(days=-1), 0),
            (datetime(2026, 1, 1), 0),
            (timedelta(1), -1),
            (timedelta(1), True),
        ):
            with pytest.raises(InvalidRequest):
                scroll.prune(older_than=older_than, keep=keep)
