"""A visibility scope as SQL: the same rule as `Scope.admits`, as one condition on the sessions table."""

import json
from typing import NamedTuple

from backscroll.domain.visibility import Scope, Tree
from backscroll.infrastructure.rows import AgentRow
from backscroll.infrastructure.statements import Statements

# A session is in the tree if one of its two kinds of parent leads up to the requester's own. Asked upwards, of each
# session met, it costs the height of the tree and not its size. UNION drops what was met before, so that loops end. A
# session that is not in scope itself is not followed: what lies behind would tell of it.
_IN_TREE = """EXISTS (WITH RECURSIVE above(key) AS (
    SELECT s.spawned_by UNION SELECT s.owner
    UNION SELECT c.spawned_by FROM above JOIN backscroll_sessions AS c ON c.session_key = above.key WHERE {followed}
    UNION SELECT c.owner FROM above JOIN backscroll_sessions AS c ON c.session_key = above.key WHERE {followed}
) SELECT 1 FROM above WHERE {root})"""
# The same downwards, to list a small tree without a look at any other session; a large one is given up early, however
# many sessions the first one spawned.
_BELOW = """WITH RECURSIVE below(key, pk) AS (
    SELECT top.key, s.id FROM ({roots}) AS top LEFT JOIN backscroll_sessions AS s ON s.session_key = top.key
    UNION SELECT c.session_key, c.id FROM below CROSS JOIN backscroll_sessions AS c ON c.id IN (
        SELECT x.id FROM backscroll_sessions AS x WHERE x.spawned_by = key AND {followed} LIMIT :most)
    UNION SELECT c.session_key, c.id FROM below CROSS JOIN backscroll_sessions AS c ON c.id IN (
        SELECT x.id FROM backscroll_sessions AS x WHERE x.owner = key AND {followed} LIMIT :most)
    LIMIT :most
) """
_TREE = _BELOW + "SELECT pk FROM below WHERE pk IS NOT NULL"
# The tree may have roots in other files too; then there is a set of them.
_ROOT = {False: "key = :own_key", True: "key IN (SELECT :own_key UNION ALL SELECT value FROM json_each(:roots))"}
_ROOTS = {
    False: "SELECT :own_key AS key",
    True: "SELECT :own_key AS key UNION SELECT value FROM json_each(:roots)",
}
_NOT_INCOGNITO = "s.incognito = 0"
_ALL_BUT_INCOGNITO = f"({_NOT_INCOGNITO} OR s.session_key = :own_key)"
MOST_TOKENS = 512
"""More are not asked for at once: each costs the index one more list to merge."""
LISTED = 4_096
"""Sessions of a tree that are listed to be asked for in steps; wider scopes are joined to the sessions instead."""
_HEADS = """SELECT 's' || t.session_pk, max(b.head_pk) AS head
    FROM json_each(?) AS listed CROSS JOIN backscroll_transcripts AS t ON t.session_pk = listed.value
    CROSS JOIN backscroll_branches AS b ON b.transcript_pk = t.id AND b.active = 1
    GROUP BY t.session_pk HAVING head IS NOT NULL ORDER BY head DESC"""


class ScopeSql(NamedTuple):
    """A condition on the sessions table under the alias `s`, and its parameters."""

    condition: str
    params: dict[str, object]


def scope_sql(statements: Statements, scope: Scope) -> ScopeSql:
    """The condition that a session is in `scope`."""
    if scope.everything:
        return ScopeSql(_NOT_INCOGNITO, {})
    params: dict[str, object] = {"own_key": scope.own_key}
    if scope.admits_every_agent:
        return ScopeSql(_ALL_BUT_INCOGNITO, params)
    reach: list[str] = []
    if agents := admitted_agents(statements, scope):
        reach.append(f"s.agent_pk IN ({', '.join(map(str, agents))})")
    if scope.tree is not Tree.NONE:
        in_tree = _IN_TREE.format(followed=_followed("c", scope), root=_ROOT[bool(scope.roots)])
        reach.append(f"{_followed('s', scope)} AND {in_tree}")
        params |= _tree_params(scope)
    condition = "s.session_key = :own_key"
    if reach:
        condition += f" OR ({_NOT_INCOGNITO} AND ({' OR '.join(f'({one})' for one in reach)}))"
    return ScopeSql(f"({condition})", params)


def admitted_agents(statements: Statements, scope: Scope) -> list[int]:
    """The keys of the agents whose sessions are all in scope, each asked of the scope itself."""
    if scope.agent_id is None or not (scope.same_agent or scope.others):
        return []
    rows = statements.all(f"SELECT id, agent_id FROM {AgentRow.__tablename__}")
    return [pk for pk, agent_id in rows if scope.admits_agent(agent_id)]


def narrow_tokens(statements: Statements, scope: Scope, most: int = MOST_TOKENS) -> list[str] | None:
    """The index tokens of exactly the sessions in scope, when at most `most` say it; else None.

    More than `MOST_TOKENS` are tokens of sessions alone.
    """
    if scope.admits_every_agent:
        return None
    agents = admitted_agents(statements, scope)
    tokens = [f"a{pk}" for pk in agents]
    most = MOST_TOKENS if tokens else most
    if scope.tree is Tree.NONE or (scope.tree is Tree.SAME_AGENT and scope.same_agent):
        statement = "SELECT s.id FROM backscroll_sessions AS s WHERE s.session_key = :own_key LIMIT :most"
    else:
        statement = _TREE.format(followed=_followed("x", scope), roots=_ROOTS[bool(scope.roots)])
    params = {"own_key": scope.own_key, **_tree_params(scope), "most": most + 2 + len(scope.roots)}
    tokens += [f"s{pk}" for (pk,) in statements.all(statement, params)]
    return tokens if len(tokens) <= most else None


def last_stored_first(statements: Statements, tokens: list[str]) -> tuple[list[str], list[int]]:
    """Tokens of sessions in the order of the last message on each one's active paths, and these messages' keys.

    A message is stored after the one before it: none on the path has a greater key.
    """
    keys = json.dumps([int(token[1:]) for token in tokens])
    rows = statements.all(_HEADS, (keys,))
    return [token for token, _ in rows], [head for _, head in rows]


def tree_keys(statements: Statements, scope: Scope) -> list[str]:
    """The keys of everything below the roots of a scope's tree, stored here, and of the roots themselves."""
    statement = _BELOW.format(followed=_followed("x", scope), roots=_ROOTS[bool(scope.roots)]) + "SELECT key FROM below"
    params = {"own_key": scope.own_key, **_tree_params(scope), "most": -1}
    return [key for (key,) in statements.all(statement, params)]


def _tree_params(scope: Scope) -> dict[str, object]:
    params: dict[str, object] = {"own_agent": scope.agent_id}
    if scope.roots:
        params["roots"] = json.dumps(sorted(scope.roots))
    return params


def _followed(alias: str, scope: Scope) -> str:
    """Whether a session below the requester's own is in scope as part of its tree."""
    if scope.tree is Tree.SAME_AGENT:
        own = "(SELECT id FROM backscroll_agents WHERE agent_id = :own_agent)"
        return f"{alias}.incognito = 0 AND {alias}.agent_pk = {own}"
    return f"{alias}.incognito = 0"
