"""Chat models and embedders behind small protocols, with clients for OpenAI and Anthropic."""

from __future__ import annotations

from turnfold._lazy_loading import late_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnfold.models.anthropic import Anthropic
    from turnfold.models.base_client import LoopClients
    from turnfold.models.failures import CallFailed, failure_in, refuses_items
    from turnfold.models.openai import OpenAIChat, OpenAIResponses
    from turnfold.models.protocol import (
        Answer,
        AnswerStream,
        ChatModel,
        CompletionModel,
        Embedder,
        LocalEmbedder,
        Prompt,
        SummaryModel,
        ToolSchemas,
        as_chat_model,
        model_name,
        prompt_function,
    )
    from turnfold.models.streams import (
        ChatStream,
        GeminiStream,
        MessageStream,
        ResponsesStream,
        checked_response,
        normalized_chat,
        normalized_message,
    )

__all__ = (
    "Answer",
    "AnswerStream",
    "Anthropic",
    "CallFailed",
    "ChatModel",
    "ChatStream",
    "CompletionModel",
    "Embedder",
    "GeminiStream",
    "LocalEmbedder",
    "LoopClients",
    "MessageStream",
    "OpenAIChat",
    "OpenAIResponses",
    "Prompt",
    "ResponsesStream",
    "SummaryModel",
    "ToolSchemas",
    "as_chat_model",
    "checked_response",
    "failure_in",
    "model_name",
    "normalized_chat",
    "normalized_message",
    "prompt_function",
    "refuses_items",
)

_HOMES = {
    "turnfold.models.anthropic": "Anthropic",
    "turnfold.models.base_client": "LoopClients",
    "turnfold.models.protocol": "Embedder LocalEmbedder Answer AnswerStream ChatModel CompletionModel Prompt "
    "SummaryModel ToolSchemas as_chat_model model_name prompt_function",
    "turnfold.models.failures": "CallFailed failure_in refuses_items",
    "turnfold.models.openai": "OpenAIChat OpenAIResponses",
    "turnfold.models.streams": "ChatStream GeminiStream MessageStream ResponsesStream checked_response "
    "normalized_chat normalized_message",
}

__getattr__, __dir__ = late_names(__name__, _HOMES)
