"""Finding: hits, their orders and bounds, filters, and transcripts that wait for the index."""

import random

import pytest

from backscroll import (
    Requester,
    Role,
)
from backscroll.domain.query import Match, Query
from backscroll.infrastructure import fts
from backscroll.infrastructure.settings import BoundsSettings
from tests.factories import at
from tests.search.searching import KEY, names, store


def test_a_hit_tells_everything_that_reopening_needs(scroll, operator):
    store(scroll, KEY, {"u1": "alpha", "a2": "beta"})
    (hit,) = scroll.search("beta", requester=operator).hits
    session_id = scroll.ensure_session(KEY).session_id
    assert (hit.session_key, hit.session_id, hit.message_id, hit.role) == (KEY, session_id, "a2", Role.ASSISTANT)
    assert hit.timestamp == at(1)
    assert hit.timestamp.utcoffset().total_seconds() == 0
    assert (hit.excerpt, hit.highlights) == ("beta", ((0, 4),))
    page = scroll.history(hit.session_key, requester=operator, session_id=hit.session_id, message_id=hit.message_id)
    assert hit.message_id in [message.message_id for message in page.messages]


def test_relevance_puts_the_better_match_first(scroll, operator):
    store(scroll, KEY, {"u1": "cobalt cobalt cobalt", "u2": "one cobalt among very many other words of a long message"})
    page = scroll.search("cobalt", requester=operator)
    assert names(page) == ["u1", "u2"]
    assert page.hits[0].score > page.hits[1].score


@pytest.mark.parametrize("order", ["relevance", "newest"])
def test_ties_break_by_time_then_by_the_later_stored(scroll, look, order):
    scroll.ensure_session(KEY)
    for name, seconds in {"u1": 5, "u2": 9, "u3": 5, "u4": 1}.items():
        scroll.append(KEY, "user", "granite", message_id=name, created_at=at(seconds))
    assert look("granite", order=order) == ["u2", "u3", "u1", "u4"]


def test_newest_orders_by_time_whatever_matches_better(scroll, look):
    scroll.ensure_session(KEY)
    scroll.append(KEY, "user", "cobalt among other words", message_id="u1", created_at=at(9))
    scroll.append(KEY, "user", "cobalt cobalt", message_id="u2", created_at=at(1))
    assert look("cobalt", order="newest") == ["u1", "u2"]
    assert look("cobalt", order="relevance") == ["u2", "u1"]


def test_truncated_says_that_more_messages_match(scroll, operator):
    store(scroll, KEY, {f"u{number}": "granite" for number in range(12)})
    page = scroll.search("granite", requester=operator)
    assert (len(page.hits), page.truncated) == (10, True)
    page = scroll.search("granite", requester=operator, limit=11, order="newest")
    assert (len(page.hits), page.truncated) == (11, True)
    for limit in (12, 25):
        page = scroll.search("granite", requester=operator, limit=limit)
        assert (len(page.hits), page.truncated) == (12, False)


def test_the_rank_bound_ranks_the_newest_matches(open_store, operator):
    scroll = open_store(rank_bound=25)
    store(scroll, KEY, {"u0": "cobalt cobalt cobalt"} | {f"u{n}": "cobalt and some other words" for n in range(1, 26)})
    assert "u0" not in names(scroll.search("cobalt", requester=operator, limit=25))
    assert names(scroll.search("cobalt", requester=operator, limit=25))[0] == "u25"
    assert "u0" in names(scroll.search("cobalt", requester=operator, until=at(10), limit=25))


def test_of_more_matches_than_are_all_ranked_the_newest_are(open_store, operator):
    scroll = open_store(rank_bound=100)
    texts = {f"u{n}": "cobalt and some other words" for n in range(100)}
    store(scroll, KEY, {"best": "cobalt cobalt"} | texts)
    assert names(scroll.search("cobalt", requester=operator))[0] == "u99"
    scroll.append(KEY, "user", "cobalt cobalt", message_id="new")
    assert names(scroll.search("cobalt", requester=operator))[0] == "new"
    assert len(scroll.search("cobalt", requester=operator, limit=25).hits) == 25


