"""Microsoft Agent Framework: compaction strategies over annotated messages, called as a chat client calls them.

Token counts are written onto a message once, so that a memo would not help; they are taken of the message as JSON,
which counts more than a provider does. What is cut stays in the list and is marked. The first call on a long history
is what is slow: every group that is cut has all messages summed up again.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from agent_framework import (
    CharacterEstimatorTokenizer,
    ChatResponse,
    CompactionStrategy,
    Content,
    Message,
    SlidingWindowStrategy,
    SummarizationStrategy,
    TokenBudgetComposedStrategy,
    ToolResultCompactionStrategy,
    TruncationStrategy,
    apply_compaction,
)

from bench.contender import Ask, Call, Contender, Counted, Held, Item, Summarised
from bench.judge import PER_ANSWER
from bench.raw_tiktoken import count_text

__all__ = ("CONTENDERS", "COUNTED", "HELD", "IMPORTS", "SUMMARISED")

NEEDS = ("agent-framework-core==1.23.0",)

_TOKENS_A_MESSAGE = 400
"""It keeps a number of messages, not of tokens. Of more of them some are too long together, and then its own rule drops
what is oldest: the summary."""


class _Exact:
    """The tokenizer a user gives it."""

    def count_tokens(self, text: str) -> int:
        return count_text(text)


class _Session:
    """The messages of a run; marks of an earlier conversation with the same messages are taken off first."""

    def __init__(self, messages: Sequence[Message], strategy: CompactionStrategy) -> None:
        for message in messages:
            message.additional_properties.clear()
        self._messages = list(messages)
        self._strategy = strategy

    def add(self, message: Message) -> None:
        self._messages.append(message)

    def window(self) -> list[Message]:
        return _finished(
            apply_compaction(self._messages, strategy=self._strategy, tokenizer=_Exact())
        )


def _finished(work: Coroutine[Any, Any, list[Message]]) -> list[Message]:
    """The result of a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise RuntimeError("the strategy waited for something")


def _message(item: Item) -> Message:
    if item.answers:
        return Message("tool", [Content.from_function_result(item.answers, result=item.text)])
    contents = [Content.from_text(item.text)] if item.text else []
    contents += [
        Content.from_function_call(call.id, call.name, arguments=call.arguments)
        for call in item.calls
    ]
    return Message(item.role, contents)


def _messages(items: Sequence[Item]) -> list[Message]:
    return [_message(item) for item in items]


def _as_items(messages: Sequence[Message]) -> list[Item]:
    return [_item(message) for message in messages]


def _item(message: Message) -> Item:
    answers = [each for each in message.contents if each.type == "function_result"]
    if answers:
        return Item("tool", str(answers[0].result), answers=answers[0].call_id or "")
    calls = tuple(
        Call(each.call_id or "", each.name or "", str(each.arguments))
        for each in message.contents
        if each.type == "function_call"
    )
    return Item(str(message.role), message.text, calls)


def _truncation(share: float) -> Callable[[int], CompactionStrategy]:
    def made(budget: int) -> CompactionStrategy:
        room = budget - PER_ANSWER
        return TruncationStrategy(
            max_n=room, compact_to=int(room * share), tokenizer=_Exact(), preserve_system=True
        )

    return made


def _composed(budget: int) -> CompactionStrategy:
    """Tool results collapsed first, then a window of groups, then its own rule; no model."""
    return TokenBudgetComposedStrategy(
        token_budget=budget - PER_ANSWER,
        tokenizer=_Exact(),
        strategies=[
            ToolResultCompactionStrategy(keep_last_tool_call_groups=4),
            SlidingWindowStrategy(keep_last_groups=60),
        ],
    )


def _contender(name: str, strategy: Callable[[int], CompactionStrategy]) -> Contender:
    return Contender(
        name=f"Agent Framework {name}",
        package="agent-framework-core",
        convert=_messages,
        open=lambda messages, budget: _Session(messages, strategy(budget)),
        read=_as_items,
        growth=2.0,
    )


CONTENDERS = (
    _contender("Truncation, exact, to the limit", _truncation(1.0)),
    _contender("Truncation, exact, to half the limit", _truncation(0.5)),
    _contender("TokenBudgetComposed, exact", _composed),
)

COUNTED = (
    Counted(
        name="Agent Framework CharacterEstimatorTokenizer",
        package="agent-framework-core",
        count=CharacterEstimatorTokenizer().count_tokens,
        note="its default: 4 characters a token",
    ),
)

HELD = (Held(name="Agent Framework message", package="agent-framework-core", build=_messages),)

IMPORTS = ("import agent_framework",)


class _Client:
    """A chat client that hands its prompt to the model of the benchmark."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def get_response(self, messages: Sequence[Message], *, stream: bool) -> ChatResponse:
        assert not stream
        text = self._ask("\n".join(message.text for message in messages))
        return ChatResponse(messages=[Message("assistant", [text])])


def _summarising(budget: int, ask: Ask) -> _Session:
    client: Any = _Client(ask)
    summaries = SummarizationStrategy(
        client=client,
        target_count=budget // _TOKENS_A_MESSAGE,
        max_summary_input_tokens=2 * budget,
        tokenizer=_Exact(),
    )
    strategy = TokenBudgetComposedStrategy(
        token_budget=budget - PER_ANSWER, tokenizer=_Exact(), strategies=[summaries]
    )
    return _Session([], strategy)


SUMMARISED = (
    Summarised(
        name="Agent Framework TokenBudgetComposed + Summarization",
        package="agent-framework-core",
        convert=_messages,
        open=_summarising,
        read=_as_items,
        note="exact; target_count: a message for 400 tokens of budget; max_summary_input_tokens: twice the budget",
    ),
)
