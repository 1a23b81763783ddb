"""Finding: what matches, in which order, within which filters and bounds, and for whom."""

import random
import shutil
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from backscroll import (
    Backscroll,
    EmptyQuery,
    InvalidRequest,
    NewMessage,
    Requester,
    Role,
    SearchPage,
    SessionNotFound,
    Visibility,
)
from backscroll.domain.model import Session
from backscroll.domain.query import Match, Query
from backscroll.domain.visibility import AgentToAgent, SandboxVisibility, VisibilityPolicy
from backscroll.infrastructure import fts
from backscroll.infrastructure.engine import create_engine
from backscroll.infrastructure.rows import SessionRow
from backscroll.infrastructure.scopes import narrow_tokens, scope_sql
from backscroll.infrastructure.settings import AgentToAgentSettings, BoundsSettings
from backscroll.infrastructure.statements import Statements
from backscroll.infrastructure.store import EngineStore
from tests.factories import OPTIONS, SessionFactory, at, opened

KEY = "agent:main:main"


def names(page: SearchPage) -> list[str]:
    return [hit.message_id for hit in page.hits]


def store(scroll: Backscroll, key: str, texts: dict[str, str], **session: object) -> None:
    """Messages by id, a second apart, the first of an `a` id said by the assistant."""
    scroll.ensure_session(key, **session)
    scroll.append_many(
        key,
        [
            NewMessage("assistant" if name[0] == "a" else "user", text, message_id=name, created_at=at(place))
            for place, (name, text) in enumerate(texts.items())
        ],
    )


@pytest.fixture
def look(scroll: Backscroll, operator: Requester):
    def search(query: str, **asked: object) -> list[str]:
        return names(scroll.search(query, **{"requester": operator, **asked}))

    return search


# What matches.


def test_all_words_must_match_in_any_order(scroll, look):
    store(scroll, KEY, {"u1": "book the ferry to Naxos", "u2": "book a table", "u3": "the ferry is late"})
    assert look("Naxos BOOK") == ["u1"]
    assert look("ferry table") == []
    assert set(look("ferry")) == {"u1", "u3"}


def test_any_word_matches_when_asked(scroll, look):
    store(scroll, KEY, {"u1": "alpha beta", "u2": "beta gamma", "u3": "delta"})
    assert set(look("alpha gamma", match="any")) == {"u1", "u2"}
    assert set(look('"beta gamma" delta', match="any")) == {"u2", "u3"}


def test_prefix_completes_the_last_word_only(scroll, look):
    store(scroll, KEY, {"u1": "ferry tickets", "u2": "ferries and tickets", "u3": "ferry tick"})
    assert set(look("ferry tick", match="prefix")) == {"u1", "u3"}
    assert set(look("tickets ferr", match="prefix")) == {"u1", "u2"}
    assert look("ferr tick") == []
    assert set(look('"ferry tick"', match="prefix")) == {"u1", "u3"}


def test_a_quoted_run_is_a_phrase(scroll, look):
    store(scroll, KEY, {"u1": "the red boat and a blue car", "u2": "the blue boat and a red car"})
    assert look('"red boat"') == ["u1"]
    assert look('"red car" blue') == ["u2"]
    assert set(look("red boat")) == {"u1", "u2"}
    assert look('"red boat') == look("boat red") != []


def test_words_are_found_whatever_their_case_and_accents(scroll, look):
    store(scroll, KEY, {"u1": "Crème BRÛLÉE à la carte", "u2": "cafe\u0301 au lait"})
    assert look("creme brulee") == look("CRÈME") == ["u1"]
    assert look("café") == look("cafe") == ["u2"]


def test_a_phrase_does_not_reach_from_one_message_into_the_next(scroll, look):
    store(scroll, KEY, {"u1": "ends with harbour", "u2": "lights begin"})
    assert look('"harbour lights"') == []


