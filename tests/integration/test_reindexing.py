"""What predates the index: pending, found out by a search, reindexed in the background, shared, resumed."""

import multiprocessing
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backscroll import Backscroll, Requester, Settings, StoreUnavailable
from backscroll.domain.ids import new_id
from backscroll.infrastructure import migrate
from backscroll.infrastructure.engine import begun, create_engine
from backscroll.infrastructure.store import EngineStore, StoreOptions
from backscroll.services.indexing import Indexing

OPERATOR = Requester.operator()
SESSIONS, MESSAGES = 12, 30


def url(path: Path) -> str:
    return f"sqlite:///{path}"


def quiet(path: Path, **more: object) -> Settings:
    """Settings for a store that reindexes nothing by itself."""
    return Settings(database_url=url(path), background_reindex=False, synchronous="NORMAL", **more)


def forget_index(path: Path) -> None:
    """Takes the store back to the revision without an index."""
    engine = create_engine(url(path), busy_timeout=5, synchronous="NORMAL")
    with begun(engine, writing=True) as connection:
        migrate.downgrade(connection, "0001")
        connection.commit()
    engine.dispose()


@pytest.fixture
def old_store(tmp_path: Path) -> Path:
    """A store from before the index, with a branch left and a reset in each session and one incognito session."""
    path = tmp_path / "old.db"
    with Backscroll.open(quiet(path)) as scroll:
        for number in range(SESSIONS):
            key = f"agent:main:{number}"
            scroll.ensure_session(key)
            scroll.append_many(
                key,
                [
                    {"role": "user", "content": f"granite {number} word{place}", "message_id": f"m{place}"}
                    for place in range(MESSAGES)
                ],
            )
            scroll.rewind(key, f"m{MESSAGES - 6}")
            scroll.append(key, "assistant", f"basalt {number} 备份策略")
            scroll.reset(key)
        scroll.ensure_session("agent:main:secret", incognito=True)
        scroll.append("agent:main:secret", "user", "heliotrope")
    forget_index(path)
    return path


INDEXED = SESSIONS * (MESSAGES - 5 + 1)


def wait_for(condition: Callable[[], bool]) -> None:
    """Waits for another thread, for a minute at most."""
    for _ in range(6_000):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("never happened")


def test_the_next_search_starts_the_reindexing_and_says_so_until_it_is_done(old_store: Path) -> None:
    with Backscroll.open(Settings(database_url=url(old_store))) as scroll:
        first = scroll.search("granite", requester=OPERATOR)
        assert first.indexing
        wait_for(lambda: not scroll.search("granite", requester=OPERATOR).indexing)
        assert len(scroll.search("granite", requester=OPERATOR, limit=25).hits) == 25
        assert len(scroll.search("备份策略", requester=OPERATOR, limit=25).hits) == SESSIONS
        assert scroll.search(f"word{MESSAGES - 1}", requester=OPERATOR).hits == ()
        report = scroll.verify()
    assert report.ok
    assert (report.indexed, report.pending) == (INDEXED, 0)


def test_incognito_text_is_never_indexed_and_never_makes_an_answer_indexing(old_store: Path) -> None:
    with Backscroll.open(quiet(old_store)) as scroll:
        scroll.reindex()
        assert scroll.search("heliotrope", requester=OPERATOR).hits == ()
        assert scroll.search("heliotrope", requester=Requester("agent:main:secret")).hits == ()
    with closing(sqlite3.connect(old_store)) as plain:
        assert plain.execute(
            "SELECT count(*) FROM backscroll_messages WHERE indexed AND text = 'heliotrope'"
        ).fetchone() == (0,)


def test_a_host_that_schedules_its_own_work_finds_everything_pending_until_it_reindexes(old_store: Path) -> None:
    with Backscroll.open(quiet(old_store)) as scroll:
        assert scroll.search("granite", requester=OPERATOR).indexing
        assert scroll.search("granite", requester=OPERATOR).indexing
        seen: list[tuple[int, int]] = []
        report = scroll.reindex(progress=lambda done, total: seen.append((done, total)))
        assert (report.transcripts, report.added, report.failed) == (SESSIONS + 1, INDEXED, ())
        assert seen[-1] == (SESSIONS + 1, SESSIONS + 1)
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)
        assert not scroll.search("granite", requester=OPERATOR).indexing
        assert scroll.reindex().transcripts == 0


