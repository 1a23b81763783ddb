"""Stores for the command line: a new one, and one with the sample transcripts."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from backscroll import Backscroll
from backscroll.cli import app
from tests.cli.calling import EXAMPLES, Run, url


@pytest.fixture
def run(store_path: Path) -> Run:
    """Runs a command on the fresh store."""

    def run_it(*arguments: str, database: str | None = url(store_path), **env: str | None) -> Result:
        named = [] if database is None else ["--database", database]
        result = CliRunner().invoke(app, [*named, *arguments], env=env, catch_exceptions=False, prog_name="backscroll")
        assert "Traceback" not in result.output
        return result

    return run_it


@pytest.fixture(scope="session")
def imported_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("imported") / "store.db"
    with Backscroll.open(url(path)) as scroll:
        scroll.import_transcripts(EXAMPLES)
    return path


@pytest.fixture
def samples(run: Run, store_path: Path, imported_store: Path) -> Run:
    """Runs a command on a store with the sample transcripts."""
    shutil.copyfile(imported_store, store_path)
    return run
