"""`turnfold explain` and `turnfold diff`: show the messages that a call sent, and how two calls differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.console import Console, RenderableType
from rich.text import Text

from turnfold.cli.chinese_labels import (
    colon,
    counted,
    in_brackets,
    known_label,
    label,
    reason_label,
    semicolon,
    with_singulars,
)
from turnfold.cli.context import (
    band,
    bar,
    budget_parts,
    counter_line,
    figures,
    left_out_line,
    legend,
)
from turnfold.cli.store_and_session_lookup import LAST, PREVIOUS, find_call, open_session
from turnfold.cli.tables_and_progress_bars import (
    as_json,
    columns,
    is_plain,
    make_console,
    moment,
    print_result,
    printable,
    without_controls,
)
from turnfold.errors import NotFound
from turnfold.inspect import (
    CallDiff,
    CallPoint,
    CallView,
    SentItem,
    call_cost,
    call_numbers,
    call_point,
    call_text,
    call_view,
    diff_calls,
    known_price,
)
from turnfold.records import Message
from turnfold.runtime import drive
from turnfold.tokens import PriceTable

__all__ = (
    "CallList",
    "compare_calls",
    "explain_call",
    "list_calls",
    "show_call",
    "show_calls",
    "show_diff",
)


_SHOWN = {"shrunk": "shortened"}
"""Stored outcome of a message -> the word that is shown for it."""
_FATES = {"kept": "", "shrunk": "yellow", "moved": "cyan", "injected": "magenta"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallList:
    """The newest calls of a session, oldest first."""

    session: str
    total: int
    """Number of calls of the session."""
    calls: tuple[CallPoint, ...]


def list_calls(store: str | None, tenant: str, session: str, *, most: int) -> CallList:
    """Return the newest `most` model calls of a session, oldest first."""
    with open_session(store, tenant, session, calls=most) as at:
        numbers = drive(call_numbers(at.session.awaiting))
        points = tuple(call_point(each, numbers.get(each.call, 0)) for each in at.calls)
        return CallList(session=at.session.id, total=len(numbers), calls=points)


def explain_call(
    store: str | None, tenant: str, session: str, call: str | None, *, full: bool = False
) -> CallView:
    """Return the messages of a call, by default the newest; with `full`, the texts are not shortened."""
    with open_session(store, tenant, session, calls=2) as at:
        explained = at.session.explain(find_call(at, call or LAST))
        numbers = drive(call_numbers(at.session.awaiting))
        view = call_view(explained, numbers, rules=at.session.rules(ended=True))
    if not full:
        return view
    whole = zip(view.items, explained.messages, strict=True)
    return replace(
        view, items=tuple(replace(item, text=_whole(message)) for item, message in whole)
    )


def _whole(message: Message) -> str:
    """Return the text of a message and the tool calls it makes, a line each."""
    calls = map(call_text, message.calls)
    return "\n".join(text for text in (message.text, *calls) if text)


def _price_line(point: CallPoint, prices: PriceTable) -> str:
    """Return a line with the cost of a call at list prices, or that its model has none; empty without a model."""
    price = known_price(point.model, prices)
    if price is None:
        none = label("no price for {model} in the list prices of {date}")
        return none.format(model=point.model, date=prices.date) if point.model else ""
    cost = call_cost(point, price)
    text = label("{cost} {currency} for {model}, list prices of {date}").format(
        cost=f"{cost.cost:,.4f}", currency=prices.currency, model=point.model, date=prices.date
    )
    if not cost.estimated:
        return text
    return f"≈ {text}{semicolon()}{label('estimated, without the output: no usage was recorded')}"


def compare_calls(
    store: str | None, tenant: str, session: str, before: str | None, after: str | None
) -> CallDiff:
    """Compare two calls: by default the newest two; if only one is named, it and the call before it."""
    with open_session(store, tenant, session, calls=2) as at:
        second = find_call(at, after or before or LAST)
        numbers = drive(call_numbers(at.session.awaiting))
        if after is None and before is not None:
            if numbers[second] == 1:
                raise NotFound(
                    f"call 1 of {at.session.id!r} is the first call, so there is no call before it to compare with: "
                    "name two calls"
                )
            first = list(numbers)[numbers[second] - 2]
        else:
            first = find_call(at, before or PREVIOUS)
        return diff_calls(at.session.explain(first), at.session.explain(second), numbers)


def show_calls(found: CallList, *, json: bool) -> None:
    """Print a list of calls."""
    if json:
        print(as_json(found))  # noqa: T201 (what the command is for)
        return
    console = make_console()
    rows = [
        (
            f"{call.number:,}",
            f"{call.seq:,}",
            f"{call.tokens:,}",
            Text(f"{call.tokens / call.allowed:.0%}", band(call.tokens / call.allowed)),
            f"{call.kept_prefix:.0%}",
            f"{call.folded:,}",
            f"{call.dropped:,}",
            moment(call.created),
        )
        for call in found.calls
    ]
    heads = ("call", "seq", "tokens", "used", "prefix", "folded", "dropped", "created")
    only = (0, 1, 2, 3, 4) if console.width < 70 else None
    console.print(columns(console, heads, rows, only=only))
    if found.total > len(found.calls):
        text = label("the newest {shown:,} of {total:,} calls; -n shows more")
        console.print(Text(text.format(shown=len(found.calls), total=found.total), "dim"))


def show_call(view: CallView, *, json: bool, prices: PriceTable, full: bool = False) -> None:
    """Print the messages of a call; with `full`, each message begins on a new line and is not shortened."""
    print_result(view, lambda console: _draw_call(view, console, prices, full=full), json=json)


def _draw_call(
    view: CallView, console: Console, prices: PriceTable, *, full: bool
) -> Iterator[RenderableType]:
    point, plain = view.point, is_plain(console)
    share = point.tokens / point.allowed
    yield Text.assemble(
        (
            label("call {number:,} of {calls:,}").format(number=point.number, calls=view.calls),
            "bold",
        ),
        f" · {moment(point.created)} · ",
        (figures(point.tokens, point.allowed, point.certainty), band(share)),
        "" if view.exact else f" · {label('not verified to be the messages sent')}",
        overflow="fold",
    )
    parts = budget_parts(
        point.sections,
        view.tail,
        tools=point.tools,
        reply=point.reply,
        free=point.allowed - point.tokens,
    )
    yield bar(parts, plain=plain).text(min(console.width, 120))
    yield legend(parts, plain=plain)
    if point.reported_input is not None:
        off = point.tokens / point.reported_input - 1 if point.reported_input else 0.0
        text = label(
            "the provider counted {counted:,} ({cached:,} cached); turnfold's count differs by {off:+.1%}"
        )
        cached = point.reported_cached or 0
        yield Text(text.format(counted=point.reported_input, cached=cached, off=off), "dim")
    if line := _price_line(point, prices):
        yield Text(line, "dim", overflow="fold")
    if point.cache_missed:
        text = label(
            "nothing was cached, although the first {shared:,} tokens are the same as in the previous call"
        )
        yield Text(text.format(shared=point.shared), "yellow", overflow="fold")
    yield counter_line(point.counter)
    yield Text()
    if full:
        yield from _whole_items(view.items)
    else:
        yield _items(console, view.items)
    if shortened := [str(item.seq) for item in view.items if item.fate == "shrunk"]:
        text = label("shortened to fit: entries {entries}; each keeps its beginning and its end")
        yield Text(text.format(entries=", ".join(shortened)), "dim", overflow="fold")
    for left in view.left_out:
        about = "" if left.entries else f"{label('left out')}  "
        yield Text(f"{about}{left_out_line(left)}", "dim", overflow="fold")


def _whole_items(items: Sequence[SentItem]) -> Iterator[RenderableType]:
    for item in items:
        seq = f" · {label('seq')} {item.seq}" if item.seq else ""
        names = dict.fromkeys((known_label(item.section), known_label(item.label)))
        about = " · ".join((str(item.index), *names))
        yield Text(f"{about}{seq} · {counted(item.tokens, 'tokens')}", "bold", overflow="fold")
        yield Text(without_controls(item.text, keep="\n\t"), overflow="fold")
        yield Text()


def _items(console: Console, items: Sequence[SentItem]) -> RenderableType:
    rows = [
        (
            str(item.index),
            str(item.seq or "-"),
            known_label(item.section),
            known_label(item.label),
            f"{item.tokens:,}",
            Text(known_label(_SHOWN.get(item.fate, item.fate)), _FATES.get(item.fate, "")),
            f"[{reason_label(item.reason)}] {item.text}" if item.reason else item.text,
        )
        for item in items
    ]
    heads = ("#", "seq", "section", "role", "tokens", "fate", "text")
    only = (1, 3, 4, 5, 6) if console.width < 60 else None
    return columns(console, heads, rows, only=only, wide="text")


def show_diff(found: CallDiff, *, json: bool) -> None:
    """Print the differences between two calls, as text or JSON."""
    print_result(found, lambda console: _draw_diff(found, console), json=json)


def _draw_diff(found: CallDiff, console: Console) -> Iterator[RenderableType]:
    grown = found.after.tokens - found.before.tokens
    yield Text.assemble(
        (f"{label('call')} {found.before.number:,} -> {found.after.number:,}", "bold"),
        f" · {found.before.tokens:,} -> {counted(found.after.tokens, 'tokens')} ({grown:+,})",
        overflow="fold",
    )
    if not found.same_tools:
        same = label(
            "The tool schemas changed. They stand before the messages, so none of the {rest:,} tokens is cached."
        )
    elif found.same > 1:
        same = label(
            "The first {messages:,} messages ({tokens:,} tokens) are identical; not cached: {rest:,} tokens after them."
        )
    elif found.same:
        same = label(
            "The first message ({tokens:,} tokens) is identical; not cached: {rest:,} tokens after it."
        )
    else:
        same = label(
            "No message at the beginning is identical: none of the {rest:,} tokens is cached."
        )
    text = same.format(messages=found.same, tokens=found.same_tokens, rest=found.rebilled)
    yield Text(with_singulars(text), overflow="fold")
    for reason in found.reasons:
        yield Text(f"{label('reason')}{colon()}{reason_label(reason)}", "yellow", overflow="fold")
    first = found.first
    if first is not None:
        where = first.after or first.before
        place = label("message {index}, character {character}")
        yield Text.assemble(
            (f"{label('first difference')}{colon()}", "bold"),
            place.format(index=first.index, character=first.character),
            in_brackets(known_label(where.label), known_label(where.section)) if where else "",
            overflow="fold",
        )
        for side, text, style in (
            (first.before, f"- {printable(first.text_before)}", "red"),
            (first.after, f"+ {printable(first.text_after)}", "green"),
        ):
            if side is not None:
                yield Text(text, style, no_wrap=True, overflow="ellipsis")
    for name, items in (("gone", found.gone), ("new", found.new)):
        if items:
            yield Text(f"\n{label(name)} ({len(items)})", "bold")
            yield _items(console, items)
