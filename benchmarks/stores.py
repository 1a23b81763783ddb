"""Stores that hold the corpus, one for each system: filled anew, or filled once and kept for the runs that follow."""

import gc
import pickle
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from corpus import Corpus
from measuring import Measuring
from systems.driver import Driver

_SOME = 40


@dataclass
class Filled:
    """What is known of filled stores: the corpus, which goes on from there, and sessions to ask for."""

    corpus: Corpus
    messages: int
    sessions: int = 0
    text_bytes: int = 0
    some: list[str] = field(default_factory=list)
    """Keys of sessions of at least 40 messages."""
    trees: list[str] = field(default_factory=list)
    """Keys of the sessions at the top of trees of about twenty."""
    large_tree: str = ""
    """The key of the session at the top of the largest tree."""


class Stores:
    """The files of each system in a folder."""

    def __init__(self, folder: Path, kinds: Sequence[type[Driver]], synchronous: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._kinds = kinds
        self.synchronous = synchronous
        self.files = {kind.name: folder / f"{kind.name}.db" for kind in kinds}
        self._note = folder / "filled.pickle"

    def open(self) -> list[Driver]:
        """A driver on each file."""
        return [kind(self.files[kind.name], self.synchronous) for kind in self._kinds]

    def kept(self) -> Filled | None:
        """What an earlier run filled the files with, when all of them are there."""
        if not self._note.exists() or not all(file.exists() for file in self.files.values()):
            return None
        return pickle.loads(self._note.read_bytes())

    def keep(self, filled: Filled) -> None:
        """Notes what the files, closed by now, were filled with."""
        for file in self.files.values():
            with closing(sqlite3.connect(file)) as db:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._note.write_bytes(pickle.dumps(filled))

    def forget(self) -> None:
        """Removes the files."""
        self._note.unlink(missing_ok=True)
        for file in self.files.values():
            for suffix in ("", "-wal", "-shm"):
                Path(f"{file}{suffix}").unlink(missing_ok=True)

    def copy_to(self, folder: Path) -> "Stores":
        """The same in another folder, to be changed there."""
        copies = Stores(folder, self._kinds, self.synchronous)
        for name, file in self.files.items():
            shutil.copyfile(file, copies.files[name])
        return copies


def fill(measuring: Measuring, messages: int) -> Filled:
    """Imports the corpus into every system, a session a transaction, and adds the row of its rate."""
    filled = Filled(Corpus(), messages)
    spent = dict.fromkeys((driver.name for driver in measuring.drivers), 0.0)
    parents: dict[str, str] = {}
    # What the benchmark holds itself is no system's garbage: to look through it may fall on any of their calls.
    gc.freeze()
    for number, one in enumerate(filled.corpus.conversations(messages)):
        measuring.each(lambda d, c=one: d.add_session(c))
        for name, took in measuring.each(lambda d, c=one: d.append_many(c.session_key, c.messages)).items():
            spent[name] += took
        filled.sessions += 1
        filled.text_bytes += sum(said.text_bytes for said in one.messages)
        if number % 7 == 0 and len(one.messages) >= 40 and len(filled.some) < _SOME:
            filled.some.append(one.session_key)
        if one.spawned_by is not None:
            parents[one.session_key] = one.spawned_by
    sizes = _tree_sizes(parents)
    filled.large_tree = max(sizes, key=lambda key: sizes[key])
    filled.trees = sorted(sizes, key=lambda key: abs(sizes[key] - 20))[:6]
    measuring.rate("import, a session (about 50 messages) a transaction", messages, spent, aim=0.6)
    return filled


def _tree_sizes(parents: dict[str, str]) -> dict[str, int]:
    """How many sessions lie below each that spawned any."""
    sizes: dict[str, int] = {}
    for key in parents:
        above: str | None = parents[key]
        while above is not None:
            sizes[above] = sizes.get(above, 0) + 1
            above = parents.get(above)
    return sizes
