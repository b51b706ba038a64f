"""pydantic-ai with the sliding window of pydantic-ai-harness, called through the hook an agent run calls.

Its `max_tokens` is when it cuts and its `keep_tokens` is the least it keeps, so with `keep_tokens` at the budget its
windows are over it; half the budget is measured too. There is no provider here to report usage, so a tokenizer stands
for it, which adds the framing of a message. In a run the cut history replaces the whole one; both ways are measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic_ai.messages import (
    CompactionPart,
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
from pydantic_ai.models import Model, ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RunUsage
from pydantic_ai_harness.compaction import (
    SlidingWindowCompaction,
    SummarizingCompaction,
    estimate_token_count,
)
from pydantic_ai_harness.conversation_search import (
    ConversationSearchToolset,
    SnapshotHistorySource,
)
from pydantic_ai_harness.step_persistence import ContinuableSnapshot, RunRecord, SqliteStepStore

from bench.contender import Ask, Call, Contender, Counted, Find, Found, Held, Item, Summarised
from bench.judge import PER_ANSWER, PER_MESSAGE
from bench.raw_tiktoken import count_text

__all__ = ("CONTENDERS", "COUNTED", "FOUND", "HELD", "IMPORTS", "SUMMARISED")

NEEDS = ("pydantic-ai-harness==0.62.0", "pydantic-ai-slim==2.62.0")

_TRIGGER, _KEEP = 0.8, 0.3
"""Of the budget: when a summary is made, and what is kept beside it."""

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
        context, request = _request(self.model, history)
        return _finished(self.strategy.before_model_request(context, request)).messages


def _request(
    model: Model, history: list[ModelMessage]
) -> tuple[RunContext[None], ModelRequestContext]:
    """What a run hands to the hook before a request."""
    context = RunContext[None](deps=None, model=model, usage=RunUsage(), messages=history)
    request = ModelRequestContext(
        model=model,
        messages=history,
        model_settings=None,
        model_request_parameters=ModelRequestParameters(),
    )
    return context, request


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
        elif isinstance(part, CompactionPart):  # sent as the user's
            found.append(Item("user", part.content or ""))
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
    """The tokenizer with the memo a user would write around it."""
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


class _Summarising:
    """A message history whose beginning the strategy replaces by a summary, as in a run."""

    def __init__(self, budget: int, ask: Ask, tool_return: int | None) -> None:
        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            texts = [item.text for item in _as_items(messages)]
            return ModelResponse(
                parts=[TextPart(ask("\n".join([info.instructions or "", *texts])))]
            )

        self.messages: list[ModelMessage] = []
        self.model = FunctionModel(answer)
        self.loop = asyncio.new_event_loop()
        self.strategy = SummarizingCompaction[None](
            model=self.model,
            max_tokens=int(budget * _TRIGGER),
            keep_tokens=int(budget * _KEEP),
            tokenizer=_remembering(),
            tool_return_max_chars=tool_return,
        )

    def add(self, message: ModelMessage) -> None:
        self.messages.append(message)

    def window(self) -> list[ModelMessage]:
        context, request = _request(self.model, self.messages)
        work = self.strategy.before_model_request(context, request)
        return self.loop.run_until_complete(work).messages


def _summarised(name: str, tool_return: int | None, note: str) -> Summarised:
    return Summarised(
        name=f"pydantic-ai-harness SummarizingCompaction, {name}",
        package="pydantic-ai-harness",
        convert=_as_pydantic,
        open=lambda budget, ask: _Summarising(budget, ask, tool_return),
        read=_as_items,
        note=note,
    )


SUMMARISED = (
    _summarised(
        "reads everything",
        None,
        "tool_return_max_chars=None; exact with a user's memo, cuts at 80 %, keeps 30 %",
    ),
    _summarised("as it comes", 500, "tool_return_max_chars=500, its default; otherwise the same"),
)


def _finding(path: Path, items: Sequence[Item]) -> tuple[Find, Callable[[], object]]:
    """One run of the conversation with one snapshot that holds all of it."""
    store = SqliteStepStore(database=path)
    loop = asyncio.new_event_loop()
    messages = _as_pydantic(items)
    run = RunRecord(run_id="run", conversation_id="talk")
    snapshot = ContinuableSnapshot(
        run_id="run", step_index=0, messages=messages, conversation_id="talk"
    )
    loop.run_until_complete(store.register_run(run))
    loop.run_until_complete(store.save_snapshot(snapshot))
    search = ConversationSearchToolset[None](
        SnapshotHistorySource(store), tool_id="search", max_matches=5, context_lines=0, bm25_k1=1.5,
        bm25_b=0.75, scope="conversation",
    )  # fmt: skip
    context = RunContext[None](
        deps=None, model=TestModel(), usage=RunUsage(), conversation_id="talk"
    )

    def find(question: str, limit: int) -> list[str]:
        said = loop.run_until_complete(search.search_conversation_history(context, question))
        return said.split("\n\n---\n\n")[:limit]

    return find, loop.close


FOUND = (
    Found(
        name="pydantic-ai-harness ConversationSearch",
        package="pydantic-ai-harness",
        open=_finding,
        note="its search tool over a SqliteStepStore with one snapshot, max_matches=5, context_lines=0",
        largest=100_000,
    ),
)

COUNTED = (
    Counted(
        name="pydantic-ai-harness estimate_token_count",
        package="pydantic-ai-harness",
        count=lambda text: estimate_token_count([ModelRequest(parts=[UserPromptPart(text)])]),
        note="4 characters a token, where no provider has reported usage",
    ),
)
