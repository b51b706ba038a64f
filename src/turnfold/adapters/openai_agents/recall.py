"""The tool `recall_context` for agents of the SDK.

Tools belong to an agent and agents are shared by runs, so the tool holds no session: it answers from the memory of the
run that calls it. Adding it from a run's hooks would change the agent under every other run, which the SDK refuses.
"""

from __future__ import annotations

import json
from typing import Any, cast

from agents import FunctionTool
from agents.tool_context import ToolContext

from turnfold.adapters.openai_agents.view import RunView
from turnfold.memory.recall_tool import RECALL_CONTEXT, RecallTool, recall_parameters

__all__ = ("recall_tool",)

_NO_MEMORY = "error: this run has no turnfold memory: Runner.run(..., **turnfold_run(session))"


def recall_tool(*, max_tokens: int = 2000) -> FunctionTool:
    """The tool, for `Agent(tools=[recall_tool()])`: what was folded or left out, word for word, in `max_tokens`."""

    async def recall_context(context: ToolContext[Any], text: str) -> str:
        config = context.run_config
        view = config.call_model_input_filter if config else None
        if not isinstance(view, RunView):
            return _NO_MEMORY
        try:
            arguments: object = json.loads(text or "{}")
        except ValueError as error:
            return f"error: the arguments are no JSON: {error}"
        if not isinstance(arguments, dict):
            return "error: the arguments are no object"
        tool = RecallTool(view.session.awaiting, max_tokens=max_tokens)
        return await view.session.off_loop(tool.call(cast("dict[str, object]", arguments)))

    return FunctionTool(
        name=RECALL_CONTEXT,
        description=RecallTool.description,
        params_json_schema=recall_parameters(max_tokens=max_tokens),
        on_invoke_tool=recall_context,
        strict_json_schema=False,
    )
