"""The context of one model call, and its receipt (context report).

A context has five sections, most stable first, so that a provider's prompt cache can serve its prefix: system, summary,
the window before the newest turn, the tail (pins, rules, state, recalled passages), the newest turn. The receipt lists
the tokens of each section, the messages that are not sent as they were logged and why (omissions), and how many tokens
of the previous prompt are repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple

import msgspec

from turnfold._argument_hints import hinted_names
from turnfold.budget import Budget
from turnfold.records import Message, Misplaced
from turnfold.text import fenced_blocks
from turnfold.tokens import Certainty, TokenCounter, weakest
from turnfold.window.counted_log import Transcript
from turnfold.window.shortened_messages import media_left_out
from turnfold.window.strategies import SpanView

__all__ = (
    "Anchor",
    "CertaintyCache",
    "Changed",
    "Context",
    "NativeCompaction",
    "Omission",
    "Outcome",
    "Receipt",
    "Section",
    "Wired",
    "list_omissions",
    "shared_messages",
)


class CertaintyCache(NamedTuple):
    """The certainty of the token counts of a prompt's first messages, kept from call to call.

    A sum is as certain as its weakest term, so two lengths are enough: how many messages from the beginning are counted
    exactly, and how many exactly or as an upper bound. The next call repeats most of them, so it checks only the rest.
    """

    checked: int = 0
    """Number of messages checked so far."""
    exact: int = 0
    """Number of messages at the beginning of the prompt that are all counted exactly."""
    bounded: int = 0
    """Number of messages at the beginning of the prompt that are all counted exactly or as an upper bound."""

    @property
    def certainty(self) -> Certainty:
        """The certainty of the token count of all checked messages: exact, an upper bound, or an estimate."""
        if self.exact == self.checked:
            return Certainty.EXACT
        return Certainty.BOUND if self.bounded == self.checked else Certainty.ESTIMATE

    def beginning(self, messages: int) -> CertaintyCache:
        """Return this cache limited to the first `messages` messages of the prompt."""
        return CertaintyCache(*(min(messages, length) for length in self))

    def extended(self, messages: tuple[Message, ...], counter: TokenCounter) -> CertaintyCache:
        """Check the messages that were not checked yet, and return a cache for all of `messages`."""
        checked, exact, bounded = self
        for message in messages[checked:]:
            if bounded < checked:
                break  # after one estimate the whole sum is an estimate
            certainty = counter.certainty_of(message)
            exact += exact == checked and certainty is Certainty.EXACT
            bounded += certainty is not Certainty.ESTIMATE
            checked += 1
        return CertaintyCache(len(messages), exact, bounded)


def shared_messages(ours: tuple[Message, ...], theirs: tuple[Message, ...]) -> int:
    """Return the number of messages at the beginning of both lists that are equal.

    Uses bisection over whole slices, which is faster than comparing one message after another.
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
    """Reasons why a message is not sent as it was logged: it was left out, shortened, moved or added."""

    FOLDED = "folded"
    """The message is left out, and the summary covers it."""
    DROPPED = "dropped"
    """The message is left out, and nothing replaces it in this call; the log still has it."""
    SHRUNK = "shrunk"
    """The message is sent shortened."""
    MOVED = "moved"
    """The tool result is sent with the call it answers, not where it was logged."""
    ADDED = "added"
    """The message is not in the log: it is a placeholder for a missing tool result."""


_LEFT_OUT = "; left out: "
_AS_DICTIONARIES = "use [message.model_dump() for message in context.messages]"


class Omission(NamedTuple):
    """A range of the log that is not sent as logged, how it was treated and why."""

    start: int
    stop: int
    """End of the range of log positions, not included; `start` and `stop` are -1 and 0 for system, summary and tail
    (pins, rules, recalled passages)."""
    outcome: Outcome
    reason: str

    @property
    def messages(self) -> int:
        """Number of messages in this range of the log; 0 for system, summary and tail (text before the newest turn)."""
        return self.stop - self.start if self.start >= 0 else 0

    @property
    def leaves_out_media(self) -> bool:
        """True if an image, a recording, a file or another part of the message is replaced by a note."""
        return self.outcome is Outcome.SHRUNK and _LEFT_OUT in self.reason


