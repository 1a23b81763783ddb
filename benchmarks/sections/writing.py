"""What writing costs: single appends, deletions, and the size on disk."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from itertools import cycle, islice
from pathlib import Path
from statistics import median, quantiles

from corpus import Conversation
from figures import Figure, Row
from measuring import Measuring, p95
from stores import Filled

_BATCH = 1_000
DELETED = "delete a session of 50 messages"


def disk(measuring: Measuring, filled: Filled, files: Mapping[str, Path]) -> None:
    """Adds the sizes of the files by the bytes of text in them."""
    plain, packed = {}, {}
    for name, file in files.items():
        with closing(sqlite3.connect(file)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            plain[name] = Figure(file.stat().st_size / filled.text_bytes)
            copy = file.with_suffix(".vacuumed")
            db.execute("VACUUM INTO ?", (str(copy),))
        packed[name] = Figure(copy.stat().st_size / filled.text_bytes)
        copy.unlink()
    measuring.rows.append(Row("bytes on disk per byte of text", "", plain, aim=1.0))
    measuring.rows.append(Row("bytes on disk per byte of text, vacuumed", "", packed, aim=1.0))


def deletes(measuring: Measuring, filled: Filled) -> None:
    """Adds the times of deleting sessions, and whether they are in proportion to the messages deleted."""
    rows = []
    for size in (50, _BATCH):
        keys = []
        for _ in range(max(measuring.times * 50 // size, 5)):
            store(measuring, one := filled.corpus.conversation(size))
            keys.append(one.session_key)
        jobs = [lambda d, k=key: d.delete(k) for key in keys]
        rows.append(measuring.timed(f"delete a session of {size:,} messages", jobs, between=lambda _: None))
    measuring.steady(f"delete: {_BATCH:,} messages / 50, per message", *rows, per=_BATCH / 50)


def store(measuring: Measuring, one: Conversation) -> dict[str, float]:
    """Stores a session in batches; the seconds of the systems that can. The others have none of it then."""
    key = one.session_key
    measuring.each(lambda d: d.add_session(one))
    spent: dict[str, float] | None = None
    for start in range(0, len(one.messages), _BATCH):
        batch = one.messages[start : start + _BATCH]
        took = measuring.each(lambda d, b=batch: d.append_many(key, b))
        spent = took if spent is None else {name: spent[name] + more for name, more in took.items()}
    stored = spent or {}
    measuring.each(lambda d: d.delete(key) if d.name not in stored else None)
    return stored


def appends(measuring: Measuring, filled: Filled) -> None:
    """Adds rate, times and the worst of single appends, to some sessions in turn."""
    turns = islice(filled.corpus.turns(), measuring.times * 100)
    said = [one for one in turns if one.role != "tool" and one.text]
    times: dict[str, list[float]] = {}
    for key, one in zip(cycle(filled.some), said, strict=False):
        for name, took in measuring.each(lambda d, k=key, s=one: d.append(k, s.role, s.text)).items():
            times.setdefault(name, []).append(took * 1e3)
    spent = {name: sum(one) / 1e3 for name, one in times.items()}
    measuring.rate("append one message, a transaction each", len(said), spent, aim=0.6)
    usual = {name: Figure(median(one), p95(one)) for name, one in times.items()}
    worst = {name: Figure(quantiles(one, n=1_000)[-1] / median(one)) for name, one in times.items()}
    measuring.rows.append(Row("append one message", "ms", usual))
    measuring.rows.append(Row("one append in 1,000, in medians", "", worst, most=20, compared=False))
