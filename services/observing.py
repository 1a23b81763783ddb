"""Telling the telemetry of every call of the facade, in one place: what of each call is told stands in one table."""

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, Protocol, TypeVar

from backscroll.domain.query import Match, Order
from backscroll.domain.results import IndexReport, ReindexReport
from backscroll.domain.telemetry import Counter, Outcome, Telemetry

Asked = Mapping[str, Any]
"""The call's keyword arguments. Its outcome is told after it accepted them, and so they are within their bounds."""

_OUTCOMES: Mapping[str, Callable[[Asked, Any], Outcome]] = {
    "ensure_session": lambda _, session: Outcome({"kind": session.kind}),
    "append": lambda _, message: Outcome({"messages": 1, "role": message.role}, {Counter.APPENDS: 1}),
    "append_many": lambda _, messages: Outcome({"messages": len(messages)}, {Counter.APPENDS: len(messages)}),
    "edit": lambda _, message: Outcome({"role": message.role}),
    "rewind": lambda *_: Outcome(),
    "branches": lambda _, branches: Outcome({"branches": len(branches)}),
    "switch_branch": lambda *_: Outcome(),
    "reset": lambda asked, reset: Outcome({"reason": reset.reason, "rotated": bool(asked.get("rotate"))}),
    "delete_session": lambda _, deleted: Outcome({"deleted": deleted}),
    "search": lambda asked, page: Outcome(
        {
            "match": Match(asked.get("match", Match.ALL)),
            "order": Order(asked.get("order", Order.RELEVANCE)),
            "hits": len(page.hits),
            "indexing": page.indexing,
            "truncated": page.truncated,
        },
        {Counter.SEARCHES: 1},
    ),
    "history": lambda asked, page: Outcome(
        {
            "anchored": asked.get("message_id") is not None,
            "messages": len(page.messages),
            "truncated": page.truncated,
            "redacted": page.redacted,
        }
    ),
    "sessions": lambda _, listed: Outcome({"sessions": len(listed)}),
    "reindex": lambda _, report: reindexed(report),
    "verify": lambda _, report: _compared(report),
    "repair": lambda _, report: _compared(report),
    "maintain": lambda _, report: Outcome(
        {"bytes_before": report.bytes_before, "bytes_after": report.bytes_after, "vacuumed": report.vacuumed}
    ),
    "prune": lambda _, report: Outcome({"sessions": len(report.session_keys), "deleted": report.deleted}),
    "import_transcripts": lambda _, report: Outcome(
        {"files": report.files, "sessions": report.sessions, "messages": report.messages, "bad": report.bad},
        {Counter.APPENDS: report.messages},
    ),
}


def reindexed(report: ReindexReport) -> Outcome:
    """What a reindexing came to, asked for or in the background; its rows are counted batch by batch."""
    return Outcome({"transcripts": report.transcripts, "failed": len(report.failed)})


def _compared(report: IndexReport) -> Outcome:
    return Outcome({"ok": report.ok, "pending": report.pending, "problems": len(report.problems)})


class _Observed(Protocol):
    _telemetry: Telemetry


F = TypeVar("F", bound=type)


def observed(facade: F) -> F:
    """Lets every call of `facade` go through its `_telemetry`; signatures and documentation stay."""
    for name, outcome in _OUTCOMES.items():
        setattr(facade, name, _through_telemetry(name, getattr(facade, name), outcome))
    return facade


def _through_telemetry(
    name: str, method: Callable[..., Any], outcome: Callable[[Asked, Any], Outcome]
) -> Callable[..., Any]:
    @wraps(method)
    def call(self: _Observed, /, *args: Any, **kwargs: Any) -> Any:
        return self._telemetry.observed(name, partial(method, self, *args, **kwargs), partial(outcome, kwargs))

    return call
