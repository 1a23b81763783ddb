"""A query means the words in it and nothing else, whatever was typed; FTS5 and `occurrences` agree on what matches."""

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from backscroll.domain.analyzer import terms, tokens
from backscroll.domain.errors import EmptyQuery, InvalidRequest
from backscroll.domain.occurrences import occurrences
from backscroll.domain.query import Match, Query
from backscroll.domain.text import storable
from tests.unit.hostile import PIECES, Counted, Fts, any_strings, holds, hostile_texts, matches

LONGEST = 4_096
FTS = Fts()
MODES = st.sampled_from(list(Match))


def parsed(text: object, match: Match = Match.ALL) -> Query:
    return Query.parse(text, match, LONGEST)


def places(text: str, query: Query) -> list[tuple[str, int]]:
    return [(text[start:end], number) for start, end, number in occurrences(query, text)]


# What is typed and what it means

SENTENCE = "it's in src/app-main.py: DO NOT TOUCH, see #42, mail ops@example.org (50% done)"
FOUND_BY = ["it's", "src/app-main.py", "app-main", "DO NOT TOUCH", "#42", "ops@example.org", "50%", "main.py:"]


@pytest.mark.parametrize("match", list(Match))
@pytest.mark.parametrize("query", [*FOUND_BY, "(50% done)", "touch do", "NOT", '"do not touch', "mail* ^see", "-done"])
def test_words_with_punctuation_find_what_holds_them(query: str, match: Match) -> None:
    FTS.fill([SENTENCE, "something else"])
    assert FTS.search(query, match) == {0}


@pytest.mark.parametrize(
    "query", ["NEAR", "C:\\x", "touch AND go", "see NOT 42 OR", "app py-main", '"not do"', "op*", "body : mail", "s0"]
)
def test_operators_are_words_that_must_be_there(query: str) -> None:
    FTS.fill([SENTENCE, "something else"])
    assert FTS.search(query) == set()


@pytest.mark.parametrize(
    "query", ["", " ", '"', '""', '" "', "---", "\x00", "\ud83d", "🙂", "(*) : ^ -", "\u200b", "ـ"]
)
@pytest.mark.parametrize("match", list(Match))
def test_a_query_without_a_word_is_a_typed_error(query: str, match: Match) -> None:
    with pytest.raises(EmptyQuery):
        parsed(query, match)


@pytest.mark.parametrize("query", ["word\n" * 1_200, "x" * 4_097, " " * 4_097])
def test_a_query_over_its_bound_is_a_typed_error_that_names_the_bound(query: str) -> None:
    with pytest.raises(InvalidRequest, match=r"query has \d+ characters; at most 4096") as raised:
        parsed(query)
    assert not isinstance(raised.value, EmptyQuery)


@pytest.mark.parametrize("query", [None, 7, b"word", ["word"], object()])
def test_a_query_that_is_no_string_is_a_typed_error(query: object) -> None:
    with pytest.raises(InvalidRequest, match="query must be a string"):
        parsed(query)


def test_a_pasted_paragraph_with_newlines_is_its_words() -> None:
    paragraph = "\n".join(f"line {number}: it's (part-{number}) of 'it'" for number in range(100))
    FTS.fill([paragraph, paragraph.replace("99", "98")])
    assert FTS.search(paragraph) == {0}


@pytest.mark.parametrize("query", ["beta", "gamma", "alpha", '"beta gamma"', 'a" OR "b\x00', "alp\x00ha"])
def test_a_nul_parts_words_in_text_and_query(query: str) -> None:
    FTS.fill([storable("alpha\x00beta gamma"), storable("\x00" * 10_000 + "delta"), "alp ha a or b"])
    assert FTS.search(query) == ({2} if "\x00" in query else {0})


