"""`turnfold context`: the budget of the next call, as a profile."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.text import Text

from turnfold.cli.budget_bar import band, bar, budget_parts, legend, sparkline, tick_line
from turnfold.cli.opened_store import open_session
from turnfold.cli.screen import as_json, columns, is_plain, make_console, printable
from turnfold.cli.words import label
from turnfold.memory.inspecting import ContextView, call_point, context_view

__all__ = ("draw_context", "look_at_context", "show_context")

_WIDEST = 120


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
    """The view of the context the next call of a session would get; nothing is written."""
    with open_session(store, tenant, session, model=model, budget=budget, calls=calls) as at:
        return context_view(
            at.session.preview(query, budget=at.budget),
            conversation=at.session.id,
            calls=[call_point(made) for made in at.calls],
            checkpoints=at.session.checkpoints(),
            biggest=biggest,
        )


def show_context(view: ContextView, *, json: bool) -> None:
    """Print it."""
    if json:
        print(as_json(view))  # noqa: T201 (what the command is for)
        return
    console = make_console()
    for line in draw_context(view, console):
        console.print(line)


def draw_context(view: ContextView, console: Console) -> Iterator[RenderableType]:
    """The view for a terminal."""
    plain, width = is_plain(console), min(console.width, _WIDEST)
    yield _title(view)
    yield _used(view, width, plain=plain)
    parts = budget_parts(view.sections, view.tools + view.reply, view.free)
    yield bar(parts, plain=plain).text(width)
    yield tick_line(view.fold_at / view.allowed, width, plain=plain)
    yield legend(parts, plain=plain)
    yield from _facts(view)
    if view.biggest:
        rows = [
            (f"{item.tokens:,}", str(item.seq or "-"), item.section, item.label, item.text)
            for item in view.biggest
        ]
        yield Text()
        yield columns(console, ("tokens", "seq", "section", "biggest", "text"), rows, wide="text")


def _title(view: ContextView) -> Text:
    window = f" · {label('window')} {view.window:,}" if view.window else ""
    reserve = f" ({label('reserve')} {view.reserve:.0%})" if view.window else ""
    title = Text(printable(view.conversation), "bold", overflow="fold")
    title.append(
        f" · {view.counter}{window} · {label('budget')} {view.allowed:,}{reserve}", "not bold dim"
    )
    return title


def _used(view: ContextView, width: int, *, plain: bool) -> Text:
    share = view.tokens / view.allowed
    line = Text(f"{label('used')} ", overflow="fold")
    line.append(f"{view.tokens:,} ({share:.0%})", band(share))
    line.append(f" {view.certainty}", "dim")
    if view.delta is not None:
        up, down = ("+", "-") if plain else ("▲+", "▼-")
        line.append(f"  {up if view.delta >= 0 else down}{abs(view.delta):,}")
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
    if view.calls:
        told = label("the beginning stands for {calls} calls ({tokens:,} tokens)")
        text = told.format(calls=cache.calls, tokens=cache.tokens)
        if cache.broken_by:
            text += "; " + label("last break {call}: {reason}").format(
                call=cache.broken_by, reason=cache.reason
            )
        yield _fact("cache", text)
    if view.folded or view.dropped or view.shrunk:
        told = label("{folded:,} folded, {dropped:,} dropped, {shrunk:,} shrunk")
        text = told.format(folded=view.folded, dropped=view.dropped, shrunk=view.shrunk)
        reasons = "; ".join(dict.fromkeys(one.reason for one in view.left_out))
        yield _fact("left out", f"{text}{f' ({reasons})' if reasons else ''}")


def _fact(name: str, text: str) -> Text:
    return Text.assemble((f"{label(name)}  ", "bold"), text, overflow="fold")
