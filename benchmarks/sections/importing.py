"""Importers: transcripts of another program, how fast they are taken over and how much memory that takes."""

import multiprocessing
import resource
import sys
from collections.abc import Sequence
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path

from corpus import Conversation, Corpus
from figures import Figure, Row
from measuring import Measuring
from systems.driver import Driver, NotOffered
from transcripts import write_transcripts

_context = multiprocessing.get_context("spawn")


def imports(measuring: Measuring, kinds: Sequence[type[Driver]], folder: Path, synchronous: str, messages: int) -> None:
    """Adds the rates of importing so many messages, in many transcripts and in one."""
    for shape, conversations in _shapes(messages).items():
        source = folder / shape
        write_transcripts(source, conversations)
        measuring.drivers = [kind(folder / f"{kind.name}-{shape}.db", synchronous) for kind in kinds]
        spent = measuring.each(lambda d, s=source: d.import_folder(s))
        for driver in measuring.drivers:
            driver.close()
        measuring.rate(f"importer, {messages:,} messages in {shape}", messages, spent, aim=0.6)


def _shapes(messages: int) -> dict[str, list[Conversation]]:
    corpus = Corpus(2)
    return {
        "many transcripts": list(corpus.conversations(messages)),
        "one transcript": [Conversation("agent:main:long", "main", list(islice(corpus.turns(), messages)))],
    }


def memory(kinds: Sequence[type[Driver]], folder: Path, synchronous: str, messages: int) -> list[Row]:
    """By how much the largest memory in use grew while so many messages were imported, and ten times as many."""
    rows = []
    for shape in _shapes(1):
        grown: dict[int, dict[str, float]] = {}
        for size in (messages, 10 * messages):
            source = folder / f"{shape}-{size}"
            write_transcripts(source, _shapes(size)[shape])
            grown[size] = {}
            for kind in kinds:
                file = folder / f"{kind.name}-{shape}-{size}.db"
                if (taken := _taken(kind, file, synchronous, source)) is not None:
                    grown[size][kind.name] = taken
            figures = {name: Figure(taken) for name, taken in grown[size].items()}
            rows.append(Row(f"importer, {size:,} messages in {shape}", "MB", figures))
        few, many = grown.values()
        figures = {name: Figure(many[name] / few[name]) for name in many}
        rows.append(Row(f"ten times as many in {shape}", "x", figures, most=1.5, compared=False))
    return rows


def _taken(kind: type[Driver], file: Path, synchronous: str, source: Path) -> float | None:
    receiving, sending = _context.Pipe(duplex=False)
    process = _context.Process(target=_import, args=(kind, file, synchronous, source, sending))
    process.start()
    sending.close()
    taken = receiving.recv()
    process.join()
    return taken


def _import(kind: type[Driver], file: Path, synchronous: str, source: Path, sending: Connection) -> None:
    small = file.with_suffix(".small")
    write_transcripts(small, Corpus(3).conversations(200))
    # What the first import loads is no growth.
    for path, folder in ((file.with_suffix(".first"), small), (file, source)):
        before = _peak()
        driver = kind(path, synchronous)
        try:
            driver.import_folder(folder)
        except NotOffered:
            before = None
        driver.close()
    # Less than a megabyte is noise.
    sending.send(None if before is None else max(_peak() - before, 1.0))


def _peak() -> float:
    """The largest resident memory so far, in MB."""
    status = Path("/proc/self/status")
    if status.exists():
        # Unlike getrusage's, not taken over from the process that started this one.
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)
