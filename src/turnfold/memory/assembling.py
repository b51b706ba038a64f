"""From a conversation to the context of a call.

The tail of the turn, the window, a fold where one is due and this memory folds by itself, the note of where the window
begins, the manifest. It is built from what this process knows, without a look at the store: the manifest is taken only
if nothing changed there since, otherwise the context is built again from what did. A session that is alone with its
conversation asks the store one question per call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from turnfold.budget import Budget
from turnfold.errors import BudgetTooSmall, Conflict, InvalidOption, SummaryFailed
from turnfold.memory.calls import Calls
from turnfold.memory.fold_keeper import FoldKeeper, FoldMode
from turnfold.memory.folding import STEP_TOKENS, FoldRange
from turnfold.memory.follower import Follower
from turnfold.memory.known_findings import TailFindings
from turnfold.memory.live_window import Around, LiveWindow
from turnfold.memory.recalling import Recaller
from turnfold.memory.setting import RecallMode, Setting
from turnfold.memory.tail import (
    check_pins,
    pinned_at,
    state_at,
    tail_message,
    tail_text,
    with_notes,
)
from turnfold.recall import Recalled
from turnfold.records import Checkpoint, Entry
from turnfold.records.findings import Finding
from turnfold.summary.due import fold_due
from turnfold.window import Context

if TYPE_CHECKING:
    from turnfold.wire import WireFormat

__all__ = ("Assembler", "Tools", "Wanted")

Tools = Sequence[Mapping[str, object]]

_NOTE_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TRIES = 8
"""Times a context is built anew because another process moved its window meanwhile."""
_FENCED = 12
"""Times a context is built anew because anything changed while it was: where others never stop writing, it is then
taken as of the last look."""
_FOLDS = 6
"""Times a context is built again because a fold before it landed."""
_SMALLEST_SUMMARY = 32
"""Tokens below which a summary is not worth its fence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a caller asks of a context."""

    budget: Budget
    query: str = ""
    """What to bring back from before the window."""
    recall: RecallMode = RecallMode.OFF
    """Whether to do so unasked."""
    tools: Tools = ()
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Shown in the tail of this one call, each fenced under its name; not in the log."""
    workspace: str = ""
    """Shown at the end of the tail in this one call; not in the log."""
    to: WireFormat | None = None
    """Who writes it for the provider: `max_bytes` then holds for the body, and the receipt lists what is changed."""
    max_tokens: int = 0
    """Fewer tokens than the budget allows: the window moves on for it, and stays there. 0 for what it allows."""

    def __post_init__(self) -> None:
        for name in self.notes:
            if not _NOTE_NAME.fullmatch(name):
                raise InvalidOption(
                    f"a note named {name!r}: use 1 to 64 letters, digits, '-' or '_', it becomes the tag of a fence"
                )


