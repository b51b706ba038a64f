"""What was brought back, within a number of tokens, and told what is missing.

A recalled workspace may be a hundred times what a prompt holds. Each part gets an even share, what one does not need
goes to the others, and whoever is cut says which lines are not shown and how to ask for them. The last word has the
count of the finished text, headings and remarks included: whatever was estimated on the way, the limit holds.

Files come back word for word, indentation included, so a heading is told from a line of a file by the mark it begins
with, which no text that is shown contains: no file can hold what reads like another file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from turnfold.errors import InvalidOption
from turnfold.recall.snapshots.diffing import ItemChange
from turnfold.recall.terms import terms_of
from turnfold.tokens import clip
from turnfold.window import fence_mark, one_line

__all__ = ("FEWEST_TOKENS", "Part", "focused", "show_changes", "show_parts")

FEWEST_TOKENS: Final = 64
"""What the remark about a cut needs."""
_BEFORE: Final = 3
"""Lines shown before the one that matches."""
_MOST_WEIGHED: Final = 400_000
"""Characters that are weighed line by line where no line holds a word as it was asked for."""
_FRAGMENT: Final = 4
"""Characters of a term that survive its grammatical ending."""
_WORTH_SHOWING: Final = 48
"""Tokens of a part below which it is rather named than shown."""
_HEADING_PART: Final = 6
"""One in so many tokens may be a part's heading."""
_MORE: Final = 32
"""Tokens that may be spent on saying what is not shown at all."""
_Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Part:
    """A text to be shown under a heading."""

    heading: str
    text: str
    first: int = 1
    """The line of the whole that `text` begins with."""
    lines: int = 0
    """Lines of the whole; 0 where its lines cannot be asked for."""
    ask: tuple[tuple[str, object], ...] = ()
    """The arguments that bring the whole back; lines are added to them."""
    begun: bool = False
    """Whether the lines before `first` were left out without having been asked to be."""
    foremost: bool = False
    """Whether it is shown whole before others get a share."""
    mark: str = ""
    """What headings and remarks begin with; set where parts are shown."""


