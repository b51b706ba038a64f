"""Adapter for Strands Agents: memory for an agent in one line; `agent.messages` stays complete.

Agent(conversation_manager=TurnfoldConversationManager(memory.session("s1")))
"""

from __future__ import annotations

from turnfold.errors import MissingExtra

try:
    import strands as _strands
except ImportError as missing:
    raise MissingExtra(
        package="strands-agents", extra="strands", purpose="the Strands Agents adapter"
    ) from missing

from turnfold.adapters.strands.manager import TurnfoldConversationManager
from turnfold.adapters.strands.messages import record_of, strands_messages

__all__ = (
    "TurnfoldConversationManager",
    "record_of",
    "strands_messages",
)

del _strands
