"""Adapter for Microsoft Agent Framework: a history that fits the budget, in one line.

Agent(client, context_providers=[TurnfoldHistoryProvider(memory)])
"""

from __future__ import annotations

from turnfold.errors import MissingExtra

try:
    import agent_framework as _agent_framework
except ImportError as missing:
    raise MissingExtra(
        package="agent-framework-core",
        extra="agent-framework",
        purpose="the Microsoft Agent Framework adapter",
    ) from missing

from turnfold.adapters.agent_framework.messages import framework_messages, record_of
from turnfold.adapters.agent_framework.provider import TurnfoldHistoryProvider

__all__ = (
    "TurnfoldHistoryProvider",
    "framework_messages",
    "record_of",
)

del _agent_framework
