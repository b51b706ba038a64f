"""From a request to a page: the same gate as the API, then a screen, and around it headers that let nothing else run.

A browser that follows a link sends no Authorization header, so a token may also come in a cookie that no script can
read and no other site can make it send. Pages only read, so there is nothing a forged request could change.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import cache
from http.cookies import CookieError, SimpleCookie
from importlib.resources import files
from typing import Annotated, Final, cast
from urllib.parse import parse_qsl, unquote

import msgspec
from msgspec import Meta
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from turnfold.errors import AccessDenied, InvalidOption, NotFound, RequestRefused, TurnfoldError
from turnfold.service.answering import CALLER, OPERATION
from turnfold.service.events import session_events, tenant_events
from turnfold.service.inspector.asked import Screen, Viewing
from turnfold.service.inspector.frame import page, sign_in, wrong
from turnfold.service.inspector.markup import ROOT, Element, document
from turnfold.service.inspector.screens import SCREENS
from turnfold.service.inspector.words import LANGUAGES, Words, language_of
from turnfold.service.problems import problem_of
from turnfold.service.running import Beside
from turnfold.service.state import ServiceState
from turnfold.service.tokens import Caller, Right
from turnfold.stores.protocol import check_name

__all__ = ("ASSETS", "COOKIE", "HEADERS", "inspector_beside", "inspector_routes")

COOKIE: Final = "turnfold_token"
_LANGUAGE: Final = "turnfold_language"
_YEAR: Final = 365 * 24 * 3600
_LONGEST_FORM: Final = 4_096
_PAGE: Final = ("GET", "HEAD")
_ENDLESS: Final = ("GET",)
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
    "referrer-policy": "same-origin",  # with none at all a browser names no origin either, and a form is refused
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def inspector_routes(state: ServiceState) -> list[BaseRoute]:
    """Everything of the inspector, to be mounted beside the API."""
    routes: list[BaseRoute] = [Route(f"{ROOT}{each.path}", _Page(state, each)) for each in SCREENS]
    routes += [
        Route(f"{ROOT}/", _Answered(state, _PAGE, _home)),
        Route(f"{ROOT}/events", _Answered(state, _ENDLESS, _tenant_stream)),
        Route(f"{ROOT}/sessions/{{session}}/events", _Answered(state, _ENDLESS, _session_stream)),
        Route(f"{ROOT}/sign-in", _Answered(state, _FORM, _signed_in)),
        Route(f"{ROOT}/sign-out", _Answered(state, _FORM, _signed_out)),
        Route(f"{ROOT}/assets/{{name}}", _Answered(state, _PAGE, _asset)),
        Route(f"{ROOT}/{{rest:path}}", _Answered(state, _PAGE, _nowhere)),
    ]
    return routes


def inspector_beside(state: ServiceState) -> Beside:
    """The inspector, to be served beside the API."""
    return Beside(mounts=inspector_routes(state))


class _StreamChoice(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    after: Annotated[str, Meta(max_length=512)] = ""


class _Answered:
    """One path of the inspector; what goes wrong on it is a page too."""

    def __init__(
        self,
        state: ServiceState,
        methods: Collection[str],
        answer: Callable[[ServiceState, Request], Awaitable[Response]],
    ) -> None:
        self._state = state
        self._methods = methods
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        scope[OPERATION] = self.name
        try:
            self._check_method(scope["method"])
            answer = await self._answer(self._state, request)
        except TurnfoldError as error:
            answer = _refused(error, request)
        for name, value in HEADERS.items():
            answer.headers[name] = value
        await answer(scope, receive, send)

    @property
    def name(self) -> str:
        """What its requests are counted under."""
        return f"inspector{getattr(self._answer, '__name__', '')}"

    def _check_method(self, method: str) -> None:
        if method not in self._methods:
            raise RequestRefused(f"{method} is none of {', '.join(self._methods)}", status=405)


class _Page(_Answered):
    """One screen."""

    def __init__(self, state: ServiceState, screen: Screen) -> None:
        super().__init__(state, _PAGE, self._drawn)
        self._screen = screen

    @property
    def name(self) -> str:
        """What its requests are counted under."""
        return f"inspector_{self._screen.name}"

    async def _drawn(self, state: ServiceState, request: Request) -> Response:
        """The screen as a page."""
        caller = _caller(state, request, self._screen.right)
        given = _query(request)
        chosen = given.pop("lang", "")
        words = _words(request, chosen)
        view: Viewing[object] = Viewing(
            state=state,
            caller=caller,
            words=words,
            names=_names(request),
            choice=_choice(given, self._screen.choice),
        )
        shown = await self._screen.draw(view)
        here = list(given.items())
        answer = _html(page(shown, words, here=here, signed_in=bool(_cookie(request, COOKIE))))
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
    """Who asks, by header or by cookie; there is no other way in."""
    headers: Mapping[str, str] = request.headers
    if "authorization" not in headers and (token := _cookie(request, COOKIE)):
        headers = Headers({"authorization": f"Bearer {token}"})
    caller = request.scope[CALLER] = state.gate.caller(headers)
    caller.must(right)
    return caller


async def _home(_state: ServiceState, _request: Request) -> Response:
    return RedirectResponse(ROOT, 308)


async def _nowhere(_state: ServiceState, _request: Request) -> Response:
    raise NotFound("there is no such page")


async def _tenant_stream(state: ServiceState, request: Request) -> Response:
    caller = _caller(state, request, Right.READ)
    return tenant_events(state, caller, _resumed(request))


async def _session_stream(state: ServiceState, request: Request) -> Response:
    caller = _caller(state, request, Right.READ)
    name = _names(request)["session"]
    return session_events(state, caller, name, _resumed(request))


def _resumed(request: Request) -> str:
    """After which event a stream goes on: the last one that arrived, else what the page already shows."""
    choice = cast("_StreamChoice", _choice(_query(request), _StreamChoice))
    return request.headers.get("last-event-id", "") or choice.after


async def _signed_in(state: ServiceState, request: Request) -> Response:
    """Keep a token that is known in a cookie; who holds it is asked again with every request."""
    sent = b""
    async for piece in request.stream():
        sent += piece
        if len(sent) > _LONGEST_FORM:
            raise RequestRefused(f"a form of more than {_LONGEST_FORM:,} bytes", status=413)
    form = dict(parse_qsl(sent.decode("latin-1"), errors="replace"))
    token = form.get("token", "").strip()
    state.gate.caller({"authorization": f"Bearer {token}"}).must(Right.READ)
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


async def _signed_out(_state: ServiceState, request: Request) -> Response:
    answer = RedirectResponse(ROOT, 303)
    answer.delete_cookie(COOKIE, path=ROOT, httponly=True, samesite="strict")
    del request
    return answer


async def _asset(_state: ServiceState, request: Request) -> Response:
    name = request.path_params["name"]
    if name not in ASSETS:
        raise NotFound("there is no such file")
    return Response(_content(name), media_type=ASSETS[name], headers={"cache-control": "no-cache"})


@cache
def _content(name: str) -> bytes:
    return files("turnfold.service.inspector").joinpath("assets", name).read_bytes()


def _refused(error: TurnfoldError, request: Request) -> Response:
    """A page that says what was wrong; where a token is missing, the one that asks for it."""
    problem = problem_of(error)
    words = _words(request, "")
    if isinstance(error, AccessDenied) and problem.status == 401:
        tried = _cookie(request, COOKIE) or request.method == "POST"
        return _html(sign_in(words, refused=problem.detail if tried else ""), 401)
    drawn = wrong(words, title=problem.title, detail=problem.detail, request_id="")
    return _html(drawn, problem.status)


def _html(root: Element, status: int = 200) -> Response:
    return Response(document(root), status, media_type="text/html; charset=utf-8")


def _words(request: Request, chosen: str) -> Words:
    if chosen and chosen not in LANGUAGES:
        raise InvalidOption(f"lang={chosen[:20]!r} is none of {', '.join(LANGUAGES)}")
    kept = chosen or _cookie(request, _LANGUAGE)
    return Words(language_of(kept, request.headers.get("accept-language", "")))


def _cookie(request: Request, name: str) -> str:
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def _query(request: Request) -> dict[str, str]:
    text = cast("bytes", request.scope["query_string"]).decode("latin-1")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict")
    except (UnicodeError, ValueError):
        raise InvalidOption("what stands behind the question mark is not UTF-8") from None
    given = dict(pairs)
    if len(given) < len(pairs):
        raise InvalidOption("a parameter is given twice")
    return given


def _choice(given: Mapping[str, str], kind: type) -> object:
    try:
        return cast("object", msgspec.convert(given, kind, strict=False))
    except msgspec.ValidationError as error:
        raise InvalidOption(f"parameters: {error}") from None


def _names(request: Request) -> dict[str, str]:
    """What stands in the path; it comes percent-encoded, so a name may hold a slash."""
    found: dict[str, str] = {}
    for key, text in request.path_params.items():
        try:
            found[key] = unquote(text, errors="strict")
        except UnicodeDecodeError:
            raise InvalidOption("what stands percent-encoded here is not UTF-8") from None
        check_name(found[key], "conversation id" if key == "session" else key)
    return found
