"""Reading around a message and the newest ones, in a short transcript, a long one, and one with resets and lines."""

from itertools import islice

from corpus import Conversation
from figures import Row
from measuring import Job, Measuring
from sections.writing import store
from stores import Filled
from systems.driver import Driver, NotOffered

_STRETCH = 500
"""Messages between two rewinds in the transcript that has some; every fourth is followed by a reset."""
_REWOUND = 10


def long_transcript(measuring: Measuring, filled: Filled, size: int) -> Conversation:
    """Stores one long session and adds the row of its rate."""
    long = Conversation("agent:main:bench:long", "main", list(islice(filled.corpus.turns(), size)))
    spent = store(measuring, long)
    measuring.rate(f"import, one session of {size:,} in batches of 1,000", size, spent, aim=0.6)
    return long


def reads(measuring: Measuring, filled: Filled, long: Conversation) -> None:
    """Adds the times of reading, and whether they depend on the length of the transcript."""
    size = f"{len(long.messages):,}"
    short = Conversation("agent:main:bench:short", "main", list(islice(filled.corpus.turns(), 10)))
    store(measuring, short)
    few, many = ([one.message_id for one in talk.messages if one.role != "tool"] for talk in (short, long))
    some = [many[len(many) * part // 40] for part in range(1, 40)]
    in_short = _read(measuring, "6 messages around one, in 10", short.session_key, [few[len(few) // 2]], 6, 0.25)
    in_long = _read(measuring, f"6 messages around one, in {size}", long.session_key, some, 6, 0.25)
    measuring.steady("around one: long transcript / short", in_short, in_long)
    _read(measuring, f"40 messages around one, in {size}", long.session_key, some, 40, 0.25)
    key, anchors, able = _with_resets(measuring, filled, len(long.messages))
    in_many = _read(measuring, f"the same, in {size} with resets and lines", key, anchors, 6, 0.25, able)
    measuring.steady("around one: long with resets and lines / short", in_short, in_many)
    in_short = _read(measuring, "the newest 6 messages, in 10", short.session_key, None, 6)
    in_long = _read(measuring, f"the newest 6 messages, in {size}", long.session_key, None, 6)
    measuring.steady("the newest: long transcript / short", in_short, in_long)
    _read(measuring, f"the newest 40 messages, in {size}", long.session_key, None, 40)
    in_many = _read(measuring, f"the newest 6, in {size} with resets and lines", key, None, 6, None, able)
    measuring.steady("the newest: long with resets and lines / short", in_short, in_many)


def _with_resets(measuring: Measuring, filled: Filled, size: int) -> tuple[str, list[str], list[Driver]]:
    """A transcript with resets and rewound lines: its key, messages on its path, and the systems that can have it."""
    one = Conversation("agent:main:bench:resets", "main", [])
    key, path = one.session_key, []
    able = list(measuring.drivers)
    measuring.each(lambda d: d.add_session(one))
    for start in range(0, size, _STRETCH):
        batch = list(islice(filled.corpus.turns(), _STRETCH))
        rest = batch[:-_REWOUND]
        path += [said.message_id for said in rest if said.role != "tool"]
        for driver in list(able):
            try:
                driver.append_many(key, batch)
                driver.rewind(key, rest[-1].message_id)
                if start // _STRETCH % 4 == 3 and start + _STRETCH < size:
                    driver.reset(key)
            except NotOffered:
                able.remove(driver)
    return key, [path[len(path) * part // 40] for part in range(1, 40)], able


def _read(
    measuring: Measuring,
    what: str,
    key: str,
    anchors: list[str] | None,
    limit: int,
    aim: float | None = None,
    drivers: list[Driver] | None = None,
) -> Row:
    jobs: list[Job] = [lambda d: d.newest(key, limit)]
    if anchors is not None:
        jobs = [lambda d, a=anchor: d.around(key, a, limit) for anchor in anchors]
    for job in jobs:
        measuring.must_agree(what, job)
    # Once untimed: what a system looks up once for a session is not what a row is about.
    measuring.each(jobs[0])
    return measuring.timed(what, jobs, aim, drivers=drivers)
