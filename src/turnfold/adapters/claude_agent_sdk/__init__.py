"""Adapter for the Claude Agent SDK: memory for its sessions in one line, and its transcripts in turnfold's store.

options = turnfold_options(memory, "s1", ClaudeAgentOptions(...))
"""

from __future__ import annotations

from turnfold.errors import MissingExtra

try:
    import claude_agent_sdk as _claude_agent_sdk
except ImportError as missing:
    raise MissingExtra(
        package="claude-agent-sdk",
        extra="claude-agent-sdk",
        purpose="the Claude Agent SDK adapter",
    ) from missing

from turnfold.adapters.claude_agent_sdk.options import (
    RECALL_TOOL,
    resuming_options,
    turnfold_options,
)
from turnfold.adapters.claude_agent_sdk.session_store import TurnfoldSessionStore

__all__ = ("RECALL_TOOL", "TurnfoldSessionStore", "resuming_options", "turnfold_options")

del _claude_agent_sdk
