"""pydantic-ai with the sliding window of pydantic-ai-harness, called through the hook an agent run calls.

Its `max_tokens` is when it cuts and its `keep_tokens` is the least it keeps, so with `keep_tokens` at the budget its
windows are over it; half the budget is measured too. There is no provider here to report usage, so a tokenizer stands
for it, which adds the framing of a message. In a run the cut history replaces the whole one; both ways are measured.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import cache
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RunUsage
from pydantic_ai_harness.compaction import SlidingWindowCompaction

from bench.contender import Call, Contender, Held, Item
from bench.judge import PER_ANSWER, PER_MESSAGE
from bench.raw_tiktoken import count_text

__all__ = ("CONTENDERS", "HELD", "IMPORTS")

NEEDS = ("pydantic-ai-harness==0.62.0", "pydantic-ai-slim==2.62.0")

_Tokenizer = Callable[[str], int]


class _Session:
    """A message history, given to the strategy before each request."""

    def __init__(
        self,
        messages: Sequence[ModelMessage],
        strategy: SlidingWindowCompaction[None],
        *,
        replaced: bool,
    ) -> None:
        self.messages = list(messages)
        self.strategy = strategy
        self.replaced = replaced
        self.model = TestModel()

    def add(self, message: ModelMessage) -> None:
        self.messages.append(message)

    def window(self) -> list[ModelMessage]:
        history = self.messages if self.replaced else list(self.messages)
        context = RunContext[None](deps=None, model=self.model, usage=RunUsage(), messages=history)
        request = ModelRequestContext(
            model=self.model,
            messages=history,
            model_settings=None,
            model_request_parameters=ModelRequestParameters(),
        )
        return _finished(self.strategy.before_model_request(context, request)).messages


def _finished(work: Coroutine[Any, Any, ModelRequestContext]) -> ModelRequestContext:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("the strategy waited for something")


def _with_framing(text: str) -> int:
    return count_text(text) + PER_MESSAGE


def _strategy(
    budget: int, tokenizer: _Tokenizer | None, keep: float
) -> SlidingWindowCompaction[None]:
    return SlidingWindowCompaction(
        max_tokens=budget - PER_ANSWER, keep_tokens=int(budget * keep), tokenizer=tokenizer
    )


def _as_pydantic(items: Sequence[Item]) -> list[ModelMessage]:
    """One message per item, but the system prompt goes with the first user prompt, as an agent sends it."""
    names = {call.id: call.name for item in items for call in item.calls}
    if [item.role for item in items[:2]] == ["system", "user"]:
        system, first, *rest = items
        parts: list[ModelRequestPart] = [SystemPromptPart(system.text), UserPromptPart(first.text)]
        return [ModelRequest(parts=parts), *(_message(item, names) for item in rest)]
    return [_message(item, names) for item in items]


def _message(item: Item, names: dict[str, str]) -> ModelMessage:
    match item.role:
        case "system":
            return ModelRequest(parts=[SystemPromptPart(item.text)])
        case "user":
            return ModelRequest(parts=[UserPromptPart(item.text)])
        case "tool":
            name = names.get(item.answers, "tool")
            return ModelRequest(parts=[ToolReturnPart(name, item.text, item.answers)])
        case _:
            texts = [TextPart(item.text)] if item.text else []
            calls = [ToolCallPart(call.name, call.arguments, call.id) for call in item.calls]
            return ModelResponse(parts=[*texts, *calls])


def _as_items(messages: Sequence[ModelMessage]) -> list[Item]:
    return [item for message in messages for item in _parts(message)]


def _parts(message: ModelMessage) -> list[Item]:
    if isinstance(message, ModelResponse):
        calls = tuple(
            Call(part.tool_call_id, part.tool_name, str(part.args))
            for part in message.parts
            if isinstance(part, ToolCallPart)
        )
        said = "".join(part.content for part in message.parts if isinstance(part, TextPart))
        return [Item("assistant", said, calls)]
    found: list[Item] = []
    for part in message.parts:
        if isinstance(part, SystemPromptPart):
            found.append(Item("system", part.content))
        elif isinstance(part, UserPromptPart):
            found.append(Item("user", str(part.content)))
        elif isinstance(part, ToolReturnPart):
            found.append(Item("tool", str(part.content), answers=part.tool_call_id))
    return found


def _contender(
    name: str,
    tokenizer: Callable[[], _Tokenizer | None],
    *,
    keep: float = 0.5,
    replaced: bool = False,
    replays: bool = False,
) -> Contender:
    return Contender(
        name=f"pydantic-ai-harness sliding, {name}",
        package="pydantic-ai-harness",
        convert=_as_pydantic,
        open=lambda messages, budget: _Session(
            messages, _strategy(budget, tokenizer(), keep), replaced=replaced
        ),
        read=_as_items,
        keeps_history=not replaced,
        replays=replays,
    )


def _remembering() -> _Tokenizer:
    return cache(_with_framing)


CONTENDERS = (
    _contender("exact", lambda: _with_framing),
    _contender("exact with a user's memo", _remembering),
    _contender("4 characters a token", lambda: None),
    _contender("in a run, exact with a user's memo", _remembering, replaced=True, replays=True),
    _contender("in a run, keep = budget", _remembering, keep=1.0, replaced=True, replays=True),
)


def _named(items: Sequence[Item]) -> tuple[Sequence[Item], dict[str, str]]:
    return items, {call.id: call.name for item in items for call in item.calls}


HELD = (
    Held(
        name="pydantic-ai message",
        package="pydantic-ai-slim",
        prepare=_named,
        build=lambda prepared: [_message(item, prepared[1]) for item in prepared[0]],
    ),
)

IMPORTS = ("import pydantic_ai",)
