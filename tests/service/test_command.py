"""`turnfold serve` and `turnfold tokens`, as an operator uses them; and what the service writes into its log."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner

from tests.house.source_tree import ROOT, SOURCE
from tests.service.running import ServiceProcess, make_tokens, running
from turnfold.cli.app import app
from turnfold.client import RemoteMemory
from turnfold.errors import AccessDenied, InvalidOption, NotFound, StoreUnavailable
from turnfold.service import ServiceOptions, ServiceState, TokenFile, make_state

CONTENT = "the parcel 4711 of Dana"


def turnfold(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(words))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def test_an_operator_makes_a_token_and_serves(tmp_path: Path) -> None:
    file = str(tmp_path / "tokens.json")
    words = ("--tenant", "acme", "--file", file)
    code, token = turnfold("tokens", "create", "app", *words)
    assert (code, token.startswith("tf_app_")) == (0, True)
    _, reader = turnfold("tokens", "create", "look", *words, "--rights", "read", "--days", "1")
    _, listed = turnfold("tokens", "list", "--file", file)
    tomorrow = time.strftime("%Y-%m-%d", time.gmtime(TokenFile(Path(file)).lines()[1].expires))
    assert listed.splitlines() == [
        "app\tacme\tread,write\texpires never\tused never",
        f"look\tacme\tread\texpires {tomorrow}\tused never",
    ]
    code, token = turnfold("tokens", "rotate", "app", "--file", file)
    assert (code, token.startswith("tf_app_")) == (0, True)
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    with ServiceProcess("--store", store, "--tokens-file", file) as service:
        with RemoteMemory(service.url, token=token.strip()) as memory:
            memory.session("s").user("hi")
        with RemoteMemory(service.url, token=reader.strip()) as memory:
            assert [each.message.text for each in memory.session("s").history()] == ["hi"]
            with pytest.raises(AccessDenied, match="right 'write'") as refused:
                memory.session("s").user("no")
            assert refused.value.status == 403
        with RemoteMemory(service.url) as memory, pytest.raises(AccessDenied) as refused:
            memory.session("s").status()
        assert refused.value.status == 401
        assert "used never" not in turnfold("tokens", "list", "--file", file)[1].splitlines()[0]
        turnfold("tokens", "revoke", "look", "--file", file)
        with httpx2.Client(
            base_url=service.url,
            headers={"authorization": f"Bearer {reader.strip()}"},
            trust_env=False,
            verify=False,
        ) as client:
            while client.get("/v1/sessions").status_code == 200:
                pass  # within a second it knows
        service.terminate()
        assert service.ended() == 0
    with pytest.raises(NotFound):
        turnfold("tokens", "revoke", "look", "--file", file)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])  # noqa: S104 (refused)
def test_it_refuses_to_be_open_to_all(host: str) -> None:
    with pytest.raises(InvalidOption, match="anybody could read and delete"):
        make_state(ServiceOptions(host=host))


def test_a_taken_port_is_said_in_a_sentence(tmp_path: Path) -> None:
    with running(ServiceOptions()) as service:
        port = service.url.rpartition(":")[2]
        done = subprocess.run(
            [sys.executable, "-m", "turnfold", "serve", "--port", port],
            capture_output=True,
            check=False,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1 port {port}" in done.stderr
    assert "Choose another port with --port" in done.stderr


@pytest.mark.parametrize(
    ("missing", "wanted", "extra"),
    [
        ("uvicorn", "run", "service"),
        ("starlette", "run", "service"),
        ("starlette", "inspector_beside", "service"),
        ("mcp", "run_stdio", "mcp"),
    ],
)
def test_without_its_packages_the_service_names_the_extra(
    missing: str, wanted: str, extra: str
) -> None:
    command = {"service": "turnfold ui", "mcp": "turnfold mcp"}[extra]
    code = (
        "import importlib.util, sys\n"
        f"sys.modules[{missing!r}] = None\n"
        "find = importlib.util.find_spec\n"
        f"importlib.util.find_spec = lambda name, *rest: None if name == {missing!r} else find(name, *rest)\n"
        "from turnfold.errors import MissingExtra\n"
        f"try:\n    from turnfold.service import {wanted}\n"
        f"except MissingExtra as error:\n    assert 'turnfold[{extra}]' in str(error), error\n"
        f"    assert {command!r} in str(error), error\n"
        "else:\n    raise SystemExit(1)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    subprocess.run([sys.executable, "-c", code], check=True, env=env, cwd=ROOT)


def test_the_log_has_a_line_for_each_request_and_no_content(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG, logger="turnfold")
    file = tmp_path / "tokens.json"
    made = make_tokens(file, ("app", "acme-tenant", ["read", "write"]))
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    with (
        running(ServiceOptions(store=store, tokens_file=file)) as service,
        service.client(made["app"]) as client,
    ):
        say = "/v1/sessions/conversation-of-dana"
        client.post(f"{say}/user", json={"content": CONTENT})
        client.post(f"{say}/recall", json={"query": CONTENT})
        client.post(f"{say}/context", json={})
        client.post(f"{say}/user", json={"content": CONTENT, CONTENT: 1})
        client.get(f"{say}/{CONTENT}")

        def fails(state: ServiceState, tenant: str) -> None:
            raise KeyError(CONTENT, tenant, state)

        monkeypatch.setattr(ServiceState, "memory", fails)
        failed = client.get(say, headers={"x-request-id": "my-request.1"})
    assert (failed.status_code, failed.headers["x-request-id"]) == (500, "my-request.1")
    assert CONTENT not in failed.text
    logged = [f"{each.getMessage()} {vars(each)}" for each in caplog.records]
    assert sum("'event': 'request'" in each for each in logged) == 6
    assert any("my-request.1 KeyError" in each for each in logged)
    for kept in (CONTENT, "conversation-of-dana", made["app"], "acme-tenant"):
        assert [each for each in logged if kept in each] == []


def test_a_request_id_that_could_forge_a_line_is_replaced() -> None:
    with running(ServiceOptions()) as service, service.client() as client:
        for given in (b"a b", b"x" * 129, b"\xfc", b""):
            answer = client.get("/healthz", headers={b"x-request-id": given})
            assert re.fullmatch(r"[0-9a-f]{16}", answer.headers["x-request-id"])


def test_health_and_figures(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client", reason="figures need the extra 'prometheus'")
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    with running(ServiceOptions(store=store)) as service, service.client() as client:
        client.post("/v1/sessions/s/user", json={"content": "hi"})
        assert client.get("/healthz").json() == {"ready": True}
        assert client.get("/readyz").json() == {"ready": True}
        figures = client.get("/metrics")
        assert figures.headers["content-type"].startswith("text/plain")
        assert "turnfold_entries_total 1.0" in figures.text
        assert 'requests_total{operation="say_user",status="200"} 1.0' in figures.text
        service.state.stopping = True
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200


def test_a_store_that_is_gone_is_not_ready_and_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with running(ServiceOptions()) as service, service.client() as client:

        async def gone(*_: object, **__: object) -> None:
            raise StoreUnavailable("cannot reach db.internal as user turnfold")

        monkeypatch.setattr(service.state.config.store, "health", gone)
        monkeypatch.setattr(service.state.config.store, "conversations", gone)
        assert client.get("/readyz").status_code == 503
        answer = client.get("/v1/sessions")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["type"] == "urn:turnfold:problem:store-unavailable"
    assert "db.internal" not in answer.text


def test_without_a_store_it_serves_the_one_every_command_speaks_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[ServiceOptions] = []
    monkeypatch.setattr("turnfold.service.run", lambda options, **_beside: asked.append(options))
    monkeypatch.setenv("TURNFOLD_STORE", str(tmp_path / "mine.db"))
    for arguments in ([], ["--store", str(tmp_path / "other.db")]):
        assert CliRunner().invoke(app, ["serve", *arguments]).exit_code == 0
    assert [each.store for each in asked] == [
        f"sqlite:///{tmp_path / name}" for name in ("mine.db", "other.db")
    ]


ALONE = """
import sys
for name in {blocked!r}:
    sys.modules[name] = None
import turnfold.service.server, turnfold.service.inspector
from turnfold.service import ServiceOptions
from turnfold.service import make_app, make_state
make_app(make_state(ServiceOptions(store="sqlite://")))
print("made")
"""


def test_the_extra_service_alone_is_enough() -> None:
    """Packages of other extras are installed here: without this, one that is imported by accident would not be seen."""
    blocked = ("prometheus_client", "opentelemetry", "mcp", "httpx2", "psycopg", "redis", "valkey")
    done = subprocess.run(
        [sys.executable, "-c", ALONE.format(blocked=blocked)],
        capture_output=True,
        check=False,
        text=True,
    )
    assert (done.stdout, done.stderr[-500:]) == ("made\n", "")
