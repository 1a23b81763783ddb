"""Message content: what may be passed in, its JSON form, and what is said in it."""

import json
from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.domain.errors import InvalidRequest
from backscroll.domain.parts import (
    AttachmentPart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    part_from_dict,
    part_to_dict,
    parts_of,
    text_of,
)
from backscroll.domain.text import storable
from tests.unit.hostile import any_strings

STRINGS = any_strings(10)
OPTIONAL = st.none() | STRINGS
PARTS: st.SearchStrategy[Part] = st.one_of(
    st.builds(TextPart, STRINGS),
    st.builds(ReasoningPart, STRINGS),
    st.builds(ToolCallPart, STRINGS, STRINGS, OPTIONAL),
    st.builds(ToolResultPart, STRINGS, OPTIONAL, OPTIONAL, st.booleans()),
    st.builds(AttachmentPart, STRINGS, OPTIONAL, OPTIONAL),
)


def clean(part: Part) -> Part:
    strings = {item.name: getattr(part, item.name) for item in fields(part)}
    return replace(part, **{name: storable(text) for name, text in strings.items() if isinstance(text, str)})


@settings(max_examples=100)
@given(PARTS)
def test_a_part_comes_back_from_its_json_form_with_its_strings_cleaned(part: Part) -> None:
    assert part_from_dict(part_to_dict(part)) == clean(part)
    stored = json.dumps(part_to_dict(clean(part)), ensure_ascii=False).encode()
    assert part_from_dict(json.loads(stored)) == clean(part)


@given(st.lists(PARTS, min_size=1, max_size=4))
def test_parts_and_their_json_forms_are_the_same_content(parts: list[Part]) -> None:
    assert parts_of(parts) == parts_of([part_to_dict(part) for part in parts]) == tuple(map(clean, parts))
    assert parts_of(iter(parts)) == parts_of(tuple(parts))


@given(STRINGS)
def test_a_string_is_one_text_part(text: str) -> None:
    assert parts_of(text) == (TextPart(storable(text)),)
    assert text_of(parts_of(text)) == storable(text)


def test_the_json_form_has_the_type_and_what_is_set() -> None:
    assert part_to_dict(TextPart("")) == {"type": "text", "text": ""}
    assert part_to_dict(ToolCallPart("grep")) == {"type": "tool_call", "name": "grep", "arguments": "{}"}
    assert part_to_dict(ToolResultPart("x", is_error=True)) == {"type": "tool_result", "text": "x", "is_error": True}
    assert part_to_dict(AttachmentPart("image/png", name="a.png")) == {
        "type": "attachment",
        "media_type": "image/png",
        "name": "a.png",
    }


def test_only_text_parts_are_what_was_said() -> None:
    parts = (
        TextPart("one"),
        ReasoningPart("thought"),
        ToolCallPart("tool", '{"a": "argument"}'),
        ToolResultPart("result"),
        AttachmentPart("image/png", "data:image/png;base64,AAAA", "name"),
        TextPart("two"),
    )
    assert text_of(parts) == "one\n\ntwo"
    assert text_of(parts[1:5]) == ""


@given(st.recursive(st.none() | st.booleans() | st.integers() | any_strings(5), lambda one: st.lists(one, max_size=3)))
def test_arguments_may_be_json_data_and_are_kept_as_its_text(arguments: object) -> None:
    part = part_from_dict({"type": "tool_call", "name": "grep", "arguments": arguments})
    assert isinstance(part, ToolCallPart)
    right = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    assert part.arguments == storable(right)


def looped() -> list[object]:
    value: list[object] = []
    value.append(value)
    return value


@pytest.mark.parametrize("arguments", [object(), {"a": b"x"}, {1, 2}, [float("nan")], {("a",): 1}, looped()])
def test_arguments_that_are_no_json_data_are_a_typed_error_that_names_them(arguments: object) -> None:
    with pytest.raises(InvalidRequest, match=r"tool_call.arguments must be"):
        parts_of([{"type": "tool_call", "name": "grep", "arguments": arguments}])


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ({}, "type must be one of text, reasoning, tool_call, tool_result, attachment, not None"),
        ({"type": "thinking"}, "not 'thinking'"),
        ({"type": None, "text": "x"}, "not None"),
        ({"type": ["text"], "text": "x"}, "type must be one of"),
        ({"type": "text"}, "a text part lacks a field: it has text"),
        ({"type": "tool_call"}, "a tool_call part lacks a field: it has name, arguments, call_id"),
        ({"type": "attachment", "uri": "x"}, "an? attachment part lacks a field"),
        ({"type": "text", "text": "x", "colour": 1}, "a text part has no field 'colour'; it has text"),
        ({"type": "text", "text": "x", 7: 1}, "no field '7'"),
        ({"type": "reasoning", "text": "x", "arguments": {}}, "a reasoning part has no field 'arguments'"),
        ({"type": "text", "text": None}, "text.text must be a string, not NoneType"),
        ({"type": "text", "text": 7}, "text.text must be a string, not int"),
        ({"type": "text", "text": ["x"]}, "text.text must be a string, not list"),
        ({"type": "reasoning", "text": b"x"}, "reasoning.text must be a string, not bytes"),
        ({"type": "tool_call", "name": None}, "tool_call.name must be a string, not NoneType"),
        ({"type": "tool_call", "name": "x", "call_id": 7}, "tool_call.call_id must be a string, not int"),
        ({"type": "tool_result", "text": "x", "is_error": 1}, "tool_result.is_error must be a bool, not int"),
        ({"type": "tool_result", "text": "x", "is_error": None}, "tool_result.is_error must be a bool"),
        ({"type": "tool_result", "text": "x", "name": 7}, "tool_result.name must be a string"),
        ({"type": "attachment", "media_type": None}, "attachment.media_type must be a string"),
        ({"type": "attachment", "media_type": "x", "uri": 7}, "attachment.uri must be a string"),
    ],
)
def test_a_wrong_part_is_a_typed_error_that_names_the_field(data: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidRequest, match=named):
        parts_of([data])


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (None, "content must be a string or a sequence of parts, not NoneType"),
        (7, "not int"),
        (b"text", "not bytes"),
        ({"type": "text", "text": "x"}, "not dict"),
        (TextPart("x"), "not TextPart"),
        ([], "content must hold at least one part"),
        (["text"], "a part must be one of .*, not str"),
        ([None], "not NoneType"),
        ([[TextPart("x")]], "not list"),
    ],
)
def test_wrong_content_is_a_typed_error_that_names_it(content: object, named: str) -> None:
    with pytest.raises(InvalidRequest, match=named):
        parts_of(content)


@pytest.mark.parametrize(
    "part",
    [TextPart(None), ToolCallPart(7), ToolCallPart("x", {}), ToolResultPart("x", is_error="no"), AttachmentPart(b"x")],  # type: ignore[arg-type]
)
def test_a_part_made_with_the_wrong_types_is_a_typed_error(part: Part) -> None:
    with pytest.raises(InvalidRequest, match=f"^{part.type}\\."):
        parts_of([part])
