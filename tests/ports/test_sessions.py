"""What every store promises through its ports: sessions and their transcripts."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll import (
    ResetReason,
    Session,
    SessionKind,
    Transcript,
)
from backscroll.domain.visibility import Scope, Tree
from tests.factories import TranscriptFactory, at
from tests.ports.repositories import EVERYTHING, METADATA, NAMES, NUMBERS, TEXT, TIMES, extended, named, stored


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
