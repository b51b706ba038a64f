"""Before anybody is authorized: silent and slow connections end, keep nobody out, and fill no log."""

from __future__ import annotations

import logging
import socket
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from h11._readers import ChunkedReader

from tests.service.running import PATIENCE, Running, make_tokens, running
from turnfold.errors import InvalidOption
from turnfold.service import Limits, ServiceOptions
from turnfold.service import server as server_module
from turnfold.service.server import LogThrottle, most_connections
from turnfold.stores import Health

POST = b"POST /v1/sessions/s/user HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
LONG = b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
PAGES = b"GET /docs HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200
SLOW = {
    "nothing": b"",
    "half a line": b"GET /v1/ses",
    "half the headers": POST,
    "half a body": POST + b"Content-Length: 100\r\n\r\n{",
    "half a chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n10\r\n{",
    "a request and a byte of the next": WHOLE + b"G",
    "a request and half of the next": WHOLE + b"GET /v1/",
    "a request and half a body of the next": WHOLE + POST + b"Content-Length: 100\r\n\r\n{",
    "two requests and half of the next": WHOLE + WHOLE + POST,
    "a refused request and half its body": LONG + b"{",
}


def connect(service: Running) -> socket.socket:
    port = int(service.url.rpartition(":")[2])
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def whole_answer(connection: socket.socket) -> bytes:
    """An answer with its body, which may arrive after its headers."""
    got = b""
    while not got.endswith(b"}"):
        got += connection.recv(4_096)
    return got


def rest(connection: socket.socket) -> bytes:
    """What still comes before the connection is closed."""
    got = b""
    try:
        while data := connection.recv(4_096):
            got += data
    except ConnectionResetError:
        pass
    return got


@pytest.mark.parametrize("sent", SLOW)
def test_a_request_that_does_not_arrive_is_ended(
    tmp_path: Path, sent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "_IDLE_SECONDS", 60 * int(PATIENCE))
    limits = Limits(header_seconds=0.2, body_seconds=0.3)
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}", limits=limits)
    with running(options) as service, connect(service) as connection:
        connection.sendall(SLOW[sent])
        got = rest(connection)  # which would wait for ever
        assert got.count(b"HTTP/1.1 200") == SLOW[sent].count(b"/healthz")
        with service.client() as client:
            assert client.get("/v1/sessions").json()["conversations"] == []


def test_a_connection_may_be_idle_between_two_requests(tmp_path: Path) -> None:
    limits = Limits(header_seconds=0.5, body_seconds=0.5)  # a busy machine reads the first one late
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}", limits=limits)
    with running(options) as service, connect(service) as connection:
        for _ in range(3):
            connection.sendall(WHOLE)
            assert whole_answer(connection).startswith(b"HTTP/1.1 200")
            with connect(service) as silent:
                assert rest(silent) == b""  # the time for the headers of a request has passed
        connection.sendall(WHOLE[:10])
        assert rest(connection) == b""


def test_a_request_that_takes_long_to_answer_is_not_ended(tmp_path: Path) -> None:
    limits = Limits(header_seconds=0.1, body_seconds=0.1)
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}", limits=limits)
    with (
        running(options) as service,
        service.client(timeout=PATIENCE) as client,
        client.stream("GET", "/v1/events") as stream,
    ):
        lines = stream.iter_lines()
        assert next(lines) == "retry: 1000"
        with connect(service) as silent:
            assert rest(silent) == b""  # its deadline, which is that of the stream too, has passed
        client.post("/v1/sessions/s/user", json={"content": "hi"})
        client.post("/v1/sessions/s/context", json={})
        assert next(line for line in lines if line.startswith("event")) == "event: call"


def test_silent_connections_keep_nobody_out(tmp_path: Path) -> None:
    limits = Limits(connections=20, header_seconds=60 * PATIENCE)
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}", limits=limits)
    with (
        running(options) as service,
        service.client(timeout=PATIENCE) as client,
        client.stream("GET", "/v1/events") as stream,
    ):
        lines = stream.iter_lines()
        assert next(lines) == "retry: 1000"
        silent = list[socket.socket]()
        for number in range(60):
            silent.append(connect(service))
            if number % 10 == 0:
                with service.client(timeout=PATIENCE) as other:
                    assert other.get("/healthz").status_code == 200
        assert rest(silent[0]) == b""  # the first made room
        # Who was being served still is.
        with service.client(timeout=PATIENCE) as other:
            other.post("/v1/sessions/s/user", json={"content": "hi"})
            other.post("/v1/sessions/s/context", json={})
        assert next(line for line in lines if line.startswith("event")) == "event: call"
        for each in silent:
            each.close()


HOLDING = {
    "an idle connection": WHOLE,
    "a refused request without its body": LONG,
    "pages that are not read": PAGES,
}


