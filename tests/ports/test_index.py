"""What every store promises through its ports: the index."""

from dataclasses import replace

from backscroll import (
    Message,
    Role,
    TextPart,
)
from backscroll.domain.paths import Stretch
from backscroll.domain.ports import SearchRequest, Store
from backscroll.domain.query import Match, Order, Query
from backscroll.domain.visibility import Scope
from tests.factories import MessageFactory, at
from tests.ports.repositories import EVERYTHING, NUMBERS, extended, named, stored


def request(query: str, **changes: object) -> SearchRequest:
    asked = SearchRequest(
        query=Query.parse(query, Match.ALL, 4_096),
        scope=EVERYTHING,
        session=None,
        agents=None,
        roles=(Role.USER, Role.ASSISTANT),
        since=None,
        until=None,
        order=Order.NEWEST,
        limit=10,
        leave_out=None,
    )
    return replace(asked, **changes)


def said(name: str, text: str, **fields: object) -> Message:
    return MessageFactory.build(message_id=name, parts=(TextPart(text),), **fields)


def found(store: Store, asked: SearchRequest) -> list[str]:
    with store.reading() as unit:
        return [one.message_id for one in unit.index.search(asked)]


def test_the_index_follows_messages_in_their_own_transaction(store, session):
    word = f"granite{next(NUMBERS)}"
    with store.writing() as unit:
        unit.messages.extend(unit.messages.line(session.session_id).branch, [said("m1", f"{word} 评审")])
        (match,) = unit.index.search(request(f"{word} 评审"))
        assert (match.session_key, match.message_id) == (session.session_key, "m1")
        assert match.text == f"{word} 评审"
        unit.messages.replace(replace(unit.messages.find(session.session_id, "m1"), parts=(TextPart("other"),)))
        assert unit.index.search(request(word)) == []
    assert found(store, request(word)) == []


def test_a_search_is_narrowed_by_each_of_its_fields(store):
    word = f"basalt{next(NUMBERS)}"
    one, two = stored(store), stored(store, agent_id=f"agent{next(NUMBERS)}")
    times = [at(0), at(1), at(2)]
    extended(store, one.session_id, *[said(f"a{n}", word, created_at=time) for n, time in enumerate(times)])
    extended(store, two.session_id, said("b0", word, role=Role.ASSISTANT, created_at=at(1.5)))
    assert found(store, request(word)) == ["a2", "b0", "a1", "a0"]
    assert found(store, request(word, session=one)) == ["a2", "a1", "a0"]
    assert found(store, request(word, agents=(two.agent_id,))) == ["b0"]
    assert found(store, request(word, roles=(Role.ASSISTANT,))) == ["b0"]
    assert found(store, request(word, since=at(1), until=at(2))) == ["b0", "a1"]
    assert found(store, request(word, limit=2)) == ["a2", "b0"]
    assert found(store, request(word, leave_out=(one.session_id, Stretch(2, 3)))) == ["b0", "a0"]
    assert found(store, request(word, scope=Scope(own_key=one.session_key))) == ["a2", "a1", "a0"]
    assert found(store, request(word, scope=Scope(own_key="nobody"))) == []
    assert sorted(found(store, request(word, order=Order.RELEVANCE))) == ["a0", "a1", "a2", "b0"]


def test_a_fresh_store_has_nothing_pending_and_agrees(store, session):
    extended(store, session.session_id, *named("m1", "m2"))
    with store.writing() as unit:
        assert unit.index.integrity() is None
        report = unit.index.verify(None)
        assert (report.problems, report.pending) == ((), 0)
        assert not unit.index.is_pending(request("granite"))
        assert not unit.index.is_pending(replace(request("granite"), session=session))
        assert unit.index.pending_count() == 0
        assert unit.index.claim("worker", at(0), at(5), []) is None
        assert not unit.index.held(at(0))