@dataclass(slots=True)
class Assembler:
    """Builds the contexts of one conversation."""

    setting: Setting
    follower: Follower
    keeper: FoldKeeper
    calls: Calls
    recaller: Recaller
    last: dict[Budget, Context] = field(default_factory=dict[Budget, Context])
    """The previous context under each budget, to measure the prefix."""
    _asked: bool = field(default=False, init=False)
    """Whether the summarizer was asked for the context that is being made."""

    async def context(self, wanted: Wanted) -> Context:
        """The context of the next call, with its manifest stored."""
        previous = self.last.get(wanted.budget)
        self._asked = False
        await self.follower.assume()
        context, around = await self._settled(wanted)
        attempt = 1
        while not await self._recorded(context, around, previous, fenced=attempt < _FENCED):
            await self.follower.refresh()
            context, around = await self._settled(wanted)
            attempt += 1
        self.last[wanted.budget] = context
        self._measure(context)
        return context

    async def _recorded(
        self, context: Context, around: Around, previous: Context | None, *, fenced: bool
    ) -> bool:
        """Store the account of a context; False when something changed since what it was built from was read."""
        if previous is not None:
            context.follow(previous)
        return await self.calls.write(context, around, fenced=fenced)

    async def preview(self, wanted: Wanted) -> Context:
        """The context as it stands: nothing is stored. On a handle of its own, whose window may then move."""
        await self.follower.refresh()
        return (await self._made(wanted))[0]

    async def _settled(self, wanted: Wanted) -> tuple[Context, Around]:
        """A context whose window is noted for every process."""
        tries, budget = 1, wanted.budget
        while True:
            try:
                context, around, tail = await self._made(wanted)
                window = await self.follower.window(budget)
                frozen = self.follower.frozen(budget, window.turn)
                asked = wanted.query or (frozen.query if frozen else "")
                await self.follower.keep(
                    budget, window.note(query=asked, tail=tail, recalled=around.recalled)
                )
            except (Conflict, BudgetTooSmall) as refusal:
                # What does not fit may fit by now: somebody else may have cleared or unpinned something.
                final = isinstance(refusal, BudgetTooSmall) and self.follower.looked
                if final or tries == _TRIES:
                    raise
                tries += 1
                await self.follower.refresh()
                self.follower.forget(budget)
            else:
                return context, around

    async def fold_range(self, budget: Budget, upto: int, around: Around) -> FoldRange | None:
        """The range up to `upto`, pinned; None when there is nothing in it."""
        follower = self.follower
        window = await follower.window(budget)
        limit = window.summary_limit(budget, around)
        if upto <= follower.folded or limit < _SMALLEST_SUMMARY:
            return None
        return FoldRange(
            follower.checkpoint, follower.folded, upto, limit, follower.cleared, follower.newest
        )

    async def around(self, wanted: Wanted) -> tuple[Around, str]:
        """What stands around the window now, and what of its tail stands still during the turn."""
        follower, budget, query = self.follower, wanted.budget, wanted.query
        window = await follower.window(budget)
        frozen = follower.frozen(budget, window.turn)
        # Within a turn the tail stands still, unless the caller asks for something else.
        if frozen is not None and query in ("", frozen.query):
            tail, recalled = frozen.tail, frozen.recalled
        else:
            tail, recalled = await self._tail(wanted, window)
        return Around(
            system=follower.system,
            tail=tail_message(with_notes(tail, wanted.notes, wanted.workspace)),
            tools=wanted.tools,
            checkpoint=follower.shown_checkpoint,
            stand_in=follower.stand_in,
            cleared=follower.cleared,
            recalled=recalled,
        ), tail

    async def _made(self, wanted: Wanted) -> tuple[Context, Around, str]:
        """Within every limit. What a limit of this call or its provider cut off is folded before it is left out."""
        first, around, tail = await self._within(wanted)
        smaller = first.budget != wanted.budget or (first.wired and first.wired.rebuilt)
        if not smaller or self.setting.policy.mode is FoldMode.MANUAL:
            return first, around, tail
        context, around, tail = await self._within(wanted)
        context.moved = True
        if first.wired and context.wired:
            rebuilt = first.wired.rebuilt + context.wired.rebuilt
            context.wired = context.wired._replace(rebuilt=rebuilt)
        return context, around, tail

    async def _within(self, wanted: Wanted) -> tuple[Context, Around, str]:
        """Built, and built smaller where this one call or its provider asks for it."""
        context, around, tail = await self._built(wanted)
        most, moved = wanted.max_tokens or context.tokens, context.moved
        if wanted.to is None and context.tokens <= most:
            return context, around, tail
        window = await self.follower.window(wanted.budget)

        def build(budget: Budget) -> Context:
            return window.build(budget, around, self.setting.strategy)

        try:
            if context.tokens > most:
                context = build(replace(wanted.budget, max_tokens=most))
                context.moved = moved or context.moved
            if wanted.to is not None:
                from turnfold.wire import fitted  # who sends nothing loads no wire format

                context = fitted(context, wanted.to, tools=wanted.tools, rebuild=build)
        except BudgetTooSmall:
            self.follower.forget(wanted.budget)  # its window may have moved on the way
            raise
        return context, around, tail

    async def _built(self, wanted: Wanted) -> tuple[Context, Around, str]:
        """Build a context; fold first where a fold is due, until everything before the window is covered."""
        context, around, tail = await self._once(wanted)
        for _ in range(_FOLDS):
            if not await self._fold_before(wanted, context, around, ask=not self._asked):
                break
            await self.follower.refresh()
            context, around, tail = await self._once(wanted)
            context.moved = True  # the fold moved it, before this context was built
        return context, around, tail

    async def _once(self, wanted: Wanted) -> tuple[Context, Around, str]:
        """Build a context from what is known; with a tail that fits the window as it is after the build.

        The tail shows what the window does not: findings and passages from before it, results it shortens. Where the
        build moved the window, a tail that is not frozen yet is made again for it.
        """
        follower, strategy = self.follower, self.setting.strategy
        around, tail = await self.around(wanted)
        window = await follower.window(wanted.budget)
        begins = window.anchor, window.caps
        context = window.build(wanted.budget, around, strategy)
        if begins == (window.anchor, window.caps):
            return context, around, tail
        again, remade = await self.around(wanted)
        if remade != tail:
            context, around, tail = window.build(wanted.budget, again, strategy), again, remade
            context.moved = True
        return context, around, tail

    async def _fold_before(
        self, wanted: Wanted, context: Context, around: Around, *, ask: bool
    ) -> bool:
        """Fold what should be folded before this context is sent; whether the context must be built again.

        The summarizer is asked first, once a call (`ask`). Where its fold is slow, failed, elsewhere under way or too
        long for one step, an extract stands in for what left the window.
        """
        follower, policy, budget = self.follower, self.setting.policy, wanted.budget
        if policy.mode is FoldMode.MANUAL:
            return False
        window = await follower.window(budget)
        uncovered = window.anchor - 1 > around.covered
        if not uncovered and not (ask and self._wants_fold(window, context, around)):
            return False
        await follower.confirm()
        upto = window.fold_upto(
            budget, around, threshold=policy.threshold, keep_turns=policy.keep_turns
        )
        fold = await self.fold_range(budget, max(upto, window.anchor - 1), around)
        if fold is None:
            return False
        if ask:
            self._asked = True
            # Whatever came of it, who folds is noted: what is known is read again.
            return (
                await self._folded(fold) is not None or uncovered or policy.mode is FoldMode.INLINE
            )
        reach = max(STEP_TOKENS, budget.tokens)
        return await self.keeper.stand_in(
            fold, around.stand_in, upto=window.anchor - 1, tokens=reach
        )

    def _wants_fold(self, window: LiveWindow, context: Context, around: Around) -> bool:
        """Whether a fold is due: at the threshold, or while an extract stands in for one.

        While a turn's tool loop runs, an inline fold waits until the window moves: the prompt's beginning changes then
        anyway.
        """
        policy = self.setting.policy
        owed = window.anchor - 1 > around.folded
        if not owed and not fold_due(context.tokens, context.budget.tokens, policy.threshold):
            return False
        waits = policy.mode is FoldMode.INLINE and self._in_tool_loop(window)
        return not waits or context.moved

    @staticmethod
    def _in_tool_loop(window: LiveWindow) -> bool:
        return window.turn != window.seq

    async def _folded(self, fold: FoldRange) -> Checkpoint | None:
        """Fold one step, or begin to in the background; what landed before this call is answered."""
        if self.setting.policy.mode is FoldMode.BACKGROUND:
            self.keeper.begin(fold)
            return None
        with suppress(SummaryFailed):  # noted and logged: the last good window serves
            return await self.keeper.step(fold)
        return None

    def _sought(self, wanted: Wanted, window: LiveWindow) -> str:
        """What to look for before the window: what was asked, or what the user said where nobody asked."""
        if wanted.query or wanted.recall is RecallMode.OFF:
            return wanted.query
        return window.question if window.anchor > self.follower.cleared + 1 else ""

    async def _tail(
        self, wanted: Wanted, window: LiveWindow
    ) -> tuple[str, tuple[tuple[int, float], ...]]:
        """The tail of a turn, and the seqs and scores of what was brought back into it."""
        follower, budget = self.follower, wanted.budget
        query = self._sought(wanted, window)
        unasked = not wanted.query and wanted.recall is RecallMode.AUTOMATIC
        turn = window.turn or follower.head.seq + 1
        pins = pinned_at(follower.pins, turn)
        state = state_at(follower.state, turn)
        if not (query or pins or state or follower.findings.kept):
            return "", ()
        share = budget.share("tail")
        count = self.setting.counter.count_message

        def text(recalled: Sequence[Recalled], findings: str = "") -> str:
            return tail_text(pins=pins, state=state, findings=findings, recalled=recalled)

        def cost(recalled: Sequence[Recalled], findings: str = "") -> int:
            return sum(map(count, tail_message(text(recalled, findings))))

        check_pins(pins, budget, self.setting.counter)
        if (used := cost(())) >= share:  # the state is shortened where it is sent
            return text(()), ()
        known = self._findings(wanted, window, turn)
        if not query:
            return text((), known.text(share, lambda block: cost((), block))), ()
        # Findings that the question speaks of, then passages that match it, then whatever else was found.
        room = used + (share - used) // 2 if wanted.query else share
        first = known.text(room, lambda block: cost((), block), matching=True)
        whole = known.whole(first)
        found = await self.recaller.passages(
            query,
            tokens=min(cost((), first) + share // 2, share) if unasked else share,
            measure=lambda some: cost(some, first),
            after=follower.cleared,
            before=window.anchor,
            unasked=unasked,
            shown=partial(_shown_in, whole),
        )
        every = known.text(share, lambda block: cost(found, block))
        if any(each not in known.whole(every) for each in whole):
            every = first  # what no passage repeats may not be cut for the sake of others
        whole = known.whole(every)
        found = [entry for entry in found if not _shown_in(whole, entry)]
        return text(found, every), tuple((entry.seq, entry.score) for entry in found)

    def _findings(self, wanted: Wanted, window: LiveWindow, turn: int) -> TailFindings:
        """What tools found before this turn and the window does not show."""
        found = self.follower.findings.shown_at(
            turn, now=self.setting.clock(), anchor=window.anchor, cut=window.caps
        )
        asked = wanted.query or window.question
        return TailFindings.of(found, asked, self.setting.counter.count_text)

    def _measure(self, context: Context) -> None:
        meter, receipt = self.setting.meter, context.receipt
        meter.add("contexts")
        meter.observe("token_ratio", receipt.tokens / receipt.allowed)
        meter.observe("prefix_share", receipt.prefix_share)


def _shown_in(findings: Sequence[Finding], entry: Entry | Recalled) -> bool:
    """Whether findings say what an entry does: one was made of it, or of the same result of another call."""
    text = entry.message.text.strip()
    return any(entry.seq == each.seq or text == each.content.strip() for each in findings)
