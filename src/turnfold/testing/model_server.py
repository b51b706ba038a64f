"""A model provider for tests of an app: a local server that speaks Chat Completions, Responses and Messages.

The official SDKs talk to it unchanged, by their base URL; streaming works as it does with the providers. Its replies
come from a script, and so do its faults. A request that a provider would refuse is refused, and noted in `rejected`. It
counts tokens roughly, and reports the beginning of a prompt that it saw before as cached.
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
from typing import Any, Final, Self, TypeAlias, cast

from turnfold import wire
from turnfold.testing import model_replies as replies
from turnfold.testing.model_replies import Body, ModelReply, ReplyCost, ReplyEvent

__all__ = (
    "ANTHROPIC",
    "CHAT",
    "RESPONSES",
    "ModelServer",
    "ReplyBytes",
    "ReplyCut",
    "ReplyError",
    "ReplyItem",
    "ReplyScript",
    "ReplyStall",
    "ReplyTrouble",
    "ServedRequest",
    "rough_tokens",
)

ANTHROPIC: Final = "anthropic"
CHAT: Final = "openai_chat"
RESPONSES: Final = "openai_responses"
_PATHS: Final = {
    "/v1/chat/completions": CHAT,
    "/v1/responses": RESPONSES,
    "/v1/responses/input_tokens": RESPONSES,
    "/v1/messages": ANTHROPIC,
    "/v1/messages/count_tokens": ANTHROPIC,
}
_KINDS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
"""HTTP status of an error -> type of the error in the response body."""


@dataclass(frozen=True)
class ReplyError:
    """Script item of a model server: answer with an HTTP error instead of a reply."""

    status: int
    message: str = "refused by the script"
    code: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class ReplyStall:
    """Script item of a model server: stop sending after this many events; with 0, send not even the first byte."""

    after: int = 0


@dataclass(frozen=True)
class ReplyCut:
    """Script item of a model server: break the connection after some events of a stream, or within a whole reply."""

    reply: ModelReply
    after: int = 0
    politely: bool = False
    """True if the body is ended properly, so that only the missing end of the reply shows the break."""


@dataclass(frozen=True)
class ReplyTrouble:
    """Script item of a model server: send an error in the middle of a stream, after so many events."""

    reply: ModelReply
    after: int = 0
    kind: str = "overloaded_error"
    message: str = "Overloaded"


@dataclass(frozen=True)
class ReplyBytes:
    """Script item of a model server: answer with these bytes as the body, whatever they are."""

    content: bytes
    media: str = "text/html"
    status: int = 200


ReplyItem: TypeAlias = (
    str | ModelReply | ReplyError | ReplyStall | ReplyCut | ReplyTrouble | ReplyBytes
)
ReplyScript: TypeAlias = Sequence[ReplyItem] | Callable[[Body], ReplyItem]


@dataclass(frozen=True)
class ServedRequest:
    """A request that the test server got: path, headers, body."""

    path: str
    body: Body
    headers: dict[str, str]


class ModelServer:
    """Serves the items of a script as replies, one per request; `with ModelServer(["Hello!"]) as server:`.

    An item is a text, a `ModelReply` (with tool calls, for example) or a fault; a function from the body of the request
    to an item is asked for every request. The base URL is `server.url` for the SDK of Anthropic, and `server.base_url`
    for that of OpenAI; any key is accepted. A prompt of more than `window` tokens is refused as too long.
    With `port` 0 a free port is chosen.
    """

    def __init__(self, script: ReplyScript = (), *, window: int = 1 << 40, port: int = 0) -> None:
        self._script = script
        self._window = window
        self._port = port
        self._lock = threading.Lock()
        self._prefixes: dict[str, set[str]] = {}
        self.seen: list[ServedRequest] = []
        """All requests that the server has received so far."""
        self.rejected: list[str] = []
        """Why requests were refused that a provider would refuse, too."""
        self.released = threading.Event()
        """Set when the server ends; requests that a test keeps waiting are answered then."""
        self.stalled = threading.Event()
        """Set when a request is kept waiting."""
        self._used = 0

    def __enter__(self) -> Self:
        """Start the server on its port of this machine; on a free one if it has none."""
        self._http = _Http(("127.0.0.1", self._port), _Exchange)
        self._http.model = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the server, and end all requests that it keeps waiting."""
        self.released.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """The server's address, which is the base URL for the SDK of Anthropic."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def base_url(self) -> str:
        """The base URL for the SDK of OpenAI."""
        return f"{self.url}/v1"

    def next_item(self, body: Body) -> ReplyItem:
        """Return the next item of the script, the reply to this request."""
        with self._lock:
            if callable(self._script):
                try:
                    return self._script(body)
                except Exception as error:  # the program under test sees what its script raised
                    return ReplyError(500, f"the script raised {type(error).__name__}: {error}")
            at = self._used
            self._used += 1
            if at < len(self._script):
                return self._script[at]
        text = f"the script has {len(self._script)} items, and all were used: add items"
        return ReplyError(418, text)

    def problem(self, provider: str, request: ServedRequest, *, counting: bool) -> str:
        """Return why a provider would refuse a request; empty if it would not."""
        del counting
        return "; ".join(map(str, wire.lint(request.body, provider)))

    def refusal(
        self, provider: str, request: ServedRequest, *, counting: bool
    ) -> ReplyError | None:
        """Return the error with which a request is answered; None if it gets the next item of the script."""
        if problem := self.problem(provider, request, counting=counting):
            self.rejected.append(problem)
            return ReplyError(400, problem, code="invalid_value")
        tokens = rough_tokens(request.body)
        if tokens > self._window:
            text = _too_long(provider, tokens, self._window)
            return ReplyError(400, text, code="context_length_exceeded")
        return None

    def cost(self, provider: str, body: Body, reply: ModelReply) -> ReplyCost:
        """Return the tokens to report for a request; a beginning that was sent before counts as read from the cache."""
        units = list(_units(provider, body))
        total = sum(rough_tokens(unit) for unit, _ in units)
        marks = [at for at, (_, marked) in enumerate(units, 1) if marked or provider != ANTHROPIC]
        keys = [
            json.dumps([_unmarked(unit) for unit, _ in units[:at]], sort_keys=True) for at in marks
        ]
        sizes = [sum(rough_tokens(unit) for unit, _ in units[:at]) for at in marks]
        with self._lock:
            known = self._prefixes.setdefault(f"{provider} {body['model']}", set())
            read = max(
                (size for key, size in zip(keys, sizes, strict=True) if key in known), default=0
            )
            known |= set(keys)
        written = (sizes[-1] if sizes else 0) - read if provider == ANTHROPIC else 0
        return ReplyCost(
            total - read - written, read, written, rough_tokens(reply.text) + len(reply.calls)
        )


def _too_long(provider: str, tokens: int, window: int) -> str:
    if provider == ANTHROPIC:
        return f"prompt is too long: {tokens} tokens > {window} maximum"
    if provider == RESPONSES:
        return "Your input exceeds the context window of this model. Please adjust your input and try again."
    return (
        f"This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} "
        "tokens. Please reduce the length of the messages."
    )


def rough_tokens(value: object) -> int:
    """Return a rough number of tokens of a JSON value in a request."""
    return len(json.dumps(value, ensure_ascii=False)) // 4 + 1


def _units(provider: str, body: Body) -> Iterator[tuple[Any, bool]]:
    """Yield the parts of a prompt in caching order, each with True if it is marked as the end of a cached prefix."""
    yield body.get("tools", []), False
    for value in (body.get("system"), body.get("instructions")):
        if value is not None:
            yield value, "'cache_control'" in str(value)
    for message in body.get("input" if provider == RESPONSES else "messages", []):
        yield message, "'cache_control'" in str(message)


def _unmarked(value: object) -> object:
    """Return a part of a prompt without its cache marks, because they do not change what is cached."""
    if isinstance(value, dict):
        fields = cast("Body", value)
        return {key: _unmarked(inner) for key, inner in fields.items() if key != "cache_control"}
    if not isinstance(value, list):
        return value
    items = [_unmarked(inner) for inner in cast("list[object]", value)]
    if len(items) == 1 and isinstance(items[0], dict):
        alone = cast("Body", items[0])
        if alone.keys() == {"type", "text"}:
            return alone["text"]  # a lone text may be written either way
    return items


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    model: ModelServer

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that went away; anything else is a fault of this server."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(cast("Any", request), client_address)


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer waits 40 ms for the client's acknowledgement
    server: _Http  # pyright: ignore[reportIncompatibleVariableOverride] (nothing else makes one)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name it has
        """Log nothing: the server's requests are in `ModelServer.seen`."""

    def do_POST(self) -> None:
        """Answer one request: with an item of the script, or with the error that a provider would send."""
        body: Body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        path, model = self.path.partition("?")[0], self.server.model
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = ServedRequest(path, body, headers)
        model.seen.append(request)
        provider = _PATHS.get(path)
        if provider is None:
            return self._refuse(CHAT, ReplyError(404, f"no such call: {path}"))
        if not (headers.get("x-api-key") or headers.get("authorization")):
            return self._refuse(provider, ReplyError(401, "no key"))
        counting = path.endswith("tokens")
        refused = model.refusal(provider, request, counting=counting)
        if refused is not None:
            return self._refuse(provider, refused)
        if counting:
            found = {"input_tokens": rough_tokens(body), "object": "response.input_tokens"}
            return self._json(200, found)
        return self._reply(provider, body, model.next_item(body))

    def _reply(self, provider: str, body: Body, item: ReplyItem) -> None:
        match item:
            case ReplyError():
                return self._refuse(provider, item)
            case ReplyBytes():
                return self._bytes(item.status, item.content, {"content-type": item.media})
            case ReplyStall(after=0):
                return self._wait()
            case ReplyStall():
                reply = ModelReply(
                    "a text whose end never comes, however long a client waits for it"
                )
            case str():
                reply = ModelReply(item)
            case ModelReply():
                reply = item
            case ReplyCut() | ReplyTrouble():
                reply = item.reply
        whole = _whole(provider, reply, body, self.server.model.cost(provider, body, reply))
        if body.get("stream"):
            return self._stream(provider, _events(provider, whole, body), item)
        if isinstance(item, ReplyCut):
            content = json.dumps(whole).encode()
            self._head(
                200, {"content-type": "application/json", "content-length": str(len(content))}
            )
            self.wfile.write(content[: len(content) // 2])
            return self._hang_up()
        return self._json(200, whole)

    def _stream(self, provider: str, events: Iterator[ReplyEvent], item: ReplyItem) -> None:
        fault = item if isinstance(item, ReplyStall | ReplyCut | ReplyTrouble) else None
        self._head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
        for at, event in enumerate(events):
            if fault is not None and at == fault.after:
                return self._fail(provider, fault)
            self._event(*event)
        if provider == CHAT:
            self._chunk(b"data: [DONE]\n\n")
        return self._chunk(b"")

    def _fail(self, provider: str, fault: ReplyStall | ReplyCut | ReplyTrouble) -> None:
        match fault:
            case ReplyStall():
                self._wait()
            case ReplyCut(politely=True):
                self._chunk(b"")
            case ReplyTrouble():
                error = {"type": fault.kind, "code": fault.kind, "message": fault.message}
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
        self.server.model.stalled.set()
        self.server.model.released.wait()
        self.close_connection = True

    def _hang_up(self) -> None:
        self.wfile.flush()
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def _refuse(self, provider: str, refusal: ReplyError) -> None:
        kind = _KINDS.get(refusal.status, "api_error")
        if provider == ANTHROPIC:
            body: Body = {
                "type": "error",
                "error": {"type": refusal.code or kind, "message": refusal.message},
            }
            if refusal.code in ("context_length_exceeded", "invalid_value"):
                body["error"]["type"] = kind
            if refusal.code.startswith("compaction_"):
                body["error"] |= {"type": kind, "details": {"error_code": refusal.code}}
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


def _whole(provider: str, reply: ModelReply, body: Body, cost: ReplyCost) -> Body:
    match provider:
        case "openai_chat":
            return replies.chat_whole(reply, body, cost)
        case "openai_responses":
            return replies.responses_whole(reply, body, cost)
        case _:
            return replies.message_whole(reply, body, cost)


def _events(provider: str, whole: Body, body: Body) -> Iterator[ReplyEvent]:
    match provider:
        case "openai_chat":
            return replies.chat_events(whole, body)
        case "openai_responses":
            return replies.responses_events(whole)
        case _:
            return replies.message_events(whole)
