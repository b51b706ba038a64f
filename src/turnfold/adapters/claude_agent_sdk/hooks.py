"""Hooks of the Claude Agent SDK that log messages, add context, and answer repeated calls from memory.

The command-line program that the SDK runs owns the list of messages, so turnfold cannot build the request. Instead,
messages and tool calls are copied to a session's log, and each user prompt gets additional context from the session:
pins, state, findings (remembered tool results) and recalled passages. A program without the folded messages (a new SDK
session, or one that has compacted its own) also gets their summary. Each subagent has a session of its own.

Hooks see one prompt or call at a time and never the list. When an SDK session is resumed, its transcript says which
messages the program has: if it goes on from an earlier message, in a fork, or on a branch that was left before, the log
is made to follow it (see `follow_history`).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

from turnfold.adapters._common import (
    GivenRecord,
    ThreadBridge,
    VisibleHistory,
    first_name,
    follow_history,
    note_result,
)
from turnfold.adapters.claude_agent_sdk.transcript import (
    BranchMessage,
    TranscriptFile,
    answer_name,
    beside_name,
    call_name,
    is_name,
    prompt_name,
    read_branch,
    result_name,
)
from turnfold.errors import SummaryFailed
from turnfold.findings import FindingRule, RuleSource, as_finding_rules, rule_for, served_text
from turnfold.memory import AsyncMemory, AsyncSession
from turnfold.records import Entry, NewEntry, ToolCall, assistant, tool, user
from turnfold.window import Section
from turnfold.wire import (
    ENDING,
    encodable,
    outcome_of,
    outcome_of_blocks,
    writable,
)

__all__ = (
    "HookFunction",
    "HookInput",
    "HookOutput",
    "ResumedSession",
    "SessionHooks",
)


_log = logging.getLogger("turnfold.adapters.claude_agent_sdk")


HookInput: TypeAlias = Mapping[str, object]
HookOutput: TypeAlias = dict[str, object]
HookFunction: TypeAlias = Callable[[HookInput, "str | None", object], Awaitable[HookOutput]]


class ResumedSession(NamedTuple):
    """The SDK session that the command-line program of the SDK resumes."""

    session_id: str = ""
    """Id of the resumed session; empty for the newest session of the folder."""
    at: str = ""
    """Uuid of the last message that the resumed session takes over; empty for all messages."""
    forked: bool = False


_NOT_RUN = "error: the tool was not run: the call was denied or interrupted"
_Found = TypeVar("_Found")


class SessionHooks:
    """Hooks of the Claude Agent SDK that log the messages of one conversation, and those of its subagents."""

    def __init__(
        self,
        memory: AsyncMemory,
        conversation: str,
        *,
        findings: RuleSource | Sequence[FindingRule] = (),
        unlogged: frozenset[str] = frozenset(),
        resumed: ResumedSession | None = None,
        off_loop: ThreadBridge | None = None,
    ) -> None:
        self._memory = memory
        self._off_loop = off_loop or ThreadBridge(memory)
        """Runs the hooks; in a thread if the memory blocks the event loop."""
        self._transcripts: dict[str, TranscriptFile] = {}
        """The transcript of each session, by conversation."""
        self._requested: dict[str, dict[str, ToolCall]] = {}
        """Tool calls that were requested and have not ended, by conversation and call id."""
        self._conversation = conversation
        self._findings = as_finding_rules(findings)
        self._unlogged = unlogged
        """Names of tools whose calls are not logged, because they quote this log, such as the recall tool."""
        self._resumed = resumed
        """The SDK session that is resumed; None after its first prompt."""
        self._informed: set[str] = set()
        """Ids of SDK sessions that were already shown the summary and the findings (remembered tool results), or have
        the messages themselves."""

    def by_event(self) -> dict[str, HookFunction]:
        """Return {name of the SDK event: hook function to call}."""
        hooks = {
            "UserPromptSubmit": self.prompt_submitted,
            "PreToolUse": self.tool_requested,
            "PostToolUse": self.tool_used,
            "PostToolUseFailure": self.tool_failed,
            "Stop": self.stopped,
            "SubagentStop": self.stopped,
            "PreCompact": self.compacting,
        }
        return {event: self._bridged(hook) for event, hook in hooks.items()}

    def _bridged(
        self, hook: Callable[[HookInput, str | None, object], Coroutine[Any, Any, HookOutput]]
    ) -> HookFunction:
        async def bridged(
            payload: HookInput, tool_use_id: str | None, context: object
        ) -> HookOutput:
            return await self._off_loop(hook(payload, tool_use_id, context))

        return bridged

    async def prompt_submitted(
        self, payload: HookInput, tool_use_id: str | None, context: object
    ) -> HookOutput:
        """Log the user's prompt; return additional context for it.

        The context has pins, state, findings (remembered tool results) and recalled passages.
        """
        del tool_use_id, context
        session = self._session(payload)
        if self._resumed is not None:
            await self._follow_branch(session, payload, self._resumed)
            self._informed.add(_text(payload, "session_id"))
            self._resumed = None
        await self._end_turn(session, payload)
        self._transcript(session, payload, begins=True)
        prompt = _text(payload, "prompt")
        if prompt.strip():
            named = _text(payload, "prompt_id")
            client_id = prompt_name(named) if named else ""
            await self._add(session, [NewEntry(user(prompt), client_id)])
        # A preview and not a call: the program behind the SDK builds the actual request.
        preview = await session.preview(prompt)
        blocks = [message.text for message in preview.section(Section.TAIL)]
        if (sdk_session := _text(payload, "session_id")) not in self._informed:
            # The messages of a new SDK session have nothing of what is in this log.
            self._informed.add(sdk_session)
            summary = [message.text for message in preview.section(Section.SUMMARY)]
            tokens = self._memory.budget.share("tail")
            known = await session.findings.text(tokens=tokens, question=prompt)
            blocks = [*summary, known, *(block for block in blocks if block != known)]
        return _additional_context("UserPromptSubmit", "\n\n".join(filter(None, blocks)))

    async def tool_requested(
        self, payload: HookInput, tool_use_id: str | None, context: object
    ) -> HookOutput:
        """Answer a tool call with its remembered result if the tool's finding rule has `serve`; the tool does not run.

        A hook can only refuse a call, so the remembered result is given as the reason of the refusal. The call is
        logged with that result.
        """
        del context
        name = _text(payload, "tool_name")
        session = self._session(payload)
        call = _call_of(payload, tool_use_id)
        if name not in self._unlogged:
            self._requested.setdefault(session.id, {})[call.id] = call
        rule = rule_for(session.findings.rules, name)
        if rule is None or not rule.serve:
            return {}
        found = await session.findings.serve(call)
        if found is None:
            return {}
        served = served_text(found)
        await self._add_call(
            session, call, served, beside=await self._beside(session, payload, call)
        )
        decision = {"permissionDecision": "deny", "permissionDecisionReason": served}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **decision}}

    async def tool_used(
        self, payload: HookInput, tool_use_id: str | None, context: object
    ) -> HookOutput:
        """Log a tool call with its result, and remember the result if a rule says so for the tool."""
        del context
        result = outcome_of_blocks(payload.get("tool_response"))
        await self._log_call(payload, tool_use_id, result.text, failed=result.failed)
        return {}

    async def tool_failed(
        self, payload: HookInput, tool_use_id: str | None, context: object
    ) -> HookOutput:
        """Log a tool call that failed, with its error as the result."""
        del context
        await self._log_call(payload, tool_use_id, _text(payload, "error"), failed=True)
        return {}

    async def stopped(
        self, payload: HookInput, tool_use_id: str | None, context: object
    ) -> HookOutput:
        """Log what no hook reports: the last answer of a turn, the texts next to tool calls, and denied calls."""
        del tool_use_id, context
        await self._end_turn(self._session(payload), payload)
        answer = _text(payload, "last_assistant_message")
        if answer.strip():
            prompt = _text(payload, "prompt_id")
            entry = NewEntry(assistant(answer), answer_name(prompt, answer) if prompt else "")
            await self._add(self._session(payload), [entry])
        return {}

    async def compacting(
        self, payload: HookInput, tool_use_id: str | None, context: object
    ) -> HookOutput:
        """Fold (summarise) the session's older messages because the SDK's program is about to compact its own.

        The next prompt gets the summary.
        """
        del tool_use_id, context
        self._informed.discard(_text(payload, "session_id"))
        try:
            await self._session(payload).fold()
        except SummaryFailed as failed:
            kind = type(failed).__name__
            fields = {"event": "folding_stopped", "error": kind}
            _log.warning(
                "the summary of older messages failed (%s); the SDK compacts its messages without it",
                kind,
                extra=fields,
            )
        return {}

    async def _log_call(
        self, payload: HookInput, tool_use_id: str | None, result: str, *, failed: bool
    ) -> None:
        name = _text(payload, "tool_name")
        if name in self._unlogged:
            return
        session = self._session(payload)
        call = _call_of(payload, tool_use_id)
        beside = await self._beside(session, payload, call)
        stored = await self._add_call(session, call, result, beside=beside)
        if self._findings and stored:
            await note_result(session, call, result, seq=stored, asked=stored - 2, failed=failed)

    async def _beside(self, session: AsyncSession, payload: HookInput, call: ToolCall) -> str:
        """Return the text that the model wrote in the same message as a tool call; empty if it is not known yet."""
        transcript = self._transcript(session, payload)
        if transcript is None:
            return ""
        return await self._from_file(lambda: transcript.take_beside(call.id))

    async def _end_turn(self, session: AsyncSession, payload: HookInput) -> None:
        """Log what the hooks missed in the turn: texts next to tool calls, and calls that were never run."""
        denied = [
            (call, await self._beside(session, payload, call))
            for call in self._requested.pop(session.id, {}).values()
        ]
        transcript = self._transcript(session, payload)
        for said in await self._from_file(transcript.take_rest) if transcript else ():
            logged = await session.by_client_id([call_name(call) for call in said.calls])
            # Skips texts of turns before this log began, and texts that were logged with their call.
            if logged and not any(entry.message.text for entry in logged):
                await self._add(
                    session, [NewEntry(assistant(said.text), beside_name(said.message))]
                )
        for call, beside in denied:
            await self._add_call(session, call, _NOT_RUN, beside=beside)

    async def _follow_branch(
        self, session: AsyncSession, payload: HookInput, resumed: ResumedSession
    ) -> None:
        """Make the log follow the messages that the program took over from a resumed session."""
        path = Path(_text(payload, "transcript_path"))
        if resumed.forked and resumed.session_id:  # its own transcript does not exist yet
            path = path.with_name(f"{resumed.session_id}.jsonl")
        branch = await self._from_file(lambda: read_branch(path, resumed.at))
        shown = await VisibleHistory(session).entries()
        visible = [one.entry for one in shown if one.entry.message.role != "system"]
        end, taken_over = _end_of_branch(visible, branch)
        if not end:
            return  # the log was cleared, or has nothing of this SDK session
        named = [name for message in branch[taken_over:] for name in message.names]
        known = {entry.seq for entry in visible}
        again = [one for one in await session.by_client_id(named) if one.seq not in known]
        if not (again or resumed.at):
            return
        later = [entry for entry in visible[end:] if not is_name(first_name(entry.client_id))]
        given = [
            GivenRecord(entry.message, first_name(entry.client_id))
            for entry in (*visible[:end], *later, *again)
        ]
        if again or len(later) < len(visible) - end:
            await follow_history(session, given, whole=True)

    async def _from_file(self, read: Callable[[], _Found]) -> _Found:
        return read() if self._off_loop.blocking else await asyncio.to_thread(read)

    def _transcript(
        self, session: AsyncSession, payload: HookInput, *, begins: bool = False
    ) -> TranscriptFile | None:
        """Return the reader of a session's transcript file, None if it has none.

        If a turn `begins`, earlier lines are skipped.
        """
        agent = _text(payload, "agent_id")
        path = _text(payload, "agent_transcript_path" if agent else "transcript_path")
        known = self._transcripts.get(session.id)
        if path and (begins or known is None):
            known = TranscriptFile.at_end(path) if begins else TranscriptFile(path)
            self._transcripts[session.id] = known
        return known

    async def _add_call(
        self, session: AsyncSession, call: ToolCall, result: str, *, beside: str = ""
    ) -> int:
        """Log a tool call with its result, unless they are in the log.

        Returns the result's seq, 0 if both were there.
        """
        self._requested.get(session.id, {}).pop(call.id, None)
        function = {"name": call.name, "arguments": call.arguments}
        asking = assistant(beside, tool_calls=[{"id": call.id, "function": function}])
        answer = tool(result, tool_call_id=call.id, name=call.name)
        return await self._add(
            session, [NewEntry(asking, call_name(call.id)), NewEntry(answer, result_name(call.id))]
        )

    async def _add(self, session: AsyncSession, entries: Sequence[NewEntry]) -> int:
        """Append the entries that the log does not have yet; return the seq of the last one, 0 if it has them all."""
        named = [entry.client_id for entry in entries if entry.client_id]
        known = (
            {entry.client_id for entry in await session.by_client_id(named)}
            if named
            else set[str]()
        )
        new = [entry for entry in entries if entry.client_id not in known]
        return (await session.add(new)).last if new else 0

    def _session(self, payload: HookInput) -> AsyncSession:
        agent = _text(payload, "agent_id")
        name = f"{self._conversation}/{agent}" if agent else self._conversation
        session = self._memory.session(name)
        if self._findings:
            session.findings.use(self._findings)
        return session


def _end_of_branch(log: Sequence[Entry], branch: Sequence[BranchMessage]) -> tuple[int, int]:
    """Find the last message of a transcript's branch that the log has.

    Returns its seq (log position) and its number in the branch; both are 0 if the log has none. Messages without hooks,
    such as those of a resumed session, are in the branch only.
    """
    keys = _contents_of(log)
    names = [first_name(entry.client_id) for entry in log]

    def is_same(at: int, number: int) -> bool:
        message = branch[number]
        if names[at] in message.names:
            return True
        return keys[at] == message.content and not (message.certain and is_name(names[at]))

    for number in range(len(branch) - 1, -1, -1):
        best = (0, 0)
        for at in range(len(log)):
            length = 0
            while min(at, number) >= length and is_same(at - length, number - length):
                length += 1
            best = max(best, (length, at + 1)) if length else best
        if best[0]:
            end = best[1]
            # Texts beside a call are logged after its result.
            while end < len(log) and names[end].startswith(beside_name("")):
                end += 1
            return end, number + 1
    return 0, 0


def _contents_of(log: Sequence[Entry]) -> list[tuple[str, ...]]:
    """Return the contents of entries in the form of `BranchMessage.content`."""
    found: list[tuple[str, ...]] = []
    asked = ""
    for entry in log:
        message = entry.message
        if message.calls:
            found.append(("call", message.calls[0].id))
        elif message.results:
            found.append(("result", message.results[0].call_id))
        elif message.role == "user":
            asked = message.text
            found.append(("user", asked))
        else:
            found.append((message.role, asked, message.text))
    return found


def _additional_context(event: str, text: str) -> HookOutput:
    if not text:
        return {}
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


def _call_of(payload: HookInput, tool_use_id: str | None) -> ToolCall:
    call_id = encodable(tool_use_id or _text(payload, "tool_use_id"))
    return ToolCall(call_id, _text(payload, "tool_name"), _arguments(payload.get("tool_input")))


def _text(payload: HookInput, name: str) -> str:
    """Return a text field of a hook's payload with lone surrogates escaped: a hook cannot refuse its input."""
    value = payload.get(name)
    # Not isinstance, which trusts a false __class__.
    if not issubclass(type(value), str):
        return ""
    return encodable(str.__str__(cast("str", value)))


def _arguments(payload: object) -> str:
    """Return the arguments of a tool call as JSON text; values without a JSON form become text."""
    try:
        return json.dumps(writable(payload or {}), ensure_ascii=False)
    except ENDING:
        raise
    except BaseException:  # whatever a value raises while it is written
        return json.dumps({"input": outcome_of(payload).text}, ensure_ascii=False)
