"""Replay of a history with another budget or strategy, without a model.

A real memory runs on an in-memory store, so the figures are those that an application would get: before each assistant
message the session builds the context of that call. Summaries are written by the built-in summariser. Strategies are
given by name (`fold`, `last:20`, `shrink:400+fold`). Results are given for each call and in total; with a price table
also as costs.

The built-in summariser calls no model and costs nothing. The cost of the same folds (compactions) with summaries by the
agent's own model is estimated separately. Each fold is priced as one request: the agent's last prompt with an
instruction added, if that prompt contains the range to fold, otherwise a new prompt; see `turnfold.memory.ChatWriter`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, count, pairwise
from statistics import fmean
from typing import Final, NamedTuple

from turnfold.budget import Budget
from turnfold.errors import BudgetTooSmall, InvalidOption
from turnfold.fold import (
    DEFAULT_PROMPT,
    MODEL_SUMMARY_TOKENS,
    fill_prompt,
    history_text,
    prefix_prompt,
    prefix_shows,
)
from turnfold.memory import ExtractiveWriter, Memory, Session, SummaryTask
from turnfold.records import Checkpoint, Entry, Message, as_messages
from turnfold.runtime import Runtime
from turnfold.stores import MemoryStore
from turnfold.tokens import (
    CacheRule,
    Charge,
    Price,
    PriceTable,
    TokenCounter,
    cautious_counter,
    counter_for,
)
from turnfold.window import (
    Context,
    Outcome,
    Strategy,
    check,
    compose,
    oldest_first,
    shared_messages,
    shrink_results,
    sliding_window,
)

__all__ = (
    "STRATEGY_NAMES",
    "Cost",
    "FoldCost",
    "FoldPrompt",
    "FoldRecorder",
    "SimulatedCall",
    "SimulatedFold",
    "Simulation",
    "SimulationPlan",
    "plan_for",
    "simulate",
)


class FoldPrompt(NamedTuple):
    """Size of a prompt that asks a model for a summary."""

    tokens: int
    shared: int = 0
    """Tokens at the beginning of the prompt, tool schemas included, that the last call of the agent also sent."""
    marks: tuple[int, ...] = ()
    """Number of prompt tokens before each cache breakpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedFold:
    """One fold of a simulation, with the prompts of the requests that would write its summary."""

    upto: int
    answer: int
    """Tokens of the summary that a model is asked to write."""
    fresh: FoldPrompt
    """A new prompt for the summary, which contains the folded entries as text."""
    prefix: FoldPrompt | None = None
    """Last call's prompt up to the end of the folded (compacted) range; None if that prompt does not contain the range.
    """
    marked: FoldPrompt | None = None
    """Like `prefix`, but to the next cache breakpoint, for providers that cache only up to breakpoints."""

    def charge(self, rule: CacheRule, marks: tuple[int, ...]) -> tuple[Charge, bool]:
        """Return the tokens that a provider charges for the request of a fold (compaction).

        Also returns True if the request continues the last call's prompt. `marks` are the cache breakpoints of the last
        call.

        Also returns True if the request continues the last call's prompt. `marks` are the cache breakpoints of the last
        call.
        """
        prompt = (self.marked if rule.marks else self.prefix) or self.fresh
        read = rule.read(prompt.shared, marks)
        written = rule.written(read, prompt.marks)
        fresh = prompt.tokens - read - written
        charge = Charge(read=read, written=written, fresh=fresh, output=self.answer)
        return charge, prompt is not self.fresh


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCall:
    """One model call of a simulated replay: its tokens, shared prefix and folds (compactions)."""

    number: int
    seq: int
    """Seq of the newest entry when the call was made."""
    tokens: int
    messages: int
    shared: int
    """Tokens at the beginning of the prompt, tool schemas included, that the call before also sent."""
    prefix_share: float
    """Share of the previous prompt that this call's prompt repeats at its beginning."""
    marks: tuple[int, ...]
    """Tokens before each cache breakpoint, for providers that need breakpoints."""
    answer: int
    """Tokens of the response."""
    folded: int
    dropped: int
    shrunk: int
    fold_landed: bool
    violations: int
    """Violations of the rules of `turnfold.window.check` in the context of this call."""
    folds: tuple[SimulatedFold, ...] = ()
    """The folds (compactions) made before the call was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldCost:
    """The estimated cost of the folds (compactions) if the agent's own model writes the summaries."""

    requests: int = 0
    prefixes: int = 0
    """Number of summary requests that continue the agent's last prompt and can use the provider's cache."""
    total: float = 0.0
    by_fresh_prompts: float = 0.0
    """Cost of the same folds (compactions) if the provider had nothing of any request in its prompt cache."""
    read: int = 0
    """Prompt tokens that are read from the provider's cache; `written` are written to the cache, `fresh` are
    neither."""
    written: int = 0
    fresh: int = 0
    output: int = 0

    @property
    def cached_share(self) -> float:
        """Share of the prompt tokens of folds (compactions) that came from the provider's cache."""
        return _share(self.read, self.written, self.fresh)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Estimated cost at list prices, assuming that the provider's cache never expires between two calls."""

    currency: str
    date: str
    """Date of the prices."""
    model: str
    total: float
    without_cache: float
    """Cost of the same calls without any cache."""
    read: int
    """Prompt tokens that are read from the provider's cache; `written` are written to the cache, `fresh` are
    neither."""
    written: int
    fresh: int
    output: int
    folds: FoldCost = FoldCost()
    """The additional cost of the folds if a model writes the summaries; not included in `total`."""

    @property
    def cached_share(self) -> float:
        """Share of the prompt tokens of all calls that came from the provider's cache."""
        return _share(self.read, self.written, self.fresh)


