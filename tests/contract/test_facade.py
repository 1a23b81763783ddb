"""What every facade keeps to, of a thread or of an event loop."""

import inspect
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from backscroll import (
    AsyncBackscroll,
    Backscroll,
    EmptyQuery,
    ImportFailed,
    InvalidRequest,
    MessageConflict,
    NewMessage,
    Requester,
    RewindAcrossReset,
    SchemaOutdated,
    SessionMismatch,
    SessionNotFound,
    StoreUnavailable,
    TextPart,
    ToolCallPart,
)
from tests.contract.facades import KEY, OPERATOR, OTHER, Kind, found, shown, stored
from tests.factories import at

# Writing.


def test_a_session_keeps_what_it_is_given_and_takes_over_what_is_given_later(scroll: Any) -> None:
    made = scroll.ensure_session("mine", agent_id="a", kind="cron", title="T", spawned_by=KEY, metadata={"n": 1})
    again = scroll.ensure_session("mine", title="Other", owner=OTHER)
    assert (made.agent_id, made.kind, made.title, made.metadata) == ("a", "cron", "T", {"n": 1})
    assert (again.session_id, again.title, again.spawned_by, again.owner) == (made.session_id, "Other", KEY, OTHER)
    with pytest.raises(InvalidRequest):
        scroll.ensure_session("mine", incognito=True)
    with pytest.raises(InvalidRequest):
        scroll.ensure_session("names no agent")


def test_a_message_is_stored_with_all_it_has_and_once(scroll: Any) -> None:
    parts = [TextPart("basalt"), ToolCallPart(call_id="c", name="look", arguments="{}")]
    given = {"message_id": "x", "created_at": at(5), "metadata": {"k": [1]}}
    first = scroll.append(KEY, "assistant", parts, **given)
    assert (first.parts, first.created_at, first.metadata, first.parent_id) == (tuple(parts), at(5), {"k": [1]}, "m5")
    assert scroll.append(KEY, "assistant", parts, **given) == first
    with pytest.raises(MessageConflict):
        scroll.append(KEY, "assistant", "other", message_id="x")
    with pytest.raises(SessionNotFound):
        scroll.append("agent:main:never", "user", "x")
    with pytest.raises(InvalidRequest):
        scroll.append(KEY, "nobody", "x")
    assert found(scroll, "basalt") == ["x"]


def test_many_are_stored_in_order_all_or_none(scroll: Any) -> None:
    many = ({"role": "user", "content": f"basalt {n}", "message_id": f"b{n}"} for n in range(3))
    assert [one.message_id for one in scroll.append_many(KEY, many)] == ["b0", "b1", "b2"]
    with pytest.raises(MessageConflict):
        scroll.append_many(KEY, [NewMessage("user", "half"), NewMessage("user", "other", message_id="m1")])
    assert found(scroll, "half") == []
    assert shown(scroll)[-3:] == ["b0", "b1", "b2"]


def test_an_edited_message_is_found_by_its_new_words_alone(scroll: Any) -> None:
    assert scroll.edit(KEY, "m1", "quartz").parts == (TextPart("quartz"),)
    assert (found(scroll, "quartz"), found(scroll, "place1")) == (["m1"], [])
    with pytest.raises(InvalidRequest):
        scroll.edit(KEY, "never", "x")


def test_a_deleted_session_is_gone_with_its_words(scroll: Any) -> None:
    assert scroll.delete_session(KEY) is True
    assert scroll.delete_session(KEY) is False
    assert found(scroll, "granite") == []
    assert scroll.sessions(requester=OPERATOR) == []


# Going back and starting over.


def test_a_rewind_leaves_a_branch_to_switch_back_to(scroll: Any) -> None:
    (whole,) = scroll.branches(KEY)
    assert scroll.rewind(KEY, "m2").head == "m2"
    scroll.append(KEY, "user", "basalt", message_id="b")
    assert shown(scroll) == ["m0", "m1", "m2", "b"]
    assert [branch.active for branch in scroll.branches(KEY)] == [True, False]
    assert scroll.switch_branch(KEY, whole.branch_id).head == "m5"
    assert (found(scroll, "place4"), found(scroll, "basalt")) == (["m4"], [])
    branching = scroll.append(KEY, "user", "mica", parent_id="m0")
    assert shown(scroll) == ["m0", branching.message_id]
    with pytest.raises(InvalidRequest):
        scroll.switch_branch(KEY, "never")


