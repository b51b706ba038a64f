"""A conversation to test sessions with: short turns in two languages, a tool call and numbers of its own in each."""

from __future__ import annotations

from turnfold import Budget
from turnfold.memory import Session

__all__ = ("SMALL", "talk")

SMALL = Budget(max_tokens=1_200)


def talk(session: Session, turns: int, *, first: int = 1) -> None:
    """Turns with a tool call each, in two languages, every one with numbers of its own."""
    for number in range(first, first + turns):
        session.user(f"问题 {number}：订单 A-{1000 + number} 的 {number * 7} 吨货何时到？")
        call = {"id": f"c{number}", "function": {"name": "track", "arguments": "{}"}}
        session.assistant(tool_calls=[call])
        session.tool(f"order A-{1000 + number}: on its way", tool_call_id=f"c{number}")
        session.assistant(f"Order A-{1000 + number} arrives on 2026-03-{number % 28 + 1:02d}.")
