"""What of a workspace a summary is made from, and the summary that needs no model.

A context that fits is read whole. One that does not is read as what changed since the turn before, which is what a
summary of this turn should say; where even that is too much, its two ends are, and the summary is marked as such: a
summary of the first thousand characters that passes for one of the whole is worse than none.
"""

from __future__ import annotations

from collections.abc import Callable

from turnfold.memory.workspace.values import Reading
from turnfold.recall.snapshots import compare_contents
from turnfold.summary import Passage, extract_summary
from turnfold.tokens import clip, clip_end
from turnfold.window.shrink import shrink_text

__all__ = ("picked_summary", "what_to_read")

_EMPTY = "(empty workspace)"
_CHARACTERS_A_TOKEN = 16
"""More than a token ever has in prose or code: a text longer than this a token need not be counted to be too long."""


def what_to_read(
    text: str, before: str | None, *, tokens: int, count: Callable[[str], int]
) -> tuple[str, Reading]:
    """What a summariser that reads `tokens` is given of a context; `before` is that of the turn before."""
    if _fits(text, tokens, count):
        return text, "whole"
    changed = compare_contents("", before, text) if before else None
    if changed is not None and _fits(changed.patch, tokens, count):
        return changed.patch, "changes"
    longest = tokens * _CHARACTERS_A_TOKEN
    if len(text) > 2 * longest:
        half = tokens // 2 - 8
        ends = clip(text[:longest], half, count), clip_end(text[-longest:], half, count)
        text = f"\n[… {len(text):,} characters in full …]\n".join(ends)
    return shrink_text(text, tokens, count), "part"


def picked_summary(text: str, *, tokens: int, count: Callable[[str], int]) -> str:
    """The sentences of a text that say most, in at most `tokens`; never empty."""
    found = extract_summary([Passage("", text, 0)], limit=tokens, count=count)
    return " ".join(found.split()) or _EMPTY


def _fits(text: str, tokens: int, count: Callable[[str], int]) -> bool:
    return len(text) <= tokens * _CHARACTERS_A_TOKEN and count(text) <= tokens
