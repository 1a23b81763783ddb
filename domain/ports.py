"""The ports: what the use cases need from the world, as protocols that adapters fulfil.

Repositories take and return domain objects, flush and never commit. A unit of work rolls back unless told to commit.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from backscroll.domain.model import Branch, Line, Message, PathMessage, PathPage, Reset, Role, Session, Transcript
from backscroll.domain.paths import Anchor, Position, Stretch
from backscroll.domain.query import Order, Query
from backscroll.domain.records import ReadLine, TranscriptFile
from backscroll.domain.redaction import Span
from backscroll.domain.results import IndexReport, Problem, SessionSummary
from backscroll.domain.visibility import Scope

Clock = Callable[[], datetime]
"""Gives the present time, aware UTC."""

NewId = Callable[[], str]
"""Gives an id that was never given before."""

Progress = Callable[[int, int], None]
"""Is told how much of how much is done (bytes, messages or transcripts; the caller says which)."""


class Redactor(Protocol):
    """Finds secrets."""

    def secrets(self, text: str) -> Sequence[Span]:
        """The places of the secrets in `text`, in any order; in time linear in its length."""
        ...


class Sessions(Protocol):
    """Sessions and their transcripts."""

    def get(self, session_key: str) -> Session | None:
        """The session of that exact key."""
        ...

    def visible(self, session_key: str, scope: Scope) -> Session | None:
        """The session of that exact key, if it is in `scope`."""
        ...

    def add(self, session: Session, branch_id: str) -> None:
        """Stores a new session with its first, empty transcript, whose only branch gets `branch_id`."""
        ...

    def update(self, session: Session) -> None:
        """Stores the changed fields of a session."""
        ...

    def touch(self, session_key: str, at: datetime) -> None:
        """Notes that the session was written to; the time noted never goes back."""
        ...

    def remove(self, session_key: str) -> bool:
        """Deletes a session with everything in it and in the index; False when there is none."""
        ...

    def untouched(self, since: datetime, keep: int, limit: int) -> list[str]:
        """Keys of up to `limit` sessions not written to since then, oldest first; each agent keeps `keep`."""
        ...

    def listed(self, scope: Scope, limit: int, offset: int) -> list[SessionSummary]:
        """The sessions in `scope`, the last written to first."""
        ...

    def transcript(self, session_id: str) -> Transcript | None:
        """The transcript of that id, of whatever session."""
        ...

    def add_transcript(self, transcript: Transcript, branch_id: str) -> None:
        """Stores a transcript with one empty branch; a current one takes the place of the one before."""
        ...


class Messages(Protocol):
    """The tree of messages, branches and resets of each transcript."""

    def line(self, session_id: str) -> Line | None:
        """Where the transcript is being written."""
        ...

    def active_branch(self, session_id: str) -> Branch | None:
        """The transcript's active branch: all of its line that whoever writes behind it has to know."""
        ...

    def current_branch(self, session_key: str) -> Branch | None:
        """The active branch of the session's current transcript."""
        ...

    def current_line(self, session_key: str) -> Line | None:
        """Where the session's current transcript is being written."""
        ...

    def position(
        self, session_key: str, session_id: str | None, message_id: str | None, scope: Scope
    ) -> Position | None:
        """Where to read that transcript of the session (None: the current one), if it is in `scope`.

        `message_id` names the message that is to be the anchor.
        """
        ...

    def find(self, session_id: str, message_id: str) -> Message | None:
        """One message, on the active path or off it."""
        ...

    def known(self, session_id: str, message_ids: Sequence[str]) -> dict[str, Message]:
        """Those of the messages that are stored."""
        ...

    def extend(self, branch: Branch, messages: Sequence[Message]) -> list[Message]:
        """Stores messages at the head of a branch, in order, on the active path if the branch is, and moves the head.

        Returns them with `parent_id`, `depth` and `active` set.
        """
        ...

    def replace(self, message: Message) -> None:
        """Stores the changed parts of a message."""
        ...

    def branches(self, session_id: str) -> list[Branch]:
        """The branches, the active one first, then the newest."""
        ...

    def branch_ending_at(self, session_id: str, message_id: str | None) -> Branch:
        """The branch that ends in that message (None: before the first), stored inactive if there is none yet.

        Resets that follow the message on the active path belong to it.
        """
        ...

    def activate(self, branch: Branch) -> Branch:
        """Makes the branch's line the active path, with the index following it now or, when much changes, later."""
        ...

    def add_reset(self, reset: Reset) -> Reset:
        """Stores a reset at the head of the active branch. Sets `after`, the depths and `kept`."""
        ...

    def reset_known(self, session_id: str, reset_id: str) -> bool:
        """Whether a reset of that id is stored in the transcript."""
        ...

    def nth_spoken(self, session_id: str, stretch: Stretch, count: int) -> PathMessage | None:
        """The `count`-th user or assistant message of the stretch from its end, or the first if there are fewer."""
        ...

    def older(
        self, session_id: str, stretch: Stretch, before: int, limit: int, *, tools: bool, offset: int = 0
    ) -> list[PathMessage]:
        """The last `limit` messages below the depth `before`, after leaving out `offset` of them; oldest first."""
        ...

    def around(self, session_id: str, stretch: Stretch, anchor: Anchor, limit: int, *, tools: bool) -> PathPage:
        """Up to `limit` messages of the stretch around the anchor, by the rule of `window`.

        Its place is the anchor's, or that of the first message behind an anchor that is not shown, or the last.
        """
        ...

    def count(self, session_id: str, stretch: Stretch, *, tools: bool) -> int:
        """How many messages the stretch holds, whatever its length at the same cost."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A search as the index is asked: all validated, the scope decided. Times are aware UTC, `until` exclusive."""

    query: Query
    scope: Scope
    session: Session | None
    agents: tuple[str, ...] | None
    roles: tuple[Role, ...]
    since: datetime | None
    until: datetime | None
    order: Order
    limit: int
    leave_out: tuple[str, Stretch] | None
    """A transcript's session id and the stretch of it that must not be among the hits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A message that matches: where it stands, what it says, and its score (higher is better)."""

    session_key: str
    session_id: str
    message_id: str
    role: Role
    created_at: datetime
    text: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reindexed:
    """What one step of reindexing did: messages read, rows added and removed, and whether nothing is left."""

    seen: int = 0
    added: int = 0
    removed: int = 0
    done: bool = True


