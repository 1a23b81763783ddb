"""The facade's methods: the only door. Each hands over to one use case, which telemetry watches; no rule lives here."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from backscroll.domain.audit import Audit, no_audit
from backscroll.domain.drafts import NewMessage
from backscroll.domain.limits import USUAL_BATCHES, Batches, Limits
from backscroll.domain.model import Branch, Message, Reset, Session
from backscroll.domain.parts import Content
from backscroll.domain.ports import Clock, NewId, Progress, Redactor, TranscriptReader
from backscroll.domain.results import (
    HistoryPage,
    ImportReport,
    IndexReport,
    MaintenanceReport,
    PruneReport,
    ReindexReport,
    SearchPage,
    SessionSummary,
)
from backscroll.domain.stores import Stores
from backscroll.domain.telemetry import NO_TELEMETRY, Telemetry
from backscroll.domain.visibility import Requester, VisibilityPolicy
from backscroll.services.branching import Branching
from backscroll.services.everywhere import Everywhere
from backscroll.services.guarding import Guard
from backscroll.services.importing import Importing
from backscroll.services.observing import observed
from backscroll.services.reading import Reading
from backscroll.services.searching import Searching
from backscroll.services.writing import Writing


@observed
class Facade:
    """Stores, finds and reopens conversations.

    Every method may raise `InvalidRequest` for an argument outside its bounds and `StoreUnavailable` when the
    database cannot be used; a refused write leaves nothing behind.
    """

    def __init__(
        self,
        stores: Stores,
        *,
        policy: VisibilityPolicy,
        redactor: Redactor,
        limits: Limits,
        readers: Sequence[TranscriptReader],
        clock: Clock,
        new_id: NewId,
        on_pending: Callable[[], None],
        audit: Audit = no_audit,
        batches: Batches = USUAL_BATCHES,
        telemetry: Telemetry = NO_TELEMETRY,
    ) -> None:
        self._telemetry = telemetry
        guard = Guard(policy, audit, clock)
        self._writing = Writing(stores, clock, new_id)
        self._branching = Branching(stores, clock, new_id)
        self._searching = Searching(stores, guard, redactor, limits, on_pending)
        self._reading = Reading(stores, guard, redactor, limits)
        self._everywhere = Everywhere(stores, clock, new_id, batches, telemetry)
        self._importing = Importing(stores, readers, clock, new_id, batches)

    def ensure_session(
        self,
        key: str,
        *,
        agent_id: str | None = None,
        kind: str | None = None,
        title: str | None = None,
        spawned_by: str | None = None,
        owner: str | None = None,
        incognito: bool | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> Session:
        """The session named `key`, made if it is new.

        What is given is taken over into a session that is stored already; what is left out stays.

        Args:
            key: 1 to 512 characters; `agent:<agent_id>:<rest>` names its agent itself.
            agent_id: the owner, needed for a key that names none; cannot change later.
            kind: one of `SessionKind`; suggested by the key if left out.
            title: at most 1,000 characters.
            spawned_by: key of the session that started this one.
            owner: key of the session that owns this one.
            incognito: whether it is kept from every index, list and other session; cannot change later.
            metadata: plain JSON data of the host's own.
        """
        return self._writing.ensure_session(
            key,
            agent_id=agent_id,
            kind=kind,
            title=title,
            spawned_by=spawned_by,
            owner=owner,
            incognito=incognito,
            metadata=metadata,
        )

    def append(
        self,
        key: str,
        role: str,
        content: Content,
        *,
        message_id: str | None = None,
        parent_id: str | None = None,
        created_at: datetime | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> Message:
        """Stores one message at the head of the session's active branch.

        Args:
            key: the session's key.
            role: `user`, `assistant`, `system` or `tool`.
            content: text, or a sequence of parts or of their JSON form.
            message_id: 1 to 256 characters, unique in its transcript; made if left out. An id that is stored with
                the same content gives the stored message back.
            parent_id: a message of the transcript; if it is not the head, a new branch starts there and is active.
            created_at: an aware time; now if left out. Order is that of insertion, whatever the times say.
            metadata: plain JSON data of the host's own.

        Raises:
            SessionNotFound: no session has that key.
            MessageConflict: the id is stored with other content.
        """
        one = NewMessage(role, content, message_id, parent_id, created_at, metadata)
        return self._writing.append(key, [one])[0]

    def append_many(self, key: str, messages: Iterable[NewMessage | Mapping[str, object]]) -> list[Message]:
        """Stores messages in order in one transaction, all or none; each is a `NewMessage` or a mapping of its fields.

        Raises:
            SessionNotFound: no session has that key.
            MessageConflict: an id is stored with other content.
        """
        return self._writing.append(key, messages)

    def edit(self, key: str, message_id: str, content: Content) -> Message:
        """Changes in place what a message of the current transcript says (a streamed answer, say).

        Raises:
            SessionNotFound: no session has that key.
        """
        return self._writing.edit(key, message_id, content)

    def rewind(self, key: str, message_id: str) -> Branch:
        """Makes a message of the active path the head again. What followed stays stored on a branch of its own.

        Raises:
            SessionNotFound: no session has that key.
            RewindAcrossReset: the message is from before the latest reset.
        """
        return self._branching.rewind(key, message_id)

    def branches(self, key: str) -> list[Branch]:
        """The branches of the session's current transcript, the active one first.

        Raises:
            SessionNotFound: no session has that key.
        """
        return self._branching.branches(key)

    def switch_branch(self, key: str, branch_id: str) -> Branch:
        """Makes another branch the active one.

        Raises:
            SessionNotFound: no session has that key.
        """
        return self._branching.switch_branch(key, branch_id)

    def reset(
        self,
        key: str,
        *,
        reason: str = "manual",
        keep: str | int | None = None,
        rotate: bool = False,
        new_session_id: str | None = None,
    ) -> Reset:
        """Ends the current view: readers see what follows, and what is kept.

        Args:
            key: the session's key.
            reason: one of `ResetReason`.
            keep: the first message of the current view to keep, or how many user and assistant messages.
            rotate: start a new, empty transcript under the same key instead of drawing a boundary in this one.
            new_session_id: the new transcript's id; made if left out.

        Raises:
            SessionNotFound: no session has that key.
        """
        return self._branching.reset(key, reason=reason, keep=keep, rotate=rotate, new_session_id=new_session_id)

    def delete_session(self, key: str) -> bool:
        """Deletes a session, every row and index row of it, in one transaction; False when there is none."""
        return self._writing.delete_session(key)

    def search(
        self,
        query: str,
        *,
        requester: Requester,
        session_key: str | None = None,
        agents: Sequence[str] | None = None,
        roles: Sequence[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        match: str = "all",
        order: str = "relevance",
        limit: int | None = None,
        exclude_current: bool = False,
    ) -> SearchPage:
        """Finds messages by their exact words, case and accents aside.

        Args:
            query: words that must all occur; a run in straight double quotes is a phrase; nothing else is syntax.
            requester: on whose behalf; decides what is visible before anything is counted or cut.
            session_key: search this session alone.
            agents: search the sessions of these agents alone.
            roles: `user`, `assistant` or both (the default).
            since: not before this aware time.
            until: before this aware time.
            match: `all` words, `any` word, or `prefix`: all, the last one as the beginning of a word.
            order: `relevance` (among the newest matches, as many as the rank bound) or `newest`.
            limit: hits, 10 by default, at most 25.
            exclude_current: leave out what the requester's own session shows now.

        Raises:
            EmptyQuery: there is no word in the query.
            SessionNotFound: `session_key` names no session that the requester may see.
        """
        return self._searching.search(
            query,
            requester=requester,
            session_key=session_key,
            agents=agents,
            roles=roles,
            since=since,
            until=until,
            match=match,
            order=order,
            limit=limit,
            exclude_current=exclude_current,
        )

    def history(
        self,
        session_key: str,
        *,
        requester: Requester,
        session_id: str | None = None,
        message_id: str | None = None,
        limit: int | None = None,
        offset: int = 0,
        before: str | None = None,
        include_tools: bool = False,
    ) -> HistoryPage:
        """A page of a session, oldest message first.

        Args:
            session_key: the session.
            requester: on whose behalf.
            session_id: one of its transcripts; the current one if left out.
            message_id: give the messages around this one, also from before a reset.
            limit: messages, 40 by default, at most 200.
            offset: leave out so many of the newest; not together with `message_id`.
            before: give the messages before this one: stable while others append.
            include_tools: show tool messages too.

        Raises:
            SessionNotFound: there is no such session for this requester.
            SessionMismatch: the session id is not of this session.
        """
        return self._reading.history(
            session_key,
            requester=requester,
            session_id=session_id,
            message_id=message_id,
            limit=limit,
            offset=offset,
            before=before,
            include_tools=include_tools,
        )

    def sessions(self, *, requester: Requester, limit: int | None = None, offset: int = 0) -> list[SessionSummary]:
        """The sessions that the requester may see, the last written to first; 50 by default, at most 500."""
        return self._reading.sessions(requester=requester, limit=limit, offset=offset)

    def reindex(self, *, progress: Progress | None = None) -> ReindexReport:
        """Brings every pending transcript up to date; `progress` is told transcripts done and in all."""
        return self._everywhere.reindex(progress)

    def verify(self, *, progress: Progress | None = None) -> IndexReport:
        """Compares index and transcripts and changes nothing; `progress` is told messages done and in all."""
        return self._everywhere.verify(progress)

    def repair(self, *, progress: Progress | None = None) -> IndexReport:
        """Makes the index agree with the transcripts without touching a message, then compares."""
        return self._everywhere.repair(progress)

    def maintain(self, *, vacuum: bool = False) -> MaintenanceReport:
        """Merges the index, empties the write-ahead log and says what that gained; for quiet hours.

        Args:
            vacuum: also write the file anew: it shrinks, and deleted text is gone from its pages. Writers wait.
        """
        return self._everywhere.maintain(vacuum=vacuum)

    def prune(self, *, older_than: timedelta | datetime, keep: int = 0, dry_run: bool = True) -> PruneReport:
        """Deletes sessions that nobody has written to for long, file by file where each agent has its own.

        Args:
            older_than: an age, or the aware time since when a session must not have been written to.
            keep: the newest sessions of each agent that stay whatever their age.
            dry_run: only list them (the default).
        """
        return self._everywhere.prune(older_than=older_than, keep=keep, dry_run=dry_run)

    def import_transcripts(
        self,
        path: str | Path,
        *,
        format: str = "auto",  # noqa: A002 - the name that callers know
        agent_id: str | None = None,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Takes over transcripts that other programs wrote; importing again adds only what is new.

        Args:
            path: a file, or a folder that is searched.
            format: `auto`, `openclaw` or `pi`.
            agent_id: the agent of sessions whose files name none.
            progress: is told bytes read and in all.

        Raises:
            ImportFailed: nothing there can be imported; single bad lines are reported instead.
        """
        return self._importing.import_transcripts(path, format=format, agent_id=agent_id, progress=progress)
