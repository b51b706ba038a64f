"""Which of the places found are shown, when only so many tokens may be spent.

The best come first as long as they fit. An entry that would take more than a third of everything is worth its score per
token from there on: it must earn the room of the several others it displaces. One that would take more than half is
shown as an excerpt. What is said twice is shown once. The last word has the count of what is really sent, signs and
headings included: whatever was estimated on the way, the limit holds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from turnfold.recall.excerpts import excerpt
from turnfold.recall.passages import Recalled, spoken
from turnfold.records import Entry
from turnfold.tokens import count_upto

__all__ = ("fill", "places_to_read")

_HEADING = 8
"""Tokens of the line above a passage, on average."""
_ROUNDS = 3
"""Times what was estimated too dear is given out again."""
_FEWEST_READ = 16
_MOST_READ = 600
_GAP = 3
"""Entries read for nothing rather than asking once more."""


def places_to_read(
    places: Sequence[tuple[int, float]], *, tokens: int, mean_tokens: float
) -> list[tuple[int, int]]:
    """The stretches (first seq, last seq) that hold enough of the best places to fill `tokens` twice."""
    enough = int(2 * tokens / max(mean_tokens, 1.0))
    wanted = sorted(seq for seq, _ in places[: min(max(enough, _FEWEST_READ), _MOST_READ)])
    stretches: list[tuple[int, int]] = []
    for seq in wanted:
        if stretches and seq - stretches[-1][1] <= _GAP:
            stretches[-1] = (stretches[-1][0], seq)
        else:
            stretches.append((seq, seq))
    return stretches


def fill(
    places: Iterable[tuple[int, float]],
    entries: Mapping[int, Entry],
    *,
    terms: Collection[str],
    tokens: int,
    count: Callable[[str], int],
    measure: Callable[[Sequence[Recalled]], int],
) -> list[Recalled]:
    """The best of `places`, in the order of the log, so that `measure` of them is at most `tokens`.

    `places` are (seq, score), best first; of `entries` those that are there can be shown. `count` prices a text,
    `measure` everything that is sent for a choice.
    """
    offers = _offers(places, entries, terms, tokens, count)
    choice = _Choice()
    for _ in range(_ROUNDS):
        room = tokens - measure(choice.shown())
        if room <= 0 or not choice.add(offers, room):
            break
        while choice.taken and measure(choice.shown()) > tokens:
            choice.taken.popitem()
    return choice.shown()


@dataclass(frozen=True, slots=True)
class _Offer:
    entry: Recalled
    price: int
    value: float


@dataclass(slots=True)
class _Choice:
    """What is shown, by seq, in the order it was taken."""

    taken: dict[int, _Offer] = field(default_factory=dict[int, _Offer])

    def add(self, offers: Iterable[_Offer], room: int) -> bool:
        """Take what fits the room, best first; whether anything did."""
        before = len(self.taken)
        for offer in offers:
            seq = offer.entry.seq
            if seq in self.taken:
                continue
            joins = seq - 1 in self.taken or seq + 1 in self.taken
            price = offer.price + (0 if joins else _HEADING)
            if price <= room:
                self.taken[seq] = offer
                room -= price
        return len(self.taken) > before

    def shown(self) -> list[Recalled]:
        return [self.taken[seq].entry for seq in sorted(self.taken)]


def _offers(
    places: Iterable[tuple[int, float]],
    entries: Mapping[int, Entry],
    terms: Collection[str],
    tokens: int,
    count: Callable[[str], int],
) -> list[_Offer]:
    said: set[str] = set()
    offers: list[_Offer] = []
    for seq, score in places:
        entry = entries.get(seq)
        text = entry.message.text.strip() if entry else ""
        if entry is None or not text or text in said or entry.message.role == "system":
            continue
        said.add(text)
        found = Recalled(entry.seq, entry.turn, entry.message, entry.created, score)
        price = count_upto(spoken(found), tokens // 2, count) + 1
        if price > tokens // 2:
            short = excerpt(entry.message.text, terms, tokens // 2, count)
            found = replace(found, excerpt=short)
            price = count(spoken(found)) + 1
        offers.append(_Offer(found, price, score * min(1.0, tokens / 3 / price)))
    return sorted(offers, key=lambda offer: (-offer.value, -offer.entry.seq))
