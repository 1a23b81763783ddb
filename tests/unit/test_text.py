"""Which strings may enter the store, and what becomes of the others."""

import contextlib
import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.domain.errors import InvalidRequest
from backscroll.domain.text import (
    MAX_ID,
    MAX_KEY,
    MAX_TITLE,
    REPLACEMENT,
    checked_message_id,
    checked_metadata,
    checked_name,
    checked_title,
    storable,
)
from tests.unit.hostile import any_strings


def is_storable(text: str) -> bool:
    return "\x00" not in text and text.encode("utf-8", "replace").decode("utf-8") == text


# Text


@settings(max_examples=100)
@given(any_strings())
def test_storable_text_is_the_text_with_each_nul_and_lone_surrogate_replaced(text: str) -> None:
    right = "".join(REPLACEMENT if char == "\x00" or "\ud800" <= char <= "\udfff" else char for char in text)
    assert storable(text) == right
    assert is_storable(storable(text))
    assert storable(storable(text)) == storable(text)


def test_a_proper_pair_stays_an_emoji_and_a_lone_half_is_replaced() -> None:
    assert storable(json.loads(r'"\ud83d\ude00 \ud83d"')) == "\U0001f600 \ufffd"


def test_every_nul_is_replaced() -> None:
    assert storable("alpha\x00beta") == "alpha\ufffdbeta"
    assert storable("\x00" * 10_000) == "\ufffd" * 10_000


# Names


@pytest.mark.parametrize("name", ["a", "a" * MAX_ID, "agent:A:main", " x ", "名", "\U0001f600", "a\u2028b", "\ufffd"])
def test_a_name_comes_back_as_it_is(name: str) -> None:
    assert checked_name(name, "session_id") == name


@pytest.mark.parametrize(
    "name",
    [
        None,
        7,
        b"a",
        ["a"],
        "",
        " ",
        "\t\n",
        "\u3000",
        "a" * 257,
        "a\x00b",
        "a\nb",
        "\x1f",
        "a\x7f",
        "\ud83d",
        "a\udfff",
    ],
)
def test_a_name_that_cannot_be_one_is_refused_by_its_argument(name: object) -> None:
    with pytest.raises(InvalidRequest, match=r"^session_id "):
        checked_name(name, "session_id")


@given(any_strings())
def test_a_name_is_never_changed(name: str) -> None:
    # Two names must never become one.
    if name.strip() and is_storable(name) and not re.search("[\x00-\x1f\x7f]", name):
        assert checked_name(name, "session_key") == name
    else:
        with pytest.raises(InvalidRequest, match=r"^session_key "):
            checked_name(name, "session_key")


def test_bounds_are_in_characters_and_said() -> None:
    assert checked_name("名" * MAX_KEY, "session_key", MAX_KEY) == "名" * MAX_KEY
    with pytest.raises(InvalidRequest, match="session_key has 513 characters; at most 512"):
        checked_name("名" * (MAX_KEY + 1), "session_key", MAX_KEY)


# Message ids


def test_a_message_id_is_cleaned_like_text_and_bounded_like_a_name() -> None:
    assert checked_message_id("m\x001\ud83d") == "m\ufffd1\ufffd"
    assert checked_message_id("m" * MAX_ID) == "m" * MAX_ID


@pytest.mark.parametrize("value", [None, 7, b"m", "", "  ", "m" * 257, "m\n", "\x1b"])
@pytest.mark.parametrize("what", ["message_id", "parent_id"])
def test_a_message_id_that_cannot_be_one_is_refused_by_its_argument(value: object, what: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^{what} "):
        checked_message_id(value, what)


# Titles


def test_a_title_is_cleaned_like_text_and_bounded() -> None:
    assert checked_title("a\x00b\ud83d\n") == "a\ufffdb\ufffd\n"
    assert checked_title("t" * MAX_TITLE) == "t" * MAX_TITLE
    assert checked_title("") == ""


@pytest.mark.parametrize("value", [None, 7, b"t", "t" * 1_001])
def test_a_title_that_cannot_be_one_is_refused_by_its_argument(value: object) -> None:
    with pytest.raises(InvalidRequest, match=r"^title "):
        checked_title(value)


# Metadata

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_strings(10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_strings(5), inner, max_size=3),
    max_leaves=8,
)


def strings_in(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for pair in value.items() for item in pair for text in strings_in(item)]
    return [text for item in value for text in strings_in(item)] if isinstance(value, list) else []


def cleaned(value: object) -> object:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(key): cleaned(item) for key, item in value.items()}
    return [cleaned(item) for item in value] if isinstance(value, list) else value


@settings(max_examples=120)
@given(st.dictionaries(any_strings(5), JSON, max_size=4))
def test_metadata_is_the_same_data_with_its_strings_cleaned(value: dict[str, object]) -> None:
    result = checked_metadata(value)
    assert result == cleaned(value)
    assert all(map(is_storable, strings_in(result)))
    assert checked_metadata(result) == result


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("\x00", "\ufffd"),
        ("\\u0000", "\\u0000"),
        ("\\\x00", "\\\ufffd"),
        ("\\\\u0000\x00u0000", "\\\\u0000\ufffdu0000"),
        ("\ud83d\\ud83d", "\ufffd\\ud83d"),
    ],
)
def test_a_nul_in_metadata_is_replaced_and_what_only_looks_like_one_stays(text: str, right: str) -> None:
    assert checked_metadata({text: [text]}) == {right: [right]}


def test_no_metadata_is_empty_and_a_copy_is_taken() -> None:
    given = {"tags": ["a"]}
    taken = checked_metadata(given)
    given["tags"].append("b")
    assert taken == {"tags": ["a"]}
    assert checked_metadata(None) == {}


def nested(depth: int) -> dict[str, object]:
    value: dict[str, object] = {}
    for _ in range(depth):
        value = {"a": [value]}
    return value


def looped() -> dict[str, object]:
    value: dict[str, object] = {}
    value["self"] = value
    return value


@pytest.mark.parametrize(
    "value",
    [[], "text", 7, {"a": object()}, {"a": {1, 2}}, {"a": b"x"}, {("a",): 1}, {"a": float("nan")}, {"a": float("inf")}],
)
def test_metadata_that_is_no_plain_json_is_refused_by_its_argument(value: object) -> None:
    with pytest.raises(InvalidRequest, match=r"^metadata must be"):
        checked_metadata(value)


def test_metadata_that_loops_or_is_too_deep_is_refused() -> None:
    for value in (looped(), nested(20_000)):
        with pytest.raises(InvalidRequest, match=r"^metadata must be"):
            checked_metadata(value)
    assert checked_metadata(nested(50)) == nested(50)


@pytest.mark.parametrize("depth", range(100, 1_000, 100))
def test_metadata_of_any_depth_is_taken_or_refused(depth: int) -> None:
    with contextlib.suppress(InvalidRequest):
        assert checked_metadata(nested(depth)) == nested(depth)
