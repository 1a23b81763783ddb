"""Which messages match a search and may be seen, as one piece of SQL that every ranking starts from."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from backscroll.domain.model import SPOKEN
from backscroll.domain.ports import SearchRequest
from backscroll.domain.query import Order, Query
from backscroll.infrastructure import fts
from backscroll.infrastructure.scopes import LISTED, MOST_TOKENS, last_stored_first, narrow_tokens, scope_sql
from backscroll.infrastructure.statements import Statements
from backscroll.infrastructure.types import json_text, micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """What follows the FROM of a SELECT of matching messages (`m`), with its parameters.

    `filters` are the conditions alone, with what they need joined to messages already found. `counted` counts, up to
    `:bound`, in how many of all messages in scope, whatever else the request leaves out, each of the `:expressions`
    occurs. `tokens` and `agents` are the index tokens that narrow the match itself, `ends` the words that complete a
    prefix query.

    `told_by_index`: what the index finds is what matches. `heads`: of more tokens than FTS5 intersects quickly, the
    last message of each session, the last stored first.
    """

    source: str
    filters: str
    counted: str
    params: dict[str, object]
    told_by_index: bool
    tokens: tuple[str, ...]
    heads: tuple[int, ...]
    agents: tuple[str, ...]
    ends: tuple[str, ...]

    @property
    def narrowing(self) -> int:
        """How many tokens the index is asked for beside the query."""
        return len(self.tokens) + len(self.agents)

    def steps(self) -> Iterator[int | None]:
        """With how many of the tokens to ask, until what is found suffices: few of many do for a common word."""
        step = _STEP
        while step < len(self.heads):
            yield step
            step *= _FACTOR
        yield None

    def expression(self, query: Query, step: int | None = None) -> str:
        """What to ask the index for `query` in this scope, or in its first `step` tokens; the parameter `match`."""
        return fts.match_expression(query, self.tokens[:step], self.agents, self.ends)

    def anywhere(self, query: Query) -> str:
        """What to ask the index for `query` in every scope."""
        return fts.match_expression(query, ends=self.ends)


def matching(statements: Statements, request: SearchRequest, *, settled: bool = False) -> Matching | None:
    """The messages that a request is about; None when no message can be.

    `settled`: nothing in scope waits to be reindexed.
    """
    asked = _filters(request)
    exact = settled and len(asked.conditions) == _ALWAYS and SPOKEN.issubset(request.roles)
    ends = fts.completions(statements, request.query)
    within = _within(statements, request, LISTED if exact and request.order is Order.RELEVANCE else MOST_TOKENS, ends)
    if within is None:
        return None
    # From the index to the messages, never the other way round, whatever the planner may think.
    messages = f" CROSS JOIN backscroll_messages AS m ON m.id = {fts.INDEX}.rowid"
    join = _SESSION if within.conditions else ""
    filters = f"{join} WHERE {' AND '.join([*asked.conditions, *within.conditions])}"
    anywhere = " AND ".join([f"{fts.INDEX} MATCH asked.value", *within.conditions])
    every = f"SELECT 1 FROM {fts.INDEX}{messages + join if join else ''} WHERE {anywhere} LIMIT :bound"
    return Matching(
        source=f"{fts.INDEX}{messages}{filters} AND {fts.INDEX} MATCH :match",
        filters=filters,
        counted=f"SELECT (SELECT count(*) FROM ({every})) FROM json_each(:expressions) AS asked",
        params=asked.params | within.params,
        told_by_index=exact and not within.conditions,
        tokens=tuple(within.tokens),
        heads=tuple(within.heads),
        agents=tuple(within.agents),
        ends=ends,
    )


@dataclass(slots=True)
class _Asked:
    """Conditions on messages (`m`) and sessions (`s`) with their parameters."""

    conditions: list[str] = field(default_factory=list)
    params: dict[str, object] = field(default_factory=dict)


@dataclass(slots=True)
class _Within(_Asked):
    """A scope: index tokens, and conditions where those do not say it."""

    tokens: list[str] = field(default_factory=list)
    heads: list[int] = field(default_factory=list)
    agents: list[str] = field(default_factory=list)


def _filters(request: SearchRequest) -> _Asked:
    """What a request leaves out, whoever asks."""
    roles = ", ".join(f":role{place}" for place in range(len(request.roles)))
    asked = _Asked(["m.active = 1", f"m.role IN ({roles})"])
    asked.params |= {f"role{place}": str(role) for place, role in enumerate(request.roles)}
    if request.since is not None:
        asked.conditions.append("m.created_at >= :since")
        asked.params["since"] = micros(request.since)
    if request.until is not None:
        asked.conditions.append("m.created_at < :until")
        asked.params["until"] = micros(request.until)
    if request.leave_out is not None:
        session_id, stretch = request.leave_out
        asked.conditions.append(
            "NOT (m.transcript_pk = (SELECT id FROM backscroll_transcripts WHERE session_id = :left_out)"
            " AND m.depth BETWEEN :first AND :last)"
        )
        asked.params |= {"left_out": session_id, "first": stretch.first, "last": stretch.last}
    return asked


def _within(statements: Statements, request: SearchRequest, most: int, ends: tuple[str, ...]) -> _Within | None:
    """Where a request looks, in at most so many tokens; None when there is nothing."""

    def is_rare() -> bool:
        return fts.is_rare(statements, fts.match_expression(request.query, ends=ends), _FEW_MATCHES)

    scope = request.scope
    every_agent = scope.admits_every_agent
    reaches_agents = request.session is None and not every_agent and bool(scope.same_agent or scope.others)
    # A wide token is a long list to merge: of a few matches the sessions are quicker looked up.
    looked_up = (reaches_agents or request.agents is not None) and is_rare()
    within = _Within()
    if request.session is not None:
        pk = statements.scalar(_SESSION_KEY, (request.session.session_key,))
        within.tokens = [f"s{pk}"]
    elif not every_agent:
        tokens = None if looked_up else narrow_tokens(statements, scope, most)
        if tokens is not None and len(tokens) > _MANY and not looked_up and is_rare():
            tokens = None
        if tokens == []:
            return None
        if tokens is None:
            allowed = scope_sql(statements, scope)
            within.conditions.append(allowed.condition)
            within.params |= allowed.params
        elif len(tokens) > MOST_TOKENS:
            within.tokens, within.heads = last_stored_first(statements, tokens)
        else:
            within.tokens = tokens
    if request.agents is not None:
        agents = [pk for (pk,) in statements.all(_AGENTS, (json_text(list(request.agents)),))]
        if not agents:
            return None
        if looked_up or len(agents) > MOST_TOKENS:
            within.conditions.append(f"s.agent_pk IN ({', '.join(map(str, agents))})")
        else:
            within.agents = [f"a{pk}" for pk in agents]
    return within


_ALWAYS = 2
"""The conditions of every search: what is active, and the roles."""
_STEP, _FACTOR = 96, 4
_MANY = 64
"""Tokens that take longer to intersect than a few matches' sessions to look up."""
_FEW_MATCHES = 100
_AGENTS = "SELECT id FROM backscroll_agents WHERE agent_id IN (SELECT value FROM json_each(?))"
_SESSION_KEY = "SELECT id FROM backscroll_sessions WHERE session_key = ?"
_SESSION = (
    " CROSS JOIN backscroll_transcripts AS t ON t.id = m.transcript_pk"
    " CROSS JOIN backscroll_sessions AS s ON s.id = t.session_pk"
)
