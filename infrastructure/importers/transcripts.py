"""Puts the transcript files of a folder together: which session each belongs to, and which one is the current one.

The session key is the one that `sessions.json` gives for the session id, also for an earlier transcript that it lists.
A transcript it does not name gets `agent:<agent>:recovered:<id>`, one of pi `agent:<agent>:pi:<id>`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from backscroll.domain.errors import ImportFailed
from backscroll.domain.keys import agent_for, agent_in_key, checked_key, kind_in_key
from backscroll.domain.records import TranscriptFile
from backscroll.domain.text import checked_name, storable
from backscroll.infrastructure.importers.discovery import Found, find_relatives, find_transcripts, nameable
from backscroll.infrastructure.importers.registry import Entry, Registry, read_registry
from backscroll.infrastructure.importers.times import moment

_NO_AGENT = "main"


@dataclass(frozen=True, slots=True)
class _Placed:
    """A file with the registry's entry for it, if any, and the ids and keys decided so far."""

    found: Found
    entry: Entry | None
    session_id: str
    session_key: str
    agent_id: str
    warnings: tuple[str, ...]

    @property
    def is_current(self) -> bool:
        """Whether this is the file of the transcript that the registry calls current."""
        live = self.found.archived is None
        return live and self.entry is not None and self.entry.session_id in (self.session_id, self.found.named_id)

    @property
    def rank(self) -> tuple[bool, bool, str, str]:
        """What comes later ranks higher: archives by time, then live files, then the registry's current transcript."""
        return self.is_current, self.found.archived is None, self.found.archived or "", self.found.name


def transcripts_in(path: Path, agent_id: str | None, *, all_of_pi: bool) -> list[TranscriptFile]:
    """Every transcript in a file or folder, the earlier ones of a session before its current one.

    Raises `ImportFailed` when the path cannot be read or holds none, `InvalidRequest` for an impossible agent id.
    What could not be looked at, and what is wrong with a registry, is a warning of the first file there alone: a
    thousand repetitions would drown the others.
    """
    if agent_id is not None:
        agent_for(f"agent:{agent_id}:main", checked_name(agent_id, "agent_id"))
    finds, problems = find_transcripts(path)
    if not finds:
        raise ImportFailed("; ".join([f"no transcript of OpenClaw or pi found in {storable(str(path))}", *problems]))
    if len(finds) == 1 and finds[0].path == path and finds[0].archived is not None:
        # Its id and place depend on what lies beside it, and must not depend on how the caller names it.
        finds = find_relatives(finds[0]) or finds
    registries: dict[Path, Registry] = {}
    placed: list[_Placed] = []
    for found in finds:
        folder = found.path.parent
        agent = agent_id or _agent_of(folder)
        if folder not in registries:
            registries[folder] = read_registry(folder, agent)
        placed.append(_place(found, registries[folder], agent, of_pi=all_of_pi or found.of_pi))
    files: list[TranscriptFile] = []
    whole = path.is_dir()
    for item, current in _in_order(_with_own_ids(placed, list(registries.values()))):
        if whole or item.found.path == path:
            general = () if files else tuple(problems)
            registry = registries.pop(item.found.path.parent, Registry())
            files.append(_file(item, current, (*general, *registry.warnings, *item.warnings)))
    return files


def _place(found: Found, registry: Registry, agent: str, *, of_pi: bool) -> _Placed:
    session_id = found.session_id
    entry = registry.by_session_id.get(session_id) or registry.by_session_id.get(found.named_id)
    warnings: tuple[str, ...] = ()
    if found.header is None or found.header.get("id") != session_id:
        warnings = (f"{found.name}: no session id in its header; {session_id!r} is taken from its name",)
    elif not _agree(found, entry):
        warnings = (f"{found.name}: its header gives it another session id, {session_id!r}, which is used",)
    if entry is not None:
        key = entry.session_key
    else:
        key = checked_key(f"agent:{agent}:{'pi' if of_pi else 'recovered'}:{session_id}")
    return _Placed(found, entry, session_id, key, agent_in_key(key) or agent, warnings)


def _agree(found: Found, entry: Entry | None) -> bool:
    """Whether the file's name fits the id in its header."""
    if found.session_id == found.named_id or found.named_id.startswith(f"{found.session_id}-topic-"):
        return True
    return entry is not None and entry.session_id == found.session_id and entry.file_name == found.path.name


def _with_own_ids(placed: Iterable[_Placed], registries: Iterable[Registry]) -> Iterator[_Placed]:
    """The same files, where an archive whose id is that of another transcript gets an id of its own.

    The other one is a live file, the registry's current transcript or an older archive: what an archive is called does
    not change when later ones join it.
    """
    placed = sorted(placed, key=lambda item: item.rank)
    taken = {entry.session_id for registry in registries for entry in registry.entries.values()}
    taken |= {item.session_id for item in placed if item.found.archived is None}
    for item in placed:
        if item.found.archived is None:
            yield item
            continue
        session_id = item.session_id
        if session_id in taken:
            session_id = nameable(f"{session_id}.reset.{item.found.archived}")
        taken.add(session_id)
        yield replace(item, session_id=session_id)


def _in_order(placed: Iterable[_Placed]) -> Iterator[tuple[_Placed, bool]]:
    """The files in the order to import them, each with whether it is its session's current transcript.

    Sessions come in the order of their files' names, each with its transcripts in a row, the current one last.
    """
    by_key: dict[str, list[_Placed]] = {}
    for item in sorted(placed, key=lambda item: item.found.name):
        by_key.setdefault(item.session_key, []).append(item)
    for items in by_key.values():
        items.sort(key=lambda item: item.rank)
        last = items[-1]
        # Where the registry's current transcript has no file here, none of these takes its place.
        has_current = last.entry is None or last.is_current
        for item in items:
            yield item, has_current and item.session_id == last.session_id


def _file(item: _Placed, current: bool, warnings: tuple[str, ...]) -> TranscriptFile:
    header, entry = item.found.header or {}, item.entry
    return TranscriptFile(
        name=item.found.name,
        size=item.found.size,
        session_id=item.session_id,
        session_key=item.session_key,
        agent_id=item.agent_id,
        current=current,
        started_at=moment(header.get("timestamp")),
        title=entry.title if entry else None,
        kind=entry.kind if entry else kind_in_key(item.session_key),
        spawned_by=entry.spawned_by if entry else None,
        metadata={
            name: storable(value)
            for name, value in (("forked_from", header.get("parentSession")), ("cwd", header.get("cwd")))
            if isinstance(value, str) and value
        },
        warnings=warnings,
    )


def _agent_of(folder: Path) -> str:
    """The agent of a folder `agents/<agent>/sessions` that the folder is or lies in, else `main`."""
    parts = folder.absolute().parts
    for before, name, after in reversed(list(zip(parts, parts[1:], parts[2:], strict=False))):
        if before == "agents" and after == "sessions" and agent_in_key(f"agent:{name}:main") == name:
            return nameable(name)
    return _NO_AGENT
