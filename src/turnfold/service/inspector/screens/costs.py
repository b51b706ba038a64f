"""Screen of the costs of a session: tokens and prices by day and by call.

The provider's own figures are used where the program recorded them; other calls are estimated from our count, with the
unchanged beginning taken as cached. A call does not store its model, so the reader chooses whose prices apply.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from turnfold.inspect import recent_calls
from turnfold.memory import Manifest
from turnfold.service.inspector.html import (
    Element,
    Node,
    address,
    call_number,
    facts,
    moment,
    session_trail,
    table,
    tag,
)
from turnfold.service.inspector.labels import PageLabels
from turnfold.service.inspector.screen import RenderedScreen, ScreenRequest, screen
from turnfold.tokens import Charge, Price, PriceTable, shipped_prices

__all__ = ("CallCost", "call_cost", "costs")


_MOST_CALLS: Final = 2_000
_SHOWN: Final = 200
_SMALLEST_CACHED: Final = 1_024
"""Tokens below which providers cache no prompt."""


class _Query(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    model: Annotated[str, Meta(max_length=100)] = ""
    """Whose prices apply; empty for tokens only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCost:
    """Tokens of one or of several calls, and what they cost."""

    calls: int = 1
    input: int
    cached: int
    output: int
    cost: float
    """In the currency of the price table; 0 without a price."""
    estimated: int
    """Number of calls of which the provider's figures were not recorded."""


def call_cost(call: Manifest, price: Price | None) -> CallCost:
    """Return the cost of a call; without reported figures, an estimate that knows no output."""
    usage = call.usage
    if usage is not None:
        tokens, cached, output = usage.input, usage.cached, usage.output
    else:
        tokens, output = call.tokens, 0
        cached = call.shared if call.shared >= _SMALLEST_CACHED else 0
    cost = 0.0
    if price is not None:
        fresh = max(tokens - cached, 0)
        cost = price.of(Charge(read=cached, written=0, fresh=fresh, output=output))
    return CallCost(
        input=tokens, cached=cached, output=output, cost=cost, estimated=int(usage is None)
    )


@screen("/sessions/{session}/costs", query=_Query)
async def costs(request: ScreenRequest[_Query]) -> RenderedScreen:
    """Render the costs of a session."""
    words, view = request.words, await request.open()
    name, table_of_prices = view.session.id, shipped_prices()
    price = table_of_prices.price(request.query.model) if request.query.model else None
    calls = await recent_calls(view.session, most=_MOST_CALLS)
    found = [(call, call_cost(call, price)) for call in calls]
    return RenderedScreen(
        title=f"{words('costs')} · {name}",
        session=name,
        tab="costs",
        trail=session_trail(words, name),
        body=(
            _form(name, request.query.model, table_of_prices, words),
            *(_sections(name, found, words) if found else [tag("p", words("no calls yet"))]),
        ),
        live=await view.live(),
    )


def _sections(
    name: str, found: Sequence[tuple[Manifest, CallCost]], words: PageLabels
) -> Iterator[Node]:
    whole = _sum(cost for _, cost in found)
    yield facts(
        [
            (words("calls"), f"{whole.calls:,}"),
            (words("input"), f"{whole.input:,}"),
            (words("cached"), f"{whole.cached:,}"),
            (words("output"), f"{whole.output:,}"),
            (words("cost"), _money(whole)),
        ]
    )
    if len(found) == _MOST_CALLS:
        yield tag("p", words("the newest {shown:,} calls", shown=_MOST_CALLS), class_="note")
    if whole.estimated:
        note = "{calls:,} calls have no figures of the provider: they are estimated, without their output (≈)"
        yield tag("p", words(note, calls=whole.estimated), class_="note")
    days: dict[str, list[CallCost]] = {}
    for call, cost in found:
        day = time.strftime("%Y-%m-%d", time.gmtime(call.created // 1_000_000))
        days.setdefault(day, []).append(cost)
    figures = ("calls", "input", "cached", "output", "cost")
    rows = [[day, *_figures(_sum(each))] for day, each in reversed(days.items())]
    yield tag("h2", words("by day (UTC)"))
    yield table([words(head) for head in ("day", *figures)], rows, class_="days")
    yield tag("h2", words("the newest {shown:,} calls", shown=min(len(found), _SHOWN)))
    heads = [words(head) for head in ("call", *figures[1:], "created")]
    yield table(heads, [_row(name, *each) for each in reversed(found[-_SHOWN:])], class_="calls")


def _row(name: str, call: Manifest, cost: CallCost) -> list[Node]:
    href = address("sessions", name, "calls", call.call)
    link = tag("a", call_number(call.call), href=href, class_="row", title=call.call)
    return [link, *_figures(cost)[1:], moment(call.created)]


def _figures(cost: CallCost) -> list[Node]:
    figures = (cost.calls, cost.input, cost.cached, cost.output)
    return [*(f"{figure:,}" for figure in figures), _money(cost)]


def _money(cost: CallCost) -> str:
    if not cost.cost:
        return "-"
    return f"≈ {cost.cost:,.4f}" if cost.estimated else f"{cost.cost:,.4f}"


def _sum(costs_of_calls: Iterable[CallCost]) -> CallCost:
    found = list(costs_of_calls)
    return CallCost(
        calls=sum(each.calls for each in found),
        input=sum(each.input for each in found),
        cached=sum(each.cached for each in found),
        output=sum(each.output for each in found),
        cost=sum(each.cost for each in found),
        estimated=sum(each.estimated for each in found),
    )


def _form(name: str, model: str, prices: PriceTable, words: PageLabels) -> Element:
    options = [tag("option", words("tokens only"), value="", selected=not model)]
    options += [
        tag("option", each, value=each, selected=each == model) for each in sorted(prices.models)
    ]
    return tag(
        "form",
        tag("label", words("prices of"), " ", tag("select", options, name="model")),
        tag("button", words("show"), type="submit"),
        tag(
            "span",
            words(
                "list prices of {date} in {currency}", date=prices.date, currency=prices.currency
            ),
            class_="quiet",
        ),
        method="get",
        action=address("sessions", name, "costs"),
        class_="search",
    )
