"""Adapter for the OpenAI Agents SDK: memory for a run in one line; the run's session and result stay complete.

await Runner.run(agent, "...", **turnfold_run(memory.session("s1")))
"""

from __future__ import annotations

from turnfold.errors import MissingExtra

try:
    import agents as _agents
except ImportError as missing:
    raise MissingExtra(
        package="openai-agents", extra="openai-agents", purpose="the OpenAI Agents SDK adapter"
    ) from missing

from turnfold.adapters.openai_agents.run import (
    TurnfoldHooks,
    TurnfoldRun,
    recall_tool,
    serve_findings,
    turnfold_run,
)
from turnfold.adapters.openai_agents.session import TurnfoldSession

__all__ = (
    "TurnfoldHooks",
    "TurnfoldRun",
    "TurnfoldSession",
    "recall_tool",
    "serve_findings",
    "turnfold_run",
)

del _agents
