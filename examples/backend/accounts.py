"""Signing in and out: who is behind a browser's cookie."""

import hashlib
import secrets
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from sqlalchemy import orm

from examples.backend import passwords
from examples.backend.models import LoginSession, User

LIFETIME = timedelta(days=7)


def authenticated(db: orm.Session, name: str, password: str) -> int | None:
    """The id of the user of that name, if the password is right."""
    user = db.scalar(sa.select(User).where(User.name == name))
    fits = passwords.fits(password, user.password_hash if user else None)
    return user.id if user and fits else None


def sign_in(db: orm.Session, user_id: int) -> str:
    """A token for the user's browser to keep in its cookie."""
    db.execute(sa.delete(LoginSession).where(LoginSession.expires_at < _now()))
    token = secrets.token_urlsafe(32)
    db.add(LoginSession(token_hash=_hash(token), user_id=user_id, expires_at=_now() + LIFETIME))
    return token


def sign_out(db: orm.Session, token: str) -> None:
    """Makes the token worthless."""
    db.execute(sa.delete(LoginSession).where(LoginSession.token_hash == _hash(token)))


def signed_in(db: orm.Session, token: str | None) -> User | None:
    """The user whose browser sent the token."""
    if token is None:
        return None
    valid = (LoginSession.token_hash == _hash(token), LoginSession.expires_at >= _now())
    return db.scalar(sa.select(User).join(LoginSession, LoginSession.user_id == User.id).where(*valid))


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
