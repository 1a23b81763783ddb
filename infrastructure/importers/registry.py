"""`sessions.json`: which session key each transcript of a folder belongs to, as OpenClaw keeps it.

The file maps session keys to objects. Read are `sessionId` (the current transcript), `usageFamilySessionIds` (that one
and the earlier ones), `sessionFile`, `chatType`, `displayName`, `label`, `spawnedBy` and `updatedAt`. What is wrong
with the file or with one entry becomes a warning: the transcripts are worth importing without it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath

from backscroll.domain.errors import InvalidRequest
from backscroll.domain.keys import agent_in_key, checked_key, kind_in_key
from backscroll.domain.model import SessionKind
from backscroll.domain.text import MAX_TITLE, storable

NAME = "sessions.json"

_KINDS = {
    "direct": SessionKind.DIRECT,
    "group": SessionKind.GROUP,
    "channel": SessionKind.GROUP,
    "room": SessionKind.GROUP,
    "thread": SessionKind.GROUP,
}


@dataclass(frozen=True, slots=True)
class Entry:
    """What the registry says about one session; `session_id` names its current transcript."""

    session_key: str
    session_id: str
    kind: SessionKind
    title: str | None = None
    spawned_by: str | None = None
    file_name: str | None = None
    earlier: tuple[str, ...] = ()
    updated_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Registry:
    """The registry of one folder; an empty one where there is none (`found` is False) or it cannot be read."""

    found: bool = False
    entries: Mapping[str, Entry] = field(default_factory=dict)
    by_session_id: Mapping[str, Entry] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def read_registry(folder: Path, agent_id: str) -> Registry:
    """The registry in `folder`; never raises.

    A key that names no agent is put under `agent:<agent_id>:`, as the program itself does: such keys are unique in
    their agent's folder only.
    """
    try:
        data = json.loads((folder / NAME).read_bytes().decode("utf-8-sig"), parse_int=float)
    except FileNotFoundError:
        return Registry()
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else type(error).__name__
        return Registry(found=True, warnings=(f"{NAME} cannot be read ({why}): no session keys known",))
    if not isinstance(data, dict):
        return Registry(found=True, warnings=(f"{NAME} holds no JSON object: no session keys known",))
    entries: dict[str, Entry] = {}
    warnings: list[str] = []
    for key, value in data.items():
        try:
            entry = _entry(key, value, agent_id)
        except InvalidRequest as error:
            warnings.append(f"{NAME}: the entry {storable(key)[:80]!r} is left out: {error}")
            continue
        if (known := entries.get(entry.session_key)) is None or known.updated_at < entry.updated_at:
            entries[entry.session_key] = entry
    return Registry(True, entries, _by_session_id(entries, warnings), tuple(warnings))


def _by_session_id(entries: Mapping[str, Entry], warnings: list[str]) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for entry in entries.values():
        other = found.setdefault(entry.session_id, entry)
        if other is not entry:
            warnings.append(f"{NAME}: {other.session_key!r} and {entry.session_key!r} name the same transcript")
    for session_id, owner in ((session_id, entry) for entry in entries.values() for session_id in entry.earlier):
        found.setdefault(session_id, owner)
    return found


def _entry(key: str, value: object, agent_id: str) -> Entry:
    if not isinstance(value, dict):
        raise InvalidRequest("it is no object")
    session_id = value.get("sessionId")
    if not isinstance(session_id, str) or not session_id:
        raise InvalidRequest("it has no sessionId")
    session_key = _full_key(key, agent_id)
    family = value.get("usageFamilySessionIds")
    updated_at = value.get("updatedAt")
    file_name = value.get("sessionFile")
    return Entry(
        session_key,
        session_id,
        _KINDS.get(str(value.get("chatType"))) or kind_in_key(session_key),
        _title(value.get("displayName")) or _title(value.get("label")),
        _spawner(value.get("spawnedBy"), agent_id),
        # Only the name counts: the path is that of the machine which wrote it, Windows included.
        PureWindowsPath(file_name).name if isinstance(file_name, str) else None,
        tuple(other for other in family if isinstance(other, str)) if isinstance(family, list) else (),
        updated_at if isinstance(updated_at, float) else 0.0,
    )


def _full_key(key: str, agent_id: str) -> str:
    key = checked_key(key)
    return key if agent_in_key(key) is not None else checked_key(f"agent:{agent_id}:{key}")


def _spawner(key: object, agent_id: str) -> str | None:
    try:
        return _full_key(key, agent_id) if isinstance(key, str) else None
    except InvalidRequest:
        return None


def _title(value: object) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return None
    return storable(value.strip())[:MAX_TITLE]
