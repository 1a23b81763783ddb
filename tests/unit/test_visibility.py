"""Who may see which session, cell by cell of the design's table, and against a slow second reading of it."""

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from backscroll.domain.errors import InvalidRequest
from backscroll.domain.model import Session
from backscroll.domain.visibility import (
    AgentToAgent,
    Requester,
    SandboxVisibility,
    Scope,
    Visibility,
    VisibilityPolicy,
    descendants,
    glob_matches,
)
from tests.factories import SessionFactory

Sessions = list[Session]
CLOSED = AgentToAgent(enabled=False)


def session(key: str, agent: str | None = None, **changes: object) -> Session:
    return SessionFactory(session_key=key, agent_id=agent or key.split(":")[1], **changes)


def parents_of(sessions: Sessions) -> dict[str, tuple[str | None, str | None]]:
    return {one.session_key: (one.spawned_by, one.owner) for one in sessions}


def seen(policy: VisibilityPolicy, requester: Requester, sessions: Sessions) -> set[str]:
    scope = policy.scope(requester)
    tree = scope.reach(sessions)
    return {one.session_key for one in sessions if scope.admits(one, tree)}


# Requesters


def test_a_requester_speaks_for_the_agent_in_its_key_or_the_one_given() -> None:
    assert Requester("agent:A:main").agent_id == "A"
    assert Requester("agent:A:main", agent_id="A").agent_id == "A"
    assert Requester("custom", agent_id="A").agent_id == "A"
    assert Requester("custom").agent_id is None
    assert Requester("agent:A:main").sandboxed is False
    assert Requester("agent:A:main", sandboxed=True).sandboxed is True


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"session_key": ""}, "session_key"),
        ({"session_key": "  "}, "session_key"),
        ({"session_key": None}, "session_key"),
        ({"session_key": 7}, "session_key"),
        ({"session_key": "k" * 513}, "session_key"),
        ({"session_key": "a\x00b"}, "session_key"),
        ({"session_key": "a\nb"}, "session_key"),
        ({"session_key": "a\ud83d"}, "session_key"),
        ({"session_key": "custom", "agent_id": ""}, "agent_id"),
        ({"session_key": "custom", "agent_id": 7}, "agent_id"),
        ({"session_key": "custom", "agent_id": "a\x00"}, "agent_id"),
        ({"session_key": "custom", "agent_id": "a" * 257}, "agent_id"),
        ({"session_key": "agent:A:main", "agent_id": "B"}, "agent_id"),
        ({"session_key": "agent:A:main", "agent_id": "a"}, "agent_id"),
    ],
)
def test_an_impossible_requester_is_refused_by_the_name_of_the_argument(arguments: dict, named: str) -> None:
    with pytest.raises(InvalidRequest, match=named):
        Requester(**arguments)


def test_only_the_operator_is_the_operator() -> None:
    assert Requester.operator().is_operator
    assert not Requester("operator").is_operator
    assert Requester.operator() == Requester.operator()
    assert Requester.operator() != Requester("operator")
    assert len({Requester("a"), Requester("a"), Requester("a", sandboxed=True)}) == 2
    with pytest.raises(AttributeError):
        Requester("a").session_key = None  # type: ignore[misc]


@pytest.mark.parametrize("requester", [None, "agent:A:main", 7, {"session_key": "agent:A:main"}])
def test_what_is_no_requester_sees_nothing(requester: object) -> None:
    with pytest.raises(InvalidRequest, match="requester must be a Requester"):
        VisibilityPolicy().scope(requester)  # type: ignore[arg-type]


# Globs


@settings(max_examples=120)
@given(st.text("ab*", max_size=8), st.text("ab\n", max_size=10))
def test_a_star_stands_for_any_run_of_characters(pattern: str, text: str) -> None:
    right = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None
    assert glob_matches(pattern, text) == right


