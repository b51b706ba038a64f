"""Scripts and tools for agents under test."""

from __future__ import annotations

from collections.abc import Sequence

from turnfold import Message, assistant, wire

__all__ = ("add", "calling", "loops", "pays_once", "taken_everywhere")

_FORMATS = (wire.openai_chat, wire.openai_responses, wire.anthropic, wire.gemini)


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def calling(*calls: tuple[str, str, str]) -> Message:
    """An answer that calls tools: (id, name, arguments) each."""
    return assistant(
        tool_calls=[
            {"id": name, "type": "function", "function": {"name": tool, "arguments": arguments}}
            for name, tool, arguments in calls
        ]
    )


def loops(count: int) -> list[object]:
    """A script of `count` calls and a last word."""
    steps: list[object] = [
        calling((f"c{number}", "add", f'{{"a": {number}}}')) for number in range(count)
    ]
    return [*steps, "done: 完成"]


def pays_once(messages: Sequence[Message]) -> object:
    """An item of a script: a call of the tool `pay` for each question, then an answer that repeats the question."""
    asked = [message.text for message in messages if message.role == "user"][-1]
    if messages[-1].role == "tool":
        return f"answer to {asked}"
    return calling((f"call {asked}", "pay", '{"sum": 88}'))


def taken_everywhere(messages: Sequence[Message]) -> bool:
    """Whether every provider would take the messages as they are, with nothing repaired on the way."""
    return all(
        wire.lint(one.request(messages, repair=False).kwargs, one.PROVIDER) == ()
        for one in _FORMATS
    )
