"""Reopening: every row of the history table, and pages against a plain list."""

from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll import (
    Backscroll,
    HistoryPage,
    InvalidRequest,
    NewMessage,
    Requester,
    SessionMismatch,
    SessionNotFound,
    ToolResultPart,
)
from tests.factories import at

KEY = "agent:main:main"


def ids(page: HistoryPage) -> list[str]:
    return [message.message_id for message in page.messages]


def say(scroll: Backscroll, *names: str, key: str = KEY) -> None:
    """One message for each name; the name's first letter tells the role (t: tool, s: system)."""
    roles = {"u": "user", "a": "assistant", "t": "tool", "s": "system"}
    scroll.append_many(key, [NewMessage(roles[name[0]], f"text of {name}", message_id=name) for name in names])


@pytest.fixture
def talk(scroll: Backscroll, operator: Requester):
    """A session, and a way to read it."""
    scroll.ensure_session(KEY)

    def read(**asked: object) -> HistoryPage:
        return scroll.history(KEY, requester=operator, **asked)

    return read


# No message id.


def test_without_an_anchor_the_newest_messages_of_the_current_view_come_oldest_first(scroll, talk):
    say(scroll, "u1", "a1", "u2", "a2", "u3")
    page = talk(limit=2)
    assert ids(page) == ["a2", "u3"]
    assert (page.total, page.has_more, page.next_offset) == (5, True, 2)
    assert [message.text for message in page.messages] == ["text of a2", "text of u3"]
    assert ids(talk()) == ["u1", "a1", "u2", "a2", "u3"]


def test_an_empty_session_gives_an_empty_page(talk):
    page = talk()
    assert (ids(page), page.total, page.has_more, page.next_offset) == ([], 0, False, None)


def test_the_current_view_begins_behind_the_latest_reset(scroll, talk):
    say(scroll, "u1", "a1")
    scroll.reset(KEY)
    assert ids(talk()) == []
    say(scroll, "u2", "a2")
    assert ids(talk()) == ["u2", "a2"]
    assert talk().total == 2


def test_a_kept_message_stays_in_view_with_what_users_and_assistants_said_after_it(scroll, talk):
    say(scroll, "u1", "a1", "u2", "t2", "s2", "a2")
    scroll.reset(KEY, keep="u2")
    say(scroll, "s3", "u3")
    assert ids(talk(include_tools=True)) == ["u2", "a2", "s3", "u3"]
    assert talk(include_tools=True).total == talk().total == 4


def test_a_reset_keeps_a_count_of_user_and_assistant_messages(scroll, talk):
    say(scroll, "u1", "a1", "u2", "t2", "a2")
    assert scroll.reset(KEY, keep=2).first_kept == "u2"
    assert ids(talk()) == ["u2", "a2"]
    scroll.reset(KEY, keep=100)
    assert ids(talk()) == ["u2", "a2"]
    scroll.reset(KEY, keep=0)
    assert ids(talk()) == []


def test_offset_counts_from_the_newest(scroll, talk):
    say(scroll, "u1", "a1", "u2", "a2", "u3")
    page = talk(limit=2, offset=2)
    assert (ids(page), page.next_offset) == (["a1", "u2"], 4)
    last = talk(limit=2, offset=4)
    assert (ids(last), last.has_more, last.next_offset) == (["u1"], False, None)
    assert ids(talk(limit=2, offset=99)) == []


def test_before_gives_the_messages_older_than_one(scroll, talk):
    say(scroll, "u1", "a1", "u2", "a2", "u3")
    page = talk(limit=2, before="a2")
    assert (ids(page), page.has_more, page.next_offset) == (["a1", "u2"], True, None)
    first = talk(limit=2, before="a1")
    assert (ids(first), first.has_more) == (["u1"], False)
    assert ids(talk(before="u1")) == []


def test_before_stays_inside_the_view_or_interval_of_its_message(scroll, talk):
    say(scroll, "u1", "a1")
    scroll.reset(KEY)
    say(scroll, "u2", "a2")
    assert ids(talk(before="a2")) == ["u2"]
    assert ids(talk(before="a1")) == ["u1"]


