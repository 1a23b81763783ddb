"""Reopening: pages of history by the rules of the current view and closed intervals, and the list of sessions."""

from dataclasses import dataclass, replace

from backscroll.domain.audit import Action
from backscroll.domain.errors import InvalidRequest, SessionMismatch
from backscroll.domain.keys import checked_key
from backscroll.domain.limits import Limits, checked_limit, checked_offset
from backscroll.domain.model import Line, Message, Role
from backscroll.domain.paths import Stretch, closed_interval, current_view, window
from backscroll.domain.ports import Redactor, UnitOfWork
from backscroll.domain.results import HistoryPage, SessionSummary
from backscroll.domain.stores import Stores
from backscroll.domain.text import checked_message_id, checked_name
from backscroll.domain.visibility import Requester, Scope
from backscroll.services.guarding import Guard
from backscroll.services.showing import Presenter, fitting, json_bytes, shorter_message


@dataclass(frozen=True, slots=True)
class _Cut:
    """The messages of a page: of which stretch, how many older ones precede them, which one must stay."""

    messages: list[Message]
    stretch: Stretch
    has_older: bool
    anchor: int


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
                line = self._visible_line(unit, key, wanted, scope)
                shown.append(key)
                page = HistoryPage(session_key=key, session_id=line.transcript.session_id)
                named = anchor if anchor is not None else end
                if named is None:
                    cut = _newest(unit, line, limit, offset, tools=include_tools)
                else:
                    message = unit.messages.find(line.transcript.session_id, named)
                    if message is None or not message.active:
                        return page
                    stretch = _stretch_of(unit, line, message)
                    cut = (_before if anchor is None else _around)(unit, message, stretch, limit, tools=include_tools)
                total = unit.messages.count(line.transcript.session_id, cut.stretch, tools=include_tools)
        return self._page(replace(page, total=total), cut, offset if named is None else None)

    def _visible_line(self, unit: UnitOfWork, key: str, session_id: str | None, scope: Scope) -> Line:
        line = unit.messages.visible_line(key, session_id, scope)
        if line is None:
            self._guard.session(unit, key, scope)
            raise SessionMismatch
        return line

    def _page(self, page: HistoryPage, cut: _Cut, offset: int | None) -> HistoryPage:
        presenter = Presenter(self._redactor, self._limits.message_chars)
        shown = [presenter.show(message) for message in cut.messages]
        kept, dropped = fitting(
            shown, self._limits.history_bytes, json_bytes(page), min(cut.anchor, len(shown) - 1), shorter_message
        )
        has_more = cut.has_older or dropped > 0
        return replace(
            page,
            messages=tuple(kept),
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


def _newest(unit: UnitOfWork, line: Line, limit: int, offset: int, *, tools: bool) -> _Cut:
    view = current_view(line.branch.depth, line.reset)
    session_id = line.transcript.session_id
    found = unit.messages.older(session_id, view, view.last + 1, limit + 1, tools=tools, offset=offset)
    messages = found[-limit:]
    return _Cut(messages, view, len(found) > limit, anchor=len(messages) - 1)


def _before(unit: UnitOfWork, message: Message, stretch: Stretch, limit: int, *, tools: bool) -> _Cut:
    found = unit.messages.older(message.session_id, stretch, message.depth, limit + 1, tools=tools)
    messages = found[-limit:]
    return _Cut(messages, stretch, len(found) > limit, anchor=len(messages) - 1)


def _around(unit: UnitOfWork, message: Message, stretch: Stretch, limit: int, *, tools: bool) -> _Cut:
    middle = [message] if tools or message.role is not Role.TOOL else []
    session_id, depth = message.session_id, message.depth
    newer = unit.messages.newer(session_id, stretch, depth, limit // 2, tools=tools)
    # One older message more than can be shown tells whether any precede the page.
    older = unit.messages.older(session_id, stretch, depth, limit - len(newer), tools=tools)
    if len(older) < limit - limit // 2 and len(newer) == limit // 2:
        newer = unit.messages.newer(session_id, stretch, depth, limit - 1 - len(older), tools=tools)
    older_taken, newer_taken = window(limit, len(older), len(newer))
    shown = older[len(older) - older_taken :] + middle + newer[:newer_taken]
    return _Cut(shown, stretch, len(older) > older_taken, anchor=min(older_taken, len(shown) - 1))


def _stretch_of(unit: UnitOfWork, line: Line, message: Message) -> Stretch:
    """Where an active message is read: in the current view if it is there, else in its closed interval."""
    view = current_view(line.branch.depth, line.reset)
    if view.holds(message.depth, message.role):
        return view
    previous, closing = unit.messages.interval_resets(message.session_id, message.depth)
    return view if closing is None else closed_interval(previous, closing)
