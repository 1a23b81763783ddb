"""Finding: for whom, as search, list and history agree."""

import pytest

from backscroll import (
    Requester,
    SessionNotFound,
)
from backscroll.infrastructure.settings import AgentToAgentSettings
from tests.search.searching import KEY, names, opens, store

FAMILY = {
    "agent:A:main": None,
    "agent:B:child1": "agent:A:main",
    "agent:A:child2": "agent:A:main",
    "agent:C:grand": "agent:B:child1",
    "agent:A:aunt": None,
    "agent:D:stranger": None,
}


@pytest.mark.parametrize("link", ["spawned_by", "owner"])
@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize(
    ("visibility", "expected"),
    [
        ("self", {"main": {"main"}, "child1": {"child1"}, "child2": {"child2"}, "grand": {"grand"}}),
        (
            "tree",
            {
                "main": {"main", "child1", "child2", "grand"},
                "child1": {"child1", "grand"},
                "child2": {"child2"},
                "grand": {"grand"},
            },
        ),
        (
            "agent",
            {
                "main": {"main", "child2", "aunt"},
                "child1": {"child1"},
                "child2": {"main", "child2", "aunt"},
                "grand": {"grand"},
            },
        ),
        ("all", {key: {one.split(":")[2] for one in FAMILY} for key in ("main", "child1", "child2", "grand")}),
    ],
)
def test_search_list_and_history_agree_on_who_sees_whom(open_store, visibility, expected, loop, link):
    scroll = open_store(visibility=visibility)
    for key, parent in FAMILY.items():
        store(scroll, key, {"u1": "marble"}, **{link: parent})
    if loop:
        # Upwards from a leaf that is nobody's ancestor in the table above; a loop must end and change nothing else.
        scroll.ensure_session("agent:D:stranger", **{link: "agent:D:stranger"})
        scroll.ensure_session("agent:A:aunt", **{link: "agent:A:aunt"})
    for key in FAMILY:
        name = key.split(":")[2]
        if name not in expected:
            continue
        me = Requester(key)
        found = {hit.session_key for hit in scroll.search("marble", requester=me).hits}
        listed = {one.session_key for one in scroll.sessions(requester=me)}
        opened = {other for other in FAMILY if opens(scroll, other, me)}
        searched = {other for other in FAMILY if opens(scroll, other, me, query="marble")}
        assert {one.split(":")[2] for one in found} == expected[name]
        assert found == listed == opened == searched


def test_a_loop_of_parents_ends(open_store):
    scroll = open_store(visibility="tree")
    store(scroll, "agent:A:one", {"u1": "marble"}, spawned_by="agent:C:three")
    store(scroll, "agent:B:two", {"u1": "marble"}, spawned_by="agent:A:one")
    store(scroll, "agent:C:three", {"u1": "marble"}, owner="agent:B:two")
    store(scroll, "agent:D:four", {"u1": "marble"})
    loop = {"agent:A:one", "agent:B:two", "agent:C:three"}
    for key in loop:
        assert {hit.session_key for hit in scroll.search("marble", requester=Requester(key)).hits} == loop
        assert {one.session_key for one in scroll.sessions(requester=Requester(key))} == loop


def test_what_may_not_be_seen_uses_up_no_limit(open_store):
    scroll = open_store(visibility="agent", rank_bound=25)
    for number in range(4):
        store(scroll, f"agent:A:old{number}", {f"old{number}": "granite"})
    store(scroll, "agent:A:main", {f"own{number}": "granite" for number in range(60)})
    for number in range(3):
        store(scroll, f"agent:B:noisy{number}", {f"n{number}-{one}": "granite" for one in range(100)})
    for order in ("relevance", "newest"):
        page = scroll.search("granite", requester=Requester("agent:A:main"), limit=5, exclude_current=True, order=order)
        assert set(names(page)) == {f"old{number}" for number in range(4)}
        assert not page.truncated


@pytest.mark.parametrize("tokens", [True, False])
def test_holds_for_narrow_and_for_wide_scopes(open_store, tokens):
    # More sessions than the index is asked for by token: then the scope is joined.
    scroll = open_store(visibility="tree", rank_bound=25)
    children = 3 if tokens else 520
    store(scroll, "agent:A:main", {"own": "other"})
    for number in range(children):
        store(
            scroll, f"agent:B:child{number}", {f"c{number}": "granite" if number < 3 else "other"}, owner="agent:A:main"
        )
    store(scroll, "agent:B:noisy", {f"n{one}": "granite" for one in range(100)})
    page = scroll.search("granite", requester=Requester("agent:A:main"), limit=5)
    assert (set(names(page)), page.truncated) == ({"c0", "c1", "c2"}, False)


