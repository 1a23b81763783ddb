"""Reading along the active path: every read is a range scan over depths."""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from backscroll.domain.errors import SessionNotFound
from backscroll.domain.model import SPOKEN, Message, Reset, Role
from backscroll.domain.paths import Stretch
from backscroll.infrastructure import mapping
from backscroll.infrastructure.fts import scope_tokens
from backscroll.infrastructure.hooks import IndexedSession
from backscroll.infrastructure.rows import MESSAGES, SESSIONS, TRANSCRIPTS, ResetRow
from backscroll.infrastructure.types import Json

# Literally the condition of the partial indexes: a bound parameter would hide it from SQLite's planner.
ON_PATH: sa.ColumnElement[bool] = sa.literal_column("backscroll_messages.active = 1")
RESET_ON_PATH: sa.ColumnElement[bool] = sa.literal_column("backscroll_resets.active = 1")

# Statements are made once: building one takes longer than running it.
_PARENT = MESSAGES.alias("parent")
_READ = (
    sa.select(*mapping.MESSAGE_COLUMNS, _PARENT.c.message_id.label("parent_id"))
    .select_from(MESSAGES.outerjoin(_PARENT, _PARENT.c.id == MESSAGES.c.parent_pk))
    .where(MESSAGES.c.transcript_pk == sa.bindparam("transcript"))
)
_FIND = _READ.where(MESSAGES.c.message_id == sa.bindparam("message_id"))
# One JSON parameter: an IN list would meet SQLite's limit on the number of variables.
_KNOWN = _READ.where(
    MESSAGES.c.message_id.in_(
        sa.select(sa.func.json_each(sa.bindparam("message_ids", type_=Json)).table_valued("value").c.value)
    )
)
_MANY = 50
_GREATEST_ID = f"SELECT max(message_id) FROM {MESSAGES.name} WHERE transcript_pk = ?"
_SHOWN = sa.select(MESSAGES.c.shown).where(
    MESSAGES.c.transcript_pk == sa.bindparam("transcript"), ON_PATH, MESSAGES.c.depth == sa.bindparam("depth")
)


@cache
def _window(*, roles: frozenset[Role], kept: bool, newest_first: bool) -> sa.Select[*tuple[Any, ...]]:
    """A range of the active path; with `kept`, only what was spoken up to the depth of that name."""
    statement = _READ.where(ON_PATH, MESSAGES.c.depth >= sa.bindparam("low"), MESSAGES.c.depth <= sa.bindparam("high"))
    if kept:
        statement = statement.where(
            sa.or_(MESSAGES.c.depth > sa.bindparam("kept"), MESSAGES.c.role.in_(sorted(SPOKEN)))
        )
    if len(roles) < len(Role):
        statement = statement.where(MESSAGES.c.role.in_(sorted(roles)))
    order = MESSAGES.c.depth.desc() if newest_first else MESSAGES.c.depth
    return statement.order_by(order).limit(sa.bindparam("limit")).offset(sa.bindparam("offset"))


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

    def __init__(self, session: IndexedSession) -> None:
        self._session = session
        self._places: dict[str, Place] = {}

    def find(self, session_id: str, message_id: str) -> Message | None:
        """One message, on the active path or off it."""
        found = self._messages(_FIND, session_id, message_id=message_id)
        return found[0] if found else None

    def known(self, session_id: str, message_ids: Sequence[str]) -> dict[str, Message]:
        """Those of the messages that are stored."""
        place = self._place(session_id)
        if len(message_ids) >= _MANY:
            # Ids mostly grow: one look at the greatest then tells that all of these are new.
            greatest = self._session.connection().exec_driver_sql(_GREATEST_ID, (place.pk,)).scalar()
            if greatest is None or min(message_ids) > greatest:
                return {}
        found = self._messages(_KNOWN, session_id, message_ids=list(message_ids))
        return {one.message_id: one for one in found}

    def interval_resets(self, session_id: str, depth: int) -> tuple[Reset | None, Reset | None]:
        """On the active path: the last reset before the message at `depth` and the first one behind it."""
        statement = (
            sa.select(ResetRow).where(ResetRow.transcript_pk == self._place(session_id).pk, RESET_ON_PATH).limit(1)
        )
        before = self._session.scalar(
            statement.where(ResetRow.depth < depth).order_by(ResetRow.depth.desc(), ResetRow.id.desc())
        )
        behind = self._session.scalar(statement.where(ResetRow.depth >= depth).order_by(ResetRow.depth, ResetRow.id))
        return (
            mapping.reset(before, session_id) if before else None,
            mapping.reset(behind, session_id) if behind else None,
        )

    def nth_spoken(self, session_id: str, stretch: Stretch, count: int) -> Message | None:
        """The `count`-th user or assistant message of the stretch from its end, or the first if there are fewer."""
        ends = (stretch.first, stretch.last)
        nth = self._range(session_id, stretch, *ends, 1, roles=SPOKEN, newest_first=True, offset=count - 1)
        first = nth or self._range(session_id, stretch, *ends, 1, roles=SPOKEN)
        return first[0] if first else None

    def older(
        self, session_id: str, stretch: Stretch, before: int, limit: int, *, tools: bool, offset: int = 0
    ) -> list[Message]:
        """The last `limit` messages below the depth `before`, after leaving out `offset` of them; oldest first."""
        roles = _ALL if tools else _NO_TOOLS
        high = min(stretch.last, before - 1)
        found = self._range(
            session_id, stretch, stretch.first, high, limit, roles=roles, newest_first=True, offset=offset
        )
        return found[::-1]

    def newer(self, session_id: str, stretch: Stretch, after: int, limit: int, *, tools: bool) -> list[Message]:
        """The first `limit` messages of the stretch above the depth `after`; oldest first."""
        low = max(stretch.first, after + 1)
        return self._range(session_id, stretch, low, stretch.last, limit, roles=_ALL if tools else _NO_TOOLS)

    def count(self, session_id: str, stretch: Stretch, *, tools: bool) -> int:
        """How many messages the stretch holds: a difference of counters, whatever its length."""
        low, high = max(stretch.kept_until, stretch.first - 1), stretch.last
        if not tools:
            low, high = self._shown_at(session_id, low), self._shown_at(session_id, high)
        return stretch.kept + max(high - low, 0)

    def _shown_at(self, session_id: str, depth: int) -> int:
        if depth <= 0:
            return 0
        params = {"transcript": self._place(session_id).pk, "depth": depth}
        return int(self._session.connection().execute(_SHOWN, params).scalar_one())

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
    ) -> list[Message]:
        # One bound on each side: SQLite scans from the first that it is given, not from the tighter one.
        kept = stretch.kept_until >= low
        more = {"kept": stretch.kept_until} if kept else {}
        statement = _window(roles=roles, kept=kept, newest_first=newest_first)
        return self._messages(statement, session_id, low=low, high=high, limit=limit, offset=offset, **more)

    def _messages(self, statement: sa.Select[*tuple[Any, ...]], session_id: str, **params: object) -> list[Message]:
        params["transcript"] = self._place(session_id).pk
        rows = self._session.connection().execute(statement, params)
        return [mapping.message(row, session_id, row.parent_id) for row in rows]

    def _place(self, session_id: str) -> Place:
        place = self._places.get(session_id)
        if place is None:
            row = self._session.connection().execute(_PLACE, {"name": session_id}).first()
            if row is None:
                raise SessionNotFound
            scope = None if row.incognito else scope_tokens(row.session_pk, row.agent_pk)
            place = self._places[session_id] = Place(row.id, scope)
        return place
