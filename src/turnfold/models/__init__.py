"""WHO ANSWERS: chat models behind one small protocol.

The clients are loaded when they are named, and the SDK behind each when one is made: nobody pays for a provider that is
not used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

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

_HOME_OF = {
    "Anthropic": "turnfold.models.anthropic",
    "Embedder": "turnfold.models.embedding",
    "LocalEmbedder": "turnfold.models.embedding",
    "OpenAIChat": "turnfold.models.openai_chat",
    "OpenAIResponses": "turnfold.models.openai_responses",
}


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'turnfold.models' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
