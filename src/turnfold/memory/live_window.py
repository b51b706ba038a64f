"""The window of a budget: the entries of the log that calls show verbatim, in memory, growing at the end.

It begins at the anchor (its first entry). If the anchor is inside a turn, the user message that opened the turn is
shown before it. Nothing older is loaded, so a session on a log of a million entries needs no more memory than one on a
thousand. Outside of this module entries are named by seq: receipts (context reports), anchors and references in
shortened text all use seqs, which are the same in every process.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from turnfold.budget import Budget
from turnfold.errors import BudgetTooSmall
from turnfold.fold import ReadCache, fold_span
from turnfold.memory.summary_writers import shown_summary
from turnfold.records import Checkpoint, Message, StandIn, WindowNote, has_compaction
from turnfold.search import telling_part
from turnfold.tokens import TokenCounter
from turnfold.window import (
    SQUEEZES,
    Anchor,
    Context,
    Omission,
    Outcome,
    Room,
    Strategy,
    Transcript,
    anchored_view,
    assemble,
    price,
    summary_tokens,
)

__all__ = (
    "LiveWindow",
    "PromptParts",
    "StoredMessage",
    "UserMessage",
    "omitted_rules",
    "spoken_text",
    "user_messages_of",
)


_NEWEST = 16
"""Number of newest messages that are checked for tool results, and in which the agent's last two steps are looked for.
"""
_STEP_CHARACTERS = 400
"""Most characters of each text or tool call of the agent's last steps that are used as words to search for."""
_NAMED_RULES = 20
"""Most rules without room in the context that its receipt (report) names, by the seq of their entry; the others are
only counted."""
_RULES_LEFT_OUT = re.compile(
    r"tail: ([\d,]+) rules? (?:not shown|left out for lack of room)(?:, of entries ([\d, .]+))?"
)


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message with its seq (position in the log) and its token count."""

    seq: int
    message: Message
    tokens: int


class UserMessage(NamedTuple):
    """A message of the user, with the assistant's words directly before it and the assistant's answer to it."""

    seq: int
    text: str
    answered: str = ""
    """Text of the assistant's message directly before the user's message; "" if another message is there."""
    reply: str = ""
    """Text of the assistant's last message of the turn that calls no tools; "" if there is none yet."""


def user_messages_of(
    numbers: Sequence[int], messages: Sequence[Message], *, after: int, before: str = ""
) -> list[UserMessage]:
    """Return the user's messages with a seq (of `numbers`) above `after`, with what the assistant said around each.

    The message before them is returned too if its reply has a seq above `after`. `before` is the assistant's text
    directly before the first of `messages`.
    """
    first = bisect_right(numbers, after)
    begin = first
    while begin and messages[begin - 1].role != "user":
        begin -= 1
    found: list[UserMessage] = []
    reply, replied = "", -1
    for at in range(len(numbers) - 1, max(begin - 1, 0) - 1, -1):
        message = messages[at]
        if message.role == "assistant" and replied < 0 and not message.calls:
            reply, replied = message.text, at
        if message.role != "user":
            continue
        if at >= first or replied >= first:
            answered = spoken_text(messages[at - 1]) if at else before
            found.append(UserMessage(numbers[at], message.text, answered, reply))
        reply, replied = "", -1
    return found[::-1]


def spoken_text(message: Message) -> str:
    """Return what an assistant's message says to the user; "" for a message of any other role."""
    return message.text if message.role == "assistant" else ""


