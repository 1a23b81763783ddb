"""Makes the application: its database for as long as it runs, its routes, and a page for everything that goes wrong."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.staticfiles import StaticFiles
from sqlalchemy.exc import OperationalError
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from backscroll import InvalidRequest, SessionMismatch, SessionNotFound, StoreUnavailable
from examples.backend import account_routes, chat_routes
from examples.backend.chat import NotFound
from examples.backend.database import Database
from examples.backend.guards import SameOrigin, SecurityHeaders
from examples.backend.handling import SignInNeeded
from examples.backend.settings import BackendSettings
from examples.backend.views import error_page

_HERE = Path(__file__).parent


def create_app(settings: BackendSettings | None = None) -> FastAPI:
    """The application, for any ASGI server: `uvicorn --factory examples.backend.app:create_app`."""
    settings = settings or BackendSettings()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with Database(settings) as app.state.database:
            yield

    # No API pages: they would load scripts from elsewhere.
    app = FastAPI(title="Backscroll's example", lifespan=lifespan, openapi_url=None)
    app.state.settings = settings
    app.include_router(account_routes.router)
    app.include_router(chat_routes.router)
    htmx = str(files("django_htmx") / "static" / "django_htmx")
    app.mount("/static/htmx", StaticFiles(directory=htmx), name="htmx")
    app.mount("/static", StaticFiles(directory=_HERE / "static"), name="static")
    app.add_middleware(SameOrigin)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=settings.allowed_hosts)
    app.add_middleware(SecurityHeaders)
    _answer_errors(app)
    return app


def _answer_errors(app: FastAPI) -> None:
    """Gives every error that is expected its page; any other stays a bare 500 and goes to the server's log."""
    statuses = {
        NotFound: HTTPStatus.NOT_FOUND,
        SessionNotFound: HTTPStatus.NOT_FOUND,
        SessionMismatch: HTTPStatus.NOT_FOUND,
        InvalidRequest: HTTPStatus.UNPROCESSABLE_ENTITY,
        RequestValidationError: HTTPStatus.UNPROCESSABLE_ENTITY,
    }

    def answer(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            return error_page(request, HTTPStatus(error.status_code))
        return error_page(request, next(status for kind, status in statuses.items() if isinstance(error, kind)))

    def answer_lock(request: Request, error: Exception) -> Response:
        if not _is_locked(error):
            raise error
        return error_page(request, HTTPStatus.SERVICE_UNAVAILABLE)

    def send_to_sign_in(request: Request, _error: Exception) -> Response:
        if "HX-Request" in request.headers:
            # htmx would put the page that it is redirected to into the results.
            return Response(headers={"HX-Redirect": "/sign-in"})
        return RedirectResponse("/sign-in", HTTPStatus.SEE_OTHER)

    for kind in (*statuses, HTTPException):
        app.add_exception_handler(kind, answer)
    for kind in (StoreUnavailable, OperationalError):
        app.add_exception_handler(kind, answer_lock)
    app.add_exception_handler(SignInNeeded, send_to_sign_in)


def _is_locked(error: Exception) -> bool:
    """Whether the database was only busy, for Backscroll or the backend itself: the same request may succeed later."""
    if isinstance(error, StoreUnavailable):
        return error.locked
    code = getattr(getattr(error, "orig", None), "sqlite_errorcode", 0)
    return bool(code & 0xFF == sqlite3.SQLITE_BUSY)
