"""BM25: what it counts, and what moves a score."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backscroll.domain import occurrences as occurrences_module
from backscroll.domain.analyzer import tokens
from backscroll.domain.occurrences import occurrences, phrases_of
from backscroll.domain.query import Match, Query
from backscroll.domain.ranking import Ranked, bm25, capped_weight, weight
from backscroll.infrastructure import bodies
from tests.unit.hostile import hostile_texts

MATCHES = st.sampled_from(list(Match))
PLAIN = ["ferry", "Ferry", "ferryman", "naxos", "a-b", "b"]
FOLDED = ["備份", "份", "café", "cafe\u0301", "Ñu", "…", "Łódź", "lodz", "ΟΔΟΣ", "οδος"]
WORDS = st.sampled_from([*PLAIN, *FOLDED])
ASKED = st.lists(WORDS.filter(str.isalpha), min_size=1, max_size=3)
TEXTS = st.lists(WORDS, max_size=12).map(" ".join)


def query(text: str, match: Match = Match.ALL) -> Query:
    return Query.parse(text, match, 4096)


def folded(text: str) -> str | None:
    return bodies.folded(text, bodies.search_text(text))


def counted(asked: Query, text: str) -> list[int]:
    return [count for (count,) in phrases_of(asked).counts([text], [folded(text)])]


def ranked(*texts: str) -> list[Ranked]:
    return [Ranked(text, folded(text), len(text.split())) for text in texts]


def scores(asked: Query, *texts: str) -> list[float]:
    return bm25(asked, ranked(*texts), [1.0] * len(asked.phrases), 2.0)


@given(text=TEXTS, words=ASKED, match=st.sampled_from(list(Match)))
def test_a_phrase_is_counted_wherever_it_occurs(text: str, words: list[str], match: Match) -> None:
    asked = query(" ".join(words), match)
    places = [number for _, _, number in occurrences(asked, text)]
    assert counted(asked, text) == [places.count(number) for number in range(len(asked.phrases))]


@given(text=TEXTS, match=st.sampled_from(list(Match)))
def test_many_phrases_are_counted_like_few(text: str, match: Match) -> None:
    few = query("ferry b 備份 café", match)
    many = query(" ".join([*(f"x{number}" for number in range(40)), "ferry b 備份 café"]), match)
    assert counted(many, text) == [0] * 40 + counted(few, text)


@given(
    text=hostile_texts(40),
    words=st.lists(st.sampled_from(["a", "b", "ab", "ss", "备", "é", "회"]), min_size=1),
    match=MATCHES,
)
def test_a_few_phrases_stand_where_many_would(text: str, words: list[str], match: Match) -> None:
    few = query(" ".join(words), match)
    among = occurrences_module._among(few, list(tokens(text)))
    assert occurrences(few, text) == sorted(among)


def test_more_occurrences_in_the_same_length_score_higher() -> None:
    once, twice = scores(query("ferry"), "ferry xxxxx", "ferry ferry")
    assert twice > once > 0


def test_the_same_occurrences_in_less_text_score_higher() -> None:
    short, long = scores(query("ferry"), "ferry now", "ferry " + "filler " * 40)
    assert short > long > 0


@pytest.mark.parametrize("weigh", [weight, capped_weight])
def test_a_rarer_word_weighs_more_and_none_weighs_nothing(weigh) -> None:
    weights = [weigh(100, count) for count in (1, 10, 30, 99, 100)]
    assert weights == sorted(weights, reverse=True)
    assert min(weights) > 0


def test_counts_beyond_the_ceiling_weigh_as_the_ceiling() -> None:
    assert capped_weight(100, 100) == capped_weight(100, 5_000)


def test_a_count_beyond_a_total_that_is_wrong_still_weighs() -> None:
    assert weight(0, 5) == weight(3, 5) > 0


@given(texts=st.lists(TEXTS, max_size=8), words=ASKED)
def test_scores_are_finite_and_never_negative(texts: list[str], words: list[str]) -> None:
    found = scores(query(" ".join(words), Match.ANY), *texts)
    assert len(found) == len(texts)
    assert all(math.isfinite(score) and score >= 0 for score in found)