@pytest.mark.parametrize("sent", HOLDING)
def test_whoever_has_no_token_makes_room(tmp_path: Path, sent: str) -> None:
    options = ServiceOptions(
        store=f"sqlite:///{tmp_path / 'chat.db'}", limits=Limits(connections=6)
    )
    with (
        running(options) as service,
        service.client(timeout=PATIENCE) as known,
        service.client(timeout=PATIENCE) as client,
        client.stream("GET", "/v1/events") as stream,
    ):
        lines = stream.iter_lines()
        assert next(lines) == "retry: 1000"
        assert known.get("/v1/sessions").status_code == 200
        holding = list[socket.socket]()
        for _ in range(12):
            holding.append(connect(service))
            holding[-1].sendall(HOLDING[sent])
            assert holding[-1].recv(1).startswith(b"H")
        with service.client(timeout=PATIENCE) as other:
            assert other.post("/v1/sessions/s/user", json={"content": "hi"}).status_code == 200
            # The connection of a caller is kept while there are others, and what is served is never ended.
            pool = cast("Any", known._transport)._pool
            [connection] = pool.connections
            assert known.post("/v1/sessions/s/context", json={}).status_code == 200
            assert pool.connections == [connection]
        assert next(line for line in lines if line.startswith("event")) == "event: call"
        for each in holding:
            each.close()


def test_an_idle_connection_of_a_caller_makes_room_last(tmp_path: Path) -> None:
    options = ServiceOptions(
        store=f"sqlite:///{tmp_path / 'chat.db'}", limits=Limits(connections=2)
    )
    listed = b"GET /v1/sessions HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with running(options) as service, connect(service) as one, connect(service) as two:
        for each in (one, two):
            each.sendall(listed)
            whole_answer(each)
        with connect(service) as three:
            three.sendall(listed)
            assert whole_answer(three).startswith(b"HTTP/1.1 200")
            assert rest(one) == b""


def test_what_nobody_reads_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, make = list[Any](), server_module.limited_protocol
    monkeypatch.setattr(
        server_module, "limited_protocol", lambda *given: made.append(make(*given)) or made[0]
    )
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}")
    with running(options) as service, connect(service) as connection:
        connection.sendall(PAGES)
        assert connection.recv(1) == b"H"
        [served] = made[0].oldest

        def check() -> int:
            """Check whether the client reads, in the thread of the service; the bytes that it has not read."""
            done = Future[int]()
            served.loop.call_soon_threadsafe(
                lambda: done.set_result(served._check_reading() or served._unread)
            )
            return done.result(PATIENCE)

        while not check():
            pass  # until the buffers of the system are full
        for _ in range(3):  # a slow client is left alone
            while served._unread and served.transport.get_write_buffer_size() >= served._unread:
                assert connection.recv(65_536)
            check()
            assert not served.transport.is_closing()
        while not served.transport.is_closing():
            check()
        assert not made[0].oldest


def test_where_no_body_is_needed_none_is_read(tmp_path: Path) -> None:
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}")
    body = {"content": b"{" + b" " * 2_000 + b"}", "headers": {"content-type": "application/json"}}
    with running(options) as service, service.client(timeout=PATIENCE) as client:
        for path in ("/healthz", "/v1/events", "/v1/sessions"):
            assert client.request("GET", path, **body).status_code == 413


def test_where_all_connections_are_in_use_a_new_one_is_refused(tmp_path: Path) -> None:
    limits = Limits(connections=2, header_seconds=PATIENCE)
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}", limits=limits)
    with (
        running(options) as service,
        service.client(timeout=PATIENCE) as client,
        client.stream("GET", "/v1/events") as one,
        client.stream("GET", "/v1/events") as two,
    ):
        assert (one.status_code, two.status_code) == (200, 200)
        with service.client(timeout=PATIENCE) as other, pytest.raises(httpx2.TransportError):
            other.get("/healthz")


def test_strangers_cannot_fill_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("asyncio", "uvicorn.error"):
        monkeypatch.setattr(logging.getLogger(name), "filters", [])
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}")
    with caplog.at_level(logging.WARNING), running(options) as service:
        for _ in range(200):
            with connect(service) as connection:
                connection.sendall(b"\x16\x03\x01 not HTTP\r\n\r\n")
                rest(connection)
    assert 0 < len(caplog.records) <= 25


def test_what_is_left_out_of_the_log_is_counted() -> None:
    now, shown = [0.0], list[str]()
    logger = logging.getLogger("tests.throttled")
    logger.addFilter(LogThrottle(most=2, seconds=10.0, clock=lambda: now[0]))

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            shown.append(record.getMessage())

    logger.addHandler(Handler())
    for at in (0.0, 1.0, 2.0, 3.0, 10.0, 11.0):
        now[0] = at
        logger.warning("bad request at %d", at)
    logger.warning("of another kind")
    assert shown == [
        "bad request at 0",
        "bad request at 1",
        "bad request at 10 (2 earlier records from the same place were dropped)",
        "bad request at 11",
        "of another kind",
    ]


