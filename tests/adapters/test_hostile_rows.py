"""Rows that somebody forged, read back by each adapter: no code runs, errors are typed, and the rest can be read.

The forms beside a message are what each adapter trusts least: they are tried on every framework that is installed,
whoever's they pretend to be. Checkpoints of LangGraph have files of their own: test_hostile_checkpoints.py.
"""

from __future__ import annotations

import asyncio
import json
import pickle
from base64 import b64encode
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.stores.audit import nothing_runs
from turnfold import AsyncMemory, Memory, Message
from turnfold.errors import InvalidRecord, TurnfoldError
from turnfold.records import (
    Document,
    NewEntry,
    OpaquePart,
    Origin,
    Part,
    TextPart,
    ToolCall,
    ToolResult,
    decode_message,
    encode_message,
)
from turnfold.runtime import drive

Restore = Callable[[Sequence[Message]], Sequence[object]]


def _langchain() -> Restore:
    pytest.importorskip("langchain_core", reason="the extra langchain is not installed")
    return import_module("turnfold.adapters.langchain").langchain_messages


def _pydantic_ai() -> Restore:
    pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")
    return import_module("turnfold.adapters.pydantic_ai").model_messages


def _openai_agents() -> Restore:
    pytest.importorskip("agents", reason="the extra openai-agents is not installed")
    items_of = import_module("turnfold.adapters.openai_agents.items").items_of
    return lambda records: [item for record in records for item in items_of(record)]


def _llama_index() -> Restore:
    pytest.importorskip("llama_index.core", reason="the extra llama-index is not installed")
    return import_module("turnfold.adapters.llama_index").chat_messages


def _google_adk() -> Restore:
    pytest.importorskip("google.adk", reason="the extra google-adk is not installed")
    return import_module("turnfold.adapters.google_adk").adk_contents


def _strands() -> Restore:
    pytest.importorskip("strands", reason="the extra strands is not installed")
    return import_module("turnfold.adapters.strands").strands_messages


def _agent_framework() -> Restore:
    pytest.importorskip("agent_framework", reason="the extra agent-framework is not installed")
    return import_module("turnfold.adapters.agent_framework").framework_messages


FRAMEWORKS: dict[str, Callable[[], Restore]] = {
    "langchain": _langchain,
    "pydantic_ai": _pydantic_ai,
    "openai_responses": _openai_agents,
    "llama_index": _llama_index,
    "gemini": _google_adk,
    "agent_framework": _agent_framework,
    "strands": _strands,
}
"""By the provider that a record names."""


class _Reduced:
    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[object, ...]:
        return exec, (f"open({str(self.canary)!r}, 'w').close()",)


def in_letters(data: bytes | str) -> str:
    return b64encode(data.encode() if isinstance(data, str) else data).decode()


