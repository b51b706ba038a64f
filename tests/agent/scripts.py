"""Scripts and tools for agents under test."""

from __future__ import annotations

from turnfold import Message, assistant

__all__ = ("add", "calling", "loops")


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
