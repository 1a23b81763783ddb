"""Taking over transcripts that other programs wrote: streamed, idempotent, line by line."""

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from pathlib import Path

from backscroll.domain.errors import ImportFailed, InvalidRequest, SessionMismatch, SessionNotFound
from backscroll.domain.keys import agent_for, checked_key, kind_in_key
from backscroll.domain.limits import USUAL_BATCHES, Batches
from backscroll.domain.model import Branch, Message, Reset, Session, SessionKind, Transcript
from backscroll.domain.ports import Clock, NewId, Progress, Store, TranscriptReader, UnitOfWork
from backscroll.domain.records import (
    BadLine,
    HeadRecord,
    MessageRecord,
    ReadLine,
    ResetRecord,
    SkippedRecord,
    TitleRecord,
    TranscriptFile,
)
from backscroll.domain.results import ImportProblem, ImportReport
from backscroll.domain.stores import Stores
from backscroll.domain.text import MAX_TITLE, checked_name

_PROBLEMS = 1_000
"""Problems that a report lists; beyond, they are counted alone."""


class Importing:
    """The use case that imports."""

    def __init__(
        self,
        stores: Stores,
        readers: Sequence[TranscriptReader],
        clock: Clock,
        new_id: NewId,
        batches: Batches = USUAL_BATCHES,
    ) -> None:
        self._stores = stores
        self._most = batches.imported
        self._readers = readers
        self._clock = clock
        self._new_id = new_id

    def import_transcripts(
        self,
        path: str | Path,
        *,
        format: str,  # noqa: A002 - the name that callers know
        agent_id: str | None,
        progress: Progress | None,
    ) -> ImportReport:
        """Imports a file or folder. A bad line is reported and stops nothing; a second import adds what is new."""
        agent = None if agent_id is None else checked_name(agent_id, "agent_id")
        source = Path(path)
        reader = self._reader(source, format)
        files = list(reader.files(source, agent))
        tally = _Tally(files=len(files))
        total = sum(file.size for file in files)
        before = 0
        for file in files:
            for warning in file.warnings:
                tally.problem(file.name, None, warning)
            batches = _batches(reader.records(source, file), self._most)
            importer = _FileImport(file, tally, self._clock, self._new_id)
            for batch, last in batches:
                records = [line.record for line in batch]
                importer.count(records)
                spoken = any(isinstance(record, MessageRecord) for record in records)
                store = self._store_for(file, make=spoken)
                # A batch without a message makes no store, and without one there is no session that it could change.
                unknown = contextlib.suppress(*() if spoken else (SessionNotFound,))
                with unknown, store.writing() as unit, unit.sparing():
                    importer.take(unit, records, last=last)
                    unit.commit()
                if progress is not None:
                    progress(before + batch[-1].bytes_done, total)
            before += file.size
        return tally.report()

    def _store_for(self, file: TranscriptFile, *, make: bool) -> Store:
        """Where a batch goes."""
        return self._stores.making(file.session_key, file.agent_id) if make else self._stores.of(file.session_key)

    def _reader(self, path: Path, name: str) -> TranscriptReader:
        known = [reader.format for reader in self._readers]
        if name != "auto" and name not in known:
            raise InvalidRequest(f"format must be one of auto, {', '.join(known)}, not {name!r}")
        try:
            if not path.exists():
                raise ImportFailed(f"{path} does not exist")
            for reader in self._readers:
                if name == reader.format or (name == "auto" and reader.recognises(path)):
                    return reader
        except OSError as error:
            raise ImportFailed(f"{path} cannot be read: {error.strerror}") from error
        raise ImportFailed(f"{path} holds no transcript of a known format ({', '.join(known)})")


def _batches(lines: Iterator[ReadLine], most: int) -> Iterator[tuple[list[ReadLine], bool]]:
    """The lines in batches, each with whether it is the last."""
    batch = list(islice(lines, most))
    while batch:
        following = list(islice(lines, most))
        yield batch, not following
        batch = following


class _Tally:
    """The growing report."""

    def __init__(self, files: int) -> None:
        self._files = files
        self._counts: Counter[str] = Counter()
        self._problems: list[ImportProblem] = []
        self._sessions: set[str] = set()

    def count(self, what: str) -> None:
        self._counts[what] += 1

    def session(self, session_id: str) -> None:
        self._sessions.add(session_id)

    def problem(self, file: str, line: int | None, what: str) -> None:
        if len(self._problems) < _PROBLEMS:
            self._problems.append(ImportProblem(file=file, line=line, what=what))

    def report(self) -> ImportReport:
        problems = tuple(self._problems)
        return ImportReport(files=self._files, sessions=len(self._sessions), problems=problems, **self._counts)


@dataclass(slots=True)
class _Group:
    """Messages that follow each other and wait to be stored at the head of one branch."""

    branch: Branch
    messages: list[Message]

    @property
    def head(self) -> str | None:
        return self.messages[-1].message_id if self.messages else self.branch.head


