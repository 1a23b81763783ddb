"""A visibility scope as SQL: the same rule as `Scope.admits`, as one condition on the sessions table."""

from dataclasses import dataclass, field

import sqlalchemy as sa

from backscroll.domain.visibility import Scope, Tree
from backscroll.infrastructure.rows import AgentRow

# Both kinds of parent, each by its own index; UNION drops what was met before, so that loops end.
# A session that is not in scope itself is not followed: what lies behind would tell of it.
_TREE = """WITH RECURSIVE below(key) AS (
    VALUES (:own_key)
    UNION SELECT c.session_key FROM below JOIN backscroll_sessions AS c ON c.spawned_by = below.key WHERE {followed}
    UNION SELECT c.session_key FROM below JOIN backscroll_sessions AS c ON c.owner = below.key WHERE {followed}
) SELECT key FROM below"""
_NOT_INCOGNITO = "s.incognito = 0"
MOST_TOKENS = 64
"""Wider scopes are joined instead: each token costs the index one more list to merge."""


@dataclass(frozen=True, slots=True)
class ScopeSql:
    """A condition on the sessions table under the alias `s`, and its parameters."""

    condition: str
    params: dict[str, object] = field(default_factory=dict)


def scope_sql(connection: sa.Connection, scope: Scope) -> ScopeSql:
    """The condition that a session is in `scope`."""
    if scope.everything:
        return ScopeSql(_NOT_INCOGNITO)
    params: dict[str, object] = {"own_key": scope.own_key}
    if scope.admits_every_agent:
        return ScopeSql(f"({_NOT_INCOGNITO} OR s.session_key = :own_key)", params)
    reach: list[str] = []
    if agents := admitted_agents(connection, scope):
        reach.append(f"s.agent_pk IN ({', '.join(map(str, agents))})")
    if scope.tree is not Tree.NONE:
        followed = "c.incognito = 0"
        if scope.tree is Tree.SAME_AGENT:
            followed += " AND c.agent_pk = (SELECT id FROM backscroll_agents WHERE agent_id = :own_agent)"
            params["own_agent"] = scope.agent_id
        reach.append(f"s.session_key IN ({_TREE.format(followed=followed)})")
    condition = "s.session_key = :own_key"
    if reach:
        condition += f" OR ({_NOT_INCOGNITO} AND ({' OR '.join(f'({one})' for one in reach)}))"
    return ScopeSql(f"({condition})", params)


def admitted_agents(connection: sa.Connection, scope: Scope) -> list[int]:
    """The keys of the agents whose sessions are all in scope, each asked of the scope itself."""
    if scope.agent_id is None or not (scope.same_agent or scope.others):
        return []
    rows = connection.execute(sa.select(AgentRow.id, AgentRow.agent_id))
    return [pk for pk, agent_id in rows if scope.admits_agent(agent_id)]


def narrow_tokens(connection: sa.Connection, scope: Scope) -> list[str] | None:
    """The index tokens of exactly the sessions in scope, when few tokens say it; else None."""
    if scope.admits_every_agent:
        return None
    agents = admitted_agents(connection, scope)
    tokens = [f"a{pk}" for pk in agents]
    beside = ScopeSql("s.session_key = :own_key", {"own_key": scope.own_key})
    if scope.tree is not Tree.NONE:
        beside = scope_sql(connection, Scope(scope.own_key, scope.agent_id, tree=scope.tree))
    sessions = connection.execute(
        sa.text(f"SELECT s.id FROM backscroll_sessions AS s WHERE {beside.condition} LIMIT {MOST_TOKENS + 1}"),
        beside.params,
    )
    tokens += [f"s{pk}" for (pk,) in sessions]
    return tokens if len(tokens) <= MOST_TOKENS else None
