"""A process is killed in the middle of its work: nothing acknowledged is lost, nothing is half done, and work goes on.

Each job is first rehearsed, which tells how long it is. Then it is killed at points chosen by a seed: by itself, at a
given instruction inside SQLite, and from outside, at a moment that may fall into a commit or a system call.
"""

import json
import multiprocessing
import random
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backscroll import Backscroll, Requester, SessionNotFound
from backscroll.domain.ids import new_id
from backscroll.infrastructure import migrate
from backscroll.infrastructure.engine import begun, create_engine
from backscroll.infrastructure.store import EngineStore, StoreOptions
from backscroll.services.indexing import Indexing
from tests.factories import opened
from tests.integration import crash_worker
from tests.integration.crash_worker import DOOMED, JOBS, KEY

OPERATOR = Requester.operator()
SEEDS = range(4)
LENGTH, DOOMED_LENGTH = 60, 80
FILES = {f"file{number}": 60 for number in range(6)} | {"long": 1_300}
"""Transcript files and their messages; the long one takes two transactions."""

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["backscroll", "alembic.command", "alembic.config", "tests.integration.crash_worker"])


def later() -> datetime:
    """A time at which what a killed process had claimed is free again."""
    return datetime.now(UTC) + timedelta(hours=1)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the stores that the jobs start from: `filled.db`, `old.db`, `broken.db`, and files to import."""
    folder = tmp_path_factory.mktemp("stores")
    with opened(folder / "filled.db") as scroll:
        for key, length in [(KEY, LENGTH), *((key, DOOMED_LENGTH) for key in DOOMED)]:
            scroll.ensure_session(key)
            scroll.append_many(
                key,
                [
                    {"role": "user", "content": f"granite of {key} place{place} 备份", "message_id": f"m{place}"}
                    for place in range(length)
                ],
            )
        scroll.maintain()
    shutil.copyfile(folder / "filled.db", folder / "old.db")
    engine = create_engine(f"sqlite:///{folder / 'old.db'}", busy_timeout=5, synchronous="NORMAL")
    with begun(engine, writing=True) as connection:
        migrate.downgrade(connection, "0001")
        connection.commit()
    engine.dispose()
    shutil.copyfile(folder / "filled.db", folder / "broken.db")
    with closing(sqlite3.connect(folder / "broken.db")) as plain:
        plain.execute("DROP TABLE backscroll_message_index")
        plain.execute("DROP VIEW backscroll_indexed_messages")
        plain.commit()
    (folder / "transcripts").mkdir()
    for name, length in FILES.items():
        write_transcript(folder / "transcripts" / f"{name}.jsonl", name, length)
    return folder


def write_transcript(path: Path, name: str, length: int) -> None:
    lines: list[dict[str, object]] = [
        {"type": "session", "version": 3, "id": name, "timestamp": "2026-03-01T12:00:00Z"}
    ]
    for place in range(length):
        said = {"role": "user", "content": f"imported{name} place{place}"}
        parent = f"{name}.{place - 1}" if place else None
        lines.append({"type": "message", "id": f"{name}.{place}", "parentId": parent, "message": said})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


STARTS = {"migrate": "old.db", "create": None, "reindex": "old.db", "repair": "broken.db"}


@dataclass
class Ended:
    """A run of a job: the store it left, and what was acknowledged before the end."""

    path: Path
    acknowledged: list[object] = field(default_factory=list)
    points: int = 0
    seconds: float = 0


def run(job: str, stores: Path, folder: Path, *, end_at: int = 0, end_after: float | None = None) -> Ended:
    """Runs a job until it kills itself at a point, is killed after so many seconds or, told neither, ends; kills it."""
    ended = Ended(folder / "store.db")
    if (start := STARTS.get(job, "filled.db")) is not None:
        shutil.copyfile(stores / start, ended.path)
    (folder / "transcripts").symlink_to(stores / "transcripts")
    receiving, sending = _context.Pipe(duplex=False)
    process = _context.Process(target=crash_worker.work, args=(job, ended.path, end_at, sending), daemon=True)
    process.start()
    sending.close()
    begun_at = 0.0
    try:
        for kind, what in messages(receiving):
            if kind == "begun":
                begun_at = time.perf_counter()
                if end_after is not None:
                    time.sleep(end_after)
                    process.kill()
            elif kind == "done":
                ended.acknowledged.append(what)
            else:
                ended.points, ended.seconds = what, time.perf_counter() - begun_at
                process.kill()
    finally:
        process.kill()
        process.join(30)
        receiving.close()
    assert process.exitcode == -signal.SIGKILL
    return ended


def messages(receiving: "multiprocessing.connection.Connection") -> Iterator[tuple[str, object]]:
    """What the process sends until it is dead."""
    while receiving.poll(60):
        try:
            yield receiving.recv()
        except (EOFError, OSError):
            return
    pytest.fail("the process neither works nor ends")


@pytest.fixture(scope="module")
def rehearsals(stores: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ended]:
    """Gives the job done without a disturbance."""
    known: dict[str, Ended] = {}

    def rehearsal(job: str) -> Ended:
        if job not in known:
            known[job] = run(job, stores, tmp_path_factory.mktemp(job))
            assert known[job].points > 100
        return known[job]

    return rehearsal


def settle(path: Path) -> None:
    """Opens the store after a crash: it agrees with itself before and after what is pending has been reindexed."""
    with opened(path) as scroll:
        assert scroll.verify().problems == ()
    engine = create_engine(f"sqlite:///{path}", busy_timeout=5, synchronous="NORMAL")
    options = StoreOptions(rank_bound=2_000, inline_reindex_limit=20, new_id=new_id, clock=later)
    indexing = Indexing(EngineStore(engine, options), later, new_id)
    assert indexing.reindex(None).failed == ()
    report = indexing.verify(None)
    engine.dispose()
    assert (report.problems, report.pending) == ((), 0)


def found(scroll: Backscroll, query: str, **more: object) -> set[str]:
    return {hit.message_id for hit in scroll.search(query, requester=OPERATOR, limit=25, **more).hits}


def stored(path: Path, key: str = KEY) -> dict[str, tuple[str, bool]]:
    """All messages of a session, on the active path or not: text, and whether the index should hold it."""
    with closing(sqlite3.connect(path)) as plain:
        rows = plain.execute(
            "SELECT m.message_id, m.text, m.indexed FROM backscroll_messages m"
            " JOIN backscroll_transcripts t ON t.id = m.transcript_pk JOIN backscroll_sessions s ON s.id = t.session_pk"
            " WHERE s.session_key = ? ORDER BY m.id",
            (key,),
        ).fetchall()
    return {name: (text, bool(indexed)) for name, text, indexed in rows}


def check_append(ended: Ended) -> None:
    new = [name for name in stored(ended.path) if name.startswith("new")]
    assert new == [f"new{number}" for number in range(len(new))]
    assert 0 <= len(new) - len(ended.acknowledged) <= 1
    with opened(ended.path) as scroll:
        for number in range(len(new)):
            assert found(scroll, f"appended{number}") == {f"new{number}"}
            assert found(scroll, f'"备份{number}"') == {f"new{number}"}
        assert len(scroll.history(KEY, requester=OPERATOR, limit=200).messages) == LENGTH + len(new)


def check_append_many(ended: Ended) -> None:
    new = [name for name in stored(ended.path) if name.startswith("new")]
    assert len(new) % 25 == 0
    assert 0 <= len(new) // 25 - len(ended.acknowledged) <= 1
    with opened(ended.path) as scroll:
        for batch in range(len(new) // 25):
            assert len(found(scroll, f"appended{batch}")) == 25


def check_edit(ended: Ended) -> None:
    version = int(ended.acknowledged[-1]) if ended.acknowledged else 0
    text = stored(ended.path)["m5"][0]
    now = int(text.split()[0].removeprefix("version")) if text.startswith("version") else 0
    assert 0 <= now - version <= 1
    with opened(ended.path) as scroll:
        hits = {
            number for number in range(1, 40) if found(scroll, f"version{number}") or found(scroll, f"版本{number}")
        }
        assert hits == ({now} if now else set())


def check_rewind(ended: Ended) -> None:
    messages_now = stored(ended.path)
    appended = {what[1] for what in ended.acknowledged if what[0] == "appended"}
    new = {int(name.removeprefix("new")) for name in messages_now if name.startswith("new")}
    assert appended <= new
    assert len(new) - len(appended) <= 1
    with opened(ended.path) as scroll:
        on_path = {one.message_id for one in scroll.history(KEY, requester=OPERATOR, limit=200).messages}
        heads = {branch.head for branch in scroll.branches(KEY)}
        assert {f"new{number}" for number in new} <= heads
        for number in new:
            assert found(scroll, f"branched{number}") == ({f"new{number}"} & on_path)
        for place in range(LENGTH):
            assert found(scroll, f"place{place}", session_key=KEY) == ({f"m{place}"} & on_path)


def check_reset(ended: Ended) -> None:
    new = [name for name in stored(ended.path) if name.startswith("new")]
    assert 0 <= len(new) - len(ended.acknowledged) <= 1
    with opened(ended.path) as scroll:
        for number in range(len(new)):
            assert found(scroll, f"appended{number}") == {f"new{number}"}


def check_delete(ended: Ended) -> None:
    for number, key in enumerate(DOOMED):
        left = len(stored(ended.path, key))
        assert left in ((0,) if number in ended.acknowledged else (0, DOOMED_LENGTH))
        with opened(ended.path) as scroll:
            if left:
                assert found(scroll, "place79", session_key=key) == {"m79"}
            else:
                with pytest.raises(SessionNotFound):
                    scroll.history(key, requester=OPERATOR)
                assert found(scroll, f'"{key}"') == set()
    with closing(sqlite3.connect(ended.path)) as plain:
        # Every row of the index belongs to a message: none was left behind.
        orphans = "SELECT count(*) FROM backscroll_message_index_docsize WHERE id NOT IN (SELECT id FROM {})"
        assert plain.execute(orphans.format("backscroll_messages")).fetchone() == (0,)


def check_migrate(ended: Ended) -> None:
    with opened(ended.path) as scroll:
        assert len(stored(ended.path)) == LENGTH
        assert scroll.verify().indexed == LENGTH + len(DOOMED) * DOOMED_LENGTH
        (listed,) = [one for one in scroll.sessions(requester=OPERATOR) if one.session_key == KEY]
        assert listed.title == "named" or not ended.acknowledged


def check_create(ended: Ended) -> None:
    with opened(ended.path) as scroll:
        listed = [one.title for one in scroll.sessions(requester=OPERATOR)]
        assert listed in ([["named"]] if ended.acknowledged else [[], ["named"]])
        scroll.ensure_session(KEY)
        scroll.append(KEY, "user", "and on it goes")
        assert len(found(scroll, "goes")) == 1


def check_whole(ended: Ended) -> None:
    """Every message of the store is stored and found, but those of sessions that may have been deleted."""
    with opened(ended.path) as scroll:
        for key, length in [(KEY, LENGTH), *((key, DOOMED_LENGTH) for key in DOOMED[1:])]:
            assert len(stored(ended.path, key)) == length
            for place in (0, length // 2, length - 1):
                assert found(scroll, f"place{place}", session_key=key) == {f"m{place}"}
        assert len(stored(ended.path, DOOMED[0])) in ((0,) if "deleted" in ended.acknowledged else (0, DOOMED_LENGTH))
        scroll.maintain(vacuum=True)
        assert scroll.verify().problems == ()


def check_import(ended: Ended) -> None:
    whole = {0, *FILES.values(), 999, 1_000}
    with closing(sqlite3.connect(ended.path)) as plain:
        counts = plain.execute(
            "SELECT count(*) FROM backscroll_messages m JOIN backscroll_transcripts t ON t.id = m.transcript_pk"
            " WHERE m.message_id LIKE '%.%' GROUP BY t.id"
        ).fetchall()
    assert {count for (count,) in counts} <= whole
    with opened(ended.path) as scroll:
        report = scroll.import_transcripts(ended.path.parent / "transcripts")
        assert (report.messages + report.known, report.problems) == (sum(FILES.values()), ())
        if ended.acknowledged:
            assert report.messages == 0
        for name, length in FILES.items():
            assert found(scroll, f"imported{name} place{length - 1}") == {f"{name}.{length - 1}"}
        assert scroll.verify().problems == ()


CHECKS: dict[str, Callable[[Ended], None]] = {
    "append": check_append,
    "append_many": check_append_many,
    "edit": check_edit,
    "rewind": check_rewind,
    "reset": check_reset,
    "delete": check_delete,
    "migrate": check_migrate,
    "create": check_create,
    "reindex": check_whole,
    "repair": check_whole,
    "maintain": check_whole,
    "import": check_import,
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("job", JOBS)
def test_a_killed_process_loses_nothing_and_leaves_nothing_half_done(
    job: str, seed: int, stores: Path, rehearsals: Callable[[str], Ended], tmp_path: Path
) -> None:
    whole = rehearsals(job)
    fraction = random.Random(f"{job} {seed}").random()
    if seed % 2:
        ended = run(job, stores, tmp_path, end_after=fraction * whole.seconds)
    else:
        ended = run(job, stores, tmp_path, end_at=1 + int(fraction * (whole.points - 1)))
    if job == "repair":
        with opened(ended.path) as scroll:
            assert scroll.repair().ok
    settle(ended.path)
    CHECKS[job](ended)


@pytest.mark.parametrize("job", JOBS)
def test_an_undisturbed_process_does_it_all(job: str, rehearsals: Callable[[str], Ended], tmp_path: Path) -> None:
    ended = rehearsals(job)
    copy = Ended(tmp_path / "store.db", ended.acknowledged)
    for file in ended.path.parent.glob("store.db*"):
        shutil.copyfile(file, tmp_path / file.name)
    (tmp_path / "transcripts").symlink_to(ended.path.parent / "transcripts")
    settle(copy.path)
    CHECKS[job](copy)


def test_a_store_survives_one_crash_after_the_other(
    stores: Path, rehearsals: Callable[[str], Ended], tmp_path: Path
) -> None:
    chance = random.Random(7)
    path = stores / "often.db"
    shutil.copyfile(stores / "filled.db", path)
    acknowledged: set[object] = set()
    STARTS["append"] = path.name
    try:
        for turn in range(6):
            folder = tmp_path / str(turn)
            folder.mkdir()
            ended = run("append", stores, folder, end_at=chance.randrange(1, rehearsals("append").points // 2))
            acknowledged.update(ended.acknowledged)
            for file in folder.glob("store.db*"):
                shutil.copyfile(file, stores / file.name.replace("store", "often"))
            with closing(sqlite3.connect(path)) as plain:
                plain.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            settle(path)
            check_append(Ended(path, sorted(acknowledged, key=str)))
    finally:
        del STARTS["append"]
