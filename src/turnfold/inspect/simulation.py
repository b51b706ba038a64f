"""Replay a history under another budget or strategy, without a model.

The memory itself runs over a store in the process, so the figures are those a program would get: before each assistant
message the session builds the context of that call. Summaries come from the built-in summariser. Strategies are given
by name (`fold`, `last:20`, `shrink:400+fold`), results call by call and in total, with a price table also in money.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import fmean
from typing import Final

from turnfold.budget import Budget
from turnfold.errors import BudgetTooSmall, InvalidOption
from turnfold.memory import Memory, Session
from turnfold.records import Message, as_messages
from turnfold.stores import MemoryStore
from turnfold.tokens import Charge, PriceTable, TokenCounter, cautious_counter, counter_for
from turnfold.window import (
    Context,
    Outcome,
    Strategy,
    check,
    compose,
    oldest_first,
    shrink_results,
    sliding_window,
)

__all__ = (
    "STRATEGY_NAMES",
    "Cost",
    "SimulatedCall",
    "Simulation",
    "SimulationPlan",
    "plan_for",
    "simulate",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCall:
    """One call of a simulation."""

    number: int
    seq: int
    """The newest entry when it was made."""
    tokens: int
    messages: int
    shared: int
    """Tokens at the beginning, tool schemas included, that the call before also sent."""
    prefix_share: float
    """Share of the previous prompt that it begins with."""
    marks: tuple[int, ...]
    """Tokens up to each cache breakpoint, for providers that need them."""
    answer: int
    """Tokens of the response."""
    folded: int
    dropped: int
    shrunk: int
    fold_landed: bool
    violations: int
    """Violations of the rules of `turnfold.window.check`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """An estimate by list prices, with every call within the lifetime of the cache."""

    currency: str
    date: str
    """Date of the prices."""
    model: str
    total: float
    without_cache: float
    """Cost of the same calls without any cache."""
    read: int
    written: int
    fresh: int
    output: int

    @property
    def cached_share(self) -> float:
        """Share of the prompt tokens that came from the cache."""
        prompt = self.read + self.written + self.fresh
        return self.read / prompt if prompt else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The replay of a history under one budget and strategy."""

    strategy: str
    budget: int
    """Tokens per call, at most."""
    counter: str
    entries: int
    turns: int
    calls: tuple[SimulatedCall, ...]
    refused: str = ""
    """Why it ended early because a call did not fit the budget; empty if it ran to the end."""

    @property
    def tokens_sent(self) -> int:
        """Prompt tokens of all calls."""
        return sum(call.tokens for call in self.calls)

    @property
    def largest(self) -> int:
        """Tokens of the largest call."""
        return max((call.tokens for call in self.calls), default=0)

    @property
    def over_budget(self) -> int:
        """Number of calls over the budget."""
        return sum(call.tokens > self.budget for call in self.calls)

    @property
    def violations(self) -> int:
        """Violations of all calls."""
        return sum(call.violations for call in self.calls)

    @property
    def prefix_share(self) -> float:
        """Average share of the previous prompt that a call begins with, without the first call."""
        later = [call.prefix_share for call in self.calls[1:]]
        return fmean(later) if later else 1.0

    @property
    def folds(self) -> int:
        """Number of checkpoints."""
        return sum(call.fold_landed for call in self.calls)

    @property
    def folded(self) -> int:
        """Entries covered by the summary at the end."""
        return self.calls[-1].folded if self.calls else 0

    @property
    def dropped(self) -> int:
        """Entries that the last call neither shows nor summarises."""
        return self.calls[-1].dropped if self.calls else 0

    def cost(self, model: str, prices: PriceTable) -> Cost:
        """Estimate the cost of the calls; see `turnfold.tokens.prices`."""
        if not model:
            raise InvalidOption("cost() needs a model name")
        price = prices.price(model)
        rule = prices.rule(price)
        read = written = fresh = output = 0
        total = plain = 0.0
        marks: tuple[int, ...] = ()
        for call in self.calls:
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
        )


STRATEGY_NAMES: Final = {
    "fold": "older turns behind a summary by the built-in summariser, as a memory does by itself",
    "oldest-first": "older turns left out down to the low mark, no summary",
    "last:N": "the newest N messages, sliding with every message",
    "turns:N": "the newest N turns, sliding with every turn",
    "shrink:N": "tool results of earlier turns shortened to N tokens before anything is left out",
    "everything": "the whole log in every call, whatever the budget: what it would cost to forget nothing",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationPlan:
    """What to simulate, as parsed from a strategy name."""

    name: str
    strategy: Strategy = oldest_first
    folds: bool = False
    bounded: bool = True
    """True if the budget applies."""


def plan_for(name: str) -> SimulationPlan:
    """Parse a strategy name; several joined by `+` are applied one after the other."""
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
"""Tokens that no history has: the budget of a strategy that drops nothing."""


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
    """Replay a history; `strategy` is one of `STRATEGY_NAMES`, or several joined by `+`.

    Tokens are counted by `counter`, else for `model`. `on_call` is called before each call with the number of calls
    done and their total. A budget too small for a call ends the replay, and `refused` says why.
    """
    messages = as_messages(history)
    plan = plan_for(strategy)
    counted = counter or (counter_for(model) if model else cautious_counter())
    positions = [at for at in range(len(messages)) if _is_response(messages, at)]
    if not positions:
        raise InvalidOption(
            f"no call to simulate: none of the {len(messages)} messages is an assistant's reply to another"
        )
    memory = Memory(
        MemoryStore(counter=counted),
        counter=counted,
        budget=budget if plan.bounded else Budget(max_tokens=_UNLIMITED),
        strategy=plan.strategy,
        fold="inline" if plan.folds else "manual",
        threshold=threshold,
        keep_turns=keep_turns,
    )
    with memory:
        run = _Run(memory.session("simulated"), counted, tools, messages)
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
    """Return True if a model was called for this message: the first of consecutive assistant messages."""
    return at > 0 and messages[at].role == "assistant" and messages[at - 1].role != "assistant"


class _Run:
    def __init__(
        self,
        session: Session,
        counter: TokenCounter,
        tools: Sequence[Mapping[str, object]],
        messages: Sequence[Message],
    ) -> None:
        self._session, self._counter, self._tools, self._messages = (
            session,
            counter,
            tools,
            messages,
        )
        self._previous: Context | None = None
        self.calls: list[SimulatedCall] = []

    def all(self, positions: Sequence[int], on_call: Callable[[int, int], object] | None) -> str:
        """Run all calls; return the reason if one did not fit the budget, else an empty text."""
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
        )

    def _response_tokens(self, seq: int) -> int:
        """Return the tokens of the response: the assistant messages that follow."""
        tokens = 0
        for message in self._messages[seq:]:
            if message.role != "assistant":
                break
            tokens += self._counter.count_message(message)
        return tokens


def _marks(context: Context) -> tuple[int, ...]:
    """Return the tokens up to the end of system, summary, window and a running tool loop; tool schemas come first."""
    sums = [0, *accumulate(context.costs)]
    system, summary, window, tail = context.ends
    ends = {system, summary, window}
    if any(message.role == "tool" for message in context.messages[tail:]):
        ends.add(len(context.messages))
    return tuple(context.tools + sums[end] for end in sorted(ends) if end)
