"""The stores of the agents: which file holds which session, and asking several of them as if they were one."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

import sqlalchemy as sa

from backscroll.domain.errors import InvalidRequest, SchemaOutdated, SessionNotFound, StoreUnavailable
from backscroll.domain.keys import agent_for, agent_in_key
from backscroll.domain.ports import Store
from backscroll.domain.results import SessionSummary
from backscroll.domain.stores import Asking, Found
from backscroll.domain.visibility import Scope
from backscroll.infrastructure.engine import begun
from backscroll.infrastructure.per_agent.fan import fanned_out
from backscroll.infrastructure.per_agent.files import AgentFiles, is_there, make
from backscroll.infrastructure.per_agent.kin import Kin, OpenFile
from backscroll.infrastructure.per_agent.names import agent_named, file_name, is_hashed
from backscroll.infrastructure.per_agent.opening import Opener
from backscroll.infrastructure.per_agent.pool import Pool
from backscroll.infrastructure.per_agent.ranking import Ranking
from backscroll.infrastructure.per_agent.units import FiledUnitOfWork
from backscroll.infrastructure.rows import AgentRow
from backscroll.infrastructure.store import EngineStore, StoreOptions
from backscroll.infrastructure.transaction import transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """How many files are open at a time, by how many threads a search asks them, how long who needs one waits (s)."""

    open_files: int
    threads: int
    patience: float


class _FileStore(EngineStore):
    """The store on an agent's open file."""

    def __init__(self, engine: sa.Engine, options: StoreOptions, agent_id: str, kin: Kin) -> None:
        super().__init__(engine, options)
        self._agent_id = agent_id
        self._kin = kin

    @contextmanager
    def unit(self, *, writing: bool) -> Iterator[FiledUnitOfWork]:
        """A transaction on the file."""
        with transaction(self._engine, writing=writing) as one:
            yield FiledUnitOfWork(one, self._options, self._agent_id, self._kin)


class AgentStore:
    """The store of one agent, whose file is opened for each unit of work; with `new` also made."""

    def __init__(self, stores: "AgentStores", agent_id: str | None, *, new: bool = False) -> None:
        self._stores = stores
        self._agent_id = agent_id
        self._new = new

    @contextmanager
    def reading(self) -> Iterator[FiledUnitOfWork]:
        """A unit of work on one snapshot; raises `SessionNotFound` when the agent has no file."""
        with self._opened() as store, store.unit(writing=False) as unit:
            yield unit

    @contextmanager
    def writing(self) -> Iterator[FiledUnitOfWork]:
        """A unit of work that holds the file's write lock; raises `SessionNotFound` when the agent has no file."""
        with self._opened() as store:
            with store.unit(writing=True) as unit:
                yield unit
            if unit.sessions.unsettled:
                # Once that is sure, and under the lock again: nobody can be storing one of them anew.
                with store.unit(writing=True) as after:
                    for session_key in unit.sessions.unsettled:
                        after.sessions.forget_kin(session_key)

    def pause(self, seconds: float) -> None:
        """Waits, between two units of work."""
        time.sleep(seconds)

    def size(self) -> int:
        """The file's size in bytes, with its write-ahead log."""
        with self._opened() as store:
            return store.size()

    def tidy(self, *, vacuum: bool) -> None:
        """Lets the file's database collect its statistics and empty its log; with `vacuum` writes it anew."""
        with self._opened() as store:
            store.tidy(vacuum=vacuum)

    @contextmanager
    def _opened(self) -> Iterator[_FileStore]:
        if self._agent_id is None:
            raise SessionNotFound
        with self._stores.opened(self._agent_id, new=self._new) as store:
            yield store


