"""How fast an old store gets its index, beside searches and appends of other processes."""

import multiprocessing
import random
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median, quantiles

from corpus import Corpus, Said
from soaking.working import OPERATOR
from systems.facade import content

from backscroll import Backscroll, NewMessage, Settings
from backscroll.infrastructure import migrate
from backscroll.infrastructure.engine import begun, create_engine

_context = multiprocessing.get_context("spawn")


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


def _beside(path: Path, words: list[str], append_to: str | None, stop: Path, sending: Connection) -> None:
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
