"""Adapter for LangChain and LangGraph: memory for agents in one line; checkpoints and items in turnfold's stores.

agent = create_agent(model, tools, middleware=[turnfold_middleware(memory)], checkpointer=TurnfoldSaver(memory))
"""

from __future__ import annotations

from turnfold.errors import MissingExtra

try:
    import langchain.agents as _langchain
except ImportError as missing:
    raise MissingExtra(
        package="langchain", extra="langchain", purpose="the LangChain adapter"
    ) from missing

from turnfold.adapters.langchain.checkpoints.saver import TurnfoldSaver
from turnfold.adapters.langchain.item_store import TurnfoldStore
from turnfold.adapters.langchain.messages import langchain_messages, record_of
from turnfold.adapters.langchain.middleware import TurnfoldMiddleware, turnfold_middleware

__all__ = (
    "TurnfoldMiddleware",
    "TurnfoldSaver",
    "TurnfoldStore",
    "langchain_messages",
    "record_of",
    "turnfold_middleware",
)

del _langchain
