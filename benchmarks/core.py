"""Backscroll beside plain `sqlite3`, the same jobs on the same data in the same run; see README.md.

    python benchmarks/core.py [--messages 10000 200000] [--quick] [--synchronous FULL]

A system becomes a column by a class with the methods of `Driver`; put it into `DRIVERS`.
"""

import argparse
import os
import platform
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from itertools import cycle, islice, pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import Self

from corpus import Conversation, Corpus
from drivers import DRIVERS, Ask, Driver
from figures import Figure, Row, table

Clock = Callable[[], float]
Jobs = list[Callable[[Driver], object]]


class Bench:
    """The measurements on stores that start with so many messages."""

    def __init__(self, folder: Path, messages: int, synchronous: str, clock: Clock, *, quick: bool) -> None:
        self._corpus = Corpus()
        self._files = {kind.name: folder / f"{kind.name}-{messages}.db" for kind in DRIVERS}
        self._drivers = [kind(self._files[kind.name], synchronous) for kind in DRIVERS]
        self._clock = clock
        self._messages = messages
        self._long = min(messages, 2_000) if quick else 50_000
        self._times = 5 if quick else 30
        self.rows: list[Row] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for driver in self._drivers:
            driver.close()

    def run(self) -> None:
        """All of them, in the order of the table."""
        for step in (self._fill, self._disk, self._searches, self._deletes, self._appends, self._long_transcript):
            print(f"  {step.__name__[1:].replace('_', ' ')} ...", file=sys.stderr, flush=True)
            step()

    def _fill(self) -> None:
        spent = dict.fromkeys(self._files, 0.0)
        self._text = 0
        self._some: list[Conversation] = []
        for number, one in enumerate(self._corpus.conversations(self._messages)):
            for driver in self._drivers:
                driver.add_session(one.session_key, one.agent_id)
                spent[driver.name] += self._seconds(lambda d=driver, c=one: d.append_many(c.session_key, c.messages))
            self._text += sum(said.text_bytes for said in one.messages)
            if number % 7 == 0 and len(one.messages) >= 40 and len(self._some) < 40:
                self._some.append(one)
        self._rate("import, a session (about 50 messages) a transaction", self._messages, spent, aim=0.5)

    def _rate(self, what: str, count: int, spent: dict[str, float], aim: float | None = None) -> None:
        self.rows.append(Row(what, "/s", {name: Figure(count / time) for name, time in spent.items()}, aim))

    def _seconds(self, job: Callable[[], object]) -> float:
        started = self._clock()
        job()
        return self._clock() - started

    def _disk(self) -> None:
        plain, packed = {}, {}
        for name, file in self._files.items():
            with closing(sqlite3.connect(file)) as db:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                plain[name] = Figure(file.stat().st_size / self._text)
                copy = file.with_suffix(".vacuumed")
                db.execute("VACUUM INTO ?", (str(copy),))
            packed[name] = Figure(copy.stat().st_size / self._text)
            copy.unlink()
        self.rows.append(Row("bytes on disk per byte of text", "", plain, most=2.0))
        self.rows.append(Row("bytes on disk per byte of text, vacuumed", "", packed, most=2.0))

    def _searches(self) -> None:
        corpus = self._corpus
        rare = corpus.words_in(6, 6)
        common = corpus.words_in(corpus.spoken * 0.2, 5)
        top = corpus.words_in(corpus.spoken, 4)
        chinese = corpus.chinese(6)
        like_chinese = [corpus.words_in(corpus.found_in[word], 1)[0] for word in chinese]
        scoped = [
            Ask(word, session_key=one.session_key) for word, one in zip(cycle(common), self._some[:6], strict=False)
        ]
        self._search("search: a rare word", [Ask(word) for word in rare], same=True)
        self._search("search: a common word (in 20% of messages)", [Ask(word) for word in common], aim=1.0)
        self._search("search: a phrase of common words", [Ask(f'"{a} {b}"') for a, b in pairwise(top)])
        self._search("search: two common words", [Ask(f"{a} {b}") for a, b in pairwise(common)])
        self._search("search: a common word in one session", scoped)
        self._search("search: the beginning of a word", [Ask(word[:4], prefix=True) for word in common if word[3:]])
        self._search("search: a common word, newest first", [Ask(word, newest=True) for word in common])
        self._search("search: two Chinese characters", [Ask(word) for word in chinese])
        self._search("search: a Latin word in as many messages", [Ask(word) for word in like_chinese])

    def _search(self, what: str, asks: list[Ask], aim: float | None = None, *, same: bool = False) -> None:
        for ask in asks:
            found = [driver.search(ask) for driver in self._drivers]
            few = same and len(found[0]) < 10
            if not all(found) or (few and any(set(one) != set(found[0]) for one in found)):
                raise SystemExit(f"the systems do not find the same: {what}, {ask}")
        self._time(what, [lambda d, a=ask: d.search(a) for ask in asks], aim)

    def _time(
        self, what: str, jobs: Jobs, aim: float | None = None, *, between: Callable[[Driver], object] | None = None
    ) -> Row:
        """The times of the jobs, one system after the other for each, so that a busy machine meets all alike.

        Jobs that can be repeated are: `between` is what must be done, untimed, before each one.
        """
        times: dict[str, list[float]] = {driver.name: [] for driver in self._drivers}
        count = max(self._times, len(jobs)) if between is None else len(jobs)
        started = time.perf_counter()
        for done, job in enumerate(islice(cycle(jobs), count)):
            if done >= len(jobs) and time.perf_counter() - started > 20:
                break
            for driver in self._drivers:
                if between is not None:
                    between(driver)
                times[driver.name].append(self._seconds(lambda d=driver, j=job: j(d)) * 1e3)
        row = Row(what, "ms", {name: Figure(median(one), _p95(one)) for name, one in times.items()}, aim)
        self.rows.append(row)
        return row

    def _deletes(self) -> None:
        keys = []
        for _ in range(self._times):
            keys.append((one := self._corpus.conversation(50)).session_key)
            self._store(one)
        nothing: Callable[[Driver], object] = lambda _: None  # noqa: E731
        self._time("delete a session of 50 messages", [lambda d, k=key: d.delete(k) for key in keys], between=nothing)

    def _store(self, one: Conversation) -> None:
        for driver in self._drivers:
            driver.add_session(one.session_key, one.agent_id)
            for start in range(0, len(one.messages), 1_000):
                driver.append_many(one.session_key, one.messages[start : start + 1_000])

    def _appends(self) -> None:
        said = [one for one in islice(self._corpus.turns(), self._times * 100) if one.role != "tool" and one.text]
        keys = [one.session_key for one in self._some]
        times: dict[str, list[float]] = {driver.name: [] for driver in self._drivers}
        for key, one in zip(cycle(keys), said, strict=False):
            for driver in self._drivers:
                append = lambda d=driver, k=key, s=one: d.append(k, s.role, s.text)  # noqa: E731
                times[driver.name].append(self._seconds(append) * 1e3)
        self._rate(
            "append one message, a transaction each", len(said), {n: sum(t) / 1e3 for n, t in times.items()}, 0.5
        )
        usual = {name: Figure(median(one), _p95(one)) for name, one in times.items()}
        worst = {name: Figure(quantiles(one, n=1_000)[-1] / median(one)) for name, one in times.items()}
        self.rows.append(Row("append one message", "ms", usual))
        self.rows.append(Row("one append in 1,000, in medians", "", worst, most=20, compared=False))

    def _long_transcript(self) -> None:
        long = Conversation("agent:main:bench:long", "main", list(islice(self._corpus.turns(), self._long)))
        short = Conversation("agent:main:bench:short", "main", list(islice(self._corpus.turns(), 10)))
        hundred = Conversation("agent:main:bench:hundred", "main", list(islice(self._corpus.turns(), 100)))
        self._store(short)
        self._store(hundred)
        spent = dict.fromkeys(self._files, 0.0)
        for driver in self._drivers:
            driver.add_session(long.session_key, long.agent_id)
        for start in range(0, self._long, 1_000):
            batch = long.messages[start : start + 1_000]
            for driver in self._drivers:
                spent[driver.name] += self._seconds(lambda d=driver, b=batch: d.append_many(long.session_key, b))
        self._rate(f"import, one session of {self._long:,} in batches of 1,000", self._long, spent, aim=0.5)
        self._reads(short, long)
        self._rewinds(hundred, long)

    def _reads(self, short: Conversation, long: Conversation) -> None:
        few, many = ([one.message_id for one in talk.messages if one.role != "tool"] for talk in (short, long))
        some = [many[len(many) * part // 40] for part in range(1, 40)]
        small = self._read("6 messages around one, in 10", short, [few[len(few) // 2]], 6)
        large = self._read(f"6 messages around one, in {self._long:,}", long, some, 6)
        self._steady("around one: long transcript / short", small, large)
        self._read(f"40 messages around one, in {self._long:,}", long, some, 40)
        small = self._read("the newest 6 messages, in 10", short, None, 6)
        large = self._read(f"the newest 6 messages, in {self._long:,}", long, None, 6)
        self._steady("the newest: long transcript / short", small, large)
        self._read(f"the newest 40 messages, in {self._long:,}", long, None, 40)

    def _read(self, what: str, talk: Conversation, anchors: list[str] | None, limit: int) -> Row:
        key = talk.session_key
        jobs: Jobs = [lambda d: d.newest(key, limit)]
        if anchors is not None:
            jobs = [lambda d, a=anchor: d.around(key, a, limit) for anchor in anchors]
        for job in jobs:
            read = [job(driver) for driver in self._drivers]
            if not read[0] or any(one != read[0] for one in read):
                raise SystemExit(f"the systems do not read the same: {what}")
        return self._time(what, jobs)

    def _rewinds(self, short: Conversation, long: Conversation) -> None:
        rows = []
        for talk, size in ((short, 100), (long, self._long)):
            key, anchor = talk.session_key, talk.messages[-11].message_id
            more = iter([list(islice(self._corpus.turns(), 10)) for _ in range(self._times * len(self._drivers))])
            # What the last rewind took off is put on again, as other messages.
            refill = lambda d, k=key, m=more: d.append_many(k, next(m))  # noqa: E731
            for driver in self._drivers:
                driver.rewind(key, anchor)
            jobs: Jobs = [lambda d, k=key, a=anchor: d.rewind(k, a)] * self._times
            rows.append(self._time(f"rewind 10 messages, in {size:,}", jobs, between=refill))
        self._steady("rewind: long transcript / short", *rows)

    def _steady(self, what: str, small: Row, large: Row) -> None:
        self.rows.append(_growth(what, small, large))


def _growth(what: str, small: Row, large: Row) -> Row:
    figures = {name: Figure(one.value / small.figures[name].value) for name, one in large.figures.items()}
    return Row(what, "", figures, most=1.5, compared=False)


def _p95(times: list[float]) -> float:
    return quantiles(times, n=20, method="inclusive")[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, nargs="+", default=[10_000, 200_000], help="sizes of the stores")
    parser.add_argument("--synchronous", choices=("FULL", "NORMAL"), default="FULL", help="the same for all systems")
    parser.add_argument("--quick", action="store_true", help="a small store and few repeats: a try in seconds")
    parser.add_argument("--cpu", action="store_true", help="processor time: for a machine that others use meanwhile")
    chosen = parser.parse_args()
    clock = time.thread_time if chosen.cpu else time.perf_counter
    sizes = [2_000] if chosen.quick else sorted(chosen.messages)
    sections: dict[str, list[Row]] = {}
    with tempfile.TemporaryDirectory(prefix="backscroll-bench-") as folder:
        for size in sizes:
            print(f"{size:,} messages", file=sys.stderr)
            with Bench(Path(folder), size, chosen.synchronous, clock, quick=chosen.quick) as bench:
                bench.run()
                sections[f"{size:,} messages"] = bench.rows
    if len(sections) > 1:
        tables = [{row.what: row for row in rows} for rows in sections.values()]
        deletes = "delete a session of 50 messages"
        sections["As the store grows"] = [
            _growth(f"{deletes}: {sizes[-1]:,} / {sizes[0]:,}", tables[0][deletes], tables[-1][deletes])
        ]
    print(
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {os.cpu_count()} cores,"
        f" synchronous={chosen.synchronous}; {'processor' if chosen.cpu else 'elapsed'} times:"
        " medians (95th percentile)\n"
    )
    print(table(sections, [kind.name for kind in DRIVERS]))


if __name__ == "__main__":
    main()
