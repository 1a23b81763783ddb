"""Stores and domain objects for tests, valid unless told otherwise, each object different from the last."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import factory
import sqlalchemy as sa

from backscroll import (
    Backscroll,
    Branch,
    Message,
    NewMessage,
    Reset,
    ResetReason,
    Role,
    Session,
    SessionKind,
    Settings,
    TextPart,
    Transcript,
)
from backscroll.domain.ids import new_id
from backscroll.infrastructure import migrate
from backscroll.infrastructure.engine import begun
from backscroll.infrastructure.per_agent.files import AgentFiles
from backscroll.infrastructure.per_agent.opening import Opener
from backscroll.infrastructure.per_agent.stores import AgentOptions, AgentStores
from backscroll.infrastructure.store import StoreOptions

EPOCH = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


OPTIONS = StoreOptions(rank_bound=2_000, inline_reindex_limit=500, new_id=new_id, clock=lambda: datetime.now(UTC))
"""What a store below the facade is made with."""


def at(seconds: float) -> datetime:
    """A time so many seconds after the tests' epoch."""
    return EPOCH + timedelta(seconds=seconds)


class NothingSecret:
    """A redactor for tests that compare texts."""

    def secrets(self, text: str) -> Sequence[tuple[int, int]]:
        return ()


def opened(path: Path, redactor: NothingSecret | None = None, **changes: object) -> Backscroll:
    """The store at `path`, waiting for no disk and reindexing only when told to, with `changes` of the settings."""
    usual: dict[str, object] = {"synchronous": "NORMAL", "background_reindex": False}
    return Backscroll.open(Settings(database_url=f"sqlite:///{path}", **{**usual, **changes}), redactor=redactor)


def prepared(engine: sa.Engine, *, upgrade: bool) -> None:
    with begun(engine, writing=True) as connection:
        migrate.upgrade(connection)
        connection.commit()


def agent_stores(folder: Path, options: StoreOptions = OPTIONS) -> AgentStores:
    """Stores below the facade with a file for each agent, of which two are open at a time."""
    files = AgentFiles.of(f"sqlite:///{folder}/{{agent_id}}.db")
    opener = Opener(files, prepared, upgrade=True, busy_timeout=5, synchronous="NORMAL")
    return AgentStores(files, opener, options, AgentOptions(open_files=2, threads=2, patience=5))


class NewMessageFactory(factory.Factory[NewMessage]):
    class Meta:
        model = NewMessage

    role = "user"
    content = factory.Sequence(lambda number: f"what was said in message number{number}")


class SessionFactory(factory.Factory[Session]):
    class Meta:
        model = Session

    session_key = factory.Sequence(lambda number: f"agent:main:session{number}")
    session_id = factory.Sequence(lambda number: f"transcript{number}")
    agent_id = "main"
    kind = SessionKind.OTHER
    created_at = EPOCH
    updated_at = EPOCH


class TranscriptFactory(factory.Factory[Transcript]):
    class Meta:
        model = Transcript

    session_id = factory.Sequence(lambda number: f"further-transcript{number}")
    session_key = "agent:main:main"
    started_at = EPOCH


class MessageFactory(factory.Factory[Message]):
    class Meta:
        model = Message

    message_id = factory.Sequence(lambda number: f"message{number}")
    session_id = "transcript"
    role = Role.USER
    parts = factory.Sequence(lambda number: (TextPart(f"said{number}"),))
    created_at = factory.Sequence(lambda number: at(number))


class BranchFactory(factory.Factory[Branch]):
    class Meta:
        model = Branch

    branch_id = factory.Sequence(lambda number: f"branch{number}")
    session_id = "transcript"
    head = None
    depth = 0
    active = True
    created_at = EPOCH


class ResetFactory(factory.Factory[Reset]):
    class Meta:
        model = Reset

    reset_id = factory.Sequence(lambda number: f"reset{number}")
    session_id = "transcript"
    reason = ResetReason.MANUAL
    created_at = EPOCH
