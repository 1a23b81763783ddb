"""An excerpt shows where the query's words meet, within its bound, cut between characters, and never a secret."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from backscroll.domain.analyzer import terms
from backscroll.domain.excerpts import Excerpt, excerpt
from backscroll.domain.occurrences import occurrences
from backscroll.domain.query import Match, Query
from backscroll.domain.redaction import MASK, Span, masked, merged
from tests.unit.hostile import CLUSTERS, WORDS, Counted, holds, hostile_texts

LONGEST = 300
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
QUERIES = st.lists(st.sampled_from(["a", "b", "ab", "a-b", "ferry", "备份", "é", "it's", "회"]), min_size=1, max_size=4)
MODES = st.sampled_from(list(Match))
SPANS = st.lists(st.tuples(st.integers(0, 80), st.integers(0, 80)), max_size=3)


def parsed(text: str, match: Match = Match.ALL) -> Query:
    return Query.parse(text, match, 4_096)


def shown(text: str, query: str, secrets: list[Span] | None = None, longest: int = LONGEST) -> Excerpt:
    return excerpt(text, parsed(query), secrets or [], longest)


def highlighted(one: Excerpt) -> list[str]:
    return [one.text[start:end] for start, end in one.highlights]


def core(one: Excerpt, text: str) -> str:
    """The excerpt without the marks of what was left out."""
    return one.text if one.text == text else one.text.removeprefix("…").removesuffix("…")


# Faults that people met elsewhere


def test_the_excerpt_is_where_the_words_meet() -> None:
    text = "lease " + "filler " * 400 + "the lease of the blue flat ends in May"
    found = shown(text, "blue lease")
    assert "the lease of the blue flat" in found.text
    assert highlighted(found) == ["lease", "blue"]
    assert len(found.text) <= LONGEST


@pytest.mark.parametrize("beside", ["", FAMILY])
def test_endless_words_are_bounded_in_characters(beside: str) -> None:
    found = shown("a" * 200_000 + f" {beside}needle{beside} " + "b" * 200_000, "needle")
    assert f" {beside}needle{beside} " in found.text
    assert highlighted(found) == ["needle"]
    assert 200 < len(found.text) <= LONGEST


def test_family_emoji_are_left_whole() -> None:
    found = shown(FAMILY * 20_000 + "needle" + FAMILY * 20_000, "needle")
    assert set(found.text.replace(FAMILY, "")) == set("…needle")
    assert len(found.text) > 250


def test_places_are_those_of_the_original_text() -> None:
    found = shown("İ" * 300 + " needle tail", "needle")
    assert "needle tail" in found.text
    assert highlighted(found) == ["needle"]


def test_what_follows_a_replaced_nul_is_not_lost() -> None:
    found = shown("\ufffd" * 10_000 + "beta gamma", "beta")
    assert found.text.endswith("beta gamma")
    assert highlighted(found) == ["beta"]


# Bounds


@settings(max_examples=100)
@given(
    hostile_texts(40), QUERIES, MODES, st.integers(16, 60), st.lists(st.tuples(*[st.integers(0, 80)] * 2), max_size=3)
)
def test_an_excerpt_is_within_its_bound_and_its_highlights_within_it(
    text: str, words: list[str], match: Match, longest: int, secrets: list[Span]
) -> None:
    text = text + " ".join(words) + text
    secrets = [(start, min(end, len(text))) for start, end in secrets]
    found = excerpt(text, parsed(" ".join(words), match), secrets, longest)
    assert len(found.text) <= longest
    assert core(found, text) in masked(text, secrets).text
    assert list(found.highlights) == merged(found.highlights)
    assert all(0 <= start < end <= len(found.text) for start, end in found.highlights)
    if len(masked(text, secrets).text) <= longest:
        assert found.text == masked(text, secrets).text


@given(st.text("ab ", max_size=60), st.integers(16, 40))
def test_a_text_without_any_of_the_words_is_shown_from_its_beginning(text: str, longest: int) -> None:
    found = shown(text, "needle", longest=longest)
    assert found.highlights == ()
    assert text.startswith(core(found, text))
    assert len(found.text) >= min(len(text), longest - 26)


@settings(max_examples=120)
@given(st.integers(0, 500), st.integers(0, 500), st.integers(16, 300))
def test_what_is_left_out_is_marked_and_the_room_is_used(before: int, after: int, longest: int) -> None:
    text = "x " * before + "needle" + " y" * after
    found = shown(text, "needle", longest=longest)
    inside = core(found, text)
    assert found.text == ("" if text.startswith(inside) else "…") + inside + ("" if text.endswith(inside) else "…")
    assert highlighted(found) == ["needle"]
    assert len(found.text) >= min(len(text), longest - 6)


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from(CLUSTERS), min_size=20, max_size=60),
    st.sampled_from(["needle", "备份", "회", "é"]),
    st.integers(40, 60),
)
def test_an_excerpt_never_cuts_what_a_reader_takes_for_a_character(
    clusters: list[str], word: str, longest: int
) -> None:
    middle = len(clusters) // 2
    clusters = [*clusters[:middle], " ", *word, " ", *clusters[middle:]]
    text = "".join(clusters)
    places = {0}
    for cluster in clusters:
        places.add(max(places) + len(cluster))
    found = shown(text, word, longest=longest)
    inside = core(found, text)
    assert any(text.startswith(inside, place) and place + len(inside) in places for place in places)
    assert found.highlights


# The best place


def most_phrases(text: str, query: Query, room: int) -> int:
    """How many different phrases any `room` characters of `text` hold, by trying all."""
    found = occurrences(query, text)
    return max(
        (
            len({number for start, end, number in found if first <= start and end <= first + room})
            for first in range(len(text) + 1)
        ),
        default=0,
    )


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from(["a", "b", "cc", "ddd", "a b cc", "cc ddd a b ddd", "--------"]), max_size=24).map(
        " ".join
    ),
    st.lists(st.sampled_from(["a", "b", "cc", "a-b", "a-b-cc", "cc-ddd-a-b-ddd", "ddd-a-b"]), min_size=1, max_size=5),
    st.sampled_from([Match.ALL, Match.ANY]),
    st.integers(16, 32),
)
def test_an_excerpt_holds_as_many_phrases_as_any_place_can(
    text: str, words: list[str], match: Match, longest: int
) -> None:
    query = parsed(" ".join(words), match)
    found = excerpt(text, query, [], longest)
    inside = terms(core(found, text))
    assert sum(holds(inside, phrase) for phrase in query.phrases) >= most_phrases(text, query, longest - 2)


def test_a_short_phrase_inside_a_long_one_does_not_draw_the_excerpt_to_its_beginning() -> None:
    long = " ".join(f"word{number}" for number in range(30))
    found = shown("x " * 300 + long + " y" * 300, f'word5 "{long}"')
    assert long in found.text
    assert highlighted(found) == [long]


def test_of_equal_places_the_closest_words_win_and_then_the_first() -> None:
    far, near = "blue " + "x " * 60 + "lease ", "blue lease "
    gap = "y " * 200
    assert "y blue lease y" in shown(gap + far + gap + near + gap, "lease blue").text
    found = shown(gap + "one " + near + gap + "two " + near + gap, "lease blue")
    assert "one blue lease" in found.text
    assert "two" not in found.text


def test_a_phrase_longer_than_the_excerpt_is_shown_from_its_beginning() -> None:
    phrase = " ".join(f"word{number}" for number in range(100))
    found = shown("before " * 50 + phrase + " after" * 50, f'"{phrase}"')
    assert found.text.startswith("…word0 word1")
    assert len(found.text) <= LONGEST
    assert highlighted(found) == [found.text.strip("…")]


# Highlights


@settings(max_examples=100)
@given(st.lists(st.sampled_from(["a b", "备份", "ab", *WORDS[:3]]), max_size=40).map(" ".join), QUERIES, MODES)
def test_every_highlight_is_made_of_whole_occurrences(text: str, words: list[str], match: Match) -> None:
    query = parsed(" ".join(words), match)
    found = excerpt(text, query, [], 40)
    for piece in highlighted(found):
        met = occurrences(query, piece)
        assert merged((start, end) for start, end, _ in met) == [(0, len(piece))], (piece, query)


@settings(max_examples=100)
@given(st.lists(st.sampled_from(["a", "b", "ab", "ba", "-"]), max_size=30).map(" ".join), QUERIES)
def test_every_occurrence_in_the_excerpt_is_highlighted(text: str, words: list[str]) -> None:
    query = parsed(" ".join(words))
    found = excerpt(text, query, [], 40)
    marked = {index for start, end in found.highlights for index in range(start, end)}
    for start, end, _ in occurrences(query, found.text):
        assert marked.issuperset(range(start, end))


def test_an_occurrence_that_is_cut_off_is_not_highlighted() -> None:
    for longest in range(20, 60):
        assert set(highlighted(shown("new york " * 100, '"new york"', longest=longest))) == {"new york"}


def test_highlights_fold_to_the_words_asked_for() -> None:
    text = "x " * 200 + "Die STRASSE cafe\u0301 备份策略 it's " + "y " * 200
    found = shown(text, "straße café 份策 it's")
    assert highlighted(found) == ["STRASSE", "cafe\u0301", "份策", "it's"]


@given(hostile_texts(30), hostile_texts(2), MODES)
def test_what_matched_is_highlighted(text: str, typed: str, match: Match) -> None:
    assume(terms(typed) and len(text) <= 400)
    query = parsed(typed, match)
    met = occurrences(query, text)
    found = excerpt(text, query, [], 400)
    assert list(found.highlights) == merged((start, end) for start, end, _ in met)


# Secrets

SECRET = "ᎠᎡᎢᎣ"
SEGMENTS = st.lists(
    st.tuples(st.booleans(), st.sampled_from(["a", "b ", " ", "a b", "备份", "é", "-", "ferry "])),
    min_size=1,
    max_size=40,
)


@settings(max_examples=120)
@given(SEGMENTS, st.lists(st.sampled_from(["a", "b", "备份", *SECRET, "ᎠᎡ"]), min_size=1, max_size=4), MODES, st.data())
def test_no_character_of_a_secret_ever_shows(
    segments: list[tuple[bool, str]], words: list[str], match: Match, data: st.DataObject
) -> None:
    text, secrets = "", []
    for hidden, piece in segments:
        inside = "".join(SECRET[(len(text) + at) % 4] if char.isalnum() else char for at, char in enumerate(piece))
        if hidden:
            start = max(len(text) - data.draw(st.integers(0, 3)), 0)
            secrets.append((start, len(text) + len(inside)))
        text += inside if hidden else piece
    found = excerpt(
        text, parsed(" ".join(words), match), data.draw(st.permutations(secrets)), data.draw(st.integers(16, 60))
    )
    assert not set(SECRET) & set(found.text)
    assert all(0 <= start < end <= len(found.text) for start, end in found.highlights)


def test_a_match_inside_a_secret_highlights_its_mask() -> None:
    text = "x " * 200 + "key=hunter2secret end " + "y " * 200
    start = text.index("hunter2")
    found = shown(text, "hunter2secret", [(start, start + 13)])
    assert f"key={MASK} end" in found.text
    assert highlighted(found) == [MASK]


def test_the_bound_holds_for_the_masked_text() -> None:
    text = "s" * 100_000 + " needle"
    assert shown(text, "needle", [(0, 100_000)]).text == f"{MASK} needle"
    assert len(shown("s " * 1_000 + "needle", "needle", [(at, at + 1) for at in range(0, 2_000, 2)]).text) <= LONGEST


# Work


@pytest.mark.parametrize(
    ("piece", "query"),
    [("a ", "a"), ("a b ", "a b a-b"), ("哈", "哈 哈哈 哈哈哈"), ("a é ", "é-a a-é"), ("ab ", "ab")],
)
def test_work_grows_with_the_text_and_no_faster(piece: str, query: str) -> None:
    work = []
    for count in (1_000, 4_000):
        text = piece * (count * 2 // len(piece))
        with Counted() as counted:
            found = shown(text, query)
        assert len(found.text) <= LONGEST
        work.append(counted.lines)
    assert work[1] < 4.5 * work[0]


def test_fifty_thousand_matches_take_no_more_than_some_steps_each() -> None:
    text = "match " * 50_000
    with Counted() as counted:
        found = shown(text, "match")
    assert len(highlighted(found)) > 40
    assert counted.lines < 50 * 50_000


def test_the_words_meet_in_a_text_full_of_one_of_them() -> None:
    text = "lease " * 30_000 + "blue lease " + "lease " * 20_000
    assert "blue" in highlighted(shown(text, "lease blue"))
