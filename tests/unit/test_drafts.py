"""What a caller asks to be stored is checked whole before anything is written."""

from dataclasses import fields
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from backscroll.domain.drafts import NewMessage, checked_time, chosen, drafted
from backscroll.domain.errors import InvalidRequest
from backscroll.domain.limits import checked_limit, checked_offset
from backscroll.domain.model import ResetReason, Role
from backscroll.domain.parts import TextPart
from tests.factories import EPOCH

# Choices


@pytest.mark.parametrize("role", list(Role))
def test_a_choice_is_taken_by_its_value_or_itself(role: Role) -> None:
    assert chosen(role.value, Role, "role") is role
    assert chosen(role, Role, "role") is role


@pytest.mark.parametrize("value", [None, "", "USER", " user", "robot", 7, b"user", ["user"], "us\x00er", "\ud83d"])
def test_another_choice_is_refused_with_the_argument_and_all_that_are_allowed(value: object) -> None:
    with pytest.raises(InvalidRequest, match=r"^role must be one of user, assistant, system, tool, not "):
        chosen(value, Role, "role")
    with pytest.raises(InvalidRequest, match=r"^reason must be one of new, reset, idle, daily, manual, not "):
        chosen(value, ResetReason, "reason")


# Times


class Nowhere(tzinfo):
    """A zone that does not know its offset."""

    def utcoffset(self, when: datetime | None) -> timedelta | None:
        return None


@given(st.datetimes(timezones=st.timezones()))
def test_an_aware_time_is_the_same_moment_in_utc(moment: datetime) -> None:
    assume(2 <= moment.year <= 9998)
    taken = checked_time(moment, "created_at")
    assert taken.tzinfo is UTC
    assert taken - moment == timedelta(0)


@pytest.mark.parametrize(
    "value",
    [
        None,
        1_700_000_000,
        "2026-01-01T00:00:00Z",
        date(2026, 1, 1),
        datetime(2026, 1, 1),
        datetime(2026, 1, 1, tzinfo=Nowhere()),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
    ],
)
def test_a_time_without_a_zone_or_out_of_range_is_refused_by_its_argument(value: object) -> None:
    with pytest.raises(InvalidRequest, match=r"^since "):
        checked_time(value, "since")


# Messages


def test_a_message_and_a_mapping_of_its_fields_are_the_same() -> None:
    message = NewMessage("user", "hello", "m1", "m0", EPOCH, {"a": 1})
    mapping = {item.name: getattr(message, item.name) for item in fields(message)}
    assert drafted(message) == drafted(mapping)
    assert drafted({"role": "user", "content": "hello"}) == drafted(NewMessage("user", "hello"))


def test_a_draft_is_clean_and_becomes_a_message() -> None:
    draft = drafted(NewMessage(Role.USER, "a\x00", "m\x00", "p\ud83d", None, {"k\x00": "v\ud83d"}))
    assert (draft.message_id, draft.parent_id, draft.metadata) == ("m\ufffd", "p\ufffd", {"k\ufffd": "v\ufffd"})
    message = draft.message("S1", "m1", lambda: EPOCH, None, 1)
    assert (message.message_id, message.session_id, message.role) == ("m1", "S1", Role.USER)
    assert message.parts == (TextPart("a\ufffd"),)
    assert message.created_at == EPOCH
    assert (
        drafted(NewMessage("user", "a", created_at=EPOCH)).message("S1", "m1", lambda: datetime.max, None, 1).created_at
        == EPOCH
    )


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"role": "robot"}, "^role "),
        ({"role": None}, "^role "),
        ({"content": None}, "^content "),
        ({"content": []}, "^content "),
        ({"content": [7]}, "a part must be"),
        ({"message_id": ""}, "^message_id "),
        ({"message_id": 7}, "^message_id "),
        ({"message_id": "m" * 257}, "^message_id has 257 characters"),
        ({"parent_id": ""}, "^parent_id "),
        ({"parent_id": 7}, "^parent_id "),
        ({"parent_id": "m" * 257}, "^parent_id has 257 characters"),
        ({"created_at": datetime(2026, 1, 1)}, "^created_at must carry a time zone"),
        ({"created_at": "now"}, "^created_at "),
        ({"metadata": [1]}, "^metadata "),
        ({"metadata": {"a": object()}}, "^metadata "),
    ],
)
def test_a_wrong_argument_is_a_typed_error_that_names_it(changes: dict[str, object], named: str) -> None:
    mapping = {"role": "user", "content": "hello", **changes}
    with pytest.raises(InvalidRequest, match=named):
        drafted(mapping)
    with pytest.raises(InvalidRequest, match=named):
        drafted(NewMessage(**mapping))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value",
    [None, "hello", 7, [], ("user", "hello"), {}, {"role": "user"}, {"content": "x"}]
    + [{"role": "user", "content": "x", name: 1} for name in ("text", "id", 7, None)],
)
def test_what_is_no_message_is_a_typed_error(value: object) -> None:
    with pytest.raises(InvalidRequest, match="a message "):
        drafted(value)


# Limits and offsets


@pytest.mark.parametrize("value", [0, -1, 26, 2.0, True, "5", [5], float("nan"), 10**30])
def test_a_limit_outside_its_bounds_is_refused_with_them(value: object) -> None:
    with pytest.raises(InvalidRequest, match=r"^limit must be a whole number from 1 to 25, not "):
        checked_limit(value, 10, 25)


def test_a_limit_may_be_left_out() -> None:
    assert [checked_limit(value, 10, 25) for value in (None, 1, 25)] == [10, 1, 25]


@pytest.mark.parametrize("value", [-1, 2**31 + 1, 1.0, True, None, "0"])
def test_an_offset_outside_its_bounds_is_refused_with_them(value: object) -> None:
    with pytest.raises(InvalidRequest, match=r"^offset must be a whole number from 0 to "):
        checked_offset(value)
    assert [checked_offset(one) for one in (0, 2**31)] == [0, 2**31]
