"""One invented conversation per format, and a model to hold it with."""

from __future__ import annotations

from typing import Any

from tests.wire.sample_anthropic import ANTHROPIC
from tests.wire.sample_gemini import GEMINI
from tests.wire.sample_openai import CHAT, RESPONSES

__all__ = ("MODELS", "SAMPLES")

SAMPLES: dict[str, dict[str, Any]] = {
    "anthropic": ANTHROPIC,
    "gemini": GEMINI,
    "openai_chat": CHAT,
    "openai_responses": RESPONSES,
}
MODELS = {
    "anthropic": "claude-opus-4-8",
    "gemini": "gemini-3-pro-preview",
    "openai_chat": "gpt-5.2",
    "openai_responses": "gpt-5.2",
}
