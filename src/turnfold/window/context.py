"""What one call sends, and the receipt that accounts for it.

A context is built in five sections, most stable first, so that a provider's prompt cache keeps its prefix: system,
summary, the window before the newest turn, the tail, the newest turn. The receipt says what each section costs, what
became of everything that is not sent verbatim, and how much of the previous call's prompt this one repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

from turnfold.budget import Budget
from turnfold.records import Message
from turnfold.tokens import Certainty, TokenCounter, weakest
from turnfold.window.trusted import Trusted

__all__ = (
    "Anchor",
    "Changed",
    "Context",
    "Fate",
    "Outcome",
    "Receipt",
    "Section",
    "Wired",
    "shared_messages",
)


def shared_messages(ours: tuple[Message, ...], theirs: tuple[Message, ...]) -> int:
    """How many messages at the beginning of both are the same.

    Halves are compared whole: that is done without a step of Python per message, and nearly all of two calls is shared.
    """
    same, differs = 0, min(len(ours), len(theirs)) + 1
    middle = differs - 1
    while same + 1 < differs:
        if ours[same:middle] == theirs[same:middle]:
            same = middle
        else:
            differs = middle
        middle = (same + differs) // 2
    return same


class Section(StrEnum):
    """The sections of a context, in order."""

    SYSTEM = "system"
    SUMMARY = "summary"
    WINDOW = "window"
    TAIL = "tail"
    TURN = "turn"


_SECTIONS = tuple(Section)


class Outcome(StrEnum):
    """What became of something that is not sent as it was logged."""

    FOLDED = "folded"
    """Left out; the summary stands for it."""
    DROPPED = "dropped"
    """Left out; nothing stands for it in this call. It is still in the log."""
    SHRUNK = "shrunk"
    """Sent shortened."""
    MOVED = "moved"
    """Sent with the call it answers instead of where it was logged."""
    ADDED = "added"
    """Not in the log: a placeholder for a result that never came."""


class Fate(NamedTuple):
    """What became of a stretch of the log, and why."""

    start: int
    stop: int
    """Log positions `start` up to, not including, `stop`. What has none (system, summary, tail) is -1 up to 0."""
    outcome: Outcome
    reason: str

    @property
    def messages(self) -> int:
        """How many messages it speaks of."""
        return self.stop - self.start


class Changed(NamedTuple):
    """What a provider's wire format did to parts of a context, by rule."""

    action: str
    """Converted, left out, moved or added."""
    reason: str
    times: int
    first: str
    """The first place it happened at: `messages[3].parts[0]`."""

    def __str__(self) -> str:
        return f"{self.times:,} {self.action}: {self.reason} (first {self.first})"


class Wired(NamedTuple):
    """How a context looks to the provider it was built for."""

    provider: str
    changes: tuple[Changed, ...] = ()
    """Everything the provider is not sent as it was said."""
    size: int = 0
    """Bytes of the request's body; 0 where `max_bytes` sets no limit to them."""
    held: int = 0
    """Bytes the messages themselves were held to, so that the body keeps to `max_bytes`; 0 where none were taken."""
    rebuilt: int = 0
    """How often the context was built smaller because the body was too large."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """What to remember between calls, so that every process builds the same window."""

    position: int = 0
    """Log position of the first message shown verbatim, the head of its turn aside."""
    caps: tuple[tuple[int, int], ...] = ()
    """(log position, tokens a single part may keep) of the messages shown shortened."""
    summary: str = ""
    """What stands for everything before `covered`; empty when nothing does."""
    covered: int = 0
    """Log position up to which the summary speaks."""
    reason: str = ""
    """Why the anchor is where it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The account of one context."""

    tokens: int
    """Everything counted: messages, tool schemas, reply opening."""
    allowed: int
    """Tokens the budget allows."""
    certainty: Certainty
    sections: dict[Section, int]
    """Tokens of each section."""
    tools: int
    """Tokens of the tool schemas."""
    reply: int
    """Tokens that open the answer."""
    messages: int
    """Messages sent."""
    fates: tuple[Fate, ...]
    """Everything not sent as it was logged."""
    shared: int
    """Tokens at the beginning of the prompt that the previous call sent too."""
    previous: int
    """Tokens of the previous call's messages; 0 for the first call."""
    moved: bool
    """Whether this call moved the anchor."""
    wired: Wired | None = None
    """How it looks to the provider; None where the context was built for none in particular."""

    @property
    def changes(self) -> tuple[Changed, ...]:
        """What the provider is not sent as it was said, by rule."""
        return self.wired.changes if self.wired else ()

    @property
    def prefix_share(self) -> float:
        """How much of the previous prompt this one begins with; 1.0 for the first call."""
        return self.shared / self.previous if self.previous else 1.0

    def count(self, *outcomes: Outcome) -> int:
        """How many messages met one of these fates."""
        return sum(fate.messages for fate in self.fates if fate.outcome in outcomes)

    def __str__(self) -> str:
        left_out = self.count(Outcome.DROPPED)
        folded = self.count(Outcome.FOLDED)
        shrunk = self.count(Outcome.SHRUNK)
        text = f"{self.tokens:,} of {self.allowed:,} tokens ({self.certainty}); {self.messages} messages"
        for number, word in ((folded, "folded"), (left_out, "dropped"), (shrunk, "shrunk")):
            if number or word == "dropped":
                text += f", {number:,} {word}"
        return f"{text}{_wired_text(self.wired)}" if self.wired else text


