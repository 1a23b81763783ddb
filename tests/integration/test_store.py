"""Storing: append, edit, rewind, branches, resets, deletion, sessions; refusals that leave nothing."""

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from backscroll import (
    AttachmentPart,
    Backscroll,
    BackscrollError,
    InvalidRequest,
    MessageConflict,
    NewMessage,
    ReasoningPart,
    Requester,
    ResetReason,
    RewindAcrossReset,
    SessionKind,
    SessionNotFound,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from tests.factories import NewMessageFactory, at

KEY = "agent:main:main"


def contents(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table, FTS5's own included."""
    connection = sqlite3.connect(path)
    try:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {
            table: connection.execute(f'SELECT * FROM "{table}"').fetchall()
            for table in tables
            if table != "backscroll_message_index"
        }
    finally:
        connection.close()


def said(scroll: Backscroll, key: str = KEY) -> list[str]:
    page = scroll.history(key, requester=Requester(key), limit=200, include_tools=True)
    return [message.message_id for message in page.messages]


def found(scroll: Backscroll, word: str) -> list[str]:
    return sorted(hit.message_id for hit in scroll.search(word, requester=Requester.operator()).hits)


@pytest.fixture
def talk(scroll: Backscroll) -> Callable[..., None]:
    scroll.ensure_session(KEY)

    def say(*names: str) -> None:
        scroll.append_many(KEY, [NewMessage("user", f"word{name}", message_id=name) for name in names])

    return say


# Append.


def test_a_message_goes_to_the_head_of_the_active_branch(scroll, talk):
    first = scroll.append(KEY, "user", "hello")
    second = scroll.append(KEY, "assistant", "hi")
    assert (first.parent_id, first.depth, first.active) == (None, 1, True)
    assert (second.parent_id, second.depth, second.active) == (first.message_id, 2, True)
    assert [branch.head for branch in scroll.branches(KEY)] == [second.message_id]


def test_ids_and_times_are_made_when_left_out(scroll, talk):
    before = datetime.now(UTC)
    one, two = scroll.append_many(KEY, NewMessageFactory.build_batch(2))
    assert one.message_id != two.message_id
    assert one.created_at.tzinfo is UTC
    assert before <= one.created_at <= datetime.now(UTC)


def test_a_time_in_another_zone_is_the_same_moment_in_utc(scroll, talk, operator):
    time = datetime(2026, 1, 1, 0, 30, 0, 123456, tzinfo=timezone(timedelta(hours=5, minutes=45)))
    scroll.append(KEY, "user", "hello", created_at=time)
    (message,) = scroll.history(KEY, requester=operator).messages
    assert message.timestamp == time
    assert message.timestamp.utcoffset() == timedelta(0)


def test_the_same_id_with_the_same_content_gives_the_stored_message_back(scroll, talk, store_path):
    stored = scroll.append(KEY, "user", "hello", message_id="m1", created_at=at(0), metadata={"n": 1})
    before = contents(store_path)
    assert scroll.append(KEY, "user", "hello", message_id="m1", created_at=at(9)) == stored
    assert scroll.append(KEY, "user", [TextPart("hello")], message_id="m1", parent_id="m1") == stored
    assert contents(store_path) == before


def test_the_same_id_is_known_off_the_active_path_too(scroll, talk):
    talk("m1", "m2")
    scroll.rewind(KEY, "m1")
    stored = scroll.append(KEY, "user", "wordm2", message_id="m2")
    assert not stored.active
    assert said(scroll) == ["m1"]


@pytest.mark.parametrize(
    ("role", "content"), [("user", "other"), ("assistant", "hello"), ("user", [ReasoningPart("hello")])]
)
def test_the_same_id_with_other_content_is_a_conflict(scroll, talk, store_path, role, content):
    scroll.append(KEY, "user", "hello", message_id="m1")
    before = contents(store_path)
    with pytest.raises(MessageConflict):
        scroll.append(KEY, role, content, message_id="m1")
    with pytest.raises(MessageConflict):
        scroll.append_many(KEY, [NewMessage("user", "fresh"), NewMessage(role, content, message_id="m1")])
    assert contents(store_path) == before


def test_an_id_is_unique_in_its_transcript_and_free_in_others(scroll, talk):
    talk("m1")
    scroll.ensure_session("agent:main:other")
    scroll.append("agent:main:other", "user", "otherword", message_id="m1")
    scroll.reset(KEY, rotate=True)
    scroll.append(KEY, "user", "rotatedword", message_id="m1")
    assert found(scroll, "otherword") == found(scroll, "rotatedword") == found(scroll, "wordm1") == ["m1"]


def test_a_parent_that_is_not_the_head_starts_an_active_branch_there(scroll, talk):
    talk("m1", "m2", "m3")
    branched = scroll.append(KEY, "assistant", "wordb1", message_id="b1", parent_id="m1")
    assert (branched.parent_id, branched.depth) == ("m1", 2)
    assert said(scroll) == ["m1", "b1"]
    assert found(scroll, "wordm3") == []
    assert found(scroll, "wordb1") == ["b1"]
    scroll.append(KEY, "user", "wordb2", message_id="b2", parent_id="b1")
    assert {(branch.head, branch.depth, branch.active) for branch in scroll.branches(KEY)} == {
        ("b2", 3, True),
        ("m3", 3, False),
    }


def test_a_parent_off_the_active_path_goes_on_from_its_branch(scroll, talk):
    talk("m1", "m2", "m3")
    scroll.append(KEY, "user", "x", message_id="b1", parent_id="m1")
    scroll.append(KEY, "user", "x", message_id="m4", parent_id="m3")
    scroll.append(KEY, "user", "x", message_id="c1", parent_id="m2")
    assert said(scroll) == ["m1", "m2", "c1"]
    assert {branch.head for branch in scroll.branches(KEY)} == {"b1", "m4", "c1"}


def test_a_parent_followed_by_a_reset_attaches_behind_the_reset(scroll, talk):
    talk("m1")
    scroll.reset(KEY)
    scroll.append(KEY, "user", "x", message_id="m2", parent_id="m1")
    assert said(scroll) == ["m2"]
    scroll.append(KEY, "user", "x", message_id="m3", parent_id="m1")
    assert said(scroll) == ["m3"]


def test_a_branch_that_starts_before_a_reset_does_not_contain_it(scroll, talk):
    talk("m1", "m2")
    scroll.reset(KEY)
    talk("m3")
    scroll.append(KEY, "user", "x", message_id="b1", parent_id="m1")
    assert said(scroll) == ["m1", "b1"]
    (other,) = [branch for branch in scroll.branches(KEY) if not branch.active]
    scroll.switch_branch(KEY, other.branch_id)
    assert said(scroll) == ["m3"]


def test_append_many_stores_all_in_order_and_may_branch_within(scroll, talk):
    stored = scroll.append_many(
        KEY,
        [
            NewMessage("user", "a", message_id="a"),
            {"role": "assistant", "content": "b", "message_id": "b"},
            NewMessage("user", "c", message_id="c", parent_id="a"),
            NewMessage("user", "a", message_id="a"),
            NewMessage("user", "d", message_id="d", parent_id="c"),
        ],
    )
    assert [(one.message_id, one.parent_id) for one in stored] == [
        ("a", None),
        ("b", "a"),
        ("c", "a"),
        ("a", None),
        ("d", "c"),
    ]
    assert said(scroll) == ["a", "c", "d"]
    assert scroll.append_many(KEY, []) == []


def test_append_many_gives_its_last_say_on_what_is_active(scroll, talk):
    stored = scroll.append_many(
        KEY,
        [NewMessage("user", f"word{n}", message_id=n, parent_id=p) for n, p in (("a", None), ("b", None), ("c", "a"))],
    )
    assert said(scroll) == ["a", "c"]
    assert found(scroll, "wordb") == []
    assert [one.message_id for one in stored if one.active] == ["a", "c"]


# Edit.


def test_an_edit_changes_what_is_stored_and_found(scroll, talk, operator):
    talk("m1", "m2")
    edited = scroll.edit(KEY, "m1", [ReasoningPart("thinking"), TextPart("changed")])
    assert (edited.text, edited.depth, edited.parent_id) == ("changed", 1, None)
    assert scroll.history(KEY, requester=operator).messages[0].parts == (ReasoningPart("thinking"), TextPart("changed"))
    assert found(scroll, "wordm1") == []
    assert found(scroll, "changed") == ["m1"]
    assert found(scroll, "wordm2") == ["m2"]


def test_a_streamed_answer_is_edited_many_times(scroll, talk):
    scroll.append(KEY, "assistant", "", message_id="m1")
    words = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "北京", "dog"]
    for length in range(1, len(words) + 1):
        scroll.edit(KEY, "m1", " ".join(words[:length]))
        assert found(scroll, words[length - 1]) == ["m1"]
    scroll.edit(KEY, "m1", "cats")
    assert [found(scroll, word) for word in ("quick", "北京", "dog", "cats")] == [[], [], [], ["m1"]]


def test_a_message_off_the_path_can_be_edited_and_stays_off(scroll, talk):
    talk("m1", "m2")
    branch = scroll.branches(KEY)[0]
    scroll.rewind(KEY, "m1")
    scroll.edit(KEY, "m2", "changed")
    assert found(scroll, "changed") == []
    scroll.switch_branch(KEY, branch.branch_id)
    assert found(scroll, "changed") == ["m2"]
    assert found(scroll, "wordm2") == []


def test_an_edit_to_the_same_content_changes_nothing(scroll, talk, store_path):
    talk("m1")
    before = contents(store_path)
    scroll.edit(KEY, "m1", "wordm1")
    assert contents(store_path) == before


# Rewind, branch, switch.


def test_a_rewind_moves_the_head_back_and_keeps_what_followed(scroll, talk):
    talk("m1", "m2", "m3")
    (whole,) = scroll.branches(KEY)
    branch = scroll.rewind(KEY, "m2")
    assert (branch.head, branch.depth, branch.active) == ("m2", 2, True)
    assert said(scroll) == ["m1", "m2"]
    assert found(scroll, "wordm3") == []
    talk("m4")
    assert said(scroll) == ["m1", "m2", "m4"]
    back = scroll.switch_branch(KEY, whole.branch_id)
    assert (back.head, back.active) == ("m3", True)
    assert said(scroll) == ["m1", "m2", "m3"]
    assert found(scroll, "wordm3") == ["m3"]
    assert found(scroll, "wordm4") == []
    assert [one.head for one in scroll.branches(KEY)] == ["m3", "m4"]


def test_a_rewind_to_the_head_changes_nothing(scroll, talk, store_path):
    talk("m1", "m2")
    before = contents(store_path)
    assert scroll.rewind(KEY, "m2").active
    scroll.switch_branch(KEY, scroll.branches(KEY)[0].branch_id)
    assert contents(store_path) == before


def test_a_rewind_across_the_latest_reset_is_refused(scroll, talk, store_path):
    talk("m1", "m2")
    scroll.reset(KEY, keep="m2")
    before = contents(store_path)
    for target in ("m1", "m2"):
        with pytest.raises(RewindAcrossReset):
            scroll.rewind(KEY, target)
    assert contents(store_path) == before
    talk("m3", "m4")
    for target in ("m1", "m2"):
        with pytest.raises(RewindAcrossReset):
            scroll.rewind(KEY, target)
    scroll.rewind(KEY, "m3")
    assert said(scroll) == ["m2", "m3"]


def test_a_rewind_to_what_is_not_on_the_path_is_refused(scroll, talk, store_path):
    talk("m1", "m2")
    scroll.rewind(KEY, "m1")
    before = contents(store_path)
    for target in ("m2", "never", ""):
        with pytest.raises(InvalidRequest):
            scroll.rewind(KEY, target)
    assert contents(store_path) == before


def test_switching_brings_the_resets_of_the_branch_along(scroll, talk):
    talk("m1", "m2")
    scroll.reset(KEY)
    talk("m3")
    scroll.reset(KEY, keep="m3")
    talk("m4")
    (whole,) = scroll.branches(KEY)
    scroll.append(KEY, "user", "x", message_id="b1", parent_id="m1")
    scroll.reset(KEY)
    scroll.append(KEY, "user", "x", message_id="b2")
    (branched, _) = scroll.branches(KEY)
    assert said(scroll) == ["b2"]
    scroll.switch_branch(KEY, whole.branch_id)
    assert said(scroll) == ["m3", "m4"]
    operator = Requester.operator()
    assert [m.message_id for m in scroll.history(KEY, requester=operator, message_id="m1").messages] == ["m1", "m2"]
    scroll.switch_branch(KEY, branched.branch_id)
    assert [m.message_id for m in scroll.history(KEY, requester=operator, message_id="m1").messages] == ["m1", "b1"]


def test_branches_are_those_of_the_current_transcript(scroll, talk):
    talk("m1", "m2")
    scroll.rewind(KEY, "m1")
    old = scroll.branches(KEY)
    scroll.reset(KEY, rotate=True)
    (only,) = scroll.branches(KEY)
    assert (only.head, only.depth, only.active) == (None, 0, True)
    with pytest.raises(InvalidRequest):
        scroll.switch_branch(KEY, old[0].branch_id)


@pytest.mark.parametrize("limit", [0, 2, 500])
def test_a_large_rewind_leaves_the_transcript_pending_with_the_path_still_findable(open_store, limit, operator):
    scroll = open_store(inline_reindex_limit=limit)
    scroll.ensure_session(KEY)
    scroll.append_many(KEY, [NewMessage("user", f"common word{n}", message_id=f"m{n}") for n in range(6)])
    (whole,) = scroll.branches(KEY)
    scroll.rewind(KEY, "m2")
    page = scroll.search("common", requester=operator)
    assert sorted(hit.message_id for hit in page.hits) == ["m0", "m1", "m2"]
    assert page.indexing == (limit < 3)
    assert scroll.verify().pending == (limit < 3)
    scroll.append(KEY, "user", "common fresh", message_id="n1")
    assert found(scroll, "fresh") == ["n1"]
    scroll.reindex()
    assert not scroll.search("common", requester=operator).indexing
    scroll.switch_branch(KEY, whole.branch_id)
    scroll.reindex()
    assert found(scroll, "common") == [f"m{n}" for n in range(6)]


# Resets.


def test_a_reset_says_where_it_lies_and_what_it_kept(scroll, talk):
    talk("m1", "m2", "m3")
    reset = scroll.reset(KEY, reason="idle", keep=2)
    assert (reset.reason, reset.after, reset.depth, reset.first_kept, reset.first_kept_depth, reset.kept) == (
        ResetReason.IDLE,
        "m3",
        3,
        "m2",
        2,
        2,
    )
    assert reset.previous_session_id is None


def test_a_reset_of_an_empty_session_lies_before_its_first_message(scroll, talk):
    reset = scroll.reset(KEY, keep=3)
    assert (reset.after, reset.depth, reset.first_kept) == (None, 0, None)
    talk("m1")
    assert said(scroll) == ["m1"]


def test_a_rotating_reset_starts_a_transcript_and_names_the_one_it_left(scroll, talk):
    first = scroll.ensure_session(KEY).session_id
    talk("m1")
    reset = scroll.reset(KEY, reason="daily", rotate=True, new_session_id="second")
    assert (reset.session_id, reset.previous_session_id, reset.reason) == ("second", first, ResetReason.DAILY)
    assert scroll.ensure_session(KEY).session_id == "second"
    assert said(scroll) == []
    assert found(scroll, "wordm1") == ["m1"]
    assert scroll.append(KEY, "user", "x").session_id == "second"


@pytest.mark.parametrize("keep", ["m1", "off", "never", -1, 1.5, True])
def test_what_cannot_be_kept_is_refused(scroll, talk, store_path, keep):
    talk("m1")
    scroll.reset(KEY)
    talk("m2", "off")
    scroll.rewind(KEY, "m2")
    before = contents(store_path)
    with pytest.raises(InvalidRequest):
        scroll.reset(KEY, keep=keep)
    assert contents(store_path) == before


# Deletion.


def test_a_deletion_removes_every_row_and_index_row(scroll, store_path):
    empty = contents(store_path)
    scroll.ensure_session(KEY)
    scroll.append_many(KEY, [NewMessage("user", f"secretword 北京 {n}", message_id=f"m{n}") for n in range(5)])
    scroll.rewind(KEY, "m2")
    scroll.reset(KEY, keep=1)
    scroll.reset(KEY, rotate=True)
    scroll.append(KEY, "user", "secretword again")
    assert scroll.delete_session(KEY)
    after = contents(store_path)
    for table in ("sessions", "transcripts", "messages", "branches", "resets", "pending", "message_index_docsize"):
        assert after[f"backscroll_{table}"] == empty[f"backscroll_{table}"] == []
    assert found(scroll, "secretword") == []
    with pytest.raises(SessionNotFound):
        said(scroll)
    assert not scroll.delete_session(KEY)


def test_a_deleted_session_stays_deleted_when_keys_and_ids_are_used_again(open_store, store_path):
    scroll = open_store(inline_reindex_limit=0)
    scroll.ensure_session("agent:main:s1")
    scroll.append_many("agent:main:s1", [NewMessage("user", "secretword", message_id=f"m{n}") for n in range(3)])
    scroll.rewind("agent:main:s1", "m1")
    assert scroll.verify().pending == 1
    scroll.delete_session("agent:main:s1")
    scroll.ensure_session("agent:main:s2")
    scroll.append("agent:main:s2", "user", "hello", message_id="m0")
    scroll.reindex()
    scroll.ensure_session("agent:main:s1")
    scroll.append("agent:main:s1", "user", "hello", message_id="m1")
    assert found(scroll, "secretword") == []
    after = contents(store_path)
    assert len(after["backscroll_message_index_docsize"]) == len(after["backscroll_messages"]) == 2
    assert after["backscroll_pending"] == []


def test_a_deletion_leaves_other_sessions_and_what_it_spawned(scroll, talk, operator):
    talk("m1")
    scroll.ensure_session("agent:main:child", spawned_by=KEY)
    scroll.append("agent:main:child", "user", "childword", message_id="c1")
    scroll.delete_session(KEY)
    assert found(scroll, "childword") == ["c1"]
    assert [one.session_key for one in scroll.sessions(requester=operator)] == ["agent:main:child"]


# Sessions.


def test_ensure_session_makes_what_the_key_says(scroll):
    session = scroll.ensure_session("agent:ada:subagent:7")
    assert (session.agent_id, session.kind, session.title, session.incognito) == (
        "ada",
        SessionKind.SUBAGENT,
        None,
        False,
    )
    assert (session.spawned_by, session.owner, dict(session.metadata)) == (None, None, {})
    assert session.created_at == session.updated_at
    assert scroll.ensure_session("agent:ada:subagent:7") == session


def test_ensure_session_takes_over_what_is_given_and_leaves_the_rest(scroll):
    scroll.ensure_session("room 7", agent_id="ada", kind="group", title="Room", owner=KEY, metadata={"a": [1, None]})
    session = scroll.ensure_session("room 7", title="Hall", spawned_by="agent:ada:main")
    assert (session.kind, session.title, session.owner, session.spawned_by, session.metadata) == (
        SessionKind.GROUP,
        "Hall",
        KEY,
        "agent:ada:main",
        {"a": [1, None]},
    )
    assert scroll.ensure_session("room 7", metadata={}).metadata == {}


@pytest.mark.parametrize("given", [{"agent_id": "bob"}, {"incognito": True}, {"agent_id": "bob", "title": "new"}])
def test_agent_and_incognito_never_change(scroll, store_path, given):
    scroll.ensure_session("room 7", agent_id="ada", title="Room")
    before = contents(store_path)
    with pytest.raises(InvalidRequest):
        scroll.ensure_session("room 7", **given)
    assert contents(store_path) == before


def test_sessions_are_listed_with_the_last_written_first(scroll, operator):
    for name in ("a", "b", "c"):
        scroll.ensure_session(f"agent:{name}:main", title=name)
    scroll.append("agent:a:main", "user", "x", message_id="m1")
    listed = scroll.sessions(requester=operator)
    assert [one.title for one in listed] == ["a", "c", "b"]
    assert [one.title for one in scroll.sessions(requester=operator, limit=1, offset=1)] == ["c"]
    scroll.edit("agent:a:main", "m1", "y")
    scroll.reset("agent:b:main")
    assert [one.title for one in scroll.sessions(requester=operator)] == ["b", "a", "c"]


def test_an_old_message_time_does_not_make_its_session_look_idle(scroll, operator):
    scroll.ensure_session("agent:a:main")
    scroll.ensure_session("agent:b:main")
    scroll.append("agent:a:main", "user", "x", created_at=at(-1e9))
    listed = scroll.sessions(requester=operator)
    assert [one.session_key for one in listed] == ["agent:a:main", "agent:b:main"]
    assert all(one.updated_at >= one.created_at for one in listed)


def test_metadata_of_a_message_is_kept(scroll, talk):
    data = {"model": "x", "nested": {"list": [1, 2.5, True, None, "ü\ud83d"]}}
    stored = scroll.append(KEY, "user", "hello", message_id="m1", metadata=data)
    assert stored.metadata == {"model": "x", "nested": {"list": [1, 2.5, True, None, "ü\ufffd"]}}
    assert scroll.append(KEY, "user", "hello", message_id="m1") == stored


def test_an_incognito_session_is_stored_and_read_by_itself_alone(scroll, operator, store_path):
    scroll.ensure_session(KEY, incognito=True)
    scroll.append(KEY, "user", "heliotrope", message_id="m1")
    scroll.edit(KEY, "m1", "heliotrope 北京")
    scroll.append(KEY, "user", "heliotrope", message_id="m2")
    scroll.rewind(KEY, "m1")
    scroll.reindex()
    scroll.repair()
    assert said(scroll) == ["m1"]
    for requester in (operator, Requester(KEY), Requester("agent:main:other")):
        page = scroll.search("heliotrope", requester=requester)
        assert (page.hits, page.indexing, page.truncated) == ((), False, False)
    assert scroll.sessions(requester=operator) == []
    with pytest.raises(SessionNotFound):
        scroll.history(KEY, requester=operator)
    assert contents(store_path)["backscroll_message_index_docsize"] == []


# Text that needs care.


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