def test_a_lone_surrogate_parts_words() -> None:
    FTS.fill([storable("before\ud83dafter"), "\U0001f600 smile"])
    assert FTS.search("\udc00after") == {0}
    assert FTS.search("before\ud83dafter") == {0}
    assert FTS.search("\U0001f600 smile") == {1}


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("one two", [("one",), ("two",)]),
        ("two one two", [("two",), ("one",)]),
        ('"one two" three', [("one", "two"), ("three",)]),
        ('one"two three"four', [("one",), ("two", "three"), ("four",)]),
        ('"one two', [("one",), ("two",)]),
        ('one "" "two"', [("one",), ("two",)]),
        ('"a "b" c"', [("a",), ("b",), ("c",)]),
        ("One ONE öne", [("one",)]),
        ("x:y y-x", [("x", "y"), ("y", "x")]),
        ("“one two”", [("one",), ("two",)]),
        ("备份 策略", [("备", "份"), ("策", "略")]),
        ("one\u00a0two\u3000three", [("one",), ("two",), ("three",)]),
        ("* - one +", [("one",)]),
    ],
)
def test_words_part_at_white_space_and_quotes_make_phrases(text: str, phrases: list[tuple[str, ...]]) -> None:
    assert list(parsed(text).phrases) == phrases


def test_the_last_word_is_the_one_completed_also_when_it_stands_earlier_too() -> None:
    assert parsed("fer na fer", Match.PREFIX).phrases == (("na",), ("fer",))
    assert parsed("na fer -", Match.PREFIX).phrases == (("na",), ("fer",))
    FTS.fill(["ferry to Naxos", "fer na", "na ferries"])
    assert FTS.search("fer na fer", Match.PREFIX) == {1, 2}
    assert FTS.search("ferry-to na", Match.PREFIX) == {0}
    assert FTS.search("ferry-t", Match.PREFIX) == {0}
    assert FTS.search("ferr-to", Match.PREFIX) == set()


# Never an engine error, never another meaning


@settings(max_examples=100)
@given(any_strings(), MODES)
def test_any_string_is_a_query_that_the_engine_understands_or_a_typed_error(text: str, match: Match) -> None:
    FTS.fill(["it's a \ufffd b"])
    try:
        FTS.search(text, match)
    except EmptyQuery:
        assert terms(storable(text)) == ()
    else:
        assert terms(storable(text)) != ()


SYNTAX = st.sampled_from(
    ['"', "AND", "OR", "NOT", "NEAR(", "NEAR/2", "*", "^", "body", ":", "{body}", "-", "+", "(", ")"]
)


@settings(max_examples=100)
@given(st.lists(st.sampled_from(["a", "b", "ab", "a-b", "and", "評價", "é"]) | SYNTAX, max_size=8), MODES, st.data())
def test_what_looks_like_syntax_is_words_or_nothing(pieces: list[str], match: Match, data: st.DataObject) -> None:
    texts = [" ".join(data.draw(st.permutations(pieces))), "ab not a-b and near 2", "価評價é or body", "a b"]
    FTS.fill(texts)
    text = " ".join(pieces)
    assume(terms(text))
    query = parsed(text, match)
    assert FTS.ask(query) == {row for row, one in enumerate(texts) if matches(one, query)}
    assert {phrase for one in query.phrases for phrase in one} == set(terms(text))


@settings(max_examples=100)
@given(st.lists(hostile_texts(10), min_size=1, max_size=4), st.lists(PIECES, max_size=4), MODES, st.data())
def test_fts5_finds_what_the_rule_says(texts: list[str], noise: list[str], match: Match, data: st.DataObject) -> None:
    source = data.draw(st.sampled_from(texts))
    start = data.draw(st.integers(0, len(source)))
    typed = source[start : start + data.draw(st.integers(1, 10))] + " ".join(["", *noise])
    assume(terms(typed))
    query = parsed(typed, match)
    FTS.fill(texts)
    found = FTS.ask(query)
    assert found == {row for row, text in enumerate(texts) if matches(text, query)}
    # And what is highlighted is what made it match.
    for row, text in enumerate(texts):
        met = {number for _, _, number in occurrences(query, text)}
        assert (row in found) == (bool(met) if match is Match.ANY else met == set(range(len(query.phrases))))


@pytest.mark.parametrize("match", list(Match))
def test_as_many_words_as_a_query_can_hold_are_answered(match: Match) -> None:
    han = [chr(0x4E00 + number) for number in range(2_048)]
    assert len(parsed(" ".join(han), match).phrases) == 2_048
    FTS.fill(["".join(han), "".join(han[:-1]), " ".join(reversed(han)), "ferry"])
    some = {0, 1, 2} if match is Match.ANY else {0, 2}
    assert FTS.search(" ".join(han), match) == some
    assert FTS.ask(parsed(" ".join(han), match), [f"s{row}" for row in range(64)], ["a0", "a1"]) == some
    assert FTS.search("".join(han), match) == {0}


