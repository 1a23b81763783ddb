"""Rewinding and switching: in proportion to the messages that change, whatever the length of the transcript."""

from collections import Counter
from itertools import islice

from corpus import Conversation
from figures import Row
from measuring import Job, Measuring
from sections.writing import store
from stores import Filled
from systems.driver import Driver

_FEW, _MANY = 20, 200
"""Messages that change; both sides of a switch together are still reindexed in its own transaction."""


def branches(measuring: Measuring, filled: Filled, long: Conversation) -> None:
    """Adds the times of rewinds and switches and what they depend on."""
    hundred = _session(measuring, filled, "hundred", 100)
    thousand = _session(measuring, filled, "thousand", 1_000)
    # Switches first: there are two lines as long as nothing else was rewound.
    for turn, kind in ((_switch, "switch"), (_rewind, "rewind")):
        few, far, many = (
            turn(measuring, filled, talk, count) for talk, count in ((hundred, _FEW), (long, _FEW), (thousand, _MANY))
        )
        measuring.steady(f"{kind}: long transcript / short", few, far)
        measuring.steady(f"{kind}: {_MANY} messages / {_FEW}, per message", few, many, per=_MANY / _FEW)


def _session(measuring: Measuring, filled: Filled, name: str, size: int) -> Conversation:
    one = Conversation(f"agent:main:bench:{name}", "main", list(islice(filled.corpus.turns(), size)))
    store(measuring, one)
    return one


def _rewind(measuring: Measuring, filled: Filled, talk: Conversation, count: int) -> Row:
    key, anchor = talk.session_key, talk.messages[-count - 1].message_id
    more = [list(islice(filled.corpus.turns(), count)) for _ in range(measuring.times)]
    given: Counter[str] = Counter()

    def refill(driver: Driver) -> None:
        """What the last rewind took off is put on again, as other messages."""
        driver.append_many(key, more[given[driver.name]])
        given[driver.name] += 1

    able = _able(measuring, lambda d: d.rewind(key, anchor))
    jobs: list[Job] = [lambda d: d.rewind(key, anchor)] * measuring.times
    return measuring.timed(f"rewind {count} messages, in {len(talk.messages):,}", jobs, between=refill, drivers=able)


def _switch(measuring: Measuring, filled: Filled, talk: Conversation, count: int) -> Row:
    key, anchor = talk.session_key, talk.messages[-count - 1].message_id
    other = list(islice(filled.corpus.turns(), count))

    def fork(driver: Driver) -> None:
        driver.rewind(key, anchor)
        driver.append_many(key, other)

    able = _able(measuring, fork)
    lines: dict[str, str] = {}

    def look(driver: Driver) -> None:
        lines[driver.name] = driver.lines(key)[1]

    jobs: list[Job] = [lambda d: d.switch(key, lines[d.name])] * measuring.times
    what = f"switch between lines of {count}, in {len(talk.messages):,}"
    return measuring.timed(what, jobs, between=look, drivers=able)


def _able(measuring: Measuring, job: Job) -> list[Driver]:
    """The systems that offer a job, which is done."""
    offered = measuring.each(job)
    return [driver for driver in measuring.drivers if driver.name in offered]
