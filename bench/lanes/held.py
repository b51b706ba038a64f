"""One way to hold messages: the bytes it takes beyond their text."""

from __future__ import annotations

import gc
import tracemalloc

from bench.contender import Held
from bench.workload import transcript

__all__ = ("Lane",)


class Lane:
    """A pair of scales."""

    def __init__(self, contender: Held, *, messages: int) -> None:
        self._contender = contender
        self._items = transcript(messages, seed=3)

    def weigh(self) -> float:
        """Bytes per message."""
        build, prepare = self._contender.build, self._contender.prepare
        build(prepare(self._items[:50]))  # what is made once per process is not part of a message
        prepared = prepare(self._items)
        gc.collect()
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        kept = build(prepared)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        del kept
        return (after - before) / len(self._items)
