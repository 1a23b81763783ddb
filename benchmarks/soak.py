"""A store under several processes and injected faults, checked after each; how fast an old store gets its index.

    python benchmarks/soak.py [--minutes 3] [--seed 1] [--processes 3]
    python benchmarks/soak.py --reindex 200000

The first does random work in several processes and, beside them, kills some, holds locks, writes round the library and
damages the index. After each fault it verifies and, where something disagrees, repairs. In the end every message that
a call acknowledged must be stored, and be found by search if it is on its active path, and not if it is not.
"""

import argparse
import os
import platform
import sqlite3
import sys
import tempfile
import threading
import time
from pathlib import Path

from soaking.faults import Injector
from soaking.ledger import Ledger, lost_or_stale
from soaking.reindexing import reindexing
from soaking.working import opened


def soak(minutes: float, seed: int, processes: int) -> bool:
    """Runs and prints; whether all was well."""
    with tempfile.TemporaryDirectory(prefix="backscroll-soak-") as folder:
        path = Path(folder) / "store.db"
        opened(path, busy_timeout=60).close()
        injector = Injector(path, seed, processes)
        end = time.monotonic() + minutes * 60
        while time.monotonic() < end:
            injector.fault()
        injector.end()
        with opened(path, busy_timeout=60) as scroll:
            scroll.reindex()
            last = scroll.verify()
        ledger = Ledger.read(Path(folder))
        lost, missing, stale = lost_or_stale(path, ledger)
    findings = injector.findings
    print(f"operations                    {sum(ledger.done.values()):>9,}   {dict(ledger.done.most_common())}")
    print(f"  refused                     {sum(ledger.refused.values()):>9,}   {dict(ledger.refused.most_common())}")
    print(f"faults injected               {sum(findings.faults.values()):>9,}   {dict(findings.faults.most_common())}")
    print(f"checks                        {findings.checks:>9,}")
    print(f"  disagreements found         {sum(findings.found.values()):>9,}   {dict(findings.found.most_common())}")
    print(f"  faults not told rightly     {len(findings.missed):>9,}   {findings.missed[:5]}")
    print(f"  disagreements after repair  {len(findings.unrepaired):>9,}   {findings.unrepaired[:5]}")
    print(f"messages in the end           {last.messages:>9,}   verified: {last.ok}, pending: {last.pending}")
    print(f"messages acknowledged         {len(ledger.kept):>9,}   (without those of deleted sessions)")
    print(f"  lost                        {lost:>9,}")
    print(f"  on their path, not found    {missing:>9,}")
    print(f"  off their path, found       {stale:>9,}")
    return last.ok and not (findings.missed or findings.unrepaired or lost or missing or stale)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--reindex", type=int, metavar="MESSAGES", help="measure reindexing instead")
    parser.add_argument("--quiet", action="store_true", help="with --reindex: nothing beside it")
    asked = parser.parse_args()
    print(
        f"{platform.system()}, {os.cpu_count()} cores, Python {platform.python_version()},"
        f" SQLite {sqlite3.sqlite_version}, {threading.active_count()} thread"
    )
    if asked.reindex:
        return 0 if reindexing(asked.reindex, asked.quiet) else 1
    return 0 if soak(asked.minutes, asked.seed, asked.processes) else 1


if __name__ == "__main__":
    sys.exit(main())
