"""How new the messages of each block of 1,024 keys are at most: to find the newest of many without a look at all.

Messages are mostly stored in the order of their times, but an import brings old ones after new ones. Triggers date a
block when the next one begins, and raise its bound whatever writes to it afterwards; the last block is open and counts
as of any time. So does what is stored from before there were bounds, until `date_some` has been there.
"""

from collections.abc import Iterator

from backscroll.infrastructure.rows import MessageRow, TimesRow
from backscroll.infrastructure.statements import Statements

_SHIFT = 10
_TIMES, _MESSAGES = TimesRow.__tablename__, MessageRow.__tablename__
_FIRST, _FACTOR = 2, 4
"""How many blocks are asked first, and how many times as many next."""
_AT_A_TIME = 8
"""Blocks that one step dates: some milliseconds of the write lock."""
_OPEN = "1 << 60"
_DATED = f"""INSERT INTO {_TIMES} (block, newest) SELECT NEW.id >> 10, {_OPEN}
            WHERE NEW.id >> 10 >= coalesce((SELECT min(block) FROM {_TIMES}), 0)
            ON CONFLICT (block) DO UPDATE SET newest = max(newest, NEW.created_at + 1);
        UPDATE {_TIMES} SET newest = 1 + coalesce((SELECT max(created_at) FROM {_MESSAGES}
                WHERE id BETWEEN block << 10 AND (block << 10) + 1023), 0)
            WHERE newest = {_OPEN} AND block = (SELECT max(block) FROM {_TIMES} WHERE block < NEW.id >> 10);"""
TRIGGERS = {
    "backscroll_message_dated": f"""AFTER INSERT ON {_MESSAGES} WHEN NEW.created_at >=
        coalesce((SELECT newest FROM {_TIMES} WHERE block = NEW.id >> 10), NEW.created_at) BEGIN
        {_DATED} END""",
    "backscroll_message_redated": f"""AFTER UPDATE OF id, created_at ON {_MESSAGES} BEGIN
        {_DATED} END""",
}
"""As revision 0005 has them."""
_NEWEST_FIRST = f"SELECT block, newest FROM {_TIMES} ORDER BY newest DESC, block DESC LIMIT ? OFFSET ?"
_LOWEST = f"SELECT coalesce(min(block), 1 << 50) FROM {_TIMES}"
_DATE = f"""INSERT INTO {_TIMES} (block, newest)
    SELECT id >> 10, max(created_at) + 1 FROM {_MESSAGES} WHERE id >= ? AND id < ? GROUP BY id >> 10
    ON CONFLICT (block) DO UPDATE SET newest = excluded.newest"""
_OPEN_LAST = f"UPDATE {_TIMES} SET newest = {_OPEN} WHERE block = (SELECT max(block) FROM {_TIMES})"
UNDATED = f"""SELECT count(*) FROM {_MESSAGES} AS m LEFT JOIN {_TIMES} AS b ON b.block = m.id >> 10
    WHERE m.id >= (SELECT min(block) << 10 FROM {_TIMES}) AND m.created_at >= coalesce(b.newest, m.created_at)"""
"""How many messages are newer than the bound of their block."""

Stretch = tuple[int, int]
"""The keys from one to another, both included."""


def newest_first(statements: Statements) -> Iterator[tuple[list[Stretch], int | None]]:
    """All keys in a few groups of stretches, and after each a time before which all that is left was said."""
    lowest: int = statements.scalar(_LOWEST)
    group = [(0, (lowest << _SHIFT) - 1)] if lowest else []
    size, done = _FIRST, 0
    while True:
        blocks = list(statements.all(_NEWEST_FIRST, (size + 1, done)))
        following = blocks.pop()[1] if len(blocks) > size else None
        yield group + _stretches([block for block, _ in blocks]), following
        if following is None:
            return
        group, done, size = [], done + size, size * _FACTOR


def _stretches(blocks: list[int]) -> list[Stretch]:
    stretches: list[Stretch] = []
    for block in sorted(blocks):
        first, last = block << _SHIFT, ((block + 1) << _SHIFT) - 1
        if stretches and stretches[-1][1] == first - 1:
            first = stretches.pop()[0]
        stretches.append((first, last))
    return stretches


def date_some(statements: Statements) -> bool:
    """Dates some of the blocks that are not; whether any are left."""
    lowest = statements.scalar(_LOWEST)
    last = statements.scalar(f"SELECT max(id) FROM {_MESSAGES} WHERE id < ?", (lowest << _SHIFT,))
    if last is None:
        return False
    first = max((last >> _SHIFT) - _AT_A_TIME + 1, 0)
    # With the lowest that is dated: there the bounds began.
    statements.run(_DATE, (first << _SHIFT, (lowest + 1) << _SHIFT))
    statements.run(_OPEN_LAST)
    return True


def date_all(statements: Statements) -> None:
    """Dates every block anew."""
    statements.run(f"DELETE FROM {_TIMES}")
    statements.run(_DATE, (0, 1 << 62))
    statements.run(_OPEN_LAST)