def show_parts(
    parts: Sequence[Part], *, tokens: int, count: _Count, remarks: Sequence[str] = ()
) -> tuple[str, bool]:
    """The parts in at most `tokens`, remarks last; and whether anything was left out."""
    if tokens < FEWEST_TOKENS:
        raise InvalidOption(f"tokens={tokens} is too few to show anything; give {FEWEST_TOKENS}")
    room = tokens
    mark = fence_mark("\n".join(text for part in parts for text in (part.heading, part.text)))
    parts = [_headed(part, mark, tokens // _HEADING_PART, count) for part in parts]
    remarks = [f"{mark} {one_line(remark)}" if parts else one_line(remark) for remark in remarks]
    for _ in range(8):
        text, cut = _shown(parts, remarks, room, count)
        over = count(text) - tokens
        if over <= 0:
            return text, cut
        room -= over + 8
        if room < FEWEST_TOKENS // 2:
            break
    return clip("\n".join((*remarks, *(part.heading for part in parts))), tokens, count), True


def _headed(part: Part, mark: str, tokens: int, count: _Count) -> Part:
    """The part under a heading of one line, with the mark, that leaves room for it."""
    heading = one_line(part.heading)
    short = clip(heading, tokens, count)
    return replace(
        part, heading=f"{mark} {heading if short == heading else f'{short}…'}", mark=mark
    )


def _shown(
    parts: Sequence[Part], remarks: Sequence[str], tokens: int, count: _Count
) -> tuple[str, bool]:
    room = tokens - sum(count(remark) + 1 for remark in remarks)
    named = 0
    for part in parts:
        least = count(part.heading) + 3 + min(len(part.text) // 4, _WORTH_SHOWING)
        if room < least and named:
            break
        room -= least
        named += 1
    left = [part.heading.removeprefix(f"{part.mark} ") for part in parts[named:]]
    headings = sum(count(part.heading) + 3 for part in parts[:named])
    spare = tokens - headings - sum(count(remark) + 1 for remark in remarks)
    shown, cut = _filled(parts[:named], max(spare - (_MORE if left else 0), 0), count)
    if left:
        cut = True
        shown.append(
            f"{parts[0].mark} [{len(left):,} more are not shown, the next is {left[0]}: ask for fewer at once]"
        )
    return "\n\n".join([*shown, *remarks]), cut


def _filled(parts: Sequence[Part], room: int, count: _Count) -> tuple[list[str], bool]:
    """Every part with its share of the room, the foremost with all it needs; what one leaves goes to the rest."""
    bodies: dict[int, str] = {}
    cut = False
    order = sorted(range(len(parts)), key=lambda at: (not parts[at].foremost, len(parts[at].text)))
    for served, at in enumerate(order):
        share = room if parts[at].foremost else room // (len(parts) - served)
        body, whole = _body(parts[at], share, count)
        bodies[at] = body
        cut = cut or not whole
        room -= count(body) + 1
    return [f"{part.heading}\n{bodies[at]}".rstrip() for at, part in enumerate(parts)], cut


def _body(part: Part, share: int, count: _Count) -> tuple[str, bool]:
    """What of a part is shown for its share, and whether that is all of it."""
    opening = f"{_remark(part, 1, part.first - 1)}\n" if part.begun and part.first > 1 else ""
    opened = count(opening) + 2 if opening else 0
    fitting = clip(part.text, max(share - opened, 0), count)
    if len(fitting) == len(part.text):
        return opening + fitting, not opening
    last = max(part.lines, part.first + part.text.count("\n"))
    longest = opened + count(_remark(part, last, last)) + 4
    fitting = clip(part.text, max(share - longest, 0), count)
    at_line = fitting.rfind("\n")
    shown = fitting[: at_line + 1] if at_line > len(fitting) // 2 else fitting
    remark = _remark(part, part.first + shown.count("\n"), last)
    body = f"{opening}{shown.rstrip()}\n{remark}".lstrip()
    return (body if count(body) <= share else clip(remark, max(share, 0), count)), False


def _remark(part: Part, first: int, last: int) -> str:
    """How to ask for lines that are not shown."""
    if not part.lines:
        return f"{part.mark} [cut here]"
    asked = one_line(json.dumps({**dict(part.ask), "lines": [first, last]}, ensure_ascii=False))
    return f"{part.mark} [lines {first:,} to {last:,} are not shown here; recall_context({asked}) shows them]"


def focused(text: str, terms: Sequence[str]) -> tuple[int, bool]:
    """The line (from 1) that a text is best shown from, for these terms, and whether any line holds one."""
    wanted = frozenset(terms)
    fragments = tuple({term[:_FRAGMENT] for term in wanted})
    lines = text.split("\n")
    likely = [
        at
        for at, line in enumerate(lines)
        if any(fragment in folded for folded in (line.casefold(),) for fragment in fragments)
    ]
    if not likely and len(text) <= _MOST_WEIGHED:
        likely = list(range(len(lines)))  # another script or width: only the terms can tell
    best, most = 0, 0
    for at in likely:
        held = len(wanted.intersection(terms_of(lines[at][:_MOST_WEIGHED])))
        if held > most:
            best, most = at, held
        if most == len(wanted):
            break
    return max(best - _BEFORE, 0) + 1, most > 0


def show_changes(
    title: str, changes: Sequence[ItemChange], state: Sequence[str], *, tokens: int, count: _Count
) -> tuple[str, bool]:
    """What changed, in at most `tokens`: every name first, then as much of the line diffs as fits."""
    if not changes and not state:
        return clip(f"{title}: no change", tokens, count), False
    names = [
        f"{change.change} {change.path or 'the context'}{_sizes(change)}" for change in changes
    ]
    listed = "\n".join(map(one_line, [*names, *state]))
    parts = [Part(title, listed, foremost=True)]
    parts += [
        Part(f"== {change.path or 'the context'}", change.patch)
        for change in changes
        if change.patch
    ]
    return show_parts(parts, tokens=tokens, count=count)


def _sizes(change: ItemChange) -> str:
    return f" ({change.sizes[0]:,} -> {change.sizes[1]:,} bytes, not text)" if change.binary else ""
