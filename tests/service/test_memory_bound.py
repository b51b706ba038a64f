"""A service that runs for long holds no more than one that has just begun to serve as many conversations."""

from __future__ import annotations

import gc
from pathlib import Path

import httpx2
import pytest

from tests.service.running import make_tokens, running
from turnfold.budget import Budget
from turnfold.memory import AsyncSession, SessionCache
from turnfold.records import Message
from turnfold.service import ServiceOptions

pytestmark = pytest.mark.usefixtures("only_own_garbage")


def live(kind: type) -> int:
    gc.collect()
    return sum(type(each) is kind for each in gc.get_objects())


def speak(client: httpx2.Client, session: str, turn: int) -> None:
    said = f"question {turn}: what grows? 问题 {turn}：什么会变大？"
    answered = f"answer {turn}: nothing. 回答 {turn}：什么都不会。"
    path = f"/v1/sessions/{session}"
    client.post(f"{path}/user", json={"content": said}).raise_for_status()
    client.post(f"{path}/context", json={}).raise_for_status()
    client.post(f"{path}/assistant", json={"content": answered}).raise_for_status()


def test_more_operations_hold_no_more_messages(tmp_path: Path) -> None:
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'a.db'}", budget=Budget(max_tokens=600))
    before = live(Message)
    with running(options) as service, service.client() as client:
        for turn in range(120):
            speak(client, f"talk-{turn % 2}", turn)
        held = live(Message) - before
    # Two contexts of at most 24 messages; twice as many and 32 more may be recognised. 240 were said.
    assert held <= 2 * (2 * 24 + 32)


def test_all_tenants_together_have_so_many_handles(tmp_path: Path) -> None:
    tenants = [f"tenant{number}" for number in range(3)]
    file = tmp_path / "tokens.json"
    tokens = make_tokens(file, *((name, name, ("read", "write")) for name in tenants))
    options = ServiceOptions(store=f"sqlite:///{tmp_path / 'a.db'}", tokens_file=file)
    before = live(AsyncSession)
    with running(options) as service:
        service.state.handles = SessionCache(most=6)
        for name in tenants:
            with service.client(tokens[name]) as client:
                for turn in range(8):
                    speak(client, f"talk-{turn}", turn)
        assert len(service.state.handles) == 6
        assert live(AsyncSession) - before == 6  # of 24 conversations
