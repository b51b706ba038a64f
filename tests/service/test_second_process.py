"""A tenant that computes much is served by a second process, and is told the same as before."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.service.running import PATIENCE, Running, ServiceProcess, make_tokens, running
from turnfold.errors import LimitExceeded
from turnfold.runtime import AsyncRuntime
from turnfold.service import ServiceOptions
from turnfold.service.second_process import MeteredRuntime, TenantCosts


def test_a_tenant_that_used_more_than_its_allowance_is_moved_for_a_while() -> None:
    now = [0.0]
    costs = TenantCosts(clock=lambda: now[0])
    costs.charge("a", 0.9)
    costs.charge("b", 0.9)
    assert not costs.is_moved("a")
    now[0] += 4.0  # which gives 0.2 s back
    costs.charge("a", 0.2)
    assert not costs.is_moved("a")
    costs.charge("a", 0.2)
    assert costs.is_moved("a")
    assert not costs.is_moved("b")
    now[0] += 299.0
    assert costs.is_moved("a")
    now[0] += 2.0
    assert not costs.is_moved("a")
    costs.charge("a", 0.9)
    assert not costs.is_moved("a")
    costs.charge("a", 0.2)
    assert costs.is_moved("a")


def test_what_is_computed_and_how_long_a_search_takes_is_charged() -> None:
    now, charged = [0.0], list[float]()
    costs = TenantCosts(clock=lambda: now[0])
    with costs.heavy("a"):
        now[0] += 3.0
    assert costs.is_moved("a")
    with costs.heavy("b", asks_model=True):
        now[0] += 300.0
    assert not costs.is_moved("b")

    def work() -> int:
        began = time.thread_time()
        while time.thread_time() - began < 0.01:
            pass
        return 1

    async def compute() -> int:
        inner = AsyncRuntime()
        runtime = MeteredRuntime(inner, charge=charged.append, is_moved=lambda: False)
        try:
            return await runtime.compute(work)
        finally:
            await inner.finish()

    assert asyncio.run(compute()) == 1
    assert len(charged) == 1
    assert charged[0] >= 0.01


@pytest.mark.parametrize("moved", [True, False])
def test_requests_that_wait_when_a_tenant_is_moved_are_refused(*, moved: bool) -> None:
    ran = list[int]()

    async def main() -> list[object]:
        inner = AsyncRuntime()
        runtime = MeteredRuntime(inner, charge=lambda _: None, is_moved=lambda: moved)

        async def one(number: int) -> int:
            return await runtime.compute(lambda: ran.append(number) or number)

        done = await asyncio.gather(*map(one, range(5)), return_exceptions=True)
        await inner.finish()
        return [type(each) if isinstance(each, LimitExceeded) else each for each in done]

    refused = LimitExceeded if moved else None
    assert asyncio.run(main()) == [0, *(refused or number for number in range(1, 5))]
    assert ran == ([0] if moved else [0, 1, 2, 3, 4])


class Served:
    """A service with a second process, its tokens, and its audit log."""

    def __init__(self, folder: Path) -> None:
        self.tokens = make_tokens(
            folder / "tokens.json",
            ("heavy", "heavy", ["read", "write", "admin"]),
            ("quiet", "quiet", ["read", "write", "admin"]),
        )
        self.audit = folder / "audit.jsonl"
        self.sent = 0
        self.service = ServiceProcess(
            *("--store", f"sqlite:///{folder / 'chat.db'}"),
            *("--tokens-file", str(folder / "tokens.json")),
            *("--audit-log", str(self.audit), "--max-body", "2000000", "--mcp"),
        )

    def client(self, name: str) -> httpx2.Client:
        headers = {"authorization": f"Bearer {self.tokens[name]}"}
        return httpx2.Client(
            base_url=self.service.url,
            headers=headers,
            timeout=PATIENCE,
            trust_env=False,
            verify=False,
        )

    def children(self) -> list[int]:
        pid = self.service.process.pid
        tasks = Path(f"/proc/{pid}/task").glob("*/children")
        return [int(each) for task in tasks for each in task.read_text().split()]

    def move(self, client: httpx2.Client) -> None:
        """Let a tenant search until the second process answers it, whose figures begin at nothing."""
        end = time.monotonic() + PATIENCE
        while not self.is_moved(client):
            assert time.monotonic() < end
            for _ in range(10):
                self.sent += 1
                assert client.post("/v1/search", json={"query": "parcel"}).status_code == 200

    def is_moved(self, client: httpx2.Client) -> bool:
        """Whether a client is told the figures of another process than the one that it sent its searches to."""
        counted = re.findall(r'operation="search",status="200"} (\d+)', client.get("/metrics").text)
        return sum(map(int, counted)) < self.sent


def processor(pid: int) -> float:
    """Seconds of processor time that a process used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    made = Served(tmp_path_factory.mktemp("second"))
    with made.service:
        yield made
        children = made.children()
        made.service.kill()
    end = time.monotonic() + PATIENCE
    while any(map(is_alive, children)):  # they end with the first process, however it ends
        assert time.monotonic() < end
        time.sleep(0.01)


