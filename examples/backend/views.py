"""Turns what the chat answers into pages. Templates escape all that they are given; marks are put in by them alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlencode

from fastapi import Request, Response
from fastapi.templating import Jinja2Templates

from backscroll import EmptyQuery, SearchPage
from examples.backend.chat import Chat
from examples.backend.models import Conversation

QUERY_CHARS = 200
_ERRORS = {
    HTTPStatus.NOT_FOUND: "There is no such page, or no such conversation.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "The request could not be read. A message may have 1 to 4,000 characters.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The database is busy. Nothing was changed; please try again.",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a conversation the user looks: at its end, around a message, or before one."""

    conversation: Conversation
    transcript: str | None = None
    message: str | None = None
    before: str | None = None


def marked(text: str, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[str, bool]]:
    """The pieces of `text` in order, each with whether it lies in one of the `spans`."""
    end = 0
    for start, stop in spans:
        yield text[end:start], False
        yield text[start:stop], True
        end = stop
    yield text[end:], False


def link(conversation: Conversation, fragment: str = "", **query: str | None) -> str:
    """The address of a conversation, or of a place in it."""
    given = urlencode({name: value for name, value in query.items() if value})
    return f"/conversations/{conversation.id}{'?' if given else ''}{given}{'#' if fragment else ''}{fragment}"


def shown(moment: datetime) -> str:
    """A time as readers see it."""
    return f"{moment.day} {moment:%b %Y, %H:%M} UTC"


_templates = Jinja2Templates(directory=Path(__file__).parent / "templates")
_templates.env.globals.update(link=link, marked=marked, query_chars=QUERY_CHARS)
_templates.env.filters["shown"] = shown
_templates.env.trim_blocks = _templates.env.lstrip_blocks = True


def sign_in_page(request: Request, *, name: str = "", status: HTTPStatus = HTTPStatus.OK) -> Response:
    """The form to sign in; any other status than OK says that name or password were wrong."""
    context = {"name": name, "wrong": status is not HTTPStatus.OK}
    return _templates.TemplateResponse(request, "sign_in.html", context, status_code=status)


def error_page(request: Request, status: HTTPStatus) -> Response:
    """The same page for every error of one status: it tells nothing of what there is."""
    context = {"status": status, "text": _ERRORS.get(status, status.description)}
    return _templates.TemplateResponse(request, "error.html", context, status_code=status)


def chat_page(request: Request, chat: Chat, q: str, place: Place | None = None, notice: str | None = None) -> Response:
    """The page, or, while the user types, the results alone."""
    q = q.strip()[:QUERY_CHARS]
    context = {"user": chat.user, "q": q, "notice": notice, "place": place, **_found(chat, q)}
    if request.headers.get("HX-Target") == "results":
        return _templates.TemplateResponse(request, "_results.html", context)
    context["conversations"] = chat.conversations()
    if place is not None:
        context["page"] = chat.read(
            place.conversation, transcript=place.transcript, message=place.message, before=place.before
        )
        context["versions"] = chat.versions(place.conversation)
    return _templates.TemplateResponse(request, "chat.html", context)


def _found(chat: Chat, q: str) -> dict[str, object]:
    """What the search found, and one sentence about it for eyes and ears."""
    if not q:
        return {"found": None, "status": ""}
    try:
        found = chat.search(q)
    except EmptyQuery:
        return {"found": None, "status": "Type a letter or a digit."}
    places = chat.by_key(hit.session_key for hit in found.hits)
    return {"found": found, "places": places, "status": _status(found)}


def _status(found: SearchPage) -> str:
    count = len(found.hits)
    if count == 0:
        return "Nothing found."
    return f"The {count} best messages of more." if found.truncated else f"{count} message{'s' if count > 1 else ''}."
