"""What people look at: pure values made from contexts, calls and entries, drawn elsewhere.

The command line and the web inspector show the same figures because both draw these. Nothing here reads a store, a
clock or a screen; every value is plain data, so `msgspec.to_builtins` turns it into the documented JSON.
"""

from __future__ import annotations

from turnfold.memory.inspecting.call_view import CallPoint, CallView, call_point, call_view
from turnfold.memory.inspecting.comparing import CallDiff, FirstDifference, diff_calls
from turnfold.memory.inspecting.context_view import CacheState, ContextView, context_view
from turnfold.memory.inspecting.costs import CostRow, EntryCost, LogCosts, conversation_costs
from turnfold.memory.inspecting.items import Item, LeftOut, excerpt, left_out, sent_items

__all__ = (
    "CacheState",
    "CallDiff",
    "CallPoint",
    "CallView",
    "ContextView",
    "CostRow",
    "EntryCost",
    "FirstDifference",
    "Item",
    "LeftOut",
    "LogCosts",
    "call_point",
    "call_view",
    "context_view",
    "conversation_costs",
    "diff_calls",
    "excerpt",
    "left_out",
    "sent_items",
)
