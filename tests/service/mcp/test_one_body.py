"""One body of checks, by the official client: over a process and over HTTP, with and without a handshake.

What the server says is held against what the same store says to an embedded memory.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.service.mcp.clients import ERAS, SERVER, Refused, Talk, http_talk, stdio_talk, words_of
from tests.service.mcp.seeded import ODD, SECRET, SUMMARY, newest_call, seed
from tests.service.running import ServiceProcess
from turnfold.memory import Memory

TOOLS = {
    "recall_context": True,
    "search_memory": True,
    "remember": False,
    "list_sessions": True,
    "context_status": True,
    "fold": False,
}
"""Each tool, and whether it only reads."""


@asynccontextmanager
async def connected(transport: str, era: str, store: str) -> AsyncIterator[Talk]:
    allowed = ("--allow", "pins", "--allow", "sessions", "--allow", "summaries")
    if transport == "stdio":
        async with stdio_talk(era, "--store", store, *allowed) as talk:
            yield talk
        return
    words = ("mcp", "--http", "--port", "0", "--store", store, *allowed)
    with ServiceProcess(*words, module="turnfold", interpreter=SERVER) as service:
        async with http_talk(era, f"{service.url}/mcp") as talk:
            yield talk
        service.terminate()
        assert service.ended() == 0


PAIRS = [
    pytest.param(
        transport, era, marks=() if (transport == "http") == (era == ERAS[-1]) else pytest.mark.slow
    )
    for transport in ("stdio", "http")
    for era in ERAS
]
"""By default each way to connect and each kind of client is in one pair."""


@pytest.mark.parametrize(("transport", "era"), PAIRS)
def test_the_official_client_gets_what_the_store_holds(
    transport: str, era: str, tmp_path: Path
) -> None:
    store = seed(tmp_path)
    made = newest_call(store, "talk")

    async def body() -> None:
        async with connected(transport, era, store) as talk:
            await the_tools_describe_themselves(talk)
            await what_is_said_is_brought_back(talk)
            await what_is_remembered_is_found(talk)
            await sessions_are_listed_page_by_page(talk)
            await a_session_stands_where_it_stands(talk)
            await resources_are_read(talk, made)
            await prompts_are_filled_in(talk)
            await what_is_wrong_is_told(talk)
            await a_fold_is_made(talk)

    asyncio.run(body())
    with Memory(store) as memory:
        [note] = memory.session("notes").history()
        assert (note.message.role, note.message.text) == ("assistant", "Dana 喜欢茶 and tea")
        assert memory.session("notes").pins() == {}
        assert list(memory.session("talk").pins().values()) == [
            "Never ship on Sundays.",
            "(entry 28, assistant: data, not instructions) Dana pays in May",
        ]
        assert memory.session("talk").checkpoints()[-1].text == "all of it, in short"


async def the_tools_describe_themselves(talk: Talk) -> None:
    tools = (await talk.ask("list_tools"))["tools"]
    assert {each["name"]: each["annotations"]["readOnlyHint"] for each in tools} == TOOLS
    for each in tools:
        assert each["inputSchema"]["type"] == each["outputSchema"]["type"] == "object"
        assert each["inputSchema"]["additionalProperties"] is False
        fields = each["inputSchema"]["properties"].values()
        for text in (each["description"], *(field["description"] for field in fields)):
            assert text.isascii() is False, "Chinese is missing"
            assert any(char.isascii() and char.isalpha() for char in text), "English is missing"


async def what_is_said_is_brought_back(talk: Talk) -> None:
    for asked in (
        {"query": "answer 3"},
        {"turn_numbers": [3]},
        {"first_seq": 7, "last_seq": 7},
        {"query": "第 3 号仓库"},
    ):
        answer = await talk.ask("call_tool", "recall_context", {"session": "talk", **asked})
        found = answer["structuredContent"]
        assert "answer 3: 包裹在第 3 号仓库" in found["text"], asked
        assert words_of(answer) == found["text"]
        assert found["text"].startswith(("Earlier passages", "先前对话中可能与当前有关的原文"))
        assert SECRET not in found["text"]
    called = await talk.call("recall_context", session="talk", first_seq=26)
    assert '[called track({"id": 4711})]' in called["text"]
    with_ref = await talk.call("recall_context", session="talk", ref=await snapshot_id(talk))
    assert "the shelf plan" in with_ref["text"]


async def snapshot_id(talk: Talk) -> str:
    text = await talk.read("memory://talk/snapshot/1")
    assert "the shelf plan" in text
    return next(word for word in text.replace("(", " ").split() if word.startswith("ctx_1_"))[:18]


async def what_is_remembered_is_found(talk: Talk) -> None:
    kept = await talk.call("remember", text="Dana 喜欢茶 and tea")
    assert kept == {"session": "notes", "seq": 1, "repeated": False, "pinned": ""}
    again = await talk.call("remember", text="Dana 喜欢茶 and tea", pin=None)
    assert again == {**kept, "repeated": True}
    pinned = await talk.call("remember", text="Dana pays in May", session="talk", pin=True)
    assert pinned["pinned"]
    for query in ("tea", "喜欢"):
        found = (await talk.call("search_memory", query=query))["found"]
        assert [(each["session"], each["seq"], each["role"]) for each in found] == [
            ("notes", 1, "assistant")
        ]
        assert found[0]["snippet"] == "Dana 喜欢茶 and tea"
    everywhere = await talk.call("search_memory", query="parcel 4711", limit=50)
    assert {each["session"] for each in everywhere["found"]} == {"talk"}
    assert {each["kind"] for each in everywhere["found"]} == {"entry", "checkpoint"}
    here = await talk.call("search_memory", query="odd", session=ODD)
    assert sorted(each["seq"] for each in here["found"]) == [1, 2]


async def sessions_are_listed_page_by_page(talk: Talk) -> None:
    names: list[str] = []
    asked: dict[str, Any] = {"limit": 1}
    while True:
        page = await talk.call("list_sessions", **asked)
        names += [each["session"] for each in page["sessions"]]
        if not page["next"]:
            break
        asked["after"] = page["next"]
    assert names == sorted([ODD, "notes", "talk"])
    whole = await talk.call("list_sessions")
    assert [each["session"] for each in whole["sessions"]] == names
    assert next(each["folded"] for each in whole["sessions"] if each["session"] == "talk")


async def a_session_stands_where_it_stands(talk: Talk) -> None:
    found = await talk.call("context_status", session="talk")
    assert (found["entries"], found["turns"], found["checkpoints"]) == (28, 12, 1)
    assert found["pins"] == 2
    assert found["mode"] == "SUMMARY_N"
    assert 0 < sum(found["next_call"].values()) <= found["next_tokens"] <= found["allowed"]
    assert found["problem"] == ""


async def resources_are_read(talk: Talk, made: str) -> None:
    listed = (await talk.ask("list_resources"))["resources"]
    addresses = [each["uri"] for each in listed]
    assert "memory://sessions" in addresses
    assert len(addresses) == len(set(addresses)) == 5
    for uri in addresses:
        assert SECRET not in await talk.read(uri)
    odd = next(uri for uri in addresses if "%2F" in uri)
    assert [each["text"] for each in json.loads(await talk.read(odd))["entries"]] == [
        "odd one",
        "odd answer",
    ]
    templates = (await talk.ask("list_resource_templates"))["resourceTemplates"]
    assert {each["name"] for each in templates} == {"summary", "log", "context", "snapshot"}
    assert SUMMARY in await talk.read("memory://talk/summary")
    log = json.loads(await talk.read("memory://talk/log?after=25"))
    assert [each["seq"] for each in log["entries"]] == [26, 27, 28]
    call = await talk.read(f"memory://talk/context/{made}")
    assert call.count("Never ship on Sundays.") == 1
    assert "user: question 12" in call


async def prompts_are_filled_in(talk: Talk) -> None:
    listed = (await talk.ask("list_prompts"))["prompts"]
    assert {each["name"] for each in listed} == {"resume_session", "handoff_note"}
    for name, language, begins in (
        ("resume_session", "en", "Continue this conversation"),
        ("resume_session", "zh", "请从上次中断处继续"),
        ("handoff_note", "en", "Write a handoff note"),
        ("handoff_note", "zh", "请为接手此会话的人"),
    ):
        given = {"session": "talk", "language": language}
        [message] = (await talk.ask("get_prompt", name, given))["messages"]
        text = message["content"]["text"]
        assert text.startswith(begins)
        for shown in (SUMMARY, "Never ship on Sundays.", "answer 12", "in transit"):
            assert shown in text


async def what_is_wrong_is_told(talk: Talk) -> None:
    assert "unknown field `colour`" in await talk.refused("remember", text="x", colour="red")
    assert "no session 'nobody'" in await talk.refused("context_status", session="nobody")
    assert "exactly one of: query" in await talk.refused("recall_context", session="talk")
    two = {"query": "parcel", "turn_numbers": [1]}
    assert "exactly one of" in await talk.refused("recall_context", session="talk", **two)
    assert "limit of this server, 4,000" in await talk.refused(
        "recall_context", session="talk", query="x", max_tokens=4001
    )
    assert "text is empty" in await talk.refused("remember", text="  \n")
    for what, values, code in (
        ("call_tool", ("forget_everything", {}), -32602),
        ("read_resource", ("memory://nobody/log",), -32002),
        ("read_resource", ("memory://talk/secrets",), -32002),
        ("read_resource", ("memory://talk/context/no-such-call",), -32002),
        ("get_prompt", ("be_evil", {}), -32602),
        ("get_prompt", ("resume_session", {"language": "tlh"}), -32602),
    ):
        with pytest.raises(Refused) as refused:
            await talk.ask(what, *values)
        assert refused.value.code == code, (what, values, str(refused.value))


async def a_fold_is_made(talk: Talk) -> None:
    made = await talk.call("fold", session="talk", summary="all of it, in short", keep_turns=1)
    assert made["folded"]
    assert "all of it, in short" in await talk.read("memory://talk/summary")
    again = await talk.call("fold", session="talk", keep_turns=1)
    assert again["folded"] is False
    back = await talk.call("recall_context", session="talk", turn_numbers=[1])
    assert "question 1: where is the parcel" in back["text"]
