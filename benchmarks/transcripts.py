"""Conversations of the corpus as OpenClaw's JSONL transcripts: written for the importers, and read by hand."""

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from corpus import Conversation, Said

Line = dict[str, Any]
"""A message's record in a transcript."""


def write_transcripts(folder: Path, conversations: Iterable[Conversation]) -> None:
    """Writes `agents/<agent>/sessions/<id>.jsonl` for each, and the `sessions.json` that give their keys."""
    registries: dict[Path, dict[str, dict[str, object]]] = {}
    for number, one in enumerate(conversations, 1):
        sessions = folder / "agents" / one.agent_id / "sessions"
        sessions.mkdir(parents=True, exist_ok=True)
        session_id = f"{number:08x}-0000-4000-8000-000000000000"
        entry = {"sessionId": session_id, "updatedAt": int(one.messages[-1].created_at.timestamp() * 1_000)}
        if one.spawned_by is not None:
            entry["spawnedBy"] = one.spawned_by
        registries.setdefault(sessions, {})[one.session_key] = entry
        with (sessions / f"{session_id}.jsonl").open("w", encoding="utf-8") as file:
            started = one.messages[0].created_at.isoformat()
            header = {"type": "session", "version": 3, "id": session_id, "timestamp": started, "cwd": "/srv"}
            file.write(json.dumps(header, ensure_ascii=False) + "\n")
            parent = None
            for said in one.messages:
                file.write(json.dumps(_record(said, parent), ensure_ascii=False) + "\n")
                parent = said.message_id
    for sessions, registry in registries.items():
        (sessions / "sessions.json").write_text(json.dumps(registry), encoding="utf-8")


def _record(said: Said, parent: str | None) -> Line:
    message: Line = {"role": said.role, "content": [{"type": "text", "text": said.text}] if said.text else []}
    if said.call is not None:
        arguments = json.loads(said.call["arguments"])
        call = {"type": "toolCall", "id": said.call["call_id"], "name": said.call["name"], "arguments": arguments}
        message["content"].append(call)
    if said.output is not None:
        message = {"role": "toolResult", "toolCallId": said.output["call_id"], "toolName": "read_file"}
        message |= {"content": [{"type": "text", "text": said.output["text"]}], "isError": False}
    at = said.created_at.isoformat()
    return {"type": "message", "id": said.message_id, "parentId": parent, "timestamp": at, "message": message}


def folders(folder: Path) -> list[Path]:
    """The folders of sessions below one that was written here, an agent each."""
    return sorted(folder.glob("agents/*/sessions"))


def lines_of(file: Path, size: int) -> Iterator[list[Line]]:
    """The messages of a transcript, so many at a time."""
    with file.open(encoding="utf-8") as handle:
        lines = (line for line in map(json.loads, handle) if line["type"] == "message")
        while batch := list(islice(lines, size)):
            yield batch
