"""Screen of the costs of a session: tokens and prices by day and by call.

The provider's own token counts are used where the application recorded them. Other calls are estimated from turnfold's
count; the prefix shared with the previous call counts as cached. A call is priced by its own model if that is known;
the reader may choose the prices of another model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from turnfold.inspect import CallCost, call_cost, call_numbers, known_price, recent_calls
from turnfold.memory import Manifest
from turnfold.service.inspector.html import (
    Element,
    Node,
    address,
    facts,
    moment,
    session_trail,
    table,
    tag,
)
from turnfold.service.inspector.labels import PageLabels
from turnfold.service.inspector.screen_types import RenderedScreen, ScreenRequest, screen
from turnfold.text import local_time
from turnfold.tokens import PriceTable

__all__ = ("costs",)


_MOST_CALLS: Final = 2_000
_SHOWN: Final = 200
_OWN: Final = "own"
"""Value of the form's choice that prices each call by its own model."""


class _Query(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    model: Annotated[str, Meta(max_length=100)] | None = None
    """Model whose prices apply; `own` for the model of each call, empty for tokens only."""


@screen("/sessions/{session}/costs", query=_Query)
async def costs(request: ScreenRequest[_Query]) -> RenderedScreen:
    """Render the page with a session's token usage and prices by day and by call."""
    words, view = request.words, await request.open()
    name, prices = view.session.id, request.state.prices
    calls = await recent_calls(view.session, most=_MOST_CALLS)
    numbers = await call_numbers(view.session)
    known = {model for call in calls if known_price(model := call.called_model, prices)}
    chosen = request.query.model
    if chosen is None:
        chosen = _OWN if known else ""
    if chosen == _OWN:
        found = [(call, call_cost(call, known_price(call.called_model, prices))) for call in calls]
    else:
        price = prices.price(chosen) if chosen else None
        found = [(call, call_cost(call, price)) for call in calls]
    return RenderedScreen(
        title=f"{words('costs')} · {name}",
        session=name,
        tab="costs",
        about="Tokens and list prices of the calls of this session, by day and by call.",
        trail=session_trail(words, name),
        body=(
            _form(name, chosen, sorted(known), prices, words),
            _unpriced(calls, prices, words) if chosen == _OWN else None,
            *(
                _sections(name, found, numbers, words, view.session.config.zone)
                if found
                else [tag("p", words("no calls yet"))]
            ),
        ),
        live=await view.live(),
    )


def _unpriced(calls: Sequence[Manifest], prices: PriceTable, words: PageLabels) -> Element | None:
    """Return a note with the number of calls without a price; None if all calls have a price."""
    without = sum(known_price(call.called_model, prices) is None for call in calls)
    if not without:
        return None
    note = "{calls:,} calls have no price: the model is not known, or not in the price list"
    return tag("p", words(note, calls=without), class_="note")


def _sections(
    name: str,
    found: Sequence[tuple[Manifest, CallCost]],
    numbers: Mapping[str, int],
    words: PageLabels,
    zone: tzinfo,
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
        note = "{calls:,} calls have no figures of the provider: estimated, without the output (≈)"
        yield tag("p", words(note, calls=whole.estimated), class_="note")
    days: dict[str, list[CallCost]] = {}
    for call, cost in found:
        day = f"{local_time(call.created, zone):%Y-%m-%d}"
        days.setdefault(day, []).append(cost)
    figures = ("calls", "input", "cached", "output", "cost")
    rows = [[day, *_figures(_sum(each))] for day, each in reversed(days.items())]
    yield tag("h2", words("by day ({zone})", zone=zone))
    yield table([words(head) for head in ("day", *figures)], rows, class_="days")
    yield tag("h2", words("the newest {shown:,} calls", shown=min(len(found), _SHOWN)))
    heads = [words(head) for head in ("call", *figures[1:], "created")]
    shown = [_row(name, numbers.get(each[0].call, 0), *each) for each in found[-_SHOWN:]]
    yield table(heads, reversed(shown), class_="calls")


def _row(name: str, number: int, call: Manifest, cost: CallCost) -> list[Node]:
    href = address("sessions", name, "calls", call.call)
    link = tag("a", f"{number:,}", href=href, class_="row", title=call.call)
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


def _form(
    name: str, model: str, known: Sequence[str], prices: PriceTable, words: PageLabels
) -> Element:
    own = words("the model of each call ({models})", models=", ".join(known))
    options = [tag("option", own, value=_OWN, selected=model == _OWN)] if known else []
    options.append(tag("option", words("tokens only"), value="", selected=not model))
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
