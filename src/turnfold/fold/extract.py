"""The extractive summary: the sentences of the source that say most, in order, word for word.

It needs no model, so it is used when none is configured and when one fails. It cannot misquote: every line is a
speaker's name and a sentence of that speaker's message. Text is data here: it is cut, weighed and copied, never
followed.

Choosing is a covering problem: cover the facts and the salient terms of the source with as few tokens as possible. A
sentence is worth only what the chosen ones do not say yet, and the next choice is the one with the most new worth per
token. Worth only falls as sentences are chosen, so an old value in the heap is an upper bound and each step looks at
few candidates.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from turnfold.fold.facts import FactKind, FactMatch, fact_weight
from turnfold.fold.passages import Passage, ReadCache, as_read, hits_of, passages_of
from turnfold.fold.summary_lines import (
    ANNEX_HEADINGS,
    is_tool,
    line_of,
    prefix_of,
    role_of,
    split_prefix,
    starts_with_label,
    voice_of,
)
from turnfold.records import Message
from turnfold.text import (
    Sentence,
    best_that_fit,
    clean_text,
    content_terms,
    cut_to_fit,
    is_chinese,
    joint_cost,
    require_limit,
    single_line,
)
from turnfold.window import Summarizer

__all__ = (
    "MISFITS_BEFORE_GIVING_UP",
    "Language",
    "MemoizedCounter",
    "extract_summary",
    "extractive_summarizer",
)


Language = Literal["auto", "en", "zh"]

MISFITS_BEFORE_GIVING_UP = 48
"""Lines in a row that do not fit after which no further line is tried."""
_TERM_SHARE = 0.15
"""Weight of new terms beside new facts."""
_BIGRAM_SHARE = 0.4
"""A Chinese clause has a bigram for each character, an English one a term for each longer word only."""
_EARLIER_PRIOR = 2.0
_EARLIER_CROWDED = 0.8
"""Factors for lines of the previous summary: while they fill little of the limit, and once they fill most of it."""
_EARLIER_ROOM = 0.7
"""Share of the limit above which lines of the previous summary are no longer preferred."""
_LEAST_WORTH = 1e-6
_HEAD_CHARACTERS = 6
"""Characters per token, no fewer than running text has."""
_SLACK = 2
"""Tokens by which a line may cost less than its beginning, which may end inside a word."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A sentence that may be kept: the line it would become, its facts and terms.

    `voice` is the weight of its speaker, `stress` a factor for its place and form. `earlier` marks a line of the
    previous summary.
    """

    line: str
    message: int
    hits: tuple[FactMatch, ...]
    terms: frozenset[str]
    voice: float
    stress: float
    earlier: bool


@dataclass(frozen=True, slots=True)
class _Worth:
    """The weight of each fact and of each term over the whole source."""

    facts: dict[str, float]
    terms: dict[str, float]


def _fact_id(hit: FactMatch) -> str:
    return f"{hit.kind}\0{hit.key}"


def _weigh(candidates: Sequence[_Candidate]) -> _Worth:
    """Weigh facts by kind, best speaker and repetition, terms by frequency, less if every message has them."""
    voices: dict[str, float] = {}
    mentions: Tally[str] = Tally()
    kinds: dict[str, FactKind] = {}
    uses: Tally[str] = Tally()
    spread: Tally[str] = Tally()
    last_message: dict[str, int] = {}
    for candidate in candidates:
        for hit in candidate.hits:
            name = _fact_id(hit)
            voices[name] = max(voices.get(name, 0.0), candidate.voice)
            kinds[name] = hit.kind
            mentions[name] += 1
        for term in candidate.terms:
            uses[term] += 1
            if last_message.get(term) != candidate.message:
                last_message[term] = candidate.message
                spread[term] += 1
    facts = {
        name: fact_weight(kinds[name], voice=voices[name], mentions=n)
        for name, n in mentions.items()
    }
    return _Worth(facts, _term_weights(uses, spread, messages=len({c.message for c in candidates})))


def _term_weights(uses: Tally[str], spread: Tally[str], *, messages: int) -> dict[str, float]:
    raw = {
        term: (1 + math.log2(n) if n > 1 else 0.6) * math.log2(1 + messages / spread[term])
        for term, n in uses.items()
    }
    mean = sum(raw.values()) / len(raw) if raw else 1.0
    return {
        term: weight / mean * (_BIGRAM_SHARE if term > "\u2e7f" else 1.0)
        for term, weight in raw.items()
    }


class _Cover:
    """Facts and terms the chosen lines state so far, and from that the value of another line."""

    def __init__(self, candidates: Sequence[_Candidate], worth: _Worth) -> None:
        self._candidates = candidates
        self._worth = worth
        self._facts = [frozenset(_fact_id(hit) for hit in c.hits) for c in candidates]
        self._costs = [_estimated_tokens(c.line) for c in candidates]
        self._stated_facts: set[str] = set()
        self._stated_terms: set[str] = set()
        self.crowded = False
        """True once lines of the previous summary fill most of the limit."""

    def value(self, at: int) -> float:
        """Return the new worth per token of the candidate `at`."""
        candidate = self._candidates[at]
        facts = sum(
            self._worth.facts[name] for name in sorted(self._facts[at] - self._stated_facts)
        )
        terms = sum(
            self._worth.terms[term] for term in sorted(candidate.terms - self._stated_terms)
        )
        new = facts + _TERM_SHARE * candidate.voice**2 * terms
        if candidate.earlier:
            new *= _EARLIER_CROWDED if self.crowded else _EARLIER_PRIOR
        return (new * candidate.stress + _LEAST_WORTH) / self._costs[at]

    def add(self, at: int) -> None:
        self._stated_facts |= self._facts[at]
        self._stated_terms |= self._candidates[at].terms


def _choose(
    candidates: Sequence[_Candidate], *, limit: int, count: Callable[[str], int], joint: int
) -> list[int]:
    """Return the indexes of the lines to keep, best first, costing about `limit` together; the best alone if none fits.

    Lines of the previous summary are preferred until they fill most of the limit, then newer lines are: old facts
    survive many folds, and new ones still get in.
    """
    cover = _Cover(candidates, _weigh(candidates))
    heap = [(-cover.value(at), at) for at in range(len(candidates))]
    heapq.heapify(heap)
    best = heap[0][1] if heap else 0
    chosen: list[int] = []
    spent = earlier_spent = misfits = 0
    while heap and misfits < MISFITS_BEFORE_GIVING_UP:
        _, at = heapq.heappop(heap)
        value = cover.value(at)
        if heap and -heap[0][0] > value:
            heapq.heappush(heap, (-value, at))
            continue
        room = limit - spent - (joint if chosen else 0)
        if room <= 0:
            break
        cost = _cost(candidates[at].line, room, count) + (joint if chosen else 0)
        if spent + cost > limit:
            misfits += 1
            continue
        misfits = 0
        spent += cost
        chosen.append(at)
        cover.add(at)
        if candidates[at].earlier:
            earlier_spent += cost
            cover.crowded = earlier_spent > _EARLIER_ROOM * limit
    return chosen or [best]


def _cost(line: str, room: int, count: Callable[[str], int]) -> int:
    """Return the tokens of a line; if its beginning alone is over `room`, only those of the beginning.

    With little room left, most lines that are tried do not fit, and their beginning is enough to know.
    """
    head = line[: _HEAD_CHARACTERS * (room + _SLACK)]
    if len(head) < len(line) and (least := count(head)) > room + _SLACK:
        return least
    return count(line)


def _estimated_tokens(line: str) -> float:
    """Estimate the tokens of a line, for ranking only: lines that are kept are counted."""
    wide = 0 if line.isascii() else sum(character > "\u2e7f" for character in line)
    return 2 + 0.8 * wide + 0.27 * (len(line) - wide)


class MemoizedCounter:
    """A token counter that counts each text once."""

    __slots__ = ("_cached", "_count")

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._cached: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """Return the tokens of `text`."""
        tokens = self._cached.get(text)
        if tokens is None:
            tokens = self._cached[text] = self._count(text)
        return tokens

    def keep(self, texts: Iterable[str]) -> None:
        """Drop every cached count but those of `texts`."""
        cached = self._cached
        self._cached = {text: cached[text] for text in texts if text in cached}


_FEW = 16
"""Tokens up to which a text is counted whatever the estimate says: it is far off for a few short lines."""
_OWN_LINE = 640
_LONG_PREVIOUS_LINE = 240

_BOILERPLATE = re.compile(
    r"""
    (?: hi | hello | hey | dear | greetings | good\ (?:morning|afternoon|evening|night) | thanks?
      | thank\ you | you['’]?re\ (?:very\ )?welcome | no\ problem | my\ pleasure | sure | certainly
      | of\ course | absolutely | great | perfect | awesome | wow | ok(?:ay)? | got\ it | sounds\ good
      | bye | goodbye | take\ care | have\ a\ (?:great|nice|good|wonderful) | anything\ else
      | is\ there\ anything\ else | how\ (?:can|may)\ i\ (?:help|assist) | how\ are\ you
      | (?:please\ )?let\ me\ know | feel\ free | i['’]?(?:m|\ am)\ (?:here|happy|glad|sorry)
      | i['’]?(?:d|\ would)\ be\ happy | i\ apologi[sz]e | i\ understand | please\ (?:wait|hold)
      | one\ moment | let\ me )\b
    | 你好 | 您好 | 大家好 | 谢谢 | 感谢 | 多谢 | 不客气 | 不用谢 | 没关系 | 没问题 | 好的 | 好吧
    | 收到 | 明白 | 嗯 | 哦 | 再见 | 拜拜 | 祝[您你] | 希望.{0,12}帮助 | 请问还有
    | 还有(?:什么|其他).{0,8}(?:帮|问题) | 如果[您你]?(?:还有|有任何) | 随时 | 很高兴 | 抱歉
    | 对不起 | 辛苦了 | 早上好 | 晚上好 | 下午好
    """,
    re.IGNORECASE | re.VERBOSE,
)
_BOILERPLATE_LENGTH = 90
_ENCODED = re.compile(r"[A-Za-z0-9+=_-]{100}")
_WEAK_HITS = frozenset({"identifier", "name", "time"})


def extract_summary(
    passages: Sequence[Passage],
    *,
    limit: int,
    count: Callable[[str], int],
    previous: str = "",
    language: Language = "auto",
    reading: ReadCache | None = None,
) -> str:
    """Return the most telling sentences of `passages` and of the `previous` summary, in log order, one line each.

    The result costs at most `limit` by `count`. It is the same for the same input, never holds a sentence twice, and is
    empty only if every text is blank or not a single character fits. `reading` is a cache to share with other calls.
    """
    require_limit(limit)
    ordered = sorted(map(as_read, passages), key=lambda passage: passage.position)
    chinese = language == "zh" or (language == "auto" and _speak_chinese(ordered, previous))
    found = _candidates(ordered, previous, reading or ReadCache(), chinese=chinese)
    candidates = list(_distinct(found))
    if not candidates:
        return ""

    def render(indexes: Sequence[int]) -> str:
        return "\n".join(candidates[at].line for at in sorted(indexes))

    everything = range(len(candidates))
    # Everything is counted only if the estimate, which errs upward, leaves a chance that it fits.
    if (
        sum(_estimated_tokens(c.line) for c in candidates) <= 2 * limit + _FEW
        and count(render(everything)) <= limit
    ):
        return render(everything)
    ranked = _choose(candidates, limit=limit, count=count, joint=joint_cost(count))
    kept = best_that_fit(ranked, render, limit=limit, count=count)
    return kept or _cut(candidates[ranked[0]].line, limit=limit, count=count, chinese=chinese)


def _is_question(text: str) -> bool:
    """Return True if only signs follow the last question mark."""
    for character in reversed(text):
        if character in "?？":
            return True
        if character.isalnum() or character == "_":
            return False
    return False


def _speak_chinese(passages: Sequence[Passage], previous: str) -> bool:
    """Return True if people write Chinese here; tools answer in English whatever their users speak."""
    spoken = [p.text for p in passages if not is_tool(p.speaker)]
    return is_chinese("\n".join([*(spoken or [p.text for p in passages]), previous]))


def _candidates(
    passages: Sequence[Passage], previous: str, reading: ReadCache, *, chinese: bool
) -> Iterator[tuple[str, _Candidate]]:
    """Yield every candidate with the sentence itself, by which duplicates are recognised, in log order."""
    labels = frozenset(prefix_of(p.speaker, chinese=chinese).rstrip(" :：") for p in passages)
    for line in _previous_lines(previous, reading, chinese=chinese):
        yield _from_previous(line, labels, reading)
    questioner: str | None = None
    for number, passage in enumerate(passages):
        sentences = reading.sentences(passage.text, gap=passage.unread)
        prefix = prefix_of(passage.speaker, chinese=chinese)
        answers = questioner is not None and questioner != passage.speaker
        for place, sentence in enumerate(sentences):
            edge = 1.1 if place == 0 or place == len(sentences) - 1 else 1.0
            hits = hits_of(passage, sentence, reading)
            terms = frozenset(content_terms(sentence.text))
            stress = (
                edge * _form(sentence, hits, len(terms)) * (1.25 if answers and place == 0 else 1.0)
            )
            yield (
                sentence.text,
                _Candidate(
                    line=prefix + sentence.text,
                    message=number,
                    hits=hits,
                    terms=terms,
                    voice=voice_of(passage.speaker),
                    stress=stress,
                    earlier=role_of(passage.speaker) == "summary",
                ),
            )
        if sentences:
            questioner = passage.speaker if _is_question(sentences[-1].text) else None


def _previous_lines(previous: str, reading: ReadCache, *, chinese: bool) -> Iterator[str]:
    """Yield the lines of the previous summary; a long line not written by this module is cut into sentences.

    Each sentence keeps the name its line began with, so that none of them reads as the words of somebody else.
    """
    for raw in clean_text(previous).split("\n"):
        line = single_line(raw)
        if not line or line in ANNEX_HEADINGS.values():
            continue
        label = starts_with_label(line)
        if len(line) <= _LONG_PREVIOUS_LINE or (len(line) <= _OWN_LINE and label):
            yield line
        elif label:
            yield from (label + each.text for each in reading.sentences(line[len(label) :]))
        else:
            yield from (line_of("", each.text, chinese=chinese) for each in reading.sentences(line))


def _from_previous(line: str, labels: frozenset[str], reading: ReadCache) -> tuple[str, _Candidate]:
    speaker, body = split_prefix(line, labels)
    kind = reading.sentences(body)[0].kind
    hits = reading.hits(body, kind)
    terms = frozenset(content_terms(body))
    stress = _form(Sentence(body, kind), hits, len(terms))
    voice = voice_of(speaker or "summary")
    return body, _Candidate(line, -1, hits, terms, voice, stress, earlier=True)


def _form(sentence: Sentence, hits: Sequence[FactMatch], terms: int) -> float:
    """Return a factor for the form of a sentence: courtesies, questions, code and encoded data say less."""
    factor = 1.0
    solid = any(hit.kind not in _WEAK_HITS for hit in hits)
    if (
        len(sentence.text) <= _BOILERPLATE_LENGTH
        and not solid
        and _BOILERPLATE.match(sentence.text)
    ):
        factor *= 0.1
    if _is_question(sentence.text):
        factor *= 0.8
    if sentence.kind == "prose":
        factor *= min(1.0, 0.25 + 0.2 * (terms + 2 * len(hits)))
    if sentence.kind == "code":
        factor *= 0.7
    if _ENCODED.search(sentence.text):
        factor *= 0.2
    return factor


def _distinct(candidates: Iterator[tuple[str, _Candidate]]) -> Iterator[_Candidate]:
    """Yield each sentence once, where it was first said."""
    seen: set[str] = set()
    for body, candidate in candidates:
        key = body.casefold().rstrip(" .!?;,。！？；，…") or body
        if key not in seen:
            seen.add(key)
            yield candidate


def _cut(line: str, *, limit: int, count: Callable[[str], int], chinese: bool) -> str:
    """Return the beginning of a line that is too long by itself, with the speaker's role if the name is too long."""
    head = cut_to_fit(line, limit=limit, count=count)
    speaker, body = split_prefix(line)
    if speaker and len(head) < len(line) - len(body) + 4:
        shorter = cut_to_fit(
            line_of(role_of(speaker), body, chinese=chinese), limit=limit, count=count
        )
        return shorter if split_prefix(shorter)[0] else head
    return head


def extractive_summarizer(count: Callable[[str], int]) -> Summarizer:
    """Return the extractive summary as a `Summarizer` for a window strategy."""

    def summarise(messages: Sequence[Message], *, previous: str, limit: int) -> str:
        return extract_summary(passages_of(messages), limit=limit, count=count, previous=previous)

    return summarise