@settings(max_examples=120)
@given(st.text(max_size=10).filter(lambda text: "*" not in text), st.text(max_size=10))
def test_a_pattern_without_a_star_is_the_exact_name(pattern: str, text: str) -> None:
    assert glob_matches(pattern, text) == (pattern == text)
    assert glob_matches(pattern, pattern)
    assert glob_matches(f"{pattern}*", pattern + text)
    assert glob_matches(f"*{pattern}", text + pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("B", "B2"), ("B", "b"), ("B", "AB"), ("B?", "B2"), ("[AB]", "A"), ("B.", "B2"), ("b*", "B"), ("ab*ba", "aba")],
)
def test_nothing_but_the_star_is_special(pattern: str, text: str) -> None:
    assert not glob_matches(pattern, text)


def test_many_stars_take_no_time_to_speak_of() -> None:
    assert not glob_matches("*a" * 200 + "*b", "a" * 20_000)
    assert glob_matches("*a" * 200 + "*", "a" * 20_000)


# Between agents


@pytest.mark.parametrize(
    ("rule", "reads"),
    [
        (AgentToAgent(), {"A", "B", "B2"}),
        (AgentToAgent(allow=("B",)), {"A"}),
        (AgentToAgent(allow=("A", "B")), {"A", "B"}),
        (AgentToAgent(allow=("B*",)), {"A"}),
        (AgentToAgent(allow=("A", "B*")), {"A", "B", "B2"}),
        (AgentToAgent(allow=("b*", "A")), {"A", "B", "B2"}),
        (AgentToAgent(allow=("b", "b2", "A")), {"A"}),
        (AgentToAgent(allow=("*",)), {"A", "B", "B2"}),
        (AgentToAgent(allow=()), {"A"}),
        (AgentToAgent(allow=(("A", "B"),)), {"A", "B"}),
        (AgentToAgent(allow=(("B", "A"),)), {"A"}),
        (AgentToAgent(allow=(("A", "*"),)), {"A"}),
        (AgentToAgent(allow=(("A", "B2"), "A", "B")), {"A", "B", "B2"}),
        (AgentToAgent(allow=("agent:A", "agent:B")), {"A"}),
        (AgentToAgent(enabled=False), {"A"}),
        (AgentToAgent(enabled=False, allow=("*", ("A", "B"))), {"A"}),
    ],
)
def test_agents_read_each_other_when_the_rule_is_met_on_both_sides(rule: AgentToAgent, reads: set[str]) -> None:
    sessions = [session(f"agent:{agent}:other") for agent in ("A", "B", "B2")]
    keys = {f"agent:{agent}:other" for agent in reads}
    assert seen(VisibilityPolicy(agent_to_agent=rule), Requester("agent:A:main"), sessions) == keys


def test_a_pair_gives_one_direction_and_globs_give_both() -> None:
    assert AgentToAgent(allow=(("A", "B"),)).permits("A", "B")
    assert not AgentToAgent(allow=(("A", "B"),)).permits("B", "A")
    assert AgentToAgent(allow=("A", "B")).permits("B", "A")


# The table

OWN = "agent:A:main"
WORLD = [
    session(OWN),
    session("agent:A:child", spawned_by=OWN),
    session("agent:B:child", spawned_by=OWN),
    session("agent:A:owned", owner=OWN),
    session("agent:B:owned", owner=OWN, spawned_by="agent:B:main"),
    session("agent:C:grand", spawned_by="agent:B:child"),
    session("agent:A:grand", owner="agent:B:owned"),
    session("agent:A:other"),
    session("agent:A:parent"),
    session("agent:B:main"),
]
TREE = {one.session_key for one in WORLD[1:7]}
SAME = {one.session_key for one in WORLD if one.agent_id == "A"} - TREE - {OWN}
OTHERS = {"agent:B:main"}


