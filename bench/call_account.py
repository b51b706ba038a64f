"""Where does the price of a session's calls come from?

Recorded coding sessions longer than the budget, and customer-service traces joined to long sessions, are replayed call
by call. The prompt tokens that no cache knows are told apart by what the call did: it went on with a turn, began one
(the tail changed), or came after a fold (compaction). Prices are those of `bench.cost`, with and without folds by the
agent's own model. `--transcript` replays windows that are cut to half instead, with no summary and no recall.

    TURNFOLD_DATA=... python -m bench.call_account [--tokens 32000] [--source coding|service] [--half 0|1]
        [--recall off] [--summary 0.15] [--folded 0.3] [--threshold 0.75] [--transcript]
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from bench.contender import Item
from bench.cost import MODELS, charged, folds_charged
from bench.judge import call_due, item_tokens, tokens_of
from bench.lanes.replay import Sent
from bench.peers.turnfold_itself import (
    FoldingSession,
    TranscriptSession,
    as_items,
    as_turnfold,
    cache_marks,
    requests_for_folds,
)
from bench.workload import traces
from turnfold import Budget
from turnfold.budget import Shares, WaterMarks
from turnfold.tokens import shipped_prices

__all__ = ("main",)

_SOURCES = {"coding": "claude_code_anthropic", "service": "tau2_bench_openai"}
_JOINED = 60_000
"""Tokens of a joined session, at least."""
_SESSIONS = 2
_EVERY = 7
"""Of the customer-service traces, every so many are joined."""


@dataclass(slots=True)
class _Line:
    """Calls that did the same, in tokens."""

    calls: int = 0
    new: int = 0
    """Of messages that no call sent before."""
    again: int = 0
    """Of the rest, what no cache knows."""


@dataclass(slots=True)
class _Account:
    calls: list[Sent] = field(default_factory=list[Sent])
    lines: defaultdict[str, _Line] = field(default_factory=lambda: defaultdict(_Line))


def _sessions(source: str, tokens: int) -> list[list[Item]]:
    """Recorded sessions longer than the budget, or traces joined to such sessions."""
    found = [trace.items for trace in traces(sample=1_000) if trace.source == _SOURCES[source]]
    if source == "coding":
        return [items for items in found if tokens_of(items) > tokens]
    return list(_joined(found[::_EVERY]))[:_SESSIONS]


def _joined(traces_of_one_source: list[list[Item]]) -> Iterator[list[Item]]:
    session: list[Item] = []
    for number, items in enumerate(traces_of_one_source):
        session += [
            item._replace(
                calls=tuple(call._replace(id=f"{call.id}-{number}") for call in item.calls),
                answers=f"{item.answers}-{number}" if item.answers else "",
            )
            for item in items
            if item.role != "system" or not session
        ]
        if tokens_of(session) > _JOINED:
            yield session
            session = []


def _replay(
    items: list[Item],
    session: FoldingSession | TranscriptSession,
    account: _Account,
    number: int,
) -> None:
    before: list[Item] = []
    seen = 0
    for at, message in enumerate(as_turnfold(items), 1):
        session.add(message)
        if at == len(items) or not call_due(items[:at]):
            continue
        window = as_items(session.window())
        folds = requests_for_folds(session) if isinstance(session, FoldingSession) else []
        marks = cache_marks(session.last) if session.last is not None else ()
        shared = list(takewhile(lambda pair: pair[0] == pair[1], zip(window, before, strict=False)))
        repeated = sum(item_tokens(item) for item, _ in shared)
        system = sum(map(item_tokens, takewhile(lambda item: item.role == "system", window)))
        inside = items[at - 1].role == "tool"
        account.calls.append(
            Sent(
                trace=number,
                prompt=tokens_of(window),
                system=system,
                repeated=repeated,
                answer=item_tokens(items[at]),
                usable=True,
                inside=inside,
                folds=tuple(folds),
                marks=tuple(sum(map(item_tokens, window[:mark])) for mark in marks),
            )
        )
        moved = session.last is not None and session.last.moved
        did = "folded" if folds else "cut" if moved else "went on" if inside else "new turn"
        line, new = account.lines[did], sum(map(item_tokens, items[seen:at]))
        line.calls, line.new = line.calls + 1, line.new + new
        line.again += tokens_of(window) - repeated - new
        before, seen = window, at


def _print(account: _Account) -> None:
    calls, prices = account.calls, shipped_prices()
    many = len(calls)
    print(f"{many:,} calls, {sum(call.prompt for call in calls) / many:,.0f} tokens sent per call")
    print("what the call did    calls   new   sent again (tokens, per call of all)")
    for did, line in account.lines.items():
        print(f"{did:18} {line.calls:7,} {line.new / many:6,.0f} {line.again / many:8,.0f}")
    print(f"{prices.currency} per 1,000 calls, list prices of {prices.date}")
    for model in MODELS:
        plain = charged(calls, model, prices)
        folds = folds_charged(calls, model, prices, cached=True)
        print(f"{model:18} {plain:7.2f}  with folds by the model {plain + folds:7.2f}")


def main() -> None:
    """Read the command line and print the account."""
    parser = argparse.ArgumentParser(prog="python -m bench.call_account", description=__doc__)
    parser.add_argument("--tokens", type=int, default=32_000)
    parser.add_argument("--source", choices=tuple(_SOURCES), default="coding")
    parser.add_argument("--half", type=int, choices=(0, 1), default=None)
    parser.add_argument("--recall", default="automatic")
    parser.add_argument("--summary", type=float, default=Shares().summary)
    parser.add_argument("--folded", type=float, default=WaterMarks().folded)
    parser.add_argument("--threshold", type=float, default=0.75)
    parser.add_argument("--transcript", action="store_true")
    options = parser.parse_args()
    budget = Budget(
        max_tokens=options.tokens,
        shares=Shares(summary=options.summary),
        marks=WaterMarks(folded=options.folded),
    )
    account = _Account()
    for number, items in enumerate(_sessions(options.source, options.tokens)):
        if options.half not in (None, number % 2):
            continue
        session = (
            TranscriptSession(budget)
            if options.transcript
            else FoldingSession(budget, recall=options.recall, threshold=options.threshold)
        )
        _replay(items, session, account, number)
    if not account.calls:
        raise SystemExit("no recorded traces of this source: set TURNFOLD_DATA to their folder")
    _print(account)


if __name__ == "__main__":
    main()
