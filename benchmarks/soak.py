"""A store under several processes and injected faults, checked after each; how fast an old store gets its index.

    python benchmarks/soak.py [--minutes 3] [--seed 1] [--processes 3]
    python benchmarks/soak.py --reindex 200000

The first does random work in several processes and, beside them, kills some, holds locks, writes round the library and
damages the index. After each fault it verifies and, where something disagrees, repairs. In the end every message that
a call acknowledged must be stored, and be found by search if it is on its active path, and not if it is not.
"""

import argparse
import json
import logging
import multiprocessing
import os
import platform
import random
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.process import BaseProcess
from pathlib import Path
from statistics import median, quantiles

from corpus import Corpus, Said

from backscroll import Backscroll, BackscrollError, NewMessage, Requester, Settings, StoreUnavailable
from backscroll.infrastructure import migrate
from backscroll.infrastructure.engine import begun, create_engine

OPERATOR = Requester.operator()
SESSIONS = 6
"""Sessions of each process, beside one that all share."""
SHARED = "agent:soak:shared"
_context = multiprocessing.get_context("spawn")
# What the library says of locks and damage, which are what this is about.
logging.getLogger("backscroll").addHandler(logging.NullHandler())


def opened(path: Path, *, busy_timeout: float) -> Backscroll:
    """The store as a host opens it, with limits low enough that both ways of following a rewind happen."""
    return Backscroll.open(
        Settings(database_url=f"sqlite:///{path}", busy_timeout=busy_timeout, inline_reindex_limit=30)
    )


# ---------------------------------------------------------------------------------------------- the working processes


class Journal:
    """What a process was told is done, a line each: survives the process's end, not the machine's."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def note(self, **what: object) -> None:
        self._file.write(json.dumps(what) + "\n")
        self._file.flush()


def work(path: Path, name: str, seed: str) -> None:
    """Random work on sessions of this process's own and on the shared one, until a file named `stop` appears."""
    chance = random.Random(seed)
    journal = Journal(path.parent / f"{name}.journal")
    keys = [f"agent:{name}:{number}" for number in range(SESSIONS)]
    counter = 0

    def said() -> tuple[str, str]:
        nonlocal counter
        counter += 1
        message_id = f"{name}x{seed.replace('.', 'x')}x{counter}"
        return message_id, f"{message_id} granite 备份 " + " ".join(chance.choices(_FILLING, k=chance.randrange(20)))

    def append(scroll: Backscroll, key: str) -> None:
        message_id, text = said()
        scroll.append(key, chance.choice(("user", "assistant")), text, message_id=message_id)
        journal.note(key=key, ids=[message_id])

    def append_many(scroll: Backscroll, key: str) -> None:
        messages = [said() for _ in range(chance.randrange(2, 40))]
        scroll.append_many(key, [NewMessage("user", text, message_id) for message_id, text in messages])
        journal.note(key=key, ids=[message_id for message_id, _ in messages])

    def edit(scroll: Backscroll, key: str) -> None:
        page = scroll.history(key, requester=OPERATOR, limit=5)
        for message in page.messages[:1]:
            scroll.edit(key, message.message_id, f"{message.message_id} edited{chance.randrange(1_000)} 备份")

    def rewind(scroll: Backscroll, key: str) -> None:
        page = scroll.history(key, requester=OPERATOR, limit=chance.choice((3, 60)))
        if page.messages and page.total > 3:
            scroll.rewind(key, page.messages[0].message_id)
            append(scroll, key)

    def switch(scroll: Backscroll, key: str) -> None:
        scroll.switch_branch(key, chance.choice(scroll.branches(key)).branch_id)

    def reset(scroll: Backscroll, key: str) -> None:
        rotate = chance.random() < 0.3
        scroll.reset(key, rotate=rotate, keep=None if rotate else chance.randrange(4))

    def delete(scroll: Backscroll, key: str) -> None:
        if key != SHARED:
            # Noted before: if the process dies in the call, both outcomes are right.
            journal.note(key=key, deleted=True)
            scroll.delete_session(key)
            scroll.ensure_session(key)

    def search(scroll: Backscroll, _: str) -> None:
        scroll.search(chance.choice(("granite", "备份", "edited7 granite")), requester=OPERATOR, match="any")

    def read(scroll: Backscroll, key: str) -> None:
        scroll.history(key, requester=OPERATOR, limit=chance.randrange(1, 100))

    def reindex(scroll: Backscroll, _: str) -> None:
        scroll.reindex()

    jobs = [append, append_many, edit, rewind, switch, reset, delete, search, read, reindex]
    weights = [30, 4, 8, 4, 4, 2, 0.4, 20, 20, 0.5]
    done: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    with opened(path, busy_timeout=2) as scroll:
        for key in (SHARED, *keys):
            _insist(lambda key=key: scroll.ensure_session(key))
        while not (path.parent / "stop").exists():
            (job,) = chance.choices(jobs, weights)
            key = SHARED if chance.random() < 0.2 else chance.choice(keys)
            try:
                job(scroll, key)
                done[job.__name__] += 1
            except StoreUnavailable:
                refused["locked or damaged"] += 1
            except BackscrollError as error:
                refused[type(error).__name__] += 1
                if type(error).__name__ == "SessionNotFound":
                    _insist(lambda key=key: scroll.ensure_session(key))
            if sum(done.values()) % 50 == 0:
                journal.note(done=done, refused=refused)
        journal.note(done=done, refused=refused)


