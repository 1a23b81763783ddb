"""Sessions and messages for the tests of what a store promises through its ports."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import count

from hypothesis import strategies as st

from backscroll import (
    Message,
    Session,
)
from backscroll.domain.model import PathMessage
from backscroll.domain.paths import Stretch
from backscroll.domain.ports import Store
from backscroll.domain.visibility import Scope
from tests.factories import MessageFactory, SessionFactory

NUMBERS = count(1)
EVERYTHING = Scope(own_key=None, everything=True)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=30)
NAMES = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=30)
TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
METADATA = st.dictionaries(TEXT, JSON, max_size=3)


def stored(store: Store, **fields: object) -> Session:
    number = next(NUMBERS)
    one = SessionFactory.build(
        **{"session_key": f"agent:main:contract{number}", "session_id": f"contract{number}", **fields}
    )
    with store.writing() as unit:
        unit.sessions.add(one, branch_id=f"first{number}")
        unit.commit()
    return one


def extended(store: Store, session_id: str, *messages: Message) -> list[Message]:
    with store.writing() as unit:
        line = unit.messages.line(session_id)
        found = unit.messages.extend(line.branch, [replace(one, session_id=session_id) for one in messages])
        unit.commit()
    return found


def shown(messages: list[Message]) -> list[PathMessage]:
    """Messages as readers of a path are shown them."""
    return [PathMessage(one.message_id, one.depth, one.role, one.parts, one.created_at) for one in messages]


def named(*names: str, **fields: object) -> list[Message]:
    return [MessageFactory.build(message_id=name, **fields) for name in names]


def path(store: Store, session_id: str) -> list[str]:
    with store.reading() as unit:
        line = unit.messages.line(session_id)
        found = unit.messages.older(session_id, Stretch(1, line.branch.depth), 1_000_000, 1_000, tools=True)
    return [one.message_id for one in found]