def _share(read: int, written: int, fresh: int) -> float:
    prompt = read + written + fresh
    return read / prompt if prompt else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The results of replaying a history with one budget and strategy."""

    strategy: str
    budget: int
    """The most tokens per call."""
    counter: str
    entries: int
    turns: int
    calls: tuple[SimulatedCall, ...]
    refused: str = ""
    """The error of a call that did not fit the budget and ended the replay; empty if the replay ran to the end."""

    @property
    def tokens_sent(self) -> int:
        """Prompt tokens of all calls."""
        return sum(call.tokens for call in self.calls)

    @property
    def largest(self) -> int:
        """Prompt tokens of the largest call."""
        return max((call.tokens for call in self.calls), default=0)

    @property
    def over_budget(self) -> int:
        """Number of simulated model calls whose context had more tokens than the budget."""
        return sum(call.tokens > self.budget for call in self.calls)

    @property
    def violations(self) -> int:
        """Violations of the rules of `turnfold.window.check`, of all calls together."""
        return sum(call.violations for call in self.calls)

    @property
    def prefix_share(self) -> float:
        """Average share of the previous prompt that a call repeats at its beginning; the first call is not counted."""
        later = [call.prefix_share for call in self.calls[1:]]
        return fmean(later) if later else 1.0

    @property
    def folds(self) -> int:
        """Number of folds, each of which stored a checkpoint (summary)."""
        return sum(call.fold_landed for call in self.calls)

    @property
    def folded(self) -> int:
        """Number of entries that the summary covers at the end of the replay."""
        return self.calls[-1].folded if self.calls else 0

    @property
    def dropped(self) -> int:
        """Number of entries that the last call neither shows nor summarises."""
        return self.calls[-1].dropped if self.calls else 0

    def cost(self, model: str, prices: PriceTable) -> Cost:
        """Estimate what the replayed calls would cost with a model at list prices.

        Raises `UnknownModel` if it has no price.
        """
        if not model:
            raise InvalidOption("cost() got an empty model name: give the model whose prices apply")
        price = prices.price(model)
        rule = prices.rule(price)
        read = written = fresh = output = 0
        total = plain = 0.0
        folds = FoldCost()
        marks: tuple[int, ...] = ()
        for call in self.calls:
            for fold in call.folds:
                folds = _with_fold(folds, fold, price, rule, marks)
            hit = rule.read(call.shared, marks)
            stored = rule.written(hit, call.marks)
            charge = Charge(
                read=hit, written=stored, fresh=call.tokens - hit - stored, output=call.answer
            )
            total += price.of(charge)
            plain += price.of(Charge(read=0, written=0, fresh=call.tokens, output=call.answer))
            read, written = read + hit, written + stored
            fresh, output = fresh + charge.fresh, output + call.answer
            marks = call.marks
        return Cost(
            currency=prices.currency,
            date=prices.date,
            model=model,
            total=total,
            without_cache=plain,
            read=read,
            written=written,
            fresh=fresh,
            output=output,
            folds=folds,
        )


def _with_fold(
    sums: FoldCost, fold: SimulatedFold, price: Price, rule: CacheRule, marks: tuple[int, ...]
) -> FoldCost:
    charge, prefix = fold.charge(rule, marks)
    plain = Charge(read=0, written=0, fresh=fold.fresh.tokens, output=fold.answer)
    return FoldCost(
        requests=sums.requests + 1,
        prefixes=sums.prefixes + prefix,
        total=sums.total + price.of(charge),
        by_fresh_prompts=sums.by_fresh_prompts + price.of(plain),
        read=sums.read + charge.read,
        written=sums.written + charge.written,
        fresh=sums.fresh + charge.fresh,
        output=sums.output + charge.output,
    )


STRATEGY_NAMES: Final = {
    "fold": "older turns replaced by a summary of the built-in summariser: the default of a memory",
    "oldest-first": "older turns left out down to the low mark, no summary",
    "last:N": "the newest N messages, sliding with every message",
    "turns:N": "the newest N turns, sliding with every turn",
    "shrink:N": "tool results of earlier turns shortened to N tokens before anything is left out",
    "everything": "the whole log in every call, even over the budget, for comparison",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationPlan:
    """A strategy to simulate, parsed from its name."""

    name: str
    strategy: Strategy = oldest_first
    folds: bool = False
    bounded: bool = True
    """False if the strategy sends the whole log even over the budget."""


def plan_for(name: str) -> SimulationPlan:
    """Parse the name of a strategy, or several names joined by `+`; raises `InvalidOption` if a name is unknown."""
    steps: list[Strategy] = []
    words = [word.strip() for word in name.split("+")]
    for word in words:
        kind, _, number = word.partition(":")
        if kind in ("fold", "oldest-first", "everything") and not number:
            steps += [] if kind == "everything" else [oldest_first]
        elif kind in ("last", "turns", "shrink") and number.isdecimal():
            steps.append(_sized_strategy(kind, int(number)))
        else:
            raise InvalidOption(
                f"unknown strategy {word!r}; use {', '.join(STRATEGY_NAMES)}, or several joined with '+'"
            )
    if "everything" in words and len(words) > 1:
        raise InvalidOption(f"strategy {name!r}: 'everything' cannot be combined with others")
    strategy = oldest_first if not steps else steps[0] if len(steps) == 1 else compose(*steps)
    return SimulationPlan(
        name=name, strategy=strategy, folds="fold" in words, bounded="everything" not in words
    )


def _sized_strategy(kind: str, number: int) -> Strategy:
    if kind == "shrink":
        return compose(shrink_results(cap=number), oldest_first)
    return sliding_window(messages=number) if kind == "last" else sliding_window(turns=number)


_UNLIMITED = 1 << 40
"""The token budget of a strategy that drops nothing: more than any history has."""
_BEGINNING = 1_767_603_600_000_000
"""Time of the first entry of a simulated replay, in microseconds since 1970. It is fixed, because contexts show times
and all runs must count the same tokens."""


def simulate(
    history: Iterable[object],
    *,
    budget: Budget,
    strategy: str = "fold",
    model: str = "",
    counter: TokenCounter | None = None,
    tools: Sequence[Mapping[str, object]] = (),
    threshold: float = 0.75,
    keep_turns: int = 8,
    on_call: Callable[[int, int], object] | None = None,
) -> Simulation:
    """Replay a history with a budget and a strategy (of `STRATEGY_NAMES`, or several joined by `+`).

    Tokens are counted by `counter`, else for `model`. `on_call` is called before each call with the number of calls
    done and their total. A budget too small for a call ends the replay, and `refused` says why.
    """
    messages = as_messages(history)
    plan = plan_for(strategy)
    counted = counter or (counter_for(model) if model else cautious_counter())
    positions = [at for at in range(len(messages)) if _is_response(messages, at)]
    if not positions:
        raise InvalidOption(
            f"no call to simulate: none of the {len(messages)} messages is an assistant's reply to another message"
        )
    summaries = FoldRecorder()
    clock = partial(next, count(_BEGINNING))
    memory = Memory(
        MemoryStore(counter=counted, clock=clock),
        counter=counted,
        budget=budget if plan.bounded else Budget(max_tokens=_UNLIMITED),
        strategy=plan.strategy,
        summarizer=summaries,
        fold="inline" if plan.folds else "manual",
        threshold=threshold,
        keep_turns=keep_turns,
        clock=clock,
    )
    with memory:
        run = _Run(memory.session("simulated"), counted, tools, messages, summaries)
        refused = run.all(positions, on_call)
    return Simulation(
        strategy=plan.name,
        budget=budget.tokens,
        counter=counted.name,
        entries=len(messages),
        turns=sum(message.role == "user" for message in messages),
        calls=tuple(run.calls),
        refused=refused,
    )


def _is_response(messages: Sequence[Message], at: int) -> bool:
    """Return True if the message at `at` answers a model call: the first of consecutive assistant messages."""
    return at > 0 and messages[at].role == "assistant" and messages[at - 1].role != "assistant"


class FoldRecorder(ExtractiveWriter):
    """Built-in summariser that also records its folds, so that they can be priced as requests to a model."""

    def __init__(self) -> None:
        self._tasks: list[tuple[SummaryTask, str]] = []
        self._folded = 0
        self._summary = ""

    async def write(self, task: SummaryTask, runtime: Runtime) -> str:
        """Write the summary of a fold, and record the fold for its price."""
        text = await super().write(task, runtime)
        self._tasks.append((task, text))
        return text

    def folds(self, session: Session, sent: Context | None) -> tuple[SimulatedFold, ...]:
        """Return the folds (compactions) recorded since the previous call of this method.

        `sent` is the last context before them.
        """
        tasks, self._tasks = self._tasks, []
        if not tasks:
            return ()
        found: list[SimulatedFold] = []
        landed = [each for each in session.checkpoints() if each.upto > self._folded]
        for (task, _), checkpoint in zip(tasks, landed, strict=False):
            found.append(self._fold(session, sent, task, checkpoint))
            self._folded, self._summary = checkpoint.upto, checkpoint.text
        return tuple(found)

    def _fold(
        self, session: Session, sent: Context | None, task: SummaryTask, checkpoint: Checkpoint
    ) -> SimulatedFold:
        upto, count = checkpoint.upto, session.counter.count_text
        text = fill_prompt(DEFAULT_PROMPT, history_text(task.passages, previous=task.previous))
        fold = SimulatedFold(
            upto=upto,
            answer=min(count(checkpoint.text), MODEL_SUMMARY_TOKENS),
            fresh=FoldPrompt(count(text)),
        )
        entries = session.history(after=self._folded, limit=upto - self._folded)
        if sent is None or not prefix_shows(sent, entries, summary=self._summary):
            return fold
        prefix, marked = (
            _fold_prompt(sent, entries, limit=task.limit, marked=marked) for marked in (False, True)
        )
        return replace(fold, prefix=prefix, marked=marked)


def _fold_prompt(
    sent: Context, entries: Sequence[Entry], *, limit: int, marked: bool
) -> FoldPrompt | None:
    prompt = prefix_prompt(sent, entries, limit=limit, marked=marked)
    if prompt is None or prompt.tokens > sent.budget.tokens:
        return None
    same = shared_messages(prompt.messages, sent.messages)
    return FoldPrompt(prompt.tokens, prompt.tools + sum(prompt.costs[:same]), _marks(prompt))


class _Run:
    """One replay: adds the messages to the session and builds the context of each call."""

    def __init__(
        self,
        session: Session,
        counter: TokenCounter,
        tools: Sequence[Mapping[str, object]],
        messages: Sequence[Message],
        summaries: FoldRecorder,
    ) -> None:
        self._session, self._counter, self._tools, self._messages = (
            session,
            counter,
            tools,
            messages,
        )
        self._summaries = summaries
        self._previous: Context | None = None
        self.calls: list[SimulatedCall] = []

    def all(self, positions: Sequence[int], on_call: Callable[[int, int], object] | None) -> str:
        """Build the contexts of all calls; return the error of the first that does not fit the budget, else ""."""
        for number, (start, stop) in enumerate(pairwise((0, *positions))):
            if on_call is not None:
                on_call(number, len(positions))
            self._session.add(self._messages[start:stop])
            try:
                context = self._session.context(tools=self._tools)
            except BudgetTooSmall as error:
                return f"call {number + 1} of {len(positions)}: {error}"
            self.calls.append(self._call(number + 1, stop, context))
            self._previous = context
        if on_call is not None:
            on_call(len(positions), len(positions))
        return ""

    def _call(self, number: int, seq: int, context: Context) -> SimulatedCall:
        receipt, previous = context.receipt, self._previous
        covered = previous.anchor.covered if previous else 0
        return SimulatedCall(
            number=number,
            seq=seq,
            tokens=receipt.tokens,
            messages=receipt.messages,
            shared=receipt.shared + receipt.tools if previous else 0,
            prefix_share=receipt.prefix_share,
            marks=_marks(context),
            answer=self._response_tokens(seq),
            folded=receipt.count(Outcome.FOLDED),
            dropped=receipt.count(Outcome.DROPPED),
            shrunk=receipt.count(Outcome.SHRUNK),
            fold_landed=context.anchor.covered != covered,
            violations=len(check(context)),
            folds=self._summaries.folds(self._session, previous),
        )

    def _response_tokens(self, seq: int) -> int:
        """Return the tokens of the response to a call: the assistant messages after `seq`."""
        tokens = 0
        for message in self._messages[seq:]:
            if message.role != "assistant":
                break
            tokens += self._counter.count_message(message)
        return tokens


def _marks(context: Context) -> tuple[int, ...]:
    """Return the tokens before each cache breakpoint: after system, summary, window and a running tool loop."""
    sums = [0, *accumulate(context.costs)]
    system, summary, window, tail = context.ends
    ends = {system, summary, window}
    if any(message.role == "tool" for message in context.messages[tail:]):
        ends.add(len(context.messages))
    return tuple(context.tools + sums[end] for end in sorted(ends) if end)