@pytest.mark.parametrize("query", ["", "   ", '"', '""', "-", "?!…", "\x00", "\ud83d", "()[]{}", "\U0001f600"])
def test_a_query_without_a_word_is_an_empty_query(scroll, look, query):
    with pytest.raises(EmptyQuery):
        look(query)


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("x" * 4097, {}),
        (7, {}),
        ("x", {"limit": 0}),
        ("x", {"limit": -1}),
        ("x", {"limit": 26}),
        ("x", {"match": "some"}),
        ("x", {"order": "oldest"}),
        ("x", {"roles": ["tool"]}),
        ("x", {"roles": ["user", "system"]}),
        ("x", {"roles": []}),
        ("x", {"roles": "user"}),
        ("x", {"agents": "main"}),
        ("x", {"agents": [""]}),
        ("x", {"since": at(0).replace(tzinfo=None)}),
        ("x", {"since": at(1), "until": at(0)}),
        ("x", {"session_key": ""}),
    ],
)
def test_a_search_that_cannot_be_is_refused(scroll, look, query, asked):
    with pytest.raises(InvalidRequest):
        look(query, **asked)


def test_everyday_punctuation_and_operator_words_mean_themselves(scroll, look):
    store(scroll, KEY, {"u1": "it's in src/app-main.py: DO NOT TOUCH, see #42, mail ops@example.org (50% done)"})
    for query in (
        "it's",
        "src/app-main.py",
        "app-main",
        "DO NOT TOUCH",
        "#42",
        "ops@example.org",
        "50%",
        "main.py:",
        "(50% done)",
        "touch NOT done",
        "^touch* -done",
    ):
        assert look(query) == ["u1"], query
        assert look(query, match="any") == ["u1"], query
        assert look(query, match="prefix") == ["u1"], query
    for query in ("NEAR", "C:\\x", "body:touch", "touch AND done", "main-app", "scope : s1"):
        assert look(query) == [], query
    with pytest.raises(EmptyQuery):
        look('"')
    pasted = "a paragraph, with (every) \"kind' of *punctuation*\nand lines\n" * 100
    with pytest.raises(InvalidRequest):
        look(pasted[:6000])
    assert look(pasted[:4096]) == []
    store(scroll, KEY, {"u2": pasted})
    assert look(pasted[:4096].rpartition(" ")[0]) == ["u2"]


def test_words_are_found_inside_text_without_spaces(scroll, look):
    store(
        scroll,
        KEY,
        {
            "zh": "后天上午我们检查备份策略",
            "ja": "明日は障害対応の打合せがあります",
            "th": "พรุ่งนี้ประชุมเรื่องสำรองข้อมูล",
            "ko": "백업정책을 검토했습니다",
        },
    )
    for query, expected in {
        "备份": "zh",
        "备份策略": "zh",
        "备份 策略": "zh",
        "份": "zh",
        "打合せ": "ja",
        "障害": "ja",
        "ประชุม": "th",
        "백업정책": "ko",
        "검토": "ko",
    }.items():
        assert look(query) == [expected], query
    assert set(look("备份 打合", match="any")) == {"zh", "ja"}
    assert look("策略备份") == look("份检") == []


def test_exact_spelling_in_any_case_is_found_and_excerpts_count_original_characters(scroll, look, operator):
    store(scroll, KEY, {"u1": "İstanbul ISPARTA Straße Paweł đường", "u2": "İ" * 300 + " needle tail"})
    for query in ("istanbul", "İSTANBUL", "isparta", "straße", "STRASSE", "Paweł", "PAWEŁ", "pawel", "đường", "ĐƯỜNG"):
        assert look(query) == ["u1"], query
    (hit,) = scroll.search("needle", requester=operator).hits
    assert "needle" in hit.excerpt
    assert [hit.excerpt[start:end] for start, end in hit.highlights] == ["needle"]


def test_composed_and_decomposed_text_meet_and_arabic_marks_do_not_matter(scroll, look, operator):
    decomposed = "\u1112\u116c\u110b\u1174\u1105\u1169\u11a8 \u110c\u1165\u11bc\u1105\u1175"
    store(scroll, KEY, {"u1": "كِتاب أحمد", "u2": decomposed, "u3": "cafe\u0301"})
    assert look("كتاب") == look("كِتاب") == ["u1"]
    assert look("أحمد") == ["u1"]
    assert look("회의록") == ["u2"]
    assert look("café") == ["u3"]
    shown = scroll.history(KEY, requester=operator).messages
    assert [message.text for message in shown] == ["كِتاب أحمد", decomposed, "cafe\u0301"]