@pytest.mark.parametrize(
    ("visibility", "between", "sandboxed", "right"),
    [
        (Visibility.SELF, AgentToAgent(), False, {OWN}),
        (Visibility.TREE, AgentToAgent(), False, {OWN} | TREE),
        (Visibility.AGENT, AgentToAgent(), False, {OWN} | SAME | {key for key in TREE if ":A:" in key}),
        (Visibility.ALL, AgentToAgent(), False, {OWN} | SAME | TREE | OTHERS),
        (Visibility.ALL, CLOSED, False, {OWN} | SAME | TREE),
        (Visibility.ALL, AgentToAgent(allow=(("A", "C"),)), False, {OWN} | SAME | TREE),
        (Visibility.SELF, AgentToAgent(), True, {OWN}),
        (Visibility.TREE, AgentToAgent(), True, {OWN} | TREE),
        (Visibility.AGENT, AgentToAgent(), True, {OWN, "agent:A:child", "agent:A:owned"}),
        (Visibility.ALL, AgentToAgent(), True, {OWN} | TREE),
    ],
)
def test_every_cell_of_the_table(
    visibility: Visibility, between: AgentToAgent, sandboxed: bool, right: set[str]
) -> None:
    policy = VisibilityPolicy(visibility, between)
    assert seen(policy, Requester(OWN, sandboxed=sandboxed), WORLD) == right


@pytest.mark.parametrize("visibility", list(Visibility))
def test_a_sandbox_may_be_told_to_see_as_much_as_anybody(visibility: Visibility) -> None:
    policy = VisibilityPolicy(visibility, sandbox_visibility=SandboxVisibility.ALL)
    assert seen(policy, Requester(OWN, sandboxed=True), WORLD) == seen(policy, Requester(OWN), WORLD)


@pytest.mark.parametrize("visibility", list(Visibility))
def test_the_operator_sees_everything_whatever_is_configured(visibility: Visibility) -> None:
    assert len(seen(VisibilityPolicy(visibility, CLOSED), Requester.operator(), WORLD)) == len(WORLD)


@pytest.mark.parametrize("visibility", list(Visibility))
def test_an_incognito_session_is_seen_by_itself_alone(visibility: Visibility) -> None:
    policy = VisibilityPolicy(visibility)
    hidden = session("agent:A:secret", spawned_by=OWN, owner=OWN, incognito=True)
    child = session("agent:A:below", spawned_by="agent:A:secret")
    for requester in (Requester(OWN), Requester.operator(), Requester("agent:A:other"), Requester("agent:A:below")):
        assert "agent:A:secret" not in seen(policy, requester, [*WORLD, hidden, child])
    assert "agent:A:secret" in seen(policy, Requester("agent:A:secret"), [*WORLD, hidden])
    assert "agent:A:secret" in seen(policy, Requester("agent:A:secret", sandboxed=True), [*WORLD, hidden])
    # What was spawned in secret is not found by way of the secret.
    assert ("agent:A:below" in seen(policy, Requester(OWN), [*WORLD, hidden, child])) == (
        visibility in (Visibility.AGENT, Visibility.ALL)
    )
    assert "agent:A:below" not in seen(policy, Requester(OWN, sandboxed=True), [*WORLD, hidden, child])


@pytest.mark.parametrize("visibility", list(Visibility))
def test_a_requester_that_speaks_for_no_agent_sees_no_agents_sessions(visibility: Visibility) -> None:
    mine = session("agent:B:mine", spawned_by="custom")
    right = {"agent:B:mine"} if visibility in (Visibility.TREE, Visibility.ALL) else set()
    assert seen(VisibilityPolicy(visibility), Requester("custom"), [*WORLD, mine]) == right


def test_a_requester_need_not_be_stored() -> None:
    assert seen(VisibilityPolicy(Visibility.AGENT), Requester("agent:B:unknown"), WORLD) == {
        one.session_key for one in WORLD if one.agent_id == "B"
    }


TRIAL_12 = [
    session("agent:A:main"),
    session("agent:B:child1", spawned_by="agent:A:main"),
    session("agent:A:child2", spawned_by="agent:A:main"),
    session("agent:C:grand", spawned_by="agent:B:child1"),
]


