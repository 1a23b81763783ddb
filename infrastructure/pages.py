"""Reading along the active path: every read is a range scan over depths."""

from collections import defaultdict
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import sqlalchemy as sa

from backscroll.domain.errors import SessionNotFound, StoreUnavailable
from backscroll.domain.model import SPOKEN, Message, PathMessage, PathPage, Reset, Role
from backscroll.domain.paths import Anchor, Position, Stretch, window
from backscroll.domain.visibility import Scope
from backscroll.infrastructure import mapping
from backscroll.infrastructure.fts import scope_tokens
from backscroll.infrastructure.rows import SESSIONS, TRANSCRIPTS
from backscroll.infrastructure.scopes import scope_sql
from backscroll.infrastructure.transaction import Transaction
from backscroll.infrastructure.types import json_text

# Literally the condition of the partial indexes: a bound parameter would hide it from SQLite's planner.
ON_PATH: sa.ColumnElement[bool] = sa.literal_column("backscroll_messages.active = 1")
RESET_ON_PATH: sa.ColumnElement[bool] = sa.literal_column("backscroll_resets.active = 1")

# As text, and read as plain tuples: making a statement or a row object takes longer than running the statement.
_SHOW = f"""SELECT {", ".join(f"m.{name}" for name in mapping.PATH_COLUMNS)} FROM backscroll_messages AS m
    WHERE m.transcript_pk = :transcript"""
_READ = f"""SELECT {", ".join(f"m.{name}" for name in mapping.MESSAGE_COLUMNS)}, p.message_id
    FROM backscroll_messages AS m LEFT JOIN backscroll_messages AS p ON p.id = m.parent_pk
    WHERE m.transcript_pk = :transcript"""


_FIND = f"{_READ} AND m.message_id = :message_id"
# One JSON parameter: an IN list would meet SQLite's limit on the number of variables.
_KNOWN = f"{_READ} AND m.message_id IN (SELECT value FROM json_each(:message_ids))"
_DEPTH = mapping.PATH_COLUMNS.index("depth")
_MANY = 50
_GREATEST_ID = "SELECT max(message_id) FROM backscroll_messages WHERE transcript_pk = ?"
_SHOWN = "SELECT shown FROM backscroll_messages WHERE transcript_pk = ? AND active = 1 AND depth = ?"


_RESET = f"""SELECT {", ".join(f"r.{name}" for name in mapping.RESET_COLUMNS)}, a.message_id, k.message_id
    FROM backscroll_resets AS r LEFT JOIN backscroll_messages AS a ON a.id = r.after_pk
    LEFT JOIN backscroll_messages AS k ON k.id = r.first_kept_pk"""
RESET_WITH_KEY = f"{_RESET} WHERE r.id = ?"


@lru_cache(64)
def _position(condition: str, *, current: bool, anchored: bool) -> str:
    """Where to read a transcript of the session `wanted`, if the condition holds for the session `s`.

    With `anchored` also the message `anchor` of its active path, the last reset before it and the first one behind.
    """
    columns = """s.id, s.agent_pk, s.incognito, t.id, t.session_id, h.depth, h.shown,
        r.depth, r.first_kept_depth, r.kept, r.shown"""
    joins = """backscroll_sessions AS s JOIN backscroll_transcripts AS t ON t.session_pk = s.id
        JOIN backscroll_branches AS b ON b.transcript_pk = t.id AND b.active = 1
        LEFT JOIN backscroll_messages AS h ON h.id = b.head_pk LEFT JOIN backscroll_resets AS r ON r.id = b.reset_pk"""
    if anchored:
        columns += ", a.depth, a.shown, a.role, p.depth, p.shown, c.depth, c.shown"
        joins += f"""
        LEFT JOIN backscroll_messages AS a ON a.transcript_pk = t.id AND a.message_id = :anchor AND a.active = 1
        LEFT JOIN backscroll_resets AS p ON p.id = ({_NEIGHBOUR} AND n.depth < a.depth
            ORDER BY n.depth DESC, n.id DESC LIMIT 1)
        LEFT JOIN backscroll_resets AS c ON c.id = ({_NEIGHBOUR} AND n.depth >= a.depth
            ORDER BY n.depth, n.id LIMIT 1)"""
    which = "t.is_current = 1" if current else "t.session_id = :session_id"
    return f"SELECT {columns} FROM {joins} WHERE s.session_key = :wanted AND {which} AND {condition}"


_NEIGHBOUR = "SELECT n.id FROM backscroll_resets AS n WHERE n.transcript_pk = t.id AND n.active = 1"


class _Boundary(NamedTuple):
    """A reset as far as it bounds what is read."""

    depth: int
    first_kept_depth: int | None = None
    kept: int = 0


