"""Bar charts of calls as SVG, rendered on the server: one prompt as a bar, many as a timeline, few as sparklines.

Colours come from classes of the style sheet, so one drawing serves dark and light mode; every bar has a title with its
figures, for tooltips and screen readers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from turnfold.inspect import CallPoint
from turnfold.service.inspector.html import Element, Node, tag
from turnfold.service.inspector.labels import PageLabels
from turnfold.window import Section

__all__ = (
    "PARTS",
    "breaks_cache",
    "budget_bar",
    "has_new_checkpoint",
    "legend",
    "lost_from_cache",
    "mark_legend",
    "parts_of",
    "sparks",
    "timeline",
)


PARTS: Final = ("tools", "system", "summary", "window", "tail", "turn", "reply opening")
"""Parts of a prompt in the order in which they are sent."""
_HEIGHT: Final = 220
_TOP: Final = 24
_LOST: Final = 14
"""Height of the mark under a call that shares no prefix with the previous call; in pixels, as all sizes here."""
_AXIS: Final = 60
"""Width of the axis on the left, in pixels."""
_NUMBERS: Final = 16
"""Height of the line with the numbers of calls, in pixels."""
_EVERY: Final = 8
"""Divisor: one in this many calls has its number written under its bar."""
_SMALLEST_CACHED: Final = 1_024
"""Tokens below which providers cache no prompt."""
_CACHE_STEP: Final = 128
"""Step, in tokens, in which providers cache the beginning of a prompt."""
_BAR: Final = 14
_GAP: Final = 4
_WIDTH: Final = 1000
_FREE: Final = "free"


def parts_of(call: CallPoint) -> dict[str, int]:
    """Return the tokens of each part of a call's prompt, by the names in `PARTS`."""
    amounts = {"tools": call.tools, "reply opening": call.reply, **call.sections}
    return {name: amounts.get(name, 0) for name in PARTS}


def _part_class(name: str) -> str:
    return f"part-{name.replace(' ', '-')}"


def has_new_checkpoint(before: CallPoint | None, call: CallPoint) -> bool:
    """Return True if a checkpoint (summary of folded entries) was stored between two calls."""
    return before is not None and before.checkpoint != call.checkpoint


def breaks_cache(before: CallPoint | None, call: CallPoint) -> bool:
    """Return True if a call moved the window, so that the provider's cache of the previous prompt is of less use."""
    return before is not None and call.moved


def lost_from_cache(before: CallPoint | None, call: CallPoint) -> int:
    """Return the tokens of the previous prompt that the provider cached and this call does not reuse.

    Returns 0 if none are lost, if the previous prompt was too short to be cached, or if no more is lost than with every
    new question, which changes the tail (pins, rules, recalled passages) of the prompt.
    """
    if before is None or before.tokens < _SMALLEST_CACHED:
        return 0
    lost = round(before.tokens * (1 - call.kept_prefix))
    tail = before.sections.get(Section.TAIL, 0)
    usual = tail + before.sections.get(Section.TURN, 0) if tail else 0
    return lost if lost >= usual + _CACHE_STEP else 0


def budget_bar(parts: Mapping[str, int], allowed: int, words: PageLabels) -> Element:
    """Draw one prompt as a bar whose whole length is the budget, or the prompt if it exceeds the budget."""
    scale = _WIDTH / max(allowed, sum(parts.values()), 1)
    drawn: list[Node] = []
    at = 0.0
    for name, tokens in [*parts.items(), (_FREE, max(allowed - sum(parts.values()), 0))]:
        if tokens > 0:
            title = tag("title", f"{words.known(name)}: {tokens:,}")
            wide = tokens * scale
            drawn.append(
                tag("rect", title, class_=_part_class(name), x=f"{at:.2f}", y=0, width=f"{wide:.2f}", height=20,
                    data_part=name, data_tokens=tokens)
            )  # fmt: skip
            at += wide
    return tag(
        "svg",
        drawn,
        class_="bar",
        viewBox=f"0 0 {_WIDTH} 20",
        preserveAspectRatio="none",
        role="img",
        aria_label=words("{allowed:,} tokens allowed", allowed=allowed),
    )


def legend(parts: Mapping[str, int], words: PageLabels, *, free: int | None = None) -> Element:
    """Return the legend of a prompt's bar: the colour, name and tokens of each part."""
    named = {**parts, _FREE: free} if free is not None else dict(parts)
    return tag(
        "ul",
        [
            tag(
                "li",
                tag("span", class_=f"key {_part_class(name)}"),
                f" {words.known(name)} {tokens:,}",
            )
            for name, tokens in named.items()
            if tokens
        ],
        class_="legend",
    )


def mark_legend(words: PageLabels) -> Element:
    """Return the legend of a timeline's symbols: checkpoints (summaries), cuts and cache breaks."""
    marks = (
        ("◆", "checkpoint", "a fold: a new summary replaces older turns"),
        ("✕", "cut", "the window moved without a fold"),
        (
            "▬",
            "cache",
            "cache break: more than tail and newest turn, which change with each question, is paid again",
        ),
        ("╌", "line", "the budget"),
    )
    return tag(
        "ul",
        [
            tag("li", tag("span", sign, class_=f"sign-{kind}"), " ", words(label))
            for sign, kind, label in marks
        ],
        class_="legend marks",
    )


