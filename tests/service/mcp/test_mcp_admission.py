"""Over HTTP: without, with wrong and with foreign credentials nothing leaks; rights, hosts and origins hold too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.service.mcp.clients import ERAS, http_talk
from tests.service.mcp.seeded import SECRET, newest_call, seed
from tests.service.running import Running, make_tokens, running
from turnfold.service import (
    ExtraRoutes,
    Limits,
    McpOptions,
    ServiceOptions,
    ServiceState,
    mcp_beside,
)
from turnfold.service.mcp.methods import McpProtocol
from turnfold.service.mcp.request_access import McpRequest
from turnfold.service.mcp.server import http_endpoint, make_server

HEADERS = {
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2025-06-18",
}
OF_RIVAL = ("talk", "rivals-own")


def every_request(call: str) -> list[tuple[str, dict[str, Any]]]:
    """Every method, every tool, every address, asked for what the rival keeps."""
    tools: list[tuple[str, dict[str, Any]]] = [
        ("list_sessions", {}),
        ("search_memory", {"query": f"{SECRET} parcel 包裹", "limit": 50}),
    ]
    uris = ["memory://sessions"]
    prompts: list[dict[str, Any]] = []
    for name in OF_RIVAL:
        tools += [
            ("recall_context", {"session": name, "query": f"{SECRET} parcel"}),
            ("recall_context", {"session": name, "turn_numbers": [0, 1]}),
            ("recall_context", {"session": name, "first_seq": 1, "last_seq": 9}),
            ("search_memory", {"session": name, "query": "parcel"}),
            ("context_status", {"session": name}),
        ]
        uris += [
            f"memory://{name}/{kind}"
            for kind in ("log", "summary", f"context/{call}", "snapshot/1")
        ]
        prompts += [
            {"name": prompt, "arguments": {"session": name}}
            for prompt in ("resume_session", "handoff_note")
        ]
    return [
        ("tools/list", {}),
        ("prompts/list", {}),
        ("resources/list", {}),
        ("resources/templates/list", {}),
        *(("tools/call", {"name": name, "arguments": given}) for name, given in tools),
        *(("resources/read", {"uri": uri}) for uri in uris),
        *(("prompts/get", each) for each in prompts),
    ]


@pytest.fixture(scope="module")
def served(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Running, dict[str, str], str]]:
    folder = tmp_path_factory.mktemp("mcp")
    store = seed(folder)
    tokens = folder / "tokens.json"
    made = make_tokens(
        tokens,
        ("own", "rival", ["read", "write"]),
        ("other", "default", ["read", "write"]),
        ("looks", "rival", ["read"]),
        ("writes", "rival", ["write"]),
    )
    options = ServiceOptions(store=store, tokens_file=tokens, limits=Limits(body=200_000))
    call = newest_call(store, "talk")
    with running(options, besides=[mcp_beside]) as service:
        yield service, made, call


def ask(service: Running, token: str, method: str, params: dict[str, Any], **headers: str) -> Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    with service.client(token) as client:
        return client.post("/mcp", json=body, headers={**HEADERS, **headers})


def leaks(service: Running, token: str, call: str) -> list[str]:
    """Which requests give something of the rival's away."""
    found: list[str] = []
    for method, params in every_request(call):
        answer = ask(service, token, method, params)
        if SECRET in answer.text or "rivals-own" in without(answer.text, params):
            found.append(f"{method} {params}")
    return found


def without(text: str, params: dict[str, Any]) -> str:
    """An answer less the name that was asked for: to be told one's own words is no leak."""
    return text.replace("rivals-own", "") if "rivals-own" in str(params) else text


@pytest.mark.parametrize(
    "token", ["", "tf_own_" + "0" * 64, "tf_nobody_" + "0" * 64, "own", "tf_own_"]
)
def test_no_credentials_and_wrong_ones_get_nothing(
    served: tuple[Running, dict[str, str], str], token: str
) -> None:
    service, _, call = served
    for method, params in every_request(call):
        answer = ask(service, token, method, params)
        assert answer.status_code == 401, (method, params)
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "recall_context" not in answer.text
        assert SECRET not in answer.text


def test_a_token_of_another_tenant_learns_nothing(
    served: tuple[Running, dict[str, str], str],
) -> None:
    service, made, call = served
    assert leaks(service, made["other"], call) == []
    unknown = ask(
        service,
        made["other"],
        "tools/call",
        {"name": "context_status", "arguments": {"session": "rivals-own"}},
    )
    nowhere = ask(
        service,
        made["other"],
        "tools/call",
        {"name": "context_status", "arguments": {"session": "nobody-own"}},
    )
    assert unknown.text.replace("rivals", "nobody") == nowhere.text