HAN = "".join(chr(0x4E00 + number) for number in range(4_096))


@pytest.mark.parametrize("match", list(Match))
@pytest.mark.parametrize("word", [HAN, "x" * 4_096, "ΐ" * 4_096, "ﷲ" * 4_096])
def test_the_longest_phrases_and_words_are_found(word: str, match: Match) -> None:
    FTS.fill([f"before {word} after", "ferry", word[:-1]])
    assert FTS.search(word, match) == {0}


@pytest.mark.parametrize("match", list(Match))
@pytest.mark.parametrize("char", ["㍿", "ﷺ", "𠀋", "a-", '"', '"a', 'a"', "\ud800a"])
def test_the_longest_queries_are_answered(char: str, match: Match) -> None:
    FTS.fill(["ferry"])
    found = {0} if match is Match.ANY or not terms(char) else set()
    assert FTS.search("ferry " + char * (4_090 // len(char)), match) == found


@pytest.mark.parametrize("match", list(Match))
def test_words_of_a_query_never_match_the_scope_and_narrowing_never_matches_the_text(match: Match) -> None:
    FTS.fill(["s1 a1 ferry", "ferry", "ferry"])
    assert FTS.search("s1", match) == {0}
    assert FTS.ask(parsed("ferry", match)) == {0, 1, 2}
    assert FTS.ask(parsed("ferry", match), ["s1", "s2"]) == {1, 2}
    assert FTS.ask(parsed("ferry", match), ["s0", "s1"], ["a1"]) == {1}
    assert FTS.ask(parsed("nothing ferry", match), ["s1"]) == ({1} if match is Match.ANY else set())


# Occurrences


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from(["a", "b", "ab", "aba", "-"]), max_size=14).map(" ".join),
    st.lists(st.sampled_from(["a", "b", "ab", "a-b", "a-a", "b-a-b", "ab-a"]), min_size=1, max_size=5).map(" ".join),
    MODES,
)
def test_occurrences_are_all_the_places_where_the_phrases_stand(text: str, typed: str, match: Match) -> None:
    query = parsed(typed, match)
    words = list(tokens(text))
    right = []
    for start in range(len(words)):
        for number, phrase in enumerate(query.phrases):
            run = [token.text for token in words[start : start + len(phrase)]]
            last = match is Match.PREFIX and number == len(query.phrases) - 1
            if len(run) == len(phrase) and holds(run, phrase, as_prefix=last):
                right.append((words[start].start, words[start + len(phrase) - 1].end, number))
    found = occurrences(query, text)
    assert sorted(found) == sorted(right)
    assert [one[0] for one in found] == sorted(one[0] for one in found)


@given(hostile_texts(12), hostile_texts(3), MODES)
@example("a½b", "1", Match.ALL)
def test_occurrences_lie_in_the_text_in_order(text: str, typed: str, match: Match) -> None:
    assume(terms(typed))
    found = occurrences(parsed(typed, match), text + typed)
    assert found or terms(text + typed) != terms(text) + terms(typed)
    assert all(0 <= start < end <= len(text + typed) for start, end, _ in found)
    assert [start for start, _, _ in found] == sorted(start for start, _, _ in found)


def test_occurrences_name_the_original_characters() -> None:
    text = "Die STRASSE, die Straße, cafe\u0301s: " + "İ" * 20 + " 备份策略"
    assert places(text, parsed("straße 份策")) == [("STRASSE", 0), ("Straße", 0), ("份策", 1)]
    assert places(text, parsed("die café", Match.PREFIX)) == [("Die", 0), ("die", 0), ("cafe\u0301s", 1)]


def test_phrases_that_begin_alike_cost_no_look_at_each_place_for_each_of_them() -> None:
    work = []
    for count in (10, 600):
        query = parsed(" ".join(f"a-{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(count)))
        with Counted() as counted:
            assert occurrences(query, "a b " * 1_000) == []
        work.append(counted.lines)
    assert work[1] < 2 * work[0]