class AgentStores:
    """A file for each agent."""

    def __init__(self, files: AgentFiles, opener: Opener, options: StoreOptions, agents: AgentOptions) -> None:
        self._files = files
        self._opener = opener
        self._options = options
        self._threads = agents.threads

        def open_file(path: Path) -> OpenFile:
            return OpenFile(opener.open(path))

        self._pool = Pool(open_file, most=agents.open_files, patience=agents.patience)
        self._kin = Kin(files.kin, open_file, opener.empty)
        self._hashed: dict[str, str] = {}
        self._pending: set[str] = set()
        self._pending_lock = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """Closes all files, and refuses every further call with `StoreUnavailable`; those on their way go on."""
        self._closed = True
        self._pool.close()
        self._kin.close()

    @contextmanager
    def opened(self, agent_id: str, *, new: bool) -> Iterator[_FileStore]:
        """The store on an agent's file; raises `SessionNotFound` if there is none and it is not to be made."""
        path = self._files.path(agent_id)
        with _of_agent(agent_id):
            if not is_there(path):
                if not new:
                    raise SessionNotFound
                make(path, self._opener.empty())
            with self._pool.lease(path) as file:
                yield _FileStore(file.engine, self._options, agent_id, self._kin)

    # Which store holds which session.

    def of(self, session_key: str) -> Store:
        """The store of that session: its agent's. A key that names no agent is in none."""
        self._require_open()
        return AgentStore(self, agent_in_key(session_key))

    def making(self, session_key: str, agent_id: object) -> Store:
        """The store of a session that may be new. Raises `InvalidRequest` unless the key names its agent."""
        self._require_open()
        if agent_in_key(session_key) is None:
            raise InvalidRequest(
                f"session_key {session_key!r} names no agent: where each agent has a file of its own,"
                " a key must be agent:<agent_id>:<rest>"
            )
        return AgentStore(self, agent_for(session_key, agent_id), new=True)

    def each(self) -> Iterator[tuple[str | None, Store]]:
        """Every agent's store, in the order of the ids."""
        self._require_open()
        for agent_id in self._agents():
            yield agent_id, AgentStore(self, agent_id)

    def pending(self) -> Iterator[Store]:
        """The stores in which a search has met pending transcripts since this was last asked."""
        with self._pending_lock:
            agents, self._pending = sorted(self._pending), set()
        for agent_id in agents:
            yield AgentStore(self, agent_id)

    def _require_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("this store is closed")

    # Asking several.

    def scope_at(self, session_key: str, scope: Scope) -> Scope:
        """The scope as it holds in the store of that session."""
        self._require_open()
        agent_id = agent_in_key(session_key)
        if agent_id is None or session_key == scope.own_key or scope.admits_agent(agent_id):
            return scope
        return scope._replace(roots=self._roots(scope).get(agent_id, frozenset()))

    def search(self, asking: Asking, scope: Scope) -> Found:
        """Asks every file that the scope and the search admit; what they find is ranked as one."""
        self._require_open()
        ranking = Ranking(self._options.rank_bound)
        key = asking.session_key

        def ask(numbered: tuple[int, tuple[str | None, Scope]]) -> bool:
            number, (agent_id, visible) = numbered
            with AgentStore(self, agent_id).reading() as unit:
                request = asking.request(unit, visible)
                pending = unit.index.is_pending(request)
                ranking.take(number, request, unit.index.gather(request, settled=not pending))
            if pending and agent_id is not None:
                with self._pending_lock:
                    self._pending.add(agent_id)
            return pending

        if key is not None:
            indexing = ask((0, (agent_in_key(key), self.scope_at(key, scope))))
        else:
            asked = enumerate(self._visible(scope, asking.agents))
            indexing = any(list(fanned_out(_unless_gone(ask, otherwise=False), asked, self._threads)))
        return Found(ranking.best(), indexing)

    def listed(self, scope: Scope, limit: int, offset: int) -> list[SessionSummary]:
        """The sessions in scope of every file, the last written to first."""
        self._require_open()
        merged: list[SessionSummary] = []

        def ask(one: tuple[str, Scope]) -> list[SessionSummary]:
            agent_id, visible = one
            with AgentStore(self, agent_id).reading() as unit:
                return unit.sessions.listed(visible, offset + limit, 0)

        nothing: list[SessionSummary] = []
        for listed in fanned_out(_unless_gone(ask, otherwise=nothing), self._visible(scope, None), self._threads):
            # Stable: of the same time, those of an earlier agent come first.
            merged = sorted(merged + listed, key=lambda one: one.updated_at, reverse=True)[: offset + limit]
        return merged[offset:]

    def _visible(self, scope: Scope, agents: tuple[str, ...] | None) -> list[tuple[str, Scope]]:
        """The agents with a file in which the scope may admit a session, each with the scope as it holds there."""
        roots = self._roots(scope)
        own = agent_in_key(scope.own_key) if scope.own_key is not None else None
        named = {agent_id for agent_id in (own, *roots) if agent_id is not None}
        if agents is not None:
            found = {one for one in agents if one in named or scope.admits_agent(one)}
        elif scope.admits_others:
            found = {one for one in self._agents() if scope.admits_agent(one)} | named
        else:
            found = named | ({scope.agent_id} if scope.same_agent and scope.agent_id is not None else set())
        return [
            (agent_id, scope._replace(roots=roots.get(agent_id, frozenset())))
            for agent_id in sorted(found)
            if is_there(self._files.path(agent_id))
        ]

    def _roots(self, scope: Scope) -> dict[str, frozenset[str]]:
        return {} if scope.admits_every_agent else self._kin.roots(scope, _unless_gone(self._below, otherwise=[]))

    def _below(self, agent_id: str, scope: Scope) -> list[str]:
        with AgentStore(self, agent_id).reading() as unit:
            return unit.sessions.below(scope)

    def _agents(self) -> list[str]:
        """Every agent with a file, from the names in the folder."""
        found = []
        for name in self._files.names():
            agent_id = self._agent_inside(name) if is_hashed(name) else agent_named(name)
            if agent_id is not None:
                found.append(agent_id)
        return sorted(found)

    def _agent_inside(self, name: str) -> str | None:
        """The agent whose id is too long to be read from its file's name."""
        if name not in self._hashed:
            with self._pool.lease(self._files.named(name)) as file, begun(file.engine, writing=False) as connection:
                for agent_id in connection.scalars(sa.select(AgentRow.agent_id)):
                    if file_name(agent_id) == name:
                        self._hashed[name] = agent_id
        return self._hashed.get(name)


Args = ParamSpec("Args")
Answer = TypeVar("Answer")


def _unless_gone(ask: Callable[Args, Answer], *, otherwise: Answer) -> Callable[Args, Answer]:
    """Asks a file of several, of which one may have been taken away meanwhile."""

    def asked(*args: Args.args, **kwargs: Args.kwargs) -> Answer:
        try:
            return ask(*args, **kwargs)
        except SessionNotFound:
            return otherwise

    return asked


@contextmanager
def _of_agent(agent_id: str) -> Iterator[None]:
    """Names the agent in what its file raises."""
    try:
        yield
    except StoreUnavailable as error:
        raise StoreUnavailable(f"agent {agent_id!r}: {error}", locked=error.locked) from error
    except SchemaOutdated as error:
        raise SchemaOutdated(f"agent {agent_id!r}: {error}") from error
