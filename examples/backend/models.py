"""The backend's own tables. Their names may be any: all of Backscroll's start with `backscroll_`."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import orm


class Base(orm.DeclarativeBase):
    """The backend's metadata, which Backscroll's tables are no part of."""


class User(Base):
    """Somebody who can sign in."""

    __tablename__ = "users"

    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(64), unique=True)
    password_hash: orm.Mapped[str]

    @property
    def agent_id(self) -> str:
        """The agent that owns this user's conversations: one for each user, so that no user sees another's."""
        return f"user-{self.id}"


class LoginSession(Base):
    """A browser that has signed in. The cookie's token is kept as a hash: who reads the table cannot use it."""

    __tablename__ = "sessions"

    token_hash: orm.Mapped[str] = orm.mapped_column(primary_key=True)
    user_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("users.id", ondelete="CASCADE"), index=True)
    expires_at: orm.Mapped[datetime]
    """In UTC, without a zone: what SQLite can hold."""


class Conversation(Base):
    """A user's conversation; what was said in it is Backscroll's, under `session_key`."""

    __tablename__ = "conversations"

    id: orm.Mapped[str] = orm.mapped_column(primary_key=True)
    user_id: orm.Mapped[int] = orm.mapped_column(sa.ForeignKey("users.id", ondelete="CASCADE"), index=True)
    session_key: orm.Mapped[str] = orm.mapped_column(unique=True)
    title: orm.Mapped[str]


class Message(Base):
    """A message that the user wrote, and the one it was said to: an edited one is said to the same again."""

    __tablename__ = "messages"

    id: orm.Mapped[str] = orm.mapped_column(primary_key=True)
    conversation_id: orm.Mapped[str] = orm.mapped_column(
        sa.ForeignKey("conversations.id", ondelete="CASCADE"), index=True
    )
    said_to: orm.Mapped[str]
