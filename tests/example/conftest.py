"""The example backend on a file of its own, filled once and copied: hashing passwords takes time on purpose."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from examples.backend import accounts, sample
from examples.backend.app import create_app
from examples.backend.database import Database
from examples.backend.models import User
from examples.backend.settings import BackendSettings

ORIGIN = "http://127.0.0.1"
SignIn = Callable[[str], TestClient]


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("example") / "filled.db"
    with Database(BackendSettings(database_url=f"sqlite:///{path}")) as database:
        sample.fill(database)
    return path


@pytest.fixture
def path(tmp_path: Path, filled: Path) -> Path:
    return Path(shutil.copyfile(filled, tmp_path / "example.db"))


@pytest.fixture
def settings(path: Path) -> BackendSettings:
    return BackendSettings(database_url=f"sqlite:///{path}", lock_timeout=0.05)


@pytest.fixture
def visitor(settings: BackendSettings) -> Iterator[TestClient]:
    """A browser that has not signed in, on a running application."""
    with TestClient(create_app(settings), base_url=ORIGIN, headers={"Origin": ORIGIN}) as client:
        yield client


@pytest.fixture
def signed_in(visitor: TestClient) -> Iterator[SignIn]:
    """Makes a browser that has signed in as a user."""
    with ExitStack() as clients:

        def sign_in(name: str) -> TestClient:
            with visitor.app.state.database.transaction(writing=True) as (db, _):
                token = accounts.sign_in(db, db.scalar(sa.select(User.id).where(User.name == name)))
            # Not entered as a context: the application is started once, by the visitor.
            client = TestClient(
                visitor.app,
                base_url=ORIGIN,
                headers={"Origin": ORIGIN},
                cookies={"session": token},
                raise_server_exceptions=False,
            )
            clients.callback(client.close)
            return client

        yield sign_in


@pytest.fixture
def demo(signed_in: SignIn) -> TestClient:
    return signed_in("demo")


@pytest.fixture
def guest(signed_in: SignIn) -> TestClient:
    return signed_in("guest")
