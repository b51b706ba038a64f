"""Keeps the messages of one conversation within limits (`MessageMemory`).

It is the memory of design document 000.

Names and defaults are those of the document; trimming is that of `turnfold.window`. Limits hold after every add,
appending is O(1) amortised, a tool call is never separated from its results, and a requested budget is never exceeded.
Only the newest span (a message, or a tool call with its results) with the question it belongs to, and the summary, may
exceed a limit. No model is known, so tokens are counted cautiously (see `cautious_counter`); pass `counter` for exact
counts.

With `db_path` the conversation is a session in that SQLite file: a message is durable when `add` returns, and
`turnfold.Memory` and the command line show the same conversation (`session_id`, or "default") in the tenant "default".
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

from turnfold.budget import Budget, Shares, WaterMarks
from turnfold.errors import BudgetTooSmall, Conflict, InvalidOption, StoreUnavailable
from turnfold.fold import extractive_summarizer, passages_of
from turnfold.memories.message_memory_transcript import KeptMessages
from turnfold.records import Message, as_message, check_text, plain_text, system
from turnfold.runtime import SyncRuntime, drive
from turnfold.text import clip
from turnfold.tokens import TokenCounter, cautious_counter, formula_message_tokens
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
    summary_fence_cost,
)

if TYPE_CHECKING:
    from turnfold.memories.message_memory_storage import MessageFile
    from turnfold.memory import Summaries
    from turnfold.wire import WireFormat

__all__ = ("MessageMemory", "MessageMemoryConfig", "TruncateStrategy")


_log = logging.getLogger(__name__)
_SESSION = "default"
"""Id of the session in the file if the configuration gives none."""
_UNLIMITED = 1 << 62
_MAX_WINDOWS = 8
_CUT_AS_NEEDED = WaterMarks(low=1.0, snap=1.0)
_SHARES = Shares(system=0.8, summary=0.15, tail=0.02)
_SUMMARY_TOKENS = 96
"""Tokens that are kept for a summary and the marks around it, even if the limit of the memory is small."""
_MIN_FOR_SUMMARY = 256
_MAX_SYSTEM_SHARE = 0.97
"""Largest share of a limit that the system messages may take; beyond that `BudgetTooSmall` is raised."""


class TruncateStrategy(StrEnum):
    """Strategies for removing messages when a limit is reached; none removes the system message."""

    OLDEST = "oldest"
    """Drop the oldest messages in whole spans: a tool call goes together with its results."""
    SLIDING_WINDOW = "sliding_window"
    """Drop everything but the newest `max_messages` messages."""
    SUMMARIZE = "summarize"
    """Drop the oldest messages and put a summary in their place."""


@dataclass(frozen=True, slots=True)
class MessageMemoryConfig:
    """The documented configuration of a `MessageMemory`; a limit of 0 means no limit."""

    session_id: str = ""
    """Id of the conversation; if it is empty, a file stores the conversation as "default"."""
    max_messages: int = 0
    """Most messages to keep, system messages included."""
    max_tokens: int = 0
    """Most tokens to keep, system messages included."""
    context_window: int = 128_000
    """Context window of the model in tokens."""
    reserve_ratio: float = 0.25
    """Share of the context window kept free for the reply."""
    strategy: TruncateStrategy = TruncateStrategy.OLDEST
    db_path: str | Path | None = None
    """The SQLite file of the conversation; several conversations may share one."""
    enable_persistence: bool | None = None
    """True or 1 to keep the conversation in the file `db_path`, which is then required; False or 0 to keep it in the
    process only. None keeps it in `db_path` if there is one."""

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
        if summarises and 0 < self.max_tokens < _MIN_FOR_SUMMARY:
            raise InvalidOption(
                f"max_tokens {self.max_tokens} leaves no room for a summary and the newest turn: use at least "
                f"{_MIN_FOR_SUMMARY}, or another strategy"
            )

    def _check_persistence(self) -> None:
        if self.enable_persistence not in (None, False, True):
            raise InvalidOption(
                f"enable_persistence={self.enable_persistence!r} must be True, False or None"
            )
        if self.enable_persistence is not None:  # documented as a number
            object.__setattr__(self, "enable_persistence", bool(self.enable_persistence))
        if self.enable_persistence and self.db_path is None:
            raise InvalidOption(
                "enable_persistence=True needs a file, but db_path=None: set db_path to the file of the conversation"
            )
        name = "a file" if self.db_path is None else str(self.db_path)
        if not name or name == ":memory:" or name.startswith("file:"):
            raise InvalidOption(
                f"db_path={name!r} is not the path of a file: give a path such as 'chat.db'"
            )


class MessageMemory:
    """The messages of one conversation, kept within limits and returned within a budget.

    `summarizer` writes the summaries of `TruncateStrategy.SUMMARIZE`: a model's client, a function from prompt to text,
    or a function of `(messages, *, previous, limit)`. Without one they are extracts of the messages.
    """

    def __init__(
        self,
        config: MessageMemoryConfig | None = None,
        *,
        counter: TokenCounter | None = None,
        summarizer: Summarizer | Summaries | None = None,
    ) -> None:
        self.config = config or MessageMemoryConfig()
        self._counter = counter or cautious_counter()
        self._strategy = _strategy(
            self.config, _limited_summarizer(summarizer, self._counter.count_text)
        )
        self._last: Context | None = None
        self._limits = self._limits_with(())
        self._log = KeptMessages(self._counter)
        self._stored: MessageFile | None = None
        self._saved: tuple[object, ...] = ()
        if self.config.db_path is not None and self.config.enable_persistence is not False:
            self._open(self.config.db_path)

    def add(self, message: object) -> None:
        """Append a message (in any accepted format), and remove the oldest messages if a limit is exceeded.

        With `db_path` the message is synced to the file first.
        """
        accepted = as_message(message)
        if self._stored is None:
            self._add(accepted)
            return
        if accepted.role == "system":
            self._check_system([*self._current().transcript.system, accepted])
        self._stored.append(accepted)
        self._current()
        if self._mark() != self._saved:
            self._try_save()

    def set_system(self, content: str) -> None:
        """Set the system message, which no strategy removes; raises `BudgetTooSmall` if it exceeds the limits."""
        messages = [system(content)]
        if self._current().transcript.system == messages:
            return
        self._check_system(messages)
        if self._stored is None:
            self._use_system(messages)
        else:
            self._stored.set_system(content)
            self._current()
            self._try_save()

    def get_messages(self) -> list[Message]:
        """Return all messages in the memory, system messages first, in order."""
        return [piece.message for piece in self._current().pieces()]

    def get_messages_within_budget(
        self, max_tokens: int = 0, *, max_bytes: int = 0
    ) -> list[Message]:
        """Return the messages to send: system first, in order, within `max_tokens` or the configured budget.

        `max_bytes` also limits their UTF-8 bytes as JSON; see `context` for the body of a provider's request. The
        window is stable for the provider's prompt cache: it grows at its end until the budget is full and is then cut
        in one step. `receipt` describes the last window.
        """
        return list(self.context(max_tokens, max_bytes=max_bytes).messages)

    def context(
        self,
        max_tokens: int = 0,
        *,
        max_bytes: int = 0,
        to: WireFormat | None = None,
        tools: Sequence[Mapping[str, object]] = (),
    ) -> Context:
        """Return the messages to send within a budget as a `Context`, with its receipt (context report).

        With `to` (a module of `turnfold.wire`, or a model's client), `max_bytes` limits the request body of that
        provider, including `tools`.
        """
        log, budget = self._current(), self._budget(max_tokens, max_bytes)
        key = budget.tokens, max_bytes
        anchor = log.windows.get(key, log.anchor)
        if anchor.position < log.anchor.position:
            anchor = log.anchor

        def build(budget: Budget) -> Context:
            return assemble(
                log.transcript,
                budget,
                anchor=anchor,
                strategy=self._strategy,
                tools=tools,
                previous=self._last,
            )

        context = build(budget)
        if to is not None:
            from turnfold.wire import fitted  # loads the wire formats only if one is used

            anchor = context.anchor
            context = fitted(context, to, tools=tools, rebuild=build)
        self._last = context
        if log.windows.get(key) != context.anchor:
            if len(log.windows) >= _MAX_WINDOWS and key not in log.windows:
                del log.windows[next(iter(log.windows))]
            log.windows[key] = context.anchor
            self._try_save()
        return context

    @property
    def receipt(self) -> Receipt | None:
        """The receipt (context report) of the last window; None before the first."""
        return None if self._last is None else self._last.receipt

    def count(self) -> int:
        """Return the number of messages in the memory, including system messages."""
        return self._current().count()

    def get_token_count(self) -> int:
        """Return the tokens of all messages in the memory."""
        return self._current().tokens()

    def clear(self) -> None:
        """Remove all messages but the system message."""
        self._last = None
        if self._stored is not None:
            self._stored.clear()
        else:
            system_messages = self._log.transcript.system
            self._log = KeptMessages(self._counter, system_messages, seq=self._log.seq)

    @staticmethod
    def estimate_tokens(message: object) -> int:
        """Estimate by the documented formula: CJK characters x 1.5 + other characters / 4 + 4; 0 for None."""
        return 0 if message is None else formula_message_tokens(as_message(message))

    def truncate(self, target_tokens: int) -> int:
        """Remove the oldest messages until the others fit `target_tokens`; return the number of removed messages.

        Raises `Conflict`, with nothing removed, if another handle changed the session at the same time.
        """
        if target_tokens <= 0:
            raise InvalidOption(f"target_tokens={target_tokens} must be at least 1")
        log = self._current()
        budget = self._budget_for(target_tokens, log.transcript.system, marks=_CUT_AS_NEEDED)
        before = log.count() - bool(log.anchor.summary)
        if log.tokens() > target_tokens:
            unchanged = log.transcript, log.anchor, log.windows
            try:
                if log.has_unshown():
                    log.release_unshown()
                self._keep_within(budget)
            except BudgetTooSmall:
                log.transcript, log.anchor, log.windows = unchanged
                raise
            self._save()
        return before - log.count() + bool(log.anchor.summary)

    def close(self) -> None:
        """Close the SQLite file, if the memory has one. Closing twice is allowed."""
        if self._stored is not None:
            self._stored.close(self._log)

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
        """Open the SQLite file of the conversation and load its kept messages."""
        from turnfold.memories.message_memory_storage import MessageFile  # loads the stores

        self._stored = MessageFile(path, self.config.session_id or _SESSION, counter=self._counter)
        try:
            self._current()
        except BaseException:
            self._stored.close()
            raise

    def _current(self) -> KeptMessages:
        """Return the messages in the memory, after reading the file again if other handles changed it."""
        if self._stored is not None:
            log, newer = self._stored.refresh(self._log)
            if log is not self._log:
                self._limits, self._log = self._limits_with(log.transcript.system), log
                self._saved = self._mark()
            for message, seq, tokens in newer:
                log.seq = seq
                if message.role != "system":  # the session has the current ones
                    self._add(message, seq, tokens)
            self._enforce_limits()
        return self._log

    def _add(self, message: Message, seq: int = 0, tokens: int | None = None) -> None:
        if message.role == "system":
            self._use_system([*self._log.transcript.system, message])
        else:
            self._log.add(message, seq, tokens)
            self._enforce_limits()

    def _check_system(self, messages: Sequence[Message]) -> None:
        """Raise `BudgetTooSmall` if these new system messages would exceed the limits.

        Otherwise the current state is saved.
        """
        self._limits_with(messages)
        self._try_save()

    def _mark(self) -> tuple[object, ...]:
        """Return the part of the state that is saved, to compare it with `_saved`, the last saved one.

        It changes when messages are removed or summarised, or when the limits change.
        """
        anchor = self._log.anchor
        return self._log.transcript, anchor.summary, anchor.covered, self._limits

    def _save(self) -> None:
        if self._stored is not None:
            self._stored.save(self._log)
            self._saved = self._mark()

    def _try_save(self) -> None:
        """Save the state; ignore a failure, because the operation before it succeeded and must not seem to fail."""
        with suppress(
            Conflict, StoreUnavailable
        ):  # the session is read again, and the lost state computed again
            self._save()

    def _budget(self, max_tokens: int, max_bytes: int = 0) -> Budget:
        if max_tokens < 0:
            raise InvalidOption(f"max_tokens must not be negative, got {max_tokens}")
        caps = [cap for cap in (max_tokens, self.config.max_tokens) if cap]
        return Budget(
            context_window=0 if max_tokens else self.config.context_window,
            reserve_ratio=self.config.reserve_ratio,
            max_tokens=min(caps, default=0),
            max_messages=self.config.max_messages,
            max_bytes=max_bytes,
            shares=_SHARES,
        )

    def _use_system(self, messages: list[Message]) -> None:
        self._limits = self._limits_with(messages)
        self._log.transcript.system[:] = messages
        self._log.seq += 1
        self._enforce_limits()

    def _limits_with(self, system_messages: Sequence[Message]) -> Budget | None:
        """Return the configured limits as a budget that never shortens these system messages.

        Returns None if there are no limits.
        """
        config = self.config
        if not (config.max_messages or config.max_tokens):
            return None
        if config.max_messages and len(system_messages) >= config.max_messages:
            raise BudgetTooSmall(
                needed=len(system_messages) + 1,
                allowed=config.max_messages,
                parts={"system": len(system_messages), "newest message": 1},
                unit="messages",
                remedy="The system messages leave no room for another message: raise max_messages",
            )
        # Limits cut no more than needed: what they remove is gone, unlike what a budget leaves out of one call.
        # A summary is made of many messages at once, or it would be made again for each of them.
        summarises = config.strategy is TruncateStrategy.SUMMARIZE
        marks = WaterMarks(low=0.5) if summarises else _CUT_AS_NEEDED
        limited = self._budget_for(config.max_tokens or _UNLIMITED, system_messages, marks=marks)
        return replace(limited, max_messages=config.max_messages)

    def _budget_for(
        self, tokens: int, system_messages: Sequence[Message], *, marks: WaterMarks
    ) -> Budget:
        """Return a budget of `tokens` that never shortens these system messages."""
        allowed = tokens + self._counter.reply
        needed = sum(map(self._counter.count_message, system_messages))
        system_share = (needed + 1) / allowed
        if system_share > _MAX_SYSTEM_SHARE:
            raise BudgetTooSmall(
                needed=needed,
                allowed=int(tokens * _MAX_SYSTEM_SHARE),
                parts={"system": needed},
                remedy="The system message is kept whole and other messages must fit too: shorten it, or allow "
                f"more than {tokens:,} tokens",
            )
        wanted = max(0.15 * min(allowed, self._budget(0).tokens), _SUMMARY_TOKENS)
        summary_share = min(wanted / allowed, 0.6 * (1 - system_share))
        shares = Shares(system=system_share, summary=summary_share, tail=0.1 * (1 - system_share))
        return Budget(max_tokens=allowed, marks=marks, shares=shares)

    def _enforce_limits(self) -> None:
        if self._limits is None:
            return
        if self._log.has_unshown() and self._over_limits():
            self._log.release_unshown()
        try:
            self._keep_within(self._limits)
        except BudgetTooSmall:
            # Not even the newest span fits. It is kept whole; building a window raises an error that says why.
            self._keep_newest(self._limits)

    def _over_limits(self) -> bool:
        messages, tokens = self.config.max_messages, self.config.max_tokens
        too_many = bool(messages) and self._log.count() > messages
        return too_many or (bool(tokens) and self._log.tokens() > tokens)

    def _keep_within(self, budget: Budget) -> None:
        log = self._log
        if not fits(log.transcript, budget, log.anchor):
            log.release_before(
                next_anchor(log.transcript, budget, anchor=log.anchor, strategy=self._strategy)
            )

    def _keep_newest(self, budget: Budget) -> None:
        view = self._log.view()
        if view.start < view.last:
            fence = summary_fence_cost(self._counter)
            nothing_fits = Room(tokens=1, low=1, summary=budget.share("summary") - fence)
            choice = self._strategy(view, nothing_fits)
            position = view.transcript.position_of(choice.start)
            reason = "the newest span alone is over the limits"
            self._log.release_before(Anchor(position, (), choice.summary, position, reason))


def _limited_summarizer(
    summarizer: Summarizer | Summaries | None, count: Callable[[str], int]
) -> Summarizer:
    """Return a summarizer that calls `summarizer` and clips its text to the token limit.

    If `summarizer` fails, an extract is made instead.
    """
    extract = extractive_summarizer(count)
    if summarizer is None:
        return extract
    write = _messages_summarizer(summarizer, count)

    def summary(messages: Sequence[Message], *, previous: str, limit: int) -> str:
        text = ""
        try:
            found = write(messages, previous=previous, limit=limit)
            checked = check_text(plain_text(found, path="summary"), path="summary")
            text = clip(checked.strip(), limit, count)
        except Exception as error:  # whatever it raises, the limits hold
            # Only the type: the message of the error may quote the conversation.
            kind = type(error).__name__
            fields = {"event": "summary_failed", "error": kind}
            _log.warning(
                "the summarizer failed (%s): an extract of the messages is used as the summary",
                kind,
                extra=fields,
            )
        return text or extract(messages, previous=previous, limit=limit)

    return summary


def _messages_summarizer(
    summarizer: Summarizer | Summaries, count: Callable[[str], int]
) -> Summarizer:
    """Convert any accepted summarizer to a function of messages.

    Raises `InvalidOption` if it cannot be called like that.
    """
    if callable(summarizer) and _takes_previous(summarizer):
        return cast("Summarizer", summarizer)
    from turnfold.memory import SummaryTask, writer_for  # loads the stores

    writer, runtime = writer_for(cast("Summaries", summarizer)), SyncRuntime()

    def summary(messages: Sequence[Message], *, previous: str, limit: int) -> str:
        return drive(
            writer.write(SummaryTask(passages_of(messages), previous, limit, count), runtime)
        )

    return summary


def _takes_previous(function: Callable[..., object]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of a function written in C
        return False
    return any(each.name == "previous" or each.kind is each.VAR_KEYWORD for each in parameters)


def _strategy(config: MessageMemoryConfig, summarizer: Summarizer) -> Strategy:
    match config.strategy:
        case TruncateStrategy.SLIDING_WINDOW if config.max_messages:
            return sliding_window(messages=config.max_messages)
        case TruncateStrategy.SUMMARIZE:
            return summarise(summarizer)
        case _:
            return oldest_first
