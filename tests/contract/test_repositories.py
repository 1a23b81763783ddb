"""What every store promises through its ports, whether on an engine of its own or inside a host's transaction."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import event

from backscroll import (
    AttachmentPart,
    Branch,
    Message,
    ReasoningPart,
    Reset,
    ResetReason,
    Role,
    Session,
    SessionKind,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Transcript,
)
from backscroll.domain.model import PathMessage
from backscroll.domain.paths import Anchor, Stretch, window
from backscroll.domain.ports import SearchRequest, Store, UnitOfWork
from backscroll.domain.query import Match, Order, Query
from backscroll.domain.visibility import Scope, Tree
from backscroll.infrastructure.engine import create_engine
from backscroll.infrastructure.store import ConnectionStore, EngineStore
from tests.factories import OPTIONS, MessageFactory, ResetFactory, SessionFactory, TranscriptFactory, agent_stores, at

NUMBERS = count(1)
EVERYTHING = Scope(own_key=None, everything=True)


@pytest.fixture(scope="module", params=["engine", "listened", "connection", "agent"])
def store(
    request: pytest.FixtureRequest, empty_store: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    """A store for a whole module; each test uses sessions of its own. One has somebody listen to its statements."""
    folder = tmp_path_factory.mktemp("contract")
    path = folder / "store.db"
    shutil.copyfile(empty_store, path)
    if request.param == "agent":
        stores = agent_stores(folder)
        yield stores.making("agent:main:main", None)
        stores.close()
        return
    if request.param in ("engine", "listened"):
        engine = create_engine(f"sqlite:///{path}", busy_timeout=5, synchronous="NORMAL")
        if request.param == "listened":
            event.listen(engine, "before_cursor_execute", lambda *_: None)
        yield EngineStore(engine, OPTIONS)
    else:
        engine = sa.create_engine(f"sqlite:///{path}")
        with engine.connect() as connection:
            yield ConnectionStore(lambda: connection, OPTIONS)
            connection.rollback()
    engine.dispose()


@pytest.fixture
def session(store: Store) -> Session:
    """A stored session."""
    return stored(store)


def stored(store: Store, **fields: object) -> Session:
    number = next(NUMBERS)
    one = SessionFactory.build(
        **{"session_key": f"agent:main:contract{number}", "session_id": f"contract{number}", **fields}
    )
    with store.writing() as unit:
        unit.sessions.add(one, branch_id=f"first{number}")
        unit.commit()
    return one


def extended(store: Store, session_id: str, *messages: Message) -> list[Message]:
    with store.writing() as unit:
        line = unit.messages.line(session_id)
        found = unit.messages.extend(line.branch, [replace(one, session_id=session_id) for one in messages])
        unit.commit()
    return found


def shown(messages: list[Message]) -> list[PathMessage]:
    """Messages as readers of a path are shown them."""
    return [PathMessage(one.message_id, one.depth, one.role, one.parts, one.created_at) for one in messages]


def named(*names: str, **fields: object) -> list[Message]:
    return [MessageFactory.build(message_id=name, **fields) for name in names]


def path(store: Store, session_id: str) -> list[str]:
    with store.reading() as unit:
        line = unit.messages.line(session_id)
        found = unit.messages.older(session_id, Stretch(1, line.branch.depth), 1_000_000, 1_000, tools=True)
    return [one.message_id for one in found]


# A unit of work.


def test_a_unit_of_work_rolls_back_unless_it_is_committed(store, session):
    with store.writing() as unit:
        unit.messages.extend(unit.messages.line(session.session_id).branch, named("m1"))
    assert path(store, session.session_id) == []

    def failing() -> None:
        with store.writing() as unit:
            unit.messages.extend(unit.messages.line(session.session_id).branch, named("m1"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert path(store, session.session_id) == []


def test_a_unit_of_work_sees_what_it_wrote_itself(store, session):
    with store.writing() as unit:
        unit.messages.extend(unit.messages.line(session.session_id).branch, named("m1"))
        line = unit.messages.line(session.session_id)
        assert (line.branch.head, line.branch.depth) == ("m1", 1)


# Sessions.

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=30)
NAMES = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=30)
TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
METADATA = st.dictionaries(TEXT, JSON, max_size=3)


@settings(max_examples=50)
@given(
    agent_id=NAMES,
    key=NAMES,
    kind=st.sampled_from(SessionKind),
    created_at=TIMES,
    updated_at=TIMES,
    title=st.none() | TEXT,
    spawned_by=st.none() | NAMES,
    owner=st.none() | NAMES,
    incognito=st.booleans(),
    metadata=METADATA,
)
def test_every_field_of_a_session_comes_back(store, key, **fields):
    number = next(NUMBERS)
    one = Session(session_key=f"{key} {number}", session_id=f"s{number}", **fields)
    with store.writing() as unit:
        unit.sessions.add(one, branch_id="b")
        unit.commit()
    with store.reading() as unit:
        assert unit.sessions.get(one.session_key) == one
        assert unit.messages.line(one.session_id).session == one
        assert (unit.sessions.visible(one.session_key, EVERYTHING) == one) == (not one.incognito)
    changed = replace(
        one, title="new", kind=SessionKind.HOOK, spawned_by="x", owner=None, metadata={"n": 1}, updated_at=at(0)
    )
    with store.writing() as unit:
        unit.sessions.update(changed)
        unit.commit()
    with store.reading() as unit:
        assert unit.sessions.get(one.session_key) == changed


def test_a_session_that_is_not_stored_is_none(store):
    with store.reading() as unit:
        assert unit.sessions.get("agent:main:never") is None
        assert unit.sessions.visible("agent:main:never", EVERYTHING) is None
        assert unit.sessions.transcript("never") is None
        assert unit.messages.line("never") is None
        assert unit.messages.current_line("agent:main:never") is None
    with store.writing() as unit:
        assert not unit.sessions.remove("agent:main:never")


def test_a_session_begins_with_an_empty_current_transcript(store, session):
    with store.reading() as unit:
        line = unit.messages.current_line(session.session_key)
    assert line.session == session
    assert line.transcript == Transcript(
        session_id=session.session_id, session_key=session.session_key, started_at=session.created_at
    )
    assert (line.branch.head, line.branch.depth, line.branch.active, line.reset) == (None, 0, True, None)


def test_touching_never_goes_back(store, session):
    for seconds, latest in ((5, 5), (3, 5), (9, 9)):
        with store.writing() as unit:
            unit.sessions.touch(session.session_key, at(seconds))
            unit.commit()
        with store.reading() as unit:
            assert unit.sessions.get(session.session_key).updated_at == at(latest)


def test_sessions_are_listed_in_scope_with_the_last_written_first(store):
    agent = f"lister{next(NUMBERS)}"
    keys = [
        stored(store, session_key=f"agent:{agent}:{n}", agent_id=agent, updated_at=at(n % 3), title=f"t{n}").session_key
        for n in range(5)
    ]
    scope = Scope(own_key="nobody", agent_id=agent, same_agent=True, tree=Tree.NONE)
    with store.reading() as unit:
        listed = unit.sessions.listed(scope, 10, 0)
        assert [one.session_key for one in listed] == [keys[n] for n in (2, 4, 1, 3, 0)]
        assert [one.title for one in unit.sessions.listed(scope, 2, 1)] == ["t4", "t1"]
        assert unit.sessions.listed(scope, 10, 5) == []
        assert (listed[0].agent_id, listed[0].updated_at, listed[0].kind) == (agent, at(2), SessionKind.OTHER)


def test_a_removed_session_is_gone_with_everything_in_it(store, session):
    extended(store, session.session_id, *named("m1", "m2"))
    with store.writing() as unit:
        assert unit.sessions.remove(session.session_key)
        unit.commit()
    with store.reading() as unit:
        assert unit.sessions.get(session.session_key) is None
        assert unit.sessions.transcript(session.session_id) is None
        assert unit.messages.line(session.session_id) is None


@settings(max_examples=20)
@given(started_at=TIMES, reason=st.none() | st.sampled_from(ResetReason), current=st.booleans())
def test_every_field_of_a_transcript_comes_back(store, started_at, reason, current):
    session = stored(store)
    one = TranscriptFactory.build(
        session_id=f"further{next(NUMBERS)}",
        session_key=session.session_key,
        started_at=started_at,
        reason=reason,
        current=current,
    )
    with store.writing() as unit:
        unit.sessions.add_transcript(one, branch_id="b")
        unit.commit()
    with store.reading() as unit:
        assert unit.sessions.transcript(one.session_id) == one
        assert unit.messages.line(one.session_id).transcript == one
        assert unit.sessions.transcript(session.session_id).current == (not current)
        now = one.session_id if current else session.session_id
        assert unit.sessions.get(session.session_key).session_id == now
        assert unit.messages.current_line(session.session_key).transcript.session_id == now


# Messages.

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


# The index.


def request(query: str, **changes: object) -> SearchRequest:
    asked = SearchRequest(
        query=Query.parse(query, Match.ALL, 4_096),
        scope=EVERYTHING,
        session=None,
        agents=None,
        roles=(Role.USER, Role.ASSISTANT),
        since=None,
        until=None,
        order=Order.NEWEST,
        limit=10,
        leave_out=None,
    )
    return replace(asked, **changes)


def said(name: str, text: str, **fields: object) -> Message:
    return MessageFactory.build(message_id=name, parts=(TextPart(text),), **fields)


def found(store: Store, asked: SearchRequest) -> list[str]:
    with store.reading() as unit:
        return [one.message_id for one in unit.index.search(asked)]


def test_the_index_follows_messages_in_their_own_transaction(store, session):
    word = f"granite{next(NUMBERS)}"
    with store.writing() as unit:
        unit.messages.extend(unit.messages.line(session.session_id).branch, [said("m1", f"{word} 评审")])
        (match,) = unit.index.search(request(f"{word} 评审"))
        assert (match.session_key, match.message_id) == (session.session_key, "m1")
        assert match.text == f"{word} 评审"
        unit.messages.replace(replace(unit.messages.find(session.session_id, "m1"), parts=(TextPart("other"),)))
        assert unit.index.search(request(word)) == []
    assert found(store, request(word)) == []


def test_a_search_is_narrowed_by_each_of_its_fields(store):
    word = f"basalt{next(NUMBERS)}"
    one, two = stored(store), stored(store, agent_id=f"agent{next(NUMBERS)}")
    times = [at(0), at(1), at(2)]
    extended(store, one.session_id, *[said(f"a{n}", word, created_at=time) for n, time in enumerate(times)])
    extended(store, two.session_id, said("b0", word, role=Role.ASSISTANT, created_at=at(1.5)))
    assert found(store, request(word)) == ["a2", "b0", "a1", "a0"]
    assert found(store, request(word, session=one)) == ["a2", "a1", "a0"]
    assert found(store, request(word, agents=(two.agent_id,))) == ["b0"]
    assert found(store, request(word, roles=(Role.ASSISTANT,))) == ["b0"]
    assert found(store, request(word, since=at(1), until=at(2))) == ["b0", "a1"]
    assert found(store, request(word, limit=2)) == ["a2", "b0"]
    assert found(store, request(word, leave_out=(one.session_id, Stretch(2, 3)))) == ["b0", "a0"]
    assert found(store, request(word, scope=Scope(own_key=one.session_key))) == ["a2", "a1", "a0"]
    assert found(store, request(word, scope=Scope(own_key="nobody"))) == []
    assert sorted(found(store, request(word, order=Order.RELEVANCE))) == ["a0", "a1", "a2", "b0"]


def test_a_fresh_store_has_nothing_pending_and_agrees(store, session):
    extended(store, session.session_id, *named("m1", "m2"))
    with store.writing() as unit:
        assert unit.index.integrity() is None
        report = unit.index.verify(None)
        assert (report.problems, report.pending) == ((), 0)
        assert not unit.index.is_pending(request("granite"))
        assert not unit.index.is_pending(replace(request("granite"), session=session))
        assert unit.index.pending_count() == 0
        assert unit.index.claim("worker", at(0), at(5), []) is None
        assert not unit.index.held(at(0))


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
