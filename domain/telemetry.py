"""What a host may watch of a store at work: operations, counters, what waits. Never what was said, asked or named."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeVar

T = TypeVar("T")

Fact = bool | int | StrEnum
"""A flag, a number or one of a few names: nothing that somebody wrote fits in."""


class Counter(StrEnum):
    """What is counted: messages stored, searches answered, index rows that reindexing wrote or removed."""

    APPENDS = "appends"
    SEARCHES = "searches"
    REINDEXED = "reindexed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an operation came to: facts of this one, and what it adds to the counters."""

    facts: Mapping[str, Fact] = field(default_factory=dict)
    counts: Mapping[Counter, int] = field(default_factory=dict)


class Telemetry(Protocol):
    """Is told what a store does, from whatever thread or task does it; what it raises reaches the caller."""

    def observed(
        self, operation: str, work: Callable[[], T], outcome: Callable[[T], Outcome], *, background: bool = False
    ) -> T:
        """Does the `work` of an operation and gives its result, or raises what it raises.

        Args:
            operation: the facade's method.
            work: to be called once, here.
            outcome: what its result comes to.
            background: nobody waits for it: it belongs to no caller's operation.
        """
        ...

    def count(self, counter: Counter, number: int) -> None:
        """Adds to a counter what an operation has done so far."""
        ...

    def pending(self, transcripts: Callable[[], int]) -> None:
        """May ask how many transcripts wait to be reindexed, which costs a query."""
        ...


class NoTelemetry:
    """Watches nothing."""

    def observed(
        self,
        operation: str,  # noqa: ARG002 - the port's signature, here and below
        work: Callable[[], T],
        outcome: Callable[[T], Outcome],  # noqa: ARG002
        *,
        background: bool = False,  # noqa: ARG002
    ) -> T:
        """Does the work."""
        return work()

    def count(self, counter: Counter, number: int) -> None:
        """Counts nothing."""

    def pending(self, transcripts: Callable[[], int]) -> None:
        """Asks nothing."""


NO_TELEMETRY = NoTelemetry()
