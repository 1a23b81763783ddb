"""The processes that work at random on a store, and what they note of it."""

import json
import logging
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from backscroll import Backscroll, BackscrollError, NewMessage, Requester, Settings, StoreUnavailable

OPERATOR = Requester.operator()
SESSIONS = 6
"""Sessions of each process, beside one that all share."""
SHARED = "agent:soak:shared"
# What the library says of locks and damage, which are what this is about.
logging.getLogger("backscroll").addHandler(logging.NullHandler())


def opened(path: Path, *, busy_timeout: float) -> Backscroll:
    """The store as a host opens it, with limits low enough that both ways of following a rewind happen."""
    return Backscroll.open(
        Settings(database_url=f"sqlite:///{path}", busy_timeout=busy_timeout, inline_reindex_limit=30)
    )


class Journal:
    """What a process was told is done, a line each: survives the process's end, not the machine's."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def note(self, **what: object) -> None:
        self._file.write(json.dumps(what) + "\n")
        self._file.flush()


def work(path: Path, name: str, seed: str) -> None:
    """Random work on sessions of this process's own and on the shared one, until a file named `stop` appears."""
    chance = random.Random(seed)
    journal = Journal(path.parent / f"{name}.journal")
    keys = [f"agent:{name}:{number}" for number in range(SESSIONS)]
    counter = 0

    def said() -> tuple[str, str]:
        nonlocal counter
        counter += 1
        message_id = f"{name}x{seed.replace('.', 'x')}x{counter}"
        return message_id, f"{message_id} granite {chance.choice(_FOLDED)} " + " ".join(
            chance.choices(_FILLING, k=chance.randrange(20))
        )

    def append(scroll: Backscroll, key: str) -> None:
        message_id, text = said()
        scroll.append(key, chance.choice(("user", "assistant")), text, message_id=message_id)
        journal.note(key=key, ids=[message_id])

    def append_many(scroll: Backscroll, key: str) -> None:
        messages = [said() for _ in range(chance.randrange(2, 40))]
        scroll.append_many(key, [NewMessage("user", text, message_id) for message_id, text in messages])
        journal.note(key=key, ids=[message_id for message_id, _ in messages])

    def edit(scroll: Backscroll, key: str) -> None:
        page = scroll.history(key, requester=OPERATOR, limit=5)
        for message in page.messages[:1]:
            scroll.edit(
                key,
                message.message_id,
                f"{message.message_id} edited{chance.randrange(1_000)} {chance.choice(_FOLDED)}",
            )

    def rewind(scroll: Backscroll, key: str) -> None:
        page = scroll.history(key, requester=OPERATOR, limit=chance.choice((3, 60)))
        if page.messages and page.total > 3:
            scroll.rewind(key, page.messages[0].message_id)
            append(scroll, key)

    def switch(scroll: Backscroll, key: str) -> None:
        scroll.switch_branch(key, chance.choice(scroll.branches(key)).branch_id)

    def reset(scroll: Backscroll, key: str) -> None:
        rotate = chance.random() < 0.3
        scroll.reset(key, rotate=rotate, keep=None if rotate else chance.randrange(4))

    def delete(scroll: Backscroll, key: str) -> None:
        if key != SHARED:
            # Noted before: if the process dies in the call, both outcomes are right.
            journal.note(key=key, deleted=True)
            scroll.delete_session(key)
            scroll.ensure_session(key)

    def search(scroll: Backscroll, _: str) -> None:
        scroll.search(chance.choice(("granite", "备份", "lodz", "edited7 granite")), requester=OPERATOR, match="any")

    def read(scroll: Backscroll, key: str) -> None:
        scroll.history(key, requester=OPERATOR, limit=chance.randrange(1, 100))

    def reindex(scroll: Backscroll, _: str) -> None:
        scroll.reindex()

    jobs = [append, append_many, edit, rewind, switch, reset, delete, search, read, reindex]
    weights = [30, 4, 8, 4, 4, 2, 0.4, 20, 20, 0.5]
    done: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    with opened(path, busy_timeout=2) as scroll:
        for key in (SHARED, *keys):
            _insist(lambda key=key: scroll.ensure_session(key))
        while not (path.parent / "stop").exists():
            (job,) = chance.choices(jobs, weights)
            key = SHARED if chance.random() < 0.2 else chance.choice(keys)
            try:
                job(scroll, key)
                done[job.__name__] += 1
            except StoreUnavailable:
                refused["locked or damaged"] += 1
            except BackscrollError as error:
                refused[type(error).__name__] += 1
                if type(error).__name__ == "SessionNotFound":
                    _insist(lambda key=key: scroll.ensure_session(key))
            if sum(done.values()) % 50 == 0:
                journal.note(done=done, refused=refused)
        journal.note(done=done, refused=refused)


_FOLDED = ("备份", "Łódź")
"""Words for which the index holds a copy of the text, and the text spelled out."""
_FILLING = ("ferry", "naxos", "lease", "blue", "house", "ends", "in", "may", "Straße", "smørrebrød")


def _insist(call: Callable[[], object]) -> None:
    for _ in range(100):
        try:
            call()
        except StoreUnavailable:
            time.sleep(0.1)
        else:
            return
