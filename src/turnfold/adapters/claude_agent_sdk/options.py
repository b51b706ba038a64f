"""Memory for the Claude Agent SDK in one line: the user's own options, with turnfold's added to them.

Nothing of the user's is replaced: hooks are put behind theirs, the server beside theirs, and a store is only set where
there is none. What would have to be replaced is refused.
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

from turnfold.adapters.claude_agent_sdk.hooks import SessionHooks
from turnfold.adapters.claude_agent_sdk.session_store import TurnfoldSessionStore
from turnfold.errors import InvalidOption
from turnfold.memory import AsyncMemory, Memory
from turnfold.memory.recall_tool import RECALL_CONTEXT, RecallTool
from turnfold.recall.findings import FindingRule

__all__ = ("RECALL_TOOL", "resuming_options", "turnfold_options")

SERVER: Final = "turnfold"
RECALL_TOOL: Final = f"mcp__{SERVER}__{RECALL_CONTEXT}"
"""What the model calls the tool."""
_NAMES = UUID("8c0f6a52-3d0b-5a6e-9c55-6f2f2f6c7a11")
"""Makes the id of an SDK session out of the name of a conversation."""


def turnfold_options(
    memory: AsyncMemory | Memory,
    conversation: str,
    options: ClaudeAgentOptions | None = None,
    *,
    recall_tokens: int = 2000,
    findings: Sequence[FindingRule] = (),
) -> ClaudeAgentOptions:
    """Options with this conversation's memory: hooks, the tool `recall_context`, transcripts in the memory's store.

    `findings` are the rules by which results of tools are remembered.
    """
    awaiting = memory.awaiting if isinstance(memory, Memory) else memory
    given = options or ClaudeAgentOptions()
    servers = given.mcp_servers
    if not isinstance(servers, dict):
        raise InvalidOption(
            f"mcp_servers={servers!r} is a file or text that nothing can be added to; give a dictionary of servers"
        )
    if SERVER in servers:
        raise InvalidOption(f"mcp_servers has a server named {SERVER!r} already; rename it")
    recall = RecallTool(awaiting.session(conversation), max_tokens=recall_tokens)
    return replace(
        given,
        mcp_servers={**servers, SERVER: _server(recall)},
        allowed_tools=[*given.allowed_tools, RECALL_TOOL],
        hooks=_with_hooks(given, awaiting, conversation, findings),
        session_store=given.session_store or TurnfoldSessionStore(awaiting),
    )


async def resuming_options(
    memory: AsyncMemory | Memory,
    conversation: str,
    options: ClaudeAgentOptions | None = None,
    *,
    recall_tokens: int = 2000,
    findings: Sequence[FindingRule] = (),
) -> ClaudeAgentOptions:
    """The same, going on with the SDK session of this conversation: resumed from the store where it has one.

    Works from any machine that reaches the store; the working directory must be the same, because the SDK keeps its
    sessions by it.
    """
    given = options or ClaudeAgentOptions()
    if given.resume or given.session_id or given.continue_conversation:
        raise InvalidOption(
            "resume, session_id and continue_conversation name a session; the conversation names it here"
        )
    made = turnfold_options(
        memory, conversation, given, recall_tokens=recall_tokens, findings=findings
    )
    session_id = str(uuid5(_NAMES, conversation))
    store = made.session_store
    if store is None:  # turnfold_options set one
        raise InvalidOption("there is no session store to resume from")
    project = project_key_for_directory(str(given.cwd or Path.cwd()))
    known = await store.load({"project_key": project, "session_id": session_id})
    return replace(made, resume=session_id) if known else replace(made, session_id=session_id)


def _server(recall: RecallTool) -> object:
    async def call(arguments: Mapping[str, object]) -> dict[str, object]:
        text = await recall.call(arguments)
        content = [{"type": "text", "text": text}]
        return {"content": content, "is_error": text.startswith("error:")}

    made = tool(RECALL_CONTEXT, recall.description, recall.parameters)(call)
    return create_sdk_mcp_server(SERVER, tools=[made])


def _with_hooks(
    given: ClaudeAgentOptions,
    memory: AsyncMemory,
    conversation: str,
    findings: Sequence[FindingRule],
) -> dict[str, list[HookMatcher]]:
    ours = SessionHooks(
        memory, conversation, findings=findings, unlogged=frozenset({RECALL_TOOL})
    ).by_event()
    theirs = cast("dict[str, list[HookMatcher]]", given.hooks or {})
    together = {event: list(matchers) for event, matchers in theirs.items()}
    for event, hook in ours.items():
        together.setdefault(event, []).append(HookMatcher(hooks=[hook]))
    return together