@pytest.mark.parametrize(
    ("requester", "right"),
    [
        ("agent:A:main", {"agent:A:main", "agent:B:child1", "agent:A:child2", "agent:C:grand"}),
        ("agent:B:child1", {"agent:B:child1", "agent:C:grand"}),
        ("agent:A:child2", {"agent:A:child2"}),
        ("agent:C:grand", {"agent:C:grand"}),
    ],
)
def test_a_tree_is_seen_from_above_alone(requester: str, right: set[str]) -> None:
    assert seen(VisibilityPolicy(Visibility.TREE), Requester(requester), TRIAL_12) == right


def test_a_loop_ends() -> None:
    loop = [session("agent:A:one", spawned_by="agent:A:two"), session("agent:A:two", owner="agent:A:one")]
    loop.append(session("agent:A:self", spawned_by="agent:A:self"))
    tree = VisibilityPolicy(Visibility.TREE)
    assert seen(tree, Requester("agent:A:one"), loop) == {"agent:A:one", "agent:A:two"}
    assert seen(tree, Requester("agent:A:self"), loop) == {"agent:A:self"}
    assert descendants(["agent:A:one"], parents_of(loop)) == {"agent:A:one", "agent:A:two"}


def test_a_deep_tree_is_no_recursion() -> None:
    deep = {f"k{number}": (f"k{number - 1}", None) for number in range(1, 5_000)}
    assert len(descendants(["k0"], deep)) == 4_999


# Against a second reading of the design's words

AGENTS = ["A", "B", "B2"]
KEYS = [f"agent:{agent}:{name}" for agent in AGENTS for name in ("x", "y", "z")] + ["custom", "unstored"]
RULES = st.sampled_from(["A", "B", "B*", "b*", "b", "*", "*2", "Z", ("A", "B"), ("B", "A"), ("B2", "B"), ("A", "B2")])


@st.composite
def worlds(draw: st.DrawFn) -> Sessions:
    above = st.none() | st.sampled_from(KEYS)
    keys = draw(st.lists(st.sampled_from(KEYS[:-1]), unique=True, max_size=9))
    return [
        session(
            key,
            key.split(":")[1] if key != "custom" else draw(st.sampled_from(AGENTS)),
            spawned_by=draw(above),
            owner=draw(above),
            incognito=draw(st.sampled_from([False, False, False, True])),
        )
        for key in keys
    ]


BETWEEN = st.builds(AgentToAgent, st.booleans(), st.none() | st.lists(RULES, max_size=3).map(tuple))
REQUESTERS = st.one_of(
    st.builds(Requester, st.sampled_from(KEYS), sandboxed=st.booleans()),
    st.builds(Requester, st.sampled_from(KEYS[-2:]), agent_id=st.sampled_from(AGENTS), sandboxed=st.booleans()),
    st.just(Requester.operator()),
)
POLICIES = st.builds(
    VisibilityPolicy, st.sampled_from(list(Visibility)), BETWEEN, st.sampled_from(list(SandboxVisibility))
)


def is_below(key: str, top: str, parents: dict[str, tuple[str | None, str | None]], met: tuple[str, ...] = ()) -> bool:
    """Whether a walk from `key` to one of its parents, and on, comes to `top`."""
    above = [parent for parent in parents.get(key, ()) if parent is not None and parent not in met]
    return top in above or any(is_below(parent, top, parents, (*met, parent)) for parent in above)


