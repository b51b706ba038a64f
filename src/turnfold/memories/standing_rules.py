"""The rule ledger of a session (`Session.rules`) in the prompts of documented memories, beside their summaries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from turnfold.memory import AsyncSession
from turnfold.rules import render_rules, shown_rules
from turnfold.text import fence

__all__ = ("rules_text",)


_SHARE: Final = 20
"""The rules take at most 1/20 of the window,"""
_LEAST_TOKENS: Final = 200
"""or this many tokens of a small window, if that is at most 1/10 of it."""
_SMALL: Final = 10


async def rules_text(
    session: AsyncSession, *, upto: int, window: int, count: Callable[[str], int]
) -> str:
    """Return what the user laid down up to an entry and still applies, fenced, for a window of so many tokens."""
    rules = [rule for rule in await session.rules() if rule.seq <= upto]
    limit = max(window // _SHARE, min(_LEAST_TOKENS, window // _SMALL))
    if not rules or limit < 1:
        return ""
    shown, left_out = shown_rules(rules, limit_tokens=limit, count=count)
    heading, _, lines = render_rules(shown, left_out=len(left_out)).partition("\n")
    return fence(lines, label="rules", note=heading) if lines else ""
