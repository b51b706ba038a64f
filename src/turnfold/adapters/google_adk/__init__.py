"""Adapter for Google's Agent Development Kit: memory for all agents of an app in one line; its session stays complete.

App(name="app", root_agent=agent, plugins=[TurnfoldPlugin(memory)])
"""

from __future__ import annotations

from turnfold.errors import MissingExtra

try:
    import google.adk as _adk
except ImportError as missing:
    raise MissingExtra(
        package="google-adk", extra="google-adk", purpose="the Google ADK adapter"
    ) from missing

from turnfold.adapters.google_adk.memory_service import TurnfoldMemoryService
from turnfold.adapters.google_adk.plugin import TurnfoldPlugin, adk_contents, record_of

__all__ = (
    "TurnfoldMemoryService",
    "TurnfoldPlugin",
    "adk_contents",
    "record_of",
)

del _adk
