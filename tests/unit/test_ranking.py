"""BM25 over the visible messages: what it counts, and what moves a score."""

import math

from hypothesis import given
from hypothesis import strategies as st

from backscroll.domain.analyzer import tokens
from backscroll.domain.query import Match, Query
from backscroll.domain.ranking import _pattern, bm25

WORDS = st.sampled_from(["ferry", "Ferry", "ferryman", "naxos", "備份", "份", "café", "cafe\u0301", "a-b", "b"])
TEXTS = st.lists(WORDS, max_size=12).map(" ".join)


def query(text: str, match: Match = Match.ALL) -> Query:
    return Query.parse(text, match, 4096)


@given(text=TEXTS, words=st.lists(WORDS, min_size=1, max_size=3), match=st.sampled_from(list(Match)))
def test_a_phrase_is_counted_wherever_it_occurs(text: str, words: list[str], match: Match) -> None:
    from backscroll.domain.analyzer import fold

    asked = query(" ".join(words), match)
    places = asked.occurrences(list(tokens(text)))
    for number, phrase in enumerate(asked.phrases):
        prefix = match is Match.PREFIX and number == len(asked.phrases) - 1
        found = bool(_pattern(phrase, prefix=prefix).search(fold(text)))
        assert found == any(at == number for _, _, at in places)


def test_more_occurrences_in_the_same_length_score_higher() -> None:
    once, twice = bm25(query("ferry"), ["ferry xxxxx", "ferry ferry"], [2], 100)
    assert twice > once > 0


def test_the_same_occurrences_in_less_text_score_higher() -> None:
    short, long = bm25(query("ferry"), ["ferry now", "ferry " + "filler " * 40], [2], 100)
    assert short > long > 0


def test_a_rarer_word_weighs_more() -> None:
    common, rare = bm25(query("ferry naxos", Match.ANY), ["ferry xxx", "naxos xxx"], [90, 1], 100)
    assert rare > common


def test_counts_beyond_the_ceiling_weigh_as_the_ceiling() -> None:
    asked, texts = query("ferry naxos"), ["ferry naxos"]
    assert bm25(asked, texts, [100, 100], 100) == bm25(asked, texts, [100, 5000], 100)


@given(texts=st.lists(TEXTS, max_size=8), words=st.lists(WORDS, min_size=1, max_size=3))
def test_scores_are_finite_and_never_negative(texts: list[str], words: list[str]) -> None:
    asked = query(" ".join(words), Match.ANY)
    scores = bm25(asked, texts, [1] * len(asked.phrases), 10)
    assert len(scores) == len(texts)
    assert all(math.isfinite(score) and score >= 0 for score in scores)