def test_indexing_tells_only_of_transcripts_that_the_requester_may_see(old_store: Path) -> None:
    with Backscroll.open(quiet(old_store, visibility="self")) as scroll:
        assert scroll.search("granite", requester=Requester("agent:main:3")).indexing
        assert not scroll.search("granite", requester=Requester("agent:main:nobody")).indexing


def test_writing_goes_on_and_is_found_at_once_while_older_text_is_pending(old_store: Path) -> None:
    with Backscroll.open(quiet(old_store)) as scroll:
        scroll.append("agent:main:0", "user", "feldspar")
        page = scroll.search("feldspar", requester=OPERATOR)
        assert page.indexing
        assert len(page.hits) == 1
        scroll.delete_session("agent:main:1")
        scroll.rewind("agent:main:0", scroll.append("agent:main:0", "user", "quartz").message_id)
        scroll.reindex()
        assert scroll.verify().ok


def test_closing_ends_the_background_work_and_the_next_store_goes_on_where_it_was(old_store: Path) -> None:
    scroll = Backscroll.open(Settings(database_url=url(old_store)))
    assert scroll.search("granite", requester=OPERATOR).indexing
    scroll.close()
    scroll.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "backscroll-worker"]
    with Backscroll.open(quiet(old_store)) as again:
        again.reindex()
        report = again.verify()
    assert report.ok
    assert (report.indexed, report.pending) == (INDEXED, 0)


def reindex_in_process(path: Path, results: "multiprocessing.queues.SimpleQueue[tuple[int, int]]") -> None:
    with Backscroll.open(quiet(path, busy_timeout=30)) as scroll:
        report = scroll.reindex()
    results.put((report.transcripts, report.added))


def test_processes_share_the_work_and_do_no_transcript_twice(old_store: Path) -> None:
    Backscroll.open(quiet(old_store)).close()
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    processes = [context.Process(target=reindex_in_process, args=(old_store, results)) for _ in range(2)]
    for process in processes:
        process.start()
    done = [results.get() for _ in processes]
    for process in processes:
        process.join()
    assert sum(transcripts for transcripts, _ in done) == SESSIONS + 1
    assert sum(added for _, added in done) == INDEXED
    with Backscroll.open(quiet(old_store)) as scroll:
        assert scroll.verify().ok


@pytest.fixture
def store(old_store: Path) -> Iterator[EngineStore]:
    Backscroll.open(quiet(old_store)).close()
    engine = create_engine(url(old_store), busy_timeout=5, synchronous="NORMAL")
    options = StoreOptions(rank_bound=100, inline_reindex_limit=10, new_id=new_id, clock=lambda: datetime.now(UTC))
    yield EngineStore(engine, options)
    engine.dispose()


def claim(store: EngineStore, worker: str, until: datetime) -> str | None:
    with store.writing() as unit:
        session_id = unit.index.claim(worker, datetime.now(UTC), until, [])
        unit.commit()
    return session_id


def test_a_claim_keeps_others_away_until_it_ends_and_then_the_work_is_taken_over(store: EngineStore) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    held = {claim(store, "one", later) for _ in range(SESSIONS)}
    assert len(held) == SESSIONS
    last = claim(store, "dead", datetime.now(UTC) - timedelta(seconds=1))
    assert last not in held
    assert claim(store, "two", later) == last
    assert claim(store, "three", later) is None
    with store.writing() as unit:
        # The one that was thought dead finds its claim gone and touches nothing.
        step = unit.index.reindex_some(str(last), "dead", later, 5)
        assert (step.added, step.done) == (0, True)
        assert unit.index.reindex_some(str(last), "two", later, 5).done is False


def test_the_newest_transcripts_come_first(store: EngineStore) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    order = [claim(store, "one", later) for _ in range(SESSIONS + 1)]
    with store.reading() as unit:
        started = [unit.sessions.transcript(str(one)) for one in order]
    times = [one.started_at for one in started if one is not None]
    assert times == sorted(times, reverse=True)


def test_a_killed_worker_loses_at_most_its_last_batch(store: EngineStore, old_store: Path) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    session_id = claim(store, "dead", later)
    session_id = claim(store, "dead", later)
    with store.writing() as unit:
        first = unit.index.reindex_some(str(session_id), "dead", datetime.now(UTC) - timedelta(seconds=1), 7)
        unit.commit()
    with store.writing() as unit:
        unit.index.reindex_some(str(session_id), "dead", later, 7)
        # Killed here: this batch was never committed.
    indexing = Indexing(store, lambda: datetime.now(UTC) + timedelta(hours=2), new_id)
    report = indexing.reindex(None)
    assert first.added + report.added == INDEXED
    assert indexing.verify(None).ok


