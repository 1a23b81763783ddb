"""Searches, first page of ten, as each scope and kind of query asks for them."""

from itertools import cycle, pairwise

from figures import Figure, Row
from measuring import Job, Measuring, compared
from stores import Filled
from systems.driver import Ask

AIMED_FROM = 1_000_000
"""Messages from which on the aims of searches hold: in a small store the fixed costs of a search weigh more."""
_PREFIX = "search: "


def searches(measuring: Measuring, filled: Filled) -> list[Row]:
    """Adds a row for each kind of search; returns the same searches' times with each system by itself."""
    corpus = filled.corpus
    rare = corpus.words_in(6, 6)
    common = corpus.words_in(corpus.spoken * 0.2, 5)
    top = corpus.words_in(corpus.spoken, 4)
    chinese = corpus.chinese(6)
    like_chinese = [corpus.words_in(corpus.found_in[word], 1)[0] for word in chinese]
    aimed = filled.messages >= AIMED_FROM
    tenth = 10.0 if aimed else None

    alone: list[Row] = []

    def row(
        what: str, asks: list[Ask], aim: float | None = None, *, most: float | None = None, same: bool = False
    ) -> Row:
        _must_agree(measuring, what, asks, same=same)
        jobs: list[Job] = [lambda d, a=ask: d.search(a) for ask in asks]
        in_turns = measuring.timed(_PREFIX + what, jobs, aim, most=most)
        alone.append(measuring.by_itself(_PREFIX + what, jobs))
        return in_turns

    rarest = row("a rare word", [Ask(word) for word in rare], 0.25 if aimed else None, same=True)
    row("a common word (in 20% of messages)", [Ask(word) for word in common], tenth)
    row("a phrase of common words", [Ask(f'"{a} {b}"') for a, b in pairwise(top)], tenth)
    row("two common words", [Ask(f"{a} {b}") for a, b in pairwise(common)], tenth)
    # As few matches as for a rare word: plain FTS5 has little to rank here.
    mixed = [Ask(f"{top[0]} {word}") for word in corpus.words_in(100, 6)]
    row("a common and a rare word", mixed, 0.25 if aimed else None)

    scoped = {
        "in one session": [Ask(a, session_key=key) for a, key in zip(cycle(common), filled.some[:6], strict=False)],
        "in a tree of about 20 sessions": [Ask(a, tree_of=key) for a, key in zip(cycle(common), filled.trees)],
        "in the largest tree": [Ask(word, tree_of=filled.large_tree) for word in common],
        "in one agent's sessions": [Ask(word, agent="research") for word in common],
        "by one that sees its agent alone": [Ask(word, own_agent="research") for word in common],
    }
    most = 10 * rarest.figures["sqlite3"].value if aimed else None
    for scope, asks in scoped.items():
        row(f"a common word {scope}", asks, most=most)

    begun = [Ask(word[:4], prefix=True) for word in common if word[3:]]
    row("the beginning of a word", begun)
    row("a common word, newest first", [Ask(word, newest=True) for word in common])
    in_chinese = row("two Chinese characters", [Ask(word) for word in chinese])
    in_latin = row("a Latin word in as many messages", [Ask(word) for word in like_chinese])
    measuring.steady("two Chinese characters / the Latin word", in_latin, in_chinese, 1.5 if aimed else None)
    measuring.rows.append(_widest(measuring, 3.0 if aimed else None))
    return alone


def _must_agree(measuring: Measuring, what: str, asks: list[Ask], *, same: bool) -> None:
    """Ends the run when a search finds nothing, or not the same in all systems where there is little to find."""
    for ask in asks:
        found = [driver.search(ask) for driver in measuring.drivers if driver.alike]
        few = same and len(found[0]) < 10
        if not all(found) or (few and any(set(one) != set(found[0]) for one in found)):
            raise SystemExit(f"the systems do not find the same: {what}, {ask}")


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
    return [compared(f"{row.what}: {sizes}", before[row.what], row, 2.0 if aimed else None) for row in large]
