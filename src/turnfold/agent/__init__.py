"""A small complete agent loop on top of a memory, with its tools and events."""

from __future__ import annotations

from turnfold.agent._sync import Agent
from turnfold.agent.function_tools import Tool, as_tool
from turnfold.agent.loop import (
    AgentReply,
    Answered,
    AsyncAgent,
    Event,
    Sending,
    TextCame,
    ToolDone,
    ToolStarted,
    Workspace,
)
from turnfold.agent.memory_tool import memory_tool

__all__ = (
    "Agent",
    "AgentReply",
    "Answered",
    "AsyncAgent",
    "Event",
    "Sending",
    "TextCame",
    "Tool",
    "ToolDone",
    "ToolStarted",
    "Workspace",
    "as_tool",
    "memory_tool",
)
