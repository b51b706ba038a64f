"""The budget bar: sections side by side, a tick where folding is due, and a line of how it came to this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from turnfold.cli.demo.bars import Bar, Legend, Part
from turnfold.cli.words import label
from turnfold.memory.inspecting import CallPoint

__all__ = ("band", "bar", "budget_parts", "legend", "sparkline", "tick_line")

_INKS = {
    "tools": ("t", "bright_black"),
    "system": ("s", "blue"),
    "summary": ("#", "magenta"),
    "window": ("=", "cyan"),
    "tail": ("!", "yellow"),
    "turn": ("+", "green"),
}
_HEIGHTS = "▁▂▃▄▅▆▇█"
_ASCII_HEIGHTS = "_.-:=+*#"
_BANDS = ((0.5, "green"), (0.7, "yellow"), (0.9, "dark_orange"))


def band(share: float) -> str:
    """The colour of a fill."""
    return next((colour for limit, colour in _BANDS if share < limit), "red")


def budget_parts(sections: Mapping[str, int], tools: int, free: int) -> tuple[Part, ...]:
    """The parts of a prompt in the order they are sent, and what is free."""
    amounts = {"tools": tools, **sections}
    parts = [Part(label(name), amounts.get(name, 0), *ink) for name, ink in _INKS.items()]
    return (*parts, Part(label("free"), max(free, 0), ".", "bright_black", solid=False))


def legend(parts: Sequence[Part], *, plain: bool) -> Legend:
    """What the parts are, those that are there."""
    return Legend(tuple(part for part in parts if part.amount), plain)


def tick_line(share: float, width: int, *, plain: bool) -> Text:
    """A line under the bar that points at a share of it."""
    said = f"{share:.0%}"
    at = min(int(share * width), width - 1)
    mark = "^" if plain else "▲"
    before = at + 1 + len(said) > width
    text = f"{said}{mark}" if before else f"{mark}{said}"
    return Text(" " * (at - len(said) if before else at) + text, "dim", no_wrap=True)


def sparkline(calls: Sequence[CallPoint], *, width: int, plain: bool) -> str:
    """The fill of the newest calls, with a mark where a checkpoint landed."""
    heights = _ASCII_HEIGHTS if plain else _HEIGHTS
    drawn: list[str] = []
    before: CallPoint | None = None
    for call in calls:
        if before is not None and call.checkpoint != before.checkpoint:
            drawn.append("|" if plain else "⟲")
        share = min(call.tokens / call.allowed, 1.0) if call.allowed else 0.0
        drawn.append(heights[min(int(share * len(heights)), len(heights) - 1)])
        before = call
    return "".join(drawn[-width:]) if width > 0 else ""


def bar(parts: Sequence[Part], *, plain: bool) -> Bar:
    """The bar itself."""
    return Bar(tuple(parts), plain)
