"""How much of the prompt stays the same from call to call in a chat with one call per turn?

Recalled passages stand before the newest turn and are chosen anew for each question, so they are a change that the
provider's cache does not know. An invented chat of travel questions is replayed with recall and without; the figure is
the share of all prompt tokens that the previous call sent too, after the first fold (compaction). No data, no network.

    python -m bench.chat_prefix [--tokens 2000 8000] [--turns 400]
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from itertools import pairwise

from turnfold import Budget, Memory, Message
from turnfold.tokens import counter_for

__all__ = ("main",)

_PLACES = (
    "museum temple palace market garden lake bridge tower theatre library station park".split()
)
_WORDS = (
    "ticket price morning evening queue guide lunch walk taxi metro rain early late crowd photo map closed open tour "
    "family child discount booking"
).split()


def _chat(tokens: int, turns: int, *, recall: str) -> tuple[float, int]:
    """Return the kept share of the prompts, and the uncached tokens of a call."""
    dice = random.Random(7)  # noqa: S311 - an invented chat, the same every time
    calls: list[Sequence[Message]] = []
    budget = Budget(max_tokens=tokens)
    with Memory("sqlite://", model="gpt-4o", budget=budget, recall=recall) as memory:
        session = memory.session("chat")
        session.system("You are a careful travel agent.")
        for turn in range(turns):
            place = dice.choice(_PLACES)
            session.user(f"Turn {turn}: the {place}, {' and '.join(dice.sample(_WORDS, 6))}?")
            sent = session.context().messages
            if calls or session.checkpoints():
                calls.append(sent)
            session.assistant(f"The {place}: {' '.join(dice.choices(_WORDS + _PLACES, k=60))}.")
    return _kept(calls)


def _kept(calls: Sequence[Sequence[Message]]) -> tuple[float, int]:
    count = counter_for("gpt-4o").count_message
    kept = total = 0
    for before, after in pairwise(calls):
        costs = [count(message) for message in after]
        same = 0
        while same < min(len(before), len(after)) and before[same] == after[same]:
            same += 1
        kept += sum(costs[:same])
        total += sum(costs)
    return kept / total, (total - kept) // (len(calls) - 1)


def main() -> None:
    """Print a line for each budget, with recall and without."""
    options = argparse.ArgumentParser(description="Kept prefix of a chat with one call per turn.")
    options.add_argument("--tokens", type=int, nargs="+", default=[2_000, 8_000])
    options.add_argument("--turns", type=int, default=400)
    chosen = options.parse_args()
    for tokens in chosen.tokens:
        for recall in ("automatic", "off"):
            share, new = _chat(tokens, chosen.turns, recall=recall)
            print(f"{tokens:,} tokens, recall {recall}: kept {share:.2f}, {new:,} uncached a call")


if __name__ == "__main__":
    main()
