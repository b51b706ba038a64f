"""WHO ANSWERS: chat models behind one small protocol.

The clients are loaded when they are named, and the SDK behind each when one is made: nobody pays for a provider that is
not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnfold.late_names import late_names
from turnfold.models.protocol import Answer, ChatModel, Prompt, ToolSchemas

if TYPE_CHECKING:
    from turnfold.models.anthropic import Anthropic
    from turnfold.models.embedding import Embedder, LocalEmbedder
    from turnfold.models.openai_chat import OpenAIChat
    from turnfold.models.openai_responses import OpenAIResponses

__all__ = (
    "Answer",
    "Anthropic",
    "ChatModel",
    "Embedder",
    "LocalEmbedder",
    "OpenAIChat",
    "OpenAIResponses",
    "Prompt",
    "ToolSchemas",
)

_HOMES = {
    "turnfold.models.anthropic": "Anthropic",
    "turnfold.models.embedding": "Embedder LocalEmbedder",
    "turnfold.models.openai_chat": "OpenAIChat",
    "turnfold.models.openai_responses": "OpenAIResponses",
}

__getattr__, __dir__ = late_names(__name__, _HOMES)
