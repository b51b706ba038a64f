"""The budget of the next call at a glance: how full, of what, since when, and what is largest in it."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from turnfold.memory.inspecting.call_view import CallPoint
from turnfold.memory.inspecting.items import Item, LeftOut, left_out, sent_items
from turnfold.records import Checkpoint
from turnfold.window import Context, Outcome

__all__ = ("CacheState", "ContextView", "context_view")


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheState:
    """How long the beginning of the prompt has stood still."""

    calls: int
    """Calls since the last one that moved the window; all of them where none did."""
    tokens: int
    """Tokens at the beginning that the newest call shared with the one before."""
    broken_by: str
    """Name of the call that moved the window last; empty where none did."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextView:
    """The context the next call would get."""

    conversation: str
    counter: str
    window: int
    reserve: float
    allowed: int
    tokens: int
    free: int
    certainty: str
    sections: dict[str, int]
    tools: int
    reply: int
    messages: int
    roles: dict[str, int]
    """Tokens of window and newest turn by role."""
    delta: int | None
    """Tokens more than the newest call; None before the first."""
    fold_at: int
    """Tokens from which folding is due."""
    folded: int
    dropped: int
    shrunk: int
    checkpoint: str
    checkpoint_upto: int
    checkpoints: int
    cache: CacheState
    calls: tuple[CallPoint, ...]
    """The newest calls, oldest first."""
    biggest: tuple[Item, ...]
    left_out: tuple[LeftOut, ...]


def context_view(
    context: Context,
    *,
    conversation: str,
    calls: Sequence[CallPoint] = (),
    checkpoints: Sequence[Checkpoint] = (),
    threshold: float = 0.75,
    biggest: int = 5,
) -> ContextView:
    """The view of a context; `calls` are the calls made so far, oldest first."""
    receipt, budget = context.receipt, context.budget
    items = sent_items(context)
    live = checkpoints[-1] if checkpoints else None
    return ContextView(
        conversation=conversation,
        counter=context.counter.name,
        window=budget.context_window,
        reserve=budget.reserve_ratio,
        allowed=receipt.allowed,
        tokens=receipt.tokens,
        free=receipt.allowed - receipt.tokens,
        certainty=str(receipt.certainty),
        sections={str(name): tokens for name, tokens in receipt.sections.items()},
        tools=receipt.tools,
        reply=receipt.reply,
        messages=receipt.messages,
        roles=_roles(items),
        delta=receipt.tokens - calls[-1].tokens if calls else None,
        fold_at=int(threshold * receipt.allowed),
        folded=receipt.count(Outcome.FOLDED),
        dropped=receipt.count(Outcome.DROPPED),
        shrunk=receipt.count(Outcome.SHRUNK),
        checkpoint=live.id if live else "",
        checkpoint_upto=live.upto if live else 0,
        checkpoints=len(checkpoints),
        cache=_cache(calls),
        calls=tuple(calls),
        biggest=tuple(heapq.nlargest(biggest, items, key=lambda item: (item.tokens, -item.index))),
        left_out=left_out((f.start, f.stop, str(f.outcome), f.reason) for f in context.fates),
    )


def _roles(items: Sequence[Item]) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in items:
        if item.section in ("window", "turn"):
            found[item.role] = found.get(item.role, 0) + item.tokens
    return found


def _cache(calls: Sequence[CallPoint]) -> CacheState:
    moved = [at for at, call in enumerate(calls) if call.moved and at]
    last = moved[-1] if moved else 0
    broken = calls[last] if moved else None
    reason = ""
    if broken is not None:
        landed = broken.checkpoint != calls[last - 1].checkpoint
        reason = f"checkpoint {broken.checkpoint}" if landed else "the window was cut"
    return CacheState(
        calls=len(calls) - last,
        tokens=calls[-1].shared if calls else 0,
        broken_by=broken.call if broken else "",
        reason=reason,
    )
