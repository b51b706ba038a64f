"""Builds the context of a model call from the cached state of its conversation.

The steps are: make the tail of the turn (pins, rules, state, remembered tool results, recalled passages), load the
window, fold (compact) if a fold is due and this memory folds inline, store where the window begins, store the manifest
(context report). The context is built from cached state without asking the store. The store accepts the manifest only
if nothing changed since the state was read; otherwise the context is built again from fresh state. A session that is
the only writer makes one request to the store per call.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, filterfalse
from typing import TYPE_CHECKING, Concatenate, NamedTuple, ParamSpec, TypeVar

import msgspec

from turnfold.budget import RECALL_TOKENS, Budget
from turnfold.errors import BudgetTooSmall, Conflict, InvalidOption, SummaryFailed
from turnfold.findings import TailFindings
from turnfold.fold import passages_of
from turnfold.memory.cached_conversation import ConversationCache
from turnfold.memory.call_log import CallLog
from turnfold.memory.config import CompactionMode, FoldMode, MemoryConfig, RecallMode
from turnfold.memory.folding import STEP_TOKENS, FoldManager, FoldRange
from turnfold.memory.live_window import LiveWindow, PromptParts
from turnfold.memory.prompt_tail import (
    check_pins,
    pinned_at,
    state_at,
    tail_message,
    tail_text,
    with_notes,
)
from turnfold.memory.recall import Recaller
from turnfold.memory.repeated_words import SaidWords
from turnfold.memory.session_rules import RuleLedger
from turnfold.memory.summary_writers import SentPrompt
from turnfold.records import Checkpoint, Entry, Finding
from turnfold.search import Recalled
from turnfold.window import Context, NativeCompaction, Section, summary_message

__all__ = (
    "ContextBuilder",
    "ContextRequest",
    "Tools",
    "brings_much",
)


_log = logging.getLogger(__name__)
if TYPE_CHECKING:
    from turnfold.wire import WireFormat


Tools = Sequence[Mapping[str, object]]

_NOTE_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_TRIES = 8
"""Most attempts to build a context while other processes move the start of its window; after that the error is raised.
"""
_MAX_SAVES = 3
"""Most attempts to store where a window begins; if another process is first each time, the window start of that process
stays stored."""
_FENCED_TRIES = 12
"""Attempts to build a context from the newest state. After that, a context of the state that was read last is accepted,
because other processes may write all the time."""
_MAX_FOLDS = 6
"""Most folds (compactions) made for one context; after each of them the context is built again."""
_SMALL_BUDGET = 2_000
"""Tokens that a running tool loop needs for itself; of the tokens beyond these, recalled passages may take a
quarter."""
_VALUE = re.compile(r"\d|\S@\S")
"""Matches a value, such as a number or an e-mail address."""
_NATIVE_SHARE = 0.9
"""Share of the tokens at which turnfold would fold: at this share the provider is asked to compact, so that it acts
first."""
_MIN_SUMMARY = 32
"""Nothing is folded if a summary may have fewer tokens than this: it would not be worth the text around it."""


_LONG_TEXT = 10_000
"""Most characters of `notes` and `workspace` that are counted on an event loop; more are counted in a thread."""
_LONG_TOOLS = 32_000
"""Most bytes of tool schemas that are counted on an event loop; they are counted again only if they change."""
_Result = TypeVar("_Result")
_Options = ParamSpec("_Options")


def brings_much(notes: Mapping[str, str] | None, workspace: str, tools: Tools | None) -> bool:
    """Return True if notes, workspace and tools have so much text that counting would block an event loop."""
    if len(workspace) + sum(map(len, (notes or {}).values())) > _LONG_TEXT:
        return True
    try:
        return bool(tools) and len(msgspec.json.encode(tools)) > _LONG_TOOLS
    except (TypeError, ValueError, UnicodeError):
        return False  # invalid tools: the error is raised when they are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextRequest:
    """The options of one `context()` call."""

    budget: Budget
    query: str = ""
    """Words to search for in the entries before the window; empty searches for nothing."""
    recall: RecallMode = RecallMode.OFF
    """When to recall earlier entries if no query is given."""
    tools: Tools = ()
    notes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Texts by name, fenced (marked as data) before the newest turn, shown in this call only and not logged."""
    workspace: str = ""
    """Text shown after the caller's `notes`, in this call only; it is not logged."""
    to: WireFormat | None = None
    """The provider's wire format, if known: `max_bytes` then limits the request body, and the context's receipt
    (report) lists what was changed for the format."""
    max_tokens: int = 0
    """Token limit of this call, below that of the budget; the window moves to fit and stays there. 0 for the budget
    alone."""

    long: bool = False
    """True if the request has so much text that counting it would block an event loop; see `brings_much`."""

    def __post_init__(self) -> None:
        for name in self.notes:
            if not _NOTE_NAME.fullmatch(name):
                raise InvalidOption(
                    f"invalid note name {name!r}: use 1 to 64 letters, digits, '-' or '_' (it is a tag in the prompt)"
                )