_FILLING = ("ferry", "naxos", "lease", "blue", "house", "ends", "in", "may", "数据库", "会议", "ประชุม")


def _insist(call: Callable[[], object]) -> None:
    for _ in range(100):
        try:
            call()
        except StoreUnavailable:
            time.sleep(0.1)
        else:
            return


# ------------------------------------------------------------------------------------------------------------- faults

_COUNTED = "edits = edits + 1"
"""Makes a write look like one that brought the index along, so that the triggers keep still."""
_SOME = "(SELECT id FROM backscroll_messages WHERE indexed = 1 ORDER BY random() LIMIT 7)"
_DAMAGE = {
    "index rows dropped": [
        "INSERT INTO backscroll_message_index(backscroll_message_index, rowid, body, scope)"
        f" SELECT 'delete', id, body, scope FROM backscroll_indexed_messages WHERE id IN {_SOME}"
    ],
    "index rows added": [
        "INSERT INTO backscroll_message_index(rowid, body, scope)"
        " SELECT 1000000000 + id, 'ghost', 's1 a1' FROM backscroll_sessions LIMIT 3"
    ],
    "index table dropped": ["DROP TABLE backscroll_message_index"],
    "index pages emptied": ["DELETE FROM backscroll_message_index_data WHERE id > 10"],
    "index directory emptied": ["DELETE FROM backscroll_message_index_idx"],
    "index sizes dropped": [f"DELETE FROM backscroll_message_index_docsize WHERE id IN {_SOME}"],
    "marks turned": [f"UPDATE backscroll_messages SET indexed = 0, {_COUNTED} WHERE id IN {_SOME}"],
    "searched text changed": [f"UPDATE backscroll_messages SET search_text = 'ghost', {_COUNTED} WHERE id IN {_SOME}"],
    "active path changed": [f"UPDATE backscroll_messages SET active = 0, {_COUNTED} WHERE id IN {_SOME}"],
    "triggers dropped": ["DROP TRIGGER backscroll_message_changed", "DROP TRIGGER backscroll_session_removed"],
    "view dropped": ["DROP VIEW backscroll_indexed_messages"],
}
_ROUND = {
    "text changed": [f"UPDATE backscroll_messages SET text = text || ' rewritten' WHERE id IN {_SOME}"],
    "message stored anew": [
        "INSERT INTO backscroll_messages (transcript_pk, message_id, depth, shown, role, active, created_at, text)"
        " SELECT id, 'raw' || hex(randomblob(8)), 1, 1, 'user', 0, 0, 'stray' FROM backscroll_transcripts"
        " ORDER BY random() LIMIT 2"
    ],
}


@dataclass
class Findings:
    """What the faults led to."""

    faults: Counter[str] = field(default_factory=Counter)
    checks: int = 0
    found: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    unrepaired: list[str] = field(default_factory=list)


