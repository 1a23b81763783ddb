"""Finding: a query on behalf of somebody, answered within bounds."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from backscroll.domain.audit import Action
from backscroll.domain.drafts import checked_time, chosen
from backscroll.domain.errors import InvalidRequest
from backscroll.domain.excerpts import excerpt
from backscroll.domain.keys import checked_key
from backscroll.domain.limits import Limits, checked_limit
from backscroll.domain.model import SPOKEN, Role
from backscroll.domain.paths import Stretch, current_view
from backscroll.domain.ports import Match as FoundMessage
from backscroll.domain.ports import Redactor, SearchRequest, UnitOfWork
from backscroll.domain.query import Match, Order, Query
from backscroll.domain.results import Hit, SearchPage
from backscroll.domain.sizes import hits_fit
from backscroll.domain.stores import Asking, Stores
from backscroll.domain.text import checked_name
from backscroll.domain.visibility import Requester, Scope
from backscroll.services.guarding import Guard
from backscroll.services.showing import fitting


class Searching:
    """The use case that searches."""

    def __init__(
        self,
        stores: Stores,
        guard: Guard,
        redactor: Redactor,
        limits: Limits,
        on_pending: Callable[[], None],
    ) -> None:
        self._on_pending = on_pending
        self._stores = stores
        self._guard = guard
        self._redactor = redactor
        self._limits = limits

    def search(
        self,
        query: str,
        *,
        requester: Requester,
        session_key: str | None,
        agents: Sequence[str] | None,
        roles: Sequence[str] | None,
        since: datetime | None,
        until: datetime | None,
        match: str,
        order: str,
        limit: int | None,
        exclude_current: bool,
    ) -> SearchPage:
        """The best hits among the messages that the requester may see."""
        asked = Query.parse(query, chosen(match, Match, "match"), self._limits.query_chars)
        by = chosen(order, Order, "order")
        limit = checked_limit(limit, self._limits.search_hits, self._limits.search_hits_max)
        key = None if session_key is None else checked_key(session_key)
        start = None if since is None else checked_time(since, "since")
        end = None if until is None else checked_time(until, "until")
        if start is not None and end is not None and start > end:
            raise InvalidRequest("since must not be later than until")
        scope = self._guard.scope(requester)
        names = None if agents is None else tuple(checked_name(one, "agents") for one in _listed(agents, "agents"))
        spoken = _spoken(roles)

        def request(unit: UnitOfWork, visible: Scope) -> SearchRequest:
            return SearchRequest(
                query=asked,
                scope=visible,
                session=None if key is None else self._guard.session(unit, key, visible),
                agents=names,
                roles=spoken,
                since=start,
                until=end,
                order=by,
                limit=limit + 1,
                leave_out=_own_view(unit, requester) if exclude_current else None,
            )

        with self._guard.watched(Action.SEARCH, requester, query=query, session_key=key) as shown:
            found = self._stores.search(Asking(key, names, request), scope)
            best = found.matches[:limit]
            shown += [one.session_key for one in best]
        if found.indexing:
            self._on_pending()
        hits = [self._hit(one, asked) for one in best]
        page = partial(SearchPage, indexing=found.indexing)
        kept, _ = fitting(page, hits, self._limits.search_bytes, 0, _shorter_hit, hits_fit)
        return page(hits=tuple(kept), truncated=len(found.matches) > limit or kept != hits)

    def _hit(self, found: FoundMessage, query: Query) -> Hit:
        shown = excerpt(found.text, query, self._redactor.secrets(found.text), self._limits.excerpt_chars)
        return Hit(
            session_key=found.session_key,
            session_id=found.session_id,
            message_id=found.message_id,
            role=found.role,
            timestamp=found.created_at,
            excerpt=shown.text,
            score=found.score,
            highlights=shown.highlights,
        )


def _listed(values: object, what: str) -> Sequence[object]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence | set | frozenset):
        raise InvalidRequest(f"{what} must be a list of strings, not {type(values).__name__}")
    return list(values)


def _spoken(roles: object) -> tuple[Role, ...]:
    if roles is None:
        return tuple(sorted(SPOKEN))
    chosen_roles = tuple(chosen(role, Role, "roles") for role in _listed(roles, "roles"))
    if not chosen_roles or not SPOKEN.issuperset(chosen_roles):
        raise InvalidRequest(f"roles must be of {', '.join(sorted(SPOKEN))}: nothing else is searchable")
    return chosen_roles


def _own_view(unit: UnitOfWork, requester: Requester) -> tuple[str, Stretch] | None:
    line = unit.messages.current_line(requester.session_key) if requester.session_key is not None else None
    return None if line is None else (line.session.session_id, current_view(line.branch.depth, line.reset))


def _shorter_hit(hit: Hit) -> Hit:
    return replace(hit, highlights=()) if hit.highlights else replace(hit, excerpt="")