def test_before_a_message_off_the_path_or_unknown_is_an_empty_page(scroll, talk):
    say(scroll, "u1", "a1", "u2")
    scroll.rewind(KEY, "a1")
    assert ids(talk(before="u2")) == ids(talk(before="never")) == []


# A message in the current view.


@pytest.mark.parametrize(
    ("anchor", "limit", "expected"),
    [
        ("m5", 1, "m5"),
        ("m5", 2, "m5 m6"),
        ("m5", 3, "m4 m5 m6"),
        ("m5", 4, "m4 m5 m6 m7"),
        ("m1", 4, "m1 m2 m3 m4"),
        ("m9", 4, "m6 m7 m8 m9"),
        ("m8", 5, "m5 m6 m7 m8 m9"),
        ("m5", 40, "m1 m2 m3 m4 m5 m6 m7 m8 m9"),
    ],
)
def test_around_is_half_newer_the_rest_older_and_full_at_either_end(scroll, talk, anchor, limit, expected):
    scroll.append_many(KEY, [NewMessage("user", "x", message_id=f"m{number}") for number in range(1, 10)])
    page = talk(message_id=anchor, limit=limit)
    assert ids(page) == expected.split()
    assert (page.total, page.next_offset) == (9, None)
    assert page.has_more == (expected.split()[0] != "m1")


def test_around_a_kept_message_shows_the_current_view_and_later_turns(scroll, talk):
    say(scroll, "u1", "a1", "u2", "a2")
    scroll.reset(KEY, keep="u2")
    say(scroll, "u3", "a3")
    assert ids(talk(message_id="u2", limit=2)) == ["u2", "a2"]
    assert ids(talk(message_id="a2", limit=3)) == ["u2", "a2", "u3"]
    assert ids(talk(message_id="u2")) == ["u2", "a2", "u3", "a3"]


def test_a_message_that_two_resets_kept_is_in_the_current_view(scroll, talk):
    say(scroll, "u1", "a1")
    scroll.reset(KEY, keep="a1")
    say(scroll, "u2")
    scroll.reset(KEY, keep="a1")
    say(scroll, "u3")
    assert ids(talk()) == ids(talk(message_id="a1")) == ["a1", "u2", "u3"]
    assert ids(talk(message_id="u1")) == ["u1", "a1"]


# A message of the active path outside the current view.


def test_around_a_message_of_a_closed_interval_shows_nothing_from_after_its_reset(scroll, talk):
    say(scroll, "u1", "a1", "u2")
    scroll.reset(KEY)
    say(scroll, "u3", "a3")
    scroll.reset(KEY)
    say(scroll, "u4")
    page = talk(message_id="u2", limit=40)
    assert (ids(page), page.total) == (["u1", "a1", "u2"], 3)
    assert ids(talk(message_id="u3")) == ["u3", "a3"]
    assert ids(talk(message_id="a1", limit=2)) == ["a1", "u2"]


def test_what_a_reset_kept_belongs_to_its_interval_once_a_later_reset_dropped_it(scroll, talk):
    say(scroll, "u1", "a1")
    scroll.reset(KEY, keep="a1")
    say(scroll, "u2")
    scroll.reset(KEY)
    assert ids(talk(message_id="a1")) == ["u1", "a1"]
    assert ids(talk(message_id="u2")) == ["u2"]


def test_resets_that_follow_each_other_leave_empty_intervals(scroll, talk):
    scroll.reset(KEY)
    say(scroll, "u1")
    scroll.reset(KEY)
    scroll.reset(KEY)
    say(scroll, "u2")
    assert ids(talk()) == ["u2"]
    assert ids(talk(message_id="u1")) == ["u1"]


# Off the active path, not existing, wrong ids.


def test_a_message_off_the_active_path_gives_an_empty_page(scroll, talk):
    say(scroll, "u1", "a1", "u2")
    scroll.rewind(KEY, "a1")
    page = talk(message_id="u2")
    assert (ids(page), page.total, page.has_more) == ([], 0, False)


def test_a_message_that_does_not_exist_gives_an_empty_page(scroll, talk):
    say(scroll, "u1")
    assert ids(talk(message_id="never")) == []


