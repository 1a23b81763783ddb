"""Where the agents' files are: a database URL with `{agent_id}` as a pattern of paths, read in both directions."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from backscroll.domain.errors import InvalidRequest, StoreUnavailable
from backscroll.infrastructure.per_agent.names import KIN, file_name

PLACE = "{agent_id}"


def is_per_agent(url: str) -> bool:
    """Whether a database URL asks for a file for each agent."""
    return PLACE in url


@dataclass(frozen=True, slots=True)
class AgentFiles:
    """The pattern: in `folder`, whatever stands for an agent between `before` and `after`; below that, `rest`."""

    url: sa.URL
    folder: Path
    before: str
    after: str
    rest: tuple[str, ...]

    @classmethod
    def of(cls, url: str) -> "AgentFiles":
        """The pattern of a URL. Raises `InvalidRequest` unless it is one of SQLite files with one `{agent_id}`."""
        try:
            parsed = sa.make_url(url)
        except sa.exc.ArgumentError as error:
            raise StoreUnavailable(
                "the database URL cannot be read: use a form such as sqlite:///a/{agent_id}.db"
            ) from error
        if parsed.get_backend_name() != "sqlite":
            raise StoreUnavailable(f"no storage for {parsed.get_backend_name()!r} databases: use a sqlite:/// URL")
        path = parsed.database or ""
        if path.count(PLACE) != 1 or url.count(PLACE) != 1 or parsed.query or path.startswith("file:"):
            raise InvalidRequest(
                "a database URL with {agent_id} must name it once, in a plain path: sqlite:///stores/{agent_id}.db"
            )
        parts = Path(path).absolute().parts
        at = next(place for place, part in enumerate(parts) if PLACE in part)
        before, _, after = parts[at].partition(PLACE)
        return cls(parsed, Path(*parts[:at]), before, after, parts[at + 1 :])

    def path(self, agent_id: str) -> Path:
        """The file of an agent, whether it is there or not."""
        return self._named(file_name(agent_id))

    @property
    def kin(self) -> Path:
        """The file that tells which agents' sessions belong to whose trees."""
        return self._named(KIN)

    def _named(self, name: str) -> Path:
        return self.folder.joinpath(f"{self.before}{name}{self.after}", *self.rest)

    def names(self) -> Iterator[str]:
        """The names of everything in the folder that fits the pattern, in any order."""
        try:
            with os.scandir(self.folder) as entries:
                found = [entry.name for entry in entries]
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreUnavailable(f"the folder of the agents' files cannot be read: {error.strerror}") from error
        shortest = len(self.before) + len(self.after)
        for name in found:
            if len(name) > shortest and name.startswith(self.before) and name.endswith(self.after):
                name = name[len(self.before) : len(name) - len(self.after)]
                if not self.rest or is_there(self._named(name)):
                    yield name

    def named(self, name: str) -> Path:
        """The file of a name that `names` gave."""
        return self._named(name)


def is_there(path: Path) -> bool:
    """Whether a file is there. Raises `StoreUnavailable` when that cannot be told."""
    try:
        return path.is_file()
    except OSError as error:
        raise StoreUnavailable(f"the file of an agent cannot be reached: {error.strerror}") from error


def identity(path: Path) -> tuple[int, int] | None:
    """Device and number of the file that stands there now; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def make(path: Path, content: bytes) -> None:
    """Makes a file with that content all at once, and its folders; one that is there already stays as it is."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # In this order: whoever makes the file meanwhile has made it before its log.
        if path.with_name(f"{path.name}-wal").exists() and not path.exists():
            raise StoreUnavailable(
                f"{path.name}-wal is left of a file that was deleted: SQLite would read it into a new one"
            )
        # No id's name holds a dot, so that this is never taken for an agent's.
        draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
        try:
            _write(draft, content)
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)
        finally:
            draft.unlink(missing_ok=True)
        _sync_folder(path.parent)
    except OSError as error:
        raise StoreUnavailable(f"the file of an agent cannot be made: {error.strerror}") from error


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Makes a new name in a folder last; where folders cannot be opened, the system sees to it."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
