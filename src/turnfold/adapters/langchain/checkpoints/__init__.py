"""LangGraph's checkpoints in turnfold's stores: the saver, its documents and its serializer."""

from __future__ import annotations

from turnfold.adapters.langchain.checkpoints.saver import TurnfoldSaver

__all__ = ("TurnfoldSaver",)
