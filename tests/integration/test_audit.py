"""The audit is told of every read, answered or refused, and never of a message's text."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from backscroll import (
    Action,
    AuditEvent,
    Backscroll,
    InvalidRequest,
    Requester,
    SessionMismatch,
    SessionNotFound,
    Settings,
)

ME = Requester("agent:a:me")


@pytest.fixture
def told() -> list[AuditEvent]:
    return []


@pytest.fixture
def audited(tmp_path: Path, told: list[AuditEvent]) -> Iterator[Backscroll]:
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'store.db'}", visibility="agent", synchronous="NORMAL")
    with Backscroll.open(settings, audit=told.append) as scroll:
        for key in ("agent:a:one", "agent:b:two"):
            scroll.ensure_session(key)
            scroll.append(key, "user", "granite heliotrope", message_id="m1")
        yield scroll


def test_a_search_is_told_with_its_query_and_the_sessions_it_shows(audited: Backscroll, told: list[AuditEvent]) -> None:
    audited.search("granite", requester=ME)
    (event,) = told
    assert (event.action, event.query, event.shown) == (Action.SEARCH, "granite", ("agent:a:one",))
    assert (event.requester, event.refused) == (ME, False)
    assert "heliotrope" not in repr(event)


def test_an_opened_session_is_told_with_what_was_asked_for(audited: Backscroll, told: list[AuditEvent]) -> None:
    audited.history("agent:a:one", requester=ME, message_id="m1")
    (event,) = told
    assert (event.action, event.session_key, event.message_id) == (Action.HISTORY, "agent:a:one", "m1")
    assert (event.shown, event.refused) == (("agent:a:one",), False)


def test_a_list_is_told_with_the_sessions_on_it(audited: Backscroll, told: list[AuditEvent]) -> None:
    audited.sessions(requester=ME)
    assert [(event.action, event.shown) for event in told] == [(Action.SESSIONS, ("agent:a:one",))]


@pytest.mark.parametrize("key", ["agent:b:two", "agent:b:nowhere"])
def test_what_is_hidden_and_what_is_not_there_are_refused_alike(
    audited: Backscroll, told: list[AuditEvent], key: str
) -> None:
    with pytest.raises(SessionNotFound):
        audited.history(key, requester=ME)
    with pytest.raises(SessionNotFound):
        audited.search("granite", requester=ME, session_key=key)
    assert [(event.action, event.session_key, event.refused, event.shown) for event in told] == [
        (Action.HISTORY, key, True, ()),
        (Action.SEARCH, key, True, ()),
    ]


def test_a_session_id_of_another_key_is_refused(audited: Backscroll, told: list[AuditEvent]) -> None:
    with pytest.raises(SessionMismatch):
        audited.history("agent:a:one", requester=ME, session_id="elsewhere")
    assert [(event.session_id, event.refused) for event in told] == [("elsewhere", True)]


def test_a_bad_argument_was_neither_answered_nor_refused(audited: Backscroll, told: list[AuditEvent]) -> None:
    with pytest.raises(InvalidRequest):
        audited.search("granite", requester=ME, limit=0)
    with pytest.raises(InvalidRequest):
        audited.search("granite", requester="agent:a:me")  # type: ignore[arg-type]
    assert told == []


def test_an_audit_that_fails_withholds_the_answer(tmp_path: Path) -> None:
    def full(event: AuditEvent) -> None:
        raise OSError("disk full")

    with (
        Backscroll.open(f"sqlite:///{tmp_path / 'store.db'}", audit=full) as scroll,
        pytest.raises(OSError, match="full"),
    ):
        scroll.search("granite", requester=ME)
