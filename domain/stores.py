"""The port that tells which store holds which session, and asks all of them at once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from backscroll.domain.ports import Match, SearchRequest, Store, UnitOfWork
from backscroll.domain.results import SessionSummary
from backscroll.domain.visibility import Scope


@dataclass(frozen=True, slots=True)
class Found:
    """The best matches of a search, and whether a transcript in scope waits to be reindexed."""

    matches: list[Match]
    indexing: bool


@dataclass(frozen=True, slots=True)
class Asking:
    """A search on its way to the stores that it concerns.

    `session_key` and `agents` narrow it to their stores (None: every one in scope). `request` makes what each store is
    asked, from a unit of work there and the scope as it holds there.
    """

    session_key: str | None
    agents: tuple[str, ...] | None
    request: Callable[[UnitOfWork, Scope], SearchRequest]


class Stores(Protocol):
    """Which store holds which session: one for all of them, or one for each agent."""

    def of(self, session_key: str) -> Store:
        """The store of that session. Its units of work raise `SessionNotFound` where no store can hold it."""
        ...

    def making(self, session_key: str, agent_id: object) -> Store:
        """The store of a session that may be new, made with the first unit of work if it is not there.

        Raises `InvalidRequest` when the key does not tell where, or the agent given contradicts it.
        """
        ...

    def each(self) -> Iterator[tuple[str | None, Store]]:
        """Every store with its agent (None: every agent's), in the order of the agents."""
        ...

    def scope_at(self, session_key: str, scope: Scope) -> Scope:
        """The scope as it holds in the store of that session."""
        ...

    def search(self, asking: Asking, scope: Scope) -> Found:
        """Asks every store that `scope` and the search itself admit; what they find is ranked as one.

        Raises what any of them raises: none is left out.
        """
        ...

    def listed(self, scope: Scope, limit: int, offset: int) -> list[SessionSummary]:
        """The sessions in `scope` of every store, the last written to first."""
        ...
