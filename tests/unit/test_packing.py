"""How a message's parts are kept: what they come back as, and that the form of earlier releases stays readable."""

import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backscroll.domain.parts import (
    AttachmentPart,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    part_to_dict,
    parts_of,
    text_of,
)
from backscroll.infrastructure.packing import packed, unpacked
from backscroll.infrastructure.types import json_text
from tests.unit.test_parts import PARTS


@given(st.lists(PARTS, min_size=1, max_size=5))
def test_parts_come_back_as_they_were(parts: list[Part]) -> None:
    stored = parts_of(parts)
    layout = packed(stored)
    if layout is None:
        assert stored == (TextPart(text_of(stored)),)
    else:
        assert unpacked(json.loads(layout), text_of(stored)) == stored
        assert json_text(json.loads(layout)) == layout


@given(st.lists(PARTS, min_size=1, max_size=5))
def test_parts_that_an_earlier_release_packed_come_back_too(parts: list[Part]) -> None:
    stored = parts_of(parts)
    layout = [len(part.text) if isinstance(part, TextPart) else part_to_dict(part) for part in stored]
    assert unpacked(json.loads(json_text(layout)), text_of(stored)) == stored


LISTED: list[tuple[Part, list[object]]] = [
    (ReasoningPart("hm"), ["t", "hm"]),
    (ToolCallPart("book"), ["c", "book", "{}"]),
    (ToolCallPart("book", "[1]", "c1"), ["c", "book", "[1]", "c1"]),
    (ToolResultPart(""), ["r", ""]),
    (ToolResultPart("no", "c1"), ["r", "no", "c1"]),
    (ToolResultPart("no", None, "", True), ["r", "no", None, "", True]),
    (AttachmentPart("image/png"), ["a", "image/png"]),
    (AttachmentPart("image/png", None, "map"), ["a", "image/png", None, "map"]),
]


@pytest.mark.parametrize(("part", "item"), LISTED)
def test_a_part_is_a_list_of_its_fields_as_far_as_they_are_set(part: Part, item: list[object]) -> None:
    assert packed((TextPart("a"), part, TextPart("bc"))) == json_text([1, item, 2])
    assert unpacked([item], "") == (part,)


def test_every_kind_of_part_but_text_is_a_list() -> None:
    assert {type(part) for part, _ in LISTED} == set(get_args(Part)) - {TextPart}
