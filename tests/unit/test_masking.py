"""Secrets are replaced by one mask each, and every place of the text is known where it has moved to."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.domain.redaction import MASK, Span, masked, merged

SPANS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=6)
ORDERED = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda one: (min(one), max(one)))


def covered(spans: list[Span]) -> set[int]:
    return {index for start, end in spans for index in range(start, end)}


@settings(max_examples=100)
@given(SPANS)
def test_merged_spans_cover_the_same_characters_apart_and_in_order(spans: list[Span]) -> None:
    result = merged(spans)
    assert covered(result) == covered(spans)
    assert all(start < end for start, end in result)
    assert all(one[1] < other[0] for one, other in pairwise(result))
    assert merged(result) == merged(reversed(result)) == result


def test_touching_spans_are_one_and_empty_ones_none() -> None:
    assert merged([(3, 5), (1, 3), (7, 7), (9, 8), (5, 6)]) == [(1, 6)]
    assert merged([]) == []


@settings(max_examples=100)
@given(st.text("abc", max_size=20), st.lists(ORDERED, max_size=5))
def test_a_masked_text_is_the_text_with_each_run_of_secret_characters_replaced(text: str, spans: list[Span]) -> None:
    spans = [(start, min(end, len(text))) for start, end in spans]
    secret = covered(spans)
    right = ""
    for index, char in enumerate(text):
        if index not in secret:
            right += char
        elif index - 1 not in secret:
            right += MASK
    result = masked(text, spans)
    assert result.text == right
    assert result.changed == bool(secret)


@settings(max_examples=120)
@given(st.integers(0, 24), st.lists(ORDERED, max_size=5))
def test_a_place_moves_with_its_characters_or_into_their_mask(length: int, spans: list[Span]) -> None:
    spans = [(start, min(end, length)) for start, end in spans]
    secret = covered(spans)
    # Where each character of the text stands now: itself, or the mask that hides it.
    now: list[Span] = []
    at = 0
    for index in range(length):
        if index not in secret:
            now.append((at, at + 1))
            at += 1
        elif index - 1 in secret:
            now.append(now[-1])
        else:
            now.append((at, at + len(MASK)))
            at += len(MASK)
    result = masked("x" * length, spans)
    assert len(result.text) == at
    for start in range(length):
        for end in range(start + 1, length + 1):
            assert result.moved(start, end) == (now[start][0], now[end - 1][1])


def test_a_text_without_secrets_comes_back_as_it_is() -> None:
    result = masked("nothing here", [])
    assert (result.text, result.changed, result.moved(3, 7)) == ("nothing here", False, (3, 7))
    assert not masked("nothing here", [(4, 4)]).changed


def test_a_mask_tells_nothing_of_the_length_of_what_it_hides() -> None:
    assert masked("key=abc end", [(4, 7)]).text == masked("key=abcdefghijk end", [(4, 15)]).text
