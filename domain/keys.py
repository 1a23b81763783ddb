"""Session keys: `agent:<agent_id>:<rest>`, or any other name together with an agent id."""

from backscroll.domain.errors import InvalidRequest
from backscroll.domain.model import SessionKind
from backscroll.domain.text import MAX_KEY, checked_name

_GROUP_WORDS = {"group", "channel", "room", "thread"}
_DIRECT_WORDS = {"direct", "dm"}
_FIRST_WORDS = {
    "main": SessionKind.MAIN,
    "subagent": SessionKind.SUBAGENT,
    "acp": SessionKind.ACP,
    "cron": SessionKind.CRON,
    "hook": SessionKind.HOOK,
}


def checked_key(value: object, what: str = "session_key") -> str:
    """`value` if it can be a session key; raises `InvalidRequest`."""
    return checked_name(value, what, MAX_KEY)


def agent_in_key(session_key: str) -> str | None:
    """The agent that an `agent:<agent_id>:<rest>` key names; None for any other key."""
    head, _, tail = session_key.partition(":")
    agent, colon, rest = tail.partition(":")
    return agent if head == "agent" and agent and colon and rest else None


def agent_for(session_key: str, given: object = None) -> str:
    """The agent that owns the session: from its key, or as given.

    Raises `InvalidRequest` when there is neither, or when both are there and differ.
    """
    named = agent_in_key(session_key)
    if given is None:
        if named is None:
            raise InvalidRequest(
                f"session_key {session_key!r} names no agent: use agent:<agent_id>:<rest>, or give agent_id"
            )
        return checked_name(named, "the agent in session_key")
    agent = checked_name(given, "agent_id")
    if named is not None and named != agent:
        raise InvalidRequest(f"agent_id {agent!r} contradicts the session_key, which names {named!r}")
    return agent


def kind_in_key(session_key: str) -> SessionKind:
    """The kind of session that the key's own words suggest; `OTHER` when they suggest none."""
    words = session_key.split(":")
    if agent_in_key(session_key) is not None:
        words = words[2:]
    if words[0] in _FIRST_WORDS:
        return _FIRST_WORDS[words[0]]
    if _GROUP_WORDS.intersection(words):
        return SessionKind.GROUP
    if _DIRECT_WORDS.intersection(words):
        return SessionKind.DIRECT
    return SessionKind.OTHER
