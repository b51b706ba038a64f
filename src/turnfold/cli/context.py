"""`turnfold context`: the budget of the next call as a bar by section, with the fold threshold and recent calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console, RenderableType
from rich.text import Text

from turnfold.cli.chinese_labels import (
    colon,
    counted,
    in_brackets,
    is_chinese,
    known_label,
    label,
    reason_label,
    semicolon,
    with_singulars,
)
from turnfold.cli.demo.charts import Bar, BarPart, Legend
from turnfold.cli.store_and_session_lookup import open_session
from turnfold.cli.tables_and_progress_bars import columns, is_plain, print_result, printable
from turnfold.inspect import (
    CallPoint,
    ContextView,
    LeftOut,
    call_numbers,
    call_point,
    context_view,
    with_tail_parts,
)
from turnfold.runtime import drive

__all__ = (
    "band",
    "bar",
    "budget_parts",
    "counter_line",
    "curve_legend",
    "draw_context",
    "figures",
    "height_of",
    "left_out_line",
    "legend",
    "look_at_context",
    "show_context",
    "sparkline",
    "tick_line",
)


_INKS = {
    "tools": ("t", "bright_black"),
    "system": ("s", "blue"),
    "summary": ("#", "magenta"),
    "window": ("=", "cyan"),
    "pins": ("p", "bright_yellow"),
    "rules": ("!", "yellow"),
    "recalled": ("?", "dark_orange"),
    "turn": ("+", "green"),
    "reply opening": ("r", "bright_black"),
}
_HEIGHTS = "▁▂▃▄▅▆▇█"
_ASCII_HEIGHTS = "_.-:=+*#"
_BANDS = ((0.5, "green"), (0.7, "yellow"), (0.9, "dark_orange"))


def band(share: float) -> str:
    """Return the colour for a share of the budget: green, yellow, orange or red."""
    return next((colour for limit, colour in _BANDS if share < limit), "red")


def budget_parts(
    sections: Mapping[str, int], tail: Mapping[str, int], *, tools: int, reply: int, free: int
) -> tuple[BarPart, ...]:
    """Return the parts of a prompt in the order in which they are sent, and the free tokens."""
    amounts = {"tools": tools, "reply opening": reply, **with_tail_parts(sections, tail)}
    parts = [BarPart(label(name), amounts.get(name, 0), *ink) for name, ink in _INKS.items()]
    return (*parts, BarPart(label("free"), max(free, 0), ".", "bright_black", solid=False))


def legend(parts: Sequence[BarPart], *, plain: bool) -> Legend:
    """Return the legend of a prompt's bar: the parts that are not empty, with their tokens."""
    return Legend(tuple(part for part in parts if part.amount), plain)


def tick_line(share: float, width: int, *, plain: bool) -> Text:
    """Return the line under a bar of `width` cells, with a tick and a percentage at a share of its length."""
    percent = f"{share:.0%}"
    at = min(int(share * width), width - 1)
    mark = "^" if plain else "▲"
    before = at + 1 + len(percent) > width
    text = f"{percent}{mark}" if before else f"{mark}{percent}"
    return Text(" " * (at - len(percent) if before else at) + text, "dim", no_wrap=True)


def sparkline(calls: Sequence[CallPoint], *, width: int, plain: bool) -> str:
    """Return a sparkline of how full the newest calls were, with a symbol at each new checkpoint (summary)."""
    drawn: list[str] = []
    before: CallPoint | None = None
    for call in calls:
        if before is not None and call.checkpoint != before.checkpoint:
            drawn.append("|" if plain else "⟲")
        share = min(call.tokens / call.allowed, 1.0) if call.allowed else 0.0
        drawn.append(height_of(share, plain=plain))
        before = call
    return "".join(drawn[-width:]) if width > 0 else ""


def curve_legend(*, plain: bool) -> str:
    """Return the explanation of a sparkline."""
    text = label("curve: how full the budget was, call by call; {fold} a fold")
    return text.format(fold="|" if plain else "⟲")


def height_of(share: float, *, plain: bool) -> str:
    """Return the block character that shows a share between 0 and 1 in a sparkline."""
    heights = _ASCII_HEIGHTS if plain else _HEIGHTS
    return heights[min(int(share * len(heights)), len(heights) - 1)]


def bar(parts: Sequence[BarPart], *, plain: bool) -> Bar:
    """Return a bar that shows the parts of the prompt as shares of the budget."""
    return Bar(tuple(parts), plain)


_WIDEST = 120
_RULE_SHOWN = 60
"""Most characters that are printed of a rule that the context leaves out; a longer rule is cut and ends in `…`."""


def look_at_context(
    store: str | None,
    tenant: str,
    session: str,
    *,
    query: str | None,
    model: str | None,
    budget: int | None,
    biggest: int,
    calls: int,
) -> ContextView:
    """Return figures of the context that the next call of a session would get, without writing anything."""
    with open_session(store, tenant, session, model=model, budget=budget, calls=calls) as at:
        numbers = drive(call_numbers(at.session.awaiting))
        return context_view(
            at.session.preview(query, budget=at.budget),
            conversation=at.session.id,
            calls=[call_point(made, numbers.get(made.call, 0)) for made in at.calls],
            checkpoints=at.session.checkpoints(),
            status=at.session.status(),
            rules=at.session.rules(),
            biggest=biggest,
        )


def show_context(view: ContextView, *, json: bool) -> None:
    """Print the figures of a context, as a drawing or JSON."""
    print_result(view, lambda console: draw_context(view, console), json=json)


