"""Hooks and options of the Claude Agent SDK: what goes into the log, what is added, what is left alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "claude_agent_sdk",
    reason="the extra claude-agent-sdk is not installed; make test-claude has it",
)

from tests.agent.hostile_values import RETURNING, UNAWAITED
from turnfold import AgentMemory, AsyncMemory, Budget
from turnfold.adapters.claude_agent_sdk import (
    RECALL_TOOL,
    TurnfoldSessionStore,
    resuming_options,
    turnfold_options,
)
from turnfold.adapters.claude_agent_sdk.hooks import SessionHooks
from turnfold.errors import InvalidOption, SummaryFailed
from turnfold.findings import FindingRule
from turnfold.memory import AsyncSession

sdk: Any = import_module("claude_agent_sdk")
Work = Callable[[AsyncMemory, SessionHooks], Awaitable[None]]


def with_hooks(work: Work, **more: Any) -> None:
    async def main() -> None:
        async with AsyncMemory("sqlite://", budget=Budget(max_tokens=2_000)) as memory:
            await work(memory, SessionHooks(memory, "s", **more))

    asyncio.run(main())


async def spoken(session: AsyncSession) -> list[tuple[str, str]]:
    return [(one.message.role, one.message.text) for one in await session.history()]


def used(name: str, call_id: str, response: object, **more: object) -> dict[str, object]:
    given = {"tool_name": name, "tool_input": {"at": 1}, "tool_response": response}
    return {"session_id": "x", "tool_use_id": call_id, **given, **more}


def test_a_turn_is_logged_as_it_happens_and_once() -> None:
    async def work(memory: AsyncMemory, hooks: SessionHooks) -> None:
        for _ in range(2):  # a hook that is called again changes nothing
            await hooks.prompt_submitted({"prompt": "Look.", "prompt_id": "p1"}, None, None)
            blocks = [{"type": "text", "text": "deep"}, {"type": "text", "text": "港口"}]
            await hooks.tool_used(used("look", "t1", blocks), "t1", None)
            failed = {"tool_name": "look", "tool_input": {}, "error": "no light"}
            await hooks.tool_failed(failed, "t2", None)
            stop = {"last_assistant_message": "It is deep.", "prompt_id": "p1"}
            await hooks.stopped(stop, None, None)
        session = memory.session("s")
        assert await spoken(session) == [
            ("user", "Look."),
            ("assistant", ""),
            ("tool", "deep\n港口"),
            ("assistant", ""),
            ("tool", "no light"),
            ("assistant", "It is deep."),
        ]
        context = await session.context()
        assert context.receipt.fates == ()

    with_hooks(work)


def line_of(message: str, *blocks: dict[str, object]) -> str:
    return json.dumps({"type": "assistant", "message": {"id": message, "content": blocks}}) + "\n"


def wrote(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


def call_block(call_id: str) -> dict[str, object]:
    return {"type": "tool_use", "id": call_id, "name": "look", "input": {"at": 1}}


@pytest.mark.parametrize("late", [False, True], ids=["with the call", "after the call"])
def test_text_beside_a_call_and_a_denied_call_reach_the_log(late: bool, tmp_path: Path) -> None:  # noqa: FBT001
    async def work(memory: AsyncMemory, hooks: SessionHooks) -> None:
        path = tmp_path / "transcript.jsonl"
        at: dict[str, object] = {"transcript_path": str(path)}
        path.write_text(line_of("m0", wrote("of a turn before"), call_block("t0")))
        await hooks.prompt_submitted({"prompt": "Look.", "prompt_id": "p1", **at}, None, None)
        lines = [
            line_of("m1", wrote("Let me look. 我看看")),
            line_of("m1", call_block("t1")),
            line_of("m2", wrote("And there."), call_block("t2")),
            line_of("m3", wrote("It is deep.")),
        ]
        with path.open("a") as file:
            if not late:
                file.writelines(lines)
                file.flush()
            for call_id in ("t1", "t2"):
                asked = {"tool_name": "look", "tool_input": {"at": 1}, **at}
                await hooks.tool_requested(asked, call_id, None)
            await hooks.tool_used(used("look", "t1", "deep", **at), "t1", None)
            if late:
                file.writelines([*lines[:2], lines[2][:20]])
                file.flush()
            stop = {"last_assistant_message": "It is deep.", "prompt_id": "p1", **at}
            await hooks.stopped(stop, None, None)
            if late:
                file.writelines([lines[2][20:], lines[3]])
        # The program goes on in another process.
        again = SessionHooks(memory, "s")
        for each in (hooks, again, again):
            await each.prompt_submitted({"prompt": "Bye.", "prompt_id": "p2", **at}, None, None)
        denied = "error: the tool was not run: the call was denied or interrupted"
        found = await spoken(memory.session("s"))
        if late:
            assert found == [
                ("user", "Look."),
                ("assistant", ""),
                ("tool", "deep"),
                ("assistant", "Let me look. 我看看"),
                ("assistant", ""),
                ("tool", denied),
                ("assistant", "It is deep."),
                ("assistant", "And there."),
                ("user", "Bye."),
            ]
        else:
            assert found == [
                ("user", "Look."),
                ("assistant", "Let me look. 我看看"),
                ("tool", "deep"),
                ("assistant", "And there."),
                ("tool", denied),
                ("assistant", "It is deep."),
                ("user", "Bye."),
            ]

    with_hooks(work)


def test_a_prompt_is_given_what_is_pinned_found_and_folded() -> None:
    async def work(memory: AsyncMemory, hooks: SessionHooks) -> None:
        session = memory.session("s")
        await session.pin("Answer in German.")
        await session.user("The safe of the Nordlys opens with 4711-0815.")
        await session.assistant("Noted.")
        await hooks.tool_used(used("get_toc", "t1", "1 Harbours 2 Tides"), "t1", None)
        for number in range(30):
            await session.user(f"Filler {number}: " + "nothing of interest. " * 8)
            await session.assistant("Yes.")
        await session.fold(keep_turns=2)
        given = {"prompt": "What opens the safe of the Nordlys?", "prompt_id": "p2"}
        told = await hooks.prompt_submitted(given, None, None)
        output: Any = told["hookSpecificOutput"]
        assert output["hookEventName"] == "UserPromptSubmit"
        for text in ("Answer in German.", "4711-0815", "1 Harbours 2 Tides"):
            assert text in output["additionalContext"]
        assert await session.calls() == []

    with_hooks(work, findings=[FindingRule("get_toc", kind="toc")])


def test_nothing_to_add_is_nothing_added() -> None:
    async def work(_: AsyncMemory, hooks: SessionHooks) -> None:
        assert await hooks.prompt_submitted({"prompt": "Hello."}, None, None) == {}

    with_hooks(work)


def test_a_subagent_has_a_session_of_its_own() -> None:
    async def work(memory: AsyncMemory, hooks: SessionHooks) -> None:
        await hooks.tool_used(used("look", "t1", "deep", agent_id="a1"), "t1", None)
        assert await spoken(memory.session("s")) == []
        assert len(await spoken(memory.session("s/a1"))) == 2

    with_hooks(work)


def test_a_compaction_folds_the_session_and_a_failing_summariser_stops_nothing() -> None:
    def fails(prompt: str) -> str:
        raise SummaryFailed(f"{len(prompt)} characters are too many")

    async def main() -> None:
        for summarizer, folded in ((None, 1), (fails, 0)):
            async with AsyncMemory("sqlite://", summarizer=summarizer, fold="manual") as memory:
                session = memory.session("s")
                for number in range(12):
                    await session.user(f"Question {number}")
                    await session.assistant(f"Answer {number}")
                hooks = SessionHooks(memory, "s")
                assert await hooks.compacting({"trigger": "auto"}, None, None) == {}
                assert len(await session.checkpoints()) == folded

    asyncio.run(main())


@pytest.mark.parametrize("name", ["get_toc", "mcp__rules__get_toc"])
def test_a_repeated_call_is_answered_by_a_hook_in_the_sdks_own_types(name: str) -> None:
    """Document 004: 首次调用后缓存，后续跳过; the SDK names the tool of a server in full."""
    types: Any = import_module("claude_agent_sdk.types")
    base = {"session_id": "x", "transcript_path": "", "cwd": "", "permission_mode": "default"}
    call = {"tool_name": name, "tool_input": {"reg_id": "angui_2024"}}

    def before(call_id: str, **more: object) -> Any:
        return types.PreToolUseHookInput(
            **base, hook_event_name="PreToolUse", **{**call, **more}, tool_use_id=call_id
        )

    async def work(memory: AsyncMemory, hooks: SessionHooks) -> None:
        assert await hooks.tool_requested(before("t1"), "t1", None) == {}, "nothing is known yet"
        after = types.PostToolUseHookInput(
            **base,
            hook_event_name="PostToolUse",
            **call,
            tool_response=[{"type": "text", "text": "第一章 总则"}],
            tool_use_id="t1",
        )
        await hooks.tool_used(after, "t1", None)
        await hooks.tool_requested(before("t2"), "t2", None)
        answer = await hooks.tool_requested(before("t2"), "t2", None)  # again, and nothing changes
        decision: Any = types.PreToolUseHookSpecificOutput(**answer["hookSpecificOutput"])  # pyright: ignore[reportCallIssue]
        assert decision["hookEventName"] == "PreToolUse"
        assert decision["permissionDecision"] == "deny"
        assert decision["permissionDecisionReason"].endswith("\n第一章 总则")
        other = before("t3", tool_input={"reg_id": "wengui"})
        assert await hooks.tool_requested(other, "t3", None) == {}
        assert await hooks.tool_requested(before("t4", tool_name="search"), "t4", None) == {}
        log = await spoken(memory.session("s"))
        assert [role for role, _ in log] == ["assistant", "tool", "assistant", "tool"]
        assert log[1][1] == "第一章 总则"
        assert log[3][1] == decision["permissionDecisionReason"]

    with_hooks(work, findings=AgentMemory().finding_rules(serve=True))
    known = AgentMemory()

    async def unserved(memory: AsyncMemory, hooks: SessionHooks) -> None:
        given = used(name, "t1", '{"title": "安规"}', tool_input={"reg_id": "angui_2024"})
        await hooks.tool_used(given, "t1", None)
        assert await memory.session("s").findings.list()
        assert await hooks.tool_requested(given, "t2", None) == {}

    with_hooks(unserved, findings=known)
    assert known.get_cached_toc("angui_2024") == {"title": "安规"}


def test_a_tool_that_fails_makes_what_was_found_stale_and_is_not_remembered() -> None:
    async def work(memory: AsyncMemory, hooks: SessionHooks) -> None:
        found = memory.session("s").findings
        await hooks.tool_used(used("get_toc", "t1", "第一章 总则"), "t1", None)
        failed = {"tool_name": "get_toc", "tool_input": {"at": 2}, "error": "磁盘已满 disk full"}
        await hooks.tool_failed(failed, "t2", None)
        assert [each.content for each in await found.list()] == ["第一章 总则"]
        await hooks.tool_failed({**failed, "tool_name": "edit"}, "t3", None)
        assert await found.list() == ()

    with_hooks(work, findings=[FindingRule("get_toc", invalidated_by=("edit",))])


def test_options_are_added_to_and_nothing_of_the_users_is_replaced() -> None:
    async def theirs(given: object, name: object, context: object) -> dict[str, object]:
        return {"systemMessage": f"{given} {name} {context}"}

    async def main() -> None:
        async with AsyncMemory("sqlite://") as memory:
            mine = TurnfoldSessionStore(memory, name="another")
            matcher = sdk.HookMatcher(matcher="Bash", hooks=[theirs])
            given = sdk.ClaudeAgentOptions(
                allowed_tools=["Read"],
                mcp_servers={"calc": {"type": "stdio", "command": "calc"}},
                hooks={"PostToolUse": [matcher], "PreToolUse": [matcher]},
                session_store=mine,
                model="claude-x",
            )
            made: Any = turnfold_options(memory, "s", given)
            assert made.allowed_tools == ["Read", RECALL_TOOL]
            assert set(made.mcp_servers) == {"calc", "turnfold"}
            assert made.hooks["PostToolUse"][0] is matcher
            assert len(made.hooks["PostToolUse"]) == 2
            assert made.hooks["PreToolUse"][0] is matcher
            assert len(made.hooks["PreToolUse"]) == 2
            assert made.session_store is mine
            assert made.model == "claude-x"
            assert given.allowed_tools == ["Read"]
            assert given.hooks == {"PostToolUse": [matcher], "PreToolUse": [matcher]}
            plain: Any = turnfold_options(memory, "s")
            assert isinstance(plain.session_store, TurnfoldSessionStore)

    asyncio.run(main())


def test_what_would_have_to_be_replaced_is_refused() -> None:
    async def main() -> None:
        async with AsyncMemory("sqlite://") as memory:
            with pytest.raises(InvalidOption, match="must be a dictionary"):
                turnfold_options(memory, "s", sdk.ClaudeAgentOptions(mcp_servers="servers.json"))
            taken = sdk.ClaudeAgentOptions(mcp_servers={"turnfold": {"command": "x"}})
            with pytest.raises(InvalidOption, match="already"):
                turnfold_options(memory, "s", taken)
            with pytest.raises(InvalidOption, match="chosen by conversation"):
                await resuming_options(memory, "s", sdk.ClaudeAgentOptions(resume="x"))
            with pytest.raises(InvalidOption, match="max_tokens=10"):
                turnfold_options(memory, "s", recall_tokens=10)

    asyncio.run(main())


# ---------------------------------------------------------------------------------- whatever a tool responds


async def logged(session: AsyncSession) -> list[str]:
    """The one call of a session, and the text of its result."""
    [call] = [call for one in await session.history() for call in one.message.calls]
    [result] = [result for one in await session.history() for result in one.message.results]
    assert (call.name, result.call_id) == ("look", call.id)
    return [call.arguments, result.text]


AROUND: dict[str, Callable[[object], object]] = {
    "alone": lambda value: value,
    "in a block": lambda value: {"content": [{"type": "text", "text": value}]},
    "in a field": lambda value: {"value": [value]},
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", sorted(RETURNING.keys() - UNAWAITED))
def test_every_response_of_a_tool_is_logged(name: str, around: str) -> None:
    async def work(memory: AsyncMemory, hooks: SessionHooks) -> None:
        response = AROUND[around](RETURNING[name]())
        await hooks.tool_used(used("look", "t1", response), "t1", None)
        assert (await logged(memory.session("s")))[0] == '{"at": 1}'

    with_hooks(work, findings=[FindingRule("look")])


@pytest.mark.parametrize("name", sorted(RETURNING.keys() - UNAWAITED))
def test_every_input_of_a_tool_is_logged(name: str) -> None:
    async def work(memory: AsyncMemory, hooks: SessionHooks) -> None:
        given = used("look", "t1", "seen 看", tool_input={"at": RETURNING[name]()})
        await hooks.tool_used(given, "t1", None)
        assert (await logged(memory.session("s")))[1] == "seen 看"

    with_hooks(work)


def test_half_a_character_is_logged_escaped() -> None:
    half = "half \ud83d"

    async def work(memory: AsyncMemory, hooks: SessionHooks) -> None:
        await hooks.prompt_submitted({"prompt": half, "prompt_id": "p"}, None, None)
        failed = {"tool_name": "look", "tool_input": {"at": half}, "error": half}
        await hooks.tool_failed(failed, "t\udc00", None)
        await hooks.stopped({"last_assistant_message": half, "prompt_id": "p"}, None, None)
        assert await spoken(memory.session("s")) == [
            ("user", "half \\ud83d"),
            ("assistant", ""),
            ("tool", "half \\ud83d"),
            ("assistant", "half \\ud83d"),
        ]

    with_hooks(work)
