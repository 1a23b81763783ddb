"""What every command does around its work: opening the store, and an exit code for whatever comes of it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from backscroll.domain.errors import (
    BackscrollError,
    InvalidRequest,
    SessionMismatch,
    SessionNotFound,
    StoreUnavailable,
)
from backscroll.terminal import complain, give_up_stdout

if TYPE_CHECKING:
    from backscroll.bootstrap import Backscroll

NEGATIVE, BAD_INPUT, FAILED, INTERRUPTED, PIPE_CLOSED = 1, 2, 3, 130, 141
EXIT_CODES = "\n\n".join(
    (
        "Exit codes:",
        "0 done.",
        "1 done, and the answer is no: nothing found, no message to show, index and transcripts disagree, "
        "a transcript could not be reindexed, the schema is outdated.",
        "2 the command, a value or a setting is wrong, or there is no such session.",
        "3 the store cannot be used, or nothing could be imported (bad lines are reported and are no failure).",
        "130 interrupted.",
    )
)


class Commands(TyperGroup):
    """Runs a command, and makes one line and an exit code of what it raises; anything unforeseen stays a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command that `ctx` holds."""
        try:
            return super().invoke(ctx)
        except BackscrollError as error:
            complain(str(error))
            wrong = isinstance(error, InvalidRequest | SessionNotFound | SessionMismatch)
            raise typer.Exit(BAD_INPUT if wrong else FAILED) from error
        except KeyboardInterrupt as error:
            complain("interrupted")
            raise typer.Exit(INTERRUPTED) from error
        except BrokenPipeError as error:
            give_up_stdout()
            raise typer.Exit(PIPE_CLOSED) from error
        except OSError as error:
            give_up_stdout()
            where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
            complain(f"{where}{error.strerror or error}")
            raise typer.Exit(FAILED) from error


@contextmanager
def opened(url: str | None, *, make: bool = False) -> Iterator["Backscroll"]:
    """The store. Only with `make` is one made or migrated; else it must be there and current."""
    from backscroll.bootstrap import Backscroll

    missing = _missing_file(url)
    if missing is not None and not make:
        raise StoreUnavailable(
            f"no store at {missing.absolute()}: make one with `backscroll import PATH`, or name one with --database"
        )
    if missing is not None and not missing.absolute().parent.is_dir():
        raise StoreUnavailable(f"no store can be made at {missing.absolute()}: there is no such folder")
    with Backscroll.open(url, migrate=make) as scroll:
        yield scroll


def try_import(url: str | None, path: Path, format_: str, agent_id: str | None) -> None:
    """Raises what importing would raise at once, if there is no store yet: a wrong path then makes none."""
    from backscroll.bootstrap import Backscroll

    if _missing_file(url) is None:
        return

    def enough(done: int, total: int) -> None:  # noqa: ARG001 - the signature of a progress
        raise _Importable

    with Backscroll.open("sqlite://") as scratch:
        try:
            scratch.import_transcripts(path, format=format_, agent_id=agent_id, progress=enough)
        except _Importable:
            return


class _Importable(Exception):
    """Something was imported."""


def _missing_file(url: str | None) -> Path | None:
    """The file of the store, if it is not there."""
    from backscroll.bootstrap import store_file

    file = store_file(url)
    return None if file is None or file.exists() else file
