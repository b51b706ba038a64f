"""Render the rules that a user laid down (`Session.rules`) for the prompts of `MemoryModule` and `ShortMemory`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from turnfold._caches import SizedCache
from turnfold.memory import AsyncSession
from turnfold.rules import render_rules, shown_rules
from turnfold.stores import State
from turnfold.text import fence

__all__ = ("RulesTexts", "rules_text")


_SHARE: Final = 20
"""Divisor: the user's rules take at most 1/20 of the tokens of the model's context window, unless it is small (see
`_LEAST_TOKENS`)."""
_LEAST_TOKENS: Final = 200
"""In a small window, the user's rules may take this many tokens, but at most 1/10 of the window (`_SMALL`); rules
beyond that are left out."""
_SMALL: Final = 10
_MAX_TEXTS: Final = 256
"""Most conversations whose rules are cached as text; the one used least recently is dropped first."""


class RulesTexts:
    """Cache of the user's rules as text: one text per conversation, valid for one version and one window size."""

    def __init__(self) -> None:
        self._texts: SizedCache[str, tuple[State, int, str]] = SizedCache(limit=_MAX_TEXTS)

    def get(self, conversation: str, state: State, window: int) -> str | None:
        """Return the cached rules text of a conversation.

        Returns None if it was rendered for another version or window size.
        """
        *made_for, text = self._texts.get(conversation) or (None, 0, "")
        return text if made_for == [state, window] else None

    def put(self, conversation: str, state: State, window: int, *, text: str) -> None:
        """Cache the rules text of a conversation, rendered for this version and window size."""
        self._texts.put(conversation, (state, window, text))


async def rules_text(
    session: AsyncSession, *, upto: int, window: int, count: Callable[[str], int]
) -> str:
    """Return, as fenced text (marked as data), the user's rules that still apply, from entries up to `upto`.

    The text has at most a share of `window` tokens, which `count` counts. Returns "" if there are no rules.
    """
    rules = [rule for rule in await session.rules() if rule.seq <= upto]
    limit = max(window // _SHARE, min(_LEAST_TOKENS, window // _SMALL))
    if not rules or limit < 1:
        return ""
    shown, _ = shown_rules(rules, limit_tokens=limit, count=count)
    heading, _, lines = render_rules(shown).partition("\n")
    return fence(lines, label="rules", note=heading) if lines else ""
