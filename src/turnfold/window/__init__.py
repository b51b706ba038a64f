"""WHAT IS KEPT: strategies over atomic spans, the assembled context with its receipt, the invariants as `check`."""

from __future__ import annotations

from turnfold.window.assemble import anchored_view, assemble, fits, next_anchor
from turnfold.window.blocks import PINNED, joined_blocks, pins_too_large
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
from turnfold.window.fence import (
    Fenced,
    fence,
    fence_mark,
    indented,
    indented_whole,
    one_line,
    plain_name,
    with_continuation_note,
)
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
    "PINNED",
    "Anchor",
    "Changed",
    "Choice",
    "Context",
    "Fate",
    "Fenced",
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
    "indented",
    "indented_whole",
    "joined_blocks",
    "message_bytes",
    "next_anchor",
    "oldest_first",
    "one_line",
    "pins_too_large",
    "plain_name",
    "price",
    "shrink_message",
    "shrink_results",
    "shrink_text",
    "sliding_window",
    "summarise",
    "summary_message",
    "with_continuation_note",
)
