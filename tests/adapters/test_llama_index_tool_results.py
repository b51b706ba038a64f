"""Whatever a tool returns under LlamaIndex never ends a run, and no stored message has a local file read."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip(
    "llama_index.core",
    reason="the extra llama-index is not installed; it has an environment of its own",
)

from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool

from tests.adapters.llama_scripts import ScriptedLLM, called, said
from tests.agent.hostile_values import RETURNING, UNAWAITED
from turnfold import AsyncMemory, Budget, Memory
from turnfold.adapters.llama_index import (
    TurnfoldFunctionAgent,
    chat_messages,
    record_of,
    turnfold_memory,
)
from turnfold.adapters.llama_index import messages as messages_module
from turnfold.errors import InvalidRecord
from turnfold.records import Message, OpaquePart, Origin, TextPart

# LlamaIndex uses names that pydantic and Python have since replaced.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

types: Any = import_module("llama_index.core.base.llms.types")
workflow: Any = import_module("llama_index.core.agent.workflow")

OF_LLAMA_INDEX = {
    "class raises",
    "dict without items",
    "subclass of str",
    "unprintable",
    "unprintable inside",
}
"""What LlamaIndex itself cannot take as a tool's output: it raises before it makes a message of it."""


# ---------------------------------------------------------------------------------- results of tools


async def run(give: Callable[[], object], memory: AsyncMemory | None) -> None:
    def look() -> object:
        """Look."""
        return give()

    llm = ScriptedLLM(script=[called("look", 1), said("done")])
    tools = [FunctionTool.from_defaults(look)]
    if memory is None:
        await workflow.FunctionAgent(tools=tools, llm=llm).run("go")
    else:
        held = turnfold_memory(memory.session("s"))
        agent: Any = cast("Any", TurnfoldFunctionAgent)(tools=tools, llm=llm)
        assert str(await agent.run("go", memory=held)) == "done"


@pytest.mark.parametrize("name", sorted(RETURNING.keys() - OF_LLAMA_INDEX - UNAWAITED))
def test_every_value_a_tool_returns_is_a_result(name: str) -> None:
    async def main() -> None:
        async with AsyncMemory("sqlite://", budget=Budget(max_tokens=50_000)) as memory:
            await run(RETURNING[name], memory)
            entries = await memory.session("s").history()
            [result] = [result for one in entries for result in one.message.results]
            assert result.call_id == "call_1"
            again = await turnfold_memory(memory.session("s")).aget()
            "".join(one.content or "" for one in again).encode()  # the next call can be sent

    asyncio.run(main())


@pytest.mark.parametrize("name", sorted(OF_LLAMA_INDEX))
def test_what_llama_index_cannot_take_it_refuses_without_turnfold_too(name: str) -> None:
    with pytest.raises(BaseException, match="no "):
        asyncio.run(run(RETURNING[name], None))


@pytest.mark.parametrize("name", sorted(RETURNING.keys() - UNAWAITED))
def test_every_value_beside_an_answer_is_told(name: str) -> None:
    beside = {"tool_call_id": "c", "name": "look", "raw": RETURNING[name]()}
    [back] = chat_messages(
        [record_of(ChatMessage(role="tool", content="seen 看", additional_kwargs=beside))]
    )
    assert (back.content, back.additional_kwargs["tool_call_id"]) == ("seen 看", "c")


def test_what_a_program_says_and_nothing_can_carry_is_refused_by_name() -> None:
    message = ChatMessage(role="user", content="x", additional_kwargs={"raw": object()})
    with pytest.raises(InvalidRecord, match="LlamaIndex cannot write a message of role 'user'"):
        record_of(message)


# ---------------------------------------------------------------------------------- files of this machine

SECRET = b"the secret of this machine"
_KINDS = {"image": "image", "audio": "audio", "video": "video", "document": "data"}


def hostile_blocks(path: Path) -> list[dict[str, Any]]:
    named = [{"block_type": kind, "path": str(path)} for kind in _KINDS]
    addresses = [f"file://{path}", f"FILE:{path}", str(path), f" file://{path}", f"local://{path}"]
    named += [{"block_type": "document", "url": url} for url in addresses]
    named += [{"block_type": "image", "url": url} for url in (addresses[0], addresses[1])]
    citable = {"title": "t", "source": "s", "content": [named[3]]}
    cited = {"title": "t", "source": "s", "cited_content": named[0], "additional_location_info": {}}
    return [
        *named,
        {"block_type": "citable", **citable},
        {"block_type": "citation", **cited},
    ]


