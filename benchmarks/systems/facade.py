"""Backscroll as a driver: every job through its facade."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corpus import Conversation, Said
from systems.driver import Ask

from backscroll import Backscroll, NewMessage, PatternRedactor, Requester, Settings


class BackscrollDriver:
    """Backscroll. Searches have facades of their own on the same file, one for each visibility.

    A search stands for one that finds other texts each time: their facades remember no secrets of texts read before.
    """

    name = "Backscroll"
    alike = True

    def __init__(self, file: Path, synchronous: str) -> None:
        self._settings: dict[str, Any] = {"database_url": f"sqlite:///{file}", "synchronous": synchronous}
        self._scroll = Backscroll.open(Settings(**self._settings))
        self._seeing: dict[str, Backscroll] = {}
        self._requester = Requester("agent:main:bench:reader")

    def add_session(self, one: Conversation) -> None:
        self._scroll.ensure_session(one.session_key, agent_id=one.agent_id, spawned_by=one.spawned_by)

    def append_many(self, key: str, messages: Sequence[Said]) -> None:
        self._scroll.append_many(
            key, [NewMessage(said.role, content(said), said.message_id, None, said.created_at) for said in messages]
        )

    def append(self, key: str, role: str, text: str) -> None:
        self._scroll.append(key, role, text)

    def import_folder(self, folder: Path) -> None:
        report = self._scroll.import_transcripts(folder)
        if report.problems:
            raise SystemExit(f"not imported: {report.problems[0]}")

    def search(self, ask: Ask) -> list[str]:
        visibility, requester = "all", self._requester
        if ask.tree_of is not None:
            visibility, requester = "tree", Requester(ask.tree_of)
        elif ask.own_agent is not None:
            visibility, requester = "agent", Requester(f"agent:{ask.own_agent}:bench:reader")
        page = self._searching(visibility).search(
            ask.words,
            requester=requester,
            session_key=ask.session_key,
            agents=None if ask.agent is None else [ask.agent],
            match="prefix" if ask.prefix else "all",
            order="newest" if ask.newest else "relevance",
        )
        return [hit.message_id for hit in page.hits]

    def _searching(self, visibility: str) -> Backscroll:
        if visibility not in self._seeing:
            settings = Settings(**self._settings, visibility=visibility)
            self._seeing[visibility] = Backscroll.open(settings, redactor=PatternRedactor(remember=0))
        return self._seeing[visibility]

    def around(self, key: str, message_id: str, limit: int) -> list[str]:
        page = self._scroll.history(key, requester=self._requester, message_id=message_id, limit=limit)
        return [one.message_id for one in page.messages]

    def newest(self, key: str, limit: int) -> list[str]:
        return [one.message_id for one in self._scroll.history(key, requester=self._requester, limit=limit).messages]

    def reset(self, key: str) -> None:
        self._scroll.reset(key)

    def rewind(self, key: str, message_id: str) -> None:
        self._scroll.rewind(key, message_id)

    def lines(self, key: str) -> list[str]:
        return [branch.branch_id for branch in self._scroll.branches(key)]

    def switch(self, key: str, line: str) -> None:
        self._scroll.switch_branch(key, line)

    def delete(self, key: str) -> None:
        self._scroll.delete_session(key)

    def close(self) -> None:
        for scroll in (*self._seeing.values(), self._scroll):
            scroll.close()


def content(said: Said) -> str | list[dict[str, Any]]:
    """What a message of the corpus says, as `append` takes it."""
    if said.output:
        return [said.output]
    if said.call:
        return [{"type": "text", "text": said.text}, said.call] if said.text else [said.call]
    return said.text
