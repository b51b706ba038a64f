"""A client that goes away is no fault of the service: told at info level, without a trace, and nothing is half done."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import time

import pytest

from tests.service.running import PATIENCE, Running, running
from turnfold.service import ServiceOptions, make_app, make_state, mcp_beside

HEAD = "HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CUT_SHORT = {
    "say_user": f'POST /v1/sessions/a/user {HEAD}Content-Length: 1000\r\n\r\n{{"content": "never 从未',
    "context": f"POST /v1/sessions/a/context {HEAD}Transfer-Encoding: chunked\r\n\r\n5\r\n{{",
    "mcp": f"POST /mcp {HEAD}Accept: application/json\r\nContent-Length: 1000\r\n\r\n{{",
}


def hang_up(service: Running, request: str, *, read: bool = False) -> None:
    """Send this much and reset the connection."""
    host, _, port = service.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), PATIENCE) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall(request.encode())
        if read:
            assert connection.recv(64).startswith(b"HTTP/1.1 200")
        else:
            with service.client() as other:  # answered after the first was taken up
                other.get("/v1/openapi.json").raise_for_status()


def answered(service: Running, operation: str) -> int:
    """The status an operation was closed with, once it was."""
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        for (name, status), _ in list(service.state.answered.items()):
            if name == operation:
                return status
        time.sleep(0.005)
    raise AssertionError(f"{operation} was never closed")


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        f"{record.name}: {record.getMessage()}"
        for record in caplog.records
        if record.levelno > logging.INFO or record.exc_info
    ]


@pytest.mark.parametrize("operation", sorted(CUT_SHORT))
def test_a_body_that_never_ends(operation: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with running(ServiceOptions(), besides=(mcp_beside,)) as service:
        hang_up(service, CUT_SHORT[operation])
        assert answered(service, operation) == 499
        with service.client() as client:
            assert (
                client.get("/v1/sessions").json()["conversations"] == []
            )  # nothing of it was written
    assert complaints(caplog) == []
    assert [r.levelname for r in caplog.records if f"{operation} 499" in r.getMessage()] == ["INFO"]


@pytest.mark.parametrize("path", ["/v1/sessions/a/events", "/v1/events"])
def test_a_stream_nobody_reads_any_more(path: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with running(ServiceOptions()) as service:
        hang_up(service, f"GET {path} {HEAD}\r\n", read=True)
        operation = "watch_tenant" if path == "/v1/events" else "watch_session"
        assert answered(service, operation) == 200
        assert sum(service.state.streams.values()) == 0
    assert complaints(caplog) == []


def test_a_server_that_says_the_client_is_gone_when_it_is_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: object) -> None:
        raise BrokenPipeError(message)

    async def run() -> dict[tuple[str, int], int]:
        state = make_state(ServiceOptions())
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/v1/sessions",
            "raw_path": b"/v1/sessions",
            "query_string": b"",
            "headers": [(b"host", b"localhost")],
        }
        try:
            await make_app(state)(scope, receive, send)
        finally:
            await state.close()
        return dict(state.answered)

    assert asyncio.run(run()) == {("conversations", 200): 1}
    assert complaints(caplog) == []
