"""Hostile headers before each of the three servers (API, MCP, inspector): nothing is told, nothing breaks.

Requests are written byte by byte, because no client would send most of these. Each set is sent without a token, where
nothing may be told, and with a good one, where the answer may be a refusal but never a server error.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the MCP server needs the extra 'mcp'")

from tests.service.operation_requests import CONTENT, fill
from tests.service.running import PATIENCE, Running, make_tokens, running
from turnfold.service import ServiceOptions, inspector_routes, mcp_beside

HOST = b"Host: 127.0.0.1"
LONG = b"a" * 60_000
SETS: dict[str, tuple[bytes, ...]] = {
    "no host": (),
    "two hosts": (HOST, b"Host: attacker.example"),
    "foreign host": (b"Host: attacker.example",),
    "host of a rebound name": (b"Host: 127.0.0.1.attacker.example",),
    "host with user info": (b"Host: 127.0.0.1@attacker.example",),
    "empty host": (b"Host: ",),
    "host in other letters": ("Host: １２７.０.０.１".encode(),),
    "forwarded host": (b"Host: attacker.example", b"X-Forwarded-Host: 127.0.0.1"),
    "forwarded for": (HOST, b"X-Forwarded-For: 127.0.0.1", b"X-Real-IP: 127.0.0.1"),
    "foreign origin": (HOST, b"Origin: https://attacker.example"),
    "null origin": (HOST, b"Origin: null"),
    "two origins": (HOST, b"Origin: http://127.0.0.1", b"Origin: https://attacker.example"),
    "origin of another scheme": (HOST, b"Origin: file://"),
    "bytes in the token": (HOST, b"Authorization: Bearer \xff\xfe\x80"),
    "long token": (HOST, b"Authorization: Bearer " + LONG),
    "token of another scheme": (HOST, b"Authorization: Basic dGY6dGY="),
    "cookie of bytes": (HOST, b"Cookie: turnfold=\xff\x00\x7f; ;;==;" + LONG[:4_000]),
    "length and chunks": (HOST, b"Content-Length: 5", b"Transfer-Encoding: chunked"),
    "two lengths": (HOST, b"Content-Length: 5", b"Content-Length: 50"),
    "negative length": (HOST, b"Content-Length: -1"),
    "huge length": (HOST, b"Content-Length: 99999999999999999999"),
    "length of digits that are not": (HOST, "Content-Length: ２".encode()),
    "folded line": (HOST, b"X-Request-Id: a\r\n Authorization: Bearer x"),
    "name with a space": (HOST, b"Autho rization: Bearer x"),
    "line break in a value": (HOST, b"X-Request-Id: a\rSet-Cookie: x=1"),
    "odd request id": (HOST, b"X-Request-Id: " + b"<script>" * 30),
    "method in a header": (HOST, b"X-HTTP-Method-Override: DELETE"),
    "path in a header": (HOST, b"X-Original-URL: /v1/sessions", b"X-Rewrite-URL: /metrics"),
    "upgrade": (HOST, b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Key: x"),
    "range and encodings": (
        HOST,
        b"Range: bytes=0-0,-1",
        b"Accept-Encoding: br;q=9,\xff",
        b"TE: x",
    ),
    "odd content type": (HOST, b"Content-Type: application/json; charset=utf-7\xff"),
    "odd event id": (HOST, b"Last-Event-ID: \xff\xfe", b"Idempotency-Key: \xe4"),
    "many headers": (HOST, *(b"X-%d: y" % number for number in range(900))),
    "long header": (HOST, b"X-Long: " + LONG * 2),
}
UNTRUSTED = {
    "no host", "foreign host", "host of a rebound name", "host with user info", "empty host",
    "host in other letters", "forwarded host", "foreign origin", "null origin",
    "origin of another scheme",
}  # fmt: skip
"""Sets that are refused even with a good token: the request comes from a page that a browser was lured to."""
SERVERS = {
    "api": b"POST /v1/sessions/talk/recall",
    "mcp": b"POST /mcp",
    "inspector": b"GET /ui/sessions/talk/recall?query=parcel",
}
BODIES = {
    "api": b'{"query": "parcel"}',
    "mcp": b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": '
    b'{"name": "search_memory", "arguments": {"query": "parcel"}}}',
    "inspector": b"",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, bytes]]:
    folder: Path = tmp_path_factory.mktemp("headers")
    store, file = f"sqlite:///{folder / 'chat.db'}", folder / "tokens.json"
    fill(store)
    token = make_tokens(file, ("all", "acme", ["read", "write", "admin"]))["all"]
    options = ServiceOptions(store=store, tokens_file=file)
    with running(options, besides=[mcp_beside, _inspector]) as service:
        yield service, token.encode()


def _inspector(state: object) -> object:
    class Beside:
        mounts = inspector_routes(state)  # pyright: ignore[reportArgumentType] (as `running` gives it)
        running = ()
        home = ""

    return Beside


def answers(service: Running, server: str, lines: tuple[bytes, ...], token: bytes) -> bytes:
    """Everything that a server sends before it closes the connection, or until it waits for more."""
    own = tuple(lines)
    names = [line.partition(b":")[0].strip().lower() for line in own]
    if token and b"authorization" not in names:
        own += (b"Authorization: Bearer " + token,)
    body = BODIES[server]
    if b"content-length" not in names:
        own += (b"Content-Length: %d" % len(body),)
    if b"content-type" not in names:
        own += (b"Content-Type: application/json",)
    own += (b"Accept: application/json, text/event-stream, text/html", b"Connection: close")
    request = b"\r\n".join([SERVERS[server] + b" HTTP/1.1", *own, b"", body])
    host, _, port = service.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), PATIENCE) as connection:
        received = b""
        try:
            connection.sendall(request)
            while piece := connection.recv(65_536):
                received += piece
        except ConnectionError:
            pass  # closed before everything was sent: a refusal too
    return received


def status_of(answer: bytes) -> int:
    """The status; 0 if the connection was closed without an answer."""
    return int(answer[9:12]) if answer else 0


def told(answer: bytes, token: bytes) -> bool:
    """Whether an answer has content, or an echo that a browser would take for a header."""
    head = answer.partition(b"\r\n\r\n")[0].lower()
    return CONTENT.encode() in answer or b"set-cookie: x=1" in head or token in answer


@pytest.mark.parametrize("server", SERVERS)
def test_a_plain_request_is_answered(served: tuple[Running, bytes], server: str) -> None:
    service, token = served
    answer = answers(service, server, (HOST,), token)
    assert status_of(answer) == 200, answer[:600]
    assert CONTENT.encode() in answer


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("name", SETS)
def test_without_a_token_nothing_is_told(
    served: tuple[Running, bytes], server: str, name: str
) -> None:
    service, token = served
    answer = answers(service, server, SETS[name], b"")
    assert status_of(answer) in (0, 400, 401, 403, 413, 431)
    assert not told(answer, token)


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("name", SETS)
def test_with_a_token_no_set_breaks_a_server(
    served: tuple[Running, bytes], server: str, name: str
) -> None:
    service, token = served
    answer = answers(service, server, SETS[name], token)
    assert status_of(answer) < 500
    assert b"traceback" not in answer.lower()
    if name in UNTRUSTED:
        assert status_of(answer) in (0, 400, 403)
        assert not told(answer, token)


AMBIGUOUS = {
    "two tokens": (b"Authorization: Bearer %s", b"Authorization: Bearer x"),
    "two tokens, the good one last": (b"Authorization: Bearer x", b"authorization: Bearer %s"),
    "the same token twice": (b"Authorization: Bearer %s", b"Authorization: Bearer %s"),
    "a folded token": (b"Authorization:\r\n Bearer %s",),
    "a token folded after its scheme": (b"Authorization: Bearer\r\n\t%s",),
    "a token on a folded line of another header": (
        b"Authorization: Bearer %s",
        b"X-Request-Id: a\r\n Authorization: Bearer x",
    ),
    "two keys of a retry": (
        b"Authorization: Bearer %s",
        b"Idempotency-Key: a",
        b"Idempotency-Key: b",
    ),
    "two content types": (
        b"Authorization: Bearer %s",
        b"Content-Type: application/json",
        b"Content-Type: text/plain",
    ),
}


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("name", AMBIGUOUS)
def test_a_request_that_can_be_read_in_two_ways_is_refused(
    served: tuple[Running, bytes], server: str, name: str
) -> None:
    service, token = served
    lines = (HOST, *(line.replace(b"%s", token) for line in AMBIGUOUS[name]))
    answer = answers(service, server, lines, token)
    assert status_of(answer) == 400, answer[:300]
    assert not told(answer, token)


ENDS = {
    "a folded line": b"X-End: a\r\n Authorization: Bearer x\r\n",
    "a header": b"Authorization: Bearer x\r\n",
}


@pytest.mark.parametrize("end", ENDS)
def test_headers_at_the_end_of_a_body_are_refused(served: tuple[Running, bytes], end: str) -> None:
    service, token = served
    answer = with_an_end(service, token, ENDS[end])
    assert status_of(answer) == 400, answer[:300]
    assert not told(answer, token)


def test_a_body_in_chunks_without_headers_at_its_end_is_read(served: tuple[Running, bytes]) -> None:
    service, token = served
    answer = with_an_end(service, token, b"")
    assert status_of(answer) == 200
    assert told(answer, token)


def with_an_end(service: Running, token: bytes, end: bytes) -> bytes:
    """The answer to a request whose body in chunks has these lines at its end."""
    body = BODIES["api"]
    host, _, port = service.url.removeprefix("http://").partition(":")
    head = (HOST, b"Authorization: Bearer " + token, b"Transfer-Encoding: chunked")
    chunks = b"%x\r\n%s\r\n0\r\n" % (len(body), body)
    received = b""
    with socket.create_connection((host, int(port)), PATIENCE) as connection:
        lines = (SERVERS["api"] + b" HTTP/1.1", *head, b"Connection: close", b"", chunks)
        connection.sendall(b"\r\n".join(lines) + end + b"\r\n")
        while piece := connection.recv(65_536):
            received += piece
    return received


def test_a_server_that_does_not_look_at_the_host_is_caught(
    served: tuple[Running, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, _ = served
    monkeypatch.setattr(type(service.state.gate), "check_host", lambda *_: None)
    with pytest.raises(AssertionError):
        test_with_a_token_no_set_breaks_a_server(served, "api", "foreign host")


def test_a_server_that_breaks_on_a_header_is_caught(
    served: tuple[Running, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, _ = served

    def broken(*_: object) -> None:
        raise UnicodeError

    monkeypatch.setattr(type(service.state.gate), "check_host", broken)
    with pytest.raises(AssertionError):
        test_with_a_token_no_set_breaks_a_server(served, "inspector", "odd event id")