def test_a_session_id_of_another_key_is_a_mismatch(scroll, talk, operator):
    other = scroll.ensure_session("agent:main:other")
    say(scroll, "u1")
    with pytest.raises(SessionMismatch):
        talk(session_id=other.session_id)
    with pytest.raises(SessionMismatch):
        talk(session_id="never", message_id="u1")


def test_an_unknown_key_and_a_session_id_for_a_key_are_not_found(scroll, talk, operator):
    session = scroll.ensure_session(KEY)
    for key in ("agent:main:never", session.session_id, KEY.upper(), KEY + " "):
        with pytest.raises(SessionNotFound):
            scroll.history(key, requester=operator)


def test_message_id_with_an_offset_is_refused_and_offset_zero_is_not(scroll, talk):
    say(scroll, "u1", "a1")
    with pytest.raises(InvalidRequest):
        talk(message_id="u1", offset=1)
    assert ids(talk(message_id="u1", offset=0)) == ["u1", "a1"]


@pytest.mark.parametrize(
    "asked",
    [
        {"before": "u1", "message_id": "u1"},
        {"before": "u1", "offset": 1},
        {"limit": 0},
        {"limit": -1},
        {"limit": 201},
        {"limit": True},
        {"limit": "5"},
        {"offset": -1},
        {"offset": 2**31 + 1},
        {"message_id": ""},
        {"message_id": "x" * 257},
        {"session_id": ""},
        {"session_id": "a\x00b"},
        {"before": 7},
    ],
)
def test_a_page_that_cannot_be_is_refused(scroll, talk, asked):
    say(scroll, "u1")
    with pytest.raises(InvalidRequest):
        talk(**asked)


def test_the_limits_bounds_themselves_are_allowed(scroll, talk):
    scroll.append_many(KEY, [NewMessage("user", "x") for _ in range(205)])
    assert len(talk(limit=200).messages) == 200
    assert len(talk(limit=1).messages) == 1
    assert len(talk().messages) == 40


# Tools between.


def test_tool_messages_are_left_out_before_the_limit_is_applied(scroll, talk):
    say(scroll, "u1", "t1", "t2", "t3", "a1", "t4", "u2")
    page = talk(limit=2)
    assert (ids(page), page.total, page.has_more) == (["a1", "u2"], 3, True)
    assert ids(talk(limit=2, include_tools=True)) == ["t4", "u2"]
    assert talk(include_tools=True).total == 7
    assert ids(talk(message_id="a1", limit=3)) == ["u1", "a1", "u2"]
    assert ids(talk(message_id="a1", limit=3, include_tools=True)) == ["t3", "a1", "t4"]
    assert ids(talk(message_id="t2", limit=3, include_tools=True)) == ["t1", "t2", "t3"]
    assert ids(talk(before="t4", limit=2)) == ["u1", "a1"]


def test_a_tool_message_as_anchor_shows_its_neighbours_when_tools_are_left_out(scroll, talk):
    say(scroll, "u1", "a1", "t1", "u2", "a2")
    assert ids(talk(message_id="t1", limit=3)) == ["a1", "u2"]


def test_a_tool_message_from_before_a_reset_that_kept_its_neighbours_lies_in_its_interval(scroll, talk):
    say(scroll, "u1", "t1", "a1")
    scroll.reset(KEY, keep="u1")
    say(scroll, "u2")
    assert ids(talk(message_id="t1", include_tools=True)) == ["u1", "t1", "a1"]
    assert ids(talk(message_id="u1", include_tools=True)) == ["u1", "a1", "u2"]


# Transcripts left behind.