@cache
def _window(*, roles: frozenset[Role], kept: bool, newest_first: bool) -> str:
    """A range of the active path; with `kept`, only what was spoken up to the depth of that name."""
    order = "m.depth DESC" if newest_first else "m.depth"
    span = _span(":low", ":high", roles=roles, kept=kept)
    return f"{span} ORDER BY {order} LIMIT :limit OFFSET :offset"


@cache
def _around(*, roles: frozenset[Role], kept: bool) -> str:
    """So many messages on each side of a depth; the one at the depth itself comes first among the older ones."""
    newer = _span(":depth + 1", ":high", roles=roles, kept=kept)
    older = _span(":low", ":depth", roles=roles, kept=kept)
    return f"""SELECT * FROM ({newer} ORDER BY m.depth LIMIT :newer)
        UNION ALL SELECT * FROM ({older} ORDER BY m.depth DESC LIMIT :older)"""


def _span(low: str, high: str, *, roles: frozenset[Role], kept: bool) -> str:
    # One bound on each side: SQLite scans from the first that it is given, not from the tighter one.
    conditions = [f"m.active = 1 AND m.depth >= {low} AND m.depth <= {high}"]
    if kept:
        conditions.append(f"(m.depth > :kept OR {_one_of(SPOKEN)})")
    if len(roles) < len(Role):
        conditions.append(_one_of(roles))
    return f"{_SHOW} AND {' AND '.join(conditions)}"


def _one_of(roles: frozenset[Role]) -> str:
    if len(left_out := _ALL - roles) == 1:
        # Of a list of three SQLite makes a table, each time.
        return f"m.role <> '{min(left_out)}'"
    listed = ", ".join(f"'{role}'" for role in sorted(roles))
    return f"m.role IN ({listed})"


_ALL = frozenset(Role)
_NO_TOOLS = _ALL - {Role.TOOL}


_PLACE = (
    sa.select(TRANSCRIPTS.c.id, TRANSCRIPTS.c.session_pk, SESSIONS.c.agent_pk, SESSIONS.c.incognito)
    .join(SESSIONS, SESSIONS.c.id == TRANSCRIPTS.c.session_pk)
    .where(TRANSCRIPTS.c.session_id == sa.bindparam("name"))
)


class Place(NamedTuple):
    """A transcript's key, and the scope tokens of its messages (None: they are kept out of the index)."""

    pk: int
    scope: str | None


