"""Listings show sessions, not what adapters keep for themselves, unless somebody asks for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.service.mcp.asking import asking
from tests.service.running import running
from turnfold.cli.app import app
from turnfold.client import RemoteMemory
from turnfold.memory import Memory
from turnfold.records import assistant, user
from turnfold.runtime import drive
from turnfold.service import ServiceOptions
from turnfold.stores import LANGGRAPH_HOMES, Scope, list_sessions, new_home, open_store

SCOPE = Scope("default")
SESSIONS = ["a", "b", "lang", "nearby", "z"]


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Five sessions, and three homes of an adapter between them."""
    address = f"sqlite:///{tmp_path / 'chat.db'}"
    with Memory(address) as memory:
        for name in SESSIONS:
            memory.session(name).add([user(f"hello {name}"), assistant("hello")])
        for _ in range(3):
            home = memory.session(new_home(LANGGRAPH_HOMES.prefix("a")))
            home.add([user("kept by an adapter"), assistant("kept")])
    return address


def run(*words: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_pages_are_full_and_in_order(store: str) -> None:
    opened = open_store(store, blocking=True)
    try:
        for limit in (1, 2, 3, 100):
            found, after = list[str](), ""
            while page := drive(list_sessions(opened, SCOPE, after=after, limit=limit)):
                assert len(page) == min(limit, len(SESSIONS) - len(found))
                found += [each.conversation for each in page]
                after = found[-1]
            assert found == SESSIONS
        inside = drive(list_sessions(opened, SCOPE, prefix="langgraph:"))
        assert len(inside) == 3
        assert drive(list_sessions(opened, SCOPE, prefix="lang"))[0].conversation == "lang"
        assert len(drive(list_sessions(opened, SCOPE, internal=True))) == 8
        assert drive(list_sessions(opened, SCOPE, prefix="zz")) == []
    finally:
        drive(opened.close())


def test_http_lists_sessions_and_a_remote_memory_what_a_memory_lists(store: str) -> None:
    with running(ServiceOptions(store=store)) as service, service.client() as client:

        def listed(query: str) -> list[str]:
            found = client.get(f"/v1/sessions{query}").json()["conversations"]
            return [each["conversation"] for each in found]

        assert listed("") == SESSIONS
        assert listed("?prefix=ne") == ["nearby"]
        assert len(listed("?prefix=langgraph:")) == 3
        assert len(listed("?internal=true")) == 8
        first = client.get("/v1/sessions?limit=3").json()
        assert [each["conversation"] for each in first["conversations"]] == SESSIONS[:3]
        assert listed(f"?limit=3&after={first['next']}") == SESSIONS[3:]
        with RemoteMemory(service.url) as remote, Memory(store) as memory:
            for held in (memory, remote):
                assert [each.conversation for each in held.conversations()] == SESSIONS
                assert [each.conversation for each in held.conversations(limit=3)] == SESSIONS[:3]
                rest = held.conversations(after=SESSIONS[2], limit=3)
                assert [each.conversation for each in rest] == SESSIONS[3:]
                assert len(held.conversations(internal=True)) == 8


def test_a_model_is_shown_sessions(store: str) -> None:
    with asking(store) as asked:
        found = asked.call("list_sessions")["structuredContent"]["sessions"]
        assert [each["session"] for each in found] == SESSIONS
        uris = [each["uri"] for each in asked.ask("resources/list", {})["resources"]]
        assert not [uri for uri in uris if "langgraph" in uri]


def test_commands_use_sessions_unless_a_prefix_asks_for_more(store: str) -> None:
    at = ("--store", store)
    top = run("top", *at)
    assert sorted(each["name"] for each in top["conversations"]) == SESSIONS
    assert top["entries"] == 10
    assert run("top", "langgraph:", *at)["entries"] == 6
    audited = run("audit", *at)
    assert [each["session"] for each in audited["sessions"]] == SESSIONS
    assert run("audit", "langgraph:", "a", *at)["entries"] == 8
    budget = ("--budget", "2000")
    assert run("eval", "--all", *budget, *at)["conversations"] == 5
    assert run("eval", "langgraph:", *budget, *at)["conversations"] == 3
