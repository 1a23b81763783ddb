"""Readers for the JSONL transcripts of OpenClaw and of pi, whose format it shares.

A file is a header line, `{"type": "session", "version": 3, "id": ..., "cwd": ..., "parentSession": ...}`, and then one
record a line, each linked to the one before it by `parentId` (version 1: in order, without ids).

| record | becomes |
| --- | --- |
| `message` | a message (`content.py` has the roles and blocks) |
| `reset` (OpenClaw) | a reset behind the message before it |
| `leaf` (`targetId`) | the choice of the line that ends in its target |
| `session_info` (`name`) | the session's title |
| `compaction`, `branch_summary` | nothing: the program's own summary for its model, which nobody said |
| `custom_message` | nothing: put in for the model by an extension, by nobody in the conversation |
| `custom`, `label`, `model_change`, `thinking_level_change`, `active_tools_change` | nothing |
| any other | nothing; what hangs on it follows the message before it |

What becomes nothing is reported as skipped, by its type. A record that moves the place where the program goes on, as a
`branch_summary` does, also chooses the line it is on. `tree.py` has the rules by which lines are followed.

A message id appears once among the records of a file: an equal message under the same id is skipped, another one is a
bad line.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from backscroll.domain.errors import ImportFailed, InvalidRequest
from backscroll.domain.model import ResetReason
from backscroll.domain.records import (
    BadLine,
    HeadRecord,
    MessageRecord,
    ReadLine,
    Record,
    ResetRecord,
    SkippedRecord,
    TitleRecord,
    TranscriptFile,
)
from backscroll.domain.text import MAX_TITLE, storable
from backscroll.infrastructure.importers.content import parts_of_message, role_of
from backscroll.infrastructure.importers.discovery import is_of_pi_alone, is_transcript
from backscroll.infrastructure.importers.lines import LONGEST_LINE, RawLine, UnreadableLine, json_object, raw_lines
from backscroll.infrastructure.importers.times import moment
from backscroll.infrastructure.importers.transcripts import transcripts_in
from backscroll.infrastructure.importers.tree import Tree

_LONGEST_TYPE = 64


class JsonlSessionReader:
    """Reads OpenClaw's transcripts, and those of pi that lie among them."""

    format = "openclaw"

    def __init__(self, longest_line: int = LONGEST_LINE) -> None:
        """A reader for which lines of more than `longest_line` bytes are bad lines."""
        self._longest_line = longest_line

    def recognises(self, path: Path) -> bool:
        """Whether there is a transcript in the file or folder."""
        return is_transcript(path)

    def files(self, path: Path, agent_id: str | None) -> Iterator[TranscriptFile]:
        """The transcripts in the file or folder, in a fixed order, earlier ones of a session first.

        `agent_id` owns those whose session key names no agent; without it the agent is taken from a folder
        `agents/<agent>/sessions`, else it is `main`. Raises `ImportFailed` when the path cannot be read or holds no
        transcript, `InvalidRequest` for an agent id that cannot be one.
        """
        return iter(transcripts_in(path, agent_id, all_of_pi=False))

    def records(self, path: Path, file: TranscriptFile) -> Iterator[ReadLine]:
        """The records of a file that `files` found below `path`, one line in memory at a time.

        Raises `ImportFailed` when the file cannot be read; whatever is in it never raises. The last record's
        `bytes_done` is the size of the file.
        """
        source = path if path.is_file() else path / file.name
        held: Record | None = None
        held_end = end = 0
        try:
            with source.open("rb") as handle, closing(Tree()) as tree:
                walk = _Walk(self._longest_line, tree)
                for line in raw_lines(handle, self._longest_line):
                    end = line.end
                    for record in walk.records_of(line):
                        if held is not None:
                            yield ReadLine(held_end, held)
                        held, held_end = record, end
        except OSError as error:
            raise ImportFailed(f"{source} cannot be read: {error.strerror or error}") from error
        except sqlite3.Error as error:
            raise ImportFailed(f"what was read of {source} cannot be kept in a temporary file: {error}") from error
        # Held back until here, because empty lines at the end of the file count as done with it.
        if held is not None:
            yield ReadLine(end, held)


