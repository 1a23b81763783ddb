"""What every store promises through its ports: units of work."""

import pytest

from tests.ports.repositories import named, path


def test_a_unit_of_work_rolls_back_unless_it_is_committed(store, session):
    with store.writing() as unit:
        unit.messages.extend(unit.messages.line(session.session_id).branch, named("m1"))
    assert path(store, session.session_id) == []

    def failing() -> None:
        with store.writing() as unit:
            unit.messages.extend(unit.messages.line(session.session_id).branch, named("m1"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert path(store, session.session_id) == []


def test_a_unit_of_work_sees_what_it_wrote_itself(store, session):
    with store.writing() as unit:
        unit.messages.extend(unit.messages.line(session.session_id).branch, named("m1"))
        line = unit.messages.line(session.session_id)
        assert (line.branch.head, line.branch.depth) == ("m1", 1)
