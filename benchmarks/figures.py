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
    """One line of the table. `unit` tells what is better: of "/s" more, of all else less."""

    what: str
    unit: str
    figures: dict[str, Figure]
    aim: float | None = None
    most: float | None = None
    """The largest value of the first system that meets the aim, where the aim is no ratio to plain SQLite."""
    compared: bool = True
    """Whether a ratio between the systems says anything."""

    def ratio(self, name: str) -> float:
        """How many times better the first system is: 2 is twice as fast or half as large, 0.5 the reverse."""
        own, other = next(iter(self.figures.values())).value, self.figures[name].value
        return own / other if self.unit == "/s" else other / own

    def verdict(self) -> tuple[str, str]:
        """The aim and whether it is met."""
        if self.most is not None:
            return f"≤ {self.most:g}", "ok" if next(iter(self.figures.values())).value <= self.most else "MISSED"
        if self.aim is not None:
            return f"≥ {self.aim:g}x", "ok" if self.ratio(list(self.figures)[-1]) >= self.aim else "MISSED"
        return "", ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _line(row: Row) -> list[str]:
    names = list(row.figures)
    cells = [row.what, *(f"{row.ratio(name):.2f}x" if row.compared else "" for name in names[1:]), *row.verdict()]
    for figure in row.figures.values():
        spread = f" ({_number(figure.p95)})" if figure.p95 is not None else ""
        cells.append(f"{_number(figure.value)}{row.unit if row.unit == '/s' else ' ' + row.unit}".strip() + spread)
    return cells


def table(sections: dict[str, list[Row]], names: Sequence[str]) -> str:
    """All rows, the ratios first."""
    head = ["", *(f"of {name}" for name in names[1:]), "aim", "met", *names]
    lines = [head]
    for title, rows in sections.items():
        lines += [[title] + [""] * (len(head) - 1), *([f"  {cells[0]}", *cells[1:]] for cells in map(_line, rows))]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