def test_an_excerpt_shows_where_the_words_meet_and_is_bounded_in_characters(scroll, operator):
    long = "lease " + "filler words of no interest " * 100 + "the lease of the blue flat ends in May"
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 200
    store(
        scroll,
        KEY,
        {"u1": long, "u2": "x" * 200_000 + " needle " + "y" * 200_000, "u3": f"{family} thimble {family}"},
    )
    for query, words in (("blue lease", ("blue", "lease")), ("needle", ("needle",)), ("thimble", ("thimble",))):
        (hit,) = scroll.search(query, requester=operator).hits
        assert len(hit.excerpt) <= 300
        assert all(word in hit.excerpt for word in words)
        assert {hit.excerpt[start:end] for start, end in hit.highlights} == set(words)
        hit.excerpt.encode()
        assert not hit.excerpt.strip("…").startswith("\u200d")


# Hits, orders and bounds.


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


# Visibility.

FAMILY = {
    "agent:A:main": None,
    "agent:B:child1": "agent:A:main",
    "agent:A:child2": "agent:A:main",
    "agent:C:grand": "agent:B:child1",
    "agent:A:aunt": None,
    "agent:D:stranger": None,
}


@pytest.mark.parametrize("link", ["spawned_by", "owner"])
@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize(
    ("visibility", "expected"),
    [
        ("self", {"main": {"main"}, "child1": {"child1"}, "child2": {"child2"}, "grand": {"grand"}}),
        (
            "tree",
            {
                "main": {"main", "child1", "child2", "grand"},
                "child1": {"child1", "grand"},
                "child2": {"child2"},
                "grand": {"grand"},
            },
        ),
        (
            "agent",
            {
                "main": {"main", "child2", "aunt"},
                "child1": {"child1"},
                "child2": {"main", "child2", "aunt"},
                "grand": {"grand"},
            },
        ),
        ("all", {key: {one.split(":")[2] for one in FAMILY} for key in ("main", "child1", "child2", "grand")}),
    ],
)
def test_search_list_and_history_agree_on_who_sees_whom(open_store, visibility, expected, loop, link):
    scroll = open_store(visibility=visibility)
    for key, parent in FAMILY.items():
        store(scroll, key, {"u1": "marble"}, **{link: parent})
    if loop:
        # Upwards from a leaf that is nobody's ancestor in the table above; a loop must end and change nothing else.
        scroll.ensure_session("agent:D:stranger", **{link: "agent:D:stranger"})
        scroll.ensure_session("agent:A:aunt", **{link: "agent:A:aunt"})
    for key in FAMILY:
        name = key.split(":")[2]
        if name not in expected:
            continue
        me = Requester(key)
        found = {hit.session_key for hit in scroll.search("marble", requester=me).hits}
        listed = {one.session_key for one in scroll.sessions(requester=me)}
        opened = {other for other in FAMILY if opens(scroll, other, me)}
        searched = {other for other in FAMILY if opens(scroll, other, me, query="marble")}
        assert {one.split(":")[2] for one in found} == expected[name]
        assert found == listed == opened == searched


def test_a_loop_of_parents_ends(open_store):
    scroll = open_store(visibility="tree")
    store(scroll, "agent:A:one", {"u1": "marble"}, spawned_by="agent:C:three")
    store(scroll, "agent:B:two", {"u1": "marble"}, spawned_by="agent:A:one")
    store(scroll, "agent:C:three", {"u1": "marble"}, owner="agent:B:two")
    store(scroll, "agent:D:four", {"u1": "marble"})
    loop = {"agent:A:one", "agent:B:two", "agent:C:three"}
    for key in loop:
        assert {hit.session_key for hit in scroll.search("marble", requester=Requester(key)).hits} == loop
        assert {one.session_key for one in scroll.sessions(requester=Requester(key))} == loop


def opens(scroll: Backscroll, key: str, requester: Requester, query: str | None = None) -> bool:
    try:
        if query is None:
            return bool(scroll.history(key, requester=requester).messages)
        return bool(scroll.search(query, requester=requester, session_key=key).hits)
    except SessionNotFound:
        return False


