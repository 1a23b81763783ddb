"""Stored messages for the tests of searches, and what a page found."""

from backscroll import (
    Backscroll,
    NewMessage,
    Requester,
    SearchPage,
    SessionNotFound,
)
from tests.factories import at

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


def opens(scroll: Backscroll, key: str, requester: Requester, query: str | None = None) -> bool:
    try:
        if query is None:
            return bool(scroll.history(key, requester=requester).messages)
        return bool(scroll.search(query, requester=requester, session_key=key).hits)
    except SessionNotFound:
        return False
