"""Ids that are made from a text are readable on the disk of an encrypted store: they must confirm no guess of it."""

from __future__ import annotations

import asyncio
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the MCP server needs the extra 'mcp'")

from turnfold import AsyncMemory, Memory
from turnfold.api import Right
from turnfold.records import Message
from turnfold.redaction import Redactor
from turnfold.service import Limits, McpOptions, McpPermission, ServiceOptions, make_state
from turnfold.service.auth import Caller
from turnfold.service.mcp.methods import McpProtocol

KEY = "01" * 32
GUESSED = "The PIN of ward 7 is 4711. 七号病房的密码是 4711。"
PLAIN = blake2b(GUESSED.encode(), digest_size=16).hexdigest()


def remember(url: str, **options: Any) -> dict[str, Any]:
    """Store the text as a pinned note, by a service that was started for it."""

    async def run() -> dict[str, Any]:
        state = make_state(ServiceOptions(store=url, limits=Limits(stored=1 << 20), **options))
        try:
            mcp = McpProtocol(state, McpOptions(session="notes", allow=tuple(McpPermission)))
            caller = Caller("default", frozenset(Right), "test")
            call = {"name": "remember", "arguments": {"text": GUESSED, "pin": True}}
            told: Any = await mcp.answer("tools/call", caller, call)
            assert told["isError"] is False, told
            return told["structuredContent"]
        finally:
            await state.close()

    return asyncio.run(run())


@pytest.mark.parametrize("redact", [None, Redactor()], ids=["", "redacted"])
def test_notes_and_pins_have_keyed_ids(tmp_path: Path, redact: Redactor | None) -> None:
    url = f"sqlite:///{tmp_path}/chat.db"
    first, again = (remember(url, encryption_key=KEY, redact=redact) for _ in range(2))
    assert (first["repeated"], again["repeated"]) == (False, True)
    assert (first["seq"], first["pinned"]) == (again["seq"], again["pinned"])
    with Memory(url, encryption_key=KEY) as memory:
        session = memory.session("notes")
        keys = [session.pin(GUESSED) for _ in range(2)]
        assert keys[0] == keys[1]
        assert len(session.history()) == 1
        assert memory.session("other").pin(GUESSED) != keys[0]
    stored = b"".join(one.read_bytes() for one in tmp_path.iterdir())
    assert first["pinned"].encode() in stored
    for digest in (PLAIN, PLAIN[:12], blake2b(GUESSED.encode(), digest_size=6).hexdigest()):
        assert digest.encode() not in stored


def test_a_note_and_a_pin_of_an_earlier_release_are_found_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/chat.db"
    old = blake2b(GUESSED.encode(), digest_size=6).hexdigest()

    async def earlier() -> None:
        async with AsyncMemory(url, encryption_key=KEY) as memory:
            note = Message("assistant", GUESSED, metadata={"trust": "model"})
            await memory.session("notes").add(note, client_id=f"remembered:{PLAIN}")
            await memory.session("notes").pin(GUESSED, key=old)

    asyncio.run(earlier())
    with Memory(url, encryption_key=KEY) as memory:
        assert memory.session("notes").pin(GUESSED) == old
    told = remember(url, encryption_key=KEY)
    assert (told["seq"], told["repeated"]) == (1, True)
