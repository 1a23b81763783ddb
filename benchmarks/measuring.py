"""Taking times: each job is done by one system and at once by the other, so that a busy machine meets all alike."""

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle, islice
from statistics import median, quantiles

from figures import Figure, Row
from systems.driver import Driver, NotOffered

Clock = Callable[[], float]
Job = Callable[[Driver], object]

_LONGEST_ROW = 20.0
"""Seconds after which a row is repeated no more."""


class Measuring:
    """The rows of one section, as they are measured on some systems. A system that does not offer a job has no cell."""

    def __init__(self, drivers: Sequence[Driver], clock: Clock, times: int) -> None:
        self.drivers = list(drivers)
        self.times = times
        self.rows: list[Row] = []
        self._clock = clock

    def seconds(self, job: Callable[[], object]) -> float:
        """How long a job takes."""
        started = self._clock()
        job()
        return self._clock() - started

    def each(self, job: Job) -> dict[str, float]:
        """Does a job once on every system that offers it; the seconds that each took."""
        spent = {}
        for driver in self.drivers:
            try:
                spent[driver.name] = self.seconds(lambda d=driver: job(d))
            except NotOffered:
                continue
        return spent

    def rate(self, what: str, count: int, spent: dict[str, float], aim: float | None = None) -> None:
        """A row of rates: so many in so many seconds."""
        self.rows.append(Row(what, "/s", {name: Figure(count / time) for name, time in spent.items()}, aim))

    def timed(
        self,
        what: str,
        jobs: Sequence[Job],
        aim: float | None = None,
        *,
        most: float | None = None,
        between: Job | None = None,
        drivers: Iterable[Driver] | None = None,
    ) -> Row:
        """A row of times. Jobs that can be repeated are; `between` is what must be done, untimed, before each one."""
        able = list(self.drivers if drivers is None else drivers)
        times: dict[str, list[float]] = {driver.name: [] for driver in able}
        count = max(self.times, len(jobs)) if between is None else len(jobs)
        started = time.perf_counter()
        for done, job in enumerate(islice(cycle(jobs), count)):
            if done >= len(jobs) and time.perf_counter() - started > _LONGEST_ROW:
                break
            for driver in list(able):
                try:
                    if between is not None:
                        between(driver)
                    times[driver.name].append(self.seconds(lambda d=driver, j=job: j(d)) * 1e3)
                except NotOffered:
                    able.remove(driver)
        figures = {driver.name: Figure(median(one := times[driver.name]), p95(one)) for driver in able}
        row = Row(what, "ms", figures, aim, most)
        self.rows.append(row)
        return row

    def by_itself(self, what: str, jobs: Sequence[Job]) -> Row:
        """Times of one system after the other, each doing all the jobs: no other one empties the processor's caches.

        The row is returned alone, to be compared with that of another store.
        """
        figures = {}
        for driver in self.drivers:
            times: list[float] = []
            started = time.perf_counter()
            try:
                for done, job in enumerate(islice(cycle(jobs), max(self.times, len(jobs)))):
                    if done >= len(jobs) and time.perf_counter() - started > _LONGEST_ROW:
                        break
                    times.append(self.seconds(lambda d=driver, j=job: j(d)) * 1e3)
            except NotOffered:
                continue
            figures[driver.name] = Figure(median(times), p95(times))
        return Row(what, "ms", figures)

    def steady(self, what: str, small: Row, large: Row, most: float | None = 1.5, per: float = 1) -> None:
        """A row that compares two: the figures of the large one by those of the small one, by `per`."""
        self.rows.append(compared(what, small, large, most, per))

    def must_agree(self, what: str, job: Callable[[Driver], list[str]]) -> None:
        """Ends the run when systems that answer alike give different answers, or none."""
        answers = [job(driver) for driver in self.drivers if driver.alike]
        if not answers[0] or any(one != answers[0] for one in answers):
            raise SystemExit(f"the systems do not answer the same: {what}")


def compared(what: str, small: Row, large: Row, most: float | None, per: float = 1) -> Row:
    """The figures of one row by those of another."""
    names = [name for name in large.figures if name in small.figures]
    figures = {name: Figure(large.figures[name].value / small.figures[name].value / per) for name in names}
    return Row(what, "", figures, most=most, compared=False)


def p95(times: Sequence[float]) -> float:
    """The 95th percentile."""
    return quantiles(times, n=20, method="inclusive")[-1] if len(times) > 1 else times[0]
