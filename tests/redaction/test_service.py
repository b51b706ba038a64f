"""`--redact` of the service, of MCP and of imports: nothing that was found reaches the store."""

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("uvicorn", reason="the service needs the extra 'service'")
pytest.importorskip("mcp", reason="needs the extra 'mcp'")

from tests.redaction.test_stored import SECRETS, bytes_of, found_in, said
from tests.service.running import running
from turnfold.cli.app import app
from turnfold.records import session_notes
from turnfold.redaction import Redactor, find_secrets
from turnfold.rules import standing_rule
from turnfold.service import ServiceOptions, idempotent_replies, mcp_beside
from turnfold.stores import content_digests


def call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def test_the_service_and_mcp_store_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    options = ServiceOptions(store=f"sqlite:///{path}", redact=Redactor())
    accept = {"accept": "application/json, text/event-stream"}
    with running(options, besides=(mcp_beside,)) as service, service.client() as client:
        for kind in SECRETS:
            place, secret = f"/v1/sessions/{kind.replace(' ', '-')}", said(kind)
            message = {"role": "user", "content": secret}
            done = client.post(f"{place}/messages", json={"messages": [message]})
            assert done.status_code in (200, 201), done.text
            assert done.json()["redacted"] >= 1
            for name, body in {"pins": {"content": secret}, "context": {"query": secret}}.items():
                key = {"idempotency-key": f"key-{name}"}
                assert client.post(f"{place}/{name}", json=body, headers=key).status_code < 300
            told = client.post("/mcp", json=call("remember", {"text": secret}), headers=accept)
            assert told.status_code == 200
            assert '"isError":true' not in told.text.replace(" ", "")
    assert found_in(path) == []
    for kind in SECRETS:
        assert bytes_of(path).count(f"[redacted: {kind}".encode()) >= 3


def test_no_digest_of_a_secret_is_stored(tmp_path: Path) -> None:
    """Whoever reads the disk could try all phone numbers against a digest of the text or of the request."""
    path, tried = tmp_path / "a.db", list[bytes]()
    real = blake2b

    def noted(data: bytes = b"", **options: Any) -> Any:
        if not options.get("key"):
            tried.append(data)
        return real(data, **options)

    options = ServiceOptions(store=f"sqlite:///{path}", redact=Redactor())
    accept = {"accept": "application/json, text/event-stream"}
    first, other = said("phone"), said("phone").replace("8", "7", 1)
    assert first != other
    with (
        pytest.MonkeyPatch.context() as patch,
        running(options, besides=(mcp_beside,)) as service,
        service.client() as client,
    ):
        for module in (content_digests, idempotent_replies, standing_rule, session_notes):
            patch.setattr(module, "blake2b", noted, raising=False)

        def remember(text: str) -> Any:
            told = client.post("/mcp", json=call("remember", {"text": text}), headers=accept)
            return told.json()["result"]["structuredContent"]

        assert [remember(text)["seq"] for text in (first, other, first)] == [1, 2, 1]

        def snapshot(context: str) -> tuple[int, str]:
            told = client.post(
                "/v1/sessions/a/snapshots",
                content=json.dumps({"context": context}),
                headers={"idempotency-key": "one", "content-type": "application/json"},
            )
            return told.status_code, told.text

        client.post("/v1/sessions/a/user", json={"content": "hi"})
        assert snapshot(first) == snapshot(first)
        assert snapshot("something else")[0] == 422
        client.post("/v1/sessions/a/pins", json={"content": first})
        client.post("/v1/sessions/a/rules", json={"text": f"Always call {first}"})
        client.put("/v1/sessions/a/state/phone", json={"value": first})
    assert len(tried) > 4
    number = next(iter(find_secrets(first)))
    secret = first[number[1] : number[2]].encode()
    assert [data for data in tried if secret in data] == []


def test_import_redact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, path = tmp_path / "talk.jsonl", tmp_path / "a.db"
    source.write_text(json.dumps({"messages": [{"role": "user", "content": said("email")}]}))
    command = ["import", str(source), "--session", "talk", "--store", str(path)]
    monkeypatch.setenv("TURNFOLD_REDACTION_KEY", "short")
    assert CliRunner().invoke(app, [*command, "--redact"]).exit_code != 0
    monkeypatch.setenv("TURNFOLD_REDACTION_KEY", "long enough for a key")
    done = CliRunner().invoke(app, [*command, "--redact"])
    assert done.exit_code == 0, done.output
    assert found_in(path) == []
