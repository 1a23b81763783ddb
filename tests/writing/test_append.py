"""Writing: appends and edits."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from backscroll import (
    MessageConflict,
    NewMessage,
    ReasoningPart,
    TextPart,
)
from tests.factories import NewMessageFactory, at
from tests.writing.stores import KEY, contents, found, said


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