@dataclass(frozen=True, slots=True)
class PromptParts:
    """The parts of a call's prompt outside the window: system messages, summary, tail and tool schemas.

    The tail is the text before the newest turn: pins, rules, state, recalled passages.
    """

    system: Sequence[StoredMessage] = ()
    tail: Sequence[Message] = ()
    tail_text: str = ""
    """The tail (pins, rules, recalled passages) without the texts that are shown in one call only (notes, workspace);
    stored for the rest of the turn."""
    tools: Sequence[Mapping[str, object]] = ()
    checkpoint: Checkpoint | None = None
    """The checkpoint whose summary is shown; None before the first, or if everything that the summary covers was
    cleared."""
    stand_in: StandIn | None = None
    """An extract shown instead of the checkpoint's summary until the fold (compaction) is finished."""
    cleared: int = 0
    """Seq (log position) of the last entry hidden by `clear()`; 0 for none."""
    recalled: tuple[tuple[int, float], ...] = ()
    """(seq, score) of each entry recalled into the tail (pins, rules, recalled passages)."""
    recall_room: int = 0
    """Tokens that recalled entries take beyond the budget's share for the tail (text before the newest turn)."""
    recall_tokens: int = 0
    """Tokens of the recalled passages."""
    rules_left_out: tuple[int, ...] = ()
    """Seqs (log positions) of the active rules that the tail (pins, rules, recalled passages) has no room for, one per
    rule."""

    @property
    def summary(self) -> str:
        """The summary or temporary extract that is shown in place of the folded entries; empty if there is none."""
        if self.stand_in is not None:
            return self.stand_in.text
        return shown_summary(self.checkpoint) if self.checkpoint else ""

    @property
    def folded(self) -> int:
        """Last log position that a checkpoint's summary covers or `clear()` hid; 0 if there is none."""
        return max(self.cleared, self.checkpoint.upto if self.checkpoint else 0)

    @property
    def covered(self) -> int:
        """Last log position that the window need not show.

        Everything up to it is folded (compacted), cleared, or in the temporary extract.

        It is 0 if there is none.
        """
        return max(self.folded, self.stand_in.upto if self.stand_in else 0)


def _rule_omissions(prompt: PromptParts) -> list[Omission]:
    if not (seqs := prompt.rules_left_out):
        return []
    # Without the texts: the reports of calls are kept when an entry with a rule is erased.
    rules = "1 rule" if len(seqs) == 1 else f"{len(seqs):,} rules"
    named = ", ".join(map(str, seqs[:_NAMED_RULES])) + (", ..." if seqs[_NAMED_RULES:] else "")
    why = ": no room in their share of the budget, or not clear alone"
    reason = f"tail: {rules} not shown, of entries {named}{why}; rules() lists them, and recall finds them"
    return [Omission(-1, 0, Outcome.SHRUNK, reason)]


def omitted_rules(reason: str) -> tuple[int, tuple[int, ...]]:
    """Read a reason in a receipt: return the number of rules that were left out, and the seqs of their entries.

    Returns (0, ()) if the reason is about something else. An entry with several such rules is named once for each; a
    rule that is in no entry has the seq 0. If there are many rules, the reason names only the first of them.
    """
    found = _RULES_LEFT_OUT.match(reason)
    if not found:
        return 0, ()
    return int(found[1].replace(",", "")), tuple(map(int, re.findall(r"\d+", found[2] or "")))


