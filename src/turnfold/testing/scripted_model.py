"""Fake chat model for tests: returns responses from a script and records its requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from turnfold.errors import ModelFailed
from turnfold.models import Answer, AnswerStream, Prompt, ToolSchemas
from turnfold.records import Message, Usage, as_message, assistant
from turnfold.window import Context

__all__ = (
    "ScriptedModel",
    "ScriptedRequest",
)


@dataclass(frozen=True, slots=True)
class ScriptedRequest:
    """A request that a `ScriptedModel` received."""

    messages: tuple[Message, ...]
    tools: ToolSchemas


class ScriptedModel:
    """Returns the items of a script as its responses, one per call.

    An item is a text, a message in any accepted form (it may have tool calls), an exception to raise, or a function
    from the request's messages to one of these. After the last item a call raises `ModelFailed`, unless `repeat` is
    set: then the last item is repeated.
    """

    def __init__(
        self, script: Iterable[object], *, name: str = "scripted", repeat: bool = False
    ) -> None:
        self._script = list(script)
        self._name = name
        self._repeat = repeat
        self.asked: list[ScriptedRequest] = []
        """All requests to the model so far, oldest first."""

    @property
    def name(self) -> str:
        """Name that the scripted model reports."""
        return self._name

    async def complete(self, prompt: Prompt, *, tools: ToolSchemas = ()) -> Answer:
        """Return the next item of the script as the model's response, or raise it if it is an exception."""
        messages = tuple(prompt.messages if isinstance(prompt, Context) else prompt)
        at = len(self.asked)
        self.asked.append(ScriptedRequest(messages, tools))
        if at >= len(self._script) and not (self._repeat and self._script):
            raise ModelFailed(
                f"the script has {len(self._script)} items, and all were used: add items, or set repeat=True"
            )
        item = self._script[min(at, len(self._script) - 1)]
        message = _message(item, messages)
        tokens = sum(len(one.text) for one in messages) // 4 + 1
        return Answer(message=message, usage=Usage(input=tokens, output=len(message.text) // 4))

    def stream(
        self,
        prompt: Prompt,
        *,
        tools: ToolSchemas = (),
        on_text: Callable[[str], None] | None = None,
    ) -> AnswerStream:
        """Return the next item as a stream of text pieces; iterate over it, or await it with `on_text`."""

        async def start(take: Callable[[str], None]) -> Answer:
            answer = await self.complete(prompt, tools=tools)
            text = answer.message.text
            for begin in range(0, len(text), 8):
                take(text[begin : begin + 8])
            return answer

        return AnswerStream(start, on_text)

    async def count_tokens(self, prompt: Prompt, *, tools: ToolSchemas = ()) -> int | None:  # noqa: ARG002 (it cannot say)
        """Return None: a scripted model has no tokenizer."""
        return None


def _message(item: object, messages: tuple[Message, ...]) -> Message:
    if isinstance(item, BaseException):
        raise item
    if isinstance(item, str):
        return assistant(item)
    if callable(item) and not isinstance(item, Message):
        return _message(item(messages), messages)
    return as_message(item)
