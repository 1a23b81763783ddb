"""Every answer has a plain JSON form that UTF-8 can hold."""

import json
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll.domain.model import Role, SessionKind
from backscroll.domain.parts import AttachmentPart, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
from backscroll.domain.results import (
    HistoryMessage,
    HistoryPage,
    Hit,
    ImportProblem,
    ImportReport,
    IndexReport,
    Problem,
    ReindexReport,
    SearchPage,
    SessionSummary,
    to_json,
)
from backscroll.domain.sizes import hits_fit, json_size, messages_fit
from backscroll.domain.text import storable
from tests.factories import EPOCH, SessionFactory
from tests.unit.hostile import any_strings

TEXT = any_strings(10).map(storable)
NUMBERS = st.integers(0, 10**9)
TIMES = st.datetimes(timezones=st.just(UTC))
PARTS = st.lists(
    st.one_of(
        st.builds(TextPart, TEXT),
        st.builds(ReasoningPart, TEXT),
        st.builds(ToolCallPart, TEXT, TEXT, st.none() | TEXT),
        st.builds(ToolResultPart, TEXT, st.none() | TEXT, st.none() | TEXT, st.booleans()),
        st.builds(AttachmentPart, TEXT, st.none() | TEXT, st.none() | TEXT),
    ),
    max_size=3,
).map(tuple)
HITS = st.builds(
    Hit,
    session_key=TEXT,
    session_id=TEXT,
    message_id=TEXT,
    role=st.sampled_from(Role),
    timestamp=TIMES,
    excerpt=TEXT,
    score=st.floats(allow_nan=False, allow_infinity=False),
    highlights=st.lists(st.tuples(NUMBERS, NUMBERS), max_size=2).map(tuple),
)
MESSAGES = st.builds(
    HistoryMessage,
    message_id=TEXT,
    role=st.sampled_from(Role),
    text=TEXT,
    parts=PARTS,
    timestamp=TIMES,
    truncated=st.booleans(),
)
RESULTS = st.one_of(
    st.builds(SearchPage, hits=st.lists(HITS, max_size=2).map(tuple), indexing=st.booleans(), truncated=st.booleans()),
    st.builds(
        HistoryPage,
        messages=st.lists(MESSAGES, max_size=2).map(tuple),
        session_key=TEXT,
        session_id=TEXT,
        total=NUMBERS,
        has_more=st.booleans(),
        next_offset=st.none() | NUMBERS,
    ),
    st.builds(
        SessionSummary,
        session_key=TEXT,
        session_id=TEXT,
        agent_id=TEXT,
        kind=st.sampled_from(SessionKind),
        title=st.none() | TEXT,
        created_at=TIMES,
        updated_at=TIMES,
    ),
    st.builds(ReindexReport, transcripts=NUMBERS, failed=st.lists(st.tuples(TEXT, TEXT), max_size=2).map(tuple)),
    st.builds(
        IndexReport,
        ok=st.booleans(),
        problems=st.lists(st.builds(Problem, what=TEXT, session_key=st.none() | TEXT), max_size=2).map(tuple),
    ),
    st.builds(
        ImportReport,
        files=NUMBERS,
        problems=st.lists(st.builds(ImportProblem, file=TEXT, line=st.none() | NUMBERS, what=TEXT), max_size=2).map(
            tuple
        ),
    ),
)

PLAIN = {type(None), bool, int, float, str, list, dict}


def types_in(value: object) -> set[type]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {type(value)}.union(*map(types_in, inner))


@settings(max_examples=100)
@given(RESULTS)
def test_a_result_becomes_plain_data_that_json_gives_back(result: object) -> None:
    data = to_json(result)
    assert types_in(data) <= PLAIN
    assert json.loads(json.dumps(data, ensure_ascii=False, allow_nan=False).encode("utf-8")) == data


@given(RESULTS)
def test_the_size_of_a_result_is_that_of_its_json(result: object) -> None:
    assert json_size(result) == len(json.dumps(to_json(result), ensure_ascii=False).encode("utf-8"))


@given(st.lists(HITS, min_size=1, max_size=4), st.integers(0, 400))
def test_hits_that_are_said_to_fit_do(hits: list[Hit], less: int) -> None:
    size = sum(json_size(hit) + 2 for hit in hits)
    assert hits_fit(hits, 1_000_000)
    assert not hits_fit(hits, size - 1 - less)