def sparks(calls: Sequence[CallPoint], words: PageLabels) -> Element | str:
    """Draw a sparkline of the newest calls: tokens of each as a share of its budget."""
    if not calls:
        return ""
    drawn: list[Node] = []
    before: CallPoint | None = None
    for at, call in enumerate(calls):
        share = min(call.tokens / call.allowed, 1.0) if call.allowed else 0.0
        kind = "spark landed" if has_new_checkpoint(before, call) else "spark"
        drawn.append(
            tag("rect", class_=kind, x=at * 5, y=f"{18 - 18 * share:.1f}", width=4, height=f"{18 * share:.1f}")
        )  # fmt: skip
        before = call
    last = calls[-1]
    wide = len(calls) * 5
    label = f"{words('used')} {last.tokens:,} / {last.allowed:,}"
    return tag("svg", tag("title", label), drawn, class_="sparks", viewBox=f"0 0 {wide} 18", width=wide, height=18,
               role="img", aria_label=label)  # fmt: skip


def timeline(calls: Sequence[CallPoint], words: PageLabels, link: Mapping[str, str]) -> Element:
    """Draw one bar per call, its budget as a dashed line, and symbols for checkpoints, cuts and cache breaks."""
    highest = max((max(call.allowed, call.tokens) for call in calls), default=1)
    scale = (_HEIGHT - _TOP) / max(highest, 1)
    step = _BAR + _GAP
    wide = max(len(calls) * step, step)
    drawn: list[Node] = list(_axis(highest, scale, wide))
    before: CallPoint | None = None
    for index, call in enumerate(calls):
        x = index * step
        if index % _EVERY == 0:
            at = _HEIGHT + _LOST + _NUMBERS
            drawn.append(tag("text", f"{call.number:,}", class_="axis-label", x=x, y=at))
        bars = tag(
            "g",
            tag("title", _call_label(call, words)),
            _stack(call, x, scale),
            class_="call",
            data_call=call.call,
        )
        drawn.append(tag("a", bars, href=link[call.call], aria_label=_call_label(call, words)))
        y = _HEIGHT - call.allowed * scale
        drawn.append(
            tag("line", class_="budget", x1=x - _GAP / 2, x2=x + _BAR + _GAP / 2, y1=f"{y:.1f}", y2=f"{y:.1f}")
        )  # fmt: skip
        drawn.extend(_marks(before, call, x, words))
        before = call
    high = _HEIGHT + _LOST + _NUMBERS + 4
    return tag(
        "svg",
        drawn,
        class_="timeline",
        viewBox=f"{-_AXIS} 0 {wide + _AXIS} {high}",
        width=wide + _AXIS,
        height=high,
        role="group",
        aria_label=words("timeline"),
    )


def _axis(highest: int, scale: float, wide: int) -> Iterator[Node]:
    """Draw the axis: lines at zero, half and all of the largest budget, with their tokens."""
    for tokens in (0, highest // 2, highest):
        y = f"{_HEIGHT - tokens * scale:.1f}"
        yield tag("line", class_="axis", x1=-_GAP, x2=wide, y1=y, y2=y)
        yield tag("text", f"{tokens:,}", class_="axis-label end", x=-_GAP * 2, y=y)


def _stack(call: CallPoint, x: int, scale: float) -> Iterator[Node]:
    top = float(_HEIGHT)
    for name, tokens in parts_of(call).items():
        if tokens > 0:
            high = tokens * scale
            top -= high
            yield tag("rect", class_=_part_class(name), x=x, y=f"{top:.1f}", width=_BAR, height=f"{high:.1f}",
                      data_part=name, data_tokens=tokens)  # fmt: skip


def _marks(before: CallPoint | None, call: CallPoint, x: int, words: PageLabels) -> Iterator[Node]:
    middle = x + _BAR / 2
    if has_new_checkpoint(before, call):
        path = f"M{middle} 0 l5 5 l-5 5 l-5 -5 z"
        title = tag("title", f"{words('checkpoint')} {call.checkpoint}")
        yield tag("path", title, class_="mark-checkpoint", d=path, data_mark="checkpoint")
    elif breaks_cache(before, call):
        title = tag("title", words("cut"))
        path = f"M{x} 1 l{_BAR} 8 M{x} 9 l{_BAR} -8"
        yield tag("path", title, class_="mark-cut", d=path, data_mark="cut")
    if lost := lost_from_cache(before, call):
        title = tag(
            "title", words("cache break: {tokens:,} tokens are paid for again", tokens=lost)
        )
        high = f"{max((1 - call.kept_prefix) * _LOST, 1):.1f}"
        yield tag(
            "rect",
            title,
            class_="mark-cache",
            x=x,
            y=_HEIGHT + 3,
            width=_BAR,
            height=high,
            data_mark="cache",
        )


def _call_label(call: CallPoint, words: PageLabels) -> str:
    parts = ", ".join(f"{words.known(name)} {n:,}" for name, n in parts_of(call).items() if n)
    name = words("call {number:,}", number=call.number)
    return f"{name}: {call.tokens:,} / {call.allowed:,} ({parts})"
