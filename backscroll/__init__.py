"""Backscroll keeps the transcripts of agent and chat sessions, finds what was said, and reopens it."""

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
from backscroll.infrastructure.redaction import NoRedactor, PatternRedactor
from backscroll.infrastructure.settings import Settings

__all__ = [
    "Action",
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
    "to_json",
]
