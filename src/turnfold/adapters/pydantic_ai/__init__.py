"""Adapter for PydanticAI: memory for its agents in one line; their own history stays complete.

agent = Agent(model, capabilities=[turnfold_capability(memory.session("s1"))])
"""

from __future__ import annotations

from turnfold.errors import MissingExtra

try:
    import pydantic_ai as _pydantic_ai
except ImportError as missing:
    raise MissingExtra(
        package="pydantic-ai-slim", extra="pydantic-ai", purpose="the PydanticAI adapter"
    ) from missing

from turnfold.adapters.pydantic_ai.capability import TurnfoldCapability, turnfold_capability
from turnfold.adapters.pydantic_ai.entries import model_messages, records_of
from turnfold.adapters.pydantic_ai.run_log import message_history

__all__ = (
    "TurnfoldCapability",
    "message_history",
    "model_messages",
    "records_of",
    "turnfold_capability",
)

del _pydantic_ai
