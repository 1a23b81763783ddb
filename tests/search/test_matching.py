"""Finding: which words match, in any script, and what an excerpt shows of them."""

import pytest

from backscroll import (
    EmptyQuery,
    InvalidRequest,
)
from tests.factories import at
from tests.search.searching import KEY, store


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