def test_a_transcript_that_fails_is_reported_and_stops_no_other(old_store: Path) -> None:
    with closing(sqlite3.connect(old_store)) as plain:
        plain.execute("UPDATE backscroll_messages SET text = CAST(x'ff80' AS TEXT) WHERE id = 3")
        plain.commit()
    with Backscroll.open(quiet(old_store)) as scroll:
        report = scroll.reindex()
        assert report.transcripts == SESSIONS
        assert [reason for _, reason in report.failed]
        assert len(report.failed) == 1
        assert scroll.search("granite", requester=OPERATOR).indexing
        # It rests for a while: an impatient caller does not spin on it.
        assert scroll.reindex().failed == ()


def test_a_session_deleted_while_it_is_reindexed_stays_deleted(store: EngineStore, old_store: Path) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    claim(store, "one", later)
    session_id = claim(store, "one", later)
    with store.writing() as unit:
        unit.index.reindex_some(str(session_id), "one", later, 7)
        transcript = unit.sessions.transcript(str(session_id))
        unit.commit()
    assert transcript is not None
    with Backscroll.open(quiet(old_store)) as scroll:
        scroll.delete_session(transcript.session_key)
        with store.writing() as unit:
            step = unit.index.reindex_some(str(session_id), "one", later, 7)
            unit.commit()
        assert (step.added, step.done) == (0, True)
        assert scroll.verify().ok
    with closing(sqlite3.connect(old_store)) as plain:
        orphans = "SELECT * FROM backscroll_pending WHERE transcript_pk NOT IN (SELECT id FROM backscroll_transcripts)"
        assert plain.execute(orphans).fetchall() == []


def test_a_transcript_from_before_the_index_that_is_pending_for_another_reason_too_comes_right(
    old_store: Path,
) -> None:
    with Backscroll.open(quiet(old_store, inline_reindex_limit=0)) as scroll:
        scroll.rewind("agent:main:2", scroll.append("agent:main:2", "user", "quartz").message_id)
        scroll.append("agent:main:2", "user", "feldspar", message_id="f1")
        scroll.append("agent:main:2", "user", "mica")
        scroll.rewind("agent:main:2", "f1")
        assert scroll.reindex().failed == ()
        assert scroll.verify().ok
        assert not scroll.search("granite", requester=OPERATOR).indexing


def test_a_lock_in_the_middle_is_no_failure_of_the_transcript_that_met_it(old_store: Path) -> None:
    with closing(sqlite3.connect(old_store, isolation_level=None)) as other:

        def held(done: int, total: int) -> None:
            if not other.in_transaction:
                other.execute("BEGIN IMMEDIATE")

        with Backscroll.open(quiet(old_store, busy_timeout=0.05)) as scroll:
            with pytest.raises(StoreUnavailable) as caught:
                scroll.reindex(progress=held)
            assert caught.value.locked
            other.execute("ROLLBACK")
            report = scroll.reindex()
            assert 0 < report.transcripts < SESSIONS + 1
            assert report.failed == ()
            assert scroll.verify().indexed == INDEXED


def test_readers_see_the_old_index_or_the_new_one_and_never_an_empty_one(store: EngineStore, old_store: Path) -> None:
    with Backscroll.open(quiet(old_store)) as reader:

        def found() -> int:
            return len(reader.search("granite", requester=OPERATOR, limit=25).hits)

        reader.reindex()
        whole = found()
        assert whole > 0
        # Marks that disagree have the index made anew, in one transaction: until its end others read the old one.
        with closing(sqlite3.connect(old_store)) as plain:
            plain.execute("UPDATE backscroll_messages SET indexed = 0, edits = edits + 1 WHERE text LIKE '%word3'")
            plain.commit()
        before = found()
        with store.writing() as unit:
            unit.index.mend()
            assert found() == before
            unit.commit()
        assert found() > 0
        # And then transcript after transcript, in its own transactions.
        seen: list[int] = []
        reader.reindex(progress=lambda done, total: seen.append(found()))
        assert min(seen) > 0
        assert found() == whole
        assert reader.verify().ok
