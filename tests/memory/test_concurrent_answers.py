"""Two requests of one session at the same time: both answers are stored, each with the usage of its own call."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from turnfold import AsyncMemory, Memory
from turnfold.errors import Conflict
from turnfold.stores import SqliteStore


def answer(text: str, tokens: int) -> dict[str, Any]:
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": text},
    }
    usage = {"prompt_tokens": tokens, "completion_tokens": 2, "total_tokens": tokens + 2}
    return {
        "id": text,
        "object": "chat.completion",
        "model": "gpt-4o",
        "choices": [choice],
        "usage": usage,
    }


ASKED = {"甲": 1_001, "乙": 1_002, "third": 1_003}


def test_tasks_of_one_handle(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncMemory(f"sqlite:///{tmp_path / 'chat.db'}", model="gpt-4o") as memory:
            session = memory.session("user-42/chat")
            built: dict[str, str] = {}
            asked = asyncio.Barrier(len(ASKED))

            async def reply(said: str, tokens: int) -> None:
                await session.user(said)
                await session.context()
                built[said] = session.last_call
                await asked.wait()
                await session.add(answer(f"answer to {said}", tokens))

            await asyncio.gather(*(reply(said, tokens) for said, tokens in ASKED.items()))
            texts = {entry.message.text for entry in await session.history()}
            assert texts == {*ASKED, *(f"answer to {said}" for said in ASKED)}
            usage = {each.call: each.usage for each in await session.calls()}
            assert {said: getattr(usage[call], "input", 0) for said, call in built.items()} == ASKED

    asyncio.run(main())


def test_threads_of_one_handle(tmp_path: Path) -> None:
    with Memory(f"sqlite:///{tmp_path / 'chat.db'}", model="gpt-4o") as memory:
        session = memory.session("user-42/chat")
        asked = threading.Barrier(len(ASKED))

        def reply(said: str, tokens: int) -> None:
            session.user(said)
            session.context()
            asked.wait()
            session.add(answer(f"answer to {said}", tokens))

        threads = [threading.Thread(target=reply, args=each) for each in ASKED.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(session.history()) == 2 * len(ASKED)
        reported = {each.usage.input for each in session.calls() if each.usage is not None}
        assert reported == {*ASKED.values()}


def test_an_answer_is_stored_even_if_its_usage_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise Conflict("somebody else is faster, always")

    with Memory(SqliteStore(tmp_path / "chat.db", blocking=True), model="gpt-4o") as memory:
        session = memory.session("user-42/chat")
        session.user("hello")
        session.context()
        monkeypatch.setattr(SqliteStore, "put_document", refuse)
        with pytest.raises(Conflict):
            session.add(answer("hi", 5))
        assert [entry.message.text for entry in session.history()] == ["hello", "hi"]
