"""The routes of the one page, and of what its forms do. Every page takes `q`: search and reading go side by side."""

from urllib.parse import quote

from fastapi import APIRouter, Request, Response

from examples.backend.handling import Said, chatting, see
from examples.backend.views import Place, chat_page

router = APIRouter()


def _path(conversation_id: str) -> str:
    return f"/conversations/{quote(conversation_id, safe='')}"


@router.get("/")
def home(request: Request, q: str = "", deleted: bool = False) -> Response:
    """The conversations, and a form to start one."""
    with chatting(request) as chat:
        return chat_page(request, chat, q, notice="The conversation is deleted." if deleted else None)


@router.get("/conversations/{conversation_id}")
def show(
    request: Request,
    conversation_id: str,
    q: str = "",
    transcript: str | None = None,
    message: str | None = None,
    before: str | None = None,
) -> Response:
    """A conversation: its latest messages, those around a message, or those before one."""
    with chatting(request) as chat:
        place = Place(chat.conversation(conversation_id), transcript, message, None if message else before)
        return chat_page(request, chat, q, place)


@router.post("/conversations")
def start(request: Request, text: Said) -> Response:
    """Begins a conversation."""
    with chatting(request) as chat:
        conversation_id = chat.start(text).id
    return see(f"{_path(conversation_id)}#text")


@router.post("/conversations/{conversation_id}/messages")
def say(request: Request, conversation_id: str, text: Said) -> Response:
    """Says something, which the agent answers."""
    with chatting(request) as chat:
        chat.say(chat.conversation(conversation_id), text)
    return see(f"{_path(conversation_id)}#text")


@router.post("/conversations/{conversation_id}/messages/{message_id}")
def say_again(request: Request, conversation_id: str, message_id: str, text: Said) -> Response:
    """Says something else in the place of an earlier message."""
    with chatting(request) as chat:
        chat.say_again(chat.conversation(conversation_id), message_id, text)
    return see(f"{_path(conversation_id)}#text")


@router.post("/conversations/{conversation_id}/versions/{branch_id}")
def switch(request: Request, conversation_id: str, branch_id: str) -> Response:
    """Goes on with another version."""
    with chatting(request) as chat:
        chat.switch(chat.conversation(conversation_id), branch_id)
    return see(_path(conversation_id))


@router.post("/conversations/{conversation_id}/start-afresh")
def start_afresh(request: Request, conversation_id: str) -> Response:
    """Puts away what was said."""
    with chatting(request) as chat:
        chat.start_afresh(chat.conversation(conversation_id))
    return see(f"{_path(conversation_id)}#text")


@router.post("/conversations/{conversation_id}/delete")
def delete(request: Request, conversation_id: str) -> Response:
    """Deletes a conversation."""
    with chatting(request) as chat:
        chat.delete(chat.conversation(conversation_id))
    return see("/?deleted=true")