def may_see(policy: VisibilityPolicy, requester: Requester, one: Session, sessions: Sessions) -> bool:
    """The table, cell by cell."""
    if requester.session_key == one.session_key:
        return True
    if one.incognito:
        return False
    if requester.session_key is None:
        return True
    same_agent = requester.agent_id == one.agent_id
    # A tree is followed through what may be seen: it would tell of the rest.
    followed = [other for other in sessions if not other.incognito]
    if policy.visibility is Visibility.AGENT:
        followed = [other for other in followed if other.agent_id == requester.agent_id]
    below = is_below(one.session_key, requester.session_key, parents_of(followed))
    if requester.sandboxed and policy.sandbox_visibility is SandboxVisibility.SPAWNED and not below:
        return False
    match policy.visibility:
        case Visibility.SELF:
            return False
        case Visibility.TREE:
            return below
        case Visibility.AGENT:
            return same_agent
        case Visibility.ALL:
            rule, names = policy.agent_to_agent, (requester.agent_id, one.agent_id)
            if below or same_agent:
                return True
            if not rule.enabled or requester.agent_id is None:
                return False
            globs = [
                ("(?i)" if "*" in glob else "") + re.escape(glob).replace(r"\*", ".*")
                for glob in rule.allow or ()
                if isinstance(glob, str)
            ]
            return (
                rule.allow is None
                or names in rule.allow
                or all(any(re.fullmatch(glob, name) for glob in globs) for name in names if name is not None)
            )


@settings(max_examples=120)
@given(worlds(), POLICIES, REQUESTERS)
def test_the_scope_admits_what_the_table_says(
    sessions: Sessions, policy: VisibilityPolicy, requester: Requester
) -> None:
    right = {one.session_key for one in sessions if may_see(policy, requester, one, sessions)}
    assert seen(policy, requester, sessions) == right


@settings(max_examples=120)
@given(worlds(), POLICIES, REQUESTERS)
def test_what_a_scope_says_of_a_whole_agent_holds_for_each_of_its_sessions(
    sessions: Sessions, policy: VisibilityPolicy, requester: Requester
) -> None:
    scope = policy.scope(requester)
    for one in sessions:
        if not one.incognito and scope.admits_agent(one.agent_id):
            assert scope.admits(one)
    if scope.admits_every_agent:
        assert all(scope.admits_agent(agent) for agent in (*AGENTS, "never heard of"))


@settings(max_examples=120)
@given(worlds(), BETWEEN, REQUESTERS)
def test_a_wider_visibility_never_hides_a_session(
    sessions: Sessions, between: AgentToAgent, requester: Requester
) -> None:
    sees = {one: seen(VisibilityPolicy(one, between), requester, sessions) for one in Visibility}
    assert sees[Visibility.SELF] <= sees[Visibility.TREE] <= sees[Visibility.ALL]
    assert sees[Visibility.SELF] <= sees[Visibility.AGENT] <= sees[Visibility.ALL]


@settings(max_examples=120)
@given(worlds(), POLICIES, REQUESTERS, RULES)
def test_a_wider_allow_list_never_hides_a_session(
    sessions: Sessions, policy: VisibilityPolicy, requester: Requester, more: str | tuple[str, str]
) -> None:
    allow = policy.agent_to_agent.allow
    assume(allow is not None)
    wider = [
        AgentToAgent(policy.agent_to_agent.enabled, (*(allow or ()), more)),
        AgentToAgent(policy.agent_to_agent.enabled, None),
        AgentToAgent(enabled=True, allow=allow),
    ]
    narrow = seen(policy, requester, sessions)
    for rule in wider:
        assert narrow <= seen(VisibilityPolicy(policy.visibility, rule, policy.sandbox_visibility), requester, sessions)


@settings(max_examples=120)
@given(worlds(), POLICIES, st.sampled_from(KEYS))
def test_a_sandbox_never_shows_a_session_more(sessions: Sessions, policy: VisibilityPolicy, key: str) -> None:
    free, sandboxed = seen(policy, Requester(key), sessions), seen(policy, Requester(key, sandboxed=True), sessions)
    assert sandboxed <= free
    if policy.sandbox_visibility is SandboxVisibility.SPAWNED:
        assert sandboxed <= {key} | descendants([key], parents_of(sessions))


def test_the_empty_scope_admits_nothing_but_its_own_session() -> None:
    assert [one.session_key for one in WORLD if Scope("agent:A:main").admits(one, TREE)] == ["agent:A:main"]
