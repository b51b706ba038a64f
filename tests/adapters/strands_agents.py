"""A Strands model that answers by script and keeps what it was sent."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from strands import Agent, tool
from strands.models import Model

from tests.adapters.tool_loops import PAGE
from turnfold import Message
from turnfold.adapters.strands import record_of

USAGE = {"inputTokens": 90, "outputTokens": 5, "totalTokens": 105, "cacheReadInputTokens": 10}
Step = str | list[tuple[str, str, dict[str, Any]]]
"""What a model says, or the calls that it makes: id, name and arguments of each."""


class ScriptedStrandsModel(Model):
    """Answers with the steps of a script, one after the other."""

    def __init__(self, script: Sequence[Step], *, usage: bool = False) -> None:
        self.script = list(script)
        self.usage = usage
        self.config: dict[str, Any] = {}
        self.messages: list[Any] = []
        self.specs: list[Any] = []
        self.prompts: list[Any] = []

    @property
    def requests(self) -> list[list[Message]]:
        """The messages of every request, as records."""
        return [[record_of(message) for message in sent] for sent in self.messages]

    def update_config(self, **model_config: Any) -> None:
        self.config.update(model_config)

    def get_config(self) -> Any:
        return self.config

    async def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError
        yield

    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, **_: Any
    ) -> AsyncIterator[Any]:
        self.messages.append(messages)
        self.specs.append(tool_specs)
        self.prompts.append(system_prompt)
        step = self.script[len(self.messages) - 1]
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(step, str):
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": step}}}
            yield {"contentBlockStop": {}}
        for name, called, arguments in [] if isinstance(step, str) else step:
            yield {"contentBlockStart": {"start": {"toolUse": {"toolUseId": name, "name": called}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(arguments)}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if isinstance(step, str) else "tool_use"}}
        if self.usage:
            yield {"metadata": {"usage": USAGE, "metrics": {"latencyMs": 1}}}


@tool
def look(at: int) -> str:
    """Look at a place."""
    return f"place {at}: {PAGE}"


def looping(steps: int) -> list[Step]:
    """Steps that look at two places each, and an answer."""
    calls = [
        [(f"c{number}a", "look", {"at": number}), (f"c{number}b", "look", {"at": -number})]
        for number in range(1, steps + 1)
    ]
    return [*calls, "done"]


def agent_of(model: Model, manager: Any = None, **more: Any) -> Agent:
    options: dict[str, Any] = {"tools": [look], "system_prompt": "Be brief.", **more}
    return Agent(model, conversation_manager=manager, callback_handler=None, **options)