def resolved(message: ChatMessage) -> list[bytes]:
    """What LlamaIndex would send of a message, read the way its integrations read it."""
    found: list[bytes] = []
    pending: list[Any] = list(message.blocks)
    while pending:
        block = pending.pop()
        pending += getattr(block, "content", []) if isinstance(block, types.CitableBlock) else []
        pending += [block.cited_content] if isinstance(block, types.CitationBlock) else []
        for kind in _KINDS:
            resolve = getattr(block, f"resolve_{kind}", None)
            if resolve is not None:
                found.append(resolve().read())
    return found


def stored(form: dict[str, Any], block: dict[str, Any]) -> list[Message]:
    """Records as somebody who can write to the store would forge them: by their form, or by a part."""
    origin = Origin("llama_index", form=json.dumps(form))
    return [
        Message.of("user", (TextPart("look"),), origin=origin),
        Message.of("user", (OpaquePart(json.dumps(block), "llama_index"),)),
    ]


@pytest.mark.parametrize("at", range(13))
def test_a_stored_message_has_no_local_file_read(at: int, tmp_path: Path) -> None:
    secret = tmp_path / "secret.png"
    secret.write_bytes(SECRET)
    block = hostile_blocks(secret)[at]
    whole = {"role": "user", "additional_kwargs": {}, "blocks": [block]}
    forms = [
        {"whole": json.dumps(whole)},
        {"packed": base64.b64encode(json.dumps(whole).encode()).decode()},
        {"difference": {"at": {"blocks": {"=": [block]}}}},
        {"whole": json.dumps({"role": "user", "content": [block]})},
    ]
    file = f"sqlite:///{tmp_path / 'memory.db'}"
    with Memory(file) as memory:
        for form in forms:
            memory.session("s").add(stored(form, block))
    with Memory(file) as memory:
        shown = turnfold_memory(memory.session("s")).get()
        everything = turnfold_memory(memory.session("s")).get_all()
    assert len(shown) == len(everything) == 2 * len(forms)
    for message in (*shown, *everything):
        assert resolved(message) == []
        assert "not shown: a stored message may not have local files read]" in repr(message)
        assert str(secret) in repr(message)


def test_sabotage_without_it_the_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret.png"
    secret.write_bytes(SECRET)
    monkeypatch.setattr(messages_module, "without_local_files", lambda fields: fields)
    block = hostile_blocks(secret)[3]
    [_, by_part] = chat_messages(stored({"whole": '{"role": "user"}'}, block))
    assert resolved(by_part) == [SECRET]


@pytest.mark.parametrize(
    ("block", "name"),
    [
        ("ImageBlock", "a.png"),
        ("AudioBlock", "a.wav"),
        ("VideoBlock", "a.mp4"),
        ("DocumentBlock", "a.pdf"),
    ],
)
def test_a_file_that_a_program_names_is_read_when_it_is_said(
    block: str, name: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_bytes(SECRET)
    message = ChatMessage(role="user", blocks=[getattr(types, block)(path=file)])
    with Memory("sqlite://") as memory:
        held = turnfold_memory(memory.session("s"))
        held.put(message)
        file.unlink()
        [shown] = held.get()
    assert resolved(shown) == [SECRET]
    assert str(tmp_path) not in repr(shown)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing = types.DocumentBlock(path=str(tmp_path / "没有.pdf"))
    with pytest.raises(
        InvalidRecord, match=r"没有\.pdf' of a block cannot be read: .*No such file"
    ):
        record_of(ChatMessage(role="user", blocks=[missing]))


@pytest.mark.parametrize(
    "url", ["https://example.com/a.png", "data:image/png;base64,AAAA", "gs://bucket/a.png"]
)
def test_an_address_elsewhere_stays(url: str) -> None:
    message = ChatMessage(role="user", blocks=[types.ImageBlock(url=url)])
    assert chat_messages([record_of(message)]) == [message]
