"""Count which sentences of natural messages become rules: kept, missed, false, and of the wrong kind.

The messages (`tests/rules/sentences/natural_*.txt`) have several sentences, each labelled. Of the half "report" no miss
was looked at while the code was changed.

    python -m bench.natural_messages
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.rules.generator import HALVES, NaturalMessage, read_messages
from turnfold.rules import extract_rules

__all__ = ("Judged", "judge")


@dataclass(frozen=True)
class Judged:
    """Sentences of messages by what became of them."""

    kept: tuple[str, ...]
    missed: tuple[str, ...]
    false: tuple[str, ...]
    """Sentences that lay nothing down, but became rules."""
    plain: int
    """Number of all sentences that lay nothing down."""
    other_kind: tuple[str, ...]
    """Sentences that were kept as a kind that does not fit."""

    def __str__(self) -> str:
        every = len(self.kept) + len(self.missed)
        return (
            f"kept {len(self.kept)} of {every}, false {len(self.false)} of {self.plain}, "
            f"other kind {len(self.other_kind)}"
        )


def judge(messages: Sequence[NaturalMessage]) -> Judged:
    """Return what became of the sentences of messages."""
    kept: list[str] = []
    missed: list[str] = []
    false: list[str] = []
    other_kind: list[str] = []
    plain = 0
    for message in messages:
        spans: list[tuple[int, int, str]] = []
        at = 0
        for rule in extract_rules(message.text, seq=1, trust="user"):
            if rule.act != "done":
                at = message.text.index(rule.text, at)
                spans.append((at, at + len(rule.text), rule.kind))
        for sentence in message.sentences:
            kinds = {kind for a, b, kind in spans if a < sentence.end and b > sentence.start}
            if sentence.is_open:
                continue
            if not sentence.kinds:
                plain += 1
                false += [sentence.text] if kinds else []
                continue
            (kept if kinds else missed).append(sentence.text)
            if kinds and kinds.isdisjoint(sentence.kinds):
                other_kind.append(sentence.text)
    return Judged(tuple(kept), tuple(missed), tuple(false), plain, tuple(other_kind))


if __name__ == "__main__":
    for language in ("en", "zh"):
        for half in HALVES:
            print(language, half, judge(read_messages("natural", language, half)))
