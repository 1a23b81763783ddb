"""What a session key tells: the agent, and what kind of session it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backscroll.domain.errors import InvalidRequest
from backscroll.domain.keys import agent_for, agent_in_key, checked_key, kind_in_key
from backscroll.domain.model import SessionKind


@pytest.mark.parametrize(
    ("key", "agent"),
    [
        ("agent:A:main", "A"),
        ("agent:A:x:y:z", "A"),
        ("agent:a b:main", "a b"),
        ("agent:A: ", "A"),
        ("agent:agent:agent", "agent"),
        ("agent:A:", None),
        ("agent:A", None),
        ("agent::main", None),
        ("agent:", None),
        ("agent", None),
        ("Agent:A:main", None),
        (" agent:A:main", None),
        ("main", None),
        ("x:agent:A:main", None),
        (":", None),
    ],
)
def test_the_agent_is_the_second_word_of_a_key_that_begins_with_agent(key: str, agent: str | None) -> None:
    assert agent_in_key(key) == agent


@given(st.text(min_size=1, max_size=10).filter(lambda name: ":" not in name), st.text(min_size=1, max_size=10))
def test_the_agent_of_a_key_is_the_one_it_was_made_with(agent: str, rest: str) -> None:
    assert agent_in_key(f"agent:{agent}:{rest}") == agent


@given(st.text(max_size=20))
def test_any_string_is_asked_for_its_agent_and_kind_without_an_error(key: str) -> None:
    agent = agent_in_key(key)
    assert agent is None or key.startswith(f"agent:{agent}:")
    assert kind_in_key(key) in SessionKind


@pytest.mark.parametrize("key", [None, 7, b"k", "", "  ", "k" * 513, "a\x00b", "a\nb", "a\ud83d"])
def test_what_cannot_be_a_key_is_refused_by_the_name_of_the_argument(key: object) -> None:
    with pytest.raises(InvalidRequest, match=r"^session_key "):
        checked_key(key)
    with pytest.raises(InvalidRequest, match=r"^spawned_by "):
        checked_key(key, "spawned_by")


def test_a_key_of_512_characters_is_one_and_keys_are_exact() -> None:
    assert checked_key("k" * 512) == "k" * 512
    assert checked_key(" K ") == " K "


def test_the_owner_is_the_agent_in_the_key_or_the_one_given() -> None:
    assert agent_for("agent:A:main") == "A"
    assert agent_for("agent:A:main", "A") == "A"
    assert agent_for("custom", "A") == "A"


@pytest.mark.parametrize(
    ("key", "given_agent", "named"),
    [
        ("custom", None, "session_key 'custom' names no agent: .* or give agent_id"),
        ("agent:A:", None, "names no agent"),
        ("agent:A:main", "B", "agent_id 'B' contradicts the session_key, which names 'A'"),
        ("agent:A:main", "a", "contradicts"),
        ("agent:A:main", "", "^agent_id "),
        ("custom", "", "^agent_id must not be empty"),
        ("custom", 7, "^agent_id must be a string"),
        ("custom", "a" * 257, "^agent_id has 257 characters"),
        ("custom", "a\x00", "^agent_id "),
        ("agent: :main", None, "agent in session_key must not be empty"),
        (f"agent:{'a' * 257}:main", None, "agent in session_key has 257 characters"),
    ],
)
def test_a_session_without_a_possible_owner_is_refused(key: str, given_agent: object, named: str) -> None:
    with pytest.raises(InvalidRequest, match=named):
        agent_for(key, given_agent)


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("agent:A:main", SessionKind.MAIN),
        ("main", SessionKind.MAIN),
        ("agent:A:subagent:1234", SessionKind.SUBAGENT),
        ("agent:A:acp:1234", SessionKind.ACP),
        ("agent:A:cron:daily", SessionKind.CRON),
        ("cron:daily", SessionKind.CRON),
        ("agent:A:hook:1234", SessionKind.HOOK),
        ("agent:A:chat:group:1", SessionKind.GROUP),
        ("agent:A:chat:channel:1", SessionKind.GROUP),
        ("agent:A:chat:room:1:thread:2", SessionKind.GROUP),
        ("agent:A:chat:direct:1", SessionKind.DIRECT),
        ("agent:A:chat:dm:1", SessionKind.DIRECT),
        ("agent:A:chat:dm:1:thread:2", SessionKind.GROUP),
        ("agent:A:maintenance", SessionKind.OTHER),
        ("agent:main:other", SessionKind.OTHER),
        ("agent:group:other", SessionKind.OTHER),
        ("agent:cron:main", SessionKind.MAIN),
        ("anything", SessionKind.OTHER),
        ("", SessionKind.OTHER),
    ],
)
def test_the_kind_is_in_the_words_behind_the_agent(key: str, kind: SessionKind) -> None:
    assert kind_in_key(key) is kind