@pytest.mark.parametrize("match", ["all", "any", "prefix"])
def test_matches_up_to_the_bound_are_ranked_as_fts5_ranks_them(open_store, operator, match):
    scroll = open_store()
    words = ["granite", "basalt", "mica", "gneiss", "gran", "ba", "säule", "评审", "x", "flint", "flinty", "chert"]
    weights = [9, 9, 9, 9, 3, 3, 9, 9, 9, 1, 1, 1]
    chance = random.Random(7)
    for agent in ("main", "ada"):
        said = {f"u{agent}{n}": " ".join(chance.choices(words, weights, k=chance.randint(1, 30))) for n in range(150)}
        store(scroll, f"agent:{agent}:main", said)
    several = (
        "granite",
        "basalt mica",
        '"granite basalt" x',
        "评审",
        "saule 审",
        '"mica mica"',
        "gneiss gran",
        "mica flint",
    )
    for asked in (*several, "flint chert"):
        phrases = Query.parse(asked, Match(match), 4_096)
        with scroll._searching._stores.of(KEY).reading() as unit:
            right = unit._transaction.connection.exec_driver_sql(
                f"SELECT m.message_id FROM {fts.INDEX} AS i JOIN backscroll_messages AS m ON m.id = i.rowid"
                f" WHERE {fts.INDEX} MATCH ? ORDER BY i.rank, m.created_at DESC, m.id DESC LIMIT 10",
                (fts.match_expression(phrases),),
            )
            expected = [row[0] for row in right]
        assert expected
        assert names(scroll.search(asked, requester=operator, match=match)) == expected


@pytest.mark.parametrize("most", [0, 3, 256])
def test_a_beginning_finds_the_same_whether_its_words_are_known_or_not(open_store, operator, monkeypatch, most):
    scroll = open_store(rank_bound=25)
    words = ["granite", "grand", "gran", "granité", "basalt", "a1", "s1", "s12", "评审", "评", "x"]
    chance = random.Random(5)
    for agent in ("main", "ada"):
        said = {f"u{agent}{n}": " ".join(chance.choices(words, k=chance.randint(1, 9))) for n in range(60)}
        store(scroll, f"agent:{agent}:main", said)
    asked = ["gran", "gra", "grand", "basalt gr", '"basalt gr"', "s", "a", "a1", "s1", "评", "x", "none", "gran s"]

    def answers():
        return [
            scroll.search(one, requester=operator, match="prefix", agents=agents)
            for one in asked
            for agents in (None, ["ada"])
        ]

    by_fts5 = answers()
    monkeypatch.setattr(fts, "_LARGE", 0)
    monkeypatch.setattr(fts, "_COMPLETIONS", most)
    assert answers() == by_fts5
    assert [len(one.hits) for one in by_fts5].count(0) == 2


@pytest.mark.parametrize("asked", ["a1", "s1", "a1 s1", '"s1 a1"', "s", "a", "granite a"])
@pytest.mark.parametrize("match", ["all", "any", "prefix"])
def test_what_looks_like_a_scope_token_is_a_word_like_any_other(scroll, look, asked, match):
    store(scroll, KEY, {"u0": "granite", "u1": "basalt a1b", "u2": "basalt s1b"})
    found = {"prefix": {"a": {"u1"}, "a1": {"u1"}, "s": {"u2"}, "s1": {"u2"}}, "any": {"granite a": {"u0"}}}
    assert set(look(asked, match=match)) == found.get(match, {}).get(asked, set())