REQUESTS: dict[str, tuple[str, str, Any]] = {
    "entries": ("GET", "/v1/sessions/a%2Fb%20%E5%8C%85/messages?limit=2", None),
    "no session": ("GET", "/v1/sessions/none/summary", None),
    "no path": ("GET", "/v1/nothing", None),
    "a wrong method": ("PUT", "/v1/sessions", None),
    "a wrong body": ("POST", "/v1/sessions/s/user", {"content": 5}),
    "a large body": ("POST", "/v1/sessions/s/user", {"content": "x" * 2_100_000}),
    "a long message": ("POST", "/v1/sessions/s/user", {"content": "x" * 1_100_000}),
    "figures": ("GET", "/metrics", None),
    "tools of MCP": ("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
    "a page": ("GET", "/ui", None),
    "a head": ("HEAD", "/v1/sessions", None),
}


def test_a_moved_tenant_is_told_the_same(served: Served) -> None:
    headers = {"accept": "application/json, text/event-stream, text/html", "x-request-id": "own"}

    def told(client: httpx2.Client, name: str) -> tuple[int, str, str, bytes]:
        method, path, body = REQUESTS[name]
        answer = client.request(method, path, json=body, headers=headers)
        assert answer.headers.get_list("x-request-id") == ["own"]
        assert len(answer.headers.get_list("date")) == 1
        kind = answer.headers.get("content-type", "")
        content = b"" if name in ("figures", "a page") else answer.content
        return answer.status_code, kind, answer.headers.get("retry-after", ""), content

    with served.client("heavy") as client:
        for text in ("one", "two", "三"):
            client.post("/v1/sessions/a%2Fb%20%E5%8C%85/user", json={"content": text})
        before = {name: told(client, name) for name in REQUESTS}
        served.move(client)
        after = {name: told(client, name) for name in REQUESTS}
    assert {name: each[0] for name, each in before.items()} == {
        "entries": 200, "no session": 404, "no path": 404, "a wrong method": 405, "a wrong body": 422,
        "a large body": 413, "a long message": 413, "figures": 200, "tools of MCP": 200, "a page": 200,
        "a head": 200,
    }  # fmt: skip
    assert after == before


def test_a_moved_tenant_hears_its_calls_and_each_request_is_recorded_once(served: Served) -> None:
    with served.client("heavy") as client:
        served.move(client)
        with client.stream("GET", "/v1/events", headers={"x-request-id": "stream"}) as stream:
            lines = stream.iter_lines()
            assert next(lines) == "retry: 1000"
            for what in ("user", "context"):
                body = {"content": "Where is it?"} if what == "user" else {}
                named = {"x-request-id": f"recorded-{what}"}
                client.post(f"/v1/sessions/s/{what}", json=body, headers=named)
            assert next(line for line in lines if line.startswith("event")) == "event: call"
        client.post(
            "/v1/erasures", json={"kind": "session", "id": "s"}, headers={"x-request-id": "gone"}
        )
    records = [json.loads(line) for line in served.audit.read_text().splitlines()]
    found = [each for each in records if each["request_id"].startswith("recorded-")]
    assert [each["operation"] for each in found] == ["say_user", "context"]
    [erased] = [each for each in records if each["request_id"] == "gone"]
    assert erased["conversation"]
    assert len([each for each in records if each["request_id"] == "stream"]) == 1


def test_what_a_moved_tenant_computes_is_computed_in_the_second_process(served: Served) -> None:
    chance = random.Random(5)  # noqa: S311 (no secret)

    def words(many: int) -> str:
        return " ".join("".join(chance.choices("abcdefghijkl", k=6)) for _ in range(many))

    with served.client("heavy") as client:
        served.move(client)
        [child] = served.children()
        first, second = processor(served.service.process.pid), processor(child)
        for _ in range(2):
            content = {"content": words(20_000)}
            assert client.post("/v1/sessions/long/user", json=content).status_code == 200
            query = {"query": words(300)}
            assert client.post("/v1/sessions/long/context", json=query).status_code == 200
            assert client.post("/v1/search", json=query).status_code == 200
        first, second = processor(served.service.process.pid) - first, processor(child) - second
    assert first < second / 5


def test_nobody_else_is_moved_or_passed_on(served: Served) -> None:
    with served.client("heavy") as client, served.client("quiet") as quiet:
        served.move(client)
        assert quiet.post("/v1/sessions/q/user", json={"content": "hi"}).status_code == 200
        assert not served.is_moved(quiet)
        assert served.is_moved(client)
        assert quiet.get("/v1/sessions/s/messages").json()["entries"] == []
    # Without a token nothing is passed on.
    with httpx2.Client(base_url=served.service.url, trust_env=False, verify=False) as stranger:
        assert stranger.get("/v1/sessions").status_code == 401


def test_if_the_second_process_is_killed_the_first_one_answers_and_ends(tmp_path: Path) -> None:
    served = Served(tmp_path)
    with served.service, served.client("heavy") as client:
        served.move(client)
        [child] = served.children()
        os.kill(child, signal.SIGKILL)
        while client.get("/v1/sessions").status_code == 503:
            pass  # it was still connected
        assert not served.is_moved(client)
        served.service.terminate()
        assert served.service.ended() == 0


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Elsewhere:
    """In the place of a second process: a socket whose other end sends something, and ends."""

    is_ready = True

    def __init__(self, path: Path, answer: bytes) -> None:
        self.path, self.answer = str(path), answer
        self.got = list[bytes]()
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(self.path)
        self._listening.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                self.got.append(connection.recv(65_536))
                connection.sendall(self.answer)

    async def connect(self) -> object:
        return await asyncio.open_unix_connection(self.path)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
BROKEN = {
    "nothing": b"",
    "half a head": WHOLE[:30],
    "no head": b"nonsense\r\n\r\n",
}


def moved(service: Running, path: Path, answer: bytes) -> Elsewhere:
    elsewhere = Elsewhere(path, answer)
    service.state.second = elsewhere  # pyright: ignore[reportAttributeAccessIssue] (stands in for it)
    service.state.costs.charge("default", 2.0)
    return elsewhere


@pytest.mark.parametrize("how", BROKEN)
def test_an_answer_that_does_not_come_is_told(tmp_path: Path, how: str) -> None:
    with running(ServiceOptions()) as service, service.client(timeout=PATIENCE) as client:
        elsewhere = moved(service, tmp_path / "s", BROKEN[how])
        answer = client.get("/v1/sessions")
        assert answer.status_code == 503
        assert "try again" in answer.json()["detail"]
        elsewhere.close()


def test_an_answer_that_breaks_off_ends_the_connection(tmp_path: Path) -> None:
    with running(ServiceOptions()) as service, service.client(timeout=PATIENCE) as client:
        elsewhere = moved(service, tmp_path / "s", WHOLE[:-1])
        with pytest.raises(httpx2.TransportError):
            client.get("/v1/sessions")
        elsewhere.close()


def test_only_headers_of_the_request_itself_are_passed_on(tmp_path: Path) -> None:
    headers = {"connection": "close", "te": "x", "x-own": "y", "x-request-id": "a"}
    with running(ServiceOptions()) as service, service.client(timeout=PATIENCE) as client:
        elsewhere = moved(service, tmp_path / "s", WHOLE)
        assert client.get("/v1/sessions?limit=3", headers=headers).json() == {}
        elsewhere.close()
    [got] = elsewhere.got
    lines = got.lower().split(b"\r\n")
    assert lines[0] == b"get /v1/sessions?limit=3 http/1.1"
    assert b"x-own: y" in lines
    assert b"x-request-id: a" in lines
    assert not [line for line in lines if line.startswith((b"connection", b"te:"))]
