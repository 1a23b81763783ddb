"""What the crash tests kill: a process that does one job on a store and tells what was acknowledged."""

import os
import signal
import sqlite3
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import event

from backscroll import Backscroll
from tests.factories import opened

Ack = Callable[[object], None]
KEY = "agent:main:worked-on"
DOOMED = [f"agent:main:doomed{number}" for number in range(4)]
STEPS = 10
"""SQLite's own instructions between two points at which a job can end itself."""


def work(job: str, path: Path, end_at: int, pipe: Connection) -> None:
    """Does a job and kills itself at the point `end_at` (0: nowhere); what it sends first is the number of the call.

    Sent are `("begun", 0)`, `("done", what)` after each call of the facade that returned, and `("ended", points)`.
    """
    points = 0

    def point() -> int:
        nonlocal points
        points += 1
        if points == end_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0

    @event.listens_for(sa.Engine, "connect")
    def _watch(connection: sqlite3.Connection, record: object) -> None:
        connection.set_progress_handler(point, STEPS)

    pipe.send(("begun", 0))
    JOBS[job](path, lambda what: pipe.send(("done", what)))
    pipe.send(("ended", points))
    time.sleep(60)  # Until it is killed.


def scroll_for(path: Path) -> Backscroll:
    """The store with settings under which longer rewinds leave the transcript pending."""
    return opened(path, inline_reindex_limit=20)


def append(path: Path, ack: Ack) -> None:
    with scroll_for(path) as scroll:
        for number in range(40):
            scroll.append(KEY, "user", f"appended{number} said 备份{number}", message_id=f"new{number}")
            ack(number)


def append_many(path: Path, ack: Ack) -> None:
    with scroll_for(path) as scroll:
        for batch in range(12):
            scroll.append_many(
                KEY,
                [
                    {"role": "user", "content": f"appended{batch} place{place}", "message_id": f"new{batch}.{place}"}
                    for place in range(25)
                ],
            )
            ack(batch)


def edit(path: Path, ack: Ack) -> None:
    with scroll_for(path) as scroll:
        for number in range(1, 40):
            scroll.edit(KEY, "m5", f"version{number} 版本{number}")
            ack(number)


def rewind(path: Path, ack: Ack) -> None:
    with scroll_for(path) as scroll:
        first = scroll.branches(KEY)[0].branch_id
        for number in range(14):
            # Near the end the index follows at once, far from it the transcript becomes pending.
            scroll.rewind(KEY, "m10" if number % 2 else "m55")
            scroll.append(KEY, "assistant", f"branched{number}", message_id=f"new{number}")
            ack(("appended", number))
            scroll.switch_branch(KEY, first)
            ack(("switched", number))


def reset(path: Path, ack: Ack) -> None:
    with scroll_for(path) as scroll:
        for number in range(20):
            rotate = number % 3 == 2
            scroll.reset(KEY, keep=None if rotate else 2, rotate=rotate)
            scroll.append(KEY, "user", f"appended{number}", message_id=f"new{number}")
            ack(number)


def delete(path: Path, ack: Ack) -> None:
    with scroll_for(path) as scroll:
        for number, key in enumerate(DOOMED):
            scroll.delete_session(key)
            ack(number)


def migrate(path: Path, ack: Ack) -> None:
    """On a store from before the index, or on none at all."""
    with scroll_for(path) as scroll:
        scroll.ensure_session(KEY, title="named")
        ack("named")


def reindex(path: Path, ack: Ack) -> None:
    with scroll_for(path) as scroll:
        scroll.reindex(progress=lambda done, total: ack(done))


def repair(path: Path, ack: Ack) -> None:
    with scroll_for(path) as scroll:
        ack(scroll.repair().ok)


def maintain(path: Path, ack: Ack) -> None:
    with scroll_for(path) as scroll:
        scroll.delete_session(DOOMED[0])
        ack("deleted")
        scroll.maintain(vacuum=True)
        ack("maintained")


def import_folder(path: Path, ack: Ack) -> None:
    with scroll_for(path) as scroll:
        ack(scroll.import_transcripts(path.parent / "transcripts").messages)


JOBS = {
    "append": append,
    "append_many": append_many,
    "edit": edit,
    "rewind": rewind,
    "reset": reset,
    "delete": delete,
    "migrate": migrate,
    "create": migrate,
    "reindex": reindex,
    "repair": repair,
    "maintain": maintain,
    "import": import_folder,
}
