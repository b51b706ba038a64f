"""Who floods a service with connections does not keep clients with a token waiting, nor strangers from elsewhere."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.service.running import PATIENCE, make_tokens, running
from turnfold.service import ServiceOptions
from turnfold.service import server as server_module
from turnfold.service.connection_queue import ConnectionQueue, brings_token
from turnfold.service.server import listen

TOKEN = "tf_good_" + "x" * 43
HEAD = b"GET /v1/sessions HTTP/1.1\r\nHost: localhost\r\n"
STRANGER = HEAD + b"\r\n"
CLIENT = HEAD + b"Authorization: Bearer " + TOKEN.encode() + b"\r\n\r\n"


class Queued:
    """A queue over a real socket, and the first bytes of the connections that it has started, in order."""

    def __init__(self, *, room: int = 10_000) -> None:
        self.listening = listen("127.0.0.1", 0)
        self.started = list[bytes]()
        self.open = list[socket.socket]()
        self.held = list[socket.socket]()
        self.queue = ConnectionQueue(
            self.listening,
            self._start,
            lambda sent: brings_token(sent, lambda text: text == TOKEN),
            lambda waiting: waiting <= room,
        )

    def _start(self, connection: socket.socket) -> None:
        try:
            self.started.append(connection.recv(4_096))
        except BlockingIOError:
            self.started.append(b"")
        self.held.append(connection)

    def connect(self, *sent: bytes, source: str = "127.0.0.1") -> None:
        for each in sent:
            address = self.listening.getsockname()
            self.open.append(socket.create_connection(address, PATIENCE, (source, 0)))
            if each:
                self.open[-1].sendall(each)

    def run(self, act: Callable[[Queued], Awaitable[None]]) -> None:
        async def main() -> None:
            self.queue.open()
            try:
                await act(self)
            finally:
                self.queue.close()

        try:
            asyncio.run(main())
        finally:
            for each in (*self.open, *self.held, self.listening):
                each.close()


async def rest(queued: Queued, many: int) -> None:
    """Let the loop run until so many connections are started."""
    async with asyncio.timeout(PATIENCE):
        while len(queued.started) < many:  # noqa: ASYNC110 (each turn of the loop counts)
            await asyncio.sleep(0)


def test_a_client_with_a_token_does_not_wait_for_strangers() -> None:
    async def act(queued: Queued) -> None:
        queued.connect(*[STRANGER] * 40, CLIENT)
        await rest(queued, 41)
        assert queued.started.index(CLIENT) <= 4
        assert len(queued.started) == 41

    Queued().run(act)


def test_a_token_that_arrives_later_is_seen() -> None:
    async def act(queued: Queued) -> None:
        queued.connect(b"", *[STRANGER] * 60)
        await rest(queued, 4)
        queued.open[0].sendall(CLIENT)
        before = len(queued.started)
        await rest(queued, 61)
        assert queued.started.index(CLIENT) <= before + 8

    Queued().run(act)


def test_strangers_of_another_address_have_their_turn() -> None:
    async def act(queued: Queued) -> None:
        queued.connect(*[STRANGER] * 40)
        queued.connect(STRANGER + b"elsewhere", source="127.0.0.2")
        await rest(queued, 41)
        assert queued.started.index(STRANGER + b"elsewhere") <= 8

    Queued().run(act)


def test_of_too_many_that_wait_the_oldest_of_the_crowd_is_closed() -> None:
    async def act(queued: Queued) -> None:
        queued.connect(STRANGER + b"elsewhere", source="127.0.0.2")
        queued.connect(*(STRANGER + b"%03d" % number for number in range(200)))
        for _ in range(20):
            queued.queue._accept()  # without the turns between
        assert queued.queue.waiting == 64
        await rest(queued, 64)
        assert queued.started[0] == STRANGER + b"elsewhere"
        assert queued.started[1:] == [STRANGER + b"%03d" % number for number in range(137, 200)]

    Queued().run(act)


def test_where_no_more_files_may_be_opened_fewer_wait() -> None:
    async def act(queued: Queued) -> None:
        queued.connect(*[STRANGER, b""] * 20)
        queued.queue._accept()
        assert queued.queue.waiting == 5

    Queued(room=5).run(act)


def test_silent_connections_are_started_when_nobody_waits() -> None:
    async def act(queued: Queued) -> None:
        queued.connect(*[b""] * 10)
        await rest(queued, 10)
        assert queued.started == [b""] * 10

    Queued().run(act)


def test_in_a_crowd_whoever_has_left_is_not_answered() -> None:
    async def act(queued: Queued) -> None:
        queued.connect(*[STRANGER + b"left"] * 30)
        for each in queued.open:
            each.close()
        queued.connect(*[STRANGER] * 10)
        async with asyncio.timeout(PATIENCE):
            while queued.started.count(STRANGER) < 10:  # noqa: ASYNC110 (the same)
                await asyncio.sleep(0)
        assert queued.started.count(STRANGER + b"left") == 0

    Queued().run(act)


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        (CLIENT, True),
        (HEAD + b"Cookie: a=b; turnfold_token=" + TOKEN.encode() + b"\r\n\r\n", True),
        (HEAD + b"X-Turnfold-Token: " + TOKEN.encode() + b"\r\n\r\n", True),
        (STRANGER, False),
        (HEAD + b"Authorization: Bearer tf_bad_" + b"y" * 43 + b"\r\n\r\n", False),
        (HEAD + b"A: " + b"tf_bad_" * 500 + TOKEN.encode(), False),
        (b"\xff\xfe", False),
    ],
)
def test_a_token_is_found_in_any_header(sent: bytes, *, found: bool) -> None:
    assert brings_token(sent, lambda text: text == TOKEN) is found


def test_few_texts_are_tried_as_tokens() -> None:
    tried = list[str]()
    sent = b" ".join(b"tf_bad%d_%s" % (number, b"y" * 20) for number in range(100))
    assert not brings_token(sent, lambda text: bool(tried.append(text)))
    assert len(tried) == 3


def test_a_flood_on_open_connections_waits_for_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what strangers send on many connections at once, few requests are answered in a turn of the event loop."""
    made, make = list[Any](), server_module.limited_protocol
    monkeypatch.setattr(
        server_module, "limited_protocol", lambda *given: made.append(make(*given)) or made[0]
    )
    token = make_tokens(tmp_path / "t.json", ("a", "a", ["read"]))["a"]
    options = ServiceOptions(
        store=f"sqlite:///{tmp_path / 'chat.db'}", tokens_file=tmp_path / "t.json"
    )
    with running(options) as service, service.client(token, timeout=PATIENCE) as client:
        assert client.get("/v1/sessions").status_code == 200
        host, _, port = service.url.removeprefix("http://").partition(":")
        flood = [socket.create_connection((host, int(port)), PATIENCE) for _ in range(40)]
        for each in flood:
            each.sendall(STRANGER[:10])
        end = time.monotonic() + PATIENCE
        while len(made[0].oldest) < 41:
            assert time.monotonic() < end
            time.sleep(0.01)
        loop = next(iter(made[0].oldest)).loop
        answered, turns = service.state.answered, list[int]()

        def turn() -> None:
            turns.append(answered["conversations", 401])
            loop.call_soon(turn)

        loop.call_soon_threadsafe(turn)
        loop.call_soon_threadsafe(time.sleep, 0.5)  # until all of them have sent
        for each in flood:
            each.sendall(STRANGER[10:] + STRANGER * 9)
        while turns[-1:] != [400]:
            assert client.get("/v1/sessions").status_code == 200
            assert time.monotonic() < end
        for each in flood:
            each.close()
    assert max(after - before for before, after in pairwise(turns)) <= 8
