"""WHO ACTS: a small complete agent loop on top of a memory, its tools, and what it tells those who watch."""

from __future__ import annotations

from turnfold.agent.blocking import Agent
from turnfold.agent.events import Answered, Event, Reply, Sending, TextCame, ToolDone, ToolStarted
from turnfold.agent.loop import AsyncAgent, Workspace
from turnfold.agent.tools import Tool, as_tool

__all__ = (
    "Agent",
    "Answered",
    "AsyncAgent",
    "Event",
    "Reply",
    "Sending",
    "TextCame",
    "Tool",
    "ToolDone",
    "ToolStarted",
    "Workspace",
    "as_tool",
)
