"""Every route, by the table it is made from: without, with wrong and with foreign credentials nothing leaks.

A new operation is in the table or it is not served, so it is tried here without anybody writing a test for it.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Mount

from tests.service.operation_requests import CONTENT, asked, fill
from tests.service.running import Running, make_tokens, running
from turnfold.api import (
    AnyOperation,
    Events,
    FilesAnswer,
    ForkedAnswer,
    NoQuery,
    Nothing,
    Ready,
    Right,
    declare,
    operations,
)
from turnfold.memory import Memory
from turnfold.service import GuardedApp, ServiceOptions, TokenFile, new_token
from turnfold.service.endpoint import CALLER
from turnfold.service.operation_table import OperationRequest, OperationTable
from turnfold.service.routes import TABLE

OPEN = {"healthz", "readyz"}
"""What anybody may see; the list only shrinks."""
GUARDED = [each for each in TABLE if each.name not in OPEN]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, dict[str, str]]]:
    folder = tmp_path_factory.mktemp("admission")
    store = f"sqlite:///{folder / 'chat.db'}"
    fill(store)
    file = folder / "tokens.json"
    made = make_tokens(
        file,
        ("all", "acme", ["read", "write", "admin"]),
        ("reader", "acme", ["read"]),
        ("writer", "acme", ["write"]),
        ("foreign", "other", ["read", "write", "admin"]),
    )
    late, line = new_token("late", "acme", ["read", "write"], now=time.time() - 9e6, days=1)
    TokenFile(file).add(line)
    made["late"] = late
    with running(ServiceOptions(store=store, tokens_file=file)) as service:
        yield service, made


def leaks_without_a_token(service: Running, made: dict[str, str], each: AnyOperation) -> list[str]:
    """What can be had of an operation by somebody who may not have it."""
    found: list[str] = []
    wrong = made["all"][:-1] + ("0" if made["all"][-1] != "0" else "1")
    for name, token in (("none", ""), ("wrong", wrong), ("late", made["late"]), ("odd", "xyz")):
        with service.client(token) as client:
            status, text = asked(client, each)
        if status != 401:
            found.append(f"{each.name}, {name} token: {status}")
        if CONTENT in text:
            found.append(f"{each.name}, {name} token: content")
    return found


@pytest.mark.parametrize("each", GUARDED, ids=lambda each: each.name)
def test_no_route_answers_without_a_token(
    served: tuple[Running, dict[str, str]], each: AnyOperation
) -> None:
    assert leaks_without_a_token(*served, each) == []


@pytest.mark.parametrize("each", GUARDED, ids=lambda each: each.name)
def test_a_token_without_the_right_is_refused(
    served: tuple[Running, dict[str, str]], each: AnyOperation
) -> None:
    service, made = served
    lacking = {Right.READ: "writer", Right.WRITE: "reader", Right.ADMIN: "writer"}
    assert each.right is not None
    with service.client(made[lacking[each.right]]) as client:
        status, text = asked(client, each)
    assert status == 403
    assert CONTENT not in text


SCOPES = [rights for size in range(1, 4) for rights in combinations(sorted(Right), size)]


@pytest.mark.parametrize("rights", SCOPES, ids="+".join)
def test_each_set_of_rights_admits_to_its_operations_and_to_no_other(
    tmp_path: Path, rights: tuple[Right, ...]
) -> None:
    """Every operation with every scope: no right includes another, and one that is missing is named."""
    store, file = f"sqlite:///{tmp_path / 'chat.db'}", tmp_path / "tokens.json"
    token = make_tokens(file, ("some", "acme", rights))["some"]
    fill(store)
    refused: dict[str, bool] = {}
    with (
        running(ServiceOptions(store=store, tokens_file=file)) as service,
        service.client(token) as client,
    ):
        for each in sorted(GUARDED, key=lambda each: each.method == "DELETE"):
            status, text = asked(client, each)
            assert status < 500
            refused[each.name] = status == 403
            if status == 403:
                assert any(f"the right '{right}' is required" in text for right in each.rights)
                assert CONTENT not in text
    assert refused == {each.name: not each.rights <= set(rights) for each in GUARDED}


def content_of_a_writer(service: Running, made: dict[str, str], each: AnyOperation) -> bool:
    """Return True if a token that may only write gets stored content from an operation."""
    with service.client(made["writer"]) as client:
        return CONTENT in asked(client, each)[1]


@pytest.mark.parametrize(
    "each", [each for each in GUARDED if each.rights != {Right.WRITE}], ids=lambda each: each.name
)
def test_a_token_that_may_only_write_is_refused_what_returns_content(
    served: tuple[Running, dict[str, str]], each: AnyOperation
) -> None:
    service, made = served
    with service.client(made["writer"]) as client:
        status, text = asked(client, each)
    assert status == 403
    assert CONTENT not in text


def test_a_token_that_may_only_write_gets_no_content_from_the_rest(tmp_path: Path) -> None:
    """On a store of its own, because these operations change it, and one of them deletes it."""
    store, file = f"sqlite:///{tmp_path / 'chat.db'}", tmp_path / "tokens.json"
    made = make_tokens(file, ("writer", "acme", ["write"]), ("all", "acme", ["read", "write"]))
    fill(store)
    write_only = [each for each in GUARDED if each.rights == {Right.WRITE}]
    assert {"say_user", "pin", "delete"} <= {each.name for each in write_only}
    with running(ServiceOptions(store=store, tokens_file=file)) as service:
        with service.client(made["all"]) as client:
            assert CONTENT in asked(client, operations.CONTEXT)[1]
        last = sorted(write_only, key=lambda each: each.method == "DELETE")
        assert [each.name for each in last if content_of_a_writer(service, made, each)] == []


def stored_content(file: Path) -> list[tuple[str, str]]:
    """Everything that a store keeps, but the search index, which is made from the rest when it is needed."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as store:
        return sorted(
            (table, repr(row))
            for table in ("entry", "checkpoint", "document")
            for row in store.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 (names above)
        )


