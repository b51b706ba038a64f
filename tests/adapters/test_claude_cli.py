"""The real program behind the Claude Agent SDK against a Messages interface on loopback."""

from __future__ import annotations

import asyncio
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "claude_agent_sdk",
    reason="the extra claude-agent-sdk is not installed; make test-claude has it",
)

from tests.adapters.messages_api import Block, Body, MessagesApi, call, text
from turnfold import AgentMemory, AsyncMemory, Budget
from turnfold.adapters._common import VisibleHistory
from turnfold.adapters.claude_agent_sdk import (
    RECALL_TOOL,
    resuming_options,
    turnfold_options,
)
from turnfold.findings import FindingRule

pytestmark = pytest.mark.slow

sdk: Any = import_module("claude_agent_sdk")

SECRET = "4711-0815"  # noqa: S105 (a word to look for)


def bundled() -> Path:
    found = Path(sdk.__file__).parent / "_bundled" / "claude"
    if not found.exists():
        pytest.skip("this wheel of claude-agent-sdk carries no program for this machine")
    return found


def newest(body: Body) -> list[Block]:
    """Everything behind the last answer: the program puts what hooks add into messages of its own."""
    found: list[Block] = []
    for message in reversed(body["messages"]):
        if message["role"] == "assistant":
            break
        content = message["content"]
        found += [text(content)] if isinstance(content, str) else content
    return found


def script(body: Body) -> list[Block]:
    if not body.get("tools"):
        return [text("A title")]
    results = [block for block in newest(body) if block.get("type") == "tool_result"]
    if results:
        return [text("It opens with " + (SECRET if SECRET in str(results) else "nothing I know"))]
    number = sum(message["role"] == "assistant" for message in body["messages"])
    if "Please add." in str(newest(body)):
        return [call("mcp__calc__add", {"a": 2, "b": 3}, call_id=f"toolu_add_{number}")]
    asked = {"query": "safe of the Nordlys"}
    return [text("Let me see."), call(RECALL_TOOL, asked, call_id=f"toolu_recall_{number}")]


@sdk.tool("add", "Add two numbers", {"a": float, "b": float})
async def add(arguments: Any) -> Any:
    total = f"sum {arguments['a'] + arguments['b']:g}"
    return {"content": [{"type": "text", "text": total}]}


def options(api: MessagesApi, folder: Path, machine: str) -> Any:
    """As on a machine of its own: no settings, no transcripts but those of the store."""
    for name in ("work", machine):
        (folder / name).mkdir(exist_ok=True)
    environment = {
        "ANTHROPIC_BASE_URL": api.url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CONFIG_DIR": str(folder / machine),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    return sdk.ClaudeAgentOptions(
        cli_path=bundled(),
        cwd=folder / "work",
        env=environment,
        setting_sources=[],
        tools=[],
        mcp_servers={"calc": sdk.create_sdk_mcp_server("calc", tools=[add])},
        allowed_tools=["mcp__calc__add"],
    )


async def ask(memory: AsyncMemory, prompt: str, given: Any) -> tuple[Any, str]:
    rules = [FindingRule("mcp__calc__add")]
    made: Any = await resuming_options(memory, "s", given, findings=rules)
    said: list[Any] = [one async for one in sdk.query(prompt=prompt, options=made)]
    errors = [one for one in said if type(one).__name__ == "MirrorErrorMessage"]
    assert errors == []
    return made, said[-1].result


def test_hooks_fire_recall_is_called_and_another_machine_resumes_from_the_store(
    tmp_path: Path,
) -> None:
    async def main(api: MessagesApi) -> None:
        address = f"sqlite:///{tmp_path / 'memory.db'}"
        async with AsyncMemory(address, budget=Budget(max_tokens=20_000)) as memory:
            session = memory.session("s")
            await session.user(f"The safe of the Nordlys opens with {SECRET}.")
            await session.assistant("Noted.")
            await session.pin("Answer in German.")
            given, answer = await ask(memory, "What opens it?", options(api, tmp_path, "one"))
            assert given.resume is None
            assert SECRET in answer
        async with AsyncMemory(address, budget=Budget(max_tokens=20_000)) as memory:
            given, _ = await ask(memory, "Please add.", options(api, tmp_path, "two"))
            assert given.resume is not None
            log = [
                (one.message.role, one.message.text) for one in await memory.session("s").history()
            ]
            assert [words for role, words in log if role == "user"][1:] == [
                "What opens it?",
                "Please add.",
            ]
            assert ("tool", "sum 5") in log
            found = await memory.session("s").findings.list()
            assert [one.content for one in found] == ["sum 5"]
            _, answer = await ask(
                memory, "And now, what opens it?", options(api, tmp_path, "three")
            )
            assert SECRET in answer

    with MessagesApi(script) as api:
        asyncio.run(main(api))
    first, last = api.of_the_conversation()[0], api.of_the_conversation()[-1]
    assert "Answer in German." in str(first["messages"])
    spoken = str(last["messages"])
    for words in ("What opens it?", "Please add.", "sum 5", "And now, what opens it?"):
        assert words in spoken


CONTENTS = '{"title": "安规 2024", "children": [{"title": "第二章 绝缘"}]}'
GET_TOC = "mcp__rules__get_toc"
asked_for: list[str] = []