def test_a_rotated_transcript_is_read_by_its_session_id_and_by_the_same_rules(scroll, talk):
    old = scroll.ensure_session(KEY).session_id
    say(scroll, "u1", "a1")
    scroll.reset(KEY)
    say(scroll, "u2", "t2", "a2")
    scroll.reset(KEY, rotate=True, new_session_id="second")
    say(scroll, "u3")
    assert ids(talk()) == ["u3"]
    assert talk().session_id == "second"
    assert ids(talk(session_id=old)) == ["u2", "a2"]
    assert ids(talk(session_id=old, message_id="u1")) == ["u1", "a1"]
    assert ids(talk(session_id=old, message_id="a2", limit=1)) == ["a2"]
    assert ids(talk(session_id=old, before="a2")) == ["u2"]
    assert ids(talk(session_id=old, limit=1, offset=1)) == ["u2"]
    assert ids(talk(session_id=old, message_id="u3")) == ids(talk(message_id="u1")) == []
    with pytest.raises(InvalidRequest):
        talk(session_id=old, message_id="u1", offset=2)


# Faults that people met elsewhere.


def test_a_hit_from_before_a_reset_opens_in_its_old_interval(scroll, talk, operator):
    s1 = scroll.ensure_session(KEY).session_id
    scroll.append(KEY, "user", "cobalt plan", message_id="u1")
    scroll.append(KEY, "assistant", "noted", message_id="a1")
    scroll.append(KEY, "tool", [ToolResultPart("done")], message_id="t1")
    scroll.reset(KEY)
    say(scroll, "u2", "a2")
    s2 = scroll.reset(KEY, rotate=True).session_id
    scroll.ensure_session("agent:main:other")
    (hit,) = scroll.search("cobalt", requester=operator).hits
    assert (hit.session_key, hit.session_id, hit.message_id) == (KEY, s1, "u1")
    for offset in ({}, {"offset": 0}):
        page = talk(session_id=hit.session_id, message_id=hit.message_id, limit=2, **offset)
        assert ids(page) == ["u1", "a1"]
    assert ids(talk(session_id=s1, message_id="u1", include_tools=True)) == ["u1", "a1", "t1"]
    assert ids(talk(session_id=s2, message_id="u1")) == []
    with pytest.raises(SessionMismatch):
        scroll.history("agent:main:other", requester=operator, session_id=s1, message_id="u1")


def test_what_a_reset_closed_stays_closed(scroll, talk):
    # A compaction is a system message to us: what it keeps changes nothing that a reset closed.
    say(scroll, "u1", "a1", "s0")
    scroll.reset(KEY)
    say(scroll, "u2", "s1", "u3")
    assert ids(talk(limit=100)) == ["u2", "s1", "u3"]
    scroll.reset(KEY)
    assert ids(talk(limit=100)) == []
    say(scroll, "u4")
    assert ids(talk(limit=100)) == ["u4"]


def test_order_is_that_of_insertion_when_the_clock_goes_backwards(scroll, talk, operator):
    times = [at(0), at(1), at(0.5), at(0.5), at(-3600), None]
    for number, time in enumerate(times, 1):
        role = "tool" if number == 3 else "user"
        scroll.append(KEY, role, f"slate {number}", message_id=f"m{number}", created_at=time)
    everything = [f"m{number}" for number in range(1, 7)]
    assert ids(talk(include_tools=True)) == everything
    assert ids(talk(message_id="m3", limit=5, include_tools=True)) == everything[:5]
    newest = [hit.message_id for hit in scroll.search("slate", requester=operator, order="newest").hits]
    assert newest == ["m6", "m2", "m4", "m1", "m5"]
    assert newest == [hit.message_id for hit in scroll.search("slate", requester=operator, order="newest").hits]


# Against a plain list.


@dataclass
class Oracle:
    """The active path as a plain list: messages as (id, role, interval), and what the latest reset kept."""

    path: list[tuple[str, str, int]] = field(default_factory=list)
    interval: int = 0
    kept: set[str] = field(default_factory=set)
    resets_at: int = 0

    def view(self) -> list[tuple[str, str]]:
        return [(name, role) for name, role, interval in self.path if interval == self.interval or name in self.kept]

    def stretch(self, anchor: str) -> list[tuple[str, str]]:
        """What an anchor is read in."""
        if any(name == anchor for name, _ in self.view()):
            return self.view()
        (home,) = [interval for name, _, interval in self.path if name == anchor]
        return [(name, role) for name, role, interval in self.path if interval == home]

    def around(self, anchor: str, limit: int, tools: bool) -> list[str]:
        shown = [name for name, role in self.stretch(anchor) if tools or role != "tool"]
        at = shown.index(anchor)
        # The first full window that has at most limit // 2 newer ones, shifted at either end.
        first = max(0, min(at - (limit - 1 - limit // 2), len(shown) - limit))
        return shown[first : first + limit]


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.lists(st.sampled_from(["user", "assistant", "tool", "system"]), min_size=1)),
        st.tuples(st.just("reset"), st.none() | st.integers(0, 6)),
        st.tuples(st.just("keep"), st.integers(0, 30)),
        st.tuples(st.just("rewind"), st.integers(0, 4)),
    ),
    max_size=12,
)
KEYS = count()


