"""Token totals: the largest entries, tools and roles of a log, the largest conversations, and prices of calls."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from turnfold.errors import UnknownModel
from turnfold.inspect.views import CallPoint, call_point, excerpt
from turnfold.memory import Manifest
from turnfold.records import Entry
from turnfold.stores import ConversationInfo
from turnfold.tokens import Charge, Price, PriceTable

__all__ = (
    "CallCost",
    "CostRow",
    "EntryCost",
    "LogCosts",
    "call_cost",
    "conversation_costs",
    "known_price",
)


_SMALLEST_CACHED: Final = 1_024
"""Least tokens that a prompt must share with the previous one to be counted as read from the provider's cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """The total tokens of one role, tool or conversation."""

    name: str
    tokens: int
    entries: int
    share: float
    """Share that this row has of all tokens of the log or store, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryCost:
    """The tokens of one log entry, with its role and tool."""

    seq: int
    turn: int
    role: str
    label: str
    tokens: int
    text: str


@dataclass(slots=True)
class LogCosts:
    """Sums the tokens of a log, page by page: totals per tool and role, and the largest entries."""

    most: int = 10
    """Number of largest entries to keep."""
    tokens: int = 0
    entries: int = 0
    _roles: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    _tools: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    _tool_names: dict[str, str] = field(default_factory=dict[str, str])
    _largest: list[tuple[int, int, EntryCost]] = field(
        default_factory=list[tuple[int, int, EntryCost]]
    )

    def add(self, entries: Iterable[Entry]) -> None:
        """Add the tokens of the next page of log entries to the totals."""
        for entry in entries:
            self._add(entry)

    def _add(self, entry: Entry) -> None:
        message = entry.message
        self.entries += 1
        self.tokens += entry.tokens
        for call in message.calls:
            self._tool_names[call.id] = call.name
        names = [call.name for call in message.calls]
        names += [self._tool_names.get(result.call_id, "") for result in message.results]
        _count(self._roles, message.role, entry.tokens)
        for name, times in Counter(filter(None, names)).items():
            _count(self._tools, name, entry.tokens * times // len(names))
        if self.most and (len(self._largest) < self.most or entry.tokens > self._largest[0][0]):
            self._push(entry, ", ".join(filter(None, dict.fromkeys(names))) or message.role)

    def _push(self, entry: Entry, label: str) -> None:
        row = EntryCost(
            seq=entry.seq,
            turn=entry.turn,
            role=entry.message.role,
            label=label,
            tokens=entry.tokens,
            text=excerpt(entry.message),
        )
        heapq.heappush(self._largest, (entry.tokens, -entry.seq, row))
        if len(self._largest) > self.most:
            heapq.heappop(self._largest)

    def costliest(self) -> tuple[EntryCost, ...]:
        """Return the entries with the most tokens, largest first."""
        return tuple(row for _, _, row in sorted(self._largest, key=lambda one: (-one[0], -one[1])))

    def roles(self) -> tuple[CostRow, ...]:
        """Return the tokens of each role in total, largest first."""
        return _rows(self._roles, self.tokens)

    def tools(self) -> tuple[CostRow, ...]:
        """Return the totals by tool, of calls and results; the tokens of a message are divided among its tools."""
        return _rows(self._tools, self.tokens)


def conversation_costs(infos: Sequence[ConversationInfo], *, most: int) -> tuple[CostRow, ...]:
    """Return the conversations with the most tokens, largest first."""
    found = {info.conversation: [info.head.tokens, info.head.seq] for info in infos}
    return _rows(found, sum(info.head.tokens for info in infos))[:most]


def _count(table: dict[str, list[int]], name: str, tokens: int) -> None:
    row = table.setdefault(name, [0, 0])
    row[0] += tokens
    row[1] += 1


def _rows(table: dict[str, list[int]], total: int) -> tuple[CostRow, ...]:
    rows = (
        CostRow(name=name, tokens=tokens, entries=entries, share=tokens / total if total else 0.0)
        for name, (tokens, entries) in table.items()
    )
    return tuple(sorted(rows, key=lambda row: (-row.tokens, row.name)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCost:
    """Tokens of one or several calls, and their cost."""

    calls: int = 1
    input: int
    cached: int
    output: int
    cost: float
    """Cost of the calls in the currency of the price table; 0 without a price."""
    estimated: int
    """Number of calls for which the provider reported no token counts, so that these are estimated."""


def call_cost(call: Manifest | CallPoint, price: Price | None) -> CallCost:
    """Return tokens and cost of a call, from the provider's token counts if recorded.

    Otherwise they are estimated: the output counts as 0, and the prefix shared with the last call as cached.
    """
    point = call if isinstance(call, CallPoint) else call_point(call)
    reported = point.reported_input is not None
    if point.reported_input is not None:
        tokens, cached = point.reported_input, point.reported_cached or 0
        output = point.reported_output or 0
    else:
        tokens, output = call.tokens, 0
        cached = call.shared if call.shared >= _SMALLEST_CACHED else 0
    cost = 0.0
    if price is not None:
        fresh = max(tokens - cached, 0)
        cost = price.of(Charge(read=cached, written=0, fresh=fresh, output=output))
    return CallCost(
        input=tokens, cached=cached, output=output, cost=cost, estimated=int(not reported)
    )


def known_price(model: str, prices: PriceTable) -> Price | None:
    """Return the price of a model; None for an empty name, and for a model that the table does not have."""
    try:
        return prices.price(model) if model else None
    except UnknownModel:
        return None