def test_a_reset_ends_the_view_and_a_rewind_may_not_cross_it(scroll: Any) -> None:
    assert scroll.reset(KEY, keep=2).kept == 2
    scroll.append(KEY, "user", "basalt", message_id="b")
    assert shown(scroll) == ["m4", "m5", "b"]
    assert shown(scroll, message_id="m1", limit=3) == ["m0", "m1", "m2"]
    with pytest.raises(RewindAcrossReset):
        scroll.rewind(KEY, "m1")
    old = scroll.ensure_session(KEY).session_id
    fresh = scroll.reset(KEY, rotate=True, reason="daily", new_session_id="fresh")
    assert (fresh.session_id, fresh.previous_session_id) == ("fresh", old)
    assert shown(scroll) == []
    assert shown(scroll, session_id=old, message_id="b", limit=1) == ["b"]
    with pytest.raises(InvalidRequest):
        scroll.reset(KEY, rotate=True, keep=1)


# Finding and reopening.


def test_a_search_takes_filters_and_orders_and_names_what_is_wrong(scroll: Any) -> None:
    scroll.ensure_session(OTHER)
    scroll.append(OTHER, "assistant", "granite basalt", message_id="o", created_at=at(0))
    assert found(scroll, "granite", limit=25) == ["m0", "m1", "m2", "m3", "m4", "m5", "o"]
    assert found(scroll, '"granite basalt"') == found(scroll, "granite", session_key=OTHER) == ["o"]
    assert found(scroll, "granite", roles=["assistant"]) == found(scroll, "granite", until=at(1)) == ["o"]
    assert found(scroll, "basalt place1", match="any") == ["m1", "o"]
    assert found(scroll, "granite bas", match="prefix") == ["o"]
    assert found(scroll, "granite", agents=["nobody"]) == []
    newest = scroll.search("granite", requester=Requester(OTHER), order="newest", limit=2, exclude_current=True)
    assert ([hit.message_id for hit in newest.hits], newest.truncated, newest.indexing) == (["m5", "m4"], True, False)
    with pytest.raises(EmptyQuery):
        scroll.search("...", requester=OPERATOR)
    with pytest.raises(SessionNotFound):
        scroll.search("granite", requester=OPERATOR, session_key="agent:main:never")


def test_history_is_read_page_by_page_by_offset_and_by_message(scroll: Any) -> None:
    first = scroll.history(KEY, requester=OPERATOR, limit=4)
    assert (first.total, first.has_more, first.next_offset) == (6, True, 4)
    last = scroll.history(KEY, requester=OPERATOR, limit=4, offset=first.next_offset)
    assert ([one.message_id for one in last.messages], last.has_more, last.next_offset) == (["m0", "m1"], False, None)
    assert shown(scroll, limit=4, before=first.messages[0].message_id) == ["m0", "m1"]
    assert shown(scroll, message_id="m3", limit=3) == ["m2", "m3", "m4"]
    assert shown(scroll, message_id="never") == []
    with pytest.raises(SessionMismatch):
        scroll.history(KEY, requester=OPERATOR, session_id="never")
    with pytest.raises(SessionNotFound):
        scroll.history(OTHER, requester=OPERATOR)
    with pytest.raises(InvalidRequest):
        scroll.history(KEY, requester=OPERATOR, message_id="m1", offset=1)


def test_sessions_are_listed_page_by_page(scroll: Any) -> None:
    for number in range(4):
        scroll.ensure_session(f"agent:main:{number}")
        scroll.append(f"agent:main:{number}", "user", "x")
    keys = [one.session_key for one in scroll.sessions(requester=OPERATOR)]
    assert keys == [*(f"agent:main:{number}" for number in reversed(range(4))), KEY]
    assert [one.session_key for one in scroll.sessions(requester=OPERATOR, limit=2, offset=1)] == keys[1:3]
    with pytest.raises(InvalidRequest):
        scroll.sessions(requester=OPERATOR, limit=0)


# Keeping.


def test_the_index_is_made_anew_compared_and_repaired(scroll: Any) -> None:
    seen: list[tuple[int, int]] = []
    assert scroll.repair(progress=lambda done, total: seen.append((done, total))).ok
    assert seen
    report = scroll.verify(progress=lambda done, total: seen.append((done, total)))
    assert (report.ok, report.messages, report.indexed, report.pending) == (True, 6, 6, 0)
    assert seen[-1] == (6, 6)
    assert scroll.reindex().transcripts == 0
    assert found(scroll, "place3") == ["m3"]


