"""Searches and appends in several processes at once, each with a connection of its own."""

import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import cycle, islice
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from statistics import median

from figures import Figure, Row
from measuring import Measuring
from stores import Filled, Stores
from systems.driver import Ask, Driver

_ROUNDS = 3
"""Each figure is the median of so many measurements, the systems in turn."""
_APPENDS_PER_TIME = 50
_MOST_SEARCHES = 200_000
_NICENESS = 10
"""By how much a process lowers its priority that gives way to others."""
_LONGEST = 1.0
"""Seconds that the searches of one process should take, about."""
_context = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class _Work:
    """What a process does: so many searches, or as many as fit until the others are done, or so many appends.

    Or it only computes until the others are done, and keeps a processor busy without any database. `niceness` is by how
    much it lowers its priority.
    """

    kind: type[Driver]
    file: Path
    synchronous: str
    asks: list[Ask]
    key: str
    searches: int = 0
    appends: int = 0
    until_told: bool = False
    computes: bool = False
    niceness: int = 0


def concurrent(measuring: Measuring, filled: Filled, stores: Stores) -> None:
    """Adds what two readers do beside one, and a writer with readers beside it. Always in elapsed time."""
    corpus = filled.corpus
    words = corpus.words_in(corpus.spoken * 0.02, 6) + corpus.words_in(50, 6)
    asks = [Ask(word) for word in words]
    counts = _counts(measuring, asks)
    appends = measuring.times * _APPENDS_PER_TIME
    measured: dict[str, list[_Rates]] = {name: [] for name in counts}
    for _ in range(_ROUNDS):
        for driver in measuring.drivers:
            if driver.name in counts:
                work = _Work(type(driver), stores.files[driver.name], stores.synchronous, asks, filled.some[0])
                measured[driver.name].append(_measured(work, counts[driver.name], appends))

    def row(what: str, unit: str, of: Callable[[_Rates], float], least: float | None = None) -> None:
        figures = {name: Figure(median(map(of, rounds))) for name, rounds in measured.items()}
        measuring.rows.append(Row(what, unit, figures, least=least, compared=unit == "/s"))

    row("searches, one process", "/s", lambda rates: rates.readers[0])
    row("searches, two processes", "/s", lambda rates: rates.readers[1])
    row("searches: two processes / one", "x", lambda rates: rates.readers[1] / rates.readers[0], 1.6)
    row("appends, a process alone", "/s", lambda rates: rates.writer[0])
    row("appends, one process searching beside it", "/s", lambda rates: rates.writer[1])
    row("appends, two processes searching beside it", "/s", lambda rates: rates.writer[2])
    row("appends, two of lower priority searching beside it", "/s", lambda rates: rates.beside_yielding)
    row("appends: one searching beside it / alone", "x", lambda rates: rates.writer[1] / rates.writer[0])
    row("appends: two searching beside it / alone", "x", lambda rates: rates.writer[2] / rates.writer[0], 0.8)
    row(
        "appends: two of lower priority searching / alone",
        "x",
        lambda rates: rates.beside_yielding / rates.writer[0],
        0.8,
    )
    row("appends: two computing beside it / alone", "x", lambda rates: rates.beside_computing / rates.writer[0])
    row("appends: two searching / two computing", "x", lambda rates: rates.writer[2] / rates.beside_computing)


@dataclass(frozen=True, slots=True)
class _Rates:
    """A second's searches of one and of two readers; a second's appends of a writer beside none, one and two.

    `beside_yielding` are its appends beside two readers of lower priority, `beside_computing` beside two processes that
    leave the database alone.
    """

    readers: list[float]
    writer: list[float]
    beside_yielding: float
    beside_computing: float


def _measured(work: _Work, searches: int, appends: int) -> _Rates:
    reader = replace(work, searches=searches)
    beside = replace(work, searches=_MOST_SEARCHES, until_told=True)
    writer = replace(work, appends=appends)
    yielding = replace(beside, niceness=_NICENESS)
    computing = replace(work, computes=True, until_told=True)
    return _Rates(
        readers=[_rate([reader] * count) for count in (1, 2)],
        writer=[_rate([writer, *[beside] * count]) for count in (0, 1, 2)],
        beside_yielding=_rate([writer, yielding, yielding]),
        beside_computing=_rate([writer, computing, computing]),
    )


def _counts(measuring: Measuring, asks: list[Ask]) -> dict[str, int]:
    """How many searches make a measurement of some seconds, of each system that searches."""
    took = measuring.each(lambda d: [d.search(ask) for ask in asks])
    return {name: max(int(_LONGEST / seconds), 1) * len(asks) for name, seconds in took.items()}


def _rate(works: list[_Work]) -> float:
    """What the processes with a count do in a second, together."""
    together = _context.Barrier(len(works))
    done = _context.Event()
    started = []
    for work in works:
        receiving, sending = _context.Pipe(duplex=False)
        process = _context.Process(target=_do, args=(work, together, done, sending), daemon=True)
        process.start()
        sending.close()
        started.append((work, process, receiving))
    try:
        spans = [receiving.recv() for work, _, receiving in started if not work.until_told]
    except EOFError:
        raise SystemExit(f"a process of {works[0].kind.name} failed") from None
    done.set()
    for _, process, _ in started:
        process.join()
        if process.exitcode != 0:
            raise SystemExit(f"a process of {works[0].kind.name} ended with {process.exitcode}")
    count = sum(work.searches + work.appends for work in works if not work.until_told)
    return count / (max(end for _, end in spans) - min(start for start, _ in spans))


def _do(work: _Work, together: Barrier, done: Event, sending: Connection) -> None:
    os.nice(work.niceness)
    driver = work.kind(work.file, work.synchronous)
    for ask in work.asks:
        driver.search(ask)
    together.wait(timeout=60)
    start = time.monotonic()
    while work.computes and not done.is_set():
        sum(range(10_000))
    for ask in islice(cycle(work.asks), work.searches):
        if work.until_told and done.is_set():
            break
        driver.search(ask)
    for number in range(work.appends):
        driver.append(work.key, "user", f"said by a process beside others, number {number}")
    sending.send((start, time.monotonic()))
    driver.close()
