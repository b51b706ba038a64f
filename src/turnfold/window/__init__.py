"""WHAT IS KEPT: strategies over atomic spans, the assembled context with its receipt, the invariants as `check`."""

from __future__ import annotations

from turnfold.window.assemble import anchored_view, assemble, fits, next_anchor
from turnfold.window.check import Rule, Violation, check
from turnfold.window.context import (
    Anchor,
    Changed,
    Context,
    Fate,
    Outcome,
    Receipt,
    Section,
    Wired,
)
from turnfold.window.fence import fence, fence_mark
from turnfold.window.fixed import price, summary_message
from turnfold.window.shrink import shrink_message, shrink_text
from turnfold.window.strategies import (
    Choice,
    Strategy,
    Summarizer,
    compose,
    cut_to_low,
    oldest_first,
    shrink_results,
    sliding_window,
    summarise,
)
from turnfold.window.transcript import NO_RESULT, Piece, Transcript
from turnfold.window.view import Room, SpanView, message_bytes

__all__ = (
    "NO_RESULT",
    "Anchor",
    "Changed",
    "Choice",
    "Context",
    "Fate",
    "Outcome",
    "Piece",
    "Receipt",
    "Room",
    "Rule",
    "Section",
    "SpanView",
    "Strategy",
    "Summarizer",
    "Transcript",
    "Violation",
    "Wired",
    "anchored_view",
    "assemble",
    "check",
    "compose",
    "cut_to_low",
    "fence",
    "fence_mark",
    "fits",
    "message_bytes",
    "next_anchor",
    "oldest_first",
    "price",
    "shrink_message",
    "shrink_results",
    "shrink_text",
    "sliding_window",
    "summarise",
    "summary_message",
)
