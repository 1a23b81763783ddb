"""The rules of reopening: which part of an active path a reader sees, and which window of it.

Everything here is arithmetic on depths (the place of a message on its line, counted from 1), so that a store can
answer with range scans and a test can check it against a plain list.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from backscroll.domain.model import SPOKEN, Role


class Stretch(NamedTuple):
    """The active-path messages with `first` <= depth <= `last`.

    Up to the depth `kept_until` only the `kept` user and assistant messages belong to it that a reset kept.
    """

    first: int
    last: int
    kept_until: int = 0
    kept: int = 0

    def holds(self, depth: int, role: Role) -> bool:
        """Whether a message of the active path belongs to this stretch."""
        if not self.first <= depth <= self.last:
            return False
        return depth > self.kept_until or role in SPOKEN


class Boundary(Protocol):
    """What a reset means for what is read: the depth it stands behind, and what of the messages up to it was kept."""

    @property
    def depth(self) -> int: ...

    @property
    def first_kept_depth(self) -> int | None: ...

    @property
    def kept(self) -> int: ...


class Anchor(NamedTuple):
    """The message of an active path that a page is about."""

    depth: int
    role: Role


class Position(NamedTuple):
    """Where in a transcript a page is read.

    Attributes:
        session_id: the transcript.
        head_depth: how long its active path is.
        latest: the last reset on that path.
        anchor: the message that the page is about; None: none was asked for, or it is not on the path.
        previous: the last reset before the anchor.
        closing: the first reset behind the anchor.
    """

    session_id: str
    head_depth: int
    latest: Boundary | None = None
    anchor: Anchor | None = None
    previous: Boundary | None = None
    closing: Boundary | None = None

    def stretch(self) -> Stretch:
        """What the page is cut from: the current view if it holds the anchor, else the anchor's closed interval."""
        view = current_view(self.head_depth, self.latest)
        if self.anchor is None or self.closing is None or view.holds(*self.anchor):
            return view
        return closed_interval(self.previous, self.closing)


def active_path(parents: Mapping[str, str | None], head: str | None) -> list[str]:
    """The message ids from the root to `head`, by each message's parent; raises `ValueError` on a loop or a gap."""
    path: list[str] = []
    seen: set[str] = set()
    while head is not None:
        if head in seen or head not in parents:
            raise ValueError(f"the parents of {head!r} do not lead to a root")
        seen.add(head)
        path.append(head)
        head = parents[head]
    path.reverse()
    return path


def current_view(head_depth: int, latest: Boundary | None) -> Stretch:
    """What a reader sees now: what the latest reset kept, then everything after it."""
    if latest is None:
        return Stretch(1, head_depth)
    if latest.first_kept_depth is None:
        return Stretch(latest.depth + 1, head_depth)
    return Stretch(latest.first_kept_depth, head_depth, kept_until=latest.depth, kept=latest.kept)


def closed_interval(previous: Boundary | None, closing: Boundary) -> Stretch:
    """The messages after the reset `previous` (None: from the start) up to the reset `closing`."""
    return Stretch(previous.depth + 1 if previous else 1, closing.depth)


def window(limit: int, older: int, newer: int) -> tuple[int, int]:
    """How many older and newer neighbours an anchor gets in a page of `limit`, when so many are there.

    `limit // 2` newer ones, the rest older, shifted so that the page stays full at either end.
    """
    newer_taken = min(newer, limit // 2)
    older_taken = min(older, limit - 1 - newer_taken)
    newer_taken = min(newer, limit - 1 - older_taken)
    return older_taken, newer_taken