class Injector:
    """Does one fault after the other to a store in use, and checks it after each."""

    def __init__(self, path: Path, seed: int, processes: int) -> None:
        self._path = path
        self._chance = random.Random(seed)
        self._seed = seed
        self._started = 0
        self._workers = [self._start(f"p{number}") for number in range(processes)]
        self.findings = Findings()

    def _start(self, name: str) -> tuple[str, BaseProcess]:
        self._started += 1
        process = _context.Process(target=work, args=(self._path, name, f"{self._seed}.{self._started}"))
        process.start()
        return name, process

    def fault(self) -> None:
        kind = self._chance.choice((self._kill, self._hold, self._write_round, self._damage))
        kind()

    def _kill(self) -> None:
        number = self._chance.randrange(len(self._workers))
        name, process = self._workers[number]
        if process.exitcode is not None:
            self.findings.missed.append(f"a process ended with {process.exitcode}")
        process.kill()
        process.join()
        self.findings.faults["process killed"] += 1
        self._check(expected=False, after="process killed")
        self._workers[number] = self._start(name)

    def _hold(self) -> None:
        with closing(self._plain()) as plain:
            plain.execute("BEGIN IMMEDIATE")
            time.sleep(self._chance.uniform(0.2, 3))
            plain.rollback()
        self.findings.faults["write lock held"] += 1
        self._check(expected=False, after="write lock held")

    def _write_round(self) -> None:
        name, statements = self._chance.choice(list(_ROUND.items()))
        self._raw(statements)
        self.findings.faults[f"written round: {name}"] += 1
        self._check(expected=False, after=name)

    def _damage(self) -> None:
        name, statements = self._chance.choice(list(_DAMAGE.items()))
        if self._raw(statements):
            self.findings.faults[f"damaged: {name}"] += 1
            self._check(expected=True, after=name)

    def _plain(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=30, isolation_level=None)

    def _raw(self, statements: list[str]) -> int:
        with closing(self._plain()) as plain:
            before = plain.total_changes
            plain.execute("BEGIN IMMEDIATE")
            for statement in statements:
                plain.execute(statement)
            plain.execute("COMMIT")
            return plain.total_changes - before or int(statements[0].startswith("DROP"))

    def _check(self, *, expected: bool, after: str) -> None:
        """Verifies and, if something disagrees, repairs. Damage that was done must be found, and nothing else."""
        with opened(self._path, busy_timeout=60) as scroll:
            self.findings.checks += 1
            report = scroll.verify()
            for problem in report.problems:
                self.findings.found[problem.what.partition(" (")[0]] += 1
            if report.ok == expected:
                self.findings.missed.append(f"{after}: {[problem.what for problem in report.problems]}")
            if not report.ok and not (again := scroll.repair()).ok:
                self.findings.unrepaired.append(f"{after}: {[problem.what for problem in again.problems]}")

    def end(self) -> None:
        (self._path.parent / "stop").touch()
        for _, process in self._workers:
            process.join(120)
            if process.exitcode != 0:
                self.findings.missed.append(f"a process ended with {process.exitcode}")


@dataclass
class Ledger:
    """The journals read together."""

    kept: dict[str, str] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    @classmethod
    def read(cls, folder: Path) -> "Ledger":
        ledger = cls()
        for path in folder.glob("*.journal"):
            last: dict[str, dict[str, int]] = {}
            before = 0
            for line in path.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                if "ids" in entry:
                    ledger.kept.update(dict.fromkeys(entry["ids"], entry["key"]))
                elif "deleted" in entry:
                    ledger.kept = {name: key for name, key in ledger.kept.items() if key != entry["key"]}
                else:
                    # Counts begin again when a killed process was started again.
                    if (now := sum(entry["done"].values())) < before:
                        ledger._add(last)
                    last, before = entry, now
            ledger._add(last)
        return ledger

    def _add(self, entry: dict[str, dict[str, int]]) -> None:
        self.done.update(entry.get("done", {}))
        self.refused.update(entry.get("refused", {}))