class Changed(NamedTuple):
    """A kind of change that a provider's format required in a context: the rule, its first place, how often."""

    action: str
    """What was done to the part: converted, left out, moved or added."""
    reason: str
    times: int
    first: str
    """The first place that was changed, e.g. `messages[3].parts[0]`."""

    def __str__(self) -> str:
        return f"{self.times:,} {self.action}: {self.reason} (first {self.first})"


class Wired(NamedTuple):
    """The result of encoding a context for a provider: the changes it needed, and the size of the request body."""

    provider: str
    changes: tuple[Changed, ...] = ()
    """The parts that are not sent as recorded; one value for each rule of the provider."""
    size: int = 0
    """Bytes of the request body; 0 (not measured) if `max_bytes` sets no limit."""
    held: int = 0
    """Byte limit applied to the messages so that the body stays within `max_bytes`; 0 if none was needed."""
    rebuilt: int = 0
    """How often the context was rebuilt smaller because the body was too large."""


class NativeCompaction(NamedTuple):
    """Request that the provider compacts the conversation itself."""

    tokens: int
    """Number of input tokens at which the provider should compact the conversation."""
    required: bool = False
    """True if an error is raised for a provider that cannot compact; False if such a provider is simply not asked."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """The beginning of a window, with its summary and shortened messages; stored, so that processes agree."""

    position: int = 0
    """Log position of the first message shown verbatim, not counting the user message that opened its turn."""
    caps: tuple[tuple[int, int], ...] = ()
    """(log position, most tokens of a single part) of each message that is shown shortened."""
    summary: str = ""
    """Summary of everything before `covered`; empty if there is none."""
    covered: int = 0
    """Log position of the first message that the summary does not cover."""
    reason: str = ""
    """Why the messages before the window are not shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Report on one context: tokens by section, what was left out or changed, the shared prefix."""

    tokens: int
    """Total tokens: messages, tool schemas and the opening of the reply."""
    allowed: int
    """Tokens that the budget allows for the whole call."""
    certainty: Certainty
    sections: dict[Section, int]
    """Tokens of each section of the context."""
    tools: int
    """Tokens of the tool schemas."""
    reply: int
    """Tokens of the opening of the reply."""
    messages: int
    """Number of messages sent."""
    fates: tuple[Omission, ...]
    """The ranges of the log that are not sent as they were logged (omissions)."""
    shared: int
    """Tokens at the beginning of the prompt that the previous call sent too."""
    previous: int
    """Tokens of the previous call's messages; 0 for the first call."""
    moved: bool
    """True if this call moved the anchor (the first message of the window)."""
    wired: Wired | None = None
    """How the context was encoded for its provider; None if it was built for no particular provider."""

    @property
    def changes(self) -> tuple[Changed, ...]:
        """The changes that the provider's format required, counted by action and reason."""
        return self.wired.changes if self.wired else ()

    @property
    def prefix_share(self) -> float:
        """Share of the previous call's tokens that this prompt repeats at its beginning; 1.0 for the first call."""
        return self.shared / self.previous if self.previous else 1.0

    def count(self, *outcomes: Outcome) -> int:
        """Count the messages of the log that had one of these outcomes, such as left out or shortened."""
        return sum(fate.messages for fate in self.fates if fate.outcome in outcomes)

    def __str__(self) -> str:
        noun = "message" if self.messages == 1 else "messages"
        text = (
            f"{self.tokens:,} of {self.allowed:,} tokens ({self.certainty}); {self.messages} {noun}"
        )
        for outcome in (Outcome.FOLDED, Outcome.DROPPED, Outcome.SHRUNK):
            if (number := self.count(outcome)) or outcome is Outcome.DROPPED:
                text += f", {number:,} {'shortened' if outcome is Outcome.SHRUNK else outcome}"
        for fate in self.fates:
            if fate.start < 0:
                text += f"; {fate.reason.partition('; ')[0]}"
        return f"{text}{_wired_text(self.wired)}" if self.wired else text


def _wired_text(wired: Wired) -> str:
    text = f"; {wired.size:,} bytes for {wired.provider}" if wired.size else ""
    text += ", rebuilt smaller to fit" if wired.rebuilt else ""
    changed = sum(change.times for change in wired.changes)
    return f"{text}; {changed:,} changed for {wired.provider}" if changed else text