@pytest.mark.parametrize(
    ("between", "seen"),
    [
        ({"allow": ["B"]}, "A"),
        ({"allow": ["A", "B"]}, "A B"),
        ({"allow": ["B*"]}, "A"),
        ({"allow": ["A", "B*"]}, "A B B2"),
        ({"allow": ["*"]}, "A B B2"),
        ({"allow": []}, "A"),
        ({"allow": None}, "A B B2"),
        ({"enabled": False}, "A"),
        ({"enabled": False, "allow": ["*"]}, "A"),
        ({"allow": [["A", "B"]]}, "A B"),
        ({"allow": [["B", "A"]]}, "A"),
        ({"allow": [["A", "B2"], "B"]}, "A B2"),
        ({"allow": ["a", "b"]}, "A"),
    ],
)
def test_the_allow_list_asks_both_sides_and_exact_ids(open_store, between, seen):
    scroll = open_store(visibility="all", agent_to_agent=AgentToAgentSettings.model_validate(between))
    sessions = {agent: f"agent:{agent}:main" for agent in ("A", "B", "B2")}
    for key in sessions.values():
        store(scroll, key, {"u1": "granite"})
    me = Requester("agent:A:other")
    expected = {sessions[agent] for agent in seen.split()}
    assert {hit.session_key for hit in scroll.search("granite", requester=me).hits} == expected
    assert {one.session_key for one in scroll.sessions(requester=me)} == expected
    assert {key for key in sessions.values() if opens(scroll, key, me)} == expected
    assert {key for key in sessions.values() if opens(scroll, key, me, query="granite")} == expected


def test_an_incognito_session_is_in_no_answer(scroll, operator):
    store(scroll, KEY, {"u1": "granite heliotrope"}, incognito=True)
    store(scroll, "agent:main:other", {"v1": "granite"})
    scroll.repair()
    for requester in (operator, Requester(KEY), Requester("agent:main:other")):
        assert names(scroll.search("granite", requester=requester)) == ["v1"]
        assert names(scroll.search("heliotrope", requester=requester)) == []
    for requester in (operator, Requester("agent:main:other")):
        assert [one.session_key for one in scroll.sessions(requester=requester)] == ["agent:main:other"]
        with pytest.raises(SessionNotFound):
            scroll.search("heliotrope", requester=requester, session_key=KEY)
    assert names(scroll.search("heliotrope", requester=Requester(KEY), session_key=KEY)) == []
    assert opens(scroll, KEY, Requester(KEY))


@pytest.mark.parametrize("visibility", ["self", "tree", "agent", "all"])
def test_what_may_not_be_seen_reads_like_what_does_not_exist(open_store, visibility):
    scroll = open_store(visibility=visibility, agent_to_agent=AgentToAgentSettings(enabled=False))
    store(scroll, "agent:B:hidden", {"u1": "granite"})
    store(scroll, "agent:A:private", {"u1": "granite"}, incognito=True)
    session_id = scroll.ensure_session("agent:B:hidden").session_id
    me = Requester("agent:A:main")
    errors = set()
    for key in ("agent:B:hidden", "agent:A:private", "agent:B:never", session_id, "agent:b:hidden"):
        for attempt in (
            lambda key=key: scroll.history(key, requester=me),
            lambda key=key: scroll.history(key, requester=me, session_id=session_id, message_id="u1"),
            lambda key=key: scroll.history(key, requester=me, session_id="never"),
            lambda key=key: scroll.search("granite", requester=me, session_key=key),
            lambda key=key: scroll.search("nothing", requester=me, session_key=key),
        ):
            with pytest.raises(SessionNotFound) as raised:
                attempt()
            errors.add((type(raised.value), str(raised.value)))
    assert len(errors) == 1


@pytest.mark.parametrize("visibility", ["self", "tree", "agent", "all"])
@pytest.mark.parametrize("sandbox", ["spawned", "all"])
def test_a_sandboxed_requester_sees_itself_and_what_it_spawned_at_most(open_store, visibility, sandbox):
    scroll = open_store(visibility=visibility, sandbox_visibility=sandbox)
    for key, parent in FAMILY.items():
        store(scroll, key, {"u1": "marble"}, spawned_by=parent)

    def seen(sandboxed: bool) -> set[str]:
        me = Requester("agent:A:main", sandboxed=sandboxed)
        return {hit.session_key for hit in scroll.search("marble", requester=me).hits}

    tree = {"agent:A:main", "agent:B:child1", "agent:A:child2", "agent:C:grand"}
    spawned = {"self": {"agent:A:main"}, "agent": {"agent:A:main", "agent:A:child2"}}.get(visibility, tree)
    assert seen(True) == (spawned if sandbox == "spawned" else seen(False))
    assert seen(True) <= seen(False)