def lost_or_stale(path: Path, ledger: Ledger) -> tuple[int, int, int]:
    """Acknowledged messages that are not stored, that search does not find, and that it finds off the active path."""
    with closing(sqlite3.connect(path)) as plain:
        active = dict(plain.execute("SELECT message_id, active FROM backscroll_messages").fetchall())
    lost = [name for name in ledger.kept if name not in active]
    missing = stale = 0
    with opened(path, busy_timeout=60) as scroll:
        for name in ledger.kept:
            hits = {hit.message_id for hit in scroll.search(name, requester=OPERATOR, limit=25).hits}
            missing += bool(active.get(name)) and name not in hits
            stale += name in hits and not active.get(name)
    return len(lost), missing, stale


def soak(minutes: float, seed: int, processes: int) -> bool:
    """Runs and prints; whether all was well."""
    with tempfile.TemporaryDirectory(prefix="backscroll-soak-") as folder:
        path = Path(folder) / "store.db"
        opened(path, busy_timeout=60).close()
        injector = Injector(path, seed, processes)
        end = time.monotonic() + minutes * 60
        while time.monotonic() < end:
            injector.fault()
        injector.end()
        with opened(path, busy_timeout=60) as scroll:
            scroll.reindex()
            last = scroll.verify()
        ledger = Ledger.read(Path(folder))
        lost, missing, stale = lost_or_stale(path, ledger)
    findings = injector.findings
    print(f"operations                    {sum(ledger.done.values()):>9,}   {dict(ledger.done.most_common())}")
    print(f"  refused                     {sum(ledger.refused.values()):>9,}   {dict(ledger.refused.most_common())}")
    print(f"faults injected               {sum(findings.faults.values()):>9,}   {dict(findings.faults.most_common())}")
    print(f"checks                        {findings.checks:>9,}")
    print(f"  disagreements found         {sum(findings.found.values()):>9,}   {dict(findings.found.most_common())}")
    print(f"  faults not told rightly     {len(findings.missed):>9,}   {findings.missed[:5]}")
    print(f"  disagreements after repair  {len(findings.unrepaired):>9,}   {findings.unrepaired[:5]}")
    print(f"messages in the end           {last.messages:>9,}   verified: {last.ok}, pending: {last.pending}")
    print(f"messages acknowledged         {len(ledger.kept):>9,}   (without those of deleted sessions)")
    print(f"  lost                        {lost:>9,}")
    print(f"  on their path, not found    {missing:>9,}")
    print(f"  off their path, found       {stale:>9,}")
    return last.ok and not (findings.missed or findings.unrepaired or lost or missing or stale)


# --------------------------------------------------------------------------------------------------------- reindexing


def content(said: Said) -> object:
    """What a message of the corpus says, as `append` takes it."""
    parts = [{"type": "text", "text": said.text}] if said.text else []
    return [*parts, *(part for part in (said.call, said.output) if part)] if said.call or said.output else said.text


class Beside:
    """Searches and, if asked to, appends in a process of its own, and tells how long each call took."""

    def __init__(self, path: Path, words: list[str], append_to: str | None) -> None:
        self._receiving, sending = _context.Pipe(duplex=False)
        self._stop = path.parent / f"stop{time.monotonic_ns()}"
        self._process = _context.Process(target=_beside, args=(path, words, append_to, self._stop, sending))
        self._process.start()
        self._receiving.recv()

    def end(self) -> dict[str, list[float]]:
        self._stop.touch()
        times: dict[str, list[float]] = self._receiving.recv()
        self._process.join()
        return times


def _beside(
    path: Path, words: list[str], append_to: str | None, stop: Path, sending: "multiprocessing.connection.Connection"
) -> None:
    times: dict[str, list[float]] = {"search": [], "append": []}
    chance = random.Random(5)
    settings = Settings(database_url=f"sqlite:///{path}", busy_timeout=60, background_reindex=False)
    with Backscroll.open(settings) as scroll:
        sending.send("ready")
        while not stop.exists():
            begun_at = time.perf_counter()
            scroll.search(chance.choice(words), requester=OPERATOR)
            times["search"].append(time.perf_counter() - begun_at)
            if append_to is not None:
                begun_at = time.perf_counter()
                scroll.append(append_to, "user", "said beside the reindexing")
                times["append"].append(time.perf_counter() - begun_at)
            time.sleep(0.02)
    sending.send(times)


def told(times: list[float]) -> str:
    """Median, 99th percentile and longest in milliseconds."""
    if len(times) < 2:
        return "none"
    return (
        f"{len(times)} calls, median {median(times) * 1e3:.1f} ms, 99 % {quantiles(times, n=100)[98] * 1e3:.1f} ms,"
        f" longest {max(times) * 1e3:.1f} ms"
    )