class _FileImport:
    """One file on its way into one transcript, batch by batch."""

    def __init__(self, file: TranscriptFile, tally: _Tally, clock: Clock, new_id: NewId) -> None:
        self._file = file
        self._tally = tally
        self._clock = clock
        self._new_id = new_id
        self._changed = False
        self._made = False
        self._head: str | None = None
        self._time: datetime | None = file.started_at

    def count(self, records: Sequence[object]) -> None:
        """Counts the records of a batch that are not to be stored."""
        for record in records:
            if isinstance(record, BadLine):
                self._tally.count("bad")
                self._tally.problem(self._file.name, record.line, record.reason)
            elif isinstance(record, SkippedRecord):
                self._tally.count("skipped")

    def take(self, unit: UnitOfWork, records: Sequence[object], *, last: bool) -> None:
        """Stores a batch of records; with the last one the file's own head becomes the active one."""
        stored = unit.sessions.transcript(self._file.session_id)
        if stored is None:
            if not any(isinstance(record, MessageRecord) for record in records):
                return
            self._add(unit, records)
        self._tally.session(self._file.session_id)
        self._store(unit, records, new=stored is None)
        if last and self._changed and self._head is not None:
            branch = self._ending_at(unit, self._head)
            if not branch.active:
                unit.messages.activate(branch)
        if self._changed and self._time is not None:
            # A stored transcript stays under its key.
            key = self._file.session_key if stored is None else stored.session_key
            unit.sessions.touch(key, self._time)

    def _active(self, unit: UnitOfWork) -> Branch:
        branch = unit.messages.active_branch(self._file.session_id)
        if branch is None:
            raise SessionMismatch
        return branch

    def _add(self, unit: UnitOfWork, records: Iterable[object]) -> None:
        """Makes the transcript, and its session when that is new."""
        file = self._file
        times = (record.created_at for record in records if isinstance(record, MessageRecord) and record.created_at)
        started = file.started_at or next(times, None) or self._clock()
        if unit.sessions.get(file.session_key) is None:
            self._made = True
            key = checked_key(file.session_key)
            unit.sessions.add(
                Session(
                    session_key=key,
                    session_id=file.session_id,
                    agent_id=agent_for(key, file.agent_id),
                    kind=SessionKind(file.kind) if file.kind else kind_in_key(key),
                    title=file.title,
                    spawned_by=file.spawned_by,
                    metadata=file.metadata,
                    created_at=started,
                    updated_at=started,
                ),
                branch_id=self._new_id(),
            )
        else:
            unit.sessions.add_transcript(
                Transcript(
                    session_id=file.session_id,
                    session_key=file.session_key,
                    started_at=started,
                    current=file.current,
                ),
                branch_id=self._new_id(),
            )

    def _store(self, unit: UnitOfWork, records: Sequence[object], *, new: bool) -> None:
        ids = [record.message_id for record in records if isinstance(record, MessageRecord)]
        known = {} if new else unit.messages.known(self._file.session_id, ids)
        group = _Group(self._active(unit), [])
        for record in records:
            if isinstance(record, MessageRecord):
                group = self._message(unit, record, known, group)
            elif isinstance(record, ResetRecord):
                self._flush(unit, group)
                group = self._reset(unit, record)
            elif isinstance(record, HeadRecord):
                self._head = record.message_id or self._head
            elif isinstance(record, TitleRecord):
                self._title(unit, record.title)
        self._flush(unit, group)

    def _message(self, unit: UnitOfWork, record: MessageRecord, known: dict[str, Message], group: _Group) -> _Group:
        self._time = record.created_at or self._time or self._clock()
        message = Message(
            message_id=record.message_id,
            session_id=self._file.session_id,
            role=record.role,
            parts=record.parts,
            created_at=self._time,
            # Where it stands if it follows the group.
            parent_id=group.head,
            depth=group.branch.depth + len(group.messages) + 1,
            active=group.branch.active,
        )
        stored = known.get(record.message_id)
        previous, self._head = self._head, record.message_id
        if stored is not None:
            if stored.same_content(message):
                self._tally.count("known")
            else:
                what = f"message {record.message_id!r} is stored with other content; the stored one stays"
                self._tally.problem(self._file.name, record.line, what)
            return group
        if record.parent_id != group.head:
            self._flush(unit, group)
            group = _Group(self._ending_at(unit, record.parent_id, otherwise=previous), [])
        group.messages.append(message)
        known[record.message_id] = message
        self._tally.count("messages")
        self._changed = True
        return group

    def _reset(self, unit: UnitOfWork, record: ResetRecord) -> _Group:
        session_id = self._file.session_id
        if not unit.messages.reset_known(session_id, record.reset_id):
            branch = self._ending_at(unit, record.after)
            if not branch.active:
                unit.messages.activate(branch)
            kept = record.first_kept
            first = unit.messages.find(session_id, kept) if kept is not None else None
            unit.messages.add_reset(
                Reset(
                    reset_id=record.reset_id,
                    session_id=session_id,
                    reason=record.reason,
                    created_at=record.created_at or self._time or self._clock(),
                    first_kept=first.message_id if first is not None and first.active else None,
                )
            )
            self._changed = True
        return _Group(self._active(unit), [])

    def _ending_at(self, unit: UnitOfWork, message_id: str | None, otherwise: str | None = None) -> Branch:
        """The branch ending in a message; in the file's previous one where that message was never stored."""
        active = self._active(unit)
        if message_id is not None and unit.messages.find(self._file.session_id, message_id) is None:
            message_id = otherwise
        if active.head == message_id:
            return active
        return unit.messages.branch_ending_at(self._file.session_id, message_id)

    def _title(self, unit: UnitOfWork, title: str) -> None:
        line = unit.messages.line(self._file.session_id)
        if line is None:
            raise SessionMismatch
        if title and (self._made or line.session.title is None):
            unit.sessions.update(replace(line.session, title=title[:MAX_TITLE]))

    def _flush(self, unit: UnitOfWork, group: _Group) -> None:
        if group.messages:
            stored = unit.messages.extend(group.branch, group.messages)
            group.branch = replace(group.branch, head=stored[-1].message_id, depth=stored[-1].depth)
            group.messages = []