def test_what_may_not_be_seen_uses_up_no_limit(open_store):
    scroll = open_store(visibility="agent", rank_bound=25)
    for number in range(4):
        store(scroll, f"agent:A:old{number}", {f"old{number}": "granite"})
    store(scroll, "agent:A:main", {f"own{number}": "granite" for number in range(60)})
    for number in range(3):
        store(scroll, f"agent:B:noisy{number}", {f"n{number}-{one}": "granite" for one in range(100)})
    for order in ("relevance", "newest"):
        page = scroll.search("granite", requester=Requester("agent:A:main"), limit=5, exclude_current=True, order=order)
        assert set(names(page)) == {f"old{number}" for number in range(4)}
        assert not page.truncated


@pytest.mark.parametrize("tokens", [True, False])
def test_holds_for_narrow_and_for_wide_scopes(open_store, tokens):
    # More sessions than the index is asked for by token: then the scope is joined.
    scroll = open_store(visibility="tree", rank_bound=25)
    children = 3 if tokens else 520
    store(scroll, "agent:A:main", {"own": "other"})
    for number in range(children):
        store(
            scroll, f"agent:B:child{number}", {f"c{number}": "granite" if number < 3 else "other"}, owner="agent:A:main"
        )
    store(scroll, "agent:B:noisy", {f"n{one}": "granite" for one in range(100)})
    page = scroll.search("granite", requester=Requester("agent:A:main"), limit=5)
    assert (set(names(page)), page.truncated) == ({"c0", "c1", "c2"}, False)


@pytest.mark.parametrize(
    ("between", "seen"),
    [
        ({"allow": ["B"]}, "A"),
        ({"allow": ["A", "B"]}, "A B"),
        ({"allow": ["B*"]}, "A"),
        ({"allow": ["A", "B*"]}, "A B B2"),
        ({"allow": ["*"]}, "A B B2"),
        ({"allow": []}, "A"),
        ({"allow": None}, "A B B2"),
        ({"enabled": False}, "A"),
        ({"enabled": False, "allow": ["*"]}, "A"),
        ({"allow": [["A", "B"]]}, "A B"),
        ({"allow": [["B", "A"]]}, "A"),
        ({"allow": [["A", "B2"], "B"]}, "A B2"),
        ({"allow": ["a", "b"]}, "A"),
    ],
)
def test_the_allow_list_asks_both_sides_and_exact_ids(open_store, between, seen):
    scroll = open_store(visibility="all", agent_to_agent=AgentToAgentSettings.model_validate(between))
    sessions = {agent: f"agent:{agent}:main" for agent in ("A", "B", "B2")}
    for key in sessions.values():
        store(scroll, key, {"u1": "granite"})
    me = Requester("agent:A:other")
    expected = {sessions[agent] for agent in seen.split()}
    assert {hit.session_key for hit in scroll.search("granite", requester=me).hits} == expected
    assert {one.session_key for one in scroll.sessions(requester=me)} == expected
    assert {key for key in sessions.values() if opens(scroll, key, me)} == expected
    assert {key for key in sessions.values() if opens(scroll, key, me, query="granite")} == expected


def test_an_incognito_session_is_in_no_answer(scroll, operator):
    store(scroll, KEY, {"u1": "granite heliotrope"}, incognito=True)
    store(scroll, "agent:main:other", {"v1": "granite"})
    scroll.repair()
    for requester in (operator, Requester(KEY), Requester("agent:main:other")):
        assert names(scroll.search("granite", requester=requester)) == ["v1"]
        assert names(scroll.search("heliotrope", requester=requester)) == []
    for requester in (operator, Requester("agent:main:other")):
        assert [one.session_key for one in scroll.sessions(requester=requester)] == ["agent:main:other"]
        with pytest.raises(SessionNotFound):
            scroll.search("heliotrope", requester=requester, session_key=KEY)
    assert names(scroll.search("heliotrope", requester=Requester(KEY), session_key=KEY)) == []
    assert opens(scroll, KEY, Requester(KEY))


