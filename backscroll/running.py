"""What every command does around its work: opening the store, and an exit code for whatever comes of it."""

import os
import re
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

_PREFIX = "BACKSCROLL_"


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
    with _settings_explained():
        scroll = Backscroll.open(url, migrate=make)
    with scroll:
        yield scroll


def try_import(url: str | None, path: Path, format_: str, agent_id: str | None) -> None:
    """Raises what importing would raise at once, if there is no store yet: a wrong path then makes none."""
    from backscroll.bootstrap import Backscroll

    if _missing_file(url) is None:
        return

    def enough(done: int, total: int) -> None:  # noqa: ARG001 - the signature of a progress
        raise _Importable

    with _settings_explained():
        scratch = Backscroll.open("sqlite://")
    with scratch:
        try:
            scratch.import_transcripts(path, format=format_, agent_id=agent_id, progress=enough)
        except _Importable:
            return


class _Importable(Exception):
    """Something was imported."""


def _missing_file(url: str | None) -> Path | None:
    """The file of the store, if it is not there."""
    from backscroll.bootstrap import store_file

    with _settings_explained():
        file = store_file(url)
    return None if file is None or file.exists() else file


@contextmanager
def _settings_explained() -> Iterator[None]:
    """Turns what is wrong with settings in the environment into `InvalidRequest`, by the variables' names."""
    from pydantic import ValidationError
    from pydantic_settings import SettingsError

    try:
        yield
    except ValidationError as error:
        wrong = [f"{_variable(one['loc'])}: {one['msg']}" for one in error.errors(include_url=False)]
        raise InvalidRequest("; ".join(dict.fromkeys(wrong))) from error
    except SettingsError as error:
        field = re.search(r'field "(\w+)"', str(error))
        name = f"{_PREFIX}{field[1].upper()}" if field else "a setting"
        raise InvalidRequest(f"{name}: must be JSON") from error


def _variable(place: tuple[int | str, ...]) -> str:
    """The environment variable that sets what is at `place` in the settings; inside its JSON, where."""
    present = {name.upper() for name in os.environ}
    for length in range(len(place), 0, -1):
        name = _PREFIX + "__".join(str(one) for one in place[:length]).upper()
        if name in present:
            # Between names and positions pydantic puts the types that it tried.
            inside = ".".join(one for one in map(str, place[length:]) if one.isidentifier() or one.isdecimal())
            return f"{name} ({inside})" if inside else name
    return _PREFIX + "__".join(str(one) for one in place).upper()
