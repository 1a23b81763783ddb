"""The faults that are done to a store in use, and the checks after each."""

import multiprocessing
import random
import sqlite3
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

from soaking.working import opened, work

_context = multiprocessing.get_context("spawn")

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
