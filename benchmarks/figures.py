"""The figures of a benchmark and the table that shows them."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """What one system did in one row: a time (with its 95th percentile), a rate or a size."""

    value: float
    p95: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `unit` tells what is better: of "/s" and "x" more, of all else less.

    `figures` holds those of the systems that do the job; the others' cells stay empty.
    """

    what: str
    unit: str
    figures: dict[str, Figure]
    aim: float | None = None
    """The least ratio to plain SQLite that meets the aim."""
    most: float | None = None
    """The largest value of the measured system that meets the aim, where the aim is no ratio."""
    least: float | None = None
    """The same, where more is better."""
    compared: bool = True
    """Whether a ratio between the systems says anything."""

    def ratio(self, own: str, name: str) -> float | None:
        """How many times better `own` is: 2 is twice as fast or half as large, 0.5 the reverse; None if unknown."""
        if own not in self.figures or name not in self.figures or not self.compared:
            return None
        one, other = self.figures[own].value, self.figures[name].value
        above, below = (one, other) if self.unit == "/s" else (other, one)
        return above / below if below else None

    def verdict(self, own: str, plain: str) -> tuple[str, str]:
        """The aim and whether it is met."""
        if own not in self.figures:
            return "", ""
        value = self.figures[own].value
        if self.most is not None:
            return f"≤ {_number(self.most)}{self._unit}", _met(value <= self.most)
        if self.least is not None:
            return f"≥ {_number(self.least)}{self._unit}", _met(value >= self.least)
        if self.aim is not None and (ratio := self.ratio(own, plain)) is not None:
            return f"≥ {self.aim:g}x", _met(ratio >= self.aim)
        return "", ""

    def cell(self, name: str) -> str:
        """One system's figure as it is printed; nothing for one that does not do the job."""
        if (figure := self.figures.get(name)) is None:
            return ""
        spread = f" ({_number(figure.p95)})" if figure.p95 is not None else ""
        return f"{_number(figure.value)}{self._unit}{spread}"

    @property
    def _unit(self) -> str:
        return self.unit if self.unit in ("/s", "x", "") else f" {self.unit}"


def _met(well: bool) -> str:
    return "ok" if well else "MISSED"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(sections: dict[str, list[Row]], names: Sequence[str]) -> str:
    """All rows, the ratios first. The first of the names is measured, the last is plain SQLite."""
    own, plain = names[0], names[-1]
    others = names[:0:-1]
    head = ["", *(f"of {name}" for name in others), "aim", "met", *names]
    lines = [head]
    for title, rows in sections.items():
        lines.append([title] + [""] * (len(head) - 1))
        for row in rows:
            ratios = [row.ratio(own, name) for name in others]
            shown = ["" if ratio is None else f"{ratio:.2f}x" for ratio in ratios]
            lines.append([f"  {row.what}", *shown, *row.verdict(own, plain), *map(row.cell, names)])
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