@hinted_names(
    {
        "to_messages": "use .messages",
        "to_anthropic": "use turnfold.wire.anthropic.request(context, ...)",
        **dict.fromkeys(("to_openai", "to_dict", "to_list", "model_dump"), _AS_DICTIONARIES),
    },
    items="use .messages",
)
class Context:
    """All messages that one model call sends, with their token counts. Do not change it; `receipt` reports on it."""

    __slots__ = (
        "_certainty", "_receipt", "anchor", "budget", "costs", "counter", "ends", "fates", "head", "limit", "messages",
        "moved", "native", "positions", "previous", "shared", "tokens", "tool_schemas", "tools", "wired",
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
        fates: tuple[Omission, ...],
        moved: bool,
    ) -> None:
        self.messages = messages
        """Messages to send, in order."""
        self.costs = costs
        """Tokens of each message."""
        self.positions = positions
        """Log position of each message of window and newest turn, in order; -1 for a placeholder."""
        self.ends = ends
        """Index in `messages` after the last message of each section: system, summary, window, tail (pins, rules,
        recalled passages)."""
        self.head = head
        """Log position of a user message sent before the anchor (first message of the window), because the anchor is
        inside its turn; -1 for none."""
        self.tools = tools
        """Tokens of the tool schemas."""
        self.budget = budget
        self.counter = counter
        self.anchor = anchor
        """Where the window begins; pass this to the next call, so that its window begins there too."""
        self.fates = fates
        """The ranges of the log that are not sent as they were logged (omissions)."""
        self.moved = moved
        """True if this call moved the anchor (the first message of the window)."""
        self.tokens = sum(costs) + tools + counter.reply
        """Tokens of the whole call."""
        self.shared = 0
        """Tokens at the beginning of the prompt that the previous call sent too."""
        self.previous = 0
        """Tokens of the previous call's messages; 0 for the first call."""
        self.wired: Wired | None = None
        """How the context was encoded for its provider; set once, when the context is built."""
        self.native: NativeCompaction | None = None
        """Request to the provider to compact; set once, when the context is built."""
        self.limit = 0
        """Most tokens that the caller of this one call allowed; 0 for the budget alone."""
        self.tool_schemas: Sequence[Mapping[str, object]] = ()
        """The tool schemas that were counted; a request written from this context contains them."""
        self._certainty = CertaintyCache()
        self._receipt: Receipt | None = None

    def follow(self, previous: Context) -> None:
        """Compare this prompt with the previous call's, and set `shared` to the tokens that both have at the beginning.

        If the tool schemas differ, none are shared, because providers put them in front of the messages.
        """
        same = self.follow_stored(
            previous.messages,
            previous.tokens - previous.tools - previous.counter.reply,
            same_tools=(self.tools, self.tools_digest) == (previous.tools, previous.tools_digest),
        )
        if previous.counter is self.counter:
            self._certainty = previous._certainty.beginning(same)

    def follow_stored(
        self, messages: tuple[Message, ...], tokens: int, *, same_tools: bool = True
    ) -> int:
        """Measure the prefix shared with the previous call's messages, which have `tokens` in all.

        Returns how many messages are shared, without regard to the tool schemas before them.
        """
        same = shared_messages(self.messages, messages)
        self.shared, self.previous = (sum(self.costs[:same]) if same_tools else 0), tokens
        return same

    @property
    def tools_digest(self) -> str:
        """A digest of the tool schemas as they are sent; empty if there are none."""
        if not self.tool_schemas:
            return ""
        return blake2b(msgspec.json.encode(list(self.tool_schemas)), digest_size=8).hexdigest()

    def section(self, section: Section) -> tuple[Message, ...]:
        """Return the messages of one section of the context, such as the summary or the window."""
        at = _SECTIONS.index(section)
        edges = (0, *self.ends, len(self.messages))
        return self.messages[edges[at] : edges[at + 1]]

    def tail_parts(self) -> dict[str, int]:
        """Return the tokens of the tail (text before the newest turn) by the label of each block.

        Labels are `pinned`, `rules`, `state`, `recalled`, and so on.

        They add up to the tokens of the section: the tokens that join and frame the blocks are counted with the largest
        block.
        """
        parts: dict[str, int] = {}
        for message in self.section(Section.TAIL):
            for block in fenced_blocks(message.text) or ():
                tokens = self.counter.count_text(str(block))
                parts[block.label] = parts.get(block.label, 0) + tokens
        total = self.receipt.sections[Section.TAIL]
        if not parts:
            return {str(Section.TAIL): total} if total else {}
        largest = max(parts, key=lambda label: parts[label])
        parts[largest] += total - sum(parts.values())
        return parts

    @property
    def receipt(self) -> Receipt:
        """The receipt (report) of this context: tokens by section and what was left out or changed."""
        if self._receipt is None:
            self._receipt = self._account()
        return self._receipt

    def _account(self) -> Receipt:
        schemas = Certainty.BOUND if self.tools else Certainty.EXACT
        self._certainty = self._certainty.extended(self.messages, self.counter)
        edges = (0, *self.ends, len(self.costs))
        section_costs = (sum(self.costs[first:last]) for first, last in pairwise(edges))
        return Receipt(
            tokens=self.tokens,
            allowed=min(self.budget.tokens, self.limit or self.budget.tokens),
            certainty=weakest(schemas, self.counter.certainty, self._certainty.certainty),
            sections=dict(zip(_SECTIONS, section_costs, strict=True)),
            tools=self.tools,
            reply=self.counter.reply,
            messages=len(self.messages),
            fates=self.fates,
            shared=self.shared,
            previous=self.previous,
            moved=self.moved,
            wired=self.wired,
        )

    def __repr__(self) -> str:
        return f"<Context {self.receipt}>"


