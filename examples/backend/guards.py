"""What stands before every route: no request from another site, and headers that keep the page to itself."""

from starlette.datastructures import URL, Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SAFE = {"GET", "HEAD", "OPTIONS"}
_HEADERS = {
    # Nothing inline, nothing from elsewhere.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Not no-referrer: a browser would then hide the origin of the site's own forms too.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class SameOrigin:
    """Refuses requests that change something unless the browser says that they come from this site's own pages."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in _SAFE or _from_here(scope):
            await self._app(scope, receive, send)
        else:
            refusal = PlainTextResponse("This request does not come from a page of this site.", status_code=403)
            await refusal(scope, receive, send)


def _from_here(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    # Browsers that do not say so name the origin; who names none is no browser, or hides something.
    url = URL(scope=scope)
    return headers.get("origin") == f"{url.scheme}://{url.netloc}"


class SecurityHeaders:
    """Adds the headers that hold for every answer; no answer but a static file may be kept by a browser or proxy."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                if not scope["path"].startswith("/static/"):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        await self._app(scope, receive, send_with_headers if scope["type"] == "http" else send)
