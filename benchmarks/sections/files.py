"""A file for each agent: what a search costs that one file answers, and one that all of them must."""

from dataclasses import replace
from pathlib import Path

from corpus import Corpus
from measuring import Job, Measuring
from systems.driver import Ask, Driver
from systems.facade import BackscrollDriver

FEW, MANY = 30, 300
"""Agents. The files of the few are all kept open, of the many only the last 32."""
_MESSAGES = 300
"""What each agent has stored."""


def agents_files(measuring: Measuring, folder: Path, synchronous: str) -> None:
    """Adds the times of searches in stores with a file for each of few and of many agents. No other system has such."""
    rows = []
    for agents in (FEW, MANY):
        corpus = Corpus(4)
        driver = BackscrollDriver(folder / str(agents) / "{agent_id}.db", synchronous)
        measuring.drivers = [driver]
        own = _fill(driver, corpus, agents)
        words = corpus.words_in(10, 6)
        measuring.timed(f"search: a rare word in one of {agents} files", _searches(words, own))
        measuring.timed(f"search: a rare word in all of {agents} files", _searches(words))
        rows.append(measuring.rows[-1])
        driver.close()
    measuring.steady(f"in all of {MANY} files / {FEW}, per file", *rows, most=None, per=MANY / FEW)


def _fill(driver: Driver, corpus: Corpus, agents: int) -> str:
    """Stores each agent's messages; one of the agents."""
    agent = ""
    for number in range(agents):
        agent = f"agent-{number}"
        one = replace(corpus.conversation(_MESSAGES), session_key=f"agent:{agent}:main", agent_id=agent)
        driver.add_session(one)
        driver.append_many(one.session_key, one.messages)
    return agent


def _searches(words: list[str], own_agent: str | None = None) -> list[Job]:
    return [lambda d, w=word: d.search(Ask(w, own_agent=own_agent)) for word in words]
