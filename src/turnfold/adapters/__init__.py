"""Adapters for agent frameworks: one folder per framework, each with objects of that framework that use a session.

A framework's SDK is imported only with its adapter: `turnfold.adapters.langchain` imports LangChain.
"""

from __future__ import annotations

from turnfold._late_names import late_names

__all__ = ()

__getattr__, __dir__ = late_names(__name__, {})
