"""A provider for tests: real sockets on loopback, three interfaces, and no patience with a wrong request.

It speaks OpenAI Chat, OpenAI Responses and Anthropic Messages to the official, unmodified clients. Every request is
checked as strictly as the providers check it; a violation is answered as they answer it and noted in `rejected`. What
it says is scripted, faults included. It counts tokens roughly and remembers prompts, as a prompt cache does.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, TypeAlias

from tests.models import strict_speech as speech
from tests.models.strict_messages import check_messages
from tests.models.strict_rules import Body, Refused, check_chat, check_responses, need
from tests.models.strict_speech import Cost, Event, Say
from turnfold import wire

ANTHROPIC, CHAT, RESPONSES = "anthropic", "openai_chat", "openai_responses"
PATHS = {
    "/v1/chat/completions": CHAT,
    "/v1/responses": RESPONSES,
    "/v1/responses/input_tokens": RESPONSES,
    "/v1/messages": ANTHROPIC,
    "/v1/messages/count_tokens": ANTHROPIC,
}
KIND_OF = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
}
KIND_OF |= {429: "rate_limit_error", 500: "api_error", 529: "overloaded_error"}


@dataclass(frozen=True)
class Refuse:
    """Answer with an error."""

    status: int
    message: str = "refused by the script"
    code: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Stall:
    """Say nothing more after so many events of a stream; 0: not even the first byte."""

    after: int = 0


@dataclass(frozen=True)
class Cut:
    """Break the connection after so many events of a stream, or in the middle of a whole answer."""

    say: Say
    after: int = 0
    politely: bool = False
    """Whether the body is ended properly, so that only the missing end of the answer shows the break."""


@dataclass(frozen=True)
class Trouble:
    """An error in the middle of a stream, after so many events."""

    say: Say
    after: int = 0
    kind: str = "overloaded_error"
    message: str = "Overloaded"


@dataclass(frozen=True)
class Raw:
    """Bytes as they are."""

    content: bytes
    media: str = "text/html"
    status: int = 200


Line: TypeAlias = Say | Refuse | Stall | Cut | Trouble | Raw
Script: TypeAlias = Sequence[Line] | Callable[[Body], Line]


@dataclass(frozen=True)
class Seen:
    """A request that came."""

    path: str
    body: Body
    headers: dict[str, str]


class StrictServer:
    """Runs while it is entered; `url` is where."""

    def __init__(self, script: Script = (), *, window: int = 1 << 40) -> None:
        self._script = script
        self._window = window
        self._lock = threading.Lock()
        self._prefixes: dict[str, set[str]] = {}
        self.seen: list[Seen] = []
        self.rejected: list[str] = []
        self.released = threading.Event()
        """Set when the server ends: whoever stalls goes home then."""
        self.stalled = threading.Event()
        """Set when a call is being kept waiting."""
        self.lines = 0

    def __enter__(self) -> Self:
        self._http = _Http(("127.0.0.1", 0), _Exchange)
        self._http.strict = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def line(self, body: Body) -> Line:
        """What to say to this request."""
        with self._lock:
            if callable(self._script):
                return self._script(body)
            at = self.lines
            self.lines += 1
            if at < len(self._script):
                return self._script[at]
        return Refuse(418, f"the script has {len(self._script)} lines")

    def check(self, provider: str, body: Body, *, counting: bool) -> Refuse | None:
        """Why this request is refused."""
        try:
            match provider:
                case "openai_chat":
                    check_chat(body)
                case "openai_responses":
                    check_responses(body)
                case _:
                    check_messages(body, counting=counting)
            need(not (faults := wire.lint(body, provider)), f"{faults}")
        except Refused as refused:
            self.rejected.append(str(refused))
            return Refuse(400, str(refused), code="invalid_value")
        tokens = roughly(body)
        if tokens > self._window:
            return Refuse(
                400, too_long(provider, tokens, self._window), code="context_length_exceeded"
            )
        return None

    def cost(self, provider: str, body: Body, say: Say) -> Cost:
        """What a call costs: prefixes seen before are read from the cache."""
        units = list(_units(provider, body))
        total = sum(roughly(unit) for unit, _ in units)
        marks = [at for at, (_, marked) in enumerate(units, 1) if marked or provider != ANTHROPIC]
        keys = [
            json.dumps([_unmarked(unit) for unit, _ in units[:at]], sort_keys=True) for at in marks
        ]
        sizes = [sum(roughly(unit) for unit, _ in units[:at]) for at in marks]
        with self._lock:
            known = self._prefixes.setdefault(f"{provider} {body['model']}", set())
            read = max(
                (size for key, size in zip(keys, sizes, strict=True) if key in known), default=0
            )
            known |= set(keys)
        written = (sizes[-1] if sizes else 0) - read if provider == ANTHROPIC else 0
        return Cost(total - read - written, read, written, roughly(say.text) + len(say.calls))


def too_long(provider: str, tokens: int, window: int) -> str:
    if provider == ANTHROPIC:
        return f"prompt is too long: {tokens} tokens > {window} maximum"
    if provider == RESPONSES:
        return "Your input exceeds the context window of this model. Please adjust your input and try again."
    return (
        f"This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} "
        "tokens. Please reduce the length of the messages."
    )


def roughly(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False)) // 4 + 1


def _units(provider: str, body: Body) -> Iterator[tuple[Any, bool]]:
    """The prompt in the order it is cached in, with the places that are marked to be cached."""
    yield body.get("tools", []), False
    for value in (body.get("system"), body.get("instructions")):
        if value is not None:
            yield value, "'cache_control'" in str(value)
    for message in body.get("input" if provider == RESPONSES else "messages", []):
        yield message, "'cache_control'" in str(message)


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unmarked(inner) for key, inner in value.items() if key != "cache_control"}
    if isinstance(value, list):
        if (
            len(value) == 1
            and isinstance(value[0], dict)
            and _unmarked(value[0]).keys() == {"type", "text"}
        ):
            return value[0]["text"]  # a lone text may be written either way
        return [_unmarked(inner) for inner in value]
    return value


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    strict: StrictServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is part of the tests; anything else is a fault of this server."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer waits 40 ms for the client's acknowledgement
    server: _Http  # pyright: ignore[reportIncompatibleVariableOverride] (nothing else makes one)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name it has
        """Nothing: what came is in `seen`."""

    def do_POST(self) -> None:
        body: Body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        path = self.path.partition("?")[0]
        strict = self.server.strict
        headers = {name.lower(): value for name, value in self.headers.items()}
        strict.seen.append(Seen(path, body, headers))
        provider = PATHS.get(path)
        if provider is None:
            return self._refuse(CHAT, Refuse(404, f"no such call: {path}"))
        if not (headers.get("x-api-key") or headers.get("authorization")):
            return self._refuse(provider, Refuse(401, "no key"))
        if provider == ANTHROPIC and "anthropic-version" not in headers:
            return self._refuse(provider, Refuse(400, "anthropic-version: header is required"))
        counting = path.endswith("tokens")
        refused = strict.check(provider, body, counting=counting)
        if refused is not None:
            return self._refuse(provider, refused)
        if counting:
            return self._json(
                200, {"input_tokens": roughly(body), "object": "response.input_tokens"}
            )
        return self._say(provider, body, strict.line(body))

    def _say(self, provider: str, body: Body, line: Line) -> None:
        match line:
            case Refuse():
                return self._refuse(provider, line)
            case Raw():
                return self._bytes(line.status, line.content, {"content-type": line.media})
            case Stall(after=0):
                return self._wait()
            case Stall():
                say = Say("a text that will never be whole, however long anybody waits for its end")
            case Say():
                say = line
            case Cut() | Trouble():
                say = line.say
        whole = _whole(provider, say, body, self.server.strict.cost(provider, body, say))
        if body.get("stream"):
            return self._stream(provider, _events(provider, whole, body), line)
        if isinstance(line, Cut):
            content = json.dumps(whole).encode()
            self._head(
                200, {"content-type": "application/json", "content-length": str(len(content))}
            )
            self.wfile.write(content[: len(content) // 2])
            return self._hang_up()
        return self._json(200, whole)

    def _stream(self, provider: str, events: Iterator[Event], line: Line) -> None:
        self._head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
        for at, event in enumerate(events):
            if not isinstance(line, Say) and at == line.after:  # type: ignore[union-attr]
                return self._fault(provider, line)
            self._event(*event)
        if provider == CHAT:
            self._chunk(b"data: [DONE]\n\n")
        return self._chunk(b"")

    def _fault(self, provider: str, line: Line) -> None:
        match line:
            case Stall():
                self._wait()
            case Cut(politely=True):
                self._chunk(b"")
            case Trouble():
                error = {"type": line.kind, "code": line.kind, "message": line.message}
                if provider == RESPONSES:
                    self._event("error", {**error, "type": "error", "sequence_number": 9})
                else:
                    self._event(
                        "error" if provider == ANTHROPIC else "", {"type": "error", "error": error}
                    )
                self._chunk(b"")
            case _:
                self._hang_up()

    def _wait(self) -> None:
        self.server.strict.stalled.set()
        self.server.strict.released.wait()
        self.close_connection = True

    def _hang_up(self) -> None:
        self.wfile.flush()
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def _refuse(self, provider: str, refusal: Refuse) -> None:
        kind = KIND_OF.get(refusal.status, "api_error")
        if provider == ANTHROPIC:
            body: Body = {
                "type": "error",
                "error": {"type": refusal.code or kind, "message": refusal.message},
            }
            if refusal.code in ("context_length_exceeded", "invalid_value"):
                body["error"]["type"] = kind
        else:
            error = {
                "message": refusal.message,
                "type": kind,
                "param": None,
                "code": refusal.code or None,
            }
            body = {"error": error}
        self._json(refusal.status, body, refusal.headers)

    def _json(self, status: int, body: Body, headers: dict[str, str] | None = None) -> None:
        content = json.dumps(body, ensure_ascii=False).encode()
        self._bytes(status, content, {"content-type": "application/json", **(headers or {})})

    def _bytes(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self._head(status, {**headers, "content-length": str(len(content))})
        self.wfile.write(content)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _event(self, name: str, data: Body) -> None:
        head = f"event: {name}\n" if name else ""
        written = f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
        half = len(written) // 2  # may fall within a character, as it does on a real line
        self._chunk(written[:half])
        self._chunk(written[half:])

    def _chunk(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
        self.wfile.flush()


def _whole(provider: str, say: Say, body: Body, cost: Cost) -> Body:
    match provider:
        case "openai_chat":
            return speech.chat_whole(say, body, cost)
        case "openai_responses":
            return speech.responses_whole(say, body, cost)
        case _:
            return speech.message_whole(say, body, cost)


def _events(provider: str, whole: Body, body: Body) -> Iterator[Event]:
    match provider:
        case "openai_chat":
            return speech.chat_events(whole, body)
        case "openai_responses":
            return speech.responses_events(whole)
        case _:
            return speech.message_events(whole)
