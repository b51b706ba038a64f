"""`MemoryConfig`: the options that all sessions of a memory share, as one value instead of a dozen parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from enum import StrEnum
from typing import Any, Final, NoReturn, TypeVar

from turnfold.budget import Budget
from turnfold.errors import InvalidOption
from turnfold.fold import check_threshold
from turnfold.memory.summary_writers import ExtractiveWriter, SummaryWriter
from turnfold.models import Embedder
from turnfold.runtime import Runtime
from turnfold.stores import Scope, Store
from turnfold.telemetry import Meter
from turnfold.tokens import CalibrationLog, TokenCounter, cautious_counter, find_model
from turnfold.window import Strategy

__all__ = (
    "DEFAULT_WINDOW",
    "CompactionMode",
    "FoldMode",
    "FoldPolicy",
    "MemoryConfig",
    "MemoryMode",
    "RecallMode",
    "check_budget",
    "check_type",
    "choice",
    "named_zone",
    "with_model",
)


DEFAULT_WINDOW: Final = 16_000
"""Context window if neither a budget nor a model is given."""
_OFF = ("off", "none", "never", "no", "false", "disabled")
"""Values that users may try to give for `fold=` so that nothing is folded (compacted) automatically; the error then
names `manual`."""
_Choice = TypeVar("_Choice", bound=StrEnum)


def check_type(option: str, value: object, kinds: tuple[Any, ...], right: str) -> None:
    """Raise `InvalidOption` if an option's value has none of the types `kinds`.

    The error shows `right`, an example of a right value.
    """
    if not isinstance(value, kinds):
        raise InvalidOption(
            f"{option}={value!r} has the wrong type {type(value).__name__}: for example {right}"
        )


def check_budget(budget: object) -> None:
    """Raise `InvalidOption` if a budget is not a `Budget`, but for example a number of tokens."""
    number = isinstance(budget, int) and not isinstance(budget, bool)
    tokens = budget if number else 8_000
    check_type("budget", budget, (Budget, type(None)), f"budget=Budget(max_tokens={tokens})")


def choice(option: str, name: str, kind: type[_Choice]) -> _Choice:
    """Return the member of the enum `kind` with this name.

    Raises `InvalidOption`, with a list of all names, if there is none.
    """
    try:
        return kind(name)
    except ValueError:
        known = ", ".join(repr(str(each)) for each in kind)
        off = option in ("fold", "compaction") and str(name).lower() in _OFF
        hint = '; to turn folding (compaction) off, use fold="manual"' if off else ""
        raise InvalidOption(f"{option}={name!r} is not one of {known}{hint}") from None


def named_zone(name: str) -> tzinfo:
    """Return the time zone with this IANA name; raises `InvalidOption` if it is not known on this system."""
    if name == "UTC":
        return UTC  # known without the time zone data, which Windows does not have
    from zoneinfo import ZoneInfo  # takes a millisecond to import, and few need it

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidOption(
            f'time_zone={name!r} is no IANA time zone that this system knows: for example time_zone="Asia/Shanghai" '
            'or "UTC"; where all are unknown, `pip install tzdata`'
        ) from None


class RecallMode(StrEnum):
    """Modes of recall, which decide if a context shows entries from before its window."""

    OFF = "off"
    """Recall only if a query is given."""
    AUTOMATIC = "automatic"
    """Recall without a query too, in unused room of the budget: the best matches for the user's last message, and
    more of them if they share enough words with it."""
    ALWAYS = "always"
    """Recall the best matches for the user's last message in every turn, even weak ones."""

    @classmethod
    def named(cls, name: str) -> RecallMode:
        """Return the mode with this name; raises `InvalidOption` if there is none."""
        return choice("recall", name, cls)


def _refuse_call(mode: RecallMode, *given: object, **options: object) -> NoReturn:
    del given, options
    raise TypeError(
        f"memory.recall is an option ({mode.value!r}) and cannot be called: to find earlier entries, use "
        'memory.session("user-42").recall("...") or memory.search("...")'
    )


# Not a method of the class: for type checkers, a mode is nothing that can be called.
type.__setattr__(RecallMode, "__call__", _refuse_call)


