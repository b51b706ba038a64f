"""A chat client of Microsoft Agent Framework that answers by script and keeps what it was sent."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from importlib import import_module
from typing import Any

from tests.adapters.tool_loops import PAGE
from turnfold import Message
from turnfold.adapters.agent_framework import record_of

framework: Any = import_module("agent_framework")
Content, ChatResponse = framework.Content, framework.ChatResponse

Step = str | list[tuple[str, str, dict[str, Any]]]
"""What a model says, or the calls that it makes: id, name and arguments of each."""


class ScriptedChatClient(
    framework.FunctionInvocationLayer, framework.ChatMiddlewareLayer, framework.BaseChatClient
):
    """Answers with the steps of a script, one after the other."""

    def __init__(self, script: Sequence[Step], *, usage: bool = False) -> None:
        super().__init__()
        self.function_invocation_configuration["max_iterations"] = 100
        self.script = list(script)
        self.usage = usage
        self.sent: list[Any] = []
        self.options: list[Any] = []

    @property
    def requests(self) -> list[list[Message]]:
        """The messages of every request, as records."""
        return [[record_of(message) for message in sent] for sent in self.sent]

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> Any:
        self.sent.append(list(messages))
        self.options.append(dict(options))
        step = self.script[len(self.sent) - 1]
        if isinstance(step, str):
            contents = [Content.from_text(step)]
        else:
            contents = [
                Content.from_function_call(call_id=name, name=called, arguments=json.dumps(given))
                for name, called, given in step
            ]
        used = {
            "input_token_count": 100,
            "output_token_count": 5,
            "cache_read_input_token_count": 10,
        }
        if stream:

            async def pieces() -> AsyncIterator[Any]:
                yield framework.ChatResponseUpdate(role="assistant", contents=contents)

            return self._build_response_stream(pieces())

        async def answer() -> Any:
            message = framework.Message("assistant", contents)
            return ChatResponse(messages=[message], usage_details=used if self.usage else None)

        return answer()


@framework.tool
def look(at: int) -> str:
    """Look at a place."""
    return f"place {at}: {PAGE}"


def looping(steps: int) -> list[Step]:
    """Steps that look at two places each, and an answer."""
    calls: list[Step] = [
        [(f"c{number}a", "look", {"at": number}), (f"c{number}b", "look", {"at": -number})]
        for number in range(1, steps + 1)
    ]
    return [*calls, "done"]


def agent_of(client: Any, *providers: Any, **more: Any) -> Any:
    options: dict[str, Any] = {"instructions": "Be brief.", "tools": [look], **more}
    return framework.Agent(client, context_providers=list(providers), **options)
