"""Findings on PostgreSQL with Redis in front of it: shared, erased, and kept apart by tenant as on SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")
pytest.importorskip("redis", reason="needs redis")

from tests.memory.short_places import as_url
from tests.stores.redis_server import shared_url
from tests.stores.servers import PostgresPlaces
from turnfold import Budget, Memory
from turnfold.errors import ConversationDeleted
from turnfold.findings import FindingRule
from turnfold.memory import Session
from turnfold.records import ToolCall

RULES = (FindingRule("search", serve=True, invalidated_by=("update",)),)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Any]:
    places = PostgresPlaces()
    url = as_url(places.url(tmp_path))
    with ExitStack() as stack:

        def open_session(scope: str = "default", *, cached: bool = True) -> Session:
            cache = shared_url() if cached else None
            memory = Memory(url, cache=cache, scope=scope, budget=Budget(max_tokens=4_000))
            session = stack.enter_context(memory).session(f"findings of {tmp_path.name}")
            session.findings.use(RULES)
            return session

        yield open_session
    places.sweep()
    places.close()


def call(query: str) -> ToolCall:
    return ToolCall("c1", "search", f'{{"q":"{query}"}}')


def test_processes_share_and_tenants_do_not(opened: Any) -> None:
    here, there, bare, stranger = opened(), opened(), opened(cached=False), opened("another tenant")
    here.user("问题")
    here.findings.note(call("a"), "绝缘电阻不小于 10 MΩ。")
    there.findings.note(call("b"), "耐受电压 35 kV。")
    assert here.findings.list() == there.findings.list() == bare.findings.list()
    assert len(here.findings.list()) == 2
    assert stranger.findings.list() == ()
    assert stranger.findings.serve(call("a")) is None
    here.user("再问")
    messages = here.context().messages
    assert messages == there.context().messages == bare.context().messages
    assert "绝缘电阻不小于 10 MΩ。" in messages[-2].text
    there.findings.ran("update")
    assert here.findings.serve(call("a")) is None


def test_it_is_erased_with_the_conversation(opened: Any) -> None:
    here, there = opened(), opened()
    here.user("问题")
    here.findings.note(call("a"), "a secret")
    assert there.findings.list()
    here.delete()
    assert opened().findings.list() == ()
    with pytest.raises(ConversationDeleted):
        there.findings.note(call("b"), "late")
