"""A store of each kind, and a session in it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from backscroll import (
    Session,
)
from backscroll.domain.ports import Store
from backscroll.infrastructure.engine import create_engine
from backscroll.infrastructure.store import ConnectionStore, EngineStore
from tests.factories import OPTIONS, agent_stores
from tests.ports.repositories import (
    stored,
)


@pytest.fixture(scope="module", params=["engine", "listened", "connection", "agent"])
def store(
    request: pytest.FixtureRequest, empty_store: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    """A store for a whole module; each test uses sessions of its own. One has somebody listen to its statements."""
    folder = tmp_path_factory.mktemp("contract")
    path = folder / "store.db"
    shutil.copyfile(empty_store, path)
    if request.param == "agent":
        stores = agent_stores(folder)
        yield stores.making("agent:main:main", None)
        stores.close()
        return
    if request.param in ("engine", "listened"):
        engine = create_engine(f"sqlite:///{path}", busy_timeout=5, synchronous="NORMAL")
        if request.param == "listened":
            event.listen(engine, "before_cursor_execute", lambda *_: None)
        yield EngineStore(engine, OPTIONS)
    else:
        engine = sa.create_engine(f"sqlite:///{path}")
        with engine.connect() as connection:
            yield ConnectionStore(lambda: connection, OPTIONS)
            connection.rollback()
    engine.dispose()


@pytest.fixture
def session(store: Store) -> Session:
    """A stored session."""
    return stored(store)
