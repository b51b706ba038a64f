"""A request to a provider: its arguments, the changes made for the provider, its JSON body and its size limit.

A conversation may have been held with another provider or model. Parts that cannot be sent unchanged are converted or
left out by a rule, and every such change is listed, so that a receipt (context report) can show it.

The body of a long context is serialized on every call. Built as one text and then encoded, it would be in memory three
times; written in pieces (`chunks`), it needs the memory of one more piece. Joined, the pieces are exactly the compact
JSON of `json.dumps`, so signatures, sizes and caches see the same bytes.

A budget's `max_bytes` limits the body of the request. The body's size depends on the wire format: framing, tool
schemas, blocks that are longer for one provider than for another. So the window is first cut by the size of the
messages as JSON, which is close and needs no provider. `fitted` then writes the context for the provider and measures
it. If it is too large, the context is rebuilt smaller by the excess bytes.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

from turnfold.budget import Budget
from turnfold.errors import BudgetTooSmall, InvalidOption, InvalidRecord
from turnfold.records import MAX_DEPTH, Message
from turnfold.window import Changed, Context, Wired, message_bytes

__all__ = (
    "Action",
    "Change",
    "ChangeNotes",
    "Request",
    "WireFormat",
    "body_bytes",
    "by_rule",
    "check_messages",
    "check_tools",
    "chunks",
    "fitted",
    "require_size",
)


_MAX_REASONS = 32
"""Most reasons that a receipt lists one by one; further ones are counted together."""


class Action(StrEnum):
    """Kinds of changes to a part of a message that make a provider accept it."""

    CONVERTED = "converted"
    """The part is sent in another form than it was recorded in."""
    LEFT_OUT = "left out"
    """The part is not sent at all."""
    MOVED = "moved"
    """The part is sent at another place than it was recorded at."""
    ADDED = "added"
    """The part is not in the original; it was added because the provider requires it."""


class Change(NamedTuple):
    """One change for a provider: a part that is not sent as it was recorded, and why."""

    path: str
    """Place of the part: `messages[3].parts[0]` of the messages, or `messages[3].content[0]` of a repaired payload."""
    action: Action
    reason: str
    lost: str = ""
    """The text that is not sent because of this change."""

    def __str__(self) -> str:
        return f"{self.path} {self.action}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of one call to a provider's SDK, and the changes made for the provider."""

    provider: str
    kwargs: dict[str, Any]
    """Keyword arguments of the official SDK's call, as plain JSON values."""
    changes: tuple[Change, ...]
    """Every change that was made to the messages for this provider and model."""


def by_rule(changes: Sequence[Change]) -> tuple[Changed, ...]:
    """Count the changes by action and reason, in the order they first occurred."""
    found: dict[tuple[str, str], list[str]] = {}
    for change in changes:
        found.setdefault((str(change.action), change.reason), []).append(change.path)
    rules = [
        Changed(action, reason, len(paths), paths[0]) for (action, reason), paths in found.items()
    ]
    rest = rules[_MAX_REASONS:]
    if rest:
        others = f"for {len(rest):,} other reasons"
        rules[_MAX_REASONS:] = [
            Changed("changed", others, sum(rule.times for rule in rest), rest[0].first)
        ]
    return tuple(rules)


class ChangeNotes:
    """Collects the changes made while a request is written or a payload repaired."""

    __slots__ = ("changes",)

    def __init__(self) -> None:
        self.changes: list[Change] = []

    def converted(self, path: str, reason: str) -> None:
        """Record that the part at `path` is sent in another form, with the reason."""
        self.changes.append(Change(path, Action.CONVERTED, reason))

    def left_out(self, path: str, reason: str, lost: str = "") -> None:
        """Record that the part at `path` is not sent, with the reason and the text that is `lost`."""
        self.changes.append(Change(path, Action.LEFT_OUT, reason, lost))

    def moved(self, path: str, reason: str) -> None:
        """Record that the part at `path` is sent at another place, with the reason."""
        self.changes.append(Change(path, Action.MOVED, reason))

    def added(self, path: str, reason: str) -> None:
        """Record that a part was added at `path` because the provider requires it."""
        self.changes.append(Change(path, Action.ADDED, reason))


_SLICE = 4096
"""Number of characters of a text that are encoded at a time; each takes at most six bytes."""


def chunks(payload: object, *, size: int = 65536) -> Iterator[bytes]:
    """Return the compact JSON of `payload`, UTF-8, in pieces of `size` bytes; the last may be shorter."""
    if size < 1:
        raise InvalidOption(f"size={size} must be at least 1 byte")
    return _in_pieces(_encoded(payload), size)


