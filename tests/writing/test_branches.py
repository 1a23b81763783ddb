"""Writing: rewinds, branches, and resets."""

import pytest

from backscroll import (
    InvalidRequest,
    NewMessage,
    Requester,
    ResetReason,
    RewindAcrossReset,
)
from tests.writing.stores import KEY, contents, found, said


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