class Index(Protocol):
    """The full-text index beside the transcripts."""

    def search(self, request: SearchRequest, *, settled: bool = False) -> list[Match]:
        """The best `request.limit` matches in scope, best first.

        `settled` says that `is_pending` is known to be false, which saves work and changes no answer.
        """
        ...

    def is_pending(self, request: SearchRequest) -> bool:
        """Whether a transcript that the search reaches waits to be reindexed."""
        ...

    def pending_count(self) -> int:
        """How many transcripts wait to be reindexed."""
        ...

    def claim(self, worker: str, now: datetime, until: datetime, skip: Sequence[str]) -> str | None:
        """Claims the newest pending transcript that nobody holds, for `worker` until then; its session id.

        Transcripts whose session ids are in `skip` are left out; a claim that ended before `now` holds no more.
        """
        ...

    def held(self, now: datetime) -> bool:
        """Whether some pending transcript is claimed at `now`."""
        ...

    def reindex_some(self, session_id: str, worker: str, until: datetime, limit: int) -> Reindexed:
        """Brings the next `limit` messages of a claimed transcript up to date and prolongs the claim until then."""
        ...

    def rest(self, session_id: str, worker: str, until: datetime, failure: str) -> None:
        """Leaves a transcript that failed alone until then."""
        ...

    def date_some(self) -> bool:
        """One short step of noting how new stored messages are; whether there may be anything left to do."""
        ...

    def merge_some(self, *, begin: bool) -> bool:
        """One short step of merging the index into one piece; whether there was anything left to do."""
        ...

    def integrity(self) -> Problem | None:
        """What FTS5 finds wrong between the index and the rows that are marked as indexed."""
        ...

    def verify(self, progress: Progress | None) -> IndexReport:
        """Compares marks, paths and references with the tree of messages; changes nothing."""
        ...

    def mend(self) -> None:
        """Makes active paths right and the index hold what is marked, and leaves every transcript pending."""
        ...


class UnitOfWork(Protocol):
    """One transaction. Leaving it without `commit` rolls everything back."""

    @property
    def sessions(self) -> Sessions: ...

    @property
    def messages(self) -> Messages: ...

    @property
    def index(self) -> Index: ...

    def sparing(self) -> AbstractContextManager[None]:
        """Inside, little of the database is kept in memory: for work that reads nothing twice."""
        ...

    def commit(self) -> None:
        """Makes the changes durable (inside a host's transaction: hands them to it)."""
        ...


class Store(Protocol):
    """Opens units of work on one database."""

    def reading(self) -> AbstractContextManager[UnitOfWork]:
        """A unit of work on one snapshot, which never takes the write lock."""
        ...

    def writing(self) -> AbstractContextManager[UnitOfWork]:
        """A unit of work that holds the write lock from its beginning."""
        ...

    def pause(self, seconds: float) -> None:
        """Waits, between two units of work: others have the database meanwhile."""
        ...

    def size(self) -> int:
        """The database's size in bytes, with its write-ahead log."""
        ...

    def tidy(self, *, vacuum: bool) -> None:
        """Lets the database collect its statistics and empty its log; with `vacuum` writes it anew without gaps."""
        ...


class TranscriptReader(Protocol):
    """Reads transcripts of one foreign format."""

    format: str

    def recognises(self, path: Path) -> bool:
        """Whether this looks like the reader's format."""
        ...

    def files(self, path: Path, agent_id: str | None) -> Iterator[TranscriptFile]:
        """The transcripts in a file or folder, earlier ones of a session first; raises `ImportFailed`."""
        ...

    def records(self, path: Path, file: TranscriptFile) -> Iterator[ReadLine]:
        """The file's records, one line at a time."""
        ...
