"""Branches of SDK sessions: the log follows the messages that a resumed program has; and who is shown the summary."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "claude_agent_sdk",
    reason="the extra claude-agent-sdk is not installed; make test-claude has it",
)

from turnfold import AsyncMemory, Budget
from turnfold.adapters._common import VisibleHistory
from turnfold.adapters.claude_agent_sdk import hooks as hooks_module
from turnfold.adapters.claude_agent_sdk import turnfold_options
from turnfold.adapters.claude_agent_sdk.hooks import ResumedSession, SessionHooks
from turnfold.adapters.claude_agent_sdk.transcript import read_branch
from turnfold.memory import AsyncSession

sdk: Any = import_module("claude_agent_sdk")


class Program:
    """Stands for the program: keeps a transcript as it does, and calls the hooks."""

    def __init__(self, memory: AsyncMemory, folder: Path) -> None:
        self.memory = memory
        self.folder = folder
        self.lines: dict[str, list[dict[str, Any]]] = {}
        self.begin("A")

    def begin(self, session_id: str, resumed: ResumedSession | None = None) -> None:
        """Start a process of the program for this SDK session, which may resume another one."""
        self.id = session_id
        self.hooks = SessionHooks(self.memory, "s", resumed=resumed)
        self.source = resumed.session_id if resumed else ""
        self.at = resumed.at if resumed else ""

    @property
    def path(self) -> Path:
        return self.folder / f"{self.id}.jsonl"

    def line(self, kind: str, content: object, **more: object) -> str:
        lines = self.lines[self.id]
        uuid = f"{self.id}{len(lines)}"
        parent = self.at or (lines[-1]["uuid"] if lines else None)
        self.at = ""
        message = {"role": kind, "content": content, "id": more.pop("message", "")}
        lines.append({"uuid": uuid, "parentUuid": parent, "type": kind, "message": message, **more})
        self.path.write_text("".join(json.dumps(one) + "\n" for one in lines))
        return uuid

    async def ask(self, prompt: str, answer: str, *, tool: str = "") -> tuple[dict[str, Any], str]:
        """One turn; returns what the hook added to the prompt, and the uuid of the answer."""
        number = sum(map(len, self.lines.values()))
        named = f"p{number}"
        given: dict[str, Any] = {
            "session_id": self.id,
            "prompt_id": named,
            "transcript_path": str(self.path),
        }
        added = await self.hooks.prompt_submitted({**given, "prompt": prompt}, None, None)
        if self.id not in self.lines:  # a fork takes over lines, under its own prompt id
            source = read_lines(self.folder / f"{self.source}.jsonl", self.at)
            known = [one | ({"promptId": named} if "promptId" in one else {}) for one in source]
            self.lines[self.id], self.at = known, ""
        self.line("user", prompt, promptId=named)
        if tool:
            block = {"type": "tool_use", "id": tool, "name": "look", "input": {}}
            self.line("assistant", [{"type": "text", "text": "Let me look."}], message=f"m{tool}")
            self.line("assistant", [block], message=f"m{tool}")
            used = {"tool_name": "look", "tool_input": {}, "tool_response": "seen", **given}
            await self.hooks.tool_used(used, tool, None)
            result = {"type": "tool_result", "tool_use_id": tool, "content": "seen"}
            self.line("user", [result], promptId=named)
        uuid = self.line("assistant", [{"type": "text", "text": answer}], message=f"m{number}")
        self.line("system", None)
        await self.hooks.stopped({**given, "last_assistant_message": answer}, None, None)
        return added, uuid


def read_lines(path: Path, at: str) -> list[dict[str, Any]]:
    """The lines of a transcript up to one of them, on its branch."""
    lines = [json.loads(one) for one in path.read_text().splitlines()] if path.exists() else []
    by_uuid = {one["uuid"]: one for one in lines}
    found: list[dict[str, Any]] = []
    place = at or (lines[-1]["uuid"] if lines else None)
    while place:
        found.append(by_uuid[place])
        place = by_uuid[place]["parentUuid"]
    return found[::-1]


async def visible(session: AsyncSession) -> list[str]:
    entries = [one.entry.message for one in await VisibleHistory(session).entries()]
    return [message.text or "call" for message in entries if message.role != "system"]


def with_program(work: Callable[[Program], Awaitable[None]], folder: Path) -> None:
    async def main() -> None:
        async with AsyncMemory("sqlite://", budget=Budget(max_tokens=20_000)) as memory:
            await work(Program(memory, folder))

    asyncio.run(main())


FIRST = ["One?", "Let me look.", "seen", "ok"]


async def begun(program: Program) -> Sequence[str]:
    """Three turns with the same answer; returns the uuids of the answers."""
    uuids = [(await program.ask("One?", "ok", tool="t1"))[1]]
    uuids += [(await program.ask(text, "ok"))[1] for text in ("yes", "yes")]
    return uuids


def test_a_session_resumed_at_a_message_leaves_what_came_after_it(tmp_path: Path) -> None:
    async def work(program: Program) -> None:
        session = program.memory.session("s")
        uuids = await begun(program)
        program.begin("A", ResumedSession("A", at=uuids[1]))
        await program.ask("Four?", "four")
        assert await visible(session) == [*FIRST, "yes", "ok", "Four?", "four"]
        program.begin("A", ResumedSession("A"))
        await program.ask("Five?", "five")
        assert await visible(session) == [*FIRST, "yes", "ok", "Four?", "four", "Five?", "five"]
        program.begin("A", ResumedSession("A", at=uuids[0]))
        await program.ask("Six?", "six")
        assert await visible(session) == [*FIRST, "Six?", "six"]

    with_program(work, tmp_path)


def test_a_fork_is_followed_and_so_is_the_way_back(tmp_path: Path) -> None:
    async def work(program: Program) -> None:
        session = program.memory.session("s")
        uuids = await begun(program)
        program.begin("B", ResumedSession("A", at=uuids[0], forked=True))
        await program.ask("Fork?", "ok")
        assert await visible(session) == [*FIRST, "Fork?", "ok"]
        program.begin("A", ResumedSession("A"))
        await program.ask("Back?", "back")
        assert await visible(session) == [*FIRST, "yes", "ok", "yes", "ok", "Back?", "back"]
        program.begin("B", ResumedSession("B"))
        await program.ask("More?", "more")
        assert await visible(session) == [*FIRST, "Fork?", "ok", "More?", "more"]
        context = await session.context("Back?")
        assert "Back?" not in str(context.messages)
        assert await session.recall("Back") == []

    with_program(work, tmp_path)


def test_sabotage_without_following_the_left_branch_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks_module, "read_branch", lambda *_: [])
    for number, test in enumerate(
        (
            test_a_session_resumed_at_a_message_leaves_what_came_after_it,
            test_a_fork_is_followed_and_so_is_the_way_back,
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.raises(AssertionError):
            test(folder)


def test_a_resumed_session_keeps_what_other_programs_said(tmp_path: Path) -> None:
    async def work(program: Program) -> None:
        session = program.memory.session("s")
        await session.user("Before. 之前")
        await program.ask("One?", "one")
        await session.user("Between.")
        await program.ask("Two?", "two")
        program.begin("C")
        program.lines["C"] = []
        await program.ask("Of another session?", "other")
        before = await visible(session)
        program.begin("A", ResumedSession("A"))
        await program.ask("Three?", "three")
        assert await visible(session) == [*before, "Three?", "three"]
        assert len(await session.history()) == len(before) + 2

    with_program(work, tmp_path)


def test_a_cleared_conversation_stays_cleared_when_its_session_is_resumed(tmp_path: Path) -> None:
    async def work(program: Program) -> None:
        session = program.memory.session("s")
        await begun(program)
        await session.clear()
        for text in ("Four?", "Five?"):
            program.begin("A", ResumedSession("A"))
            await program.ask(text, "ok")
        assert await visible(session) == ["Four?", "ok", "Five?", "ok"]

    with_program(work, tmp_path)


def test_a_transcript_that_cannot_be_read_or_has_no_such_line_changes_nothing(
    tmp_path: Path,
) -> None:
    async def work(program: Program) -> None:
        session = program.memory.session("s")
        await begun(program)
        before = await visible(session)
        program.begin("A", ResumedSession("A", at="nowhere"))
        program.at = program.lines["A"][-1]["uuid"]
        await program.ask("Four?", "four")
        assert await visible(session) == [*before, "Four?", "four"]

    with_program(work, tmp_path)
    circle = tmp_path / "circle.jsonl"
    lines = [{"uuid": "a", "parentUuid": "b"}, {"uuid": "b", "parentUuid": "a"}]
    circle.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"uuid": [\n[]\n')
    assert read_branch(circle) == []
    assert read_branch(tmp_path / "missing.jsonl") == []


# ---------------------------------------------------------------------------------- the summary


def added_text(added: dict[str, Any]) -> str:
    return str(added.get("hookSpecificOutput", {}).get("additionalContext", ""))


def test_a_program_without_the_folded_messages_gets_their_summary(tmp_path: Path) -> None:
    async def work(program: Program) -> None:
        session = program.memory.session("s")
        for number in range(12):
            await program.ask(
                f"Invoice {number}: the crane cost 4{number}17 euros. 起重机", "Noted."
            )
        await session.fold()
        summary = (await session.checkpoints())[-1].text
        assert "4117 euros" in summary
        told = "4117 euros"
        added, _ = await program.ask("thanks", "ok")
        assert told not in added_text(added), "it has the messages themselves"
        program.begin("A", ResumedSession("A"))
        added, _ = await program.ask("thanks", "ok")
        assert told not in added_text(added), "it was resumed with its messages"
        await program.hooks.compacting({"session_id": "A", "trigger": "auto"}, None, None)
        added, _ = await program.ask("thanks", "ok")
        assert told in added_text(added), "its own list was compacted"
        added, _ = await program.ask("thanks", "ok")
        assert told not in added_text(added), "shown once"
        program.begin("D")
        program.lines["D"] = []
        added, _ = await program.ask("thanks", "ok")
        assert told in added_text(added), "a new session"

    with_program(work, tmp_path)


@pytest.mark.parametrize(
    ("given", "resumed"),
    [
        ({}, None),
        ({"resume": "x"}, ResumedSession("x")),
        ({"resume": "x", "resume_session_at": "u"}, ResumedSession("x", at="u")),
        ({"resume": "x", "fork_session": True}, ResumedSession("x", forked=True)),
        ({"continue_conversation": True}, ResumedSession()),
    ],
)
def test_the_options_say_what_is_resumed(
    given: dict[str, Any], resumed: ResumedSession | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    made = SessionHooks.__init__

    def watched(self: SessionHooks, *args: Any, **more: Any) -> None:
        seen.append(more["resumed"])
        made(self, *args, **more)

    monkeypatch.setattr(SessionHooks, "__init__", watched)

    async def main() -> None:
        async with AsyncMemory("sqlite://") as memory:
            turnfold_options(memory, "s", sdk.ClaudeAgentOptions(**given))

    asyncio.run(main())
    assert seen == [resumed]
