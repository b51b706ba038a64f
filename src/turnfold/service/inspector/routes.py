"""Routes of the inspector: authorization as in the API, rendering of a screen, and strict security headers.

A browser that follows a link sends no Authorization header, so the token may also be in a cookie that scripts cannot
read and other sites cannot send. Pages are read-only, so a forged request could not change anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import cache
from http.cookies import CookieError, SimpleCookie
from importlib.resources import files
from typing import Final, cast
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from turnfold.api import EventsQuery, Right, problem_of
from turnfold.errors import AccessDenied, InvalidOption, NotFound, RequestRefused, TurnfoldError
from turnfold.service.auth import Caller, LocalAccess
from turnfold.service.endpoint import (
    CALLER,
    OPERATION,
    decode_query,
    method_not_allowed,
    path_params,
    query_params,
)
from turnfold.service.events import session_events, tenant_events
from turnfold.service.inspector.html import ROOT, Element, document
from turnfold.service.inspector.labels import LANGUAGES, PageLabels, language_of
from turnfold.service.inspector.page import error_page, page, sign_in
from turnfold.service.inspector.screen_types import Screen, ScreenRequest
from turnfold.service.inspector.screens import SCREENS
from turnfold.service.server import ExtraRoutes
from turnfold.service.state import ServiceState

__all__ = (
    "ASSETS",
    "COOKIE",
    "HEADERS",
    "inspector_beside",
    "inspector_routes",
)


COOKIE: Final = "turnfold_token"
_FALLBACK: Final = "turnfold.language"
"""Key in the scope of a request: the language of pages for a client that asks for none."""
_LANGUAGE: Final = "turnfold_language"
_YEAR: Final = 365 * 24 * 3600
_LONGEST_FORM: Final = 4_096
_HTML: Final = "text/html; charset=utf-8"
_PAGE: Final = ("GET", "HEAD")
_ENDLESS: Final = ("GET",)
"""Methods of routes that must not accept HEAD: it would begin a stream, or use up a sign-in link."""
_FORM: Final = ("POST",)
ASSETS: Final[Mapping[str, str]] = {
    "icon.svg": "image/svg+xml",
    "inspector.css": "text/css; charset=utf-8",
    "inspector.js": "text/javascript; charset=utf-8",
}
HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'; "
        "require-trusted-types-for 'script'; trusted-types turnfold"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "same-origin",  # with no-referrer a browser sends Origin: null, and the sign-in form is refused
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def inspector_routes(state: ServiceState) -> list[BaseRoute]:
    """Return all routes of the inspector."""
    routes: list[BaseRoute] = [Route(f"{ROOT}{each.path}", _Page(state, each)) for each in SCREENS]
    routes += [
        Route(f"{ROOT}/", _Route(state, _PAGE, _home)),
        Route(f"{ROOT}/events", _Route(state, _ENDLESS, _tenant_stream)),
        Route(f"{ROOT}/sessions/{{session}}/events", _Route(state, _ENDLESS, _session_stream)),
        Route(f"{ROOT}/sign-in", _Route(state, _FORM, _signed_in)),
        Route(f"{ROOT}/open", _Route(state, _ENDLESS, _opened)),
        Route(f"{ROOT}/sign-out", _Route(state, _FORM, _signed_out)),
        Route(f"{ROOT}/assets/{{name}}", _Route(state, _PAGE, _asset)),
        Route(f"{ROOT}/{{rest:path}}", _Route(state, _PAGE, _not_found)),
    ]
    return routes


def inspector_beside(state: ServiceState) -> ExtraRoutes:
    """Return the routes of the inspector, to be mounted next to the API."""
    return ExtraRoutes(mounts=inspector_routes(state), home=ROOT)


class _Route:
    """ASGI application for one path of the inspector; its errors are shown as pages."""

    def __init__(
        self,
        state: ServiceState,
        methods: Collection[str],
        respond: Callable[[ServiceState, Request], Awaitable[Response]],
    ) -> None:
        self._state = state
        self._methods = methods
        self._respond = respond

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one HTTP request of the inspector; an error is shown as a page."""
        request = Request(scope, receive)
        scope[OPERATION] = self.name
        ring = self._state.gate.ring
        scope[_FALLBACK] = ring.language if isinstance(ring, LocalAccess) else ""
        try:
            if scope["method"] not in self._methods:
                raise method_not_allowed(scope["method"], ", ".join(self._methods))
            response = await self._respond(self._state, request)
        except TurnfoldError as error:
            local = isinstance(self._state.gate.ring, LocalAccess)
            response = _error_response(error, request, local=local)
        for name, value in HEADERS.items():
            response.headers[name] = value
        await response(scope, receive, send)

    @property
    def name(self) -> str:
        """Name of this route's requests in metrics and logs."""
        return f"inspector{getattr(self._respond, '__name__', '')}"