@pytest.mark.parametrize("visibility", ["self", "tree", "agent", "all"])
def test_what_may_not_be_seen_reads_like_what_does_not_exist(open_store, visibility):
    scroll = open_store(visibility=visibility, agent_to_agent=AgentToAgentSettings(enabled=False))
    store(scroll, "agent:B:hidden", {"u1": "granite"})
    store(scroll, "agent:A:private", {"u1": "granite"}, incognito=True)
    session_id = scroll.ensure_session("agent:B:hidden").session_id
    me = Requester("agent:A:main")
    errors = set()
    for key in ("agent:B:hidden", "agent:A:private", "agent:B:never", session_id, "agent:b:hidden"):
        for attempt in (
            lambda key=key: scroll.history(key, requester=me),
            lambda key=key: scroll.history(key, requester=me, session_id=session_id, message_id="u1"),
            lambda key=key: scroll.history(key, requester=me, session_id="never"),
            lambda key=key: scroll.search("granite", requester=me, session_key=key),
            lambda key=key: scroll.search("nothing", requester=me, session_key=key),
        ):
            with pytest.raises(SessionNotFound) as raised:
                attempt()
            errors.add((type(raised.value), str(raised.value)))
    assert len(errors) == 1


@pytest.mark.parametrize("visibility", ["self", "tree", "agent", "all"])
@pytest.mark.parametrize("sandbox", ["spawned", "all"])
def test_a_sandboxed_requester_sees_itself_and_what_it_spawned_at_most(open_store, visibility, sandbox):
    scroll = open_store(visibility=visibility, sandbox_visibility=sandbox)
    for key, parent in FAMILY.items():
        store(scroll, key, {"u1": "marble"}, spawned_by=parent)

    def seen(sandboxed: bool) -> set[str]:
        me = Requester("agent:A:main", sandboxed=sandboxed)
        return {hit.session_key for hit in scroll.search("marble", requester=me).hits}

    tree = {"agent:A:main", "agent:B:child1", "agent:A:child2", "agent:C:grand"}
    spawned = {"self": {"agent:A:main"}, "agent": {"agent:A:main", "agent:A:child2"}}.get(visibility, tree)
    assert seen(True) == (spawned if sandbox == "spawned" else seen(False))
    assert seen(True) <= seen(False)


# The rule and its SQL.

AGENTS = ["A", "B", "B2", "C"]
SESSION_KEYS = [f"agent:{agent}:{rest}" for agent in AGENTS for rest in ("main", "x")] + ["room"]
PLACES = count()
PAIRS = st.tuples(st.sampled_from(AGENTS), st.sampled_from(AGENTS))


@st.composite
def stored_sessions(draw) -> list[Session]:
    keys = draw(st.lists(st.sampled_from(SESSION_KEYS), unique=True, min_size=1, max_size=6))
    parents = st.none() | st.sampled_from(SESSION_KEYS)
    return [
        SessionFactory.build(
            session_key=key,
            agent_id=key.split(":")[1] if ":" in key else draw(st.sampled_from(AGENTS)),
            spawned_by=draw(parents),
            owner=draw(parents),
            incognito=draw(st.sampled_from([False, False, False, True])),
        )
        for key in keys
    ]


POLICIES = st.builds(
    VisibilityPolicy,
    st.sampled_from(Visibility),
    st.builds(
        AgentToAgent,
        st.sampled_from([True, True, False]),
        st.none() | st.lists(st.sampled_from(["*", "A", "B", "B*", "*2"]) | PAIRS, max_size=3).map(tuple),
    ),
    st.sampled_from(SandboxVisibility),
)


@st.composite
def requesters(draw) -> Requester:
    if draw(st.integers(0, 7)) == 0:
        return Requester.operator()
    key = draw(st.sampled_from([*SESSION_KEYS, "agent:A:unstored", "nameless"]))
    agent = None if ":" in key else draw(st.none() | st.sampled_from(AGENTS))
    return Requester(key, agent_id=agent, sandboxed=draw(st.booleans()))


@pytest.fixture(scope="module")
def module_store(empty_store: Path) -> Iterator[EngineStore]:
    """The store below the facade; every example rolls back."""
    engine = create_engine(f"sqlite:///{empty_store}", busy_timeout=5, synchronous="NORMAL")
    yield EngineStore(engine, OPTIONS)
    engine.dispose()


