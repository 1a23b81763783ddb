"""What a system under test does: one driver each, so that all do the same jobs, each its own way."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from corpus import Conversation, Said


class NotOffered(Exception):
    """The system does not do this job; its cell in the table stays empty. Raised before anything was done."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A search for the first page of ten: words, a quoted phrase, or words of which the last is only begun.

    `session_key` and `agent` narrow what somebody asks who sees all. `tree_of` and `own_agent` narrow what the asker
    may see: itself and the sessions below it, or the sessions of its agent.
    """

    words: str
    session_key: str | None = None
    agent: str | None = None
    tree_of: str | None = None
    own_agent: str | None = None
    prefix: bool = False
    newest: bool = False


class Driver(Protocol):
    """A system under test, on one file of its own. What is found or read comes back as message ids, oldest first.

    Any job may raise `NotOffered`. `alike` says whether answers are the same as plain SQLite's and can be compared.
    """

    name: str
    alike: bool

    def __init__(self, file: Path, synchronous: str) -> None: ...

    def add_session(self, one: Conversation) -> None:
        """Makes a session without messages."""
        ...

    def append_many(self, key: str, messages: Sequence[Said]) -> None:
        """Stores messages behind the last one, in one transaction."""
        ...

    def append(self, key: str, role: str, text: str) -> None:
        """Stores one message, in a transaction of its own."""
        ...

    def import_folder(self, folder: Path) -> None:
        """Stores the transcripts that `transcripts.py` wrote, a bounded number of messages a transaction."""
        ...

    def search(self, ask: Ask) -> list[str]:
        """The ten best (or newest) messages with their session and an excerpt, best first."""
        ...

    def around(self, key: str, message_id: str, limit: int) -> list[str]:
        """The messages around one, from between the resets that it lies between, tool messages left out."""
        ...

    def newest(self, key: str, limit: int) -> list[str]:
        """The newest messages since the last reset, tool messages left out."""
        ...

    def reset(self, key: str) -> None:
        """Ends what readers see now."""
        ...

    def rewind(self, key: str, message_id: str) -> None:
        """Makes a message the head again; what followed is kept as a line of its own, and no longer found."""
        ...

    def lines(self, key: str) -> list[str]:
        """Names of the session's lines of messages, the active one first."""
        ...

    def switch(self, key: str, line: str) -> None:
        """Makes another line the active one."""
        ...

    def delete(self, key: str) -> None: ...

    def close(self) -> None: ...


class Peer:
    """A driver that offers nothing: the drivers of other systems replace what theirs does."""

    name = ""
    alike = False

    def add_session(self, _: Conversation) -> None:
        raise NotOffered

    def append_many(self, _key: str, _messages: Sequence[Said]) -> None:
        raise NotOffered

    def append(self, _key: str, _role: str, _text: str) -> None:
        raise NotOffered

    def import_folder(self, _folder: Path) -> None:
        raise NotOffered

    def search(self, _ask: Ask) -> list[str]:
        raise NotOffered

    def around(self, _key: str, _message_id: str, _limit: int) -> list[str]:
        raise NotOffered

    def newest(self, _key: str, _limit: int) -> list[str]:
        raise NotOffered

    def reset(self, _key: str) -> None:
        raise NotOffered

    def rewind(self, _key: str, _message_id: str) -> None:
        raise NotOffered

    def lines(self, _key: str) -> list[str]:
        raise NotOffered

    def switch(self, _key: str, _line: str) -> None:
        raise NotOffered

    def delete(self, _key: str) -> None:
        raise NotOffered

    def close(self) -> None:
        raise NotOffered
