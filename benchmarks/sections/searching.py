"""Searches, first page of ten, as each scope and kind of query asks for them."""

from itertools import cycle, pairwise

from figures import Figure, Row
from measuring import Measuring, compared
from stores import Filled
from systems.driver import Ask

AIMED_FROM = 1_000_000
"""Messages from which on the aims of searches hold: in a small store the fixed costs of a search weigh more."""
_PREFIX = "search: "


def searches(measuring: Measuring, filled: Filled) -> None:
    """Adds a row for each kind of search."""
    corpus = filled.corpus
    rare = corpus.words_in(6, 6)
    common = corpus.words_in(corpus.spoken * 0.2, 5)
    top = corpus.words_in(corpus.spoken, 4)
    chinese = corpus.chinese(6)
    like_chinese = [corpus.words_in(corpus.found_in[word], 1)[0] for word in chinese]
    aimed = filled.messages >= AIMED_FROM
    tenth = 10.0 if aimed else None

    rarest = _row(measuring, "a rare word", [Ask(word) for word in rare], 0.25 if aimed else None, same=True)
    _row(measuring, "a common word (in 20% of messages)", [Ask(word) for word in common], tenth)
    _row(measuring, "a phrase of common words", [Ask(f'"{a} {b}"') for a, b in pairwise(top)], tenth)
    _row(measuring, "two common words", [Ask(f"{a} {b}") for a, b in pairwise(common)], tenth)
    # As few matches as for a rare word: plain FTS5 has little to rank here.
    mixed = [Ask(f"{top[0]} {word}") for word in corpus.words_in(100, 6)]
    _row(measuring, "a common and a rare word", mixed, 0.25 if aimed else None)

    scoped = {
        "in one session": [Ask(a, session_key=key) for a, key in zip(cycle(common), filled.some[:6], strict=False)],
        "in a tree of about 20 sessions": [Ask(a, tree_of=key) for a, key in zip(cycle(common), filled.trees)],
        "in the largest tree": [Ask(word, tree_of=filled.large_tree) for word in common],
        "in one agent's sessions": [Ask(word, agent="research") for word in common],
        "by one that sees its agent alone": [Ask(word, own_agent="research") for word in common],
    }
    most = 10 * rarest.figures["sqlite3"].value if aimed else None
    for scope, asks in scoped.items():
        _row(measuring, f"a common word {scope}", asks, most=most)

    begun = [Ask(word[:4], prefix=True) for word in common if word[3:]]
    _row(measuring, "the beginning of a word", begun)
    _row(measuring, "a common word, newest first", [Ask(word, newest=True) for word in common])
    in_chinese = _row(measuring, "two Chinese characters", [Ask(word) for word in chinese])
    in_latin = _row(measuring, "a Latin word in as many messages", [Ask(word) for word in like_chinese])
    measuring.steady("two Chinese characters / the Latin word", in_latin, in_chinese, 1.5 if aimed else None)
    measuring.rows.append(_widest(measuring, 3.0 if aimed else None))


def _row(
    measuring: Measuring,
    what: str,
    asks: list[Ask],
    aim: float | None = None,
    *,
    most: float | None = None,
    same: bool = False,
) -> Row:
    for ask in asks:
        found = [driver.search(ask) for driver in measuring.drivers if driver.alike]
        few = same and len(found[0]) < 10
        if not all(found) or (few and any(set(one) != set(found[0]) for one in found)):
            raise SystemExit(f"the systems do not find the same: {what}, {ask}")
    return measuring.timed(_PREFIX + what, [lambda d, a=ask: d.search(a) for ask in asks], aim, most=most)


def _widest(measuring: Measuring, most: float | None) -> Row:
    """The largest 95th percentile of any search, as a multiple of its median."""
    rows = [row for row in measuring.rows if row.what.startswith(_PREFIX)]
    names = {name for row in rows for name in row.figures}
    widest = {
        name: max((one.p95 or 0) / one.value for row in rows if (one := row.figures.get(name)) is not None)
        for name in names
    }
    figures = {driver.name: Figure(widest[driver.name]) for driver in measuring.drivers if driver.name in widest}
    return Row("95th percentile of a search, in medians: the widest", "", figures, most=most, compared=False)


def grown(small: list[Row], large: list[Row], sizes: str, *, aimed: bool) -> list[Row]:
    """How much longer each search takes in the larger of two stores."""
    before = {row.what: row for row in small}
    return [
        compared(f"{row.what}: {sizes}", before[row.what], row, 2.0 if aimed else None)
        for row in large
        if row.what.startswith(_PREFIX)
    ]
