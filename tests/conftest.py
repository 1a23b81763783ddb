"""What every test shares: Hypothesis profiles, stores on real files, and a look at each store when its test ends."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings

from backscroll import Backscroll, Requester
from tests.factories import opened

hypothesis_settings.register_profile("dev", deadline=None, database=None)
hypothesis_settings.register_profile("ci", deadline=None, database=None, derandomize=True, print_blob=True)
hypothesis_settings.load_profile("ci" if os.environ.get("CI") else "dev")

for _name in [name for name in os.environ if name.startswith("BACKSCROLL_")]:
    del os.environ[_name]

OpenStore = Callable[..., Backscroll]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "disagreeing: the test leaves index and transcripts in disagreement on purpose")


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the current schema and nothing in it, to be copied: migrating takes longer than most tests."""
    path = tmp_path_factory.mktemp("empty") / "store.db"
    Backscroll.open(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def store_path(tmp_path: Path, empty_store: Path) -> Path:
    """A fresh store's file."""
    path = tmp_path / "store.db"
    shutil.copyfile(empty_store, path)
    return path


@pytest.fixture
def open_store(request: pytest.FixtureRequest, store_path: Path) -> Iterator[OpenStore]:
    """Opens the fresh store with changed settings; when the test ends, index and transcripts must agree."""
    stores: list[Backscroll] = []

    def open_it(path: Path = store_path, **changes: object) -> Backscroll:
        stores.append(opened(path, **changes))
        return stores[-1]

    yield open_it
    try:
        if request.node.get_closest_marker("disagreeing") is None:
            for store in stores:
                assert store.verify().problems == ()
    finally:
        for store in stores:
            store.close()


@pytest.fixture
def scroll(open_store: OpenStore) -> Backscroll:
    """A fresh store with the usual settings."""
    return open_store()


@pytest.fixture(scope="module")
def module_scroll(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> Iterator[Backscroll]:
    """A store for all examples of a module's Hypothesis tests, each of which uses sessions of its own."""
    path = tmp_path_factory.mktemp("module") / "store.db"
    shutil.copyfile(empty_store, path)
    store = opened(path)
    yield store
    report = store.verify()
    store.close()
    assert report.problems == ()


@pytest.fixture(scope="session")
def operator() -> Requester:
    return Requester.operator()
