"""Searches and appends in several processes at once, each with a connection of its own."""

import multiprocessing
import time
from dataclasses import dataclass
from itertools import cycle, islice
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

from figures import Figure, Row
from measuring import Measuring
from stores import Filled, Stores
from systems.driver import Ask, Driver, NotOffered

_APPENDS_PER_TIME = 20
_MOST_SEARCHES = 200_000
_LONGEST = 2.0
"""Seconds that the searches of one process should take, about."""
_context = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class _Work:
    """What a process does: so many searches, or as many as fit until the others are done, or so many appends."""

    kind: type[Driver]
    file: Path
    synchronous: str
    asks: list[Ask]
    key: str
    searches: int = 0
    appends: int = 0
    until_told: bool = False


def concurrent(measuring: Measuring, filled: Filled, stores: Stores) -> None:
    """Adds what two readers do beside one, and a writer with readers beside it. Always in elapsed time."""
    corpus = filled.corpus
    words = corpus.words_in(corpus.spoken * 0.02, 6) + corpus.words_in(50, 6)
    asks = [Ask(word) for word in words]
    alone: dict[str, Figure] = {}
    both: dict[str, Figure] = {}
    scaled: dict[str, Figure] = {}
    writes: dict[str, list[float]] = {}
    for driver in measuring.drivers:
        kind = type(driver)
        file = stores.files[driver.name]
        work = _Work(kind, file, stores.synchronous, asks, filled.some[0])
        try:
            count = _count(driver, asks)
        except NotOffered:
            continue
        reader = _Work(*_base(work), searches=count)
        one, two = _rate([reader]), _rate([reader, reader])
        alone[driver.name], both[driver.name], scaled[driver.name] = Figure(one), Figure(two), Figure(two / one)
        writer = _Work(*_base(work), appends=measuring.times * _APPENDS_PER_TIME)
        beside = _Work(*_base(work), searches=_MOST_SEARCHES, until_told=True)
        writes[driver.name] = [_rate([writer, *[beside] * readers]) for readers in (0, 1, 2)]
    measuring.rows += [
        Row("searches, one process", "/s", alone),
        Row("searches, two processes", "/s", both),
        Row("searches: two processes / one", "x", scaled, least=1.6, compared=False),
    ]
    for number, what in enumerate(("alone", "beside one searching", "beside two searching")):
        figures = {name: Figure(rates[number]) for name, rates in writes.items()}
        measuring.rows.append(Row(f"appends, a process {what}", "/s", figures))
    for number, what in enumerate(("one searching", "two searching"), 1):
        figures = {name: Figure(rates[number] / rates[0]) for name, rates in writes.items()}
        least = 0.8 if number == 2 else None
        measuring.rows.append(Row(f"appends: beside {what} / alone", "x", figures, least=least, compared=False))


def _base(work: _Work) -> tuple[type[Driver], Path, str, list[Ask], str]:
    return work.kind, work.file, work.synchronous, work.asks, work.key


def _count(driver: Driver, asks: list[Ask]) -> int:
    """How many searches make a measurement of some seconds."""
    started = time.perf_counter()
    for ask in asks:
        driver.search(ask)
    return max(int(_LONGEST / (time.perf_counter() - started)), 1) * len(asks)


def _rate(works: list[_Work]) -> float:
    """What the processes with a count do in a second, together, from the first one's start to the last one's end."""
    together = _context.Barrier(len(works))
    done = _context.Event()
    started = []
    for work in works:
        receiving, sending = _context.Pipe(duplex=False)
        process = _context.Process(target=_do, args=(work, together, done, sending))
        process.start()
        sending.close()
        started.append((work, process, receiving))
    spans = [receiving.recv() for work, _, receiving in started if not work.until_told]
    done.set()
    for _, process, _ in started:
        process.join()
        if process.exitcode != 0:
            raise SystemExit(f"a process ended with {process.exitcode}")
    count = sum(work.searches + work.appends for work in works if not work.until_told)
    return count / (max(end for _, end in spans) - min(start for start, _ in spans))


def _do(work: _Work, together: Barrier, done: Event, sending: "multiprocessing.connection.Connection") -> None:
    driver = work.kind(work.file, work.synchronous)
    for ask in work.asks:
        driver.search(ask)
    together.wait()
    start = time.monotonic()
    for ask in islice(cycle(work.asks), work.searches):
        if work.until_told and done.is_set():
            break
        driver.search(ask)
    for number in range(work.appends):
        driver.append(work.key, "user", f"said by a process beside others, number {number}")
    sending.send((start, time.monotonic()))
    driver.close()
