"""Backscroll keeps the transcripts of agent and chat sessions, finds what was said, and reopens it.

Each name is loaded when it is first used: who only imports the package, or asks for a command's help, need not wait.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backscroll.asynchronous import AsyncBackscroll
    from backscroll.bootstrap import Backscroll
    from backscroll.domain.audit import Action, AuditEvent
    from backscroll.domain.drafts import NewMessage
    from backscroll.domain.errors import (
        BackscrollError,
        EmptyQuery,
        ImportFailed,
        InvalidRequest,
        MessageConflict,
        RewindAcrossReset,
        SchemaOutdated,
        SessionMismatch,
        SessionNotFound,
        StoreUnavailable,
    )
    from backscroll.domain.model import Branch, Message, Reset, ResetReason, Role, Session, SessionKind, Transcript
    from backscroll.domain.parts import AttachmentPart, ReasoningPart, TextPart, ToolCallPart, ToolResultPart
    from backscroll.domain.results import (
        HistoryMessage,
        HistoryPage,
        Hit,
        ImportReport,
        IndexReport,
        MaintenanceReport,
        PruneReport,
        ReindexReport,
        SearchPage,
        SessionSummary,
        to_json,
    )
    from backscroll.domain.visibility import Requester, Visibility
    from backscroll.infrastructure.comparing import include_name, include_object
    from backscroll.infrastructure.migrate import migrate, version_location
    from backscroll.infrastructure.redaction import NoRedactor, PatternRedactor
    from backscroll.infrastructure.settings import Settings
    from backscroll.infrastructure.telemetry import OpenTelemetry

_HOMES = {
    "asynchronous": ("AsyncBackscroll",),
    "bootstrap": ("Backscroll",),
    "domain.audit": (
        "Action",
        "AuditEvent",
    ),
    "domain.drafts": ("NewMessage",),
    "domain.errors": (
        "BackscrollError",
        "EmptyQuery",
        "ImportFailed",
        "InvalidRequest",
        "MessageConflict",
        "RewindAcrossReset",
        "SchemaOutdated",
        "SessionMismatch",
        "SessionNotFound",
        "StoreUnavailable",
    ),
    "domain.model": (
        "Branch",
        "Message",
        "Reset",
        "ResetReason",
        "Role",
        "Session",
        "SessionKind",
        "Transcript",
    ),
    "domain.parts": (
        "AttachmentPart",
        "ReasoningPart",
        "TextPart",
        "ToolCallPart",
        "ToolResultPart",
    ),
    "domain.results": (
        "HistoryMessage",
        "HistoryPage",
        "Hit",
        "ImportReport",
        "IndexReport",
        "MaintenanceReport",
        "PruneReport",
        "ReindexReport",
        "SearchPage",
        "SessionSummary",
        "to_json",
    ),
    "domain.visibility": (
        "Requester",
        "Visibility",
    ),
    "infrastructure.comparing": (
        "include_name",
        "include_object",
    ),
    "infrastructure.migrate": (
        "migrate",
        "version_location",
    ),
    "infrastructure.redaction": (
        "NoRedactor",
        "PatternRedactor",
    ),
    "infrastructure.settings": ("Settings",),
    "infrastructure.telemetry": ("OpenTelemetry",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__


__all__ = [
    "Action",
    "AsyncBackscroll",
    "AttachmentPart",
    "AuditEvent",
    "Backscroll",
    "BackscrollError",
    "Branch",
    "EmptyQuery",
    "HistoryMessage",
    "HistoryPage",
    "Hit",
    "ImportFailed",
    "ImportReport",
    "IndexReport",
    "InvalidRequest",
    "MaintenanceReport",
    "Message",
    "MessageConflict",
    "NewMessage",
    "NoRedactor",
    "OpenTelemetry",
    "PatternRedactor",
    "PruneReport",
    "ReasoningPart",
    "ReindexReport",
    "Requester",
    "Reset",
    "ResetReason",
    "RewindAcrossReset",
    "Role",
    "SchemaOutdated",
    "SearchPage",
    "Session",
    "SessionKind",
    "SessionMismatch",
    "SessionNotFound",
    "SessionSummary",
    "Settings",
    "StoreUnavailable",
    "TextPart",
    "ToolCallPart",
    "ToolResultPart",
    "Transcript",
    "Visibility",
    "include_name",
    "include_object",
    "migrate",
    "to_json",
    "version_location",
]
