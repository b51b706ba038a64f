"""LangChain: `trim_messages` as its documentation recommends it, with three token counters.

`start_on="human"` is what keeps its windows valid, `include_system` what keeps the system message. The memo is not
part of LangChain: it is what a user would write around an exact counter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    trim_messages,
)
from langchain_core.messages.utils import count_tokens_approximately

from bench.contender import Call, Contender, Counted, Held, Item
from bench.judge import PER_ANSWER, PER_MESSAGE
from bench.raw_tiktoken import count_text

__all__ = ("CONTENDERS", "COUNTED", "HELD", "IMPORTS", "Counter", "remembering")

NEEDS = ("langchain-core==1.7.2",)

Counter = Callable[[Sequence[BaseMessage]], int]
_TYPES: dict[str, type[BaseMessage]] = {
    "system": SystemMessage,
    "user": HumanMessage,
    "assistant": AIMessage,
}
_ROLES = {"system": "system", "human": "user", "ai": "assistant", "tool": "tool"}


class _Session:
    def __init__(self, messages: Sequence[BaseMessage], budget: int, counter: Counter) -> None:
        self.messages = list(messages)
        self.budget = budget - PER_ANSWER
        self.counter = counter

    def add(self, message: BaseMessage) -> None:
        self.messages.append(message)

    def window(self) -> list[BaseMessage]:
        return trim_messages(
            self.messages,
            max_tokens=self.budget,
            token_counter=self.counter,
            strategy="last",
            start_on="human",
            include_system=True,
        )


def _count(message: BaseMessage) -> int:
    total = PER_MESSAGE + count_text(str(message.content))
    for call in getattr(message, "tool_calls", ()):
        total += count_text(call["name"]) + count_text(json.dumps(call["args"], ensure_ascii=False))
    return total


def _exact(messages: Sequence[BaseMessage]) -> int:
    return sum(map(_count, messages))


def remembering() -> Counter:
    """An exact counter with the memo a user would write around it."""
    known: dict[str | None, int] = {}

    def counter(messages: Sequence[BaseMessage]) -> int:
        total = 0
        for message in messages:
            tokens = known.get(message.id) if message.id else _count(message)
            if tokens is None:
                tokens = known[message.id] = _count(message)
            total += tokens
        return total

    return counter


def _as_langchain(items: Sequence[Item]) -> list[BaseMessage]:
    return [
        _message(item, arguments, f"m{index}")
        for index, (item, arguments) in enumerate(_parsed(items))
    ]


def _parsed(items: Sequence[Item]) -> list[tuple[Item, list[dict[str, object]]]]:
    """Items with the arguments of their calls as dictionaries, which is how LangChain holds them."""
    return [(item, [_object(call.arguments) for call in item.calls]) for item in items]


def _object(arguments: str) -> dict[str, object]:
    try:
        value = json.loads(arguments)
    except ValueError:
        value = arguments
    return value if isinstance(value, dict) else {"value": value}


def _message(item: Item, arguments: list[dict[str, object]], name: str | None) -> BaseMessage:
    if item.role == "tool":
        return ToolMessage(content=item.text, tool_call_id=item.answers, id=name)
    if item.calls:
        calls = [
            {"id": call.id, "name": call.name, "args": parsed}
            for call, parsed in zip(item.calls, arguments, strict=True)
        ]
        return AIMessage(content=item.text, tool_calls=calls, id=name)
    return _TYPES[item.role](content=item.text, id=name)


def _as_items(messages: Sequence[BaseMessage]) -> list[Item]:
    return [
        Item(
            _ROLES[message.type],
            str(message.content),
            tuple(
                Call(call["id"], call["name"], json.dumps(call["args"], ensure_ascii=False))
                for call in getattr(message, "tool_calls", ())
            ),
            getattr(message, "tool_call_id", ""),
        )
        for message in messages
    ]


def _contender(name: str, counter: Callable[[], Counter], *, replays: bool) -> Contender:
    return Contender(
        name=f"LangChain trim_messages, {name}",
        package="langchain-core",
        convert=_as_langchain,
        open=lambda messages, budget: _Session(messages, budget, counter()),
        read=_as_items,
        replays=replays,
    )


CONTENDERS = (
    _contender("exact", lambda: _exact, replays=False),
    _contender("exact with a user's memo", remembering, replays=True),
    _contender("approximate", lambda: count_tokens_approximately, replays=True),
)

HELD = (
    Held(
        name="LangChain message",
        package="langchain-core",
        prepare=_parsed,
        build=lambda prepared: [_message(item, arguments, None) for item, arguments in prepared],
    ),
)

IMPORTS = ("import langchain_core.messages",)


def _approximate(text: str) -> int:
    """What a text adds to a message."""
    return count_tokens_approximately([HumanMessage(text)]) - count_tokens_approximately(
        [HumanMessage("")]
    )


COUNTED = (
    Counted(
        name="LangChain count_tokens_approximately",
        package="langchain-core",
        count=_approximate,
        note="what a text adds to a message; 4 characters a token",
    ),
)