def _wired_text(wired: Wired) -> str:
    text = f"; {wired.size:,} bytes for {wired.provider}" if wired.size else ""
    text += ", built smaller for it" if wired.rebuilt else ""
    changed = sum(change.times for change in wired.changes)
    return f"{text}; {changed:,} changed for {wired.provider}" if changed else text


class Context:
    """Everything one call sends. Immutable; `receipt` accounts for it."""

    __slots__ = (
        "_known", "_receipt", "anchor", "budget", "costs", "counter", "ends", "fates", "head", "messages",
        "moved", "positions", "previous", "shared", "tokens", "tools", "wired",
    )  # fmt: skip

    def __init__(
        self,
        *,
        messages: tuple[Message, ...],
        costs: Sequence[int],
        positions: Sequence[int],
        ends: tuple[int, int, int, int],
        head: int,
        tools: int,
        budget: Budget,
        counter: TokenCounter,
        anchor: Anchor,
        fates: tuple[Fate, ...],
        moved: bool,
    ) -> None:
        self.messages = messages
        """What to send, in order."""
        self.costs = costs
        """Tokens of each message."""
        self.positions = positions
        """Log position of each message of window and newest turn, in order; -1 for a placeholder."""
        self.ends = ends
        """Index in `messages` where system, summary, window and tail end."""
        self.head = head
        """Log position of the user message shown before the anchor because its turn is still shown; -1 for none."""
        self.tools = tools
        self.budget = budget
        self.counter = counter
        self.anchor = anchor
        """What to pass to the next call."""
        self.fates = fates
        self.moved = moved
        self.tokens = sum(costs) + tools + counter.reply
        """Tokens of the whole call."""
        self.shared = 0
        self.previous = 0
        self.wired: Wired | None = None
        """How it looks to the provider it was built for; set once, when it is built."""
        self._known = Trusted()  # how far the counts of its beginning can be trusted
        self._receipt: Receipt | None = None

    def follow(self, previous: Context) -> None:
        """Measure how much of the previous call's prompt this one repeats; called once, when it is built."""
        same = shared_messages(self.messages, previous.messages)
        if previous.counter is self.counter:
            self._known = previous._known.beginning(same)
        self.shared = sum(self.costs[:same])
        self.previous = previous.tokens - previous.tools - previous.counter.reply

    def section(self, section: Section) -> tuple[Message, ...]:
        """The messages of one section."""
        at = _SECTIONS.index(section)
        edges = (0, *self.ends, len(self.messages))
        return self.messages[edges[at] : edges[at + 1]]

    @property
    def receipt(self) -> Receipt:
        """The account of this context, made when first asked for."""
        if self._receipt is None:
            self._receipt = self._account()
        return self._receipt

    def _account(self) -> Receipt:
        schemas = Certainty.BOUND if self.tools else Certainty.EXACT
        self._known = self._known.extended(self.messages, self.counter)
        return Receipt(
            tokens=self.tokens,
            allowed=self.budget.tokens,
            certainty=weakest(schemas, self.counter.certainty, self._known.certainty),
            sections=dict(zip(_SECTIONS, self._section_costs(), strict=True)),
            tools=self.tools,
            reply=self.counter.reply,
            messages=len(self.messages),
            fates=self.fates,
            shared=self.shared,
            previous=self.previous,
            moved=self.moved,
            wired=self.wired,
        )

    def _section_costs(self) -> list[int]:
        edges = (0, *self.ends, len(self.costs))
        return [sum(self.costs[first:last]) for first, last in pairwise(edges)]

    def __repr__(self) -> str:
        return f"<Context {self.receipt}>"
