"""Writes the store of a released schema: `python -m tests.migrations.stores.make`, once for each new revision.

The same conversations in every file, with the shapes that a migration could lose: branches, resets, a rotated
transcript, spawned and incognito sessions, tool calls, edits, metadata, transcripts that wait for their index. Ids and
times are counted, so that two files made by one release hold the same rows. A file that is there is never written
again: it stands for the stores of its time.
"""

import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path

import sqlalchemy as sa

from backscroll import NewMessage, NoRedactor, Settings
from backscroll.infrastructure import migrate
from backscroll.infrastructure.engine import begun, create_engine
from backscroll.infrastructure.store import EngineStore
from backscroll.services.facade import Facade
from tests.factories import EPOCH, OPTIONS

FOLDER = Path(__file__).parent
TRIP = "agent:main:main"


def facade(engine: sa.Engine) -> Facade:
    """A facade whose ids and times are counted; a change of more than two messages leaves a transcript pending."""
    ids, seconds = count(1), count(1)
    options = replace(
        OPTIONS,
        inline_reindex_limit=2,
        new_id=lambda: f"id-{next(ids):03}",
        clock=lambda: EPOCH + timedelta(seconds=next(seconds)),
    )
    settings = Settings()
    return Facade(
        EngineStore(engine, options),
        policy=settings.policy(),
        redactor=NoRedactor(),
        limits=settings.limits(),
        readers=(),
        clock=options.clock,
        new_id=options.new_id,
        on_pending=lambda: None,
    )


def said(message_id: str, role: str, content: object, **more: object) -> NewMessage:
    return NewMessage(role, content, message_id=message_id, **more)  # type: ignore[arg-type]


def converse(scroll: Facade) -> None:
    """The conversations."""
    scroll.ensure_session(TRIP, title="Trip to Naxos", metadata={"channel": "web", "标签": ["旅行", 7]})
    scroll.append_many(
        TRIP,
        [
            said("trip-1", "user", "Book the ferry to Naxos", metadata={"client": "phone"}),
            said(
                "trip-2", "assistant", [{"type": "reasoning", "text": "timetable"}, {"type": "text", "text": "Which?"}]
            ),
            said("trip-3", "user", "the slow one, 后天上午的船"),
            said("trip-4", "assistant", [{"type": "tool_call", "name": "book", "arguments": {"port": "Piraeus"}}]),
            said("trip-5", "tool", [{"type": "tool_result", "text": "confirmed sodium", "call_id": "c1"}]),
            said("trip-6", "assistant", "Booked: 07:30 from Piraeus"),
        ],
    )
    scroll.edit(TRIP, "trip-6", [{"type": "text", "text": "Booked: 07:30"}, {"type": "text", "text": "from Rafina"}])
    # A line left behind within the limit, and one that is switched back to.
    scroll.rewind(TRIP, "trip-5")
    scroll.append(TRIP, "user", "İstanbul instead, by Straße", message_id="trip-6b")
    first = next(one for one in scroll.branches(TRIP) if not one.active)
    scroll.switch_branch(TRIP, first.branch_id)
    scroll.reset(TRIP, reason="idle", keep=1)
    scroll.append(TRIP, "user", "granite paperweights as presents", message_id="trip-7")
    scroll.reset(TRIP, reason="manual")
    scroll.append(TRIP, "user", [{"type": "attachment", "media_type": "image/png", "name": "map"}], message_id="trip-8")
    scroll.append(TRIP, "assistant", "a map of the harbour", message_id="trip-9")
    scroll.reset(TRIP, reason="daily", rotate=True, new_session_id="trip-second-run")
    scroll.append(TRIP, "system", "You plan trips", message_id="next-1")
    scroll.append(TRIP, "user", "weather in Naxos tomorrow", message_id="next-2")

    scroll.ensure_session("agent:main:subagent:packing", spawned_by=TRIP, owner=TRIP, title="Packing")
    scroll.append("agent:main:subagent:packing", "user", "list the luggage: 雨衣和雨伞", message_id="pack-1")

    scroll.ensure_session("agent:main:private", incognito=True)
    scroll.append("agent:main:private", "user", "heliotrope is a secret", message_id="private-1")

    scroll.ensure_session("agent:ops:cron:nightly", spawned_by="agent:ops:gone", metadata={})
    scroll.append("agent:ops:cron:nightly", "assistant", "nightly granite report", message_id="nightly-1")
    scroll.ensure_session("agent:ops:empty", title="Nothing said yet")

    # More than the limit leaves the path: these wait for their index.
    scroll.ensure_session("agent:main:long", kind="group")
    scroll.append_many("agent:main:long", [said(f"long-{n}", "user", f"limestone number{n}") for n in range(1, 8)])
    scroll.rewind("agent:main:long", "long-3")
    # Deleted again: its keys are used up and must never come back.
    scroll.ensure_session("agent:zoo:gone")
    scroll.append("agent:zoo:gone", "user", "forgotten ocelot", message_id="gone-1")
    scroll.delete_session("agent:zoo:gone")


def make(path: Path, revision: str = migrate.HEAD) -> None:
    """A store at `path`: written by this release and, for an earlier revision, taken back to it."""
    engine = create_engine(f"sqlite:///{path}", busy_timeout=5, synchronous="NORMAL")
    with begun(engine, writing=True) as connection:
        migrate.upgrade(connection)
        connection.commit()
    converse(facade(engine))
    with begun(engine, writing=True) as connection:
        migrate.downgrade(connection, revision)
        connection.commit()
    engine.dispose()
    with closing(sqlite3.connect(path, isolation_level=None)) as target:
        target.execute("PRAGMA journal_mode = DELETE")
        target.execute("PRAGMA page_size = 1024")
        target.execute("VACUUM")


if __name__ == "__main__":
    wanted = sys.argv[1] if len(sys.argv) > 1 else migrate.HEAD
    file = FOLDER / f"{wanted[:4]}.sqlite"
    if file.exists():
        sys.exit(f"{file} is there already, and stays as it is")
    make(file, wanted)
    sys.stdout.write(f"{file}: {file.stat().st_size:,} bytes\n")
