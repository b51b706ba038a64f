"""WHERE A GRAPH STANDS: LangGraph's checkpoints in turnfold's stores."""

from __future__ import annotations

from turnfold.adapters.langchain.checkpoints.saver import TurnfoldSaver

__all__ = ("TurnfoldSaver",)
