"""Renders findings (remembered tool results) as text for a model.

Tables of contents come first, then results by relevance, each indented under a heading with the call that returned it,
so that no line of a result can be mistaken for a heading. The token limit applies to the text as it is sent. As many
results as fit are shown whole; if there are several, each first gets at most half of the room. A cut result ends at a
sentence or row, with a note that it was cut. A last line has the number of results that are not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo

from turnfold._lazy_loading import late_pattern
from turnfold.findings.excerpts import (
    LABELS,
    Language,
    language_of,
    outline,
    pick_excerpt,
    shorten_outline,
    split_json_rows,
)
from turnfold.records import TOC, Finding
from turnfold.text import (
    clip,
    fence,
    indented_whole,
    local_time,
    one_line,
    search_terms,
    time_text,
)

__all__ = (
    "FindingItem",
    "escape_headings",
    "findings_text",
    "items_text",
    "served_text",
    "shown_whole",
)


_LINE_ENDS = 2
"""Tokens counted for the line breaks after the heading and after the content of one remembered result."""
_SMALLEST = 24
"""Fewest tokens that a shortened result may get; a result with less room is left out."""
_HEADING_LIKE = late_pattern(
    "(?:(?<=[\\n\\r\\x0b\\x0c\\x1c-\\x1e\\x85\\u2028\\u2029])|^)(?=#|（另有|\\([0-9]+ more )"
)
"""Matches the start of a line that could be read as a heading, or as the note about left out items."""
_LONGEST_ARGUMENTS = 160
"""Most characters of a tool call's arguments in the heading of its result; longer ones are cut and end in `…`."""


@dataclass(frozen=True, slots=True)
class FindingItem:
    """A tool result or other content to show under a heading."""

    label: str
    """Text of the item's heading."""
    content: object
    """The text to show; for a table of contents it may be a JSON value."""
    toc: bool = False


def served_text(finding: Finding, *, zone: tzinfo = UTC) -> str:
    """Return the text of a remembered tool result.

    Its first line says that it comes from memory, and from which turn.
    The time of the call is written in the time `zone`.
    """
    labels = LABELS[language_of([finding.content])]
    first = labels.served.format(
        turn=finding.turn, time=time_text(local_time(finding.created, zone))
    )
    return f"{first}\n{finding.content}"


def findings_text(
    findings: Sequence[Finding],
    *,
    tokens: int,
    count: Callable[[str], int],
    measure: Callable[[str], int],
    language: Language | None = None,
    question: str = "",
) -> str:
    """Return findings (remembered tool results) as text for a prompt, fenced (between tags that mark it as data).

    As many as fit `tokens` are shown; the result is empty if none fits.

    `findings` must be sorted, best first. `count` counts the tokens of a text, `measure` those of the whole block as it
    is sent. The `question` decides which parts of a long result are shown.
    """
    chosen = language or language_of(finding.content for finding in findings)
    note, place = LABELS[chosen].note, LABELS[chosen].place

    def fenced(text: str) -> str:
        return fence(text, label="findings", note=note)

    items = [FindingItem(_label(each, place), each.content, each.kind == TOC) for each in findings]
    return items_text(
        items,
        tokens=tokens,
        count=count,
        measure=measure,
        language=chosen,
        wrap=fenced,
        terms=search_terms(question),
    )


def shown_whole(findings: Sequence[Finding], block: str) -> list[Finding]:
    """Return the findings (remembered tool results) whose whole content is in `block`, made by `findings_text`."""
    return [
        each
        for each in findings
        if any(
            f"] {one_line(_label(each, labels.place))}\n"
            f"{indented_whole(_whole(each.content, toc=each.kind == TOC))}\n" in block
            for labels in LABELS.values()
        )
    ]


def _label(finding: Finding, place: str) -> str:
    arguments = finding.arguments
    if len(arguments) > _LONGEST_ARGUMENTS:
        arguments = f"{arguments[:_LONGEST_ARGUMENTS]}…"
    return f"{finding.tool} {arguments} · {place.format(turn=finding.turn)}"


def _whole(content: object, *, toc: bool) -> str:
    return outline(content) if toc else split_json_rows(str(content))


