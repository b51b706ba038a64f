"""Adapters for agent frameworks: one folder per framework, each with the framework's own objects over a session.

Nothing is imported here, so a framework's SDK is loaded only with its adapter.
"""

from __future__ import annotations

__all__ = ()