class _Page(_Route):
    """ASGI application for one page of the inspector."""

    def __init__(self, state: ServiceState, screen: Screen) -> None:
        super().__init__(state, _PAGE, self._render)
        self._screen = screen

    @property
    def name(self) -> str:
        """Name of this route's requests in metrics and logs."""
        return f"inspector_{self._screen.name}"

    async def _render(self, state: ServiceState, request: Request) -> Response:
        """Run the screen's function and return its result as an HTML page."""
        caller = _caller(state, request, self._screen.right)
        elsewhere = await state.passed_on(caller.tenant)
        if elsewhere is not None:
            return elsewhere
        given = query_params(request)
        chosen = given.pop("lang", "")
        words = _words(request, chosen)
        screen: ScreenRequest[object] = ScreenRequest(
            state=state,
            caller=caller,
            words=words,
            params=path_params(request),
            query=decode_query(given, self._screen.query),
        )
        async with state.slots.hold(caller.tenant, heavy=True):
            with state.costs.heavy(caller.tenant):
                shown = await self._screen.render(screen)
            here, signed_in = list(given.items()), bool(_cookie(request, COOKIE))

            def written() -> bytes:
                cut = words("the page is too long: the rest is not shown")
                return document(page(shown, words, here=here, signed_in=signed_in), cut=cut)

            content = await state.runtime(caller.tenant).compute(written)
        answer = Response(content, media_type=_HTML)
        if chosen:
            answer.set_cookie(
                _LANGUAGE,
                words.language,
                max_age=_YEAR,
                path=ROOT,
                httponly=True,
                samesite="strict",
            )
        return answer


def _caller(state: ServiceState, request: Request, right: Right) -> Caller:
    """Return the caller of a request, by its access token (header or cookie); `AccessDenied` without the right."""
    headers: Mapping[str, str] = request.headers
    if "authorization" not in headers and (token := _cookie(request, COOKIE)):
        headers = Headers({"authorization": f"Bearer {token}"})
    caller = request.scope[CALLER] = state.gate.caller(headers)
    caller.require(right)
    return caller


async def _home(_state: ServiceState, _request: Request) -> Response:
    return RedirectResponse(ROOT, 308)


async def _not_found(_state: ServiceState, _request: Request) -> Response:
    raise NotFound("the inspector has no such page")


async def _tenant_stream(state: ServiceState, request: Request) -> Response:
    caller = _caller(state, request, Right.READ)
    return tenant_events(state, caller, _after(request))


async def _session_stream(state: ServiceState, request: Request) -> Response:
    caller = _caller(state, request, Right.READ)
    name = path_params(request)["session"]
    return session_events(state, caller, name, _after(request))


def _after(request: Request) -> str:
    """Return the id of the event after which a stream continues.

    It is the last event that the browser received; if it has received none, the newest one on the page.
    """
    query = cast("EventsQuery", decode_query(query_params(request), EventsQuery))
    return request.headers.get("last-event-id", "") or query.after


async def _signed_in(state: ServiceState, request: Request) -> Response:
    """Sign a browser in: check the access token in the form and set it as a cookie; every request checks it again."""
    sent = b""
    async for piece in request.stream():
        sent += piece
        if len(sent) > _LONGEST_FORM:
            raise RequestRefused(f"the form is larger than {_LONGEST_FORM:,} bytes", status=413)
    form = dict(parse_qsl(sent.decode("latin-1"), errors="replace"))
    token = form.get("token", "").strip()
    state.gate.caller({"authorization": f"Bearer {token}"}).require(Right.READ)
    return _with_token(request, token)


async def _opened(state: ServiceState, request: Request) -> Response:
    """Sign in the browser that opens a sign-in link first, if the service has no token file."""
    local = state.gate.ring
    if not isinstance(local, LocalAccess):
        raise NotFound("the inspector has no such page")
    return _with_token(request, local.use(query_params(request).get("key", "")))


def _with_token(request: Request, token: str) -> Response:
    """Return a redirect to the first page that sets a cookie with the token."""
    answer = RedirectResponse(ROOT, 303)
    answer.set_cookie(
        COOKIE,
        token,
        path=ROOT,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


async def _signed_out(_state: ServiceState, _request: Request) -> Response:
    answer = RedirectResponse(ROOT, 303)
    answer.delete_cookie(COOKIE, path=ROOT, httponly=True, samesite="strict")
    return answer


async def _asset(_state: ServiceState, request: Request) -> Response:
    name = request.path_params["name"]
    if name not in ASSETS:
        raise NotFound(
            f"the inspector has no file {name[:100]!r}; its files are {', '.join(ASSETS)}"
        )
    return Response(_content(name), media_type=ASSETS[name], headers={"cache-control": "no-cache"})


@cache
def _content(name: str) -> bytes:
    return files("turnfold.service.inspector").joinpath("assets", name).read_bytes()


def _error_response(error: TurnfoldError, request: Request, *, local: bool) -> Response:
    """Return an error page, or the sign-in page if a token is missing.

    `local` says that the service prints sign-in links.
    """
    problem = problem_of(error)
    chosen = request.query_params.get("lang", "")
    words = _words(request, chosen if chosen in LANGUAGES else "")
    if isinstance(error, AccessDenied) and problem.status == 401:
        tried = _cookie(request, COOKIE) or request.method == "POST" or request.query_params
        detail = problem.detail if tried else ""
        if local and request.url.path == f"{ROOT}/open":
            detail = words(
                "This link was used before. Open the newest link that the command printed, or run turnfold ui again."
            )
            shown = error_page(words, title=words("sign in"), detail=detail, request_id="")
            return _html(shown, 401)
        return _html(sign_in(words, refused=detail, local=local), 401)
    shown = error_page(words, title=problem.title, detail=problem.detail, request_id="")
    return _html(shown, problem.status)


def _html(root: Element, status: int = 200) -> Response:
    return Response(document(root), status, media_type=_HTML)


def _words(request: Request, chosen: str) -> PageLabels:
    if chosen and chosen not in LANGUAGES:
        raise InvalidOption(f"lang={chosen[:20]!r} is not one of {', '.join(LANGUAGES)}")
    preferred = chosen or _cookie(request, _LANGUAGE)
    accepted = request.headers.get("accept-language", "") or request.scope.get(_FALLBACK, "")
    return PageLabels(language_of(preferred, accepted))


def _cookie(request: Request, name: str) -> str:
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""
