"""Agents that work side by side in one conversation are each told their own system message."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnfold import AsyncMemory, AsyncSession, Budget
from turnfold.adapters._common import context_with_system
from turnfold.adapters._common import fitted_history as module
from turnfold.errors import Conflict
from turnfold.tokens import counter_for
from turnfold.window import Section, may_be_shrunk_from, shrink_text

OWN = ["You are A.", "用中文回答。"]
LONG = [f"Rule {number}: 不得超过 {number * 7} 吨。" * 20 for number in range(3)]
count = counter_for("gpt-4o").count_text


def interrupt(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Another run sets its system message just before each of the first contexts is made."""
    made, left = AsyncSession.context, list(range(times))

    async def late(self: AsyncSession, *args: Any, **options: Any) -> Any:
        if left:
            await self.system(f"You are B{left.pop()}." * len(OWN))
        return await made(self, *args, **options)

    monkeypatch.setattr(AsyncSession, "context", late)


def told(texts: list[str], *, max_tokens: int = 2_000) -> list[str]:
    async def work() -> list[str]:
        async with AsyncMemory("sqlite://", budget=Budget(max_tokens=max_tokens)) as memory:
            session = memory.session("s")
            await session.system([{"type": "text", "text": text} for text in texts])
            await session.user("hello")
            context = await context_with_system(session, texts, None)
            parts: list[Any] = [
                part for one in context.section(Section.SYSTEM) for part in one.parts
            ]
            return [part.text for part in parts]

    return asyncio.run(work())


@pytest.mark.parametrize("times", [0, 1, 3])
def test_a_run_is_told_its_own_system_message_whoever_set_another(
    times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt(monkeypatch, times)
    assert told(OWN) == OWN


def test_one_that_had_to_be_shortened_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(monkeypatch, 1)
    shown = told(LONG, max_tokens=600)
    assert shown != LONG
    assert all(text.startswith(f"Rule {number}:") for number, text in enumerate(shown))


def test_sabotage_without_looking_the_other_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(monkeypatch, 1)
    monkeypatch.setattr(module, "_has_system", lambda *_: True)
    assert told(OWN) != OWN


def test_who_never_gets_its_own_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt(monkeypatch, 1_000)
    with pytest.raises(Conflict, match="at the same time"):
        told(OWN)


@given(st.text("ab …\n[]1,", max_size=80), st.integers(1, 40))
def test_whatever_is_left_of_a_text_is_recognised(text: str, cap: int) -> None:
    assert may_be_shrunk_from(shrink_text(text, cap, count), text)


def test_another_text_is_not() -> None:
    assert not may_be_shrunk_from("You are B.", "You are A.")
    assert not may_be_shrunk_from(shrink_text(LONG[0], 40, count), LONG[1])
    assert not may_be_shrunk_from("You are", "You are A.")
