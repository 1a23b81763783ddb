"""Finds the transcript files in a file or folder, by their names and their beginnings alone.

| name | is |
| --- | --- |
| `<id>.jsonl`, `<id>-topic-<thread>.jsonl` | a transcript of OpenClaw |
| `<time>_<id>.jsonl` | a transcript of pi |
| `<id>.jsonl.reset.<time>` | an earlier transcript that a reset of OpenClaw put away |
| `*.trajectory.jsonl`, `*.checkpoint.<uuid>.jsonl`, `*.jsonl.corrupt-*` | copies and logs of transcripts: left out |
| `*.jsonl.deleted.<time>` | a transcript that its user deleted: left out |

A file counts as a transcript when it begins with a session header or with messages of these programs. In a folder with
a `sessions.json` every file of such a name counts, so that a damaged one is reported and not passed over. A file that
the caller names is judged by its beginning alone.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from backscroll.domain.errors import ImportFailed, InvalidRequest
from backscroll.domain.text import checked_name, storable
from backscroll.infrastructure.importers import registry
from backscroll.infrastructure.importers.lines import UnreadableLine, json_object

_BEGINNING = 64 * 1024
_ASKED_FOR = ("id", "timestamp", "parentSession", "cwd")
_ARCHIVE = re.compile(r"(?P<id>.+)\.jsonl\.reset\.(?P<time>.+)", re.DOTALL)
_PI = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d[-.\d]*Z_(?P<id>.+)\.jsonl", re.DOTALL)
_LEFT_OUT = re.compile(
    r"\.trajectory\.jsonl$|\.checkpoint\.[0-9a-f]{8}(-[0-9a-f]{4,12}){4}\.jsonl$|\.jsonl\.corrupt-", re.I
)
_PACKED = re.compile(r"\.(zst|gz|xz|bz2|br)$", re.I)


@dataclass(frozen=True, slots=True)
class Found:
    """A transcript file: where it is, its name below the path that was asked for, and what name and beginning tell.

    There may be very many of them: no `Path` is kept, and of the header only what somebody asks for.

    `named_id` is the session id in the name, `header` the session header that it begins with, `archived` the time
    in the name of an earlier transcript.
    """

    location: str
    name: str
    size: int
    named_id: str
    header: Mapping[str, object] | None
    archived: str | None
    of_pi: bool

    @property
    def path(self) -> Path:
        """Where the file is."""
        return Path(self.location)

    @property
    def session_id(self) -> str:
        """The id that the file gives itself; that of its name where it gives none that could be stored."""
        try:
            return checked_name((self.header or {}).get("id"), "session id")
        except InvalidRequest:
            return self.named_id


def find_transcripts(path: Path) -> tuple[list[Found], list[str]]:
    """The transcripts in a file or folder, by name, and what could not be looked at.

    Raises `ImportFailed` when the path itself cannot be read.
    """
    problems: list[str] = []
    return [found for found in _candidates(path, problems) if found is not None], problems


def find_relatives(archive: Found) -> list[Found]:
    """The transcripts beside an archive, itself included, that are of the same session id by their names."""
    start = f"{archive.named_id}.jsonl"
    found = (item for item in _candidates(archive.path.parent, [], start) if item is not None)
    return [item for item in found if item.named_id == archive.named_id]


def is_transcript(path: Path) -> bool:
    """Whether there is any transcript in a file or folder; looks no further than the first one; never raises."""
    try:
        return any(_candidates(path, []))
    except ImportFailed:
        return False


def is_of_pi_alone(path: Path) -> bool:
    """Whether there are transcripts in a file or folder and all bear names as pi gives them; never raises."""
    any_of_pi = False
    try:
        for found in _candidates(path, []):
            if found is not None and not found.of_pi:
                return False
            any_of_pi = any_of_pi or found is not None
    except ImportFailed:
        return False
    return any_of_pi


def _candidates(path: Path, problems: list[str], start: str | None = None) -> Iterator[Found | None]:
    """What is at the path; with `start`, only the folder's own files whose names begin so."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        raise ImportFailed(f"{storable(str(path))} cannot be read: {_why(error)}") from error
    if stat.S_ISREG(mode):
        try:
            yield _looked_at(path, storable(path.name), trusted=False)
        except OSError as error:
            raise ImportFailed(f"{storable(str(path))} cannot be read: {_why(error)}") from error
        return
    if not stat.S_ISDIR(mode):
        raise ImportFailed(f"{storable(str(path))} is neither a file nor a folder")

    def unreadable(error: OSError) -> None:
        if error.filename == os.fspath(path):
            raise ImportFailed(f"{storable(str(path))} cannot be read: {_why(error)}") from error
        problems.append(storable(f"{error.filename} cannot be read: {_why(error)}"))

    for folder, folders, names in os.walk(path, onerror=unreadable):
        folders[:] = sorted(folders) if start is None else []
        trusted = registry.NAME in names
        for name in sorted(names):
            archive = _ARCHIVE.fullmatch(name)
            if _LEFT_OUT.search(name) or not (archive or name.endswith(".jsonl")):
                continue
            if start is not None and not name.startswith(start):
                continue
            inner = Path(folder, name)
            if storable(str(inner)) != str(inner):
                # Such a name can neither be shown nor stored.
                problems.append(f"{storable(str(inner))} has a name that is no text and was not read")
                continue
            if _PACKED.search(name):
                problems.append(f"{inner} is compressed and was not read")
                continue
            try:
                # A pipe or device of that name would be waited for.
                if stat.S_ISREG(inner.stat().st_mode):
                    yield _looked_at(inner, inner.relative_to(path).as_posix(), trusted=trusted)
            except OSError as error:
                problems.append(f"{inner} cannot be read: {_why(error)}")


def _looked_at(path: Path, name: str, *, trusted: bool) -> Found | None:
    with path.open("rb") as handle:
        size = os.fstat(handle.fileno()).st_size
        header, plausible = _beginning(handle.read(_BEGINNING))
    if header is None and not plausible and not (trusted and size):
        return None
    archive, of_pi = _ARCHIVE.fullmatch(path.name), _PI.fullmatch(path.name)
    match = archive or of_pi
    return Found(
        location=str(path),
        name=name,
        size=size,
        named_id=nameable(match["id"] if match else path.name.removesuffix(".jsonl")),
        header=header and {field: header[field] for field in _ASKED_FOR if field in header},
        archived=archive["time"] if archive else None,
        of_pi=of_pi is not None,
    )


def _beginning(data: bytes) -> tuple[Mapping[str, object] | None, bool]:
    """The session header, if there is one before the first message, and whether either is there."""
    for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        try:
            record = json_object(line)
        except UnreadableLine:
            continue
        if record.get("type") == "session":
            return record, True
        message = record.get("message")
        if record.get("type") == "message" and isinstance(message, dict) and "role" in message:
            return None, True
    return None, False


def nameable(text: str) -> str:
    """`text` if it can be a session id, else a stand-in that is the same for the same text."""
    try:
        return checked_name(text, "session id")
    except InvalidRequest:
        return f"file-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
