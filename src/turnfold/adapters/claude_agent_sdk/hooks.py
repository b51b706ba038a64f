"""Hooks of the Claude Agent SDK that watch and add, and change nothing.

The command-line program behind the SDK owns the list of messages, so memory comes in beside it: what is said and done
goes into a session's log, and each prompt of the user is given what the session has for it (pinned rules, state,
findings, passages that were folded) as additional context. What a subagent does goes into a session of its own.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import blake2b
from typing import TypeAlias, cast

from turnfold.errors import SummaryFailed
from turnfold.memory import AsyncMemory, AsyncSession
from turnfold.recall.findings import FindingRule
from turnfold.records import NewEntry, ToolCall, assistant, tool, user
from turnfold.window import Section
from turnfold.wire.tool_text import ENDING, Outcome, encodable, outcome_of
from turnfold.wire.unwritable import writable
from turnfold.wire.values import list_of, object_of

__all__ = ("HookFunction", "HookInput", "HookOutput", "SessionHooks")

HookInput: TypeAlias = Mapping[str, object]
HookOutput: TypeAlias = dict[str, object]
HookFunction: TypeAlias = Callable[[HookInput, "str | None", object], Awaitable[HookOutput]]

_log = logging.getLogger("turnfold.adapters.claude_agent_sdk")


class SessionHooks:
    """The hooks over one session, by event."""

    def __init__(
        self,
        memory: AsyncMemory,
        conversation: str,
        *,
        findings: Sequence[FindingRule] = (),
        unlogged: frozenset[str] = frozenset(),
    ) -> None:
        self._memory = memory
        self._conversation = conversation
        self._findings = tuple(findings)
        self._unlogged = unlogged
        """Tools that only read this log: what they answer is in it already."""

    def by_event(self) -> dict[str, HookFunction]:
        """Which hook goes with which event."""
        return {
            "UserPromptSubmit": self.prompt_submitted,
            "PostToolUse": self.tool_used,
            "PostToolUseFailure": self.tool_failed,
            "Stop": self.stopped,
            "SubagentStop": self.stopped,
            "PreCompact": self.compacting,
        }

    async def prompt_submitted(
        self, given: HookInput, tool_use_id: str | None, context: object
    ) -> HookOutput:
        """Log what the user said, and add what the session has for it."""
        del tool_use_id, context
        session = self._session(given)
        prompt = _text(given, "prompt")
        if prompt.strip():
            named = _text(given, "prompt_id")
            client_id = f"prompt:{named}" if named else ""
            await self._add(session, [NewEntry(user(prompt), client_id)])
        # A look and no call: what is really sent is put together by the program behind the SDK.
        seen = await session.preview(prompt)
        tail = "\n\n".join(message.text for message in seen.section(Section.TAIL))
        return _added("UserPromptSubmit", tail)

    async def tool_used(
        self, given: HookInput, tool_use_id: str | None, context: object
    ) -> HookOutput:
        """Log a call with its result, and keep what it found."""
        del context
        result = _spelled(given.get("tool_response"))
        await self._called(given, tool_use_id, result.text, failed=result.failed)
        return {}

    async def tool_failed(
        self, given: HookInput, tool_use_id: str | None, context: object
    ) -> HookOutput:
        """Log a call that failed, with its error."""
        del context
        await self._called(given, tool_use_id, _text(given, "error"), failed=True)
        return {}

    async def stopped(
        self, given: HookInput, tool_use_id: str | None, context: object
    ) -> HookOutput:
        """Log the answer a turn ended with."""
        del tool_use_id, context
        answer = _text(given, "last_assistant_message")
        if answer.strip():
            digest = blake2b(answer.encode("utf-8", "replace"), digest_size=8).hexdigest()
            client_id = f"answer:{_text(given, 'prompt_id')}:{digest}"
            entry = NewEntry(assistant(answer), client_id if given.get("prompt_id") else "")
            await self._add(self._session(given), [entry])
        return {}

    async def compacting(
        self, given: HookInput, tool_use_id: str | None, context: object
    ) -> HookOutput:
        """Fold the session when the program behind the SDK compacts its own messages: what goes can be recalled."""
        del tool_use_id, context
        try:
            await self._session(given).checkpoint()
        except SummaryFailed as failed:
            kind = type(failed).__name__
            fields = {"event": "folding_stopped", "error": kind}
            _log.warning("not folded before a compaction: %s", kind, extra=fields)
        return {}

    async def _called(
        self, given: HookInput, tool_use_id: str | None, result: str, *, failed: bool
    ) -> None:
        name = _text(given, "tool_name")
        if name in self._unlogged:
            return
        session = self._session(given)
        call_id = encodable(tool_use_id or _text(given, "tool_use_id"))
        arguments = _arguments(given.get("tool_input"))
        call = ToolCall(call_id, name, arguments)
        spoken = assistant(tool_calls=[{"id": call_id, "function": _function(name, arguments)}])
        answer = tool(result, tool_call_id=call_id, name=name)
        stored = await self._add(
            session, [NewEntry(spoken, f"call:{call_id}"), NewEntry(answer, f"result:{call_id}")]
        )
        if failed or not self._findings or not stored:
            return
        if name in session.findings.rules:
            await session.findings.note(call, result, seq=stored, asked=stored - 2)
        else:
            await session.findings.ran(name)

    async def _add(self, session: AsyncSession, entries: Sequence[NewEntry]) -> int:
        """Log what is not in the log yet; the seq of the last entry, 0 when all of it was."""
        named = [entry.client_id for entry in entries if entry.client_id]
        known = {entry.client_id for entry in await session.find(named)} if named else set[str]()
        new = [entry for entry in entries if entry.client_id not in known]
        return (await session.add(new)).last if new else 0

    def _session(self, given: HookInput) -> AsyncSession:
        agent = _text(given, "agent_id")
        name = f"{self._conversation}/{agent}" if agent else self._conversation
        session = self._memory.session(name)
        if self._findings:
            session.findings.use(self._findings)
        return session


def _added(event: str, text: str) -> HookOutput:
    if not text:
        return {}
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


def _function(name: str, arguments: str) -> dict[str, object]:
    return {"name": name, "arguments": arguments}


def _text(given: HookInput, name: str) -> str:
    """The text under a name, with half a character escaped: a hook has nobody to refuse it to."""
    value = given.get(name)
    if not issubclass(
        type(value), str
    ):  # isinstance would believe an object that lies about its class
        return ""
    return encodable(str.__str__(cast("str", value)))


def _arguments(given: object) -> str:
    """The arguments of a call as JSON; what has no JSON is written as text in their place."""
    try:
        return json.dumps(writable(given or {}), ensure_ascii=False)
    except ENDING:
        raise
    except BaseException:  # whatever a value raises while it is written
        return json.dumps({"input": outcome_of(given).text}, ensure_ascii=False)


def _spelled(response: object) -> Outcome:
    """A tool's response as text: the text of its blocks, or its JSON; an error that says so where it has neither."""
    try:
        texts = _block_texts(response)
        return outcome_of(response if texts is None else "\n".join(texts))
    except ENDING:
        raise
    except BaseException:
        return outcome_of(response)


def _block_texts(response: object) -> list[str] | None:
    """The texts of a response that is nothing but blocks of text; None for any other."""
    fields = object_of(response) or {}
    blocks = list_of(fields.get("content", response))
    texts = [_block_text(block) for block in blocks or ()]
    if not texts or None in texts:
        return None
    return cast("list[str]", texts)


def _block_text(block: object) -> str | None:
    fields = object_of(block) or {}
    text = fields.get("text")
    return text if fields.get("type") == "text" and isinstance(text, str) else None