def hostile_forms(canary: Path) -> list[dict[str, Any]]:
    """Forms that try to have code run, files opened or written, parsers overflow, or types confused."""
    command = f"touch {canary}"
    call = {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": command}}
    secret = {"lc": 1, "type": "secret", "id": ["HOME"]}
    named = [
        {"py/object": "os.system", "py/reduce": [{"py/function": "os.system"}, [command]]},
        {"__reduce__": ["os.system", [command]]},
        {"class_name": "os.system", "command": command},
        {"type": "os.system", "data": {"command": command}},
        {"type": "human", "data": {"content": command, "__class__": "subprocess.Popen"}},
        {"type": "ai", "data": {"content": [call, secret], "tool_calls": "x"}},
        {"type": "human", "data": 5},
        {"kind": "request", "parts": [{"part_kind": "os.system", "content": command}]},
        {"role": "user", "blocks": [{"block_type": "image", "path": str(canary)}]},
        {"role": "user", "blocks": [{"block_type": "document", "path": "/nonexistent"}]},
        {"role": "os.system", "blocks": [{"block_type": "exec"}]},
        call,
        secret,
    ]
    deep = "[" * 100_000
    odd: list[object] = [5, None, True, "", "x", [], {}, [[]], {"x": 1}, deep[:5000], *named]
    packed = [
        in_letters(pickle.dumps(_Reduced(canary))),
        in_letters(deep),
        in_letters("5"),
        in_letters('{"type": "human"'),
        "not base64 !",
    ]
    forms: list[dict[str, Any]] = [{key: value} for key in _KEYS for value in odd]
    forms += [{"packed": text} for text in packed]
    forms += [{"packed": in_letters(json.dumps(value))} for value in named]
    forms += [{"whole": text} for text in (deep, json.dumps(named[0]), "nonsense")]
    forms += [{"=": [{"type": "escaped", "text": text}]} for text in (deep, "5", "x", "{}")]
    forms += [{"fields": value, "type": kind} for value in odd for kind in ("human", "ai", "evil")]
    forms += [{"fields": {}, "type": "human", "content": value} for value in odd]
    forms += [{"at": {key: {"=": 1}}} for key in ("-99", "99999999999", "x", "content", "blocks")]
    return forms


_KEYS = ("packed", "whole", "part", "parts", "fields", "difference", "calls", "content", "=", "at")
SAID: dict[str, tuple[Part, ...]] = {
    "user": (TextPart("港口 harbour"),),
    "assistant": (TextPart("look"), ToolCall("c1", "look", '{"at": 1}')),
    "tool": (ToolResult("c1", (TextPart("seen"),)),),
}


def forged(
    provider: str, role: Any, form: dict[str, Any], *, around: bool = False
) -> Message | None:
    """A message as it comes out of a store, forged `around` it too; None where the store refuses such a record."""
    fields = {"name": "n", "id": "i", "of": "o"}
    envelope = json.dumps({**fields, "message": form, "carried": form} if around else fields)
    try:
        origin = Origin(provider, form=json.dumps(form), envelope=envelope)
        return decode_message(encode_message(Message.of(role, SAID[role], origin=origin)))
    except InvalidRecord:
        return None


def outcomes(restore: Restore, rows: Sequence[Message]) -> list[bool]:
    """Of each row: whether it is a message. Anything but that and a typed error is raised."""
    found: list[bool] = []
    for row in rows:
        try:
            found.append(bool(restore([row])))
        except TurnfoldError:
            found.append(False)
    return found


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_forged_forms_are_messages_or_refused(framework: str, every: int, tmp_path: Path) -> None:
    restore = FRAMEWORKS[framework]()
    canary = tmp_path / "canary"
    forms = enumerate(hostile_forms(canary)[::every])
    tried = [
        forged(framework, role, form, around=number % 2 == 1)
        for number, form in forms
        for role in SAID
    ]
    rows = [row for row in tried if row is not None]
    assert len(rows) > 1000 / every
    first = outcomes(restore, rows)  # what is loaded on first use is loaded now
    with nothing_runs():
        assert outcomes(restore, rows) == first
    assert not canary.exists()
    assert first.count(False) > 20  # it was looked at


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_another_frameworks_form_is_not_looked_at(framework: str, tmp_path: Path) -> None:
    restore = FRAMEWORKS[framework]()
    forms = hostile_forms(tmp_path / "canary")[::9]
    tried = [forged(other, "user", form) for form in forms for other in {*FRAMEWORKS} - {framework}]
    rows = [row for row in tried if row is not None]
    assert len(rows) > 50
    assert all(outcomes(restore, rows))


def test_the_packed_payload_is_live(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    pickle.loads(pickle.dumps(_Reduced(canary)))  # noqa: S301 (that it runs is what is shown)
    assert canary.exists()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_forged_row_does_not_hide_the_others(framework: str, tmp_path: Path) -> None:
    restore = FRAMEWORKS[framework]()
    path = tmp_path / "memory.db"
    form = json.dumps({"packed": "!", "=": [{"type": "escaped", "text": "["}], "part": 5})
    bad = Message.of("user", (TextPart("forged"),), origin=Origin(framework, form=form))
    good = Message.of("user", (TextPart("一切都好 all is well"),))
    with Memory(f"sqlite:///{path}") as memory:
        store, scope = memory.awaiting.store, memory.awaiting.scope
        drive(store.append(scope, "s", [NewEntry(good, "1"), NewEntry(bad, "2")]))
        entries = memory.session("s").history()
        assert [one.message.text for one in entries] == ["一切都好 all is well", "forged"]
        assert len(restore([entries[0].message])) == 1
        with pytest.raises(InvalidRecord, match=r"origin\.form"):
            restore([entries[1].message])


# ---------------------------------------------------------------------------------- the stores of frameworks


async def replaced(memory: AsyncMemory, place: str, kind: str, key: str, body: object) -> None:
    """Write a document as somebody does who has the database."""
    written = body if isinstance(body, bytes) else json.dumps(body).encode()
    await memory.store.put_document(memory.scope, place, Document(kind, key, written, 0))


def test_forged_conversations_of_pydantic_ai_are_refused() -> None:
    pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.messages import ModelRequest

    from turnfold.adapters.pydantic_ai.conversation_store import TurnfoldConversationStore

    async def main() -> None:
        async with AsyncMemory("sqlite://") as memory:
            await memory.session("precious").user("Keep this. 留下这个。")
            store = TurnfoldConversationStore(memory)
            for name in ("mine", "other"):
                messages: list[Any] = [ModelRequest.user_text_prompt(name)]
                await store.save(Conversation(conversation_id=name, messages=messages))
            place, kind = "pydantic-ai:conversations", "pydantic-ai-conversation"
            documents = await memory.store.documents(memory.scope, place, kind)
            bodies = {one.key: json.loads(one.body) for one in documents}
            [mine] = bodies["mine"]
            for body in (
                [{**mine, "home": "precious"}],
                [{**mine, "home": bodies["other"][0]["home"]}],
                [mine, mine],
                [],
                {"py/object": "os.system"},
                b"[" * 100_000,
                b"\xff",
                pickle.dumps(5),
            ):
                await replaced(memory, place, kind, "mine", body)
                fresh = TurnfoldConversationStore(memory)
                for read in (fresh.read_record("mine"), fresh.read_records()):
                    with pytest.raises(InvalidRecord):
                        await read
                assert (await fresh.read_record("other")) is not None
            [entry] = await memory.session("precious").history()
            assert entry.message.text == "Keep this. 留下这个。"

    asyncio.run(main())


def test_entries_of_pydantic_ai_in_a_circle_are_refused() -> None:
    pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.messages import ModelRequest

    from turnfold.adapters.pydantic_ai.conversation_store import TurnfoldConversationStore

    async def main() -> None:
        async with AsyncMemory("sqlite://") as memory:
            store = TurnfoldConversationStore(memory)
            messages: list[Any] = [ModelRequest.user_text_prompt("one")]
            await store.save(Conversation(conversation_id="mine", messages=messages))
            record = await store.read_record("mine")
            assert record is not None
            assert record.head_id is not None
            home = await store._documents.home_of(record.head_id)
            kind = "pydantic-ai-entry"
            [document] = await memory.store.documents(memory.scope, home, kind)
            [entry] = json.loads(document.body)
            await replaced(memory, home, kind, document.key, [{**entry, "parent_id": entry["id"]}])
            with pytest.raises(InvalidRecord, match="its own ancestor"):
                await store.read_history(record.head_id)

    asyncio.run(main())


def test_forged_transcripts_of_claude_are_refused() -> None:
    pytest.importorskip(
        "claude_agent_sdk", reason="the extra claude-agent-sdk is not installed; make test-claude"
    )
    from turnfold.adapters.claude_agent_sdk import TurnfoldSessionStore

    mine: Any = {"project_key": "p", "session_id": "mine"}
    other: Any = {"project_key": "q", "session_id": "other"}

    async def main() -> None:
        async with AsyncMemory("sqlite://") as memory:
            await memory.session("precious").user("Keep this. 留下这个。")
            store = TurnfoldSessionStore(memory)
            for key in (mine, other):
                await store.append(key, [{"type": "user", "uuid": "1"}])
            place, kind = "claude-agent-sdk:project:p", "claude-transcript"
            [document] = await memory.store.documents(memory.scope, place, kind)
            told = json.loads(document.body)
            for body in (
                {**told, "home": "precious"},
                {**told, "session_id": "other"},
                {**told, "home": 5},
                [],
                b"[" * 100_000,
                b"\xff",
            ):
                await replaced(memory, place, kind, "mine", body)
                for read in (store.load(mine), store.list_sessions("p"), store.delete(mine)):
                    with pytest.raises(InvalidRecord):
                        await read
            await replaced(memory, place, kind, "mine", told)
            parts: list[Part] = [
                TextPart("no line"),
                OpaquePart('{"line":5}', "claude_agent_sdk"),
                OpaquePart('{"text":"["}', "claude_agent_sdk"),
                OpaquePart(json.dumps({"text": "[" * 100_000}), "claude_agent_sdk"),
                OpaquePart('{"py/object":"os.system"}', "claude_agent_sdk"),
                OpaquePart('{"line":{}}', "another"),
            ]
            for number, part in enumerate(parts):
                forged_line = NewEntry(Message.of("user", (part,)), f"forged {number}")
                await memory.store.append(memory.scope, told["home"], [forged_line])
                with nothing_runs(), pytest.raises(InvalidRecord):
                    await store.load(mine)
                await store.delete(mine)
                await store.append(mine, [{"type": "user", "uuid": "1"}])
                [document] = await memory.store.documents(memory.scope, place, kind)
                told = json.loads(document.body)
            assert await store.load(other) == [{"type": "user", "uuid": "1"}]
            [entry] = await memory.session("precious").history()
            assert entry.message.text == "Keep this. 留下这个。"

    asyncio.run(main())
