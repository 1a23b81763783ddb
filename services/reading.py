"""Reopening: pages of history by the rules of the current view and closed intervals, and the list of sessions."""

from dataclasses import replace
from functools import partial

from backscroll.domain.audit import Action
from backscroll.domain.errors import InvalidRequest, SessionMismatch
from backscroll.domain.keys import checked_key
from backscroll.domain.limits import Limits, checked_limit, checked_offset
from backscroll.domain.model import PathPage
from backscroll.domain.paths import Position, Stretch
from backscroll.domain.ports import Redactor, UnitOfWork
from backscroll.domain.results import HistoryPage, SessionSummary
from backscroll.domain.sizes import messages_fit
from backscroll.domain.stores import Stores
from backscroll.domain.text import checked_message_id, checked_name
from backscroll.domain.visibility import Requester, Scope
from backscroll.services.guarding import Guard
from backscroll.services.showing import Presenter, fitting, shorter_message


class Reading:
    """The use cases that reopen and list."""

    def __init__(self, stores: Stores, guard: Guard, redactor: Redactor, limits: Limits) -> None:
        self._stores = stores
        self._guard = guard
        self._redactor = redactor
        self._limits = limits

    def history(
        self,
        session_key: str,
        *,
        requester: Requester,
        session_id: str | None,
        message_id: str | None,
        limit: int | None,
        offset: int,
        before: str | None,
        include_tools: bool,
    ) -> HistoryPage:
        """A page of the current view, or around a message, or before one."""
        key = checked_key(session_key)
        limit = checked_limit(limit, self._limits.history_messages, self._limits.history_messages_max)
        offset = checked_offset(offset)
        wanted = None if session_id is None else checked_name(session_id, "session_id")
        anchor = None if message_id is None else checked_message_id(message_id)
        end = None if before is None else checked_message_id(before)
        if anchor is not None and offset:
            raise InvalidRequest("message_id and offset exclude each other: page on with before")
        if end is not None and (offset or anchor is not None):
            raise InvalidRequest("before goes with neither offset nor message_id")
        watched = self._guard.watched(
            Action.HISTORY, requester, session_key=key, session_id=wanted, message_id=anchor or end
        )
        with watched as shown:
            scope = self._stores.scope_at(key, self._guard.scope(requester))
            with self._stores.of(key).reading() as unit:
                position = self._position(unit, key, wanted, anchor or end, scope)
                shown.append(key)
                session_id, stretch = position.session_id, position.stretch()
                if anchor is None and end is None:
                    cut = _up_to(unit, session_id, stretch, stretch.last + 1, limit, tools=include_tools, offset=offset)
                elif position.anchor is None:
                    return HistoryPage(session_key=key, session_id=session_id)
                elif anchor is None:
                    cut = _up_to(unit, session_id, stretch, position.anchor.depth, limit, tools=include_tools)
                else:
                    cut = unit.messages.around(session_id, stretch, position.anchor, limit, tools=include_tools)
                total = unit.messages.count(session_id, stretch, tools=include_tools)
        return self._page(key, session_id, cut, total, offset if anchor is None and end is None else None)

    def _position(
        self, unit: UnitOfWork, key: str, session_id: str | None, message_id: str | None, scope: Scope
    ) -> Position:
        position = unit.messages.position(key, session_id, message_id, scope)
        if position is None:
            self._guard.session(unit, key, scope)
            raise SessionMismatch
        return position

    def _page(self, session_key: str, session_id: str, cut: PathPage, total: int, offset: int | None) -> HistoryPage:
        presenter = Presenter(self._redactor, self._limits.message_chars)
        shown = [presenter.show(message) for message in cut.messages]
        page = partial(HistoryPage, session_key=session_key, session_id=session_id)
        most = self._limits.history_bytes
        kept, dropped = fitting(page, shown, most, cut.place, shorter_message, messages_fit)
        has_more = cut.has_older or dropped > 0
        return page(
            messages=tuple(kept),
            total=total,
            has_more=has_more,
            next_offset=offset + len(kept) if offset is not None and has_more else None,
            truncated=len(kept) < len(shown) or any(message.truncated for message in kept),
            redacted=presenter.redacted,
        )

    def sessions(self, *, requester: Requester, limit: int | None, offset: int) -> list[SessionSummary]:
        """The sessions that the requester may see, the last written to first."""
        limit = checked_limit(limit, self._limits.listed_sessions, self._limits.listed_sessions_max)
        offset = checked_offset(offset)
        presenter = Presenter(self._redactor, self._limits.message_chars)
        with self._guard.watched(Action.SESSIONS, requester) as shown:
            listed = self._stores.listed(self._guard.scope(requester), limit, offset)
            shown += [one.session_key for one in listed]
        return [replace(one, title=presenter.mask(one.title) if one.title else one.title) for one in listed]


def _up_to(
    unit: UnitOfWork, session_id: str, stretch: Stretch, before: int, limit: int, *, tools: bool, offset: int = 0
) -> PathPage:
    # One message more than can be shown tells whether any precede the page.
    found = unit.messages.older(session_id, stretch, before, limit + 1, tools=tools, offset=offset)
    messages = found[-limit:]
    return PathPage(messages, len(found) > limit, len(messages) - 1)
