"""What a simulation found, call by call and in all, in tokens and, with a price, in money."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from turnfold.errors import InvalidOption
from turnfold.tokens.prices import Charge, PriceTable

__all__ = ("Cost", "SimulatedCall", "Simulation")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCall:
    """One call of a simulation."""

    number: int
    seq: int
    """The newest entry when it was made."""
    tokens: int
    messages: int
    shared: int
    """Tokens at the beginning, tool schemas included, that the call before sent too."""
    prefix_share: float
    """How much of the previous prompt it begins with."""
    marks: tuple[int, ...]
    """Tokens up to each place a provider that wants marks is asked to cache at."""
    answer: int
    """Tokens of what the assistant said then."""
    folded: int
    dropped: int
    shrunk: int
    fold_landed: bool
    violations: int
    """Rules of `turnfold.check` that it breaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """An estimate: list prices, every call within the life of the cache."""

    currency: str
    date: str
    """Of the prices."""
    model: str
    total: float
    without_cache: float
    """The same calls, every token fresh."""
    read: int
    written: int
    fresh: int
    output: int

    @property
    def cached_share(self) -> float:
        """Prompt tokens that came from the cache, as a part of all."""
        prompt = self.read + self.written + self.fresh
        return self.read / prompt if prompt else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """A history under one budget and strategy."""

    strategy: str
    budget: int
    """Tokens a call may spend."""
    counter: str
    entries: int
    turns: int
    calls: tuple[SimulatedCall, ...]
    refused: str = ""
    """Why it ended early: the mandatory parts of a call did not fit. Empty when it ran to the end."""

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
        """Calls over the budget."""
        return sum(call.tokens > self.budget for call in self.calls)

    @property
    def violations(self) -> int:
        """Rules broken, over all calls."""
        return sum(call.violations for call in self.calls)

    @property
    def prefix_share(self) -> float:
        """How much of the previous prompt a call begins with, on average over all calls but the first."""
        later = [call.prefix_share for call in self.calls[1:]]
        return fmean(later) if later else 1.0

    @property
    def folds(self) -> int:
        """Checkpoints that landed."""
        return sum(call.fold_landed for call in self.calls)

    @property
    def folded(self) -> int:
        """Entries behind the summary at the end."""
        return self.calls[-1].folded if self.calls else 0

    @property
    def dropped(self) -> int:
        """Entries of the log that the last call neither shows nor has a summary for."""
        return self.calls[-1].dropped if self.calls else 0

    def cost(self, model: str, prices: PriceTable) -> Cost:
        """What the calls would cost; an estimate, see `turnfold.tokens.prices`."""
        if not model:
            raise InvalidOption("a cost needs the name of a model")
        price = prices.price(model)
        rule = prices.rule(price)
        read = written = fresh = output = 0
        total = plain = 0.0
        marks: tuple[int, ...] = ()
        for call in self.calls:
            hit = rule.read(call.shared, marks)
            kept = rule.written(hit, call.marks)
            charge = Charge(
                read=hit, written=kept, fresh=call.tokens - hit - kept, output=call.answer
            )
            total += price.of(charge)
            plain += price.of(Charge(read=0, written=0, fresh=call.tokens, output=call.answer))
            read, written = read + hit, written + kept
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