def test_maintaining_and_pruning(scroll: Any) -> None:
    assert scroll.maintain(vacuum=True).vacuumed
    assert scroll.prune(older_than=timedelta(0)).session_keys == (KEY,)
    assert scroll.prune(older_than=timedelta(0), keep=1, dry_run=False).session_keys == ()
    assert scroll.prune(older_than=timedelta(0), dry_run=False).deleted
    assert scroll.sessions(requester=OPERATOR) == []


def test_transcripts_are_imported_once_and_told_of_as_they_are(scroll: Any, tmp_path: Path) -> None:
    lines = [{"type": "session", "version": 3, "id": "s", "timestamp": "2026-03-01T12:00:00Z"}]
    for number in range(250):
        message = {"role": "user", "content": f"imported {number}"}
        parent = f"i{number - 1}" if number else None
        lines.append({"type": "message", "id": f"i{number}", "parentId": parent, "message": message})
    file = tmp_path / "s.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines) + "no JSON\n")
    seen: list[tuple[int, int]] = []
    report = scroll.import_transcripts(file, progress=lambda done, total: seen.append((done, total)))
    assert (report.messages, report.bad, len(report.problems)) == (250, 1, 1)
    assert seen[-1] == (file.stat().st_size, file.stat().st_size)
    again = scroll.import_transcripts(str(file), format="pi")
    assert (again.messages, again.known) == (0, 250)
    assert found(scroll, "imported 249") == ["i249"]
    with pytest.raises(ImportFailed):
        scroll.import_transcripts(tmp_path / "nowhere")
    with pytest.raises(InvalidRequest):
        scroll.import_transcripts(file, format="never")


def test_the_audit_and_the_redactor_of_the_host_are_asked(kind: Kind) -> None:
    class Names:
        def secrets(self, text: str) -> list[tuple[int, int]]:
            return [(0, 7)] if text.startswith("granite") else []

    events: list[Any] = []
    with kind.open(redactor=Names(), audit=events.append) as scroll:
        stored(scroll)
        assert scroll.history(KEY, requester=OPERATOR, limit=1).messages[0].text == "[redacted] place5"
        with pytest.raises(SessionNotFound):
            scroll.history(OTHER, requester=OPERATOR)
    assert [(event.action, event.refused) for event in events] == [("history", False), ("history", True)]


def test_opening_leaves_an_outdated_store_as_it_is_unless_it_may_migrate(filed: Kind, tmp_path: Path) -> None:
    filed.url = f"sqlite:///{tmp_path / 'new.db'}"
    with pytest.raises(SchemaOutdated):
        filed.open(migrate=False)
    filed.open().close()
    filed.open(migrate=False).close()


def test_opening_something_else_is_refused(kind: Kind) -> None:
    for wrong, error in ((7, InvalidRequest), ("postgresql://", StoreUnavailable), ("no url", StoreUnavailable)):
        with pytest.raises(error):
            kind.open(wrong)


def test_a_closed_facade_refuses_everything_but_to_be_closed_again(kind: Kind) -> None:
    scroll = stored(kind.open())
    scroll.close()
    scroll.close()
    for call in (
        lambda: scroll.append(KEY, "user", "x"),
        lambda: scroll.search("granite", requester=OPERATOR),
        lambda: scroll.maintain(),
    ):
        with pytest.raises(StoreUnavailable, match="closed"):
            call()


# The suite is whole.


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_both_facades_have_the_same_methods_with_the_same_arguments_and_documentation() -> None:
    assert public(AsyncBackscroll) == public(Backscroll)
    for name in public(Backscroll) - {"open", "using", "close"}:
        thread, loop = getattr(Backscroll, name), getattr(AsyncBackscroll, name)
        assert inspect.iscoroutinefunction(loop), name
        assert inspect.signature(loop) == inspect.signature(thread), name
        assert inspect.getdoc(loop) == inspect.getdoc(thread), name
    for opens in (Backscroll.open, AsyncBackscroll.open):
        names = ["target", "settings", "migrate", "redactor", "audit", "telemetry"]
        assert list(inspect.signature(opens).parameters) == names


def test_every_method_is_called_in_this_suite() -> None:
    suite = ("facades.py", "conftest.py", "test_facade.py", "test_in_a_transaction.py")
    text = "".join(Path(__file__).with_name(file).read_text(encoding="utf-8") for file in suite)
    assert {name for name in public(Backscroll) if f".{name}(" not in text} == set()
