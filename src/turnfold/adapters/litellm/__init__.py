"""Adapter for LiteLLM's proxy: a callback that fits the requests of its clients to a token budget.

hook = TurnfoldHook(AsyncMemory("sqlite:///chat.db", budget=...))  # litellm_settings: callbacks: my_hooks.hook
"""

from __future__ import annotations

from turnfold.errors import MissingExtra

try:
    import litellm as _litellm
except ImportError as missing:
    raise MissingExtra(
        package="litellm", extra="litellm", purpose="the LiteLLM adapter"
    ) from missing

from turnfold.adapters.litellm.hook import TurnfoldHook

__all__ = ("TurnfoldHook",)

del _litellm
