"""What the routes share: the transaction of a request, and the user behind it."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Annotated

from fastapi import Form, Request
from fastapi.responses import RedirectResponse
from pydantic import BeforeValidator, StringConstraints

from examples.backend import accounts
from examples.backend.chat import Chat
from examples.backend.database import Database

COOKIE = "session"


def _lines(value: str) -> str:
    """Browsers send the ends of lines as two characters."""
    return value.replace("\r\n", "\n")


# No longer than what Backscroll shows of one message, so that an edit never starts from a shortened text.
Said = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4000), BeforeValidator(_lines), Form()
]


class SignInNeeded(Exception):
    """The browser is nobody's."""


@contextmanager
def chatting(request: Request) -> Iterator[Chat]:
    """The signed-in user's chat, in one transaction for all that the request does; raises `SignInNeeded`.

    It is entered in the route's own code, not as a dependency: the transaction then ends before the answer is sent,
    and no connection waits for a thread.
    """
    database: Database = request.app.state.database
    with database.transaction(writing=request.method != "GET") as (db, scroll):
        user = accounts.signed_in(db, request.cookies.get(COOKIE))
        if user is None:
            raise SignInNeeded
        yield Chat(db, scroll, user)


def see(path: str) -> RedirectResponse:
    """Sends the browser to a page after it has changed something, so that reloading repeats nothing."""
    return RedirectResponse(path, HTTPStatus.SEE_OTHER)
