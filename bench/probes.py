"""Words drawn from Chinese dialogues, to be found again where they stand.

Without a dictionary a word is a run of characters that recurs: two, three or four of them, in at least two and at most
five entries of thousands, not beginning or ending with a particle. Names of things in Latin letters with the Chinese
beside them (a drug, a device, an examination) are drawn as they are written. A word counts as found when the very entry
it was drawn from is among the best five, so a search that answers with any five entries does not pass.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from bench.conversations import logged, talks
from turnfold.evaluation import EvalConversation
from turnfold.text.words import SEARCH_FUNCTION_CHARACTERS

__all__ = ("Outcome", "Probe", "chinese", "found_share", "joined", "probes")

_HAN = re.compile(r"[\u4e00-\u9fff]+")
_MIXED = re.compile(
    r"[A-Za-z][A-Za-z0-9-]*[\u4e00-\u9fff]{1,2}|[\u4e00-\u9fff]{2}[A-Za-z][A-Za-z0-9-]*"
)
_MOST_PLACES = 5
Find = Callable[[str], Sequence[int]]


@dataclass(frozen=True, slots=True)
class Probe:
    """A word, and the entry it was drawn from."""

    word: str
    seq: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """How often the words of a set were found."""

    name: str
    shares: dict[str, float]
    share: float
    entries: int


def joined(name: str) -> EvalConversation:
    """All dialogues of a set as one conversation."""
    messages = tuple(chain.from_iterable(talk.messages for talk in talks(name)))
    return EvalConversation(name=name, messages=messages, times=(0,) * len(messages))


def probes(texts: Sequence[str], *, many: int, seed: int = 77) -> dict[str, list[Probe]]:
    """Words by kind, `many` of each, the same for the same texts."""
    chance = random.Random(seed)  # noqa: S311 (drawing words, not secrets)
    kinds: dict[str, Iterable[tuple[str, int]]] = {
        f"{length} characters": _runs(texts, length) for length in (2, 3, 4)
    }
    kinds["mixed"] = (
        (match[0], seq) for seq, text in enumerate(texts, 1) for match in _MIXED.finditer(text)
    )
    drawn: dict[str, list[Probe]] = {}
    for kind, found in kinds.items():
        places: defaultdict[str, set[int]] = defaultdict(set)
        for word, seq in found:
            if not SEARCH_FUNCTION_CHARACTERS & {word[0], word[-1]}:
                places[word].add(seq)
        least = 1 if kind == "mixed" else 2
        words = sorted(word for word, at in places.items() if least <= len(at) <= _MOST_PLACES)
        chosen = chance.sample(words, min(many, len(words)))
        drawn[kind] = [Probe(word, chance.choice(sorted(places[word]))) for word in chosen]
    return drawn


def found_share(drawn: Iterable[Probe], find: Find) -> float:
    """How many of the words are found, by a search that answers with seqs, best first."""
    hits = [probe.seq in find(probe.word)[:5] for probe in drawn]
    return sum(hits) / len(hits)


def chinese(name: str, *, many: int) -> Outcome:
    """Search a set's dialogues, folded, for words drawn from them."""
    talk = joined(name)
    session = logged(talk)
    session.fold(summary="…", keep_turns=1)
    drawn = probes([message.text for message in talk.messages], many=many)

    def find(word: str) -> list[int]:
        return [found.seq for found in session.recall(word, limit=5)]

    shares = {kind: found_share(words, find) for kind, words in drawn.items()}
    share = found_share(chain.from_iterable(drawn.values()), find)
    return Outcome(name, shares, share, len(talk.messages))


def _runs(texts: Sequence[str], length: int) -> Iterable[tuple[str, int]]:
    for seq, text in enumerate(texts, 1):
        for run in _HAN.findall(text):
            for at in range(len(run) - length + 1):
                word = run[at : at + length]
                yield word, seq
