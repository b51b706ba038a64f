"""Adapters for agent frameworks: one folder per framework, each with the framework's own objects over a session.

A framework's SDK is loaded only with its adapter: `turnfold.adapters.langchain` imports it on first use.
"""

from __future__ import annotations

from turnfold._late_names import late_names

__all__ = ()

__getattr__, __dir__ = late_names(__name__, {})
