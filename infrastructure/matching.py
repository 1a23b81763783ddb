"""Which messages match a search and may be seen, as one piece of SQL that every ranking starts from."""

from dataclasses import dataclass

import sqlalchemy as sa

from backscroll.domain.model import SPOKEN
from backscroll.domain.ports import SearchRequest
from backscroll.domain.query import Query
from backscroll.infrastructure import fts
from backscroll.infrastructure.scopes import MOST_TOKENS, narrow_tokens, scope_sql
from backscroll.infrastructure.types import json_text, micros


@dataclass(frozen=True, slots=True)
class Matching:
    """What follows the FROM of a SELECT of matching messages (`m`), with its parameters.

    `filters` are the conditions alone, with what they need joined to messages already found. `selective`: they leave
    out some of what the index finds even when that is up to date. `counted` counts, up to `:bound`, in how many of
    all messages in scope, whatever else the request leaves out, each of the `:expressions` occurs. `tokens` and
    `agents` are the index tokens that narrow the match itself.
    """

    source: str
    filters: str
    selective: bool
    counted: str
    params: dict[str, object]
    tokens: tuple[str, ...]
    agents: tuple[str, ...]

    @property
    def narrowed(self) -> bool:
        """Whether the index is asked for anything but the query."""
        return bool(self.tokens or self.agents)

    def expression(self, query: Query) -> str:
        """What to ask the index for `query` in this scope; the parameter `match`."""
        return fts.match_expression(query, self.tokens, self.agents)


def matching(connection: sa.Connection, request: SearchRequest) -> Matching | None:
    """The messages that a request is about; None when no message can be."""
    scope = request.scope
    reaches_agents = request.session is None and not scope.admits_every_agent and (scope.same_agent or scope.others)
    # A wide token is a long list to merge: of a few matches the sessions are quicker looked up.
    looked_up = (reaches_agents or request.agents is not None) and fts.is_rare(connection, request.query, _FEW_MATCHES)
    conditions = ["m.active = 1"]
    params: dict[str, object] = {}
    by_session: list[str] = []
    if request.session is not None:
        pk = connection.exec_driver_sql(_SESSION_KEY, (request.session.session_key,)).scalar()
        tokens: list[str] | None = [f"s{pk}"]
    else:
        tokens = None if reaches_agents and looked_up else narrow_tokens(connection, scope)
        if tokens is None and not scope.admits_every_agent:
            allowed = scope_sql(connection, scope)
            by_session.append(allowed.condition)
            params |= allowed.params
    agents: list[int] = []
    if request.agents is not None:
        agents = list(connection.exec_driver_sql(_AGENTS, (json_text(list(request.agents)),)).scalars())
        if looked_up or len(agents) > MOST_TOKENS:
            by_session.append(f"s.agent_pk IN ({', '.join(map(str, agents))})")
    if tokens == [] or (request.agents is not None and not agents):
        return None
    conditions.append(f"m.role IN ({', '.join(f':role{place}' for place in range(len(request.roles)))})")
    params |= {f"role{place}": str(role) for place, role in enumerate(request.roles)}
    if request.since is not None:
        conditions.append("m.created_at >= :since")
        params["since"] = micros(request.since)
    if request.until is not None:
        conditions.append("m.created_at < :until")
        params["until"] = micros(request.until)
    if request.leave_out is not None:
        session_id, stretch = request.leave_out
        conditions.append(
            "NOT (m.transcript_pk = (SELECT id FROM backscroll_transcripts WHERE session_id = :left_out)"
            " AND m.depth BETWEEN :first AND :last)"
        )
        params |= {"left_out": session_id, "first": stretch.first, "last": stretch.last}
    # From the index to the messages, never the other way round, whatever the planner may think.
    messages = f" CROSS JOIN backscroll_messages AS m ON m.id = {fts.INDEX}.rowid"
    join = _SESSION if by_session else ""
    filters = f"{join} WHERE {' AND '.join([*conditions, *by_session])}"
    within = "".join(f" AND {condition}" for condition in by_session)
    anywhere = f"FROM {fts.INDEX}{messages + join if by_session else ''} WHERE {fts.INDEX} MATCH asked.value{within}"
    listed = () if looked_up or len(agents) > MOST_TOKENS else tuple(f"a{pk}" for pk in agents)
    return Matching(
        source=f"{fts.INDEX}{messages}{filters} AND {fts.INDEX} MATCH :match",
        filters=filters,
        selective=bool(by_session) or len(conditions) > _ALWAYS or not SPOKEN.issubset(request.roles),
        counted=f"SELECT (SELECT count(*) FROM (SELECT 1 {anywhere} LIMIT :bound)) FROM {_ASKED}",
        params=params,
        tokens=tuple(tokens or ()),
        agents=listed,
    )


_ALWAYS = 2
"""The conditions of every search: what is active, and the roles."""
_ASKED = "json_each(:expressions) AS asked"
_FEW_MATCHES = 100
_AGENTS = "SELECT id FROM backscroll_agents WHERE agent_id IN (SELECT value FROM json_each(?))"
_SESSION_KEY = "SELECT id FROM backscroll_sessions WHERE session_key = ?"
_SESSION = (
    " CROSS JOIN backscroll_transcripts AS t ON t.id = m.transcript_pk"
    " CROSS JOIN backscroll_sessions AS s ON s.id = t.session_pk"
)
