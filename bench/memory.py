"""How many bytes does a held message cost beyond its text?

The strings exist before the scales are switched on, and so do parsed arguments and a loaded tokenizer: only the objects
made to hold them are weighed.
"""

from __future__ import annotations

import gc
import tracemalloc

from bench.contender import Held, Item
from bench.peers import held
from bench.report import Report, Table, Target
from bench.workload import transcript

__all__ = ("QUESTION", "run")

QUESTION = "bytes per message held, beyond its text"
MESSAGES = 10_000


def run(*, quick: bool) -> Report:
    """Weigh every way to hold the same messages."""
    items = transcript(MESSAGES // 5 if quick else MESSAGES, seed=3)
    tools = sum(bool(item.calls or item.answers) for item in items) / len(items)
    weights = {each.name: _weigh(each, items) for each in held()}
    peer = weights["LangChain message"]
    rows = [[name, f"{weight:,.0f}", f"{weight / peer:.2f}"] for name, weight in weights.items()]
    ours = [each.name for each in held() if each.ours]
    return Report(
        "memory",
        QUESTION,
        tables=[
            Table(
                f"{len(items):,} messages, {tools:.0%} of them tool calls and results",
                ["held as", "bytes per message", "of LangChain's"],
                rows,
            )
        ],
        targets=[
            Target(
                f"{name}: at most half of LangChain's",
                f"{weights[name]:,.0f} of {peer:,.0f} bytes",
                weights[name] <= peer / 2,
            )
            for name in ours
        ],
        figures=dict(weights),
    )


def _weigh(each: Held, items: list[Item]) -> float:
    each.build(each.prepare(items[:50]))  # what is made once per process is not part of a message
    prepared = each.prepare(items)
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    kept = each.build(prepared)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return (after - before) / len(items)
