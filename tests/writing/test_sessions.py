"""Writing: sessions, what is kept of them, and their deletion."""

import pytest

from backscroll import (
    InvalidRequest,
    NewMessage,
    Requester,
    SessionKind,
    SessionNotFound,
)
from tests.factories import at
from tests.writing.stores import KEY, contents, found, said


def test_a_deletion_removes_every_row_and_index_row(scroll, store_path):
    empty = contents(store_path)
    scroll.ensure_session(KEY)
    scroll.append_many(KEY, [NewMessage("user", f"secretword 北京 {n}", message_id=f"m{n}") for n in range(5)])
    scroll.rewind(KEY, "m2")
    scroll.reset(KEY, keep=1)
    scroll.reset(KEY, rotate=True)
    scroll.append(KEY, "user", "secretword again")
    assert scroll.delete_session(KEY)
    after = contents(store_path)
    for table in ("sessions", "transcripts", "messages", "branches", "resets", "pending", "message_index_docsize"):
        assert after[f"backscroll_{table}"] == empty[f"backscroll_{table}"] == []
    assert found(scroll, "secretword") == []
    with pytest.raises(SessionNotFound):
        said(scroll)
    assert not scroll.delete_session(KEY)


def test_a_deleted_session_stays_deleted_when_keys_and_ids_are_used_again(open_store, store_path):
    scroll = open_store(inline_reindex_limit=0)
    scroll.ensure_session("agent:main:s1")
    scroll.append_many("agent:main:s1", [NewMessage("user", "secretword", message_id=f"m{n}") for n in range(3)])
    scroll.rewind("agent:main:s1", "m1")
    assert scroll.verify().pending == 1
    scroll.delete_session("agent:main:s1")
    scroll.ensure_session("agent:main:s2")
    scroll.append("agent:main:s2", "user", "hello", message_id="m0")
    scroll.reindex()
    scroll.ensure_session("agent:main:s1")
    scroll.append("agent:main:s1", "user", "hello", message_id="m1")
    assert found(scroll, "secretword") == []
    after = contents(store_path)
    assert len(after["backscroll_message_index_docsize"]) == len(after["backscroll_messages"]) == 2
    assert after["backscroll_pending"] == []


def test_a_deletion_leaves_other_sessions_and_what_it_spawned(scroll, talk, operator):
    talk("m1")
    scroll.ensure_session("agent:main:child", spawned_by=KEY)
    scroll.append("agent:main:child", "user", "childword", message_id="c1")
    scroll.delete_session(KEY)
    assert found(scroll, "childword") == ["c1"]
    assert [one.session_key for one in scroll.sessions(requester=operator)] == ["agent:main:child"]


# Sessions.


def test_ensure_session_makes_what_the_key_says(scroll):
    session = scroll.ensure_session("agent:ada:subagent:7")
    assert (session.agent_id, session.kind, session.title, session.incognito) == (
        "ada",
        SessionKind.SUBAGENT,
        None,
        False,
    )
    assert (session.spawned_by, session.owner, dict(session.metadata)) == (None, None, {})
    assert session.created_at == session.updated_at
    assert scroll.ensure_session("agent:ada:subagent:7") == session


def test_ensure_session_takes_over_what_is_given_and_leaves_the_rest(scroll):
    scroll.ensure_session("room 7", agent_id="ada", kind="group", title="Room", owner=KEY, metadata={"a": [1, None]})
    session = scroll.ensure_session("room 7", title="Hall", spawned_by="agent:ada:main")
    assert (session.kind, session.title, session.owner, session.spawned_by, session.metadata) == (
        SessionKind.GROUP,
        "Hall",
        KEY,
        "agent:ada:main",
        {"a": [1, None]},
    )
    assert scroll.ensure_session("room 7", metadata={}).metadata == {}


@pytest.mark.parametrize("given", [{"agent_id": "bob"}, {"incognito": True}, {"agent_id": "bob", "title": "new"}])
def test_agent_and_incognito_never_change(scroll, store_path, given):
    scroll.ensure_session("room 7", agent_id="ada", title="Room")
    before = contents(store_path)
    with pytest.raises(InvalidRequest):
        scroll.ensure_session("room 7", **given)
    assert contents(store_path) == before


def test_sessions_are_listed_with_the_last_written_first(scroll, operator):
    for name in ("a", "b", "c"):
        scroll.ensure_session(f"agent:{name}:main", title=name)
    scroll.append("agent:a:main", "user", "x", message_id="m1")
    listed = scroll.sessions(requester=operator)
    assert [one.title for one in listed] == ["a", "c", "b"]
    assert [one.title for one in scroll.sessions(requester=operator, limit=1, offset=1)] == ["c"]
    scroll.edit("agent:a:main", "m1", "y")
    scroll.reset("agent:b:main")
    assert [one.title for one in scroll.sessions(requester=operator)] == ["b", "a", "c"]


def test_an_old_message_time_does_not_make_its_session_look_idle(scroll, operator):
    scroll.ensure_session("agent:a:main")
    scroll.ensure_session("agent:b:main")
    scroll.append("agent:a:main", "user", "x", created_at=at(-1e9))
    listed = scroll.sessions(requester=operator)
    assert [one.session_key for one in listed] == ["agent:a:main", "agent:b:main"]
    assert all(one.updated_at >= one.created_at for one in listed)


def test_metadata_of_a_message_is_kept(scroll, talk):
    data = {"model": "x", "nested": {"list": [1, 2.5, True, None, "ü\ud83d"]}}
    stored = scroll.append(KEY, "user", "hello", message_id="m1", metadata=data)
    assert stored.metadata == {"model": "x", "nested": {"list": [1, 2.5, True, None, "ü\ufffd"]}}
    assert scroll.append(KEY, "user", "hello", message_id="m1") == stored


def test_an_incognito_session_is_stored_and_read_by_itself_alone(scroll, operator, store_path):
    scroll.ensure_session(KEY, incognito=True)
    scroll.append(KEY, "user", "heliotrope", message_id="m1")
    scroll.edit(KEY, "m1", "heliotrope 北京")
    scroll.append(KEY, "user", "heliotrope", message_id="m2")
    scroll.rewind(KEY, "m1")
    scroll.reindex()
    scroll.repair()
    assert said(scroll) == ["m1"]
    for requester in (operator, Requester(KEY), Requester("agent:main:other")):
        page = scroll.search("heliotrope", requester=requester)
        assert (page.hits, page.indexing, page.truncated) == ((), False, False)
    assert scroll.sessions(requester=operator) == []
    with pytest.raises(SessionNotFound):
        scroll.history(KEY, requester=operator)
    assert contents(store_path)["backscroll_message_index_docsize"] == []