class PathReads:
    """The reading half of the messages repository."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._places: dict[str, Place] = {}
        # By session id: of messages on the active path that were met in this unit of work, the counter at each depth.
        self._shown: defaultdict[str, dict[int | None, int]] = defaultdict(dict)

    def find(self, session_id: str, message_id: str) -> Message | None:
        """One message, on the active path or off it."""
        found = self._messages(_FIND, session_id, message_id=message_id)
        return found[0] if found else None

    def known(self, session_id: str, message_ids: Sequence[str]) -> dict[str, Message]:
        """Those of the messages that are stored."""
        place = self._place(session_id)
        if len(message_ids) >= _MANY:
            # Ids mostly grow: one look at the greatest then tells that all of these are new.
            greatest = self._transaction.statements.scalar(_GREATEST_ID, (place.pk,))
            if greatest is None or min(message_ids) > greatest:
                return {}
        found = self._messages(_KNOWN, session_id, message_ids=json_text(list(message_ids)))
        return {one.message_id: one for one in found}

    def position(
        self, session_key: str, session_id: str | None, message_id: str | None, scope: Scope
    ) -> Position | None:
        """Where to read that transcript of the session (None: the current one), if it is in `scope`."""
        allowed = scope_sql(self._transaction.statements, scope)
        statement = _position(allowed.condition, current=session_id is None, anchored=message_id is not None)
        params = allowed.params | {"wanted": session_key, "session_id": session_id, "anchor": message_id}
        row = self._transaction.statements.first(statement, params)
        if row is None:
            return None
        session, agent, incognito, pk, session_id, head_depth, head_shown, depth, first_kept, kept, shown, *around = row
        self._places[session_id] = Place(pk, None if incognito else scope_tokens(session, agent))
        # What is not there has no depth, for which nobody asks.
        self._shown[session_id] |= {head_depth: head_shown, depth: shown}
        anchor = previous = closing = None
        if around:
            at, at_shown, role, before, before_shown, behind, behind_shown = around
            self._shown[session_id] |= {at: at_shown, before: before_shown, behind: behind_shown}
            anchor = None if at is None else Anchor(at, Role(role))
            previous = None if before is None else _Boundary(before)
            closing = None if behind is None else _Boundary(behind)
        latest = None if depth is None else _Boundary(depth, first_kept, kept)
        return Position(session_id, head_depth or 0, latest, anchor, previous, closing)

    def _reset(self, statement: str, params: tuple[int, ...], session_id: str) -> Reset | None:
        row = self._transaction.statements.first(statement, params)
        return None if row is None else mapping.reset(row, session_id)

    def nth_spoken(self, session_id: str, stretch: Stretch, count: int) -> PathMessage | None:
        """The `count`-th user or assistant message of the stretch from its end, or the first if there are fewer."""
        ends = (stretch.first, stretch.last)
        nth = self._range(session_id, stretch, *ends, 1, roles=SPOKEN, newest_first=True, offset=count - 1)
        first = nth or self._range(session_id, stretch, *ends, 1, roles=SPOKEN)
        return first[0] if first else None

    def older(
        self, session_id: str, stretch: Stretch, before: int, limit: int, *, tools: bool, offset: int = 0
    ) -> list[PathMessage]:
        """The last `limit` messages below the depth `before`, after leaving out `offset` of them; oldest first."""
        roles = _ALL if tools else _NO_TOOLS
        high = min(stretch.last, before - 1)
        found = self._range(
            session_id, stretch, stretch.first, high, limit, roles=roles, newest_first=True, offset=offset
        )
        return found[::-1]

    def around(self, session_id: str, stretch: Stretch, anchor: Anchor, limit: int, *, tools: bool) -> PathPage:
        """Up to `limit` messages of the stretch around the anchor, and where it is among them."""
        depth = anchor.depth
        if depth > stretch.kept_until:
            # Counted before, so that no message is read in vain.
            there = self.count(session_id, stretch._replace(last=depth), tools=tools)
            behind = self._between(session_id, depth, stretch.last, tools=tools)
            most_older, most_newer = window(limit, there - (tools or anchor.role is not Role.TOOL), behind)
        else:
            most_older = most_newer = limit
        statement = _around(roles=_ALL if tools else _NO_TOOLS, kept=stretch.kept_until >= stretch.first)
        params = {
            "transcript": self._place(session_id).pk,
            "low": stretch.first,
            "depth": depth,
            "high": stretch.last,
            "kept": stretch.kept_until,
            "newer": most_newer,
            # With the anchor, and one more, which tells whether any precede.
            "older": most_older + 2,
        }
        rows = self._transaction.statements.all(statement, params)
        # Those above the anchor, the anchor if it is shown, those below it.
        depths = [row[_DEPTH] for row in rows]
        above, below = sum([one > depth for one in depths]), sum([one < depth for one in depths])
        older_taken, newer_taken = window(limit, below, above)
        first_below = len(rows) - below
        shown = [*rows[above : first_below + older_taken][::-1], *rows[:newer_taken]]
        messages = [mapping.path_message(row) for row in shown]
        return PathPage(messages, below > older_taken, min(older_taken, len(messages) - 1))

    def count(self, session_id: str, stretch: Stretch, *, tools: bool) -> int:
        """How many messages the stretch holds: a difference of counters, whatever its length."""
        before = max(stretch.kept_until, stretch.first - 1)
        return stretch.kept + self._between(session_id, before, stretch.last, tools=tools)

    def _between(self, session_id: str, before: int, last: int, *, tools: bool) -> int:
        """How many messages there are at the depths behind `before` up to `last`."""
        if not tools:
            before, last = self._shown_at(session_id, before), self._shown_at(session_id, last)
        return max(last - before, 0)

    def _shown_at(self, session_id: str, depth: int) -> int:
        if depth <= 0:
            return 0
        met = self._shown[session_id]
        if depth not in met:
            found = self._transaction.statements.first(_SHOWN, (self._place(session_id).pk, depth))
            if found is None:
                raise StoreUnavailable("the active path of a transcript has a gap: repair() closes it")
            met[depth] = found[0]
        return met[depth]

    def _range(
        self,
        session_id: str,
        stretch: Stretch,
        low: int,
        high: int,
        limit: int,
        *,
        roles: frozenset[Role],
        newest_first: bool = False,
        offset: int = 0,
    ) -> list[PathMessage]:
        kept = stretch.kept_until >= low
        more = {"kept": stretch.kept_until} if kept else {}
        statement = _window(roles=roles, kept=kept, newest_first=newest_first)
        params = {"transcript": self._place(session_id).pk, "low": low, "high": high, "limit": limit, "offset": offset}
        return [mapping.path_message(row) for row in self._transaction.statements.all(statement, params | more)]

    def _messages(self, statement: str, session_id: str, **params: object) -> list[Message]:
        params["transcript"] = self._place(session_id).pk
        rows = self._transaction.statements.all(statement, params)
        return [mapping.message(row, session_id) for row in rows]

    def _place(self, session_id: str) -> Place:
        place = self._places.get(session_id)
        if place is None:
            row = self._transaction.connection.execute(_PLACE, {"name": session_id}).first()
            if row is None:
                raise SessionNotFound
            scope = None if row.incognito else scope_tokens(row.session_pk, row.agent_pk)
            place = self._places[session_id] = Place(row.id, scope)
        return place
