"""What would the replayed conversations cost at published prices, with the providers' prompt caches?

Every usable call is charged: what repeats the call before at the cached price, the rest fresh, the recorded answer as
output. Prices, their date and the providers' cache rules are turnfold's own file (`turnfold/tokens/prices.json`);
`turnfold simulate` gives the same answer for a history of one's own. Where a provider caches up to marks, sessions of
turnfold mark what `turnfold.wire` marks, everybody else the end of the system message and the end of the prompt. A
window that no provider would take, or that misses what is to be answered, costs nothing and answers nothing: the share
of usable calls stands beside the price.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from bench.hosts import Guests, Offered
from bench.judge import PER_ANSWER
from bench.lanes.replay import Choice, FoldSent, Sent, Tally
from bench.replays import everybody, replayed, sample_size
from bench.report import Plot, Report, Table, Target
from turnfold.tokens import CacheRule, Charge, PriceTable, shipped_prices

__all__ = ("QUESTION", "cached_share_of_folds", "charged", "folds_charged", "run")

QUESTION = "what the replayed conversations cost at published prices, caches included"
BUDGETS = (8_000, 32_000)
MODELS = ("gpt-5.4", "claude-sonnet-5", "gemini-3-flash", "deepseek-v4-pro")
TARGET_BUDGET = 8_000
SEEDED = Choice(0, 0, seeded_zh=0.3)
_SCALES = (0.6, 0.8, 1.0, 1.25, 1.5, 1.8, 2.2)
"""Of the budget, at which turnfold is replayed to find its figure at another mean size of the prompt."""


def run(guests: Guests, *, quick: bool) -> Report:
    """Price what everybody sent, and compare what is not cached at equal size of the prompt."""
    sample = sample_size(quick=quick)
    prices = shipped_prices()
    report = Report("cost", QUESTION)
    replays = [(budget, Choice(budget, sample), "recorded") for budget in BUDGETS]
    replays.append((TARGET_BUDGET, SEEDED, "seeded"))
    for budget, choice, what in replays:
        tallies, notes = everybody(guests, budget, choice)
        title = f"{budget:,} tokens, {what}"
        report.tables.append(_prices_table(title, tallies, prices, notes))
        report.tables.append(_folds_table(title, tallies, prices))
        if choice == SEEDED:
            report.plots.append(_plot(title, tallies, prices))
        report.figures[title] = {
            each.name: {model: charged(tally.calls, model, prices) for model in MODELS}
            for each, tally in tallies.items()
        }
        if budget == TARGET_BUDGET:
            ours = _by_size(guests, budget, choice)
            rivals = {
                each: tally
                for each, tally in tallies.items()
                if not (each.ours or each.facts["raw"]) and tally.fresh
            }
            report.tables.append(_equal_table(title, rivals, ours))
            report.targets.append(_target(title, rivals, ours))
    return report


def _plot(title: str, tallies: Mapping[Offered, Tally], prices: PriceTable) -> Plot:
    return Plot(
        name="cost",
        title=f"Price of 1,000 calls with {MODELS[0]}, {title}",
        series={
            each.name: {0: charged(tally.calls, MODELS[0], prices)}
            for each, tally in tallies.items()
            if tally.calls
        },
        x=f"{prices.currency}, list prices of {prices.date}, prompt cache included",
        bars=True,
        digits=2,
    )


def charged(calls: Sequence[Sent], model: str, prices: PriceTable) -> float:
    """What usable calls cost, per thousand of them."""
    price = prices.price(model)
    rule = prices.rule(price)
    total, usable = 0.0, 0
    marks: tuple[int, ...] = ()
    for call in calls:
        if not call.usable:
            marks = ()
            continue
        read = rule.read(call.repeated, marks)
        marks = call.marks or (call.system, call.prompt - PER_ANSWER)
        written = rule.written(read, marks)
        fresh = call.prompt - read - written
        total += price.of(Charge(read=read, written=written, fresh=fresh, output=call.answer))
        usable += 1
    return total / usable * 1_000 if usable else 0.0


def folds_charged(calls: Sequence[Sent], model: str, prices: PriceTable, *, cached: bool) -> float:
    """What a model that writes the summaries costs, per thousand usable calls; `cached`: on the call before."""
    price = prices.price(model)
    rule = prices.rule(price)
    usable = sum(call.usable for call in calls)
    charges = [_fold_charge(fold, rule, cached=cached) for call in calls for fold in call.folds]
    return sum(map(price.of, charges)) / usable * 1_000 if usable else 0.0


def cached_share_of_folds(calls: Sequence[Sent], model: str, prices: PriceTable) -> float:
    """The share of the summaries' prompts that comes from the provider's cache."""
    rule = prices.rule(prices.price(model))
    charges = [_fold_charge(fold, rule, cached=True) for call in calls for fold in call.folds]
    total = sum(charge.read + charge.fresh for charge in charges)
    return sum(charge.read for charge in charges) / total if total else 0.0


def _fold_charge(fold: FoldSent, rule: CacheRule, *, cached: bool) -> Charge:
    prompt, shared = (fold.marked, fold.marked_shared) if rule.marks else (fold.prefix, fold.shared)
    if not cached or not prompt:
        return Charge(read=0, written=0, fresh=fold.fresh, output=fold.answer)
    read = rule.read(shared, (shared,))
    return Charge(read=read, written=0, fresh=prompt - read, output=fold.answer)


def _folds_table(title: str, tallies: Mapping[Offered, Tally], prices: PriceTable) -> Table:
    """What folding by the agent's own model adds, for those who fold."""
    rows: list[list[str]] = []
    for each, tally in tallies.items():
        if not any(call.folds for call in tally.calls):
            continue
        for how, cached in (("on the cached prompt", True), ("by fresh prompts", False)):
            added = [folds_charged(tally.calls, model, prices, cached=cached) for model in MODELS]
            whole = [
                charged(tally.calls, model, prices) + fold
                for model, fold in zip(MODELS, added, strict=True)
            ]
            shares = [
                f"{cached_share_of_folds(tally.calls, model, prices):.1%}" if cached else "-"
                for model in MODELS
            ]
            cells = [
                f"{a:,.2f} ({b:,.2f}), {c}" for a, b, c in zip(whole, added, shares, strict=True)
            ]
            rows.append([f"{each.name}, {how}", *cells])
    notes = [
        "price of 1,000 usable calls with the folds, (of the folds alone), share of the folds' prompts that is cached",
        "summaries as long as those of the built-in summariser, which uses up its limit; a model may write less",
    ]
    return Table(
        f"{title}: with folds by the agent's own model", ["replayed", *MODELS], rows, notes
    )