@sdk.tool("get_toc", "Return the table of contents", {"reg_id": str})
async def get_toc(arguments: Any) -> Any:
    asked_for.append(arguments["reg_id"])
    return {"content": [{"type": "text", "text": CONTENTS}]}


def contents_script(body: Body) -> list[Block]:
    if not body.get("tools"):
        return [text("A title")]
    results = [block for block in newest(body) if block.get("type") == "tool_result"]
    if results:
        return [text("It has chapter two: " + str("第二章 绝缘" in str(results)))]
    return [call(GET_TOC, {"reg_id": "angui_2024"}, call_id=f"toolu_{len(asked_for)}")]


@pytest.mark.parametrize("serve", [True, False])
def test_the_second_query_of_a_program_knows_the_table_of_contents(
    tmp_path: Path, *, serve: bool
) -> None:
    """Document 004, in a fresh session of the SDK: shown, and served where the rule says so."""

    async def main(api: MessagesApi) -> None:
        async with AsyncMemory("sqlite://", budget=Budget(max_tokens=20_000)) as memory:
            known = AgentMemory()
            for number in (1, 2):
                given = options(api, tmp_path, f"{serve}{number}")
                given.mcp_servers = {"rules": sdk.create_sdk_mcp_server("rules", tools=[get_toc])}
                given.allowed_tools = [GET_TOC]
                rules = known.finding_rules(serve=True) if serve else known
                made: Any = turnfold_options(memory, "s", given, findings=rules)
                assert made.resume is None
                prompt = f"Question {number} about chapter 二"
                said: list[Any] = [one async for one in sdk.query(prompt=prompt, options=made)]
                assert said[-1].result == "It has chapter two: True"
            assert known.has_cached_toc("angui_2024")

    asked_for.clear()
    with MessagesApi(contents_script) as api:
        asyncio.run(main(api))
    assert asked_for == ["angui_2024"] * (1 if serve else 2)
    fresh = next(
        body for body in api.of_the_conversation() if "Question 2" in str(body["messages"])
    )
    assert "Question 1" not in str(fresh["messages"]), "a session of its own"
    assert "第二章 绝缘" in str(fresh["messages"]), "shown before any call"


def test_sabotage_with_a_store_that_forgets_nothing_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from turnfold.adapters.claude_agent_sdk import TurnfoldSessionStore

    async def forgets(self: object, key: object, entries: object) -> None:
        del self, key, entries

    monkeypatch.setattr(TurnfoldSessionStore, "append", forgets)

    async def main(api: MessagesApi) -> None:
        async with AsyncMemory(f"sqlite:///{tmp_path / 'memory.db'}") as memory:
            await ask(memory, "What opens it?", options(api, tmp_path, "one"))
            given, _ = await ask(memory, "Please add.", options(api, tmp_path, "two"))
            assert given.resume is None

    with MessagesApi(script) as api:
        asyncio.run(main(api))
    assert "What opens it?" not in str(api.of_the_conversation()[-1]["messages"])


def test_the_log_follows_a_session_resumed_at_a_message_a_fork_and_the_way_back(
    tmp_path: Path,
) -> None:
    async def main(api: MessagesApi) -> None:
        async with AsyncMemory("sqlite://", budget=Budget(max_tokens=20_000)) as memory:

            async def turn(prompt: str, **given: Any) -> tuple[str, str]:
                own = options(api, tmp_path, "one")
                vars(own).update(given)
                made: Any = turnfold_options(memory, "s", own)
                said: list[Any] = [one async for one in sdk.query(prompt=prompt, options=made)]
                answers = [one.uuid for one in said if type(one).__name__ == "AssistantMessage"]
                sent = [one["content"] for one in api.of_the_conversation()[-1]["messages"]]
                texts = [str(one) for one in sent]
                for entry in await VisibleHistory(memory.session("s")).entries():
                    words = entry.entry.message.text
                    assert entry.entry.message.role != "user" or any(words in one for one in texts)
                return said[-1].session_id, answers[-1]

            async def prompts() -> list[str]:
                entries = await VisibleHistory(memory.session("s")).entries()
                messages = [one.entry.message for one in entries]
                return [each.text for each in messages if each.role == "user"]

            first, one = await turn("Please add.")
            _, two = await turn("Second?", resume=first)
            await turn("Third?", resume=first)
            await turn("Fourth?", resume=first, resume_session_at=two)
            assert await prompts() == ["Please add.", "Second?", "Fourth?"]
            fork, _ = await turn("Fork?", resume=first, resume_session_at=one, fork_session=True)
            assert await prompts() == ["Please add.", "Fork?"]
            await turn("Back?", resume=first)
            assert await prompts() == ["Please add.", "Second?", "Fourth?", "Back?"]
            await turn("More?", resume=fork)
            assert await prompts() == ["Please add.", "Fork?", "More?"]

    with MessagesApi(branch_script) as api:
        asyncio.run(main(api))


def branch_script(body: Body) -> list[Block]:
    if not body.get("tools"):
        return [text("A title")]
    is_result = any(block.get("type") == "tool_result" for block in newest(body))
    if "Please add." in str(newest(body)) and not is_result:
        return [text("Let me add."), call("mcp__calc__add", {"a": 2, "b": 3}, call_id="toolu_add")]
    return [text("ok")]
