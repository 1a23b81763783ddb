"""The routes of signing in and out."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from examples.backend import accounts
from examples.backend.database import Database
from examples.backend.handling import COOKIE, see
from examples.backend.views import sign_in_page

router = APIRouter()


@router.get("/sign-in")
def ask(request: Request) -> Response:
    """The form."""
    return sign_in_page(request)


@router.post("/sign-in")
def sign_in(
    request: Request,
    name: Annotated[str, Form(max_length=64)],
    password: Annotated[str, Form(max_length=1000)],
) -> Response:
    """Gives the browser a cookie, or the form again."""
    database: Database = request.app.state.database
    # A guess costs time on purpose; it is spent before the write lock is taken.
    with database.transaction(writing=False) as (db, _):
        user = accounts.authenticated(db, name, password)
    if user is None:
        return sign_in_page(request, name=name, status=HTTPStatus.UNAUTHORIZED)
    with database.transaction(writing=True) as (db, _):
        token = accounts.sign_in(db, user)
    answer = see("/")
    answer.set_cookie(
        COOKIE,
        token,
        max_age=int(accounts.LIFETIME.total_seconds()),
        httponly=True,
        samesite="lax",
        secure=request.app.state.settings.secure_cookies,
    )
    return answer


@router.post("/sign-out")
def sign_out(request: Request) -> Response:
    """Ends the session here and in the browser."""
    database: Database = request.app.state.database
    with database.transaction(writing=True) as (db, _):
        accounts.sign_out(db, request.cookies.get(COOKIE, ""))
    answer = see("/sign-in")
    answer.delete_cookie(COOKIE, httponly=True, samesite="lax")
    return answer
