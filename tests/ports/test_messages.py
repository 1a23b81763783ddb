"""What every store promises through its ports: messages, branches, resets, and reading along a path."""

from dataclasses import replace
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll import (
    AttachmentPart,
    Branch,
    Message,
    ReasoningPart,
    Reset,
    ResetReason,
    Role,
    Session,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from backscroll.domain.paths import Anchor, Stretch, window
from backscroll.domain.ports import UnitOfWork
from backscroll.domain.visibility import Scope
from tests.factories import MessageFactory, ResetFactory, SessionFactory
from tests.ports.repositories import (
    EVERYTHING,
    METADATA,
    NAMES,
    NUMBERS,
    TEXT,
    TIMES,
    extended,
    named,
    path,
    shown,
    stored,
)

PARTS = st.lists(
    st.one_of(
        st.builds(TextPart, TEXT),
        st.builds(ReasoningPart, TEXT),
        st.builds(ToolCallPart, TEXT, TEXT, st.none() | TEXT),
        st.builds(ToolResultPart, TEXT, st.none() | TEXT, st.none() | TEXT, st.booleans()),
        st.builds(AttachmentPart, TEXT, st.none() | TEXT, st.none() | TEXT),
    ),
    min_size=1,
    max_size=5,
).map(tuple)


@settings(max_examples=80)
@given(name=NAMES, role=st.sampled_from(Role), parts=PARTS, created_at=TIMES, metadata=METADATA, edited=PARTS)
def test_every_field_of_a_message_comes_back(store, edited, name, **fields):
    session_id = stored(store).session_id
    one = Message(message_id=name, session_id=session_id, **fields)
    (first, second) = extended(store, session_id, MessageFactory.build(message_id=f"before {name}"), one)
    assert second == replace(one, parent_id=first.message_id, depth=2, active=True)
    with store.reading() as unit:
        assert unit.messages.find(session_id, name) == second
        assert unit.messages.known(session_id, [name, "never", first.message_id]) == {
            name: second,
            first.message_id: first,
        }
        line = unit.messages.line(session_id)
        assert (line.branch.head, line.branch.depth) == (name, 2)
        assert unit.messages.older(session_id, Stretch(1, 2), 3, 1, tools=True) == shown([second])
    changed = replace(second, parts=edited)
    with store.writing() as unit:
        unit.messages.replace(changed)
        unit.commit()
    with store.reading() as unit:
        assert unit.messages.find(session_id, name) == changed


def test_find_is_within_a_transcript(store, session):
    other = stored(store)
    extended(store, session.session_id, *named("m1"))
    with store.reading() as unit:
        assert unit.messages.find(other.session_id, "m1") is None
        assert unit.messages.find(session.session_id, "M1") is None
        assert unit.messages.known(session.session_id, []) == {}


def test_extending_a_branch_off_the_path_stores_inactive_messages(store, session):
    extended(store, session.session_id, *named("m1", "m2"))
    with store.writing() as unit:
        side = unit.messages.branch_ending_at(session.session_id, "m1")
        assert (side.head, side.depth, side.active) == ("m1", 1, False)
        (one,) = unit.messages.extend(side, named("s2"))
        assert (one.parent_id, one.depth, one.active) == ("m1", 2, False)
        unit.commit()
    assert path(store, session.session_id) == ["m1", "m2"]
    with store.reading() as unit:
        assert [(one.head, one.depth, one.active) for one in unit.messages.branches(session.session_id)] == [
            ("m2", 2, True),
            ("s2", 2, False),
        ]


def test_a_branch_ending_somewhere_is_made_once(store, session):
    extended(store, session.session_id, *named("m1", "m2"))
    with store.writing() as unit:
        one = unit.messages.branch_ending_at(session.session_id, "m1")
        assert unit.messages.branch_ending_at(session.session_id, "m1") == one
        whole = unit.messages.branch_ending_at(session.session_id, "m2")
        assert (whole.active, whole.head) == (True, "m2")
        root = unit.messages.branch_ending_at(session.session_id, None)
        assert (root.head, root.depth, root.active) == (None, 0, False)
        unit.commit()


def test_activating_a_branch_moves_the_path_and_its_resets(store, session):
    session_id = session.session_id
    extended(store, session_id, *named("m1", "m2"))
    with store.writing() as unit:
        reset = unit.messages.add_reset(ResetFactory.build(session_id=session_id))
        unit.messages.extend(unit.messages.line(session_id).branch, named("m3"))
        whole = unit.messages.line(session_id).branch
        branch = unit.messages.activate(unit.messages.branch_ending_at(session_id, "m1"))
        assert branch.active
        line = unit.messages.line(session_id)
        assert (line.branch.head, line.reset) == ("m1", None)
        assert not unit.messages.find(session_id, "m3").active
        assert resets_around(unit, session, "m1") == (None, None)
        unit.messages.activate(whole)
        line = unit.messages.line(session_id)
        assert (line.branch.head, line.reset) == ("m3", reset)
        assert resets_around(unit, session, "m1") == (None, 2)
        assert resets_around(unit, session, "m3") == (2, None)
        unit.commit()
    assert path(store, session_id) == ["m1", "m2", "m3"]


def resets_around(unit: UnitOfWork, session: Session, message_id: str) -> tuple[int | None, int | None]:
    """The depths of the resets before and behind a message."""
    position = unit.messages.position(session.session_key, None, message_id, EVERYTHING)
    assert position is not None
    return tuple(one and one.depth for one in (position.previous, position.closing))


def test_a_position_is_that_of_a_visible_transcript_and_an_active_message(store, session):
    extended(store, session.session_id, *named("m1", "m2"))
    own, other = Scope(own_key=session.session_key), Scope(own_key="agent:main:other")
    with store.writing() as unit:
        reset = unit.messages.add_reset(ResetFactory.build(session_id=session.session_id, first_kept="m2"))
        unit.messages.extend(unit.messages.line(session.session_id).branch, named("m3"))
        unit.messages.activate(unit.messages.branch_ending_at(session.session_id, "m2"))
        for session_id in (None, session.session_id):
            at = partial(unit.messages.position, session.session_key, session_id)
            found = at("m1", own)
            assert (found.session_id, found.head_depth, found.anchor) == (session.session_id, 2, Anchor(1, Role.USER))
            assert found.latest.depth == reset.depth == 2
            assert (found.latest.first_kept_depth, found.latest.kept) == (2, 1)
            assert found.stretch() == Stretch(1, 2)
            assert at("m2", own).stretch() == at(None, own).stretch() == Stretch(2, 2, kept_until=2, kept=1)
            assert at("m3", own).anchor is None
            assert at("never", own).anchor is None
            assert at("m1", other) is None
        assert unit.messages.position(session.session_key, "never", "m1", own) is None


@settings(max_examples=20)
@given(branch_time=TIMES, branch_id=NAMES)
def test_every_field_of_a_branch_comes_back(store, branch_time, branch_id):
    number = next(NUMBERS)
    one = SessionFactory.build(
        session_key=f"agent:main:branch{number}", session_id=f"branch{number}", created_at=branch_time
    )
    with store.writing() as unit:
        unit.sessions.add(one, branch_id=branch_id)
        unit.commit()
    (message,) = extended(store, one.session_id, MessageFactory.build())
    expected = Branch(
        branch_id=branch_id,
        session_id=one.session_id,
        head=message.message_id,
        depth=1,
        active=True,
        created_at=branch_time,
    )
    with store.reading() as unit:
        assert unit.messages.branches(one.session_id) == [expected]
        assert unit.messages.line(one.session_id).branch == expected


@settings(max_examples=40)
@given(
    reset_id=NAMES,
    reason=st.sampled_from(ResetReason),
    created_at=TIMES,
    roles=st.lists(st.sampled_from(Role), max_size=6),
    kept=st.none() | st.integers(0, 5),
)
def test_every_field_of_a_reset_comes_back(store, reset_id, reason, created_at, roles, kept):
    session_id = stored(store).session_id
    names = [f"m{place}" for place in range(len(roles))]
    if names:
        extended(
            store, session_id, *[MessageFactory.build(message_id=n, role=r) for n, r in zip(names, roles, strict=True)]
        )
    first = None if kept is None or kept >= len(names) else kept
    with store.writing() as unit:
        given_reset = Reset(
            reset_id=reset_id,
            session_id=session_id,
            reason=reason,
            created_at=created_at,
            first_kept=None if first is None else names[first],
        )
        found = unit.messages.add_reset(given_reset)
        unit.commit()
    spoken = [] if first is None else [role for role in roles[first:] if role in (Role.USER, Role.ASSISTANT)]
    assert found == replace(
        given_reset,
        after=names[-1] if names else None,
        depth=len(names),
        first_kept_depth=None if first is None else first + 1,
        kept=len(spoken),
        active=True,
    )
    with store.reading() as unit:
        assert unit.messages.line(session_id).reset == found
        assert unit.messages.reset_known(session_id, reset_id)
        assert not unit.messages.reset_known(session_id, reset_id + "x")


@settings(max_examples=40)
@given(
    roles=st.lists(st.sampled_from(Role), min_size=1, max_size=9),
    first=st.integers(1, 9),
    length=st.integers(0, 9),
    kept_length=st.integers(0, 4),
    place=st.integers(1, 9),
    limit=st.integers(1, 5),
    offset=st.integers(0, 3),
    tools=st.booleans(),
)
def test_ranges_of_a_stretch_are_those_of_a_list(store, roles, first, length, kept_length, place, limit, offset, tools):
    session_id = stored(store).session_id
    messages = shown(extended(store, session_id, *[MessageFactory.build(role=role) for role in roles]))
    first, last = min(first, len(roles)), min(first + length, len(roles))
    kept_until = min(first + kept_length - 1, last) if kept_length else 0
    kept = [one for one in messages[first - 1 : kept_until] if one.role in (Role.USER, Role.ASSISTANT)]
    stretch = Stretch(first, last, kept_until=kept_until, kept=len(kept))
    held = [one for one in messages if stretch.holds(one.depth, one.role)]
    seen = [one for one in held if tools or one.role is not Role.TOOL]
    spoken = [one for one in held if one.role in (Role.USER, Role.ASSISTANT)]
    with store.reading() as unit:
        older = [one for one in seen if one.depth < place]
        end = max(len(older) - offset, 0)
        assert (
            unit.messages.older(session_id, stretch, place, limit, tools=tools, offset=offset)
            == older[max(end - limit, 0) : end]
        )
        for anchor in held:
            older, newer = (
                [one for one in seen if one.depth < anchor.depth],
                [one for one in seen if one.depth > anchor.depth],
            )
            taken, behind = window(limit, len(older), len(newer))
            page = [*older[len(older) - taken :], *(one for one in seen if one == anchor), *newer[:behind]]
            found = unit.messages.around(session_id, stretch, Anchor(anchor.depth, anchor.role), limit, tools=tools)
            place = page.index(anchor) if anchor in page else min(taken, len(page) - 1)
            assert found == (page, len(older) > taken, place)
        assert unit.messages.count(session_id, stretch, tools=tools) == len(seen)
        nth = unit.messages.nth_spoken(session_id, stretch, limit)
        assert nth == (spoken[max(len(spoken) - limit, 0)] if spoken else None)


def test_many_messages_are_known_whatever_the_order_of_their_ids(store):
    session_id = stored(store).session_id
    names = [f"{letter}{number}" for letter in ("m", "é", "\U0001f600", "a") for number in range(30)]
    with store.writing() as unit:
        line = unit.messages.line(session_id)
        unit.messages.extend(
            line.branch, [MessageFactory.build(session_id=session_id, message_id=name) for name in names[:60]]
        )
        assert set(unit.messages.known(session_id, names)) == set(names[:60])
        assert set(unit.messages.known(session_id, names[60:])) == set()
        assert set(unit.messages.known(session_id, names[30:90])) == set(names[30:60])
        unit.commit()