class PiSessionReader(JsonlSessionReader):
    """Reads pi's transcripts."""

    format = "pi"

    def recognises(self, path: Path) -> bool:
        """Whether there are transcripts in the file or folder and all bear names as pi gives them."""
        return is_of_pi_alone(path)

    def files(self, path: Path, agent_id: str | None) -> Iterator[TranscriptFile]:
        """As for OpenClaw; a session that no `sessions.json` names has the key `agent:<agent>:pi:<id>`."""
        return iter(transcripts_in(path, agent_id, all_of_pi=True))


@dataclass(slots=True)
class _Walk:
    """Turns the lines of one file, in order, into records."""

    longest: int
    tree: Tree
    begun: bool = False

    def records_of(self, line: RawLine) -> Iterable[Record]:
        """What a line holds; nothing for an empty line and for the header."""
        if line.data is None:
            return (BadLine(line=line.number, reason=f"longer than {self.longest:,} bytes"),)
        if not line.data.strip():
            return ()
        try:
            return self._read(json_object(line.data), line.number)
        except (UnreadableLine, InvalidRequest) as error:
            return (BadLine(line=line.number, reason=str(error)),)
        except RecursionError:
            return (BadLine(line=line.number, reason="JSON nested too deeply"),)

    def _read(self, entry: Mapping[str, object], line: int) -> Iterable[Record]:
        kind = entry.get("type")
        if kind == "session" and not self.begun:
            self.begun = True
            return ()
        if not isinstance(kind, str) or not kind:
            return (BadLine(line=line, reason="a record without a type"),)
        self.begun = True
        if kind == "message":
            return self._message(entry, line)
        if kind == "reset":
            return self._reset(entry, line)
        if kind == "leaf":
            if not self.tree.leaf(entry):
                return (_skipped(line, "leaf"),)
            return (HeadRecord(line=line, message_id=self.tree.head),)
        name = entry.get("name")
        if kind == "session_info" and isinstance(name, str) and name.strip():
            title = TitleRecord(line=line, title=storable(name.strip())[:MAX_TITLE])
            return (*self._pass_over(entry, line), title)
        return (*self._pass_over(entry, line), _skipped(line, kind))

    def _message(self, entry: Mapping[str, object], line: int) -> Iterable[Record]:
        message = entry.get("message")
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            return (BadLine(line=line, reason="a message record without a message that has a role"),)
        role = role_of(message)
        parts = parts_of_message(message) if role is not None else ()
        if role is None or not parts:
            kind = f"message:{message['role']}" if role is None else f"message:{message['role']}:empty"
            return (*self._pass_over(entry, line), _skipped(line, kind))
        place = self.tree.message(entry, line, hash((role, parts)))
        if place.repeats is not None:
            if place.repeats:
                return (_skipped(line, "message:repeated"),)
            return (BadLine(line=line, reason="another message of this file has the same id"),)
        record = MessageRecord(
            line=line,
            message_id=place.message_id,
            parent_id=place.parent_id,
            role=role,
            parts=parts,
            created_at=moment(entry.get("timestamp")) or moment(message.get("timestamp")),
        )
        return (record, HeadRecord(line=line, message_id=self.tree.head)) if place.aside else (record,)

    def _reset(self, entry: Mapping[str, object], line: int) -> Iterable[Record]:
        reset_id, first_kept, moved = self.tree.reset(entry, line)
        record = ResetRecord(
            line=line,
            reset_id=reset_id,
            after=self.tree.head,
            reason=_reason(entry.get("reason")),
            first_kept=first_kept,
            created_at=moment(entry.get("timestamp")),
        )
        return (HeadRecord(line=line, message_id=self.tree.head), record) if moved else (record,)

    def _pass_over(self, entry: Mapping[str, object], line: int) -> tuple[Record, ...]:
        moved = self.tree.pass_over(entry)
        return (HeadRecord(line=line, message_id=self.tree.head),) if moved else ()


def _skipped(line: int, kind: str) -> SkippedRecord:
    # The type is counted and shown, so it must stay short whatever the file says.
    return SkippedRecord(line=line, type=storable(kind)[:_LONGEST_TYPE])


def _reason(value: object) -> ResetReason:
    try:
        return ResetReason(str(value))
    except ValueError:
        return ResetReason.RESET
