"""Sets of conversations that `coverage` measures beside LoCoMo, and BM25 to compare with.

MemoryBank and bfcl_memory have questions of their own. Of the Chinese dialogues one message of the user is taken out
and asked; its evidence is the reply. In the last two sets long messages stand between those of LoCoMo and MemoryBank,
made of other conversations, with the names of this one: short facts among long answers about similar things.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import fmean

from bench.conversations import talks
from turnfold import Message
from turnfold.evaluation import EvalConversation, EvalQuestion
from turnfold.text import search_terms, terms_of

__all__ = ("SETS", "Okapi")

_DIALOGUES = 75
"""Dialogues joined to one log."""
_LEAST = 10
"""Characters of a message that is asked, and of its reply."""
_SATURATION, _LENGTH_WEIGHT = 1.5, 0.75
_MINUTE = 60_000_000


@dataclass(slots=True)
class Okapi:
    """BM25 with its usual numbers over the same terms; the average length is that of the conversation."""

    counts: list[Counter[str]]
    holding: Counter[str]
    mean: float

    @classmethod
    def of(cls, texts: Sequence[str]) -> Okapi:
        """Index the texts."""
        counts = [Counter(terms_of(text)) for text in texts]
        holding = Counter(term for each in counts for term in each)
        return cls(counts, holding, fmean(each.total() for each in counts))

    def ranked(self, question: str) -> list[int]:
        """Return the numbers of the texts that share a term with the question, from 1, best first."""
        terms, total = search_terms(question), len(self.counts)
        scores = [(self._score(each, terms, total), seq) for seq, each in enumerate(self.counts, 1)]
        return [seq for score, seq in sorted(scores, reverse=True) if score > 0]

    def _score(self, counts: Counter[str], terms: Sequence[str], total: int) -> float:
        length = 1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * counts.total() / self.mean
        return sum(
            math.log(1 + (total - self.holding[term] + 0.5) / (self.holding[term] + 0.5))
            * counts[term]
            * (_SATURATION + 1)
            / (counts[term] + _SATURATION * length)
            for term in terms
            if term in counts
        )


def _replies(name: str) -> Iterator[EvalConversation]:
    """Dialogues joined to logs; of most, one message is taken out and asked."""
    chance = random.Random(5)  # noqa: S311 (drawing messages, not secrets)
    dialogues = [talk.messages for talk in talks(name)]
    for first in range(0, len(dialogues), _DIALOGUES):
        log: list[Message] = []
        asked: list[EvalQuestion] = []
        for messages in dialogues[first : first + _DIALOGUES]:
            places = [
                place
                for place, (one, reply) in enumerate(pairwise(messages))
                if (one.role, reply.role) == ("user", "assistant")
                and min(len(one.text), len(reply.text)) >= _LEAST
            ]
            out = chance.choice(places) if places else -1
            for place, message in enumerate(messages):
                if place == out:
                    asked.append(EvalQuestion(message.text, frozenset({len(log) + 1})))
                else:
                    log.append(message)
        times = tuple(number * _MINUTE for number in range(len(log)))
        yield EvalConversation(
            name=f"{name} {first}", messages=tuple(log), times=times, questions=tuple(asked)
        )


def _among_long(name: str, every: int) -> Iterator[EvalConversation]:
    """The conversations of a set, with a long message of the assistant after every so many messages."""
    chance = random.Random(11)  # noqa: S311
    all_talks = list(talks(name))
    for talk in all_talks:
        others = [other for other in all_talks if other is not talk]
        messages: list[Message] = []
        times: list[int] = []
        seqs: dict[int, int] = {}
        for seq, (message, time) in enumerate(zip(talk.messages, talk.times, strict=True), 1):
            messages.append(message)
            times.append(time)
            seqs[seq] = len(messages)
            if seq % every == 0:
                other = chance.choice(others)
                many = min(chance.randint(5, 14), len(other.messages))
                first = chance.randrange(len(other.messages) - many + 1)
                texts = [each.text for each in other.messages[first : first + many]]
                long = _renamed("\n".join(texts), _speakers(other), _speakers(talk))
                messages.append(Message("assistant", long))
                times.append(time)
        asked = [
            EvalQuestion(each.question, frozenset(seqs[seq] for seq in each.evidence))
            for each in talk.questions
        ]
        yield EvalConversation(
            name=talk.name,
            messages=tuple(messages),
            times=tuple(times),
            questions=tuple(asked),
        )


def _speakers(talk: EvalConversation) -> list[str]:
    """The names before a colon that begin most messages, if any do."""
    names = Counter(
        found[1] for each in talk.messages if (found := re.match(r"(\w+): ", each.text))
    )
    return [name for name, times in names.most_common(2) if times > len(talk.messages) / 4]


def _renamed(text: str, names: Sequence[str], to: Sequence[str]) -> str:
    for name, other in zip(names, to, strict=False):
        text = re.sub(rf"\b{name}\b", other, text)
    return text


SETS: dict[str, Callable[[], Iterator[EvalConversation]]] = {
    "MemoryBank, Chinese": partial(talks, "memorybank_zh"),
    "MemoryBank, English": partial(talks, "memorybank_en"),
    "bfcl_memory": partial(talks, "bfcl_memory"),
    "KdConv, replies": partial(_replies, "kdconv_zh"),
    "CMtMedQA, replies": partial(_replies, "cmtmedqa_zh"),
    "LoCoMo among long answers": partial(_among_long, "locomo", 2),
    "MemoryBank, Chinese, among long answers": partial(_among_long, "memorybank_zh", 1),
}
