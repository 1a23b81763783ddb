"""The only place that wires infrastructure into services."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import unquote, urlsplit

import sqlalchemy as sa
from sqlalchemy import orm

from backscroll.domain.audit import Audit, no_audit
from backscroll.domain.errors import BackscrollError, InvalidRequest, StoreUnavailable
from backscroll.domain.ids import new_id
from backscroll.domain.limits import USUAL_BATCHES, Batches
from backscroll.domain.ports import Redactor
from backscroll.domain.stores import Stores
from backscroll.domain.telemetry import Telemetry
from backscroll.infrastructure import migrate, schema, sqlite_checks
from backscroll.infrastructure.engine import begun, create_engine
from backscroll.infrastructure.importers import readers
from backscroll.infrastructure.pending import leave_all_pending
from backscroll.infrastructure.per_agent.files import AgentFiles, is_per_agent
from backscroll.infrastructure.per_agent.opening import Opener
from backscroll.infrastructure.per_agent.stores import AgentOptions, AgentStores
from backscroll.infrastructure.redaction import PatternRedactor
from backscroll.infrastructure.settings import Settings, from_environment
from backscroll.infrastructure.store import ConnectionStore, EngineStore, StoreOptions
from backscroll.infrastructure.telemetry import telemetry_named
from backscroll.infrastructure.worker import LoopWorker, Work, Worker
from backscroll.services.facade import Facade
from backscroll.services.indexing import Indexing

_log = logging.getLogger("backscroll.open")
# A library says nothing on stderr by itself: whether its lines are seen is the host's affair.
logging.getLogger("backscroll").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class _Wiring:
    """What the facades of one store share."""

    settings: Settings
    redactor: Redactor
    audit: Audit
    options: StoreOptions
    batches: Batches
    telemetry: Telemetry
    per_agent: bool = False


AnyBackscroll = TypeVar("AnyBackscroll", bound="Backscroll")
AnyWorker = TypeVar("AnyWorker", Worker, LoopWorker)


def _now() -> datetime:
    return datetime.now(UTC)


class Backscroll(Facade):
    """A store of conversations. Open one with `Backscroll.open`; leaving its `with` block closes it.

    Every method may raise `InvalidRequest` for an argument outside its bounds and `StoreUnavailable` when the
    database cannot be used; a refused write leaves nothing behind.
    """

    def __init__(self, stores: Stores, wiring: _Wiring, on_pending: Callable[[], None]) -> None:
        super().__init__(
            stores,
            policy=wiring.settings.policy(),
            redactor=wiring.redactor,
            limits=wiring.settings.limits(),
            readers=readers(),
            clock=wiring.options.clock,
            new_id=wiring.options.new_id,
            on_pending=on_pending,
            audit=wiring.audit,
            batches=wiring.batches,
            telemetry=wiring.telemetry,
        )
        self._wiring = wiring
        self._on_pending = on_pending
        self._at_close: list[Callable[[], None]] = []

    @classmethod
    def open(
        cls,
        target: str | sa.Engine | Settings | None = None,
        *,
        settings: Settings | None = None,
        migrate: bool = True,
        redactor: Redactor | None = None,
        audit: Audit = no_audit,
        telemetry: Telemetry | None = None,
    ) -> Self:
        """Opens a store.

        Args:
            target: a database URL, a host's SQLAlchemy engine, or `Settings`; left out, settings come from the
                `BACKSCROLL_*` environment variables. An engine given stays the host's: it is never closed or changed.
                A URL with `{agent_id}` in its path gives each agent a file of its own, opened when it is needed.
            settings: for an engine that is given, or to override the environment for a URL.
            migrate: bring the schema up to date. With False an outdated one raises `SchemaOutdated`.
            redactor: finds the secrets to be masked; the built-in patterns if left out.
            audit: is told of every read, answered or refused, before the answer is given.
            telemetry: watches the store at work, `OpenTelemetry(...)` say; what the settings name if left out.

        Raises:
            StoreUnavailable: the database cannot be used.
            InvalidRequest: a setting is wrong.
            SchemaOutdated: the schema is not this release's, and may not be brought up to date.
        """
        settings = settings_for(target, settings)
        if isinstance(target, sa.Engine):
            if target.dialect.is_async:
                raise InvalidRequest("an engine for event loops is for AsyncBackscroll")
            engine, at_close = target, []
        elif is_per_agent(settings.database_url):
            return _built_over_agents(
                cls, settings, migrate=migrate, redactor=redactor, audit=audit, telemetry=telemetry
            )
        else:
            engine = create_engine(
                settings.database_url, busy_timeout=settings.busy_timeout, synchronous=settings.synchronous
            )
            at_close = [engine.dispose]
        try:
            scroll, worker = built_over(
                cls, engine, settings, Worker, migrate=migrate, redactor=redactor, audit=audit, telemetry=telemetry
            )
        except BaseException:
            for close in at_close:
                close()
            raise
        scroll._at_close = [worker.close, *scroll._at_close, *at_close]
        return scroll

    def using(self, host: sa.Connection | orm.Session) -> "Backscroll":
        """A facade that works inside the open transaction of the host's connection or session, begun if there is none.

        Each call is a savepoint, so that a refused write leaves the transaction as it was. It never commits, rolls
        back or closes what is the host's, and flushes none of a session's objects.

        Raises:
            InvalidRequest: `host` is neither, or each agent has a file of its own.
        """
        if self._wiring.per_agent:
            raise InvalidRequest("using needs one database: here each agent has a file of its own")
        if isinstance(host, orm.Session):
            connected: Callable[[], sa.Connection] = host.connection
        elif isinstance(host, sa.Connection):

            def connected() -> sa.Connection:
                return host

        else:
            raise InvalidRequest(f"using takes a sqlalchemy.Connection or orm.Session, not {type(host).__name__}")
        return Backscroll(ConnectionStore(connected, self._wiring.options), self._wiring, self._on_pending)

    def close(self) -> None:
        """Ends the background work and closes the connections that this facade opened; a second call does nothing.

        What is called later is refused with `StoreUnavailable`.
        """
        while self._at_close:
            self._at_close.pop(0)()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def built_over(
    kind: type[AnyBackscroll],
    engine: sa.Engine,
    settings: Settings,
    background: Callable[[Work], AnyWorker],
    *,
    migrate: bool,
    redactor: Redactor | None,
    audit: Audit,
    telemetry: Telemetry | None,
    batches: Batches = USUAL_BATCHES,
) -> tuple[AnyBackscroll, AnyWorker]:
    """A facade over an engine that somebody else closes, and the worker of `background` that it wakes."""
    telemetry = telemetry or telemetry_named(settings.telemetry)
    _prepare(engine, upgrade=migrate)
    options = _options(settings)
    store = EngineStore(engine, options)
    worker = background(Indexing(store, _now, new_id, batches, telemetry).work)
    wake = worker.wake if settings.background_reindex else _leave_pending
    wiring = _Wiring(settings, redactor or PatternRedactor(), audit, options, batches, telemetry)
    scroll = kind(store, wiring, wake)
    scroll._at_close = [store.close]
    return scroll, worker


def _built_over_agents(
    kind: type[AnyBackscroll],
    settings: Settings,
    *,
    migrate: bool,
    redactor: Redactor | None,
    audit: Audit,
    telemetry: Telemetry | None,
) -> AnyBackscroll:
    """A facade over a file for each agent."""
    options = _options(settings)
    agents = _agent_stores(settings, options, upgrade=migrate)
    telemetry = telemetry or telemetry_named(settings.telemetry)
    worker = Worker(partial(_reindex_pending, agents, telemetry))
    wake = worker.wake if settings.background_reindex else _leave_pending
    wiring = _Wiring(settings, redactor or PatternRedactor(), audit, options, USUAL_BATCHES, telemetry, per_agent=True)
    scroll = kind(agents, wiring, wake)
    scroll._at_close = [worker.close, agents.close]
    return scroll


def _options(settings: Settings) -> StoreOptions:
    return StoreOptions(
        rank_bound=settings.rank_bound,
        inline_reindex_limit=settings.inline_reindex_limit,
        new_id=new_id,
        clock=_now,
        patience=settings.busy_timeout,
    )


def store_file(url: str | None = None) -> Path | None:
    """The SQLite file that a database URL (left out: the settings) names; None for a store in memory or a bad URL.

    For a URL with `{agent_id}`, the folder that holds the agents' files.
    """
    try:
        configured = settings_for(url).database_url
        if is_per_agent(configured):
            return AgentFiles.of(configured).folder
        parsed = sa.make_url(configured)
    except sa.exc.ArgumentError:
        return None
    name = parsed.database or ":memory:"
    if parsed.get_backend_name() != "sqlite" or parsed.query.get("mode") == "memory":
        return None
    if parsed.query.get("uri") and name.startswith("file:"):
        name = unquote(urlsplit(name).path) or ":memory:"
    return None if name == ":memory:" else Path(name)


def _leave_pending() -> None:
    """A host that schedules its own work calls `reindex()` when it likes."""


def settings_for(target: object, given: Settings | None = None) -> Settings:
    """The settings of a store that is opened by `target`: it, or those given or of the environment with its URL."""
    if isinstance(target, Settings):
        return target
    if target is not None and not isinstance(target, str | sa.Engine):
        raise InvalidRequest(f"open takes a URL, an Engine or Settings, not {type(target).__name__}")
    settings = given or from_environment()
    return settings.model_copy(update={"database_url": target}) if isinstance(target, str) else settings


def _agent_stores(settings: Settings, options: StoreOptions, *, upgrade: bool) -> AgentStores:
    """The stores of the agents; no file is opened yet."""
    sqlite_checks.check_library()
    files = AgentFiles.of(settings.database_url)
    opener = Opener(
        files,
        _prepare,
        upgrade=upgrade,
        busy_timeout=settings.busy_timeout,
        synchronous=settings.synchronous,
    )
    agents = AgentOptions(
        open_files=settings.open_agent_files, threads=settings.search_threads, patience=settings.busy_timeout
    )
    return AgentStores(files, opener, options, agents)


def _reindex_pending(stores: AgentStores, telemetry: Telemetry, stopped: Callable[[], bool]) -> None:
    """A background worker's turn where each agent has a file: those in which a search has met what is pending."""
    for store in stores.pending():
        if stopped():
            return
        try:
            Indexing(store, _now, new_id, USUAL_BATCHES, telemetry).work(stopped)
        except BackscrollError as error:
            # The next search that meets it tries again.
            _log.warning("an agent's reindexing is put off: %s", error)


def _prepare(engine: sa.Engine, *, upgrade: bool) -> None:
    """Sees to the schema. A current one is only read: opening never waits for a writer then."""
    sqlite_checks.check_library()
    with begun(engine, writing=False) as connection:
        found = migrate.revision(connection)
        if found == migrate.HEAD:
            lost = list(schema.lacking(connection))
        elif not upgrade or found not in (None, *migrate.KNOWN):
            migrate.require_current(connection)
    if found != migrate.HEAD:
        with begun(engine, writing=True) as connection:
            migrate.upgrade(connection)
            connection.commit()
    elif lost:
        _distrust(engine, lost)


def _distrust(engine: sa.Engine, lost: list[str]) -> None:
    """Leaves every transcript pending in a store that has lost what would have noticed a change."""
    _log.warning("the store lacks %s: somebody changed its schema; see verify() and repair()", ", ".join(lost))
    try:
        with begun(engine, writing=True) as connection:
            leave_all_pending(connection)
            connection.commit()
    except StoreUnavailable as error:
        # It can still be read; and verify() will say the same.
        _log.warning("its transcripts could not be left to be reindexed: %s", error)