def body_bytes(payload: object) -> int:
    """Return the size of the compact JSON of `payload` in bytes, without building it."""
    return sum(map(len, _encoded(payload)))


def _in_pieces(pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    buffer = bytearray()
    for piece in pieces:
        buffer += piece
        while len(buffer) >= size:
            yield bytes(buffer[:size])
            del buffer[:size]
    if buffer:
        yield bytes(buffer)


def _encoded(payload: object) -> Iterator[bytes]:
    return (piece.encode("utf-8") for piece in _texts(payload, "", 0))


def _texts(value: object, path: str, depth: int) -> Iterator[str]:
    if depth > MAX_DEPTH:
        raise InvalidRecord(f"nested deeper than {MAX_DEPTH} levels", path=path)
    if isinstance(value, str):
        yield from _text(value, path)
    elif isinstance(value, Mapping):
        yield from _members(cast("Mapping[object, object]", value), path, depth)
    elif isinstance(value, list | tuple):
        opening = "["
        for index, item in enumerate(cast("list[object]", value)):
            yield opening
            yield from _texts(item, f"{path}[{index}]", depth + 1)
            opening = ","
        yield "]" if opening == "," else "[]"
    else:
        yield _leaf(value, path)


def _members(fields: Mapping[object, object], path: str, depth: int) -> Iterator[str]:
    opening = "{"
    for key, item in fields.items():
        if not isinstance(key, str):
            raise InvalidRecord(f"object key {key!r} is {type(key).__name__}, not text", path=path)
        yield opening
        yield from _text(key, path)
        yield ":"
        yield from _texts(item, f"{path}.{key}" if path else key, depth + 1)
        opening = ","
    yield "}" if opening == "," else "{}"


def _text(text: str, path: str) -> Iterator[str]:
    """Yield a text as JSON, in pieces. JSON escapes each character on its own, so a text may be cut between any two."""
    try:
        if len(text) <= _SLICE:
            yield _checked(json.dumps(text, ensure_ascii=False))
            return
        yield '"'
        for start in range(0, len(text), _SLICE):
            yield _checked(json.dumps(text[start : start + _SLICE], ensure_ascii=False)[1:-1])
        yield '"'
    except UnicodeEncodeError as error:
        raise InvalidRecord(f"lone surrogate near character {error.start}", path=path) from None


def _checked(encoded: str) -> str:
    if not encoded.isascii():
        encoded.encode("utf-8")
    return encoded


def _leaf(value: object, path: str) -> str:
    if value is not None and not isinstance(value, bool | int | float):
        raise InvalidRecord(f"{type(value).__name__} has no JSON form", path=path)
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError as error:
        raise InvalidRecord(str(error), path=path) from None


_EXACT_STEPS = 3
"""Number of times that a context is rebuilt smaller by exactly the excess bytes; each later step removes at least a
quarter."""


@runtime_checkable
class WireFormat(Protocol):
    """A writer of contexts for a provider: a module of `turnfold.wire`, or a model's client."""

    def request(
        self,
        context: Context | Sequence[Message],
        *,
        tools: Sequence[Mapping[str, object]] = (),
        max_bytes: int | None = None,
    ) -> Request:
        """Return the arguments of the provider's call; raises `BudgetTooSmall` if they exceed `max_bytes`.

        If `max_bytes` is None, the limit of the context's own budget applies.
        """
        ...


def check_tools(tools: object) -> None:
    """Raise `InvalidOption` if `tools` is not a list of tool schemas; the error shows the right call."""
    if isinstance(tools, Mapping):
        raise InvalidOption(f"tools={tools!r} is one tool schema, not a list: give tools=[schema]")
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        raise _no_schema("tools", tools)
    for index, tool in enumerate(cast("Iterable[object]", tools)):
        if not isinstance(tool, Mapping) and not callable(getattr(tool, "model_dump", None)):
            raise _no_schema(f"tools[{index}]", tool)
        if isinstance(tool, Mapping) and set(cast("Mapping[str, object]", tool)) == {"name"}:
            raise InvalidOption(
                f"tools[{index}] has a name alone, and no provider takes that: use "
                f'{{"type": "function", "function": {{"name": {tool["name"]!r}, "parameters": {{...}}}}}}'
            )


def _no_schema(path: str, given: object) -> InvalidOption:
    """Return the error for a name, a function or another value that was passed instead of a tool schema."""
    kind, own = type(given).__name__, getattr(given, "name", "tool")
    name = getattr(given, "__name__", own if hasattr(given, "schema") else repr(given))
    if hasattr(given, "schema"):
        right = f"tools=[{name}.schema]"
    elif callable(given):
        right = f"tools=[as_tool({name}).schema], with as_tool from turnfold.agent"
    else:
        right = 'tools=[{"type": "function", "function": {"name": ..., "parameters": {...}}}]'
    return InvalidOption(f"{path} is the {kind} {name}, not a tool schema: give {right}")


def check_messages(given: object) -> None:
    """Raise `InvalidOption` if a session, a coroutine or another value was passed instead of a list of messages."""
    kind = type(given)
    if issubclass(kind, Iterable) and not issubclass(kind, str | Mapping | Message):
        return
    name = kind.__name__
    if inspect.isawaitable(given):
        right = "await it first: request(await session.context())"
    elif hasattr(given, "context"):
        wait = "await " if "Async" in name else ""
        right = f"build its context first: request({wait}session.context())"
    else:
        right = "give session.context(), or a list of Message objects"
    raise InvalidOption(
        f"request() got {name}, which is neither a context nor a list of messages: {right}"
    )


def require_size(
    request: Request, context: Context | Sequence[Message], max_bytes: int | None
) -> Request:
    """Return the request if its body is within `max_bytes`; None: limit of the context's own budget, 0: no limit."""
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
    """Return the context if its request body has at most the budget's `max_bytes`, otherwise a smaller one.

    `to` is the wire format or model client that writes the request, `tools` are its tool schemas; `rebuild` builds the
    same context with a smaller budget. The result's `wired` reports on the request. Raises `BudgetTooSmall` if nothing
    more can be cut.
    """
    _check_format(to)
    budget, moved = context.budget, context.moved
    limit = budget.max_bytes
    request = to.request(context, tools=tools, max_bytes=0)
    size = body_bytes(request.kwargs) if limit else 0
    rebuilt, held_to = 0, 0
    while size > limit:
        remedy = "The rest cannot be left out or shortened: raise max_bytes, or send fewer tools"
        too_large = _too_large(request, size, limit, remedy=remedy)
        step = _SizeStep(budget, size - limit, rebuilt, too_large)
        context, held_to = _smaller(context, step, rebuild)
        request = to.request(context, tools=tools, max_bytes=0)
        size = body_bytes(request.kwargs)
        rebuilt += 1
    context.budget, context.moved = budget, moved or context.moved
    context.wired = Wired(request.provider, by_rule(request.changes), size, held_to, rebuilt)
    return context


def _check_format(to: object) -> None:
    """Raise `InvalidOption` if `to` is neither a wire format nor a model's client."""
    if callable(getattr(to, "request", None)) and not isinstance(to, type):
        return
    name = to.__name__ if isinstance(to, type) else type(to).__name__
    raise InvalidOption(
        f"to={name} cannot write the request of a provider: pass a module of turnfold.wire (openai_chat, "
        "openai_responses, anthropic, gemini) or a model's client (OpenAIChat(...), Anthropic(...)), or leave it out"
    )


class _SizeStep(NamedTuple):
    budget: Budget
    over: int
    """Bytes by which the request body is too large."""
    rebuilt: int
    too_large: BudgetTooSmall
    """The error to raise if the context cannot be made smaller."""


def _smaller(
    context: Context, step: _SizeStep, rebuild: Callable[[Budget], Context]
) -> tuple[Context, int]:
    """Build the context again with fewer bytes; return it and its byte limit.

    Raises `BudgetTooSmall` if that is impossible.
    """
    present = sum(map(message_bytes, context.messages)) + 1
    least = 1
    target = present - step.over
    if step.rebuilt >= _EXACT_STEPS:
        target = min(target, present * 3 // 4)
    while True:
        # Cutting messages may remove part of the overhead too, so a smaller cut is tried if the full one is impossible.
        held_to = target if target >= least else max(least, present * 3 // 4)
        if held_to >= present:
            raise step.too_large
        try:
            return rebuild(replace(step.budget, max_bytes=held_to)), held_to
        except BudgetTooSmall as error:
            if error.unit != "bytes" or error.needed <= held_to:
                raise
            least = error.needed


def _too_large(request: Request, size: int, limit: int, *, remedy: str) -> BudgetTooSmall:
    parts = {name: body_bytes(value) for name, value in request.kwargs.items()}
    parts["names and commas"] = size - sum(parts.values())
    return BudgetTooSmall(needed=size, allowed=limit, parts=parts, unit="bytes", remedy=remedy)