def batches(turns: Iterator[Said], total: int, size: int) -> Iterator[list[NewMessage]]:
    """The corpus's next messages, so many at a time."""
    for start in range(0, total, size):
        chunk = islice(turns, min(size, total - start))
        yield [NewMessage(said.role, content(said), said.message_id, None, said.created_at) for said in chunk]


def reindexing(total: int, quiet: bool) -> bool:
    """Bulk import and reindexing of the same messages in one run, with searches beside both unless `quiet`."""
    with tempfile.TemporaryDirectory(prefix="backscroll-soak-") as folder:
        path = Path(folder) / "store.db"
        url = f"sqlite:///{path}"
        settings = Settings(database_url=url, background_reindex=False, busy_timeout=60)
        corpus = Corpus(3)
        prepared = list(batches(corpus.turns(), total, 1_000))
        words = corpus.words_in(total / 2_000, 200) + corpus.words_in(20, 200)
        with Backscroll.open(settings) as scroll:
            scroll.ensure_session("agent:main:beside")
            beside = None if quiet else Beside(path, words, None)
            begun_at = time.perf_counter()
            for number, batch in enumerate(prepared):
                key = f"agent:main:{number}"
                scroll.ensure_session(key)
                scroll.append_many(key, batch)
            took = time.perf_counter() - begun_at
            bulk = total / took
            print(f"bulk import, append_many of 1,000: {total:,} messages in {took:.1f} s: {bulk:,.0f} a second")
            if beside is not None:
                print(f"  searches beside it: {told(beside.end()['search'])}")
        forget_index(url)
        begun_at = time.perf_counter()
        with Backscroll.open(settings) as scroll:
            print(f"the index added to {total:,} messages: {time.perf_counter() - begun_at:.2f} s, all pending")
            assert scroll.search(words[0], requester=OPERATOR).indexing
            beside = None if quiet else Beside(path, words, None)
            rate = reindex_told(scroll, total)
            print(f"  {rate / bulk:.2f} of the bulk import's rate")
            if beside is not None:
                print(f"  searches beside it: {told(beside.end()['search'])}")
        if not quiet:
            forget_index(url)
            with Backscroll.open(settings) as scroll:
                print("once more, with appends beside it:")
                beside = Beside(path, words, "agent:main:beside")
                reindex_told(scroll, total)
                print(f"  appends beside it: {told(beside.end()['append'])}")
        with Backscroll.open(settings) as scroll:
            report = scroll.verify()
            print(f"verified: {report.ok}, pending: {report.pending}")
            return report.ok and not report.pending


def forget_index(url: str) -> None:
    """Takes the store back to the revision without an index."""
    engine = create_engine(url, busy_timeout=60, synchronous="FULL")
    with begun(engine, writing=True) as connection:
        migrate.downgrade(connection, "0001")
        connection.commit()
    engine.dispose()


def reindex_told(scroll: Backscroll, total: int) -> float:
    """Reindexes and prints what it did; messages a second."""
    steps: list[tuple[int, int]] = []
    begun_at = time.perf_counter()
    report = scroll.reindex(progress=lambda done, of: steps.append((done, of)))
    took = time.perf_counter() - begun_at
    print(
        f"reindexed: {total:,} messages in {took:.1f} s: {total / took:,.0f} a second; {report.added:,} index rows,"
        f" {len(report.failed)} failures, progress told {len(steps)} times"
    )
    return total / took


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--reindex", type=int, metavar="MESSAGES", help="measure reindexing instead")
    parser.add_argument("--quiet", action="store_true", help="with --reindex: nothing beside it")
    asked = parser.parse_args()
    print(
        f"{platform.system()}, {os.cpu_count()} cores, Python {platform.python_version()},"
        f" SQLite {sqlite3.sqlite_version}, {threading.active_count()} thread"
    )
    if asked.reindex:
        return 0 if reindexing(asked.reindex, asked.quiet) else 1
    return 0 if soak(asked.minutes, asked.seed, asked.processes) else 1


if __name__ == "__main__":
    sys.exit(main())