_REASONS = {
    Misplaced.LATE: "its call comes earlier: sent right after it, as the provider requires",
    Misplaced.ORPHAN: "tool result without a call: the provider would refuse it",
    Misplaced.DUPLICATE: "second result for a call already answered: the provider would refuse it",
    Misplaced.EMPTY: "it has no content: the provider would refuse it",
}


def list_omissions(view: SpanView, *, start: int, head: int, reason: str) -> tuple[Omission, ...]:
    """List, in log order, what a window from span (message group) `start` on leaves out, shortens or moves, and why."""
    transcript = view.transcript
    first = transcript.position_of(start)
    misplaced = list(_misplaced(transcript, start))
    omissions = [
        *_before_window(view, first, head, reason),
        *_unanswered(transcript, start),
        *misplaced,
    ]
    if view.caps:
        listed = {each.start for each in misplaced if each.outcome is not Outcome.MOVED}
        omissions += [each for each in _shrunk(view, first, head) if each.start not in listed]
    return tuple(sorted(omissions))


def _before_window(view: SpanView, first: int, head: int, reason: str) -> Iterator[Omission]:
    covered = view.transcript.position_of(view.covered) if view.summary else 0
    why = reason or "before the anchor"
    for start, stop, outcome in (
        (0, min(covered, first), Outcome.FOLDED),
        (covered, first, Outcome.DROPPED),
    ):
        if start <= head < stop:
            yield from (
                Omission(left, right, outcome, why)
                for left, right in ((start, head), (head + 1, stop))
                if left < right
            )
        elif start < stop:
            yield Omission(start, stop, outcome, why)


def _misplaced(transcript: Transcript, start: int) -> Iterator[Omission]:
    """Yield one omission for each message that is not sent where it was logged, with the reason."""
    first = transcript.position_of(start)
    for position, why in reversed(transcript.misplaced.items()):
        if position < first:
            return
        homes = transcript.homes_of(position)
        moved = any(home >= start for home in homes)
        reasons = [_REASONS[Misplaced.LATE]] if moved else []
        if any(home < start for home in homes):
            reasons.append("its call is before the anchor")
        if why is not Misplaced.LATE:
            reasons.append(_REASONS[why])
        left = Outcome.SHRUNK if position in transcript.partly_here else Outcome.DROPPED
        outcome = Outcome.MOVED if moved else left
        yield Omission(position, position + 1, outcome, "; ".join(reasons))


def _unanswered(transcript: Transcript, start: int) -> Iterator[Omission]:
    for span, calls in reversed(transcript.grouper.unanswered.items()):
        if span < start:
            return
        position = transcript.position_of(span)
        for call in calls:
            yield Omission(
                position,
                position + 1,
                Outcome.ADDED,
                f"no result for call {call.id!r} of {call.name!r} in the log",
            )


def _shrunk(view: SpanView, first: int, head: int) -> Iterator[Omission]:
    for position, cap in view.caps.items():
        if (position >= first or position == head) and view.shortens(position):
            log = view.transcript
            why = f"{log.costs[position]:,} tokens: no part above {cap:,} fits the budget"
            if media := media_left_out(log.messages[position], cap, log.counter):
                why += f"{_LEFT_OUT}{', '.join(dict.fromkeys(media))}"
            yield Omission(position, position + 1, Outcome.SHRUNK, why)
