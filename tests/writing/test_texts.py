"""Writing: text that needs care, and refusals that leave nothing behind."""

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest

from backscroll import (
    AttachmentPart,
    Backscroll,
    BackscrollError,
    InvalidRequest,
    NewMessage,
    ReasoningPart,
    SessionNotFound,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from tests.writing.stores import KEY, contents, found, said


def test_a_nul_becomes_a_replacement_character_before_anything_is_stored(scroll, talk, operator):
    scroll.append(KEY, "user", "alpha\x00beta gamma", message_id="m1")
    scroll.append(KEY, "user", "x\x00" * 10_000 + " delta", message_id="m2")
    page = scroll.search("beta", requester=operator)
    assert [hit.excerpt for hit in page.hits] == ["alpha\ufffdbeta gamma"]
    assert found(scroll, "delta") == ["m2"]
    assert found(scroll, "alp\x00ha") == []
    assert found(scroll, 'a" OR "b\x00') == []
    assert found(scroll, "alpha\x00beta") == ["m1"]
    assert scroll.verify().ok
    assert scroll.delete_session(KEY)


def test_a_lone_surrogate_becomes_a_replacement_character_and_stops_nothing(scroll, operator):
    scroll.ensure_session(KEY, title="broken \ud83d title")
    scroll.append_many(
        KEY,
        [
            NewMessage("user", "broken \ud83d text", message_id="id\ud83d"),
            NewMessage(
                "assistant", [ToolCallPart("tool\udc00", '{"a": "\ud83d"}'), TextPart("calling")], message_id="m2"
            ),
            NewMessage("user", "good \U0001f600 neighbour", message_id="m3"),
        ],
    )
    assert said(scroll) == ["id\ufffd", "m2", "m3"]
    assert scroll.sessions(requester=operator)[0].title == "broken \ufffd title"
    page = scroll.history(KEY, requester=operator)
    assert [message.text for message in page.messages] == ["broken \ufffd text", "calling", "good \U0001f600 neighbour"]
    assert page.messages[1].parts[0] == ToolCallPart("tool\ufffd", '{"a": "\ufffd"}')
    assert found(scroll, "neighbour") == ["m3"]
    assert found(scroll, "text\ud83d") == ["id\ufffd"]
    # The same id again, as broken as before, is the same message.
    scroll.append(KEY, "user", "broken \ud83d text", message_id="id\ud83d")
    assert len(said(scroll)) == 3


# Refusals leave nothing.

REFUSALS: dict[str, tuple[type[BackscrollError], Callable[[Backscroll], object]]] = {
    "an empty key": (InvalidRequest, lambda s: s.ensure_session("")),
    "a blank key": (InvalidRequest, lambda s: s.append("  ", "user", "x")),
    "a key that is no string": (InvalidRequest, lambda s: s.ensure_session(None)),
    "a key without an agent": (InvalidRequest, lambda s: s.ensure_session("room 7")),
    "an agent that contradicts the key": (InvalidRequest, lambda s: s.ensure_session("agent:a:b", agent_id="c")),
    "an over-long key": (InvalidRequest, lambda s: s.ensure_session("agent:a:" + "x" * 505)),
    "a key with a line break": (InvalidRequest, lambda s: s.ensure_session("agent:a:b\n")),
    "a key with a NUL": (InvalidRequest, lambda s: s.ensure_session("agent:a:b\x00")),
    "a key with a lone surrogate": (InvalidRequest, lambda s: s.ensure_session("agent:a:\ud83d")),
    "an unknown kind": (InvalidRequest, lambda s: s.ensure_session("agent:a:b", kind="party")),
    "an over-long title": (InvalidRequest, lambda s: s.ensure_session("agent:a:b", title="x" * 1001)),
    "a title that is no string": (InvalidRequest, lambda s: s.ensure_session("agent:a:b", title=7)),
    "an empty parent key": (InvalidRequest, lambda s: s.ensure_session("agent:a:b", spawned_by="")),
    "metadata that is no mapping": (InvalidRequest, lambda s: s.ensure_session("agent:a:b", metadata=[1])),
    "metadata that is no JSON": (InvalidRequest, lambda s: s.ensure_session("agent:a:b", metadata={"a": object()})),
    "incognito that is no bool": (InvalidRequest, lambda s: s.ensure_session("agent:a:b", incognito="yes")),
    "an append to an unknown key": (SessionNotFound, lambda s: s.append("agent:a:never", "user", "x")),
    "an edit in an unknown session": (SessionNotFound, lambda s: s.edit("agent:a:never", "m1", "x")),
    "a rewind in an unknown session": (SessionNotFound, lambda s: s.rewind("agent:a:never", "m1")),
    "branches of an unknown session": (SessionNotFound, lambda s: s.branches("agent:a:never")),
    "a switch in an unknown session": (SessionNotFound, lambda s: s.switch_branch("agent:a:never", "b")),
    "a reset of an unknown session": (SessionNotFound, lambda s: s.reset("agent:a:never")),
    "an unknown role": (InvalidRequest, lambda s: s.append(KEY, "robot", "x")),
    "content that is neither text nor parts": (InvalidRequest, lambda s: s.append(KEY, "user", 7)),
    "content in bytes": (InvalidRequest, lambda s: s.append(KEY, "user", b"x")),
    "no parts": (InvalidRequest, lambda s: s.append(KEY, "user", [])),
    "an unknown part": (InvalidRequest, lambda s: s.append(KEY, "user", [{"type": "video"}])),
    "a part with an unknown field": (InvalidRequest, lambda s: s.append(KEY, "user", [{"type": "text", "txt": "x"}])),
    "a part without its text": (InvalidRequest, lambda s: s.append(KEY, "user", [{"type": "text"}])),
    "a part whose text is no string": (InvalidRequest, lambda s: s.append(KEY, "user", [TextPart(7)])),
    "tool arguments that are no JSON": (
        InvalidRequest,
        lambda s: s.append(KEY, "assistant", [{"type": "tool_call", "name": "x", "arguments": object()}]),
    ),
    "an empty message id": (InvalidRequest, lambda s: s.append(KEY, "user", "x", message_id="")),
    "an over-long message id": (InvalidRequest, lambda s: s.append(KEY, "user", "x", message_id="x" * 257)),
    "a message id that is no string": (InvalidRequest, lambda s: s.append(KEY, "user", "x", message_id=7)),
    "a wrong parent": (InvalidRequest, lambda s: s.append(KEY, "user", "x", parent_id="never")),
    "itself as parent": (InvalidRequest, lambda s: s.append(KEY, "user", "x", message_id="new", parent_id="new")),
    "a naive time": (InvalidRequest, lambda s: s.append(KEY, "user", "x", created_at=datetime(2026, 1, 1))),
    "a time that is none": (InvalidRequest, lambda s: s.append(KEY, "user", "x", created_at="2026-01-01")),
    "a time out of range": (
        InvalidRequest,
        lambda s: s.append(KEY, "user", "x", created_at=datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))),
    ),
    "a bad message after good ones": (
        InvalidRequest,
        lambda s: s.append_many(KEY, [NewMessage("user", "good"), NewMessage("robot", "bad")]),
    ),
    "a wrong parent after good ones": (
        InvalidRequest,
        lambda s: s.append_many(KEY, [NewMessage("user", "good"), NewMessage("user", "bad", parent_id="never")]),
    ),
    "a wrong parent after a branch": (
        InvalidRequest,
        lambda s: s.append_many(
            KEY, [NewMessage("user", "good", parent_id="m1"), NewMessage("user", "bad", parent_id="never")]
        ),
    ),
    "a message without a role": (InvalidRequest, lambda s: s.append_many(KEY, [{"content": "x"}])),
    "a message with an unknown field": (
        InvalidRequest,
        lambda s: s.append_many(KEY, [{"role": "user", "content": "x", "color": "red"}]),
    ),
    "a message that is none": (InvalidRequest, lambda s: s.append_many(KEY, ["hello"])),
    "one message for many": (InvalidRequest, lambda s: s.append_many(KEY, {"role": "user", "content": "x"})),
    "an edit of an unknown message": (InvalidRequest, lambda s: s.edit(KEY, "never", "x")),
    "an edit to nothing": (InvalidRequest, lambda s: s.edit(KEY, "m1", [])),
    "a switch to an unknown branch": (InvalidRequest, lambda s: s.switch_branch(KEY, "never")),
    "an unknown reason": (InvalidRequest, lambda s: s.reset(KEY, reason="bored")),
    "keep and rotate together": (InvalidRequest, lambda s: s.reset(KEY, keep=1, rotate=True)),
    "a new session id without rotate": (InvalidRequest, lambda s: s.reset(KEY, new_session_id="x")),
    "an over-long session id": (InvalidRequest, lambda s: s.reset(KEY, rotate=True, new_session_id="x" * 257)),
    "a session id in use": (
        InvalidRequest,
        lambda s: s.reset(KEY, rotate=True, new_session_id=s.ensure_session(KEY).session_id),
    ),
    "rotate that is no bool": (InvalidRequest, lambda s: s.reset(KEY, rotate="yes")),
    "an empty key to delete": (InvalidRequest, lambda s: s.delete_session("")),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_a_refused_write_leaves_nothing_behind(scroll, talk, store_path, what):
    talk("m1", "m2")
    before = contents(store_path)
    error, attempt = REFUSALS[what]
    with pytest.raises(error) as raised:
        attempt(scroll)
    assert raised.type is error
    assert str(raised.value)
    assert contents(store_path) == before


def test_every_kind_of_part_is_kept_and_only_text_is_searched(scroll, talk, operator):
    parts = (
        TextPart("first said"),
        ReasoningPart("second thought"),
        ToolCallPart("lookup", '{"third": 3}', "call1"),
        ToolResultPart("fourth answer", "call1", "lookup", is_error=True),
        AttachmentPart("image/png", "https://example.org/fifth.png", "fifth.png"),
        TextPart("sixth said"),
        TextPart(""),
    )
    scroll.append(KEY, "assistant", parts, message_id="m1")
    (message,) = scroll.history(KEY, requester=operator).messages
    assert message.parts[:-1] == parts[:-1]
    words = ("first", "second", "third", "fourth", "fifth", "sixth", "lookup")
    assert [bool(found(scroll, word)) for word in words] == [True, False, False, False, False, True, False]
    scroll.append(KEY, "system", "seventh", message_id="m2")
    scroll.append(KEY, "tool", "eighth", message_id="m3")
    assert found(scroll, "seventh") == found(scroll, "eighth") == []