class Tail(NamedTuple):
    """The text before the newest turn: pins, rules, state, remembered tool results, recalled entries.

    Made once and kept for a whole user turn.
    """

    text: str = ""
    recalled: tuple[tuple[int, float], ...] = ()
    """(seq, score) of each earlier entry that the search recalled into the text of the tail (pins, rules, recalled
    passages)."""
    room: int = 0
    """Tokens of recalled entries and of rules beyond the share of the budget that the tail (pins, rules, recalled
    passages) has."""
    tokens: int = 0
    """Tokens of the recalled passages."""


@dataclass(slots=True)
class ContextBuilder:
    """Builds the contexts of one conversation."""

    config: MemoryConfig
    cache: ConversationCache
    folds: FoldManager
    calls: CallLog
    recaller: Recaller
    rules: RuleLedger
    last: dict[Budget, Context] = field(default_factory=dict[Budget, Context])
    """The previous context of each budget, to measure how much of its beginning the next context repeats."""
    _sent: SentPrompt | None = field(default=None, init=False)
    """The last prompt that was built: a fold by the same model can continue it, see `summary_writers`."""
    _cut_summary: str = field(default="", init=False)
    """The last summary that was too long to be shown whole in a context."""
    _warned: tuple[int, ...] = field(default=(), init=False)
    """Seqs of the system messages that a warning was logged for, because they are sent shortened."""
    _warned_media: set[int] = field(default_factory=set[int], init=False)
    """Log positions of the messages that a warning was logged for, because a part of them is left out."""
    _summarizer_asked: bool = field(default=False, init=False)
    """True if the summarizer was already called for the context that is being built."""

    async def context(self, request: ContextRequest) -> Context:
        """Build the context of the next model call, and store the record of the call (manifest).

        If the log must be folded (compacted), it is folded first.
        """
        previous = self.last.get(request.budget)
        self._summarizer_asked = False
        await self.cache.assume()
        context, prompt = await self._build_and_save_window(request)
        # The first call of this handle continues the prompt of another process, or of an earlier run of this one.
        stored = None if self.last else await self.calls.newest()
        for attempt in count(1):
            if previous is not None:
                context.follow(previous)
            elif stored is not None:
                tools = stored.manifest.has_tools(context.tools, context.tools_digest)
                context.follow_stored(stored.messages, sum(stored.costs), same_tools=tools)
            if await self.calls.write(context, prompt, fenced=attempt < _FENCED_TRIES):
                break
            await self.cache.refresh()
            context, prompt = await self._build_and_save_window(request)
        self.last[request.budget] = context
        config = self.config
        self._sent = SentPrompt(
            context=context,
            tools=request.tools,
            to=request.to,
            model=config.model,
            clock=config.clock,
            at=config.clock(),
        )
        self._count_metrics(context)
        self._warn_of_short_system(context)
        self._warn_of_media(context)
        return context

    def _warn_of_short_system(self, context: Context) -> None:
        """Log a warning if the context shows the system messages shortened.

        The warning is not logged again until the session gets other system messages.
        """
        system = tuple(entry.seq for entry in self.cache.system)
        shown = context.section(Section.SYSTEM)
        if system == self._warned or shown == tuple(entry.message for entry in self.cache.system):
            return
        self._warned = system
        _log.warning(
            "the system message is sent shortened: it has more tokens than its share of the budget, %s; raise the "
            "budget, or Shares(system=...)",
            f"{context.budget.share('system'):,}",
            extra={"event": "system_shortened"},
        )

    def _warn_of_media(self, context: Context) -> None:
        """Log a warning once for each message whose image, recording or file is not sent because of its tokens."""
        for fate in context.fates:
            if fate.leaves_out_media and fate.start not in self._warned_media:
                self._warned_media.add(fate.start)
                _log.warning(
                    "a part of message #%d is left out of the prompt: %s; raise the budget, or give an image with a "
                    "low detail or as data, whose size is then known (docs: concepts/tokens.md)",
                    fate.start,
                    fate.reason,
                    extra={"event": "media_left_out"},
                )

    async def preview(self, request: ContextRequest) -> Context:
        """Build a context without storing anything; may move the cached window, so use a separate session object."""
        await self.cache.refresh()
        return (await self._build(request))[0]

    async def _build_and_save_window(self, request: ContextRequest) -> tuple[Context, PromptParts]:
        """Build a context and store where its window begins, for all processes.

        If other processes that write all the time are always first to store that, this context is used although the
        beginning of its window is not stored: its call is recorded only if the history is still the same, and the next
        context starts from the beginning that the others stored.
        """
        tries, budget = 1, request.budget
        while True:
            try:
                context, prompt = await self._build(request)
                window = await self.cache.window(budget)
                frozen = self.cache.frozen_tail(budget, window.turn_seq)
                query = request.query or (frozen.query if frozen else "")
                note = window.note(query=query, prompt=prompt)
                saved = await self.cache.save_window(budget, note)
            except (Conflict, BudgetTooSmall) as refusal:
                # With fresh state the prompt may fit: another process may have cleared messages or unpinned a text.
                final = isinstance(refusal, BudgetTooSmall) and self.cache.confirmed
                if final or tries == _MAX_TRIES:
                    raise
            else:
                if saved:
                    return context, prompt
                if tries >= _MAX_SAVES:
                    self.cache.drop_window(budget)
                    return context, prompt
            tries += 1
            await self.cache.refresh()
            self.cache.drop_window(budget)

    async def fold_range(self, budget: Budget, upto: int, prompt: PromptParts) -> FoldRange | None:
        """Return the range of entries to fold (compact), which ends at `upto`; None if there is nothing to fold."""
        cache = self.cache
        window = await cache.window(budget)
        limit = window.summary_limit(budget, prompt)
        if upto <= cache.folded or limit < _MIN_SUMMARY:
            return None
        opener = window.opener
        ended = [opener] if opener and opener.seq != window.turn_seq else []
        return FoldRange(
            cache.checkpoint,
            cache.folded,
            upto,
            limit,
            cache.cleared,
            cache.newest,
            self._sent,
            await self.rules.outdated(window),
            window.turn_seq,
            tuple(p for each in ended for p in passages_of([each.message], first=each.seq)),
            window.reading,
        )

    async def prompt_parts(self, request: ContextRequest) -> PromptParts:
        """Return the prompt's parts outside the window: system messages, summary, tail and tool schemas.

        The tail is the text before the newest turn: pins, rules, state, recalled passages.
        """
        cache, budget, query = self.cache, request.budget, request.query
        window = await cache.window(budget)
        frozen = cache.frozen_tail(budget, window.turn_seq)
        # Within a turn the tail stays the same, unless the caller gives another query or steps of the turn were folded:
        # the prompt changes before the tail then anyway, and what the running task needs may be among them.
        rules = await self.rules.text(
            window, budget, request.tools, self._sent_summary(window, budget)
        )
        same = frozen is not None and query in ("", frozen.query) and self.rules.is_in(frozen.tail)
        if frozen is not None and same and not self._has_folded_steps(window, frozen.anchor):
            kept = Tail(frozen.tail, frozen.recalled, frozen.recall_room, frozen.recall_tokens)
            prompt = self._prompt_with(request, kept)
            # If a running turn needs room, recalled passages are dropped before the window is cut.
            fits = kept.room <= self.rules.extra
            if fits or await self._compute(request, self._room_left, window, prompt) >= 0:
                return prompt
        return self._prompt_with(request, await self._tail(request, window, rules))

    def _sent_summary(self, window: LiveWindow, budget: Budget) -> str:
        """Return the summary as contexts show it; nothing if they show it shortened."""
        summary = PromptParts(
            checkpoint=self.cache.shown_checkpoint, stand_in=self.cache.stand_in
        ).summary
        if not summary or summary == self._cut_summary or not self.rules.enabled:
            return ""
        return summary if window.summary_tokens(summary) <= budget.share("summary") else ""

    def _is_summary_cut(self, context: Context, prompt: PromptParts) -> bool:
        """Return True if a context shows its summary shortened although the rules were chosen for the whole summary.

        The summary is noted, so that the rules for the next contexts are chosen without it.
        """
        shown = "\n".join(message.text for message in context.section(Section.SUMMARY))
        summary = prompt.summary
        if not summary or summary == self._cut_summary or summary_message(summary).text == shown:
            return False
        self._cut_summary = summary
        return True

    async def _compute(
        self,
        request: ContextRequest,
        work: Callable[Concatenate[ContextRequest, _Options], _Result],
        *args: _Options.args,
        **options: _Options.kwargs,
    ) -> _Result:
        """Return `work(request, ...)`; run in a thread if the request is long, so that no event loop is blocked."""
        call = partial(work, request, *args, **options)
        return await self.config.runtime.compute(call) if request.long else call()

    def _built(
        self, request: ContextRequest, budget: Budget, window: LiveWindow, prompt: PromptParts
    ) -> Context:
        """Build a context from the window, with tool schemas and, if used, settings for compaction by the provider."""
        config = self.config
        context = window.build(budget, prompt, config.strategy)
        context.limit = request.max_tokens
        context.tool_schemas = request.tools
        if config.compaction is not CompactionMode.TURNFOLD:
            tokens = int(_NATIVE_SHARE * config.policy.threshold * request.budget.tokens)
            required = config.compaction is CompactionMode.NATIVE
            context.native = NativeCompaction(tokens, required=required)
        return context

    def _compacted(self, window: LiveWindow) -> int:
        """Return the log position of the newest compaction by the provider in the window.

        Returns 0 if there is none or this memory uses none.
        """
        return 0 if self.config.compaction is CompactionMode.TURNFOLD else window.compacted

    def _prompt_with(self, request: ContextRequest, tail: Tail) -> PromptParts:
        cache = self.cache
        return PromptParts(
            system=cache.system,
            tail=tail_message(with_notes(tail.text, request.notes, request.workspace)),
            tail_text=tail.text,
            tools=request.tools,
            checkpoint=cache.shown_checkpoint,
            stand_in=cache.stand_in,
            cleared=cache.cleared,
            recalled=tail.recalled,
            recall_room=tail.room,
            recall_tokens=tail.tokens,
            rules_left_out=self.rules.left_out,
        )

    async def _build(self, request: ContextRequest) -> tuple[Context, PromptParts]:
        """Build a context within the budget, `max_tokens` and the provider's limits.

        Messages that leave the window because of a limit of this call or its provider are folded (compacted) if
        possible.
        """
        first, prompt = await self._build_within_limits(request)
        smaller = first.budget != request.budget or (first.wired and first.wired.rebuilt)
        if not smaller or self.config.policy.mode is FoldMode.MANUAL:
            return first, prompt
        context, prompt = await self._build_within_limits(request)
        context.moved = True
        if first.wired and context.wired:
            rebuilt = first.wired.rebuilt + context.wired.rebuilt
            context.wired = context.wired._replace(rebuilt=rebuilt)
        return context, prompt

    async def _build_within_limits(self, request: ContextRequest) -> tuple[Context, PromptParts]:
        """Build a context within the budget, then a smaller one if `max_tokens` or the provider's limits require it."""
        context, prompt = await self._build_folded(request)
        if request.to is None and context.tokens <= (request.max_tokens or context.tokens):
            return context, prompt
        window = await self.cache.window(request.budget)
        try:
            context = await self._compute(request, self._build_smaller, context, window, prompt)
        except BudgetTooSmall:
            self.cache.drop_window(request.budget)  # it may have moved before the error
            raise
        return context, prompt

    def _build_smaller(
        self, request: ContextRequest, context: Context, window: LiveWindow, prompt: PromptParts
    ) -> Context:
        """Return the context, or a smaller one if it exceeds `max_tokens` or the provider's limits."""

        def build(budget: Budget) -> Context:
            return self._built(request, budget, window, prompt)

        most, moved = request.max_tokens or context.tokens, context.moved
        if context.tokens > most:
            context = build(replace(request.budget, max_tokens=most))
            context.moved = moved or context.moved
        if request.to is None:
            return context
        from turnfold.wire import fitted  # loads the wire formats only if one is used

        return fitted(context, request.to, tools=request.tools, rebuild=build)

    async def _build_folded(self, request: ContextRequest) -> tuple[Context, PromptParts]:
        """Build a context; while a fold (compaction) is due, fold and build it again, at most `_MAX_FOLDS` times."""
        folded = await self._fold_before_recall(request)
        context, prompt = await self._build_once(request)
        context.moved = context.moved or folded
        for _ in range(_MAX_FOLDS - folded):
            ask = not self._summarizer_asked
            if not await self._fold_before(request, context, prompt, ask=ask):
                break
            await self.cache.refresh()
            context, prompt = await self._build_once(request)
            context.moved = True  # by the fold, before this context was built
        return context, prompt

    async def _fold_before_recall(self, request: ContextRequest) -> bool:
        """Fold (compact) before passages are recalled for a new turn, if a fold is due even without them.

        They would be chosen again for the window after the fold. Returns True if the state was read again.
        """
        cache, budget = self.cache, request.budget
        if self.config.policy.mode is not FoldMode.INLINE or request.recall is RecallMode.OFF:
            return False
        window = await cache.window(budget)
        if self._in_tool_loop(window) or cache.frozen_tail(budget, window.turn_seq) is not None:
            return False
        bare = replace(request, query="", recall=RecallMode.OFF)
        prompt = await self.prompt_parts(bare)
        used = budget.tokens - await self._compute(bare, self._room_left, window, prompt)
        if used < self._due_tokens(request, folded=cache.covered > cache.cleared):
            return False
        if not window.shows_turn_within(budget.tokens // 2):
            return False  # a huge question is shortened, whether or not there is something to fold
        context, prompt = await self._build_once(bare)
        if not await self._fold_before(request, context, prompt, ask=not self._summarizer_asked):
            return False
        await cache.refresh()
        return True

    async def _build_once(self, request: ContextRequest) -> tuple[Context, PromptParts]:
        """Build a context from cached state; its recalled passages match the window as it is after the build.

        The tail (pins, rules, recalled passages) shows what the window does not: findings (remembered tool results) and
        passages from before it, and results it shortens. If the build moved the window, a tail that is not frozen yet
        is made again for it.
        """
        budget, prompt = request.budget, await self.prompt_parts(request)
        window = await self.cache.window(budget)
        begins = window.anchor, window.caps
        context = await self._compute(request, self._built, budget, window, prompt)
        cut = self._is_summary_cut(context, prompt)
        if begins == (window.anchor, window.caps) and not cut:
            return context, prompt
        again = await self.prompt_parts(request)
        if again.tail_text == prompt.tail_text:
            return context, prompt
        context = await self._compute(request, self._built, budget, window, again)
        context.moved = True
        return context, again

    async def _fold_before(
        self, request: ContextRequest, context: Context, prompt: PromptParts, *, ask: bool
    ) -> bool:
        """Fold, if a fold is due, before this context is sent; return True if the context must be built again.

        With `ask` (once per context) the summarizer is called. Without it, an extract is made of messages that left the
        window and that no summary covers, because the fold is slow, failed, runs elsewhere or needs further steps.
        """
        cache, policy, budget = self.cache, self.config.policy, request.budget
        if policy.mode is FoldMode.MANUAL:
            return False
        window = await cache.window(budget)
        uncovered = window.anchor - 1 > prompt.covered
        if not uncovered and not (ask and self._is_fold_due(request, window, context, prompt)):
            return False
        await cache.confirm()
        # Fold up to the provider's compaction item: it stays in the window, and other models get the summary instead.
        compacted = self._compacted(window)
        upto = (
            compacted - 1
            if compacted
            else window.fold_upto(
                budget,
                prompt,
                due_tokens=self._due_tokens(request, folded=True),
                threshold=policy.threshold,
                keep_turns=policy.keep_turns,
            )
        )
        fold = await self.fold_range(budget, max(upto, window.anchor - 1), prompt)
        if fold is None:
            return False
        if ask:
            self._summarizer_asked = True
            landed = await self._fold(fold)
            # Even a failed inline fold changed the stored lease: build again from fresh state.
            return landed is not None or uncovered or policy.mode is FoldMode.INLINE
        reach = max(STEP_TOKENS, budget.tokens)
        return await self.folds.stand_in(
            fold, prompt.stand_in, upto=window.anchor - 1, tokens=reach
        )

    def _due_tokens(self, request: ContextRequest, *, folded: bool) -> int:
        """Return the number of tokens from which on a context must be folded (compacted).

        Recalled passages are not counted.

        Once something is `folded`, this is less, because room is kept free for recalled passages. Rules take of that
        room what they need beyond their share: they must not push the newest turns out.
        """
        budget = request.budget
        due = int(self.config.policy.threshold * budget.tokens)
        if request.recall is RecallMode.OFF or not folded:
            return due
        return min(due, budget.tokens - budget.recall_tokens + self.rules.beyond_share)

    def _is_fold_due(
        self,
        request: ContextRequest,
        window: LiveWindow,
        context: Context,
        prompt: PromptParts,
    ) -> bool:
        """Return True if the log must be folded (compacted) before or after this call.

        That is so if the context, without its recalled passages, has reached the threshold of the budget, or if the
        window begins after entries that are not folded yet.

        In mode `inline`, during a turn's tool loop, the result is False as long as the prompt sent before the new
        messages stays the same: a fold would lose the provider's prompt cache. Once the window or the tail (text before
        the newest turn) changes, the cache is lost anyway.
        """
        policy = self.config.policy
        owed = window.anchor - 1 > prompt.folded
        used = context.tokens - prompt.recall_tokens
        folded = prompt.covered > prompt.cleared
        if not owed and used < self._due_tokens(request, folded=folded):
            return False
        if not owed and self._awaits_provider(request, window, context, prompt):
            return False
        if policy.mode is not FoldMode.INLINE or not self._in_tool_loop(window) or context.moved:
            return True
        frozen = self.cache.frozen_tail(request.budget, window.turn_seq)
        return frozen is not None and frozen.tail != prompt.tail_text

    def _awaits_provider(
        self, request: ContextRequest, window: LiveWindow, context: Context, prompt: PromptParts
    ) -> bool:
        """Return True if turnfold need not fold (compact) now, because the provider itself will compact the prompt.

        Everything that the provider compacted earlier must be folded already. The provider counts tokens in its own
        way: if the window is full before it compacts, the window is cut.
        """
        if compacted := self._compacted(window):
            return compacted <= prompt.covered + 1
        if context.native is None or context.native.required or request.to is None:
            return context.native is not None and context.native.required
        from turnfold.wire import asks_to_compact  # loads the wire formats only if one is used

        asked = request.to.request(context, tools=request.tools, max_bytes=0).kwargs
        return asks_to_compact(asked)

    @staticmethod
    def _in_tool_loop(window: LiveWindow) -> bool:
        return window.turn_seq != window.seq

    def _has_folded_steps(self, window: LiveWindow, anchor: int) -> bool:
        """Return True if steps of the running turn have left the window since the turn began at `anchor`."""
        return window.anchor > max(anchor, window.turn_seq + 1) and self._in_tool_loop(window)

    async def _fold(self, fold: FoldRange) -> Checkpoint | None:
        """Fold (compact) one step and return its checkpoint (summary); None if it failed.

        In background mode, this only starts the fold and returns None.
        """
        if self.config.policy.mode is FoldMode.BACKGROUND:
            self.folds.begin_background(fold)
            return None
        with suppress(SummaryFailed):  # it is stored and logged; the last good window is used
            return await self.folds.step(fold)
        return None

    def _recall_query(self, request: ContextRequest, window: LiveWindow) -> str:
        """Return the words to search for before the window: the query, or the user message of the newest turn.

        If steps of the turn left the window, the texts of its newest steps are added, to find what they need.
        """
        if request.query or request.recall is RecallMode.OFF:
            return request.query
        if window.anchor <= self.cache.cleared + 1:
            return ""
        if not self._has_folded_steps(window, window.turn_seq):
            return window.question
        return "\n".join([window.question, *window.newest_steps])

    async def _tail(self, request: ContextRequest, window: LiveWindow, rules: str) -> Tail:
        """Make the tail, the text that stands before the newest turn.

        It has pins, rules, state, findings (remembered tool results) and recalled passages.
        """
        cache, budget = self.cache, request.budget
        query = self._recall_query(request, window)
        turn = window.turn_seq or cache.head.seq + 1
        pins = pinned_at(cache.pins, turn)
        state = state_at(cache.state, turn)
        if not (query or pins or rules or state or cache.findings.by_key):
            return Tail()
        share = budget.share("tail") + self.rules.extra
        count_message = cache.counter.count_message

        def text(recalled: Sequence[Recalled], findings: str = "") -> str:
            marked = self.rules.marked(recalled)
            return tail_text(
                pins=pins, rules=rules, state=state, findings=findings, recalled=marked
            )

        def cost(recalled: Sequence[Recalled], findings: str = "") -> int:
            return sum(map(count_message, tail_message(text(recalled, findings))))

        check_pins(pins, budget, cache.counter)
        known = self._tail_findings(request, window, turn)
        if not query:
            shown = known.text(share, lambda block: cost((), block))
            return Tail(text((), shown), room=self.rules.extra)
        # Findings that match the query, then passages that match it, then the other findings.
        first = known.text(share, lambda block: cost((), block), matching=True)
        whole = known.whole(first)
        base = cost((), first)
        room = await self._compute(request, self._recall_limit, window, text((), first), base)
        found = await self._recalled(
            request,
            window,
            whole,
            tokens=base + room,
            room=room,
            measure=lambda some: cost(some, first),
            said=SaidWords.of_summary(f"{self._sent_summary(window, budget)}\n{rules}"),
        )
        every = known.text(share, lambda block: cost((), block))
        if any(each not in known.whole(every) for each in whole):
            every = first  # a finding that no passage repeats must not be cut to show others
        found = list(filterfalse(partial(_is_shown_by, known.whole(every)), found))
        if found and cost(found, every) > max(base + room, share):
            every = first
        bare = cost((), every)
        # What the passages leave free: like them, it counts for no fold.
        rules = self.rules.with_more(base + room - cost(found, every))
        total = cost(found, every)
        return Tail(
            text(found, every),
            tuple((entry.seq, entry.score) for entry in found),
            max(total - share, 0) + self.rules.extra,
            total - bare,
        )

    async def _recalled(
        self,
        request: ContextRequest,
        window: LiveWindow,
        findings: Sequence[Finding],
        *,
        tokens: int,
        room: int,
        measure: Callable[[Sequence[Recalled]], int],
        said: SaidWords,
    ) -> list[Recalled]:
        """Return passages from before the window, of at most `room` tokens.

        The whole tail (pins, rules, state, recalled passages) may have `tokens`.

        Left out are entries that the `findings` of the tail show, messages of the user that its rules or the summary
        (`said`) show, and changed rules unless the caller asks for them.
        """
        if room <= 0:
            return []
        automatic = not request.query and request.recall is RecallMode.AUTOMATIC

        opener = window.opener.seq if window.opener else 0

        def shown(entry: Entry) -> bool:
            if entry.seq == opener or _is_shown_by(findings, entry):
                return True
            if entry.message.role == "user" and said.has(entry.message.text):
                return True
            if self.rules.is_confirmation(entry.seq, entry.message):
                return automatic
            return automatic and self._is_replaced(entry)

        return await self.recaller.passages(
            self._recall_query(request, window),
            tokens=tokens,
            measure=measure,
            after=self.cache.cleared,
            before=window.anchor,
            # The newest steps of a running turn are no sentence of the user: the best matches are shown, however weak.
            automatic=automatic and not self._has_folded_steps(window, window.turn_seq),
            shown=shown,
            question=opener if opener == window.turn_seq and not request.query else 0,
            turns=window.turns if window.tokens(largest=room) < room and automatic else None,
        )

    def _is_replaced(self, entry: Entry) -> bool:
        """Return True if an entry says only what the user later replaced or withdrew, and no value is lost without it.

        "Send it to the new address" may replace a rule, but does not say the address: then the entry is shown, marked.
        """
        if not self.rules.is_outdated(entry):
            return False
        found = Recalled(entry.seq, entry.turn, entry.message, entry.created, 0.0)
        (marked,) = self.rules.marked([found])
        has_later = marked.outdated.endswith(("”", '"'))
        return not (
            has_later
            and _VALUE.search(entry.message.text) is not None
            and _VALUE.search(marked.outdated) is None
        )

    def _recall_limit(
        self, request: ContextRequest, window: LiveWindow, base: str, base_tokens: int
    ) -> int:
        """Return the most tokens for recalled passages: the free room minus a reserve for the turn's tool loop.

        `base` is the tail (pins, rules, recalled passages) without passages. The result is at most `RECALL_TOKENS`,
        because a large budget does not make more passages relevant.
        """
        budget = request.budget
        share = budget.share("tail")
        # Without passages the tail is shortened to its share; with them all of it is shown.
        bare = self._prompt_with(replace(request, notes={}, workspace=""), Tail())
        left = min(
            self._room_left(request, window, self._prompt_with(request, Tail(base))),
            self._room_left(request, window, bare) - base_tokens,
        )
        loop = self._loop_reserve(request, window)
        most = min(max(left - loop, min(left, share)), RECALL_TOKENS)
        if self._has_folded_steps(window, window.turn_seq):
            # Each fold of the loop replaces them: the more room they take, the sooner the next fold is due.
            most = min(most, max((budget.tokens - _SMALL_BUDGET) // 4, share))
        # A shortened message of the running turn needs the room more than passages do.
        return min(most, budget.tokens // 16) if window.shortens_turn else most

    def _loop_reserve(self, request: ContextRequest, window: LiveWindow) -> int:
        """Return the tokens to leave free for the steps of the turn, so that its passages can stay to its end.

        With tools that is as much as the longest turn in the window took after its question, up to a quarter of the
        budget.
        """
        tokens = request.budget.tokens
        if not (request.tools or window.uses_tools):
            return tokens // (8 if self._in_tool_loop(window) else 32)
        longest = window.longest_loop
        return min(max(longest, tokens // 16) if longest else tokens // 8, tokens // 4)

    @staticmethod
    def _room_left(request: ContextRequest, window: LiveWindow, prompt: PromptParts) -> int:
        """Return how many tokens of the budget, or of a smaller `max_tokens`, the whole window leaves free."""
        budget = request.budget
        less = max(budget.tokens - request.max_tokens, 0) if request.max_tokens else 0
        return window.room_left(budget, prompt) - less

    def _tail_findings(
        self, request: ContextRequest, window: LiveWindow, turn: int
    ) -> TailFindings:
        """Return the findings (remembered tool results) from before this turn that the window does not show."""
        found = self.cache.findings.shown_at(
            turn, now=self.config.clock(), anchor=window.anchor, cut=window.caps
        )
        question = request.query or window.question
        return TailFindings.of(found, question, self.cache.counter.count_text)

    def _count_metrics(self, context: Context) -> None:
        meter, receipt = self.config.meter, context.receipt
        meter.add("contexts")
        meter.observe("token_ratio", receipt.tokens / receipt.allowed)
        meter.observe("prefix_share", receipt.prefix_share)


def _is_shown_by(findings: Sequence[Finding], entry: Entry | Recalled) -> bool:
    """Return True if a finding (remembered tool result) was made from this entry, or from an equal tool result."""
    text = entry.message.text.strip()
    return any(entry.seq == each.seq or text == each.content.strip() for each in findings)
