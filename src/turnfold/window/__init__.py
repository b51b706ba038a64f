"""Builds the context of a model call within a budget: chooses which messages to send and which to shorten."""

from __future__ import annotations

from turnfold.window.assembly import SQUEEZES, anchored_view, assemble, fits, next_anchor
from turnfold.window.context import (
    Anchor,
    Changed,
    Context,
    NativeCompaction,
    Omission,
    Outcome,
    Receipt,
    Section,
    Wired,
    shared_messages,
)
from turnfold.window.counted_log import NO_RESULT, Piece, Transcript
from turnfold.window.invariants import Rule, Violation, check
from turnfold.window.prompt_sections import (
    PINNED,
    pins_too_large,
    price,
    summary_fence_cost,
    summary_message,
)
from turnfold.window.shortened_messages import (
    common_cap,
    may_be_shrunk_from,
    shrink_lines,
    shrink_message,
    shrink_text,
)
from turnfold.window.strategies import (
    Choice,
    Room,
    SpanView,
    Strategy,
    Summarizer,
    compose,
    cut_to_low,
    message_bytes,
    oldest_first,
    shrink_results,
    sliding_window,
    summarise,
)

__all__ = (
    "NO_RESULT",
    "PINNED",
    "SQUEEZES",
    "Anchor",
    "Changed",
    "Choice",
    "Context",
    "NativeCompaction",
    "Omission",
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
    "common_cap",
    "compose",
    "cut_to_low",
    "fits",
    "may_be_shrunk_from",
    "message_bytes",
    "next_anchor",
    "oldest_first",
    "pins_too_large",
    "price",
    "shared_messages",
    "shrink_lines",
    "shrink_message",
    "shrink_results",
    "shrink_text",
    "sliding_window",
    "summarise",
    "summary_fence_cost",
    "summary_message",
)
