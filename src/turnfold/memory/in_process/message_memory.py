"""Message memory with truncation strategies: document 000 in Python.

The documented names and defaults, on the window of this library: limits hold after every add, appending is O(1)
amortised, a tool call is never separated from its results, and what is asked for within a budget is within it. Only
what cannot give way may pass a limit: the newest span with the question it belongs to, and the summary beside it.
With no model named it counts cautiously (see `tokens.cautious`); give `counter` for exact counts. With `db_path` and
`enable_persistence` the conversation is in that file too: what `add` took is durable when it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from turnfold.budget import Budget, Shares, WaterMarks
from turnfold.errors import BudgetTooSmall, InvalidOption
from turnfold.memory.in_process.held import HeldMessages
from turnfold.records import Message, as_message, system
from turnfold.summary import extractive_summarizer
from turnfold.tokens import TokenCounter, cautious_counter, clip, formula_message_tokens
from turnfold.window import (
    Anchor,
    Context,
    Receipt,
    Room,
    Strategy,
    Summarizer,
    assemble,
    fits,
    next_anchor,
    oldest_first,
    sliding_window,
    summarise,
    summary_message,
)

if TYPE_CHECKING:
    from turnfold.memory.in_process.persistence import SavedMessages

__all__ = ("MessageMemory", "MessageMemoryConfig", "TruncateStrategy")

_UNLIMITED = 1 << 62
_REMEMBERED_BUDGETS = 8
_AS_LITTLE_AS_NEEDED = WaterMarks(low=1.0, snap=1.0)
_SHARES = Shares(system=0.8, summary=0.15, tail=0.02)
_SUMMARY_TOKENS = 96
"""What a summary with its fence takes to be worth having, where the limit is small."""
_LEAST_FOR_A_SUMMARY = 256
_LARGEST_SYSTEM = 0.97
"""Part of a limit that the system message may take."""


class TruncateStrategy(StrEnum):
    """What gives way when a limit is reached. The system message never does."""

    OLDEST = "oldest"
    """The oldest messages, in whole spans."""
    SLIDING_WINDOW = "sliding_window"
    """Everything but the newest `max_messages` messages."""
    SUMMARIZE = "summarize"
    """The oldest messages, with a summary in their place."""


@dataclass(frozen=True, slots=True)
class MessageMemoryConfig:
    """The documented configuration; 0 means no limit."""

    session_id: str = ""
    """Names the conversation in the file."""
    max_messages: int = 0
    """Messages kept, system included."""
    max_tokens: int = 0
    """Tokens kept."""
    context_window: int = 128_000
    """What the model can read at once."""
    reserve_ratio: float = 0.25
    """Part of it kept free for the answer."""
    strategy: TruncateStrategy = TruncateStrategy.OLDEST
    db_path: str | Path | None = None
    """The SQLite file that keeps the conversation; many may share one."""
    enable_persistence: bool = False
    """Whether it is kept; both or neither."""

    def __post_init__(self) -> None:
        Budget(
            context_window=self.context_window,
            reserve_ratio=self.reserve_ratio,
            max_tokens=self.max_tokens,
            max_messages=self.max_messages,
        )
        self._check_persistence()
        if self.strategy not in tuple(TruncateStrategy):
            names = ", ".join(TruncateStrategy)
            raise InvalidOption(f"unknown strategy {self.strategy!r}; known: {names}")
        object.__setattr__(self, "strategy", TruncateStrategy(self.strategy))
        summarises = self.strategy is TruncateStrategy.SUMMARIZE
        if summarises and 0 < self.max_tokens < _LEAST_FOR_A_SUMMARY:
            raise InvalidOption(
                f"max_tokens {self.max_tokens} leaves no room for a summary beside the newest turn: use at least "
                f"{_LEAST_FOR_A_SUMMARY}, or another strategy"
            )

    def _check_persistence(self) -> None:
        if self.enable_persistence != (self.db_path is not None):
            raise InvalidOption(
                f"enable_persistence={self.enable_persistence} with db_path={self.db_path!r}: set both to keep the "
                "conversation in a file, or neither"
            )
        if self.db_path is None:
            return
        if not self.session_id:
            raise InvalidOption(
                "enable_persistence needs a session_id: it names the conversation in the file"
            )
        name = str(self.db_path)
        if not name or name == ":memory:" or name.startswith("file:"):
            raise InvalidOption(
                f"db_path {name!r} is not the path of a file: give one, such as 'chat.db'"
            )


class MessageMemory:
    """The messages of one conversation, held within limits and handed out within a budget."""

    def __init__(
        self,
        config: MessageMemoryConfig | None = None,
        *,
        counter: TokenCounter | None = None,
        summarizer: Summarizer | None = None,
    ) -> None:
        self.config = config or MessageMemoryConfig()
        self._counter = counter or cautious_counter()
        self._strategy = _strategy(self.config, _bounded(summarizer, self._counter.count_text))
        self._held = HeldMessages(self._counter)
        self._last: Context | None = None
        self._limits = self._limits_beside(())
        self._saved: SavedMessages | None = None
        if self.config.db_path is not None:
            self._open(self.config.db_path)

    def add(self, message: object) -> None:
        """Append a message (any accepted shape) and let the oldest ones go if a limit is passed.

        With persistence the message is in the file, synced, before anything else happens.
        """
        accepted = as_message(message)
        if self._saved is None:
            self._take(accepted)
            return
        if accepted.role == "system":
            self._limits_beside([*self._held.transcript.system, accepted])  # refused before stored
        added = self._saved.append(accepted, self._held)
        before, settled = self._beyond_the_log(), False
        try:
            self._take(*added)
            settled = self._beyond_the_log() == before
        finally:
            if not settled:
                self._saved.save_soon(self._held)

    def set_system(self, content: str) -> None:
        """Set the system message, which no strategy removes; one beyond the limits is refused."""
        message = system(content)
        self._limits_beside([message])
        with self._saving():
            self._use_system([message])

    def get_messages(self) -> list[Message]:
        """Everything kept, system first, in order."""
        return [piece.message for piece in self._held.pieces()]

    def get_messages_within_budget(self, max_tokens: int = 0) -> list[Message]:
        """The messages to send: system first, in order, within `max_tokens` or the configured budget.

        The window is stable: it grows at its end until the budget is full and is then cut in one step, so that a
        provider's prompt cache can follow it. `receipt` accounts for the last window handed out.
        """
        return list(self.context(max_tokens).messages)

    def context(self, max_tokens: int = 0) -> Context:
        """The same window as a `Context`, with its receipt."""
        budget, held = self._budget(max_tokens), self._held
        anchor = held.windows.get(budget.tokens, held.anchor)
        if anchor.position < held.anchor.position:
            anchor = held.anchor
        context = assemble(
            held.transcript, budget, anchor=anchor, strategy=self._strategy, previous=self._last
        )
        self._last = context
        if held.windows.get(budget.tokens) != context.anchor:
            with self._saving():
                if len(held.windows) >= _REMEMBERED_BUDGETS and budget.tokens not in held.windows:
                    del held.windows[next(iter(held.windows))]
                held.windows[budget.tokens] = context.anchor
        return context

    @property
    def receipt(self) -> Receipt | None:
        """The account of the last window handed out; None before the first."""
        return None if self._last is None else self._last.receipt

    def count(self) -> int:
        """How many messages are kept, system included."""
        return self._held.count()

    def get_token_count(self) -> int:
        """Tokens of everything kept."""
        return self._held.tokens()

    def clear(self) -> None:
        """Forget everything but the system message."""
        with self._saving():
            self._held = HeldMessages(self._counter, self._held.transcript.system)
            self._last = None

    @staticmethod
    def estimate_tokens(message: object) -> int:
        """The documented rule of thumb: CJK x 1.5, other characters / 4, + 4; by character, not by byte."""
        return formula_message_tokens(as_message(message))

    def truncate(self, target_tokens: int) -> int:
        """Let the oldest messages go until everything kept is within `target_tokens`; how many went."""
        if target_tokens <= 0:
            raise InvalidOption(f"target_tokens must be positive, got {target_tokens}")
        opening = self._held.transcript.system
        budget = self._limited_to(target_tokens, opening, marks=_AS_LITTLE_AS_NEEDED)
        before = self._held.count() - bool(self._held.anchor.summary)
        if self._held.tokens() > target_tokens:
            with self._saving():
                if self._held.has_strays():
                    self._held.release_strays()
                self._keep_within(budget)
        return before - self._held.count() + bool(self._held.anchor.summary)

    def close(self) -> None:
        """Let go of the file; without persistence there is nothing to do. Closing twice is allowed."""
        if self._saved is not None:
            self._saved.close(self._held)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self, path: str | Path) -> None:
        """Hold what the file holds."""
        from turnfold.memory.in_process.persistence import (
            SavedMessages,  # loads the database driver
        )

        config = self.config
        limits = (
            f"{config.max_messages} messages, {config.max_tokens} tokens, window {config.context_window} less "
            f"{config.reserve_ratio}, {config.strategy}, {self._counter.name}"
        )
        saved = SavedMessages(path, config.session_id, counter=self._counter, limits=limits)
        try:
            self._held = saved.load()
            self._limits = self._limits_beside(self._held.transcript.system)
            before = self._beyond_the_log()
            for added in saved.added_since():
                self._take(*added)
            if saved.settle(changed=self._beyond_the_log() != before):
                self._enforce_limits()
        except BaseException:
            saved.close()
            raise
        self._saved = saved

    def _take(self, message: Message, number: int = 0, tokens: int | None = None) -> None:
        if message.role == "system":
            self._use_system([*self._held.transcript.system, message])
        else:
            self._held.add(message, number, tokens)
            self._enforce_limits()

    def _beyond_the_log(self) -> tuple[object, ...]:
        """What changes when adding did more than adding again would do at little cost: a release or a summary."""
        anchor = self._held.anchor
        return self._held.transcript, anchor.summary, anchor.covered

    @contextmanager
    def _saving(self) -> Generator[None]:
        """Keep in the file what the block changes beside the log."""
        if self._saved is None:
            yield
            return
        self._saved.check_current(self._held)
        try:
            yield
        finally:
            self._saved.save(self._held)

    def _budget(self, max_tokens: int) -> Budget:
        if max_tokens < 0:
            raise InvalidOption(f"max_tokens must not be negative, got {max_tokens}")
        caps = [cap for cap in (max_tokens, self.config.max_tokens) if cap]
        return Budget(
            context_window=0 if max_tokens else self.config.context_window,
            reserve_ratio=self.config.reserve_ratio,
            max_tokens=min(caps, default=0),
            max_messages=self.config.max_messages,
            shares=_SHARES,
        )

    def _use_system(self, messages: list[Message]) -> None:
        self._limits = self._limits_beside(messages)
        self._held.transcript.system[:] = messages
        self._enforce_limits()

    def _limits_beside(self, opening: Sequence[Message]) -> Budget | None:
        """The limits as a budget beside these system messages; None when there are no limits."""
        config = self.config
        if not (config.max_messages or config.max_tokens):
            return None
        if config.max_messages and len(opening) >= config.max_messages:
            raise BudgetTooSmall(
                needed=len(opening) + 1,
                allowed=config.max_messages,
                parts={"system": len(opening), "newest message": 1},
                unit="messages",
                remedy="Nothing could be kept beside the system message: raise max_messages",
            )
        # Limits cut no more than they must: what they leave out is gone, unlike what a budget leaves out of one call.
        # A summary is made of many messages at once or it would be made anew for each.
        summarises = config.strategy is TruncateStrategy.SUMMARIZE
        marks = WaterMarks(low=0.5) if summarises else _AS_LITTLE_AS_NEEDED
        limited = self._limited_to(config.max_tokens or _UNLIMITED, opening, marks=marks)
        return replace(limited, max_messages=config.max_messages)

    def _limited_to(self, tokens: int, opening: Sequence[Message], *, marks: WaterMarks) -> Budget:
        """A budget under which everything kept costs at most `tokens`, these system messages whole."""
        allowed = tokens + self._counter.reply
        needed = sum(map(self._counter.count_message, opening))
        system_share = (needed + 1) / allowed
        if system_share > _LARGEST_SYSTEM:
            raise BudgetTooSmall(
                needed=needed,
                allowed=int(tokens * _LARGEST_SYSTEM),
                parts={"system": needed},
                remedy="The system message is kept whole, and something must fit beside it: shorten it, or allow "
                f"more than {tokens:,} tokens",
            )
        wanted = max(0.15 * min(allowed, self._budget(0).tokens), _SUMMARY_TOKENS)
        summary_share = min(wanted / allowed, 0.6 * (1 - system_share))
        shares = Shares(system=system_share, summary=summary_share, tail=0.1 * (1 - system_share))
        return Budget(max_tokens=allowed, marks=marks, shares=shares)

    def _enforce_limits(self) -> None:
        if self._limits is None:
            return
        if self._held.has_strays() and self._over_limits():
            self._held.release_strays()
        try:
            self._keep_within(self._limits)
        except BudgetTooSmall:
            # Not even the newest span fits. It is kept, whole; whoever asks for a window is told why.
            self._keep_newest(self._limits)

    def _over_limits(self) -> bool:
        messages, tokens = self.config.max_messages, self.config.max_tokens
        too_many = bool(messages) and self._held.count() > messages
        return too_many or (bool(tokens) and self._held.tokens() > tokens)

    def _keep_within(self, budget: Budget) -> None:
        held = self._held
        if not fits(held.transcript, budget, held.anchor):
            held.let_go(
                next_anchor(held.transcript, budget, anchor=held.anchor, strategy=self._strategy)
            )

    def _keep_newest(self, budget: Budget) -> None:
        view = self._held.view()
        if view.start < view.last:
            fence = self._counter.count_message(summary_message(""))
            nothing_fits = Room(tokens=1, low=1, summary=budget.share("summary") - fence)
            choice = self._strategy(view, nothing_fits)
            position = view.transcript.position_of(choice.start)
            reason = "the newest span alone is over the limits"
            self._held.let_go(Anchor(position, (), choice.summary, position, reason))


def _bounded(summarizer: Summarizer | None, count: Callable[[str], int]) -> Summarizer:
    """The summarizer held to its limit; the extractive one where there is none, or where it says nothing."""
    extract = extractive_summarizer(count)
    if summarizer is None:
        return extract

    def summary(messages: Sequence[Message], *, previous: str, limit: int) -> str:
        text = summarizer(messages, previous=previous, limit=limit).strip()
        return clip(text, limit, count) or extract(messages, previous=previous, limit=limit)

    return summary


def _strategy(config: MessageMemoryConfig, summarizer: Summarizer) -> Strategy:
    match config.strategy:
        case TruncateStrategy.SLIDING_WINDOW if config.max_messages:
            return sliding_window(messages=config.max_messages)
        case TruncateStrategy.SUMMARIZE:
            return summarise(summarizer)
        case _:
            return oldest_first