def items_text(
    items: Sequence[FindingItem],
    *,
    tokens: int,
    count: Callable[[str], int],
    measure: Callable[[str], int],
    language: Language,
    wrap: Callable[[str], str],
    terms: Collection[str] = (),
    layout: Callable[[str], str] = indented_whole,
) -> str:
    """Render as many results as fit `tokens` under headings; the result is empty if none fits.

    `count` counts the tokens of a text. `wrap` makes the whole block, whose tokens `measure` counts; `layout` formats
    the content below a heading. `language` is that of the headings and notes. Parts of a long result that match the
    `terms` are preferred.
    """
    if not items:
        return ""
    page = _Page(language, count, wrap, terms, len(items), layout)
    page.fill(items, tokens - measure(page.frame(items)))
    while page.shown and measure(page.text()) > tokens:
        page.shown.pop()
    return page.text() if page.shown else ""


@dataclass(slots=True)
class _Slot:
    """A finding (remembered tool result) to show, and the tokens that it may use."""

    at: int
    """Index of the item in the list of items."""
    item: FindingItem
    heading: int
    """Tokens of the item's heading."""
    cost: int
    """Tokens of the heading and the whole content of the item."""
    room: int
    """Tokens that heading and content of the item may use."""


@dataclass(slots=True)
class _Page:
    """Builds the text of findings (remembered tool results): chooses results, shortens them and joins them."""

    language: Language
    count: Callable[[str], int]
    wrap: Callable[[str], str]
    terms: Collection[str]
    total: int
    """Number of items on the page, shown or not."""
    layout: Callable[[str], str]
    shown: list[tuple[FindingItem, str]] = field(default_factory=list[tuple[FindingItem, str]])

    def frame(self, items: Sequence[FindingItem]) -> str:
        """Return the longest text that may surround the results: headings, and the line about results left out."""
        labels = LABELS[self.language]
        headings = {labels.contents if item.toc else labels.found for item in items}
        return self.wrap("\n".join([*sorted(headings), labels.more.format(count=self.total)]))

    def fill(self, items: Sequence[FindingItem], room: int) -> None:
        """Add the results that fit `room` tokens, shortened where needed."""
        for slot in self._allocate(items, room):
            text = self._shorten(slot.item, slot.room - slot.heading)
            if text and text != LABELS[self.language].cut:
                self.shown.append((slot.item, text))

    def _allocate(self, items: Sequence[FindingItem], room: int) -> list[_Slot]:
        """Divide the room among the results, best first: as many as fit are shown whole, the others are shortened."""
        most = room // 2 if len(items) > 1 else room
        slots: list[_Slot] = []
        waiting: list[_Slot] = []
        for at, item in enumerate(items):
            heading = self.count(_heading(item, at + 1)) + _LINE_ENDS
            if room - heading < 1:
                break
            cost = heading + self._cost(item, room - heading)
            slot = _Slot(at, item, heading, cost, min(cost, max(most, heading)))
            if slot.room <= room:
                slots.append(slot)
                room -= slot.room
            else:
                waiting.append(slot)
        for slot in slots:
            more = min(slot.cost - slot.room, room)
            slot.room += more
            room -= more
        if waiting and room - waiting[0].heading >= _SMALLEST:
            waiting[0].room = room
            slots.append(waiting[0])
        return sorted(slots, key=lambda slot: slot.at)

    def _cost(self, item: FindingItem, limit: int) -> int:
        """Return the tokens of a whole result; `limit + 1` if it has more than `limit`."""
        text = self.layout(_whole(item.content, toc=item.toc))
        whole = len(clip(text, limit, self.count)) == len(text)
        return self.count(text) if whole else limit + 1

    def _shorten(self, item: FindingItem, limit: int) -> str:
        def count(text: str) -> int:
            return self.count(self.layout(text))

        if item.toc:
            return shorten_outline(
                item.content, limit, count, language=self.language, terms=self.terms
            ).text
        text, mark = split_json_rows(str(item.content)), LABELS[self.language].cut
        return pick_excerpt(text, limit, count, mark=mark, terms=self.terms)

    def text(self) -> str:
        """Return the results added so far as text, with the number of omitted results."""
        labels = LABELS[self.language]
        lines: list[str] = []
        section = ""
        for number, (item, text) in enumerate(self.shown, 1):
            heading = labels.contents if item.toc else labels.found
            if heading != section:
                lines.append(heading)
            section = heading
            lines += [_heading(item, number), self.layout(text)]
        if left := self.total - len(self.shown):
            lines.append(labels.more.format(count=left))
        return self.wrap("\n".join(lines))


def escape_headings(text: str) -> str:
    """Indent the lines of a text that a model could mistake for a heading or for the line on omitted items."""
    return _HEADING_LIKE.sub(" ", text)


def _heading(item: FindingItem, number: int) -> str:
    return f"## [{number}] {one_line(item.label)}"
