"""What a user does with conversations. Each method works inside the transaction that it is given both halves of."""

import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy import orm

from backscroll import Backscroll, Branch, HistoryPage, Message, Requester, SearchPage
from examples.backend import agent
from examples.backend.models import Conversation, User
from examples.backend.models import Message as UserMessage

TITLE = 60
"""Characters of the first message that become the title."""


class NotFound(Exception):
    """There is no such thing for this user: missing and another user's read the same."""


def _now() -> datetime:
    return datetime.now(UTC)


class Chat:
    """One user's conversations.

    Backscroll's reads name the user as their requester and so see the user's own sessions alone. Its writes take no
    requester: they are reached through a `Conversation` alone, which `conversation` gives to nobody but its user.
    """

    def __init__(
        self, db: orm.Session, scroll: Backscroll, user: User, *, clock: Callable[[], datetime] = _now
    ) -> None:
        self._db = db
        self._scroll = scroll
        self._clock = clock
        self.user = user
        self._requester = Requester(f"agent:{user.agent_id}:reader")

    def conversation(self, conversation_id: str) -> Conversation:
        """The user's conversation of that id; raises `NotFound`."""
        found = self._db.get(Conversation, conversation_id)
        if found is None or found.user_id != self.user.id:
            raise NotFound
        return found

    def conversations(self) -> list[Conversation]:
        """The user's conversations, the one written to last first, as many as Backscroll lists."""
        keys = [session.session_key for session in self._scroll.sessions(requester=self._requester)]
        by_key = self.by_key(keys)
        return [by_key[key] for key in keys]

    def by_key(self, keys: Iterable[str]) -> dict[str, Conversation]:
        """The conversations behind Backscroll's session keys."""
        query = sa.select(Conversation).where(Conversation.session_key.in_(set(keys)))
        return {one.session_key: one for one in self._db.scalars(query)}

    def start(self, text: str) -> Conversation:
        """A new conversation that begins with what the user says."""
        conversation_id = uuid.uuid4().hex
        title = text.split("\n", 1)[0]
        conversation = Conversation(
            id=conversation_id,
            user_id=self.user.id,
            session_key=f"agent:{self.user.agent_id}:{conversation_id}",
            title=title if len(title) <= TITLE else f"{title[: TITLE - 1]}…",
        )
        self._db.add(conversation)
        self._db.flush()
        self._scroll.ensure_session(conversation.session_key)
        self._append(conversation, "system", agent.OPENING)
        self.say(conversation, text)
        return conversation

    def say(self, conversation: Conversation, text: str, *, said_to: str | None = None) -> Message:
        """Stores what the user says and what the agent answers, `said_to` an earlier message or the latest one."""
        said = self._append(conversation, "user", text, parent_id=said_to)
        # A conversation's first message is the agent's opening: whatever the user says has one before it.
        self._db.add(UserMessage(id=said.message_id, conversation_id=conversation.id, said_to=str(said.parent_id)))
        self._append(conversation, "assistant", agent.answer(text))
        return said

    def say_again(self, conversation: Conversation, message_id: str, text: str) -> Message:
        """Says something else in the place of an earlier message, which stays on a branch of its own."""
        earlier = self._db.get(UserMessage, message_id)
        if earlier is None or earlier.conversation_id != conversation.id:
            raise NotFound
        return self.say(conversation, text, said_to=earlier.said_to)

    def versions(self, conversation: Conversation) -> list[Branch]:
        """The conversation's branches, the oldest first."""
        return sorted(self._scroll.branches(conversation.session_key), key=lambda branch: branch.created_at)

    def switch(self, conversation: Conversation, branch_id: str) -> None:
        """Goes on with another version; raises `NotFound`."""
        if branch_id not in {branch.branch_id for branch in self.versions(conversation)}:
            raise NotFound
        self._scroll.switch_branch(conversation.session_key, branch_id)

    def start_afresh(self, conversation: Conversation) -> None:
        """Puts away what was said; it can still be found, and opened where it was said."""
        self._scroll.reset(conversation.session_key)

    def delete(self, conversation: Conversation) -> None:
        """Deletes the conversation with everything that was said in it."""
        self._scroll.delete_session(conversation.session_key)
        self._db.execute(sa.delete(Conversation).where(Conversation.id == conversation.id))

    def search(self, words: str) -> SearchPage:
        """The user's messages with these words, the last of which may not be complete yet."""
        return self._scroll.search(words, requester=self._requester, match="prefix", limit=20)

    def read(
        self,
        conversation: Conversation,
        *,
        transcript: str | None = None,
        message: str | None = None,
        before: str | None = None,
    ) -> HistoryPage:
        """The latest messages, those around a message, or those before one."""
        return self._scroll.history(
            conversation.session_key,
            requester=self._requester,
            session_id=transcript,
            message_id=message,
            before=before,
        )

    def _append(self, conversation: Conversation, role: str, text: str, *, parent_id: str | None = None) -> Message:
        key = conversation.session_key
        return self._scroll.append(key, role, text, parent_id=parent_id, created_at=self._clock())
