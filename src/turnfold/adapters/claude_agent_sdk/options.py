"""Adds turnfold's memory to the options of the Claude Agent SDK.

The user's own options are kept: turnfold's hooks run after theirs, its MCP server is added to theirs, and its session
store is set only if they have none. Options that would have to be replaced are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, cast
from uuid import UUID, uuid5

from claude_agent_sdk import (
    ClaudeAgentOptions,
    HookMatcher,
    create_sdk_mcp_server,
    project_key_for_directory,
    tool,
)

from turnfold.adapters._common import ThreadBridge
from turnfold.adapters.claude_agent_sdk.hooks import HookFunction, ResumedSession, SessionHooks
from turnfold.adapters.claude_agent_sdk.session_store import TurnfoldSessionStore
from turnfold.errors import InvalidOption
from turnfold.findings import FindingRule, RuleSource
from turnfold.memory import RECALL_CONTEXT, AsyncMemory, Memory, RecallTool

__all__ = (
    "RECALL_TOOL",
    "resuming_options",
    "turnfold_options",
)


SERVER: Final = "turnfold"
RECALL_TOOL: Final = f"mcp__{SERVER}__{RECALL_CONTEXT}"
"""The name under which the model calls the recall tool."""
_NAMES = UUID("8c0f6a52-3d0b-5a6e-9c55-6f2f2f6c7a11")
"""UUID namespace that maps the name of a conversation to the id of an SDK session."""


def turnfold_options(
    memory: AsyncMemory | Memory,
    conversation: str,
    options: ClaudeAgentOptions | None = None,
    *,
    recall_tokens: int = 2000,
    findings: RuleSource | Sequence[FindingRule] = (),
) -> ClaudeAgentOptions:
    """Return options with the memory of a conversation: hooks, the tool `recall_context`, transcripts in the store.

    `findings` are the rules by which tool results are remembered, or an `AgentMemory`.
    """
    awaiting = memory.awaiting if isinstance(memory, Memory) else memory
    own_options = options or ClaudeAgentOptions()
    servers = own_options.mcp_servers
    if not isinstance(servers, dict):
        raise InvalidOption(
            f"mcp_servers={servers!r} must be a dictionary of servers, so that turnfold's can be added"
        )
    if SERVER in servers:
        raise InvalidOption(f"mcp_servers already has a server named {SERVER!r}: rename it")
    recall = RecallTool(awaiting.session(conversation), max_tokens=recall_tokens)
    off_loop = ThreadBridge(memory)
    hooks = SessionHooks(
        awaiting,
        conversation,
        findings=findings,
        unlogged=frozenset({RECALL_TOOL}),
        resumed=_resumed(own_options),
        off_loop=off_loop,
    )
    return replace(
        own_options,
        mcp_servers={**servers, SERVER: _server(recall, off_loop)},
        allowed_tools=[*own_options.allowed_tools, RECALL_TOOL],
        hooks=_merged_hooks(own_options, hooks.by_event()),
        session_store=own_options.session_store or TurnfoldSessionStore(memory),
    )


async def resuming_options(
    memory: AsyncMemory | Memory,
    conversation: str,
    options: ClaudeAgentOptions | None = None,
    *,
    recall_tokens: int = 2000,
    findings: RuleSource | Sequence[FindingRule] = (),
) -> ClaudeAgentOptions:
    """Return the options of `turnfold_options` that also resume the SDK session of this conversation, if one is stored.

    It works on any machine that can reach the store. The working directory must be the same, because the SDK stores its
    sessions by directory.
    """
    own_options = options or ClaudeAgentOptions()
    if own_options.resume or own_options.session_id or own_options.continue_conversation:
        raise InvalidOption(
            "resume, session_id and continue_conversation must not be set: the SDK session is chosen by conversation"
        )
    session_id = str(uuid5(_NAMES, conversation))
    store = own_options.session_store or TurnfoldSessionStore(memory)
    project = project_key_for_directory(str(own_options.cwd or Path.cwd()))
    known = await store.load({"project_key": project, "session_id": session_id})
    named = replace(own_options, **{"resume" if known else "session_id": session_id})
    return turnfold_options(
        memory, conversation, named, recall_tokens=recall_tokens, findings=findings
    )


def _resumed(options: ClaudeAgentOptions) -> ResumedSession | None:
    if not (options.resume or options.continue_conversation):
        return None
    return ResumedSession(
        options.resume or "", at=options.resume_session_at or "", forked=options.fork_session
    )


def _server(recall: RecallTool, off_loop: ThreadBridge) -> object:
    async def call(arguments: Mapping[str, object]) -> dict[str, object]:
        text = await off_loop(recall.call(arguments))
        content = [{"type": "text", "text": text}]
        return {"content": content, "is_error": text.startswith("error:")}

    prepared = tool(RECALL_CONTEXT, recall.description, recall.parameters)(call)
    return create_sdk_mcp_server(SERVER, tools=[prepared])


def _merged_hooks(
    own_options: ClaudeAgentOptions, hooks: Mapping[str, HookFunction]
) -> dict[str, list[HookMatcher]]:
    theirs = cast("dict[str, list[HookMatcher]]", own_options.hooks or {})
    merged = {event: list(matchers) for event, matchers in theirs.items()}
    for event, hook in hooks.items():
        merged.setdefault(event, []).append(HookMatcher(hooks=[hook]))
    return merged