def draw_context(view: ContextView, console: Console) -> Iterator[RenderableType]:
    """Draw the figures of a context for a terminal."""
    plain, width = is_plain(console), min(console.width, _WIDEST)
    yield _title(view)
    yield _used(view, width, plain=plain)
    parts = budget_parts(
        view.sections, view.tail, tools=view.tools, reply=view.reply, free=view.free
    )
    yield bar(parts, plain=plain).text(width)
    yield tick_line(view.fold_at / view.allowed, width, plain=plain)
    yield legend(parts, plain=plain)
    yield from _facts(view)
    if view.calls:
        yield Text(curve_legend(plain=plain), "dim", overflow="fold")
    yield counter_line(view.counter)
    if view.biggest:
        rows = [
            (
                f"{item.tokens:,}",
                str(item.seq or "-"),
                known_label(item.section),
                known_label(item.label),
                item.text,
            )
            for item in view.biggest
        ]
        yield Text()
        yield Text(label("the largest messages"), "dim")
        yield columns(console, ("tokens", "seq", "section", "role", "text"), rows, wide="text")


def _title(view: ContextView) -> Text:
    window = f" · {label('window')} {view.window:,}" if view.window else ""
    reserve = f" ({label('reserve')} {view.reserve:.0%})" if view.window else ""
    title = Text(printable(view.conversation), "bold", overflow="fold")
    title.append(f"{window} · {label('budget')} {view.allowed:,}{reserve}", "not bold dim")
    return title


def counter_line(counter: str) -> Text:
    """Return a line that names the token counter and explains the parts of its name."""
    text = label("counted by {counter}: encoding of text + framing of messages + images")
    return Text(text.format(counter=counter), "dim", overflow="fold")


def figures(tokens: int, allowed: int, certainty: str) -> str:
    """Return the tokens of a call and its budget, and how certain the number is."""
    certain = known_label("upper bound" if certainty == "bound" else certainty)
    if is_chinese():
        return f"{tokens:,} / {allowed:,} token（{tokens / allowed:.0%}，{certain}）"
    return f"{tokens:,} / {allowed:,} tokens ({tokens / allowed:.0%}, {certain})"


def left_out_line(left: LeftOut) -> str:
    """Return one line about entries, rules or a prompt section that were left out, and the reason."""
    if left.entries:
        span = f"{left.first}" if left.entries == 1 else f"{left.first}-{left.last}"
        return f"{label(left.outcome)} {span}{colon()}{reason_label(left.reason)}"
    if not left.rules:
        return reason_label(left.reason)
    line = f"{counted(left.rules, 'rules')} · {label('no room in their share of the budget, or not clear alone')}"
    shown = [f"[{rule.seq or label('by hand')}] {_clipped(rule.text)}" for rule in left.named]
    more = ["…"] if left.rules > len(shown) else []
    stop = semicolon()
    return f"{line}{colon()}{stop.join((*shown, *more))}" if shown else line


def _clipped(text: str) -> str:
    text = printable(text)
    return text if len(text) <= _RULE_SHOWN else f"{text[: _RULE_SHOWN - 1]}…"


def _used(view: ContextView, width: int, *, plain: bool) -> Text:
    share = view.tokens / view.allowed
    line = Text(f"{label('used')} ", overflow="fold")
    line.append(figures(view.tokens, view.allowed, view.certainty), band(share))
    if view.delta is not None:
        up, down = ("+", "-") if plain else ("▲+", "▼-")
        change = f"{up if view.delta >= 0 else down}{abs(view.delta):,}"
        line.append(f"  {label('{change} since the last call').format(change=change)}")
    drawn = sparkline(view.calls, width=min(width // 3, 40), plain=plain)
    if drawn:
        line.append(f"  {drawn}", "cyan")
    if view.checkpoint:
        line.append(
            f"  {label('checkpoint')} {view.checkpoint} @ {view.checkpoint_upto}", "magenta"
        )
    return line


def _facts(view: ContextView) -> Iterator[Text]:
    cache = view.cache
    stop = semicolon()
    if view.calls and view.calls[-1].number > 1:
        text = label(
            "the last call repeats {share:.0%} of the one before ({tokens:,} tokens); window unmoved for {calls} calls"
        )
        share = view.calls[-1].kept_prefix
        text = text.format(share=share, tokens=cache.tokens, calls=cache.calls)
        text = with_singulars(text)
        if cache.broken_by:
            number = next(each.number for each in view.calls if each.call == cache.broken_by)
            text += stop + label("last moved: call {number:,} ({reason})").format(
                number=number, reason=reason_label(cache.reason)
            )
        yield _fact("cache", text)
    if view.folded or view.dropped or view.shrunk:
        text = label("{folded:,} folded, {dropped:,} dropped, {shrunk:,} shortened").format(
            folded=view.folded, dropped=view.dropped, shrunk=view.shrunk
        )
        ranges = (one.reason for one in view.left_out if one.entries)
        reasons = stop.join(dict.fromkeys(map(reason_label, ranges)))
        if reasons:
            text = f"{text}{in_brackets(reasons)}"
        yield _fact("left out", text)
    yield from (_fact("left out", left_out_line(one)) for one in view.left_out if not one.entries)

    if view.fold_failures:
        text = label(
            "folding failed {failures} times since the last checkpoint, last with {error}: until it succeeds, older "
            "turns are shown as an extract"
        ).format(failures=view.fold_failures, error=view.fold_error)
        yield _fact("folds", with_singulars(text))


def _fact(name: str, text: str) -> Text:
    return Text.assemble((f"{label(name)}  ", "bold"), text, overflow="fold")
