"""Findings as a model is shown them.

Tables of contents first, then results by relevance, each under a line with the call that gave it and indented, so that
no line of a result can pass for the heading of another. What the model may
spend on them is counted on what is really sent. As many as fit are shown whole, but none takes more than half of the
room from the others; what is cut ends at a boundary and says so, and what is not shown is counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from turnfold.recall.findings.cutting import in_rows
from turnfold.recall.findings.outline import Shortened, outline, shortened_outline
from turnfold.recall.findings.picking import pick
from turnfold.recall.findings.wording import WORDS, Language, language_of, time_text
from turnfold.recall.terms import asked_terms
from turnfold.records.findings import TOC, Finding
from turnfold.tokens import clip
from turnfold.window import fence, indented_whole, one_line

__all__ = ("Item", "at_the_margin", "findings_text", "items_text", "served_text", "shown_whole")

_LINE_ENDS = 2
"""Tokens the ends of a heading and of what stands under it may take."""
_SMALLEST = 24
"""Tokens below which a piece of an item is not worth its heading."""
_LIKE_OURS = re.compile(
    "(?:(?<=[\\n\\r\\x0b\\x0c\\x1c-\\x1e\\x85\\u2028\\u2029])|^)(?=#|（另有|\\([0-9]+ more )"
)
"""Where a line begins that may be read as a heading, or as a remark of what is missing."""
_LONGEST_ARGUMENTS = 160
"""Characters of the arguments in a heading; the key is the whole of them, the heading need only be recognised."""


@dataclass(frozen=True, slots=True)
class Item:
    """Something to show under a heading."""

    label: str
    content: object
    """Text; a table of contents may be a value of JSON."""
    toc: bool = False


def served_text(finding: Finding) -> str:
    """A result given again: the first line says that it is, and where it comes from."""
    words = WORDS[language_of([finding.content])]
    first = words.served.format(turn=finding.turn, time=time_text(finding.created))
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
    """As many of the findings, best first, as `measure` of the block allows for `tokens`; empty where none fits.

    `count` prices a text, `measure` everything that is sent for a block: the findings in a fence that nothing in them
    can close. `findings` are ranked; the `question` decides what is shown of one that must be cut.
    """
    spoken = language or language_of(finding.content for finding in findings)
    note, place = WORDS[spoken].note, WORDS[spoken].place

    def fenced(text: str) -> str:
        return fence(text, label="findings", note=note)

    items = [Item(_label(each, place), each.content, each.kind == TOC) for each in findings]
    return items_text(
        items,
        tokens=tokens,
        count=count,
        measure=measure,
        language=spoken,
        wrap=fenced,
        asked=asked_terms(question),
    )


def shown_whole(findings: Sequence[Finding], block: str) -> list[Finding]:
    """Those of the findings that a block of `findings_text` shows word for word, so that nobody shows them again."""
    return [
        each
        for each in findings
        if any(
            f"] {one_line(_label(each, words.place))}\n"
            f"{indented_whole(_whole(each.content, toc=each.kind == TOC))}\n" in block
            for words in WORDS.values()
        )
    ]


def _label(finding: Finding, place: str) -> str:
    return f"{finding.tool} {_short(finding.arguments)} · {place.format(turn=finding.turn)}"


def _whole(content: object, *, toc: bool) -> str:
    return outline(content) if toc else in_rows(str(content))


def _short(arguments: str) -> str:
    if len(arguments) <= _LONGEST_ARGUMENTS:
        return arguments
    return f"{arguments[:_LONGEST_ARGUMENTS]}…"


def items_text(
    items: Sequence[Item],
    *,
    tokens: int,
    count: Callable[[str], int],
    measure: Callable[[str], int],
    language: Language,
    wrap: Callable[[str], str],
    asked: Collection[str] = (),
    placed: Callable[[str], str] = indented_whole,
) -> str:
    """The same for anything with a heading; `wrap` makes of the text what `measure` is asked about.

    `placed` is a content as it stands below its heading.
    """
    if not items:
        return ""
    page = _Page(language, count, wrap, asked, len(items), placed)
    page.fill(items, tokens - measure(page.frame(items)))
    while page.shown and measure(page.text()) > tokens:
        page.shown.pop()
    return page.text() if page.shown else ""


@dataclass(slots=True)
class _Place:
    """An item, and what may be spent on it."""

    at: int
    item: Item
    heading: int
    cost: int
    """Of all of it, its heading included; more than there is where it is very long."""
    room: int


@dataclass(slots=True)
class _Page:
    language: Language
    count: Callable[[str], int]
    wrap: Callable[[str], str]
    asked: Collection[str]
    known: int
    """How many items there are, shown or not."""
    placed: Callable[[str], str]
    shown: list[tuple[Item, str]] = field(default_factory=list[tuple[Item, str]])

    def frame(self, items: Sequence[Item]) -> str:
        """Everything that is written beside the items at most."""
        words = WORDS[self.language]
        headings = {words.contents if item.toc else words.found for item in items}
        return self.wrap("\n".join([*sorted(headings), words.more.format(count=self.known)]))

    def fill(self, items: Sequence[Item], room: int) -> None:
        """Show what is worth it in at most `room` tokens."""
        for place in self._places(items, room):
            text = self._shortened(place.item, place.room - place.heading).text
            if text and text != WORDS[self.language].cut:
                self.shown.append((place.item, text))

    def _places(self, items: Sequence[Item], room: int) -> list[_Place]:
        """Who gets what: as many whole as fit, the best first; then what is left goes to those that were cut."""
        most = room // 2 if len(items) > 1 else room
        places: list[_Place] = []
        waiting: list[_Place] = []
        for at, item in enumerate(items):
            heading = self.count(_heading(item, at + 1)) + _LINE_ENDS
            if room - heading < 1:
                break
            cost = heading + self._cost(item, room - heading)
            place = _Place(at, item, heading, cost, min(cost, max(most, heading)))
            if place.room <= room:
                places.append(place)
                room -= place.room
            else:
                waiting.append(place)
        for place in places:
            more = min(place.cost - place.room, room)
            place.room += more
            room -= more
        if waiting and room - waiting[0].heading >= _SMALLEST:
            waiting[0].room = room
            places.append(waiting[0])
        return sorted(places, key=lambda place: place.at)

    def _cost(self, item: Item, limit: int) -> int:
        """What all of an item costs, or more than the limit; what lies far beyond it is not counted."""
        text = self.placed(_whole(item.content, toc=item.toc))
        whole = len(clip(text, limit, self.count)) == len(text)
        return self.count(text) if whole else limit + 1

    def _price(self, text: str) -> int:
        """Tokens of a text as it stands under its heading."""
        return self.count(self.placed(text))

    def _shortened(self, item: Item, limit: int) -> Shortened:
        if item.toc:
            return shortened_outline(
                item.content, limit, self._price, language=self.language, asked=self.asked
            )
        text = in_rows(str(item.content))
        mark = WORDS[self.language].cut
        short = pick(text, limit, self._price, mark=mark, asked=self.asked)
        return Shortened(short, short == text)

    def text(self) -> str:
        """Everything shown so far, and how many are left out."""
        words = WORDS[self.language]
        lines: list[str] = []
        section = ""
        for number, (item, text) in enumerate(self.shown, 1):
            heading = words.contents if item.toc else words.found
            if heading != section:
                lines.append(heading)
            section = heading
            lines += [_heading(item, number), self.placed(text)]
        if left := self.known - len(self.shown):
            lines.append(words.more.format(count=left))
        return self.wrap("\n".join(lines))


def at_the_margin(text: str) -> str:
    """A content that is not indented but for the lines that read like one of ours."""
    return _LIKE_OURS.sub(" ", text)


def _heading(item: Item, number: int) -> str:
    return f"## [{number}] {one_line(item.label)}"