def test_there_are_fewer_connections_than_files(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    for allowed, most in (
        (1_024, 896),
        (100_000, 1_000),
        (64, 16),
        (resource.RLIM_INFINITY, 1_000),
    ):
        monkeypatch.setattr(resource, "getrlimit", lambda _, allowed=allowed: (allowed, allowed))
        assert most_connections(1_000) == most
    assert server_module._RESERVED > 100


def test_a_probe_does_not_ask_the_store_each_time(tmp_path: Path) -> None:
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}")
    with running(options) as service, service.client() as client:
        asked: list[int] = []

        async def health() -> Health:
            asked.append(1)
            return Health(ok=True, backend="sqlite")

        service.state.config.store.health = health
        service.state._probed = float("inf"), True
        assert {client.get("/readyz").status_code for _ in range(50)} == {200}
        assert asked == []
        service.state._probed = float("-inf"), False
        assert client.get("/readyz").status_code == 200
        assert asked == [1]


@pytest.mark.parametrize("wrong", [{"connections": 0}, {"header_seconds": 0}, {"body_seconds": -1}])
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidOption):
        Limits(**wrong)


@pytest.mark.parametrize("token", [False, True])
def test_a_body_in_tiny_pieces_is_refused(tmp_path: Path, *, token: bool) -> None:
    """40,000 chunks of a byte came with one read, and the event loop did nothing else until all were parsed."""
    tokens = make_tokens(tmp_path / "tokens.json", ("a", "a", ("read", "write")))
    options = ServiceOptions(
        store=f"sqlite:///{tmp_path / 'chat.db'}", tokens_file=tmp_path / "tokens.json"
    )
    head = POST + b"Transfer-Encoding: chunked\r\n"
    if token:
        head += f"Authorization: Bearer {tokens['a']}\r\n".encode()
    with running(options) as service, service.client(tokens["a"]) as client:
        with connect(service) as connection:
            connection.sendall(head + b"\r\n" + b"1\r\n \r\n" * 5_000)
            assert b"HTTP/1.1 200" not in rest(connection)
        assert client.get("/v1/sessions").json()["conversations"] == []


@pytest.mark.parametrize(("size", "pieces"), [(1, 900), (100, 5_000)])
def test_a_body_in_small_pieces_is_read(tmp_path: Path, size: int, pieces: int) -> None:
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}")
    said = b'{"content":"hi"}'
    sent = b"".join(b"%x\r\n%s\r\n" % (size, b" " * size) for _ in range(pieces))
    sent += b"%x\r\n%s\r\n0\r\n\r\n" % (len(said), said)
    with running(options) as service, connect(service) as connection:
        connection.sendall(POST + b"Transfer-Encoding: chunked\r\n\r\n" + sent)
        assert whole_answer(connection).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("size", [1, 64])
def test_of_a_refused_body_in_pieces_little_is_parsed(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand connections that wait to be accepted, each with a thousand pieces, kept a probe waiting for 10 s."""
    parsed, parse = list[int](), ChunkedReader.__call__

    def counted(reader: ChunkedReader, buffer: Any) -> Any:
        parsed.append(1)
        return parse(reader, buffer)

    monkeypatch.setattr(ChunkedReader, "__call__", counted)
    make_tokens(tmp_path / "tokens.json", ("a", "a", ("read", "write")))
    options = ServiceOptions(
        store=f"sqlite:///{tmp_path / 'chat.db'}", tokens_file=tmp_path / "tokens.json"
    )
    chunk = b"%x\r\n%s\r\n" % (size, b" " * size)
    with running(options) as service, connect(service) as connection:
        connection.sendall(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 900)
        assert rest(connection).startswith(b"HTTP/1.1 401")
    assert len(parsed) < 40


def test_a_refused_body_of_few_pieces_leaves_the_connection_open(tmp_path: Path) -> None:
    make_tokens(tmp_path / "tokens.json", ("a", "a", ("read", "write")))
    options = ServiceOptions(
        store=f"sqlite:///{tmp_path / 'chat.db'}", tokens_file=tmp_path / "tokens.json"
    )
    body = (b"1000\r\n" + b" " * 4_096 + b"\r\n") * 40 + b"5\r\n12345\r\n0\r\n\r\n"
    with running(options) as service, connect(service) as connection:
        for _ in range(3):
            connection.sendall(POST + b"Transfer-Encoding: chunked\r\n\r\n" + body)
            assert whole_answer(connection).startswith(b"HTTP/1.1 401")
        connection.sendall(WHOLE)
        assert whole_answer(connection).startswith(b"HTTP/1.1 200")
