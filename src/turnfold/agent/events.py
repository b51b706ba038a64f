"""Events that an agent emits while it runs.

One callback, `on_event`, receives all of them in order, so that a terminal, a web page and a test read the same stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from turnfold.models import Answer
from turnfold.records import ToolCall
from turnfold.window import Context

__all__ = (
    "AgentReply",
    "Answered",
    "Event",
    "Sending",
    "TextCame",
    "ToolDone",
    "ToolStarted",
)


@dataclass(frozen=True, slots=True)
class Sending:
    """Event: a context is about to be sent to the model."""

    step: int
    """Number of the model call in this run, from 1."""
    context: Context


@dataclass(frozen=True, slots=True)
class TextCame:
    """Event: a piece of the answer's text arrived."""

    text: str


@dataclass(frozen=True, slots=True)
class Answered:
    """Event: the model answered, and its answer is in the log."""

    step: int
    answer: Answer


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """Event: a tool is about to run."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolDone:
    """Event: a tool ended, and its result is in the log."""

    call: ToolCall
    result: str
    failed: bool
    served: bool = False
    """True if the result comes from memory and the tool was not called."""


Event: TypeAlias = Sending | TextCame | Answered | ToolStarted | ToolDone


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReply:
    """The final answer of an agent."""

    text: str
    answer: Answer
    steps: int
    """How often the model was called; 0 if the answer is one that an earlier run with the same `client_id` stored."""
    context: Context
    """The last context that was sent; if the model was not called, what a call would send now."""
