"""What the working processes were told is done, and whether the store still has it."""

import json
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from soaking.working import OPERATOR, opened


@dataclass
class Ledger:
    """The journals read together."""

    kept: dict[str, str] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    @classmethod
    def read(cls, folder: Path) -> "Ledger":
        ledger = cls()
        for path in folder.glob("*.journal"):
            last: dict[str, dict[str, int]] = {}
            before = 0
            for line in path.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                if "ids" in entry:
                    ledger.kept.update(dict.fromkeys(entry["ids"], entry["key"]))
                elif "deleted" in entry:
                    ledger.kept = {name: key for name, key in ledger.kept.items() if key != entry["key"]}
                else:
                    # Counts begin again when a killed process was started again.
                    if (now := sum(entry["done"].values())) < before:
                        ledger._add(last)
                    last, before = entry, now
            ledger._add(last)
        return ledger

    def _add(self, entry: dict[str, dict[str, int]]) -> None:
        self.done.update(entry.get("done", {}))
        self.refused.update(entry.get("refused", {}))


def lost_or_stale(path: Path, ledger: Ledger) -> tuple[int, int, int]:
    """Acknowledged messages that are not stored, that search does not find, and that it finds off the active path."""
    with closing(sqlite3.connect(path)) as plain:
        active = dict(plain.execute("SELECT message_id, active FROM backscroll_messages").fetchall())
    lost = [name for name in ledger.kept if name not in active]
    missing = stale = 0
    with opened(path, busy_timeout=60) as scroll:
        for name in ledger.kept:
            hits = {hit.message_id for hit in scroll.search(name, requester=OPERATOR, limit=25).hits}
            missing += bool(active.get(name)) and name not in hits
            stale += name in hits and not active.get(name)
    return len(lost), missing, stale