@pytest.mark.parametrize(
    "each",
    [each for each in GUARDED if each.rights == {Right.READ}],
    ids=lambda each: each.name,
)
def test_a_token_that_may_only_read_changes_nothing(tmp_path: Path, each: AnyOperation) -> None:
    store, file = f"sqlite:///{tmp_path / 'chat.db'}", tmp_path / "tokens.json"
    made = make_tokens(file, ("reader", "acme", ["read"]))
    fill(store)
    with Memory(store, scope="acme") as memory:
        for name in ("talk", "short"):
            session = memory.session(name)
            for number in range(3):  # rules that no context has looked for yet
                session.user(f"Never use tabs in file {number}. 以后一律用中文回答。")
                session.assistant("Noted.")
    before = stored_content(tmp_path / "chat.db")
    with (
        running(ServiceOptions(store=store, tokens_file=file)) as service,
        service.client(made["reader"]) as client,
    ):
        assert asked(client, each)[0] in (200, 404)
    assert stored_content(tmp_path / "chat.db") == before


def test_an_operation_that_answers_content_to_a_writer_would_be_found(tmp_path: Path) -> None:
    leaky = declare(
        "leaky", "POST /v1/leaky/{session}", "Say too much.", right=Right.WRITE, answer=ForkedAnswer
    )
    table = OperationTable(TABLE)

    @table.bind(leaky)
    async def run(request: OperationRequest[Nothing, NoQuery]) -> ForkedAnswer:
        [first, *_] = await request.session.history()
        return ForkedAnswer(conversation=first.message.text)

    store, file = f"sqlite:///{tmp_path / 'chat.db'}", tmp_path / "tokens.json"
    made = make_tokens(file, ("writer", "acme", ["write"]))
    fill(store)
    with running(ServiceOptions(store=store, tokens_file=file), table=table) as service:
        assert content_of_a_writer(service, made, leaky)


@pytest.mark.parametrize("each", TABLE, ids=lambda each: each.name)
def test_another_tenant_sees_and_changes_nothing(
    served: tuple[Running, dict[str, str]], each: AnyOperation
) -> None:
    service, made = served
    with service.client(made["foreign"]) as client:
        status, text = asked(client, each)
    assert status < 500
    assert CONTENT not in text
    with service.client(made["reader"]) as client:
        for name in ("talk", "short"):
            page = client.get(f"/v1/sessions/{name}/messages").json()
            assert [entry["message"]["content"] for entry in page["entries"]] == [CONTENT, CONTENT]
            assert client.get(f"/v1/sessions/{name}/state").json()["values"] == {"a": CONTENT}
            assert client.get(f"/v1/sessions/{name}/pins").json()["pins"] == {"p": CONTENT}
            [found] = client.get(f"/v1/sessions/{name}/findings").json()["findings"]
            assert found["content"] == CONTENT
        listed = client.get("/v1/sessions").json()["conversations"]
        assert [each["conversation"] for each in listed] == ["short", "talk"]


def test_the_owner_does_see_it(served: tuple[Running, dict[str, str]]) -> None:
    service, made = served
    seen = 0
    with service.client(made["reader"]) as client:
        for each in TABLE:
            if each.right is Right.READ and each.answer is not Events:
                status, text = asked(client, each)
                assert status == 200, each.name
                seen += CONTENT in text
    assert seen >= 10


