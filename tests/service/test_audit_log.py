"""The audit log says who did what to which conversation, for every authorized request, and nothing of what was said."""

from __future__ import annotations

import json
import logging
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.running import make_tokens, running
from turnfold.errors import InvalidOption
from turnfold.service import ServiceOptions, mcp_beside, write_audit_log
from turnfold.stores import log_mark

CONTENT = "the parcel 4711 of Dana"


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    logger = logging.getLogger("turnfold.audit")
    before = logger.handlers[:], logger.level, logger.propagate
    yield
    for each in logger.handlers:
        if each not in before[0]:
            each.close()
    logger.handlers[:], logger.level, logger.propagate = before


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_authorized_request_is_recorded(tmp_path: Path) -> None:
    path, file = tmp_path / "audit.jsonl", tmp_path / "tokens.json"
    made = make_tokens(file, ("app", "acme", ["read", "write"]), ("look", "acme", ["read"]))
    write_audit_log(path)
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}", tokens_file=file)
    secret = "Dana\n会话"  # noqa: S105 (an id that must not be in the log)
    with running(options, besides=[mcp_beside]) as service:
        with service.client(made["app"]) as app, service.client(made["look"]) as look:
            session = "/v1/sessions/Dana%0A%E4%BC%9A%E8%AF%9D"
            app.post(f"{session}/user", json={"content": CONTENT})
            look.post(f"{session}/user", json={"content": CONTENT})
            app.get(f"{session}/messages")
            app.delete(session)
            call = {"name": "search_memory", "arguments": {"query": CONTENT}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
            app.post("/mcp", json=body, headers={"accept": "application/json, text/event-stream"})
        with service.client("tf_app_wrong") as stranger:
            stranger.get("/v1/sessions")
            stranger.get("/healthz")
    found = lines(path)
    assert [(each["token"], each["operation"], each["status"]) for each in found[:4]] == [
        ("app", "say_user", 200),
        ("look", "say_user", 403),
        ("app", "history", 200),
        ("app", "delete", 200),
    ]
    assert (found[4]["token"], found[4]["operation"]) == ("app", "mcp search_memory")
    assert len(found) == 5
    assert {each["tenant"] for each in found} == {"acme"}
    assert len({each["conversation"] for each in found[:4]}) == 1
    written = path.read_text()
    for word in (CONTENT, secret, "Dana", made["app"]):
        assert word not in written
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_a_body_names_is_recorded_too(tmp_path: Path) -> None:
    """Whom an erasure was about, and which session a model read or wrote, was in the body and so in no record."""
    path, file = tmp_path / "audit.jsonl", tmp_path / "tokens.json"
    made = make_tokens(file, ("app", "acme", ["read", "write"]))
    write_audit_log(path)
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}", tokens_file=file)
    with running(options, besides=[mcp_beside]) as service, service.client(made["app"]) as app:

        def ask(method: str, **params: object) -> None:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            app.post("/mcp", json=body, headers={"accept": "application/json, text/event-stream"})

        app.post("/v1/sessions/Dana/user", json={"content": "hi"})
        app.post("/v1/sessions/notes/user", json={"content": "hi"})
        app.post("/v1/sessions/Ann/user", json={"content": "hi"})
        ask("tools/call", name="remember", arguments={"text": "x"})
        ask("tools/call", name="recall_context", arguments={"session": "Dana", "query": "hi"})
        ask("tools/call", name="search_memory", arguments={"query": "hi"})
        ask("resources/read", uri="memory://Dana/log")
        ask("prompts/get", name="resume_session", arguments={"session": "Dana"})
        ask("tools/list")
        for kind, name in (("session", "Dana"), ("user", "Ann"), ("tenant", "acme")):
            app.post("/v1/erasures", json={"kind": kind, "id": name})
    found = lines(path)
    dana, notes, ann = (each["conversation"] for each in found[:3])
    assert [(each["operation"], each["conversation"]) for each in found[3:]] == [
        ("mcp remember", notes),
        ("mcp recall_context", dana),
        ("mcp search_memory", ""),
        ("mcp resources/read", dana),
        ("mcp prompts/get", dana),
        ("mcp tools/list", ""),
        ("erase session", dana),
        ("erase user", ann),
        ("erase tenant", log_mark("acme", "acme")),
    ]
    assert not any(word in path.read_text() for word in ("Dana", "Ann", "notes"))


def test_what_a_client_has_seen_is_recorded(tmp_path: Path) -> None:
    """A stream of events sends calls for as long as it is open, and was recorded when it ended."""
    path = tmp_path / "audit.jsonl"
    write_audit_log(path)
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}")
    with running(options) as service, service.client() as app:
        with app.stream("GET", "/v1/events") as answer:
            assert next(answer.iter_raw())
            assert [each["operation"] for each in lines(path)] == ["watch_tenant"]
        with app.stream("GET", "/v1/sessions/none/messages") as answer:
            assert [each["status"] for each in lines(path)] == [200, answer.status_code]


def test_a_log_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="cannot write the audit log"):
        write_audit_log(tmp_path / "none" / "audit.jsonl")
