"""The bounded ranking beside a full one: how much of the best ten stays the same.

    python benchmarks/ranking.py [--messages 100000] [--reuse FOLDER]

One who sees all is answered by FTS5's bm25 among the newest matches; the full ranking is the same bm25 over all of
them. One who sees its agent alone is answered by a BM25 of what it sees; the full one is BM25 as the books have it,
its statistics from all visible messages, worked out here: once with lengths in words, as in the books, and once in
characters, as the library counts them. `--reuse` takes the store that `core.py` kept.
"""

import argparse
import math
import re
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean

from corpus import Corpus
from measuring import Measuring
from stores import Filled, Stores, fill
from systems.facade import BackscrollDriver

from backscroll import Backscroll, Requester, Settings, Visibility

AGENT = "research"
_FOUND = """FROM backscroll_message_index AS i JOIN backscroll_messages AS m ON m.id = i.rowid
    JOIN backscroll_transcripts AS t ON t.id = m.transcript_pk JOIN backscroll_sessions AS s ON s.id = t.session_pk
    JOIN backscroll_agents AS a ON a.id = s.agent_pk WHERE backscroll_message_index MATCH ?"""
_VISIBLE = """SELECT m.text FROM backscroll_messages AS m JOIN backscroll_transcripts AS t ON t.id = m.transcript_pk
    JOIN backscroll_sessions AS s ON s.id = t.session_pk JOIN backscroll_agents AS a ON a.id = s.agent_pk
    WHERE m.indexed = 1 AND a.agent_id = ?"""
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Compared:
    """One query: its matches in scope, and the best ten with and without a bound."""

    matches: int
    """Those of a phrase as often as it has words: that is how they count against the bound."""
    bounded: list[str]
    full: list[str]

    @property
    def overlap(self) -> float:
        """The share of the full ranking's best ten that the bounded one has too."""
        return len(set(self.bounded) & set(self.full)) / len(self.full)


def queries(corpus: Corpus) -> list[str]:
    """Words from rare to common, pairs of them, and phrases."""
    words = [word for count in (6, 30, 120, 500, 1_200) for word in corpus.words_in(count, 4)]
    words += [word for share in (0.03, 0.08, 0.2, 0.4, 1) for word in corpus.words_in(corpus.spoken * share, 4)]
    words = list(dict.fromkeys(words))
    common = corpus.words_in(corpus.spoken * 0.2, 9)
    top = corpus.words_in(corpus.spoken, 7)
    pairs = [f"{a} {b}" for a, b in pairwise(common)] + [f"{top[0]} {word}" for word in words[:12]]
    return words + pairs + [f'"{a} {b}"' for a, b in pairwise(top)]


def expression(query: str) -> str:
    """The query for FTS5, of the texts alone."""
    if query.startswith('"'):
        return f"body : {query}"
    return " AND ".join(f'body : "{word}"' for word in query.split())


def words_in(query: str) -> int:
    """The words of a phrase, by which the bound is divided; 1 for words alone."""
    return len(query.split()) if query.startswith('"') else 1


def for_all(db: sqlite3.Connection, scroll: Backscroll, query: str) -> Compared:
    """What one who sees all gets."""
    match = expression(query)
    (matches,) = db.execute(f"SELECT count(*) {_FOUND}", (match,)).fetchone()
    full = db.execute(f"SELECT m.message_id {_FOUND} ORDER BY i.rank, m.created_at DESC, m.id DESC LIMIT 10", (match,))
    hits = scroll.search(query, requester=Requester.operator()).hits
    return Compared(matches * words_in(query), [hit.message_id for hit in hits], [row[0] for row in full])


class Visible:
    """BM25 over the messages of one agent; `length` measures a text."""

    def __init__(self, db: sqlite3.Connection, length: Callable[[str], int]) -> None:
        self._db = db
        self._length = length
        lengths = [length(text) for (text,) in db.execute(_VISIBLE, (AGENT,))]
        self._messages, self._average = len(lengths), mean(lengths)

    def compared(self, scroll: Backscroll, query: str) -> Compared:
        """What one who sees this agent alone gets."""
        terms = [query.strip('"')] if query.startswith('"') else query.split()
        rows = self._found(expression(query))
        weights = []
        for term in terms:
            count = len(rows) if len(terms) == 1 else len(self._found(expression(f'"{term}"')))
            weights.append(math.log(1 + (self._messages - count + 0.5) / (count + 0.5)))
        scored = []
        for message_id, created_at, pk, text in rows:
            words = _WORD.findall(text.lower())
            counts = Counter(words) + Counter(f"{a} {b}" for a, b in pairwise(words))
            damped = 1.2 * (0.25 + 0.75 * self._length(text) / self._average)
            met = [(weight, counts[term]) for weight, term in zip(weights, terms, strict=True)]
            score = sum(weight * count * 2.2 / (count + damped) for weight, count in met)
            scored.append((score, created_at, pk, message_id))
        hits = scroll.search(query, requester=Requester(f"agent:{AGENT}:bench:reader")).hits
        best = [one[-1] for one in sorted(scored)[:-11:-1]]
        return Compared(len(rows) * words_in(query), [hit.message_id for hit in hits], best)

    def _found(self, match: str) -> list[tuple[str, int, int, str]]:
        statement = f"SELECT m.message_id, m.created_at, m.id, m.text {_FOUND} AND a.agent_id = ?"
        return self._db.execute(statement, (match, AGENT)).fetchall()


def told(scope: str, results: Iterable[Compared], bound: int) -> None:
    """Prints one line for the queries within the bound and one for each kind beyond it."""
    groups = {
        f"at most {bound:,}": lambda count: count <= bound,
        f"to {4 * bound:,}": lambda count: bound < count <= 4 * bound,
        "more": lambda count: count > 4 * bound,
    }
    found = [one for one in results if one.matches]
    for name, within in groups.items():
        if group := [one for one in found if within(one.matches)]:
            same = sum(one.bounded == one.full for one in group)
            shares = [one.overlap for one in group]
            print(f"| {scope} | {name} | {len(group)} | {same} | {mean(shares):.2f} | {min(shares):.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=100_000, help="size of the store")
    parser.add_argument("--reuse", type=Path, metavar="FOLDER", help="keep the filled store there, or take one kept")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="backscroll-bench-") as scratch:
        stores = Stores((asked.reuse or Path(scratch)) / str(asked.messages), [BackscrollDriver], "NORMAL")
        filled = stores.kept() or _filled(stores, asked.messages)
        report(stores.files[BackscrollDriver.name], filled.corpus)


def _filled(stores: Stores, messages: int) -> Filled:
    stores.forget()
    measuring = Measuring(stores.open(), time.perf_counter, 1)
    filled = fill(measuring, messages)
    measuring.drivers[0].close()
    stores.keep(filled)
    return filled


def report(file: Path, corpus: Corpus) -> None:
    """Prints the table."""
    settings = Settings(database_url=f"sqlite:///{file}")
    asked = queries(corpus)
    print("| the asker sees | matches | queries | the same ten in order | of the full ten, mean | least |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    with closing(sqlite3.connect(file)) as db, Backscroll.open(settings) as scroll:
        told("all", [for_all(db, scroll, query) for query in asked], settings.rank_bound)
        with Backscroll.open(settings.model_copy(update={"visibility": Visibility.AGENT})) as limited:
            for unit, length in {"words": lambda text: len(_WORD.findall(text)), "characters": len}.items():
                visible = Visible(db, length)
                compared = [visible.compared(limited, query) for query in asked]
                told(f"its agent; lengths in {unit}", compared, settings.rank_bound)


if __name__ == "__main__":
    main()