def test_a_route_without_a_check_would_be_found(tmp_path: Path) -> None:
    oops = declare(
        "oops", "GET /v1/sessions/{session}/oops", "Forgot to ask.", right=None, answer=Ready
    )
    table = OperationTable(TABLE)

    @table.bind(oops)
    async def run(request: OperationRequest[Nothing, NoQuery]) -> Ready:
        return Ready(ready=CONTENT in repr(request.params))

    file = tmp_path / "tokens.json"
    made = make_tokens(file, ("all", "acme", ["read"]))
    with running(ServiceOptions(tokens_file=file), table=table) as service:
        assert leaks_without_a_token(service, {**made, "late": "x"}, oops) != []


def test_a_route_that_looks_elsewhere_would_be_found(tmp_path: Path) -> None:
    peek = declare(
        "peek", "GET /v1/peek/{session}", "Look elsewhere.", right=Right.READ, answer=FilesAnswer
    )
    table = OperationTable(TABLE)

    @table.bind(peek)
    async def run(request: OperationRequest[Nothing, NoQuery]) -> FilesAnswer:
        found = await request.state.memory("acme").session(request.params["session"]).history()
        return FilesAnswer(files={entry.message.text: 0 for entry in found})

    store = f"sqlite:///{tmp_path / 'chat.db'}"
    with Memory(store, scope="acme") as memory:
        memory.session("talk").user(CONTENT)
    file = tmp_path / "tokens.json"
    made = make_tokens(file, ("foreign", "other", ["read"]))
    options = ServiceOptions(store=store, tokens_file=file)
    with (
        running(options, table=table) as service,
        service.client(made["foreign"]) as client,
    ):
        assert CONTENT in asked(client, peek)[1]


def test_what_is_mounted_beside_the_api_passes_the_same_gate(tmp_path: Path) -> None:
    async def beside(scope: Any, receive: Any, send: Any) -> None:
        del receive
        tenant = scope[CALLER].tenant.encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": tenant})

    file = tmp_path / "tokens.json"
    made = make_tokens(file, ("reader", "acme", ["read"]), ("writer", "acme", ["write"]))
    entered: list[str] = []

    class Beside:
        async def __aenter__(self) -> None:
            entered.append("in")

        async def __aexit__(self, *_: object) -> None:
            entered.append("out")

    state_of: list[Any] = []

    async def guarded_later(scope: Any, receive: Any, send: Any) -> None:
        await GuardedApp(beside, state_of[0], right=Right.READ)(scope, receive, send)

    options = ServiceOptions(tokens_file=file)
    with running(options, mounts=[Mount("/beside", guarded_later)], beside=[Beside]) as service:
        state_of.append(service.state)
        with service.client(made["reader"]) as client:
            assert client.get("/beside/x").text == "acme"
        with service.client(made["writer"]) as client:
            assert client.get("/beside/x").status_code == 403
        with service.client() as client:
            assert client.get("/beside/x").status_code == 401
    assert entered == ["in", "out"]


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil:80", ""]
)
def test_another_name_in_the_host_header_is_refused(
    served: tuple[Running, dict[str, str]], host: str
) -> None:
    service, made = served
    with service.client(made["all"]) as client:
        answer = client.get("/v1/sessions", headers={"host": host})
    assert answer.status_code in (400, 403)
    assert CONTENT not in answer.text


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:99", "[::1]:8787", "LOCALHOST:1"])
def test_names_of_this_machine_are_taken(served: tuple[Running, dict[str, str]], host: str) -> None:
    service, made = served
    with service.client(made["all"]) as client:
        assert client.get("/v1/sessions", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "file://"])
def test_a_page_of_another_origin_is_refused(
    served: tuple[Running, dict[str, str]], origin: str
) -> None:
    service, made = served
    with service.client(made["all"]) as client:
        assert client.get("/healthz", headers={"origin": origin}).status_code == 403
        assert client.get("/v1/sessions", headers={"origin": origin}).status_code == 403


def test_a_page_of_the_service_itself_and_of_allowed_origins_may_ask() -> None:
    options = ServiceOptions(allow_origins=("https://app.example",), allow_hosts=("mem.example",))
    with running(options) as service, service.client() as client:
        own = service.url
        for origin, shown in ((own, None), ("https://app.example", "https://app.example")):
            answer = client.get("/v1/sessions", headers={"origin": origin})
            assert answer.status_code == 200
            assert answer.headers.get("access-control-allow-origin") == shown
        problem = client.get("/v1/nowhere", headers={"origin": "https://app.example"})
        assert problem.headers["access-control-allow-origin"] == "https://app.example"
        for origin, status in (("https://app.example", 200), ("https://evil.example", 400)):
            asked_first = {"origin": origin, "access-control-request-method": "POST"}
            assert client.options("/v1/sessions", headers=asked_first).status_code == status
        assert client.get("/v1/sessions", headers={"host": "mem.example"}).status_code == 200