@given(st.lists(st.tuples(MESSAGES, TEXT, st.booleans()), min_size=1, max_size=4), st.integers(0, 400))
def test_messages_that_are_said_to_fit_do(drawn: list[tuple[HistoryMessage, str, bool]], less: int) -> None:
    messages = [
        replace(message, text=text, parts=(TextPart(text),)) if alone else message for message, text, alone in drawn
    ]
    size = sum(json_size(message) + 2 for message in messages)
    assert messages_fit(messages, 1_000_000)
    assert not messages_fit(messages, size - 1 - less)


def test_ordinary_text_is_said_to_fit_into_not_much_more_than_it_takes() -> None:
    text = 'She said: "Take the ferry at seven, not at nine."\nNoted – Überfahrt nach Ναξος, 渡轮.' * 4
    part = TextPart(text)
    messages = [
        HistoryMessage(message_id=f"m{n}", role=Role.USER, text=text, parts=(part,), timestamp=EPOCH) for n in range(9)
    ]
    size = sum(json_size(message) + 2 for message in messages)
    assert messages_fit(messages, int(1.5 * size))


@given(RESULTS)
def test_every_field_of_a_result_is_in_its_json_form_under_its_own_name(result: object) -> None:
    data = to_json(result)
    assert isinstance(data, dict)
    assert list(data) == [item.name for item in fields(result)]  # type: ignore[arg-type]


def test_a_hit_in_json() -> None:
    hit = Hit(
        session_key="agent:A:main",
        session_id="S1",
        message_id="m1",
        role=Role.USER,
        timestamp=datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC),
        excerpt="the ferry",
        score=1.5,
        highlights=((4, 9),),
    )
    assert to_json(SearchPage(hits=(hit,), truncated=True)) == {
        "hits": [
            {
                "session_key": "agent:A:main",
                "session_id": "S1",
                "message_id": "m1",
                "role": "user",
                "timestamp": "2026-03-01T12:00:00.000005Z",
                "excerpt": "the ferry",
                "score": 1.5,
                "highlights": [[4, 9]],
            }
        ],
        "indexing": False,
        "truncated": True,
    }


def test_parts_in_json_are_what_a_host_may_pass_in() -> None:
    message = HistoryMessage(
        message_id="m1",
        role=Role.TOOL,
        text="",
        parts=(ToolCallPart("grep", call_id="c1"), ToolResultPart("", is_error=True)),
        timestamp=EPOCH,
    )
    data = to_json(message)
    assert isinstance(data, dict)
    assert data["parts"] == [
        {"type": "tool_call", "name": "grep", "arguments": "{}", "call_id": "c1"},
        {"type": "tool_result", "text": "", "is_error": True},
    ]


@given(st.datetimes(), st.integers(-23, 23))
def test_times_are_iso_8601_with_their_zone(naive: datetime, hours: int) -> None:
    moment = naive.replace(tzinfo=timezone(timedelta(hours=hours)))
    text = to_json(moment)
    assert isinstance(text, str)
    assert datetime.fromisoformat(text) == moment
    assert text.endswith("Z") == (hours == 0)


@pytest.mark.parametrize(
    ("value", "right"),
    [
        (None, None),
        (True, True),
        (7, 7),
        (1.5, 1.5),
        ("text", "text"),
        (Role.USER, "user"),
        ([1, (2, Role.TOOL)], [1, [2, "tool"]]),
        ({1: (2,), Role.USER: None}, {"1": [2], "user": None}),
        (MappingProxyType({"a": MappingProxyType({})}), {"a": {}}),
    ],
)
def test_plain_values_are_themselves(value: object, right: object) -> None:
    assert to_json(value) == right
    assert types_in(to_json(value)) <= PLAIN


def test_an_entity_has_a_json_form_too() -> None:
    data = to_json(SessionFactory(session_key="agent:A:main", metadata={"a": [1, {"b": EPOCH}]}))
    assert isinstance(data, dict)
    assert data["metadata"] == {"a": [1, {"b": "2026-03-01T12:00:00Z"}]}
    assert json.dumps(data)
