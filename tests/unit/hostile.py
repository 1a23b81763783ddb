"""What the domain's tests share: text that is meant to break it, and a real FTS5 table with the index's tokenizer."""

import re
import sqlite3
import sys
import weakref
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from hypothesis import strategies as st

from backscroll.domain.analyzer import terms
from backscroll.domain.query import Match, Query
from backscroll.infrastructure.bodies import body, search_text
from backscroll.infrastructure.fts import match_expression

_REVISION = Path(__file__).parents[2] / "alembic" / "versions" / "0002_index.py"
_TOKENIZE = re.search(r'tokenize="[^"]+"', _REVISION.read_text(encoding="utf-8"))
assert _TOKENIZE is not None

WORDS = ["ferry", "Naxos", "it's", "main.py", "x:y", "AND", "NEAR", "50%", "a", "Straße", "İstanbul", "đường", "café"]
SPACELESS = "备份策略检查打合せがありますประชุมสำรองข้อมูลᄒ백업정책을ကြောင်ဘာသាខ្មែរລາວ𠀋"
COMBINING = (
    "\u0301\u0308\u0323\u0307\u0327\u0345\u064b\u0651\u05b7\u093f\u094d\u0bbe\u0e49\u3099\u309a\u20dd\ufe0f\U000e0100"
)
CHANGING = "ﬁßŉǅǄİıſKÅΣσςΐᾳᾼ½㍿ﷺｶﾞﾟﾊㄱﾡㅏ각\u1100\u1161\u11a8가\u11a8\u1112\u1161𝔘²①Ⅷ٣३ﾀﾞ\u0344\u0f73\u0958"
JOINERS = "\u200c\u200d\u200b\u2060\ufeff\u00ad\u034f\u0640\u200f\U0001f469\U0001f3fd\U0001f1ec\U0001f1f7\u2764"
MARKUP = "\"'()[]{}*^:+-.,/\\%#@&|~<>=_;!?$`\n\t\r \u00a0\u3000\x1f\x0b\x1c\x85\u2028"

LETTERS = "abAB12йёіїÄäéÉłŁøæþ"

CLUSTERS = [
    *"abc .备ǅй0",
    "e\u0301",
    "\r\n",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f44b\U0001f3fd",
    "\U0001f1ec\U0001f1f7",
    "1\ufe0f\u20e3",
    "\u1112\u1161\u11ab",
    "회",
    "น้ำ",
    "नि",
    "ﾊﾞ",
    "a" + "\u0323\u0301" * 9,
]
"""Each is one character to a reader, beside whichever of the others it stands."""

PIECES = st.one_of(
    st.sampled_from([*WORDS, *LETTERS, *MARKUP, *(" " * 12)]),
    st.sampled_from([*SPACELESS, *COMBINING, *CHANGING, *JOINERS]),
    st.characters(exclude_categories=["Cs", "Cn", "Co"], exclude_characters="\x00"),
)


def hostile_texts(max_pieces: int = 12) -> st.SearchStrategy[str]:
    """Storable text that mixes every kind of trouble."""
    return st.lists(PIECES, max_size=max_pieces).map("".join)


def any_strings(max_size: int = 30) -> st.SearchStrategy[str]:
    """Any Python string: NUL, lone surrogates and unassigned code points as well."""
    return st.text(st.characters(), max_size=max_size) | st.text(
        st.sampled_from("\x00\ud83d\ude00\udfff\x7f\x1f" + MARKUP + "ab评é"), max_size=max_size
    )


class Fts:
    """A table of FTS5 with the tokenizer of revision 0002, filled as the index is."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._db = sqlite3.connect(":memory:", isolation_level=None)
        # Tables are made in many places, some for a whole module: each closes with its last user.
        weakref.finalize(self, self._db.close)
        self._db.execute(f"CREATE VIRTUAL TABLE f USING fts5(body, scope, {_TOKENIZE[0]})")
        self._db.execute("CREATE VIRTUAL TABLE v USING fts5vocab(f, 'instance')")
        self.fill(texts)

    def fill(self, texts: Iterable[str]) -> None:
        """Makes these texts the only rows, numbered from 0, indexed as messages are."""
        self.fill_raw([body(text, search_text(text)) for text in texts])

    def fill_raw(self, bodies: Sequence[str]) -> None:
        """Makes these the only rows, as they are."""
        self._db.execute("BEGIN")
        self._db.execute("DELETE FROM f")
        rows = ((number, body, f"s{number} a{number % 2}") for number, body in enumerate(bodies))
        self._db.executemany("INSERT INTO f(rowid, body, scope) VALUES (?, ?, ?)", rows)
        self._db.execute("COMMIT")

    def tokens(self) -> dict[int, list[str]]:
        """The tokens that FTS5 made of each row's text."""
        found: dict[int, list[tuple[int, str]]] = defaultdict(list)
        for row, offset, term in self._db.execute("SELECT doc, offset, term FROM v WHERE col = 'body'"):
            found[row].append((offset, term))
        return {row: [term for _, term in sorted(pairs)] for row, pairs in found.items()}

    def ask(self, query: Query, scope: Iterable[str] = (), agents: Iterable[str] = ()) -> set[int]:
        """The rows that match."""
        rows = self._db.execute("SELECT rowid FROM f WHERE f MATCH ?", (match_expression(query, scope, agents),))
        return {row for (row,) in rows}

    def search(self, text: str, match: Match = Match.ALL) -> set[int]:
        """The rows that match what somebody typed."""
        return self.ask(Query.parse(text, match, 4_096))


def holds(words: Sequence[str], phrase: Sequence[str], *, as_prefix: bool = False) -> bool:
    """Whether the run `phrase` is in `words`, its last word as a beginning if `as_prefix`; slow and plain."""
    for start in range(len(words) - len(phrase) + 1):
        run = words[start : start + len(phrase)]
        if list(run[:-1]) == list(phrase[:-1]) and (
            run[-1].startswith(phrase[-1]) if as_prefix else run[-1] == phrase[-1]
        ):
            return True
    return False


def matches(text: str, query: Query) -> bool:
    """Whether `text` matches, by the words of the design alone."""
    words = terms(text)
    if query.match is Match.PREFIX:
        *whole, last = query.phrases
        return all(holds(words, phrase) for phrase in whole) and holds(words, last, as_prefix=True)
    found = [holds(words, phrase) for phrase in query.phrases]
    return any(found) if query.match is Match.ANY else all(found)


class Counted:
    """Counts the lines that run in the domain, as a measure of work that no busy machine changes."""

    def __enter__(self) -> "Counted":
        self.lines = 0
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: object, event: str, arg: object) -> object:
        self.lines += event == "line"
        return self._trace
