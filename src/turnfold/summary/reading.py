"""Texts read once, however many ask what is in them.

A fold reads the same sentences three times over: for the facts that must survive, for the lines to choose from, and for
what the finished summary states. Cutting a text and looking for facts in it is most of what a fold costs, and counting
tokens most of the rest; neither answer changes while the fold lasts. Both are remembered for as long as the caller
holds them and no longer: what is asked with them and without is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from turnfold.summary.facts import Hit, find_hits
from turnfold.summary.sentences import Sentence, SentenceKind, split_sentences

__all__ = ("CountedOnce", "Reading")


class Reading:
    """The sentences of texts, and where the hard facts of each stand."""

    __slots__ = ("_hits", "_sentences")

    def __init__(self) -> None:
        self._sentences: dict[str, tuple[Sentence, ...]] = {}
        self._hits: dict[tuple[str, SentenceKind], tuple[Hit, ...]] = {}

    def sentences(self, text: str, *, gap: str = "") -> tuple[Sentence, ...]:
        """The pieces of `text` in order; `gap` is a line of it that stands for what was left out."""
        known = self._sentences.get(text)
        if known is None:
            known = self._sentences[text] = tuple(split_sentences(text, gap=gap))
        return known

    def hits(self, text: str, kind: SentenceKind) -> tuple[Hit, ...]:
        """Where the hard facts of one sentence stand."""
        known = self._hits.get((text, kind))
        if known is None:
            known = self._hits[text, kind] = tuple(find_hits(text, kind))
        return known


class CountedOnce:
    """A way to count that is asked for each text once."""

    __slots__ = ("_count", "_known")

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._known: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """Tokens of `text`."""
        known = self._known.get(text)
        if known is None:
            known = self._known[text] = self._count(text)
        return known

    def keep(self, texts: Iterable[str]) -> None:
        """Forget every count but those of `texts`."""
        known = self._known
        self._known = {text: known[text] for text in texts if text in known}