class FoldMode(StrEnum):
    """Modes of folding (summarising older turns): within a call, in the background, or on request."""

    MANUAL = "manual"
    """Only `session.fold()` folds (compacts)."""
    INLINE = "inline"
    """`context()` folds (compacts) before it returns."""
    BACKGROUND = "background"
    """`context()` starts a fold (compaction) in the background and does not wait for it."""


class CompactionMode(StrEnum):
    """Modes of compaction: older turns are summarised by turnfold, by the provider, or by either."""

    TURNFOLD = "turnfold"
    """turnfold compacts: it folds older messages into a summary."""
    NATIVE = "native"
    """The provider compacts, and only the provider can read the result; an error is raised for a provider that
    cannot."""
    AUTO = "auto"
    """The provider compacts if it and the model are known to be able to, otherwise turnfold."""


class MemoryMode(StrEnum):
    """The part of the history that contexts show."""

    FULL_HISTORY = "FULL_HISTORY"
    """Contexts show all messages that fit the budget, without a summary: nothing is folded yet, or folding failed and
    no extract is shown."""
    SUMMARY_N = "SUMMARY_N"
    """Contexts show a summary and the newest turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldPolicy:
    """The options of a memory for folding (compaction)."""

    mode: FoldMode = FoldMode.INLINE
    writer: SummaryWriter = field(default_factory=ExtractiveWriter)
    threshold: float = 0.75
    """Share of the budget's tokens from which a context is folded (compacted)."""
    keep_turns: int = 8
    """Number of newest turns that stay verbatim in a fold (compaction), if the budget allows."""
    retries: int = 3
    """Attempts of one background fold (compaction) after a failed one; a later call at which a fold is due tries again.

    After more failures than that, and if no extract is shown, the mode is `FULL_HISTORY` again.
    """
    backoff: float = 1.0
    """Seconds before the second attempt to fold (compact); twice as long before each further one."""
    lease: float = 120.0
    """Seconds after which another process may take over a fold (compaction) whose process died."""
    stand_in: bool = True
    """True if contexts show an extract of messages that have left the window until their summary is written."""

    def __post_init__(self) -> None:
        check_threshold(self.threshold, self.keep_turns)
        for name in ("retries", "backoff", "lease"):
            if getattr(self, name) < 0:
                raise InvalidOption(f"{name}={getattr(self, name)} must not be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryConfig:
    """The options of a memory: store, budget, token counter, folding (compaction), recall and runtime."""

    store: Store
    scope: Scope
    budget: Budget
    counter: TokenCounter
    strategy: Strategy
    policy: FoldPolicy
    runtime: Runtime
    clock: Callable[[], int]
    """Function that returns microseconds since 1970; used for leases and display, never to order entries."""
    meter: Meter
    """Object that collects the metrics of the memory."""
    model: str = ""
    address: str = ""
    """Address of the store without its password, or the class of an open store; only for display."""
    cache: str | None = None
    """Address of the cache without its password; only for display."""
    compaction: CompactionMode = CompactionMode.TURNFOLD
    recall: RecallMode = RecallMode.AUTOMATIC
    rules: bool = True
    """True if rules, decisions, preferences, tasks and facts are extracted from users' messages, and shown once these
    messages have left the window."""
    zone: tzinfo = UTC
    """Time zone of the times in prompts."""
    embedder: Embedder | None = None
    """Object that computes vectors of texts, for recall by meaning in addition to recall by words; None for words
    only."""
    calibrating: CalibrationLog = field(default_factory=CalibrationLog)
    """Collects turnfold's token counts and the usage that providers report for the same calls, to correct the
    counts."""


def with_model(config: MemoryConfig, model: str) -> MemoryConfig | None:
    """Return the options with the token counter of a model, and the model's budget if no budget was given.

    None if the memory was given a model or a counter itself, or if the model is not known.
    """
    info = find_model(model)
    if config.model or config.counter.name != cautious_counter().name or info is None:
        return None
    window = info.context_window
    budget = config.budget
    if window is not None and budget == Budget(context_window=DEFAULT_WINDOW):
        budget = Budget(context_window=window)
    return replace(
        config,
        model=model,
        counter=info.counter(),
        budget=budget,
        calibrating=CalibrationLog(),
    )
