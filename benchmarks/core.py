"""Backscroll beside plain `sqlite3` and other systems, the same jobs on the same data in the same run; see README.md.

python benchmarks/core.py [--messages 10000 100000 1000000] [--quick] [--peers] [--only search] [--reuse FOLDER]
"""

import argparse
import os
import platform
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from figures import Row, table
from measuring import Measuring, compared
from sections.branching import branches
from sections.concurrency import concurrent
from sections.files import agents_files
from sections.importing import imports, memory
from sections.reading import long_transcript, reads
from sections.searching import AIMED_FROM, grown, searches
from sections.writing import DELETED, appends, deletes, disk
from stores import Filled, Stores, fill
from systems.driver import Driver
from systems.facade import BackscrollDriver
from systems.plain_sqlite import PlainSqliteDriver

OF_A_SIZE = ("disk", "search", "concurrent", "delete", "append", "transcript")
ONCE = ("importers", "memory", "files")
KEPT = {"disk", "search"}
"""The sections that leave the stores as they are."""


class Bench:
    """The measurements of one run, as its command line asks for them."""

    def __init__(self, asked: argparse.Namespace, kinds: Sequence[type[Driver]], scratch: Path) -> None:
        self._kinds = kinds
        self._scratch = scratch
        self._reuse: Path | None = asked.reuse
        self._synchronous: str = asked.synchronous
        self._only = set(asked.only or (*OF_A_SIZE, *ONCE))
        self._sizes = [2_000] if asked.quick else sorted(asked.messages)
        self._long = 2_000 if asked.quick else 100_000
        self._imported = 500 if asked.quick else 5_000
        self._times = 5 if asked.quick else 30
        self._clock = time.process_time if asked.cpu else time.perf_counter
        self._searches: dict[int, list[Row]] = {}
        self.sections: dict[str, list[Row]] = {}

    def run(self) -> None:
        """All sizes, what grows between them, and what does not depend on a size."""
        if not self._only.isdisjoint(OF_A_SIZE):
            for size in self._sizes:
                self.sections[_title(size)] = self._of_size(size)
            for small, large in pairwise(self._sizes):
                self._growth(small, large)
        if "importers" in self._only:
            _say("importers ...")
            measuring = self._measuring([])
            imports(measuring, self._kinds, self._scratch / "imports", self._synchronous, self._imported * 10)
            self.sections["Transcripts of another program, into an empty store"] = measuring.rows
        if "memory" in self._only:
            _say("memory ...")
            rows = memory(self._kinds, self._scratch / "memory", self._synchronous, self._imported)
            self.sections["Memory that importing them takes, in a process of its own"] = rows
        if "files" in self._only:
            _say("files ...")
            measuring = self._measuring([])
            agents_files(measuring, self._scratch / "files", self._synchronous)
            self.sections["A file for each agent, of 300 messages"] = measuring.rows

    def _of_size(self, messages: int) -> list[Row]:
        _say(f"{messages:,} messages")
        stores = Stores((self._reuse or self._scratch) / str(messages), self._kinds, self._synchronous)
        filled = stores.kept() if self._reuse else None
        rows: list[Row] = []
        if filled is None:
            _say("  fill ...")
            stores.forget()
            measuring = self._measuring(stores.open())
            filled = fill(measuring, messages)
            rows = measuring.rows
            _close(measuring)
            stores.keep(filled)
        if self._reuse and not self._only <= KEPT:
            stores = stores.copy_to(self._scratch / str(messages))
        measuring = self._measuring(stores.open())
        measuring.rows += rows
        self._measure(measuring, filled, stores)
        _close(measuring)
        return measuring.rows

    def _measure(self, measuring: Measuring, filled: Filled, stores: Stores) -> None:
        steps: dict[str, Callable[[], None]] = {
            "disk": lambda: disk(measuring, filled, stores.files),
            "search": lambda: self._search(measuring, filled),
            "concurrent": lambda: concurrent(measuring, filled, stores),
            "delete": lambda: deletes(measuring, filled),
            "append": lambda: appends(measuring, filled),
            "transcript": lambda: self._transcript(measuring, filled),
        }
        for name, step in steps.items():
            if name in self._only:
                _say(f"  {name} ...")
                step()

    def _search(self, measuring: Measuring, filled: Filled) -> None:
        self._searches[filled.messages] = searches(measuring, filled)

    def _transcript(self, measuring: Measuring, filled: Filled) -> None:
        long = long_transcript(measuring, filled, self._long)
        reads(measuring, filled, long)
        branches(measuring, filled, long)

    def _growth(self, small: int, large: int) -> None:
        before, after = self.sections[_title(small)], self.sections[_title(large)]
        sizes = f"{large:,} / {small:,}"
        rows = grown(*(self._searches.get(size, []) for size in (small, large)), sizes, aimed=large >= AIMED_FROM)
        deleted = [row for rows_of_size in (before, after) for row in rows_of_size if row.what == DELETED]
        rows += [compared(f"{DELETED}: {sizes}", *deleted, 1.5)] if deleted else []
        if rows:
            self.sections[f"From {small:,} to {large:,} messages"] = rows

    def _measuring(self, drivers: list[Driver]) -> Measuring:
        return Measuring(drivers, self._clock, self._times)


def _title(messages: int) -> str:
    return f"{messages:,} messages"


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _close(measuring: Measuring) -> None:
    for driver in measuring.drivers:
        driver.close()


def _systems(*, peers: bool) -> list[type[Driver]]:
    """The systems in the order of their columns; the first is measured, the last is what aims are set against."""
    others: list[type[Driver]] = []
    if peers:
        # Their packages are needed for this alone.
        from peers.hermes import HermesDriver
        from peers.openai_agents import OpenAIAgentsDriver

        others = [HermesDriver, OpenAIAgentsDriver]
    return [BackscrollDriver, *others, PlainSqliteDriver]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sizes = [10_000, 100_000, 1_000_000]
    parser.add_argument("--messages", type=int, nargs="+", default=sizes, help="sizes of the stores")
    parser.add_argument("--synchronous", choices=("FULL", "NORMAL"), default="FULL", help="the same for all systems")
    parser.add_argument("--quick", action="store_true", help="a small store and few repeats: a try in seconds")
    parser.add_argument("--cpu", action="store_true", help="processor time: for a machine that others use meanwhile")
    parser.add_argument("--peers", action="store_true", help="also the systems in requirements.txt")
    parser.add_argument("--only", nargs="+", choices=(*OF_A_SIZE, *ONCE), help="sections to measure; all if left out")
    parser.add_argument("--reuse", type=Path, metavar="FOLDER", help="keep filled stores there, or take those kept")
    asked = parser.parse_args()
    kinds = _systems(peers=asked.peers)
    with tempfile.TemporaryDirectory(prefix="backscroll-bench-") as scratch:
        bench = Bench(asked, kinds, Path(scratch))
        bench.run()
    print(
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {os.cpu_count()} cores,"
        f" synchronous={asked.synchronous}; {'processor' if asked.cpu else 'elapsed'} times:"
        " medians (95th percentile)\n"
    )
    print(table(bench.sections, [kind.name for kind in kinds]))


if __name__ == "__main__":
    main()
