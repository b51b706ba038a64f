"""A history run again under another budget or strategy, with no model.

It is the memory itself that runs, over a store in the process, so the figures are those a program would get: before
each thing the assistant said, the session is asked for the context of that call. Summaries are the built-in
summariser's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise

from turnfold.budget import Budget
from turnfold.errors import BudgetTooSmall, InvalidOption
from turnfold.memory.blocking import Memory, Session
from turnfold.memory.simulating.simulation import SimulatedCall, Simulation
from turnfold.memory.simulating.strategy_names import plan_for
from turnfold.records import Message, as_messages
from turnfold.stores.memory_store import MemoryStore
from turnfold.tokens import TokenCounter, cautious_counter, counter_for
from turnfold.window import Context, Outcome, check

__all__ = ("simulate",)

_UNBOUNDED = 1 << 40
"""Tokens no history has: the budget of a strategy that forgets nothing."""


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
    """Run the messages of a history again; `strategy` is one of `STRATEGY_NAMES`, or several joined by `+`.

    Costs are counted by `counter`, else for `model`. `on_call` is told, before each call, how many of how many are
    done. A budget too small for the mandatory parts of a call ends it there, and `refused` says why.
    """
    said = as_messages(history)
    plan = plan_for(strategy)
    counted = counter or (counter_for(model) if model else cautious_counter())
    places = [at for at in range(len(said)) if _answers(said, at)]
    if not places:
        raise InvalidOption(
            f"no call to simulate: none of {len(said)} messages is the assistant's answer to another"
        )
    memory = Memory(
        MemoryStore(counter=counted),
        counter=counted,
        budget=budget if plan.bounded else Budget(max_tokens=_UNBOUNDED),
        strategy=plan.strategy,
        checkpoint="inline" if plan.folds else "manual",
        threshold=threshold,
        keep_turns=keep_turns,
    )
    with memory:
        run = _Run(memory.session("simulated"), counted, tools, said)
        refused = run.all(places, on_call)
    return Simulation(
        strategy=plan.name,
        budget=budget.tokens,
        counter=counted.name,
        entries=len(said),
        turns=sum(message.role == "user" for message in said),
        calls=tuple(run.calls),
        refused=refused,
    )


def _answers(said: Sequence[Message], at: int) -> bool:
    """Whether a model was called for this message: an assistant's, and not the rest of one logged in pieces."""
    return at > 0 and said[at].role == "assistant" and said[at - 1].role != "assistant"


class _Run:
    def __init__(
        self,
        session: Session,
        counter: TokenCounter,
        tools: Sequence[Mapping[str, object]],
        said: Sequence[Message],
    ) -> None:
        self._session, self._counter, self._tools, self._said = session, counter, tools, said
        self._previous: Context | None = None
        self.calls: list[SimulatedCall] = []

    def all(self, places: Sequence[int], on_call: Callable[[int, int], object] | None) -> str:
        """Every call; why it ended before the last, if it did."""
        for number, (start, stop) in enumerate(pairwise((0, *places))):
            if on_call is not None:
                on_call(number, len(places))
            self._session.add(self._said[start:stop])
            try:
                context = self._session.context(tools=self._tools)
            except BudgetTooSmall as error:
                return f"call {number + 1} of {len(places)}: {error}"
            self.calls.append(self._call(number + 1, stop, context))
            self._previous = context
        if on_call is not None:
            on_call(len(places), len(places))
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
            answer=self._answer(seq),
            folded=receipt.count(Outcome.FOLDED),
            dropped=receipt.count(Outcome.DROPPED),
            shrunk=receipt.count(Outcome.SHRUNK),
            fold_landed=context.anchor.covered != covered,
            violations=len(check(context)),
        )

    def _answer(self, seq: int) -> int:
        """Tokens of what the assistant said next, in as many pieces as it was logged in."""
        tokens = 0
        for message in self._said[seq:]:
            if message.role != "assistant":
                break
            tokens += self._counter.count_message(message)
        return tokens


def _marks(context: Context) -> tuple[int, ...]:
    """Tokens up to the end of system, summary and window, and of a running tool loop, tool schemas first."""
    sums = [0, *accumulate(context.costs)]
    system, summary, window, tail = context.ends
    ends = {system, summary, window}
    if any(message.role == "tool" for message in context.messages[tail:]):
        ends.add(len(context.messages))
    return tuple(context.tools + sums[end] for end in sorted(ends) if end)
