"""Follows the tree of records in a transcript file and says where each message belongs among the messages alone.

The files link every record to the one before it, also those that are no messages. This walks through the records in the
order of the file and keeps only ids: of the messages (`seen.py`, in constant memory), and of the records left out since
the last reset, each with the message before it. The rules are those by which the programs themselves read their files:

- A record without a parent, or whose parent nobody knows (its line was bad), follows the record that is active then.
- Every record makes its own line the active one, also a label or a summary, except those appended at the side
  (`appendMode: "side"`) and kinds that we do not know. A `leaf` makes the line active that ends in its target.
- Nothing behind a reset continues what lies before it: such a record follows the active one, such a leaf is ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from backscroll.domain.text import checked_message_id, storable
from backscroll.infrastructure.importers.seen import Seen

_MOVING = frozenset(
    {
        "active_tools_change",
        "branch_summary",
        "compaction",
        "custom",
        "custom_message",
        "label",
        "message",
        "model_change",
        "session_info",
        "thinking_level_change",
    }
)


@dataclass(slots=True)
class _Gap:
    """One or more records in a row that are no messages: the messages before and (the latest one) behind them."""

    before: str | None
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message stands: its id, the message before it, and whether an equal or other one has that id already."""

    message_id: str
    parent_id: str | None
    aside: bool = False
    repeats: bool | None = None
    """None: the id is new; True: a message with the same content has it; False: one with other content."""


@dataclass(slots=True)
class Tree:
    """The state of the walk. `head` is the message in which the active line ends now (None: before the first one)."""

    head: str | None = None
    _messages: Seen = field(default_factory=Seen)
    _era: int = 0
    """Counts the resets: nothing continues a message of an earlier era."""
    _gaps: dict[str, _Gap] = field(default_factory=dict)
    _leaf: str | None = None
    _cursor: str | None = None
    _closed: bool = False

    def message(self, entry: Mapping[str, object], line: int, content: int) -> Place:
        """Takes in a message whose content has the hash `content`; raises `InvalidRequest` for an unusable id.

        A message without an id (format version 1) is called after its line, which stays the same as the file grows.
        """
        message_id = _id_of(entry, line)
        parent = self._before(entry)
        if (known := self._messages.get(message_id)) is not None:
            return Place(message_id, parent, repeats=known.content == content)
        self._messages.add(message_id, content, self._era)
        if (gap := self._gaps.get(_parent_of(entry) or "")) is not None:
            gap.after = message_id
        aside = _is_aside(entry)
        if not aside:
            self.head = self._leaf = message_id
        self._cursor = message_id
        return Place(message_id, parent, aside)

    def close(self) -> None:
        """Lets go of what was noted."""
        self._messages.close()

    def pass_over(self, entry: Mapping[str, object]) -> bool:
        """Takes in a record that is no message; returns whether the active line now ends in another message."""
        record_id = entry.get("id")
        if not isinstance(record_id, str) or not record_id:
            return False
        record_id = storable(record_id)
        before = self._before(entry)
        if not self._is_open(record_id):
            outer = self._gaps.get(_parent_of(entry) or "")
            shared = outer is not None and outer.before == before and outer.after is None
            self._gaps[record_id] = outer if outer is not None and shared else _Gap(before)
        if entry.get("type") not in _MOVING:
            return False
        self._cursor = record_id
        if _is_aside(entry):
            return False
        self._leaf = record_id
        moved = before != self.head
        self.head = before
        return moved

    def reset(self, entry: Mapping[str, object], line: int) -> tuple[str, str | None, bool]:
        """Takes in a reset: its id, the first message it kept, and whether the active line ended elsewhere before.

        The message behind which it stands is `head` afterwards. Raises `InvalidRequest` for an unusable id.
        """
        reset_id = _id_of(entry, line)
        after = self._before(entry)
        first_kept = self._first_from(entry.get("firstKeptEntryId"))
        moved = after != self.head
        self.head, self._leaf, self._cursor, self._closed = after, reset_id, reset_id, True
        self._era += 1
        self._gaps = {reset_id: _Gap(after)}
        return reset_id, first_kept, moved

    def leaf(self, entry: Mapping[str, object]) -> bool:
        """Takes in a leaf; returns whether it is valid, in which case `head` is the end of the line it chose."""
        target = entry.get("targetId")
        cursor = entry.get("appendParentId", target)
        valid = "targetId" in entry and self._is_known(target) and self._is_known(cursor)
        before = self._resolved(target) if valid else self._before(entry)
        if isinstance(leaf_id := entry.get("id"), str) and not self._is_open(storable(leaf_id)):
            self._gaps[storable(leaf_id)] = _Gap(before)
        if valid:
            self.head = before
            self._leaf = storable(target) if isinstance(target, str) else None
            self._cursor = storable(cursor) if isinstance(cursor, str) else None
        return valid

    def _before(self, entry: Mapping[str, object]) -> str | None:
        """The nearest message before the entry."""
        parent = _parent_of(entry)
        if parent is None:
            # A record with an id and an explicit null is a root; but nothing starts anew behind a reset.
            root = "parentId" in entry and entry["parentId"] is None and entry.get("id") is not None
            return None if root and not self._closed else self.head
        if parent == self._cursor == self._leaf == self.head:
            # As nearly always.
            return parent
        if parent == self._cursor and self._leaf != self._cursor and not _is_aside(entry):
            # It was appended behind something that is not on the active line, but continues that line.
            return self.head
        return self._resolved(parent) if self._is_known(parent) else self.head

    def _is_known(self, record_id: object) -> bool:
        if record_id is None:
            return not self._closed
        if not isinstance(record_id, str):
            return False
        record_id = storable(record_id)
        return self._is_open(record_id) or record_id in self._gaps

    def _is_open(self, record_id: str) -> bool:
        """Whether it is a message behind the last reset."""
        met = self._messages.get(record_id)
        return met is not None and met.era == self._era

    def _resolved(self, record_id: object) -> str | None:
        """A known record, as the message that it is or that stands before it."""
        if not isinstance(record_id, str):
            return None
        record_id = storable(record_id)
        return record_id if self._is_open(record_id) else self._gaps[record_id].before

    def _first_from(self, record_id: object) -> str | None:
        """The first message from a record on, the record itself included; None when there is none or it is unknown."""
        if not isinstance(record_id, str):
            return None
        record_id = storable(record_id)
        if self._messages.get(record_id) is not None:
            return record_id
        return gap.after if (gap := self._gaps.get(record_id)) else None


def _id_of(entry: Mapping[str, object], line: int) -> str:
    record_id = entry.get("id")
    return f"line-{line}" if record_id is None else checked_message_id(record_id)


def _parent_of(entry: Mapping[str, object]) -> str | None:
    parent = entry.get("parentId")
    return storable(parent) if isinstance(parent, str) and parent else None


def _is_aside(entry: Mapping[str, object]) -> bool:
    return entry.get("appendMode") == "side"