def play(scroll: Backscroll, key: str, actions: list[tuple[str, object]]) -> Oracle:
    oracle = Oracle()
    scroll.ensure_session(key)
    names = count(1)
    for action, what in actions:
        if action == "say":
            new = [NewMessage(role, f"word {role}", message_id=f"m{next(names)}") for role in what]
            scroll.append_many(key, new)
            oracle.path += [(one.message_id, one.role, oracle.interval) for one in new]
        elif action == "reset":
            spoken = [name for name, role in oracle.view() if role in ("user", "assistant")]
            scroll.reset(key, keep=what)
            oracle.kept = set(spoken[-what:]) if what else set()
            oracle.interval += 1
        elif action == "keep" and oracle.view():
            view = oracle.view()
            first = what % len(view)
            scroll.reset(key, keep=view[first][0])
            oracle.kept = {name for name, role in view[first:] if role in ("user", "assistant")}
            oracle.interval += 1
        elif action == "rewind":
            open_ones = [name for name, _, interval in oracle.path if interval == oracle.interval]
            if what < len(open_ones):
                scroll.rewind(key, open_ones[-1 - what])
                del oracle.path[len(oracle.path) - what :]
    return oracle


@settings(max_examples=40)
@given(actions=ACTIONS, limit=st.integers(1, 7), offset=st.integers(0, 9), tools=st.booleans())
def test_pages_are_those_of_a_plain_list(module_scroll, operator, actions, limit, offset, tools):
    key = f"agent:main:list{next(KEYS)}"
    oracle = play(module_scroll, key, actions)
    shown = [name for name, role in oracle.view() if tools or role != "tool"]

    def read(**asked: object) -> HistoryPage:
        return module_scroll.history(key, requester=operator, limit=limit, include_tools=tools, **asked)

    end = max(len(shown) - offset, 0)
    page = read(offset=offset)
    assert ids(page) == shown[max(end - limit, 0) : end]
    assert page.total == len(shown)
    assert page.has_more == (end > limit)
    for name, role, _ in oracle.path:
        stretch = oracle.stretch(name)
        visible = [one for one, its in stretch if tools or its != "tool"]
        if tools or role != "tool":
            page = read(message_id=name)
            assert ids(page) == oracle.around(name, limit, tools)
            assert page.has_more == (ids(page)[0] != visible[0])
            assert page.total == len(visible)
        place = [one for one, _ in stretch].index(name)
        older = [one for one, its in stretch[:place] if tools or its != "tool"]
        assert ids(read(before=name)) == older[-limit:]


@settings(max_examples=20)
@given(actions=ACTIONS, limit=st.integers(1, 5), tools=st.booleans())
def test_walking_back_page_by_page_gives_each_message_once(module_scroll, operator, actions, limit, tools):
    key = f"agent:main:walk{next(KEYS)}"
    oracle = play(module_scroll, key, actions)
    shown = [name for name, role in oracle.view() if tools or role != "tool"]

    def read(**asked: object) -> HistoryPage:
        return module_scroll.history(key, requester=operator, limit=limit, include_tools=tools, **asked)

    by_offset: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = read(offset=offset)
        by_offset = ids(page) + by_offset
        offset = page.next_offset
    assert by_offset == shown

    by_before: list[str] = []
    page = read()
    by_before = ids(page)
    while page.has_more:
        module_scroll.append(key, "user", "meanwhile")
        page = read(before=by_before[0])
        by_before = ids(page) + by_before
    assert by_before == shown