class LiveWindow:
    """The loaded entries from an anchor (the first one shown verbatim) to the end of the log."""

    __slots__ = (
        "_read_upto",
        "_system_seqs",
        "_transcript",
        "anchor",
        "caps",
        "counter",
        "opener",
        "reading",
        "reason",
        "seq",
    )

    def __init__(
        self, counter: TokenCounter, note: WindowNote, *, opener: StoredMessage | None = None
    ) -> None:
        self.counter = counter
        self.anchor = note.anchor
        """Seq (log position) of the first entry that is shown verbatim."""
        self.opener = opener
        """The user message that opened the turn in which the anchor (first verbatim entry) is; None if the anchor
        begins a turn."""
        self.caps = dict(note.caps)
        """Seq (log position) of a shortened entry -> most tokens of a single part of the entry."""
        self.reason = note.reason
        """Why the entries before the anchor (first verbatim entry) are not shown."""
        self.reading = ReadCache()
        """Sentences and facts read in the entries of the window, for the fold (compaction) that ends the use of the
        window."""
        self._read_upto = 0
        self.seq = note.anchor - 1
        """Seq (log position) of the newest entry that is loaded."""
        self._system_seqs = array("q")
        self._transcript = Transcript(counter)
        if opener is not None:
            self._transcript.add(opener.message, opener.tokens, number=opener.seq)

    def extend(self, entries: Iterable[StoredMessage]) -> None:
        """Add the entries that follow the newest one in the window; the caller must leave none out."""
        for entry in entries:
            if entry.message.role == "system":
                self._system_seqs.append(entry.seq)
            else:
                self._transcript.add(entry.message, entry.tokens, number=entry.seq)
            self.seq = entry.seq

    @property
    def held_bytes(self) -> int:
        """Approximate memory that the loaded messages take, in bytes."""
        return self._transcript.held_bytes + self.reading.held_bytes

    def unread_messages(self) -> list[Message]:
        """Return the messages that were added since the last call, without system messages.

        The first call returns all messages.
        """
        transcript = self._transcript
        unread = transcript.messages[bisect_right(transcript.numbers, self._read_upto) :]
        self._read_upto = self.seq
        return list(unread)

    @property
    def turn_seq(self) -> int:
        """Log position of the user message that began the newest turn; 0 before the first turn."""
        transcript = self._transcript
        if not transcript.grouper.turns:
            return 0
        return transcript.numbers[transcript.position_of(transcript.grouper.turns[-1])]

    @property
    def shortens_turn(self) -> bool:
        """True if a message of the newest turn is shown shortened."""
        return any(seq >= self.turn_seq for seq in self.caps)

    def shows_turn_within(self, tokens: int) -> bool:
        """Return True if the newest turn is shown whole, in at most `tokens`, and none of its steps is compacted."""
        if self.shortens_turn or self.turn_seq < self.anchor:
            return False
        turns = self._transcript.grouper.turns
        return not turns or self._transcript.tokens_from(turns[-1]) <= tokens

    def summary_tokens(self, text: str) -> int:
        """Return the tokens of the message with this summary; they are counted once."""
        return summary_tokens(self._transcript, text)

    def tokens(self, *, largest: int) -> int:
        """Return the tokens of the entries that the window shows.

        An entry counts as `largest` tokens if it has more.
        """
        costs = self._transcript.costs[self._position_of(self.anchor) :]
        return sum(min(cost, largest) for cost in costs)

    @property
    def question(self) -> str:
        """The user message that began the newest turn.

        It is cut to its beginning and end if it is too long for a search query.
        """
        transcript = self._transcript
        if not transcript.grouper.turns:
            return ""
        opener = transcript.messages[transcript.position_of(transcript.grouper.turns[-1])]
        return telling_part(opener.text)

    @property
    def newest_steps(self) -> list[str]:
        """The texts and tool calls of the model's newest two messages, each cut to its beginning."""
        said = [each for each in self._transcript.messages[-_NEWEST:] if each.role == "assistant"]
        return [
            text[:_STEP_CHARACTERS]
            for each in said[-2:]
            for text in (each.text, *(call.arguments for call in each.calls))
        ]

    @property
    def uses_tools(self) -> bool:
        """True if one of the newest messages is a tool result, which shows that the agent uses tools."""
        return any(message.role == "tool" for message in self._transcript.messages[-_NEWEST:])

    @property
    def turns(self) -> int:
        """Number of turns that begin in the window."""
        return len(self._first_spans())

    def _first_spans(self) -> list[int]:
        """Return the index of the first span of each turn that begins in the window."""
        transcript = self._transcript
        first = transcript.span_at(self._position_of(self.anchor))
        return [turn for turn in transcript.grouper.turns if turn >= first]

    @property
    def longest_loop(self) -> int:
        """Most tokens that a turn of the window with tool calls took after its question; 0 if none called a tool."""
        transcript, turns = self._transcript, self._first_spans()
        longest = 0
        for turn, after in pairwise([*turns, transcript.spans]):
            messages = transcript.messages[
                transcript.position_of(turn) : transcript.position_of(after)
            ]
            if any(message.role == "tool" for message in messages):
                taken = transcript.tokens_from(turn + 1) - transcript.tokens_from(after)
                longest = max(longest, taken)
        return longest

    def user_messages(self, after: int, *, before: str = "") -> list[UserMessage]:
        """Return the user's messages with a seq above `after`, and the one before if it was answered since.

        `before` is the assistant's text directly before the window.
        """
        transcript = self._transcript
        return user_messages_of(transcript.numbers, transcript.messages, after=after, before=before)

    @property
    def compacted(self) -> int:
        """Log position of the newest reply in which the provider compacted older turns; 0 if there is none."""
        messages = self._transcript.messages
        for at in range(len(messages) - 1, -1, -1):
            if messages[at].role == "assistant" and has_compaction(messages[at]):
                return self._transcript.numbers[at]
        return 0

    def note(self, *, query: str, prompt: PromptParts) -> WindowNote:
        """Return the `WindowNote` to store, from which another process builds the same window."""
        caps = tuple(sorted(self.caps.items()))
        return WindowNote(
            anchor=self.anchor,
            head=self.opener.seq if self.opener else 0,
            caps=caps,
            reason=self.reason,
            turn=self.turn_seq if prompt.tail_text else 0,
            query=query if prompt.tail_text else "",
            tail=prompt.tail_text,
            recalled=prompt.recalled,
            recall_room=prompt.recall_room,
            recall_tokens=prompt.recall_tokens,
        )

    def build(self, budget: Budget, prompt: PromptParts, strategy: Strategy) -> Context:
        """Build the context of a call; moves the anchor (first entry of the window) if the budget requires it."""
        transcript = self._transcript
        transcript.system = [entry.message for entry in prompt.system]
        context = assemble(
            transcript,
            budget,
            anchor=self._anchor(prompt),
            strategy=strategy,
            tail=prompt.tail,
            tools=prompt.tools,
            recall_room=prompt.recall_room,
        )
        shows_question = self.opener is not None and 0 in context.positions
        question = self.opener.seq if self.opener and shows_question else 0
        before = self._before_anchor(prompt, question=question)
        fates = (
            *before,
            *self._in_seqs(context.fates),
            *self._system_omissions(prompt),
            *_rule_omissions(prompt),
        )
        anchor, opener = context.anchor, context.head
        self._use_seqs(context, prompt, tuple(sorted(fates)))
        self._move(anchor, opener)
        return context

    def summary_limit(self, budget: Budget, prompt: PromptParts) -> int:
        """Return the most tokens that a summary may have within this budget."""
        return self._room(budget, prompt).summary

    def room_left(self, budget: Budget, prompt: PromptParts) -> int:
        """Return the tokens of the budget that are left if the whole window is shown; negative if it does not fit."""
        view = anchored_view(self._transcript, self._anchor(prompt))
        used = view.tokens(view.start) if view.start <= view.last else 0
        try:
            return self._room(budget, prompt).tokens - used
        except BudgetTooSmall:
            return -used - 1  # the parts outside the window alone are over the budget

    def fold_upto(
        self,
        budget: Budget,
        prompt: PromptParts,
        *,
        due_tokens: int,
        threshold: float,
        keep_turns: int,
    ) -> int:
        """Return the position of the last entry to fold now, if folding (compaction) is due.

        Otherwise, or if nothing is worth folding, returns the position before the window. Folding is due when a context
        without recalled passages has `due_tokens` or more, which are at most the share `threshold` of the budget. The
        newest `keep_turns` turns are not folded if the budget has room for them.
        """
        marks = budget.marks
        room = self._room(budget, prompt, low=min(marks.low, marks.folded))
        view = anchored_view(self._transcript, self._anchor(prompt))
        tokens = room.tokens + prompt.recall_tokens
        due = due_tokens - (budget.tokens - tokens)
        usual = int(threshold * budget.tokens) - (budget.tokens - tokens)
        low = int(tokens * min(marks.low, marks.folded))
        if due < usual:
            # Room is kept free for recalled passages: what stays beside the summary shrinks in proportion.
            aside = min(room.aside, due)
            low = aside + max(low - aside, 0) * max(due - aside, 1) // max(usual - aside, 1)
        room = room._replace(tokens=tokens, low=max(low, 1))
        start = fold_span(view, room, due=due, keep_turns=keep_turns)
        return self._seq_of(self._transcript.position_of(start)) - 1

    def before_turns(self, turns: int) -> int:
        """Return the last log position before the newest `turns` turns, or before the window if it has fewer turns."""
        transcript = self._transcript
        if turns <= 0:
            return self.seq
        starts = transcript.grouper.turns
        first = transcript.position_of(starts[-turns]) if len(starts) >= turns else 0
        return max(self._seq_of(first), self.anchor) - 1

    def has_messages(self, covered: int, upto: int) -> bool:
        """Return True if a message with a seq from `covered` + 1 to `upto` can be folded (compacted).

        System messages do not count.
        """
        numbers = self._transcript.numbers
        return self.anchor > covered + 1 or (len(numbers) > 0 and numbers[0] <= upto)

    def turn_end(self, turns: int) -> int:
        """Return the last log position of the window's oldest `turns` turns.

        Returns the newest position if it has no more turns.
        """
        transcript = self._transcript
        first = self._position_of(self.anchor)
        starts = [transcript.position_of(span) for span in transcript.grouper.turns]
        later = [position for position in starts if position > first]
        return self._seq_of(later[turns - 1]) - 1 if len(later) >= turns else self.seq

    def _room(self, budget: Budget, prompt: PromptParts, *, low: float = 0.0) -> Room:
        transcript = self._transcript
        transcript.system = [entry.message for entry in prompt.system]

        def room(squeeze: int) -> Room:
            fixed = price(
                transcript,
                budget,
                summary=prompt.summary,
                tail=prompt.tail,
                tools=prompt.tools,
                recall_room=prompt.recall_room,
                squeeze=squeeze,
            )
            return fixed.room(budget, low=low)

        # Shorten a long system message if necessary, as `assemble` does.
        for squeeze in range(SQUEEZES):
            with suppress(BudgetTooSmall):
                return room(squeeze)
        return room(SQUEEZES)

    def _anchor(self, prompt: PromptParts) -> Anchor:
        caps = tuple((self._position_of(seq), cap) for seq, cap in sorted(self.caps.items()))
        position = self._position_of(self.anchor)
        return Anchor(position, caps, prompt.summary, 0, self.reason)

    def _move(self, anchor: Anchor, opener: int) -> None:
        """Let this window begin at the anchor (first entry) of a new context, and drop the older messages."""
        position, start = anchor.position, self._seq_of(anchor.position)
        self.caps = {self._seq_of(at): cap for at, cap in anchor.caps}
        # The anchor never moves back, as it would if only the user message before it can be shown.
        if position <= self._position_of(self.anchor):
            return
        old = self._transcript
        self.opener = self._entry(opener) if opener >= 0 else None
        self._transcript = Transcript(self.counter)
        self._transcript.memo.update(old.memo)  # token counts of the prompt outside the window
        if self.opener is not None:
            self._transcript.add(self.opener.message, self.opener.tokens, number=self.opener.seq)
        for at in range(position, len(old.messages)):
            self._transcript.add(old.messages[at], old.costs[at], number=old.numbers[at])
        first = self.opener.seq if self.opener else start
        self.caps = {seq: cap for seq, cap in self.caps.items() if seq >= start or seq == first}
        self.anchor, self.reason = start, anchor.reason
        self.seq = max(self.seq, start - 1)
        self._system_seqs = array("q", [seq for seq in self._system_seqs if seq >= start])

    def _entry(self, position: int) -> StoredMessage:
        held = self._transcript
        return StoredMessage(held.numbers[position], held.messages[position], held.costs[position])

    def _position_of(self, seq: int) -> int:
        return bisect_left(self._transcript.numbers, seq)

    def _seq_of(self, position: int) -> int:
        numbers = self._transcript.numbers
        return numbers[position] if position < len(numbers) else self.seq + 1

    def _before_anchor(self, prompt: PromptParts, *, question: int) -> Iterator[Omission]:
        """Yield the ranges that are left out before the window, with the reasons.

        System messages and the turn's question are not listed.
        """
        sent = {question, *(entry.seq for entry in prompt.system)}
        covered = prompt.covered
        folded = f"folded into checkpoint {prompt.checkpoint.id}" if prompt.checkpoint else ""
        stood_in = "not folded yet: an extract stands in for it in the summary"
        for start, stop, outcome, why in (
            (1, prompt.cleared + 1, Outcome.DROPPED, "cleared by the caller"),
            (prompt.cleared + 1, prompt.folded + 1, Outcome.FOLDED, folded),
            (prompt.folded + 1, covered + 1, Outcome.FOLDED, stood_in),
            (covered + 1, self.anchor, Outcome.DROPPED, self.reason or "before the anchor"),
        ):
            if start < stop:
                for left, right in _ranges_without(start, stop, sent):
                    yield Omission(left, right, outcome, why)

    def _in_seqs(self, fates: Iterable[Omission]) -> Iterator[Omission]:
        """Yield omissions with log positions instead of positions in this window; one range may become several."""
        numbers = self._transcript.numbers
        for fate in fates:
            if fate.start < 0:
                yield fate
                continue
            if fate.outcome is Outcome.DROPPED and numbers[fate.start] < self.anchor:
                # The user message before the anchor: `_before_anchor` yields all omissions before the anchor.
                fate = fate._replace(start=fate.start + 1)  # noqa: PLW2901 (the rest of it)
                if fate.start >= fate.stop:
                    continue
            first = fate.start
            for at in range(fate.start + 1, fate.stop + 1):
                if at == fate.stop or numbers[at] != numbers[at - 1] + 1:
                    yield fate._replace(start=numbers[first], stop=numbers[at - 1] + 1)
                    first = at

    def _system_omissions(self, prompt: PromptParts) -> Iterator[Omission]:
        current = {entry.seq for entry in prompt.system}
        for seq in self._system_seqs:
            if seq in current:
                yield Omission(seq, seq + 1, Outcome.MOVED, "system message: sent first")
            else:
                yield Omission(seq, seq + 1, Outcome.DROPPED, "replaced by a newer system message")

    def _question(self, context: Context) -> int:
        """Return the log position of the user message that is shown before the window's first entry.

        Returns -1 if there is none.
        """
        if context.head >= 0:
            return self._seq_of(context.head)
        alone = context.anchor.position < self._position_of(self.anchor)
        return self.opener.seq if self.opener and alone else -1

    def _use_seqs(self, context: Context, prompt: PromptParts, fates: tuple[Omission, ...]) -> None:
        """Replace positions in this window by seqs (log positions) in a context that was just built."""
        numbers = self._transcript.numbers
        shown, positions = context.positions, array("q")
        if isinstance(shown, range):
            positions.extend(numbers[shown.start : shown.stop])
        else:
            positions.extend(numbers[at] if at >= 0 else -1 for at in shown)
        anchor = context.anchor
        caps = tuple((self._seq_of(at), cap) for at, cap in anchor.caps)
        context.head = self._question(context)
        context.positions, context.fates = positions, fates
        first = max(self._seq_of(anchor.position), self.anchor)
        context.anchor = Anchor(first, caps, anchor.summary, prompt.covered, anchor.reason)


def _ranges_without(start: int, stop: int, holes: set[int]) -> Iterator[tuple[int, int]]:
    """Yield the ranges between `start` and `stop` that remain when the numbers in `holes` are left out."""
    for hole in sorted(seq for seq in holes if start <= seq < stop):
        if start < hole:
            yield start, hole
        start = hole + 1
    if start < stop:
        yield start, stop