def test_a_response_over_its_bytes_drops_hits_and_says_so(open_store, operator):
    scroll = open_store(bounds=BoundsSettings(search_bytes=1024))
    store(scroll, KEY, {f"u{number}": "granite " + "评审" * 140 for number in range(5)})
    page = scroll.search("granite", requester=operator)
    assert page.truncated
    assert 1 <= len(page.hits) < 5


# Filters.


def test_roles_since_until_agents_and_key_narrow_a_search(scroll, look):
    store(scroll, KEY, {"u1": "granite", "a2": "granite", "u3": "granite"})
    store(scroll, "agent:ada:main", {"u4": "granite"})
    store(scroll, "agent:ada:other", {"u5": "granite"})
    assert look("granite", roles=["assistant"]) == ["a2"]
    assert look("granite", roles=("user", "assistant"), session_key=KEY) == ["u3", "a2", "u1"]
    assert look("granite", session_key=KEY, since=at(1)) == ["u3", "a2"]
    assert look("granite", session_key=KEY, until=at(1)) == ["u1"]
    assert look("granite", session_key=KEY, since=at(1), until=at(2)) == ["a2"]
    assert look("granite", since=at(1), until=at(1)) == []
    assert set(look("granite", agents=["ada"])) == {"u4", "u5"}
    assert set(look("granite", agents={"ada", "main"})) == {"u1", "a2", "u3", "u4", "u5"}
    assert look("granite", agents=["ada"], session_key="agent:ada:other") == ["u5"]
    assert look("granite", agents=["ada"], session_key=KEY) == []
    assert look("granite", agents=["nobody"]) == look("granite", agents=[]) == []


def test_a_search_in_a_session_reaches_its_earlier_transcripts(scroll, look):
    store(scroll, KEY, {"u1": "granite"})
    scroll.reset(KEY, rotate=True)
    scroll.append(KEY, "user", "granite", message_id="u2")
    assert set(look("granite", session_key=KEY)) == {"u1", "u2"}


def test_exclude_current_leaves_out_what_the_requester_sees_now(scroll, look):
    store(scroll, KEY, {"u1": "granite", "u2": "granite", "u3": "granite"})
    scroll.reset(KEY, keep="u3")
    scroll.append(KEY, "user", "granite", message_id="u4")
    store(scroll, "agent:main:other", {"v1": "granite"})
    me = Requester(KEY)
    assert set(look("granite", requester=me)) == {"u1", "u2", "u3", "u4", "v1"}
    assert set(look("granite", requester=me, exclude_current=True)) == {"u1", "u2", "v1"}
    assert set(look("granite", requester=me, exclude_current=True, session_key=KEY)) == {"u1", "u2"}
    scroll.reset(KEY, rotate=True)
    assert set(look("granite", requester=me, exclude_current=True)) == {"u1", "u2", "u3", "u4", "v1"}
    stranger = Requester("agent:main:unstored")
    assert set(look("granite", requester=stranger, exclude_current=True)) == {"u1", "u2", "u3", "u4", "v1"}
    assert len(look("granite", exclude_current=True)) == 5


# Pending transcripts.


def test_indexing_says_that_a_visible_transcript_waits(open_store):
    scroll = open_store(inline_reindex_limit=0, visibility="agent")
    store(scroll, "agent:a:main", {"u1": "granite", "u2": "granite"})
    store(scroll, "agent:b:main", {"v1": "granite"})
    scroll.rewind("agent:a:main", "u1")
    a, b = Requester("agent:a:x"), Requester("agent:b:main")
    assert scroll.search("granite", requester=a).indexing
    assert scroll.search("nothing", requester=a).indexing
    assert scroll.search("granite", requester=Requester.operator(), session_key="agent:a:main").indexing
    assert not scroll.search("granite", requester=Requester.operator(), session_key="agent:b:main").indexing
    assert not scroll.search("granite", requester=b).indexing
    report = scroll.reindex()
    assert (report.transcripts, report.removed, report.failed) == (1, 1, ())
    assert not scroll.search("granite", requester=a).indexing
