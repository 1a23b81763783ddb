"""Finding: the rule of visibility and its SQL, on many families of sessions."""

import shutil
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll import (
    Backscroll,
    Requester,
    SearchPage,
    Visibility,
)
from backscroll.domain.model import Session
from backscroll.domain.visibility import AgentToAgent, SandboxVisibility, VisibilityPolicy
from backscroll.infrastructure.engine import create_engine
from backscroll.infrastructure.rows import SessionRow
from backscroll.infrastructure.scopes import narrow_tokens, scope_sql
from backscroll.infrastructure.statements import Statements
from backscroll.infrastructure.store import EngineStore
from tests.factories import OPTIONS, SessionFactory, opened
from tests.search.searching import opens

AGENTS = ["A", "B", "B2", "C"]
SESSION_KEYS = [f"agent:{agent}:{rest}" for agent in AGENTS for rest in ("main", "x")] + ["room"]
PLACES = count()
PAIRS = st.tuples(st.sampled_from(AGENTS), st.sampled_from(AGENTS))


@st.composite
def stored_sessions(draw) -> list[Session]:
    keys = draw(st.lists(st.sampled_from(SESSION_KEYS), unique=True, min_size=1, max_size=6))
    parents = st.none() | st.sampled_from(SESSION_KEYS)
    return [
        SessionFactory.build(
            session_key=key,
            agent_id=key.split(":")[1] if ":" in key else draw(st.sampled_from(AGENTS)),
            spawned_by=draw(parents),
            owner=draw(parents),
            incognito=draw(st.sampled_from([False, False, False, True])),
        )
        for key in keys
    ]


POLICIES = st.builds(
    VisibilityPolicy,
    st.sampled_from(Visibility),
    st.builds(
        AgentToAgent,
        st.sampled_from([True, True, False]),
        st.none() | st.lists(st.sampled_from(["*", "A", "B", "B*", "*2"]) | PAIRS, max_size=3).map(tuple),
    ),
    st.sampled_from(SandboxVisibility),
)


@st.composite
def requesters(draw) -> Requester:
    if draw(st.integers(0, 7)) == 0:
        return Requester.operator()
    key = draw(st.sampled_from([*SESSION_KEYS, "agent:A:unstored", "nameless"]))
    agent = None if ":" in key else draw(st.none() | st.sampled_from(AGENTS))
    return Requester(key, agent_id=agent, sandboxed=draw(st.booleans()))


@pytest.fixture(scope="module")
def module_store(empty_store: Path) -> Iterator[EngineStore]:
    """The store below the facade; every example rolls back."""
    engine = create_engine(f"sqlite:///{empty_store}", busy_timeout=5, synchronous="NORMAL")
    yield EngineStore(engine, OPTIONS)
    engine.dispose()


@pytest.fixture(scope="module")
def property_stores(
    tmp_path_factory: pytest.TempPathFactory, empty_store: Path
) -> Iterator[dict[Visibility, Backscroll]]:
    """A store for each visibility."""
    path = tmp_path_factory.mktemp("visibility") / "store.db"
    shutil.copyfile(empty_store, path)
    stores = {visibility: opened(path, visibility=visibility) for visibility in Visibility}
    yield stores
    problems = stores[Visibility.ALL].verify().problems
    for store in stores.values():
        store.close()
    assert problems == ()


@settings(max_examples=60)
@given(stored=stored_sessions(), policy=POLICIES, requester=requesters())
def test_the_sql_of_a_scope_is_the_rule_itself(module_store, stored, policy, requester):
    scope = policy.scope(requester)
    below = scope.reach(stored)
    admitted = {one.session_key for one in stored if scope.admits(one, below)}
    with module_store.writing() as unit:
        for one in stored:
            unit.sessions.add(one, branch_id=f"branch{next(PLACES)}")
        connection = unit.sessions._transaction.connection
        allowed = scope_sql(Statements(connection), scope)
        rows = connection.execute(
            sa.text(f"SELECT s.session_key FROM backscroll_sessions AS s WHERE {allowed.condition}"), allowed.params
        )
        assert {key for (key,) in rows} == admitted
        assert {one.session_key for one in unit.sessions.listed(scope, 500, 0)} == admitted
        assert {key for key in SESSION_KEYS if unit.sessions.visible(key, scope)} == admitted
        if (tokens := narrow_tokens(Statements(connection), scope)) is not None:
            keys = dict(connection.execute(sa.select(SessionRow.session_key, SessionRow.id)).all())
            agents = dict(connection.execute(sa.select(SessionRow.session_key, SessionRow.agent_pk)).all())
            named = {key for key in keys if {f"s{keys[key]}", f"a{agents[key]}"} & set(tokens)}
            # By agent an incognito session is named too: it has no message in the index.
            private = {one.session_key for one in stored if one.incognito}
            assert named - private == admitted - private


def everything(pages: Iterable[SearchPage]) -> set[str]:
    return {hit.session_key for page in pages for hit in page.hits}


@settings(max_examples=25)
@given(stored=stored_sessions(), visibility=st.sampled_from(Visibility), requester=requesters())
def test_search_list_and_history_agree_with_the_rule(property_stores, stored, visibility, requester):
    scroll = property_stores[visibility]
    place = next(PLACES)

    def renamed(key: str | None) -> str | None:
        """The key in a name space of this example's own, with its agents."""
        if key is None or not key.startswith("agent:"):
            return None if key is None else f"{key} {place}"
        _, agent, rest = key.split(":")
        return f"agent:{agent}{place}:{rest}"

    sessions = [
        SessionFactory.build(
            session_key=renamed(one.session_key),
            agent_id=f"{one.agent_id}{place}",
            spawned_by=renamed(one.spawned_by),
            owner=renamed(one.owner),
            incognito=one.incognito,
        )
        for one in stored
    ]
    if requester.is_operator:
        me = requester
    else:
        agent = None if requester.agent_id is None else f"{requester.agent_id}{place}"
        me = Requester(renamed(requester.session_key), agent_id=agent, sandboxed=requester.sandboxed)
    for one in sessions:
        scroll.ensure_session(
            one.session_key, agent_id=one.agent_id, spawned_by=one.spawned_by, owner=one.owner, incognito=one.incognito
        )
        scroll.append(one.session_key, "user", f"marble{place}")
    scope = VisibilityPolicy(visibility).scope(me)
    below = scope.reach(sessions)
    admitted = {one.session_key for one in sessions if scope.admits(one, below)}
    incognito = {one.session_key for one in sessions if one.incognito}
    keys = [one.session_key for one in sessions]
    assert everything([scroll.search(f"marble{place}", requester=me, limit=25)]) == admitted - incognito
    assert {one.session_key for one in scroll.sessions(requester=me, limit=500)} & set(keys) == admitted
    assert {key for key in keys if opens(scroll, key, me)} == admitted
    assert {key for key in keys if opens(scroll, key, me, query=f"marble{place}")} == admitted - incognito
    for key in keys:
        scroll.delete_session(key)