@pytest.fixture(scope="module")
def property_stores(
    tmp_path_factory: pytest.TempPathFactory, empty_store: Path
) -> Iterator[dict[Visibility, Backscroll]]:
    """A store for each visibility."""
    path = tmp_path_factory.mktemp("visibility") / "store.db"
    shutil.copyfile(empty_store, path)
    stores = {visibility: opened(path, visibility=visibility) for visibility in Visibility}
    yield stores
    problems = stores[Visibility.ALL].verify().problems
    for store in stores.values():
        store.close()
    assert problems == ()


@settings(max_examples=60)
@given(stored=stored_sessions(), policy=POLICIES, requester=requesters())
def test_the_sql_of_a_scope_is_the_rule_itself(module_store, stored, policy, requester):
    scope = policy.scope(requester)
    below = scope.reach(stored)
    admitted = {one.session_key for one in stored if scope.admits(one, below)}
    with module_store.writing() as unit:
        for one in stored:
            unit.sessions.add(one, branch_id=f"branch{next(PLACES)}")
        connection = unit.sessions._transaction.connection
        allowed = scope_sql(Statements(connection), scope)
        rows = connection.execute(
            sa.text(f"SELECT s.session_key FROM backscroll_sessions AS s WHERE {allowed.condition}"), allowed.params
        )
        assert {key for (key,) in rows} == admitted
        assert {one.session_key for one in unit.sessions.listed(scope, 500, 0)} == admitted
        assert {key for key in SESSION_KEYS if unit.sessions.visible(key, scope)} == admitted
        if (tokens := narrow_tokens(Statements(connection), scope)) is not None:
            keys = dict(connection.execute(sa.select(SessionRow.session_key, SessionRow.id)).all())
            agents = dict(connection.execute(sa.select(SessionRow.session_key, SessionRow.agent_pk)).all())
            named = {key for key in keys if {f"s{keys[key]}", f"a{agents[key]}"} & set(tokens)}
            # By agent an incognito session is named too: it has no message in the index.
            private = {one.session_key for one in stored if one.incognito}
            assert named - private == admitted - private


def everything(pages: Iterable[SearchPage]) -> set[str]:
    return {hit.session_key for page in pages for hit in page.hits}


@settings(max_examples=25)
@given(stored=stored_sessions(), visibility=st.sampled_from(Visibility), requester=requesters())
def test_search_list_and_history_agree_with_the_rule(property_stores, stored, visibility, requester):
    scroll = property_stores[visibility]
    place = next(PLACES)

    def renamed(key: str | None) -> str | None:
        """The key in a name space of this example's own, with its agents."""
        if key is None or not key.startswith("agent:"):
            return None if key is None else f"{key} {place}"
        _, agent, rest = key.split(":")
        return f"agent:{agent}{place}:{rest}"

    sessions = [
        SessionFactory.build(
            session_key=renamed(one.session_key),
            agent_id=f"{one.agent_id}{place}",
            spawned_by=renamed(one.spawned_by),
            owner=renamed(one.owner),
            incognito=one.incognito,
        )
        for one in stored
    ]
    if requester.is_operator:
        me = requester
    else:
        agent = None if requester.agent_id is None else f"{requester.agent_id}{place}"
        me = Requester(renamed(requester.session_key), agent_id=agent, sandboxed=requester.sandboxed)
    for one in sessions:
        scroll.ensure_session(
            one.session_key, agent_id=one.agent_id, spawned_by=one.spawned_by, owner=one.owner, incognito=one.incognito
        )
        scroll.append(one.session_key, "user", f"marble{place}")
    scope = VisibilityPolicy(visibility).scope(me)
    below = scope.reach(sessions)
    admitted = {one.session_key for one in sessions if scope.admits(one, below)}
    incognito = {one.session_key for one in sessions if one.incognito}
    keys = [one.session_key for one in sessions]
    assert everything([scroll.search(f"marble{place}", requester=me, limit=25)]) == admitted - incognito
    assert {one.session_key for one in scroll.sessions(requester=me, limit=500)} & set(keys) == admitted
    assert {key for key in keys if opens(scroll, key, me)} == admitted
    assert {key for key in keys if opens(scroll, key, me, query=f"marble{place}")} == admitted - incognito
    for key in keys:
        scroll.delete_session(key)