def test_the_search_for_leaks_sees_one(
    served: tuple[Running, dict[str, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, made, call = served
    assert leaks(service, made["own"], call), "its owner sees it: the requests do reach it"
    monkeypatch.setattr(McpRequest, "memory", property(lambda visit: visit.state.memory("rival")))
    assert len(leaks(service, made["other"], call)) > 10


def test_mounted_without_the_gate_it_answers_nobody(tmp_path: Path) -> None:
    def unguarded(state: ServiceState) -> ExtraRoutes:
        endpoint, entered = http_endpoint(
            make_server(McpProtocol(state, McpOptions()), None), body=100_000
        )
        return ExtraRoutes(mounts=(Route("/mcp", _App(endpoint)),), running=(entered,))

    with running(ServiceOptions(store=seed(tmp_path)), besides=[unguarded]) as service:
        for method, params in every_request("x"):
            answer = ask(service, "", method, params)
            assert answer.json()["error"]["message"].endswith("was not authorized: send a token")


class _App:
    """An object, which a route takes for an application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def test_reading_takes_one_right_and_writing_the_other(
    served: tuple[Running, dict[str, str], str],
) -> None:
    service, made, _ = served
    for tool, given in (
        ("remember", {"text": "written by who may not"}),
        ("fold", {"session": "talk", "summary": "short"}),
    ):
        answer = ask(service, made["looks"], "tools/call", {"name": tool, "arguments": given})
        result = answer.json()["result"]
        assert result["isError"] is True
        assert "access-denied: the right 'write' is required" in result["content"][0]["text"]
    kept = ask(service, made["own"], "tools/call", {"name": "list_sessions", "arguments": {}})
    names = [each["session"] for each in kept.json()["result"]["structuredContent"]["sessions"]]
    assert names == sorted(OF_RIVAL)
    assert ask(service, made["writes"], "tools/list", {}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [{"host": "evil.example"}, {"origin": "http://evil.example"}, {"origin": "null"}],
)
def test_a_lured_browser_is_refused(
    served: tuple[Running, dict[str, str], str], headers: dict[str, str]
) -> None:
    service, made, _ = served
    answer = ask(service, made["own"], "tools/list", {}, **headers)
    assert answer.status_code == 403
    assert "recall_context" not in answer.text


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD"])
def test_there_is_nothing_to_open_and_nothing_to_end(
    served: tuple[Running, dict[str, str], str], method: str
) -> None:
    service, made, _ = served
    with service.client(made["own"]) as client:
        answer = client.request(method, "/mcp", headers=HEADERS)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_a_body_that_is_too_large_is_not_read(
    served: tuple[Running, dict[str, str], str],
) -> None:
    service, made, _ = served
    answer = ask(service, made["own"], "tools/call", {"name": "remember", "x": "y" * 200_001})
    assert answer.status_code == 413
    assert answer.json()["type"] == "urn:turnfold:problem:limit-exceeded"


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"[" * 50_000, b'{"jsonrpc":"2.0","id":1}', b"\xff\xfe", b'"x"'],
)
def test_what_is_no_request_is_refused(
    served: tuple[Running, dict[str, str], str], body: bytes
) -> None:
    service, made, _ = served
    with service.client(made["own"]) as client:
        sent = {**HEADERS, "content-type": "application/json"}
        answer = client.post("/mcp", content=body, headers=sent)
    assert 400 <= answer.status_code < 500
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("era", ERAS)
def test_the_official_client_brings_a_token_and_sees_its_own(
    served: tuple[Running, dict[str, str], str], era: str
) -> None:
    service, made, _ = served

    async def body() -> None:
        async with http_talk(era, f"{service.url}/mcp", made["looks"]) as talk:
            found = await talk.call("recall_context", session="rivals-own", query="parcel")
            assert SECRET in found["text"]
            assert "access-denied" in await talk.refused("remember", text="x")
        async with http_talk(era, f"{service.url}/mcp", made["other"]) as talk:
            assert "no session" in await talk.refused("context_status", session="rivals-own")

    asyncio.run(body())


def test_the_api_beside_it_sees_what_it_wrote(tmp_path: Path) -> None:
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}")
    with running(options, besides=[mcp_beside]) as service, service.client() as client:
        ask(service, "", "tools/call", {"name": "remember", "arguments": {"text": "tea"}})
        history = client.get("/v1/sessions/notes/messages").json()
        assert "tea" in str(history)
        assert service.state.answered["mcp", 200] == 1
