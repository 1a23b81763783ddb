"""Text is cut between what a reader takes for characters, and within its bound."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.domain.graphemes import boundary_after, boundary_before, cut
from tests.unit.hostile import CLUSTERS, hostile_texts

TEXTS = st.lists(st.sampled_from(CLUSTERS), max_size=30)


def ends(clusters: list[str]) -> list[int]:
    places = [0]
    for cluster in clusters:
        places.append(places[-1] + len(cluster))
    return places


@settings(max_examples=100)
@given(TEXTS, st.integers(-5, 400))
def test_a_boundary_is_the_nearest_one_between_characters(clusters: list[str], index: int) -> None:
    text, places = "".join(clusters), ends(clusters)
    before, after = boundary_before(text, index), boundary_after(text, index)
    assert before == max((place for place in places if place <= index), default=0)
    assert after == min((place for place in places if place >= index), default=len(text))


@settings(max_examples=100)
@given(TEXTS, st.integers(0, 80), st.sampled_from(["…", "", "[cut]"]))
def test_a_cut_text_is_whole_characters_within_the_bound(clusters: list[str], longest: int, mark: str) -> None:
    text, places = "".join(clusters), ends(clusters)
    short = cut(text, longest, mark)
    assert len(short) <= longest
    if len(text) <= longest:
        assert short == text
    elif longest >= len(mark):
        assert short.endswith(mark)
        kept = len(short) - len(mark)
        assert text[:kept] + mark == short
        assert kept == max(place for place in places if place <= longest - len(mark))


@given(hostile_texts(30), st.integers(-3, 60))
def test_any_text_is_cut_within_the_bound(text: str, longest: int) -> None:
    assert len(cut(text, longest)) <= max(longest, 0) or len(text) <= longest
    assert cut(text, len(text)) == text
    for index in range(-2, len(text) + 3):
        assert 0 <= boundary_before(text, index) <= max(index, 0)
        assert max(min(index, len(text)), 0) <= boundary_after(text, index) <= len(text)


@pytest.mark.parametrize(
    "cluster",
    [
        "e\u0301",
        "\r\n",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
        "\U0001f469\U0001f3fd\u200d\U0001f4bb",
        "\u2764\ufe0f\u200d\U0001f525",
        "\U0001f1ec\U0001f1f7",
        "1\ufe0f\u20e3",
        "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
        "각",
        "\u1100\u1161\u11a8",
        "\u1100\u1100\u1161",
        "\u1100가\u11a8",
        "\ua960\u1161\ud7cb",
        "น้ำ",
        "ກຳ",
        "कि",
        "ক্\u200c",
        "நி",
        "ﾊﾞ",
        "q\u0301\u0308\u0323",
        "葛\U000e0100",
    ],
)
def test_what_a_reader_takes_for_one_character_is_not_cut(cluster: str) -> None:
    text = f"a{cluster}b"
    for index in range(1, len(cluster) + 1):
        assert boundary_before(text, index) == 1
    for index in range(2, len(cluster) + 2):
        assert boundary_after(text, index) == len(cluster) + 1
    assert cut(text * 9, len(cluster) + 1) == "a…"


def test_flags_stay_in_pairs_however_many_there_are() -> None:
    flags = "\U0001f1ec\U0001f1f7" * 40
    assert [boundary_before("x" + flags, index) for index in range(1, 8)] == [1, 1, 3, 3, 5, 5, 7]
    assert [boundary_after(flags, index) for index in range(6)] == [0, 2, 2, 4, 4, 6]


def test_a_heap_of_marks_that_no_writing_has_is_cut_all_the_same() -> None:
    heap = "e" + "\u0301" * 10_000
    assert len(cut(heap, 300)) == 300
    assert boundary_before(heap, 5_000) == 5_000
    assert boundary_after(heap, 5_000) == 5_064
    assert cut(heap, 40) == "…"


def test_every_mark_stays_with_what_precedes_it() -> None:
    marks = [char for code in range(0x110000) if unicodedata.category(char := chr(code))[0] == "M"]
    assert len(marks) > 2_000
    assert [mark for mark in marks if boundary_before(f"a{mark}b", 1) != 0 or boundary_after(f"a{mark}b", 1) != 2] == []
