"""A limit in bytes that holds for what the provider really gets.

A budget's `max_bytes` is meant for the body of the request, and only the wire knows what that looks like: framing, tool
schemas, blocks that one provider spells longer than another. The window is cut by the messages' own JSON, which is
near it and needs no provider; what is built is then written for the provider and weighed, and built again smaller by
what it was over. No request leaves here that is larger than its limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol, runtime_checkable

from turnfold.budget import Budget
from turnfold.errors import BudgetTooSmall, InvalidOption
from turnfold.records import Message
from turnfold.window import Context, Wired, message_bytes
from turnfold.wire.request import Request, by_rule
from turnfold.wire.streaming import body_bytes

__all__ = ("WireFormat", "fitted", "require_size")

_GUESSES = 3
"""Times a context is built smaller by just what it was over; after them it loses a quarter at least."""


@runtime_checkable
class WireFormat(Protocol):
    """Whoever writes contexts for a provider: a module of `turnfold.wire`, or a model's client."""

    def request(
        self,
        context: Context | Sequence[Message],
        *,
        tools: Sequence[Mapping[str, object]] = (),
        max_bytes: int | None = None,
    ) -> Request:
        """The arguments of the provider's call. A body above `max_bytes` (None: the context's budget) is refused."""
        ...


def require_size(
    request: Request, context: Context | Sequence[Message], max_bytes: int | None
) -> Request:
    """The request, if its body is within the limit; 0 is no limit, None is that of the context's own budget."""
    if max_bytes is not None and max_bytes < 0:
        raise InvalidOption(f"max_bytes={max_bytes} must be at least 0; use 0 for no limit")
    own = context.budget.max_bytes if isinstance(context, Context) else 0
    limit = own if max_bytes is None else max_bytes
    if limit and (size := body_bytes(request.kwargs)) > limit:
        remedy = f"session.context(to=wire.{request.provider}) builds a context that fits; or raise max_bytes"
        raise _too_large(request, size, limit, remedy=remedy)
    return request


def fitted(
    context: Context,
    to: WireFormat,
    *,
    tools: Sequence[Mapping[str, object]] = (),
    rebuild: Callable[[Budget], Context],
) -> Context:
    """The context, or a smaller one, whose body keeps to the budget's `max_bytes`; `wired` says what it took.

    `rebuild` makes the same context under a smaller budget.
    """
    budget, moved = context.budget, context.moved
    limit = budget.max_bytes
    request = to.request(context, tools=tools, max_bytes=0)
    size = body_bytes(request.kwargs) if limit else 0
    rebuilt, held = 0, 0
    while size > limit:
        remedy = (
            "What is left cannot be left out or shortened: raise max_bytes, or send fewer tools"
        )
        too_large = _too_large(request, size, limit, remedy=remedy)
        step = _Step(budget, size - limit, rebuilt, too_large)
        context, held = _smaller(context, step, rebuild)
        request = to.request(context, tools=tools, max_bytes=0)
        size = body_bytes(request.kwargs)
        rebuilt += 1
    context.budget, context.moved = budget, moved or context.moved
    context.wired = Wired(request.provider, by_rule(request.changes), size, held, rebuilt)
    return context


class _Step(NamedTuple):
    budget: Budget
    over: int
    """Bytes by which the body is too large."""
    rebuilt: int
    too_large: BudgetTooSmall
    """What to say where no context is smaller."""


def _smaller(
    context: Context, step: _Step, rebuild: Callable[[Budget], Context]
) -> tuple[Context, int]:
    """A context with fewer bytes of messages, and the bytes it was held to."""
    now = sum(map(message_bytes, context.messages)) + 1
    least = 1
    wanted = now - step.over
    if step.rebuilt >= _GUESSES:
        wanted = min(wanted, now * 3 // 4)
    while True:
        # What the body adds may belong to what is cut, so a small step is tried where the whole one is too much.
        held = wanted if wanted >= least else max(least, now * 3 // 4)
        if held >= now:
            raise step.too_large
        try:
            return rebuild(replace(step.budget, max_bytes=held)), held
        except BudgetTooSmall as error:
            if error.unit != "bytes" or error.needed <= held:
                raise
            least = error.needed


def _too_large(request: Request, size: int, limit: int, *, remedy: str) -> BudgetTooSmall:
    parts = {name: body_bytes(value) for name, value in request.kwargs.items()}
    parts["names and commas"] = size - sum(parts.values())
    return BudgetTooSmall(needed=size, allowed=limit, parts=parts, unit="bytes", remedy=remedy)