def _prices_table(
    title: str, tallies: Mapping[Offered, Tally], prices: PriceTable, notes: Sequence[str]
) -> Table:
    rows = [
        [
            each.name,
            *(f"{charged(tally.calls, model, prices):,.2f}" for model in MODELS),
            f"{sum(call.usable for call in tally.calls) / max(len(tally.calls), 1):.1%}",
            f"{tally.record.over}",
            f"{tally.prompt:,.0f}",
            f"{tally.fresh:,.0f}",
        ]
        for each, tally in tallies.items()
    ]
    columns = ["replayed", *MODELS, "usable", "over budget", "tokens sent", "not cached"]
    about = [
        f"list prices of {prices.date}, {prices.currency} per 1,000 usable calls",
        "usable: valid and with the newest message; a window over the budget is charged as sent",
    ]
    return Table(f"{title}: price of 1,000 calls", columns, rows, [*about, *notes])


def _by_size(guests: Guests, budget: int, choice: Choice) -> list[tuple[float, float]]:
    """Mean prompt and mean uncached tokens of turnfold at budgets around this one, on the same conversations."""
    ours = next(each for each in guests.offered("windows") if each.ours)
    tallies = [replayed(guests, ours, int(budget * scale), choice) for scale in _SCALES]
    return sorted((tally.prompt, tally.fresh) for tally in tallies)


def _at_size(points: Sequence[tuple[float, float]], prompt: float) -> float:
    """What turnfold leaves uncached at a mean size of the prompt; beyond the measured sizes, at the nearest."""
    for (low, fresh_low), (high, fresh_high) in pairwise(points):
        if low <= prompt <= high:
            share = (prompt - low) / (high - low) if high > low else 0.0
            return fresh_low + share * (fresh_high - fresh_low)
    return min(points, key=lambda point: abs(point[0] - prompt))[1]


def _equal_table(
    title: str, rivals: Mapping[Offered, Tally], ours: Sequence[tuple[float, float]]
) -> Table:
    rows = [
        [
            each.name,
            f"{tally.prompt:,.0f}",
            f"{tally.fresh:,.0f}",
            f"{_at_size(ours, tally.prompt):,.0f}",
            f"{_at_size(ours, tally.prompt) / tally.fresh:.2f}",
            tally.record.shown(),
        ]
        for each, tally in rivals.items()
    ]
    columns = ["peer", "tokens sent", "not cached", "turnfold's", "share", "windows"]
    sizes = ", ".join(f"{prompt:,.0f}" for prompt, _ in ours)
    notes = [
        f"turnfold at the peer's mean size of the prompt, by another budget; measured at {sizes}"
    ]
    return Table(f"{title}: not cached at equal size", columns, rows, notes)


def _target(
    title: str, rivals: Mapping[Offered, Tally], ours: Sequence[tuple[float, float]]
) -> Target:
    claim = f"{title}: not cached at equal size <= 0.5x the best peer with valid windows"
    shares = {
        each.name: _at_size(ours, tally.prompt) / tally.fresh
        for each, tally in rivals.items()
        if tally.record.clean
    }
    if not shares:
        return Target(claim, "no peer's windows were all good", None)
    best = max(shares, key=lambda name: shares[name])
    return Target(f"{claim} ({best})", f"{shares[best]:.2f}x", shares[best] <= 0.5)
