"""Sample users and conversations, made through the same code as everybody's."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from examples.backend import passwords
from examples.backend.chat import Chat
from examples.backend.database import Database
from examples.backend.models import Conversation, User

USERS = {"demo": "sample-demo", "guest": "sample-guest"}
"""Passwords by name. They are in this file for everybody to read: for a trial on one machine alone."""

_START = datetime(2026, 3, 2, 7, 30, tzinfo=UTC)
_TALKS = {
    "demo": [
        [
            "Which night is best for the backup of the orders database?",
            "The restore has to be rehearsed before the quarter ends.",
            "后天上午我们检查备份策略",
        ],
        ["Soup for six: red lentils, cumin, lemon.", "Double the lemon."],
        [
            "Plan the trip to Naxos",
            "The slow ferry leaves Piraeus at 07:30 and needs five hours.",
            "Two cabins, and the bicycles go on deck.",
        ],
    ],
    "guest": [["The key for the bicycle shed hangs behind the door.", "The slow bicycle needs air."]],
}


def fill(database: Database) -> None:
    """Puts the samples into a database without users; any other stays as it is."""
    with database.transaction(writing=True) as (db, scroll):
        if db.scalar(sa.select(sa.func.count()).select_from(User)):
            return
        for name, talks in _TALKS.items():
            user = User(name=name, password_hash=passwords.hashed(USERS[name]))
            db.add(user)
            db.flush()
            chat = Chat(db, scroll, user, clock=_ticking())
            opened = [_talk(chat, *talk) for talk in talks]
            if name == "demo":
                _say_more(chat, *opened)


def _ticking() -> Callable[[], datetime]:
    """A clock that goes on by a minute whenever it is asked."""
    minutes = 0

    def now() -> datetime:
        nonlocal minutes
        minutes += 1
        return _START + timedelta(minutes=minutes)

    return now


def _talk(chat: Chat, first: str, *more: str) -> Conversation:
    conversation = chat.start(first)
    for text in more:
        chat.say(conversation, text)
    return conversation


def _say_more(chat: Chat, backups: Conversation, _soup: Conversation, trip: Conversation) -> None:
    """A fresh start in one conversation, and a second version of another."""
    chat.start_afresh(backups)
    chat.say(backups, "From now on: the cleaning of the log folder.")
    earlier = next(one for one in chat.read(trip).messages if "slow ferry" in one.text and one.role == "user")
    chat.say_again(trip, earlier.message_id, "The fast ferry leaves at 17:00, two hours less at sea.")
