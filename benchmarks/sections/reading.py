"""Reading around a message and the newest ones, in a short transcript, a long one, and one with resets and lines."""

from itertools import islice
from typing import NamedTuple

from corpus import Conversation
from figures import Row
from measuring import Job, Measuring
from sections.writing import store
from stores import Filled
from systems.driver import Driver, NotOffered

_STRETCH = 500
"""Messages between two rewinds in the transcript that has some; every fourth is followed by a reset."""
_REWOUND = 10
_PLACES = 400
"""So many places are read around, once each: they hold more texts than a redactor remembers."""


class _Place(NamedTuple):
    """A message in a session."""

    key: str
    message_id: str


def long_transcript(measuring: Measuring, filled: Filled, size: int) -> Conversation:
    """Stores one long session and adds the row of its rate."""
    long = Conversation("agent:main:bench:long", "main", list(islice(filled.corpus.turns(), size)))
    spent = store(measuring, long)
    measuring.rate(f"import, one session of {size:,} in batches of 1,000", size, spent, aim=0.6)
    return long


def reads(measuring: Measuring, filled: Filled, long: Conversation) -> None:
    """Adds the times of reading, and whether they depend on the length of the transcript."""
    size = f"{len(long.messages):,}"
    shorts = [_short(measuring, filled, number) for number in range(_PLACES)]
    places = _spread(long.session_key, [one.message_id for one in long.messages if one.role != "tool"])
    in_short = _around(measuring, "6 messages around one, in 10", shorts, 6)
    in_long = _around(measuring, f"6 messages around one, in {size}", places, 6)
    measuring.steady("around one: long transcript / short", in_short, in_long)
    _around(measuring, f"40 messages around one, in {size}", places, 40)
    resets, able = _with_resets(measuring, filled, len(long.messages))
    in_many = _around(measuring, f"the same, in {size} with resets and lines", resets, 6, able)
    measuring.steady("around one: long with resets and lines / short", in_short, in_many)
    in_short = _newest(measuring, "the newest 6 messages, in 10", shorts[0].key, 6)
    in_long = _newest(measuring, f"the newest 6 messages, in {size}", long.session_key, 6)
    measuring.steady("the newest: long transcript / short", in_short, in_long)
    _newest(measuring, f"the newest 40 messages, in {size}", long.session_key, 40)
    in_many = _newest(measuring, f"the newest 6, in {size} with resets and lines", resets[0].key, 6, able)
    measuring.steady("the newest: long with resets and lines / short", in_short, in_many)


def _short(measuring: Measuring, filled: Filled, number: int) -> _Place:
    """A transcript of ten messages, and one in its middle."""
    one = Conversation(f"agent:main:bench:short:{number}", "main", list(islice(filled.corpus.turns(), 10)))
    store(measuring, one)
    spoken = [said.message_id for said in one.messages if said.role != "tool"]
    return _Place(one.session_key, spoken[len(spoken) // 2])


def _with_resets(measuring: Measuring, filled: Filled, size: int) -> tuple[list[_Place], list[Driver]]:
    """Places in a transcript with resets and rewound lines, and the systems that can have one."""
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
    return _spread(key, path), able


def _spread(key: str, message_ids: list[str]) -> list[_Place]:
    return [_Place(key, message_ids[len(message_ids) * part // _PLACES]) for part in range(1, _PLACES)]


def _around(
    measuring: Measuring, what: str, places: list[_Place], limit: int, drivers: list[Driver] | None = None
) -> Row:
    jobs: list[Job] = [lambda d, at=place: d.around(at.key, at.message_id, limit) for place in places]
    return _read(measuring, what, jobs, 0.25, drivers)


def _newest(measuring: Measuring, what: str, key: str, limit: int, drivers: list[Driver] | None = None) -> Row:
    return _read(measuring, what, [lambda d: d.newest(key, limit)], None, drivers)


def _read(measuring: Measuring, what: str, jobs: list[Job], aim: float | None, drivers: list[Driver] | None) -> Row:
    for job in jobs:
        measuring.must_agree(what, job)
    # Once untimed: what a system looks up once for a session is not what a row is about.
    measuring.each(jobs[0])
    return measuring.timed(what, jobs, aim, drivers=drivers)
