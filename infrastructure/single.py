"""One store for every session: the plain case of the port `Stores`."""

from collections.abc import Iterator
from contextlib import AbstractContextManager

from backscroll.domain.ports import Store, UnitOfWork
from backscroll.domain.results import SessionSummary
from backscroll.domain.stores import Asking, Found
from backscroll.domain.visibility import Scope


class OneForAll:
    """Makes a store the only one that there is."""

    def reading(self) -> AbstractContextManager[UnitOfWork]:
        """A unit of work on one snapshot."""
        raise NotImplementedError

    def of(self, session_key: str) -> Store:  # noqa: ARG002 - the port's signature
        """The store itself."""
        return self  # type: ignore[return-value]

    def making(self, session_key: str, agent_id: object) -> Store:  # noqa: ARG002 - the port's signature
        """The store itself."""
        return self  # type: ignore[return-value]

    def each(self) -> Iterator[tuple[str | None, Store]]:
        """The store itself, which is no single agent's."""
        yield None, self  # type: ignore[misc]

    def scope_at(self, session_key: str, scope: Scope) -> Scope:  # noqa: ARG002 - the port's signature
        """The scope as it is: the whole tree is here."""
        return scope

    def search(self, asking: Asking, scope: Scope) -> Found:
        """The best matches in scope, all from one snapshot."""
        with self.reading() as unit:
            request = asking.request(unit, scope)
            pending = unit.index.is_pending(request)
            return Found(unit.index.search(request, settled=not pending), pending)

    def listed(self, scope: Scope, limit: int, offset: int) -> list[SessionSummary]:
        """The sessions in scope, the last written to first."""
        with self.reading() as unit:
            return unit.sessions.listed(scope, limit, offset)
