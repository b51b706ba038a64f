"""One contender that searches: a conversation stored, then questions, each by words of one message."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time

from bench.contender import Found, Item
from bench.needles import Probe, planted

__all__ = ("Answers", "Lane")

Answers = dict[str, list[tuple[bool, float]]]
"""By kind of question: whether the message was among the best, and the processor seconds it took."""
BEST = 5
_FEWEST = 3
"""Questions of each kind that are asked however long they take."""


class Lane:
    """A conversation that is searched; of `size` messages, or the one that is given."""

    def __init__(
        self,
        contender: Found,
        *,
        path: Path,
        size: int = 0,
        items: Sequence[Item] = (),
        probes: Sequence[Probe] = (),
    ) -> None:
        made = planted(size) if size else None
        self._probes = made.probes if made else list(probes)
        begin = perf_counter()
        self._find, self._close = contender.open(path, made.items if made else items)
        self.stored = perf_counter() - begin

    def first(self) -> tuple[float, float]:
        """Seconds by the clock to store the conversation, and to answer a question nobody asked before."""
        begin = perf_counter()
        self._find("warm", BEST)
        return self.stored, perf_counter() - begin

    def ask(self, patience: float) -> Answers:
        """All questions, one of each kind after another; fewer where they take longer than `patience` seconds."""
        by_kind: defaultdict[str, list[Probe]] = defaultdict(list)
        for probe in self._probes:
            by_kind[probe.kind].append(probe)
        answers: Answers = {kind: [] for kind in by_kind}
        begin = perf_counter()
        for number in range(max(map(len, by_kind.values()))):
            if number >= _FEWEST and perf_counter() - begin > patience:
                break
            for kind, probes in by_kind.items():
                if number < len(probes):
                    answers[kind].append(self._asked(probes[number]))
        return answers

    def close(self) -> None:
        """Let go of the file."""
        self._close()

    def _asked(self, probe: Probe) -> tuple[bool, float]:
        begin = process_time()
        found = self._find(probe.question, BEST)
        seconds = process_time() - begin
        return any(probe.text in text for text in found[:BEST]), seconds
