"""Adapters for agent frameworks, one folder each: a framework's own memory, session or plugin class on top of turnfold.

A framework's SDK is imported only with its adapter: `turnfold.adapters.langchain` imports LangChain.
"""

from __future__ import annotations

from turnfold._lazy_loading import late_names

__all__ = ()

__getattr__, __dir__ = late_names(__name__, {})
