"""The extractive summary: the sentences of the source that later turns most likely need, in order, word for word.

It needs no model, so it is used when none is configured and when one fails. It cannot misquote: every line is a
speaker's name and sentences of that speaker, of which at most the first interjections ("Oh, great!") are left out.
Instructions in the text are never followed, because no model reads it.

Choosing sentences is a covering problem: cover the facts and the important terms of the source with as few tokens as
possible. The value of a sentence is the weight of its facts and terms that no chosen sentence has yet, times a factor
for its form (see `sentence_scores`), per token. The sentence with the highest value is chosen next. Values only fall as
sentences are chosen, so an old value in the heap is an upper bound and each step looks at few candidates.

The sentences of a previous summary compete by their values with those of the new messages.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect, insort
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from turnfold._lazy_loading import late_pattern
from turnfold.fold.facts import FACT_WEIGHTS, FactMatch
from turnfold.fold.repeated_calls import (
    common_folder,
    is_counted_call,
    list_called_files,
    merge_repeated_calls,
    only_reads,
)
from turnfold.fold.sentence_scores import (
    SummaryPiece,
    form_of,
    idle_rows,
    is_outcome,
    is_question,
    own_words,
    proper_names,
    said_together,
    short_answers,
    unnamed,
    without_lead,
)
from turnfold.fold.source_outline import outlined
from turnfold.fold.summary_input import (
    ANNEX_HEADINGS,
    Passage,
    ReadCache,
    as_read,
    brief_call,
    hits_of,
    is_call,
    is_tool,
    line_of,
    passages_of,
    prefix_of,
    role_of,
    said_on,
    split_prefix,
    starts_with_label,
    voice_of,
)
from turnfold.fold.superseded_statements import (
    CHANGED_MARKS,
    QUOTED_MARKS,
    ToldSentence,
    find_changes,
    is_marked,
    is_marked_quoted,
    read_statement,
    restates,
)
from turnfold.records import Message
from turnfold.rules import is_quoted, likely_rule
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
    "read_for_extract",
    "sentence_key",
)


Language = Literal["auto", "en", "zh"]

MISFITS_BEFORE_GIVING_UP = 48
"""Number of lines in a row that are too long for the tokens left in an extract, after which no further line is tried.
"""
_TERM_SHARE = 0.15
"""Weight of a new term (content word) in a sentence, relative to a new fact."""
_BIGRAM_SHARE = 0.4
"""Factor for the weight of Chinese terms: a Chinese clause has one term per character, an English clause one per longer
word."""
_RULE_SHARE = 0.55
"""Factor for the weight of rules and decisions: many sentences only sound like a rule, and users' rules are kept in a
ledger."""
_RULE_KINDS = ("constraint", "decision")
_LEAST_RULE, _LEAST_CHINESE_RULE = 0.1, 0.8
"""Least factor for a sentence with the cue word of a rule that does not read like a rule: in English, and in Chinese,
where cue words are rarely idioms."""
_FEW_TERMS, _EMPTY = 4, 0.05
"""A sentence with the cue word of a rule that states no rule and has at most `_FEW_TERMS` terms gets the factor
`_EMPTY`."""
_INSIDE_A_SENTENCE = tuple(":：,，;；、.。!！?？…")
"""Beginnings of sentences that get a line of their own: after another sentence they would read as its end."""
_PROPER_NAME = 0.8
"""Weight of a capitalised name in a sentence."""
_USUAL_NAMES = 0.05
"""If a name is mentioned more often than this per message, it weighs less: people in a conversation address each other
all the time."""
_LENGTH_POWER = 0.8
"""Exponent of a sentence's tokens in its value; below 1, because longer sentences are easier to understand alone."""
_EARLIER_PRIOR = 2.0
_EARLIER_CROWDED = 0.8
"""Two factors for sentences of the previous summary: while these fill little of the token limit, and once they fill
most of it, so that neither old nor new sentences take all the room."""
_EARLIER_ROOM = 0.7
"""Share of an extract's token limit that sentences of the previous summary may take before they lose their preference
over new ones."""
_TOOL_ROOM = 0.5
_TOOL_CROWDED = 0.3
"""Share of the token limit above which tool calls and output count less, and the factor they then get: many of their
facts are not needed."""
_ANSWER = 1.25
"""Factor for the first sentence after a question by the other speaker."""
_EDGE, _POINT, _MIDDLE = 1.1, 1.3, 0.8
"""Factors by position: for the first and last sentence of a message; in an assistant's long answer for the first and
last, and for the other sentences."""
_LONG_ANSWER = 4
"""Number of sentences above which an assistant's answer counts as long. Its first and last sentence then get a higher
score for an extract, and its other sentences a lower one."""
_LEAST_STRESS = 0.12
"""Least factor of a sentence that is worth keeping; one with a lower factor, such as a greeting, is kept only if there
is nothing else."""
_MOST_ALIKE = 3
"""Most questions in a summary that differ only in numbers and ids ("where is order 17?"); further ones are left out."""
_CHANGED = 0.5
"""Factor for a sentence that a later one changed in part."""
_IDLE = 0.05
"""Factor for a row of tool output that no later message uses, and for a fragment that the answer repeats."""
_TASK, _TASK_SENTENCES = 1.6, 8
"""Factor for the first sentences of a user's message if program output follows them, and the number of these
sentences."""
_UNNAMED = 0.5
"""Factor for a fact about "him" or "it" if no sentence before it has a name."""
_LEAST_CLAUSE = 6
"""Least characters of an outdated rule for which sentences that contain it word for word are marked as outdated."""
_LONGEST_LIST = 100
"""Most characters of an assistant's Chinese list whose parts are kept together."""
_CHANGED_FILES = 3.0
"""Factor for the list of changed files: whoever continues the work needs it."""
_CODE = 0.4
"""Factor for a line of code in tool output: which files were read tells more than a few of their lines."""
_NUMBERS = late_pattern(r"(?:(?<![A-Za-z])[A-Za-z]+)?\d[\w.,:-]*")
_CLOSING = "'\"’”」』"
"""Quotation marks that may follow the full stop of a sentence."""
_LEAST_WORTH = 1e-6
_HEAD_CHARACTERS = 6
"""Characters per token of the room to which a long line is cut before its tokens are counted; running text has fewer
per token."""
_SLACK = 2
"""Tokens by which a whole line may cost less than its beginning, because the cut may fall inside a word."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A sentence of the messages or of the previous summary that may be chosen for the new summary."""

    prefix: str
    """The name of the sentence's speaker with a colon, as shown before a line."""
    text: str
    """The words of the sentence that the summary shows: without interjections such as "well," at the beginning."""
    whole: str
    """The whole sentence with its interjections, used if the summary has room for everything."""
    joins: bool
    """True if the sentence may share a line with other sentences of the same message."""
    message: int
    """Number of the message that the sentence is from; negative for a line of the previous summary."""
    facts: dict[str, float]
    """The weight of each fact in the sentence."""
    terms: frozenset[str]
    voice: float
    """Weight of the speaker of the sentence, 0 to 1; see `voice_of`."""
    stress: float
    """Factor for the form of the sentence and its position in the message."""
    tool: bool
    """True if the sentence is output of a tool, or a tool call."""
    spaced: bool
    """True if there is a space before the sentence in its line of the previous summary."""
    role: str
    """Role of the sentence's speaker, or `call` for the arguments of a tool call."""
    hits: tuple[FactMatch, ...]
    prose: bool = True
    """False if the sentence is a line of code, a table row or JSON."""
    pattern: str = ""
    """The sentence without its numbers and ids, if it is a question; empty for other sentences."""
    needs: int | None = None
    """Index of a sentence that must be shown with this one, such as the question before a short answer."""


class _ReadSentence(NamedTuple):
    """The facts and terms found in a sentence; see `_Candidate` for the fields."""

    text: str
    whole: str
    joins: bool
    facts: dict[str, float]
    terms: frozenset[str]
    factors: tuple[float, ...]
    """Factors for the form of the sentence, in the order in which they are applied."""
    role: str
    hits: tuple[FactMatch, ...]
    prose: bool
    pattern: str


def _render(candidates: Iterable[tuple[_Candidate, str]], *, unchanged: bool = False) -> str:
    """Return the chosen sentences as the lines of a summary; consecutive sentences of one message share a line.

    With `unchanged`, lines of the previous summary stay as they were.
    """
    parts: list[str] = []
    before: _Candidate | None = None
    for candidate, words in candidates:
        own_line = unchanged and candidate.message < 0 and not _share_line(before, candidate)
        if own_line or _begins_line(before, candidate):
            parts.append(f"\n{candidate.prefix}{words}" if parts else candidate.prefix + words)
        else:
            parts.append(_gap(before, candidate, parts[-1][-1] + words[0]) + words)
        before = candidate
    return "".join(parts)


def _begins_line(before: _Candidate | None, candidate: _Candidate) -> bool:
    if before is None or (candidate.prefix, candidate.message) != (before.prefix, before.message):
        return True  # what was said in two turns would read as one statement
    return not (candidate.joins and before.joins) and not _share_line(before, candidate)


def _share_line(before: _Candidate | None, candidate: _Candidate) -> bool:
    """Return True if both sentences are from the same line of the previous summary."""
    return before is not None and before.message == candidate.message < 0


def _gap(before: _Candidate | None, candidate: _Candidate, around: str) -> str:
    """Return the text between two sentences of a line: a space, or nothing between Chinese characters."""
    spaced = candidate.spaced if _share_line(before, candidate) else min(around) <= "\u2e7f"
    return " " if spaced else ""


@dataclass(frozen=True, slots=True)
class _Worth:
    """The weight of each fact and of each term, over all sentences that may be chosen."""

    facts: dict[str, float]
    terms: dict[str, float]


def _weigh(candidates: Sequence[_Candidate]) -> _Worth:
    """Return weights: of facts (by kind, trust in the speaker, mentions) and of terms (by frequency)."""
    voices: dict[str, float] = {}
    mentions: Tally[str] = Tally()
    weights: dict[str, float] = {}
    uses: Tally[str] = Tally()
    spread: Tally[str] = Tally()
    last_message: dict[str, int] = {}
    for candidate in candidates:
        for name, weight in candidate.facts.items():
            voices[name] = max(voices.get(name, 0.0), candidate.voice)
            weights[name] = weight
            mentions[name] += 1
        for term in candidate.terms:
            uses[term] += 1
            if last_message.get(term) != candidate.message:
                last_message[term] = candidate.message
                spread[term] += 1
    messages = len({c.message for c in candidates})
    facts = {
        name: weights[name]
        * voices[name]
        * (1 + 0.2 * math.log2(n))
        * (min(1.0, _USUAL_NAMES * messages / n) if name.startswith("proper\0") else 1.0)
        for name, n in mentions.items()
    }
    return _Worth(facts, _term_weights(uses, spread, messages=messages))


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
    """The facts and terms that the sentences chosen so far state; computes the value of a further sentence."""

    def __init__(self, candidates: Sequence[_Candidate], worth: _Worth) -> None:
        self._candidates = candidates
        self._worth = worth
        self._costs = [_estimated_tokens(c.text) ** _LENGTH_POWER for c in candidates]
        self._stated_facts: set[str] = set()
        self._stated_terms: set[str] = set()
        self.crowded = False
        """True once sentences of the previous summary fill most of the limit."""
        self.tools_crowded = False
        """True once tool calls and their output fill their share of the token limit."""
        self._patterns: Tally[str] = Tally()
        """Pattern of a question (without numbers and ids) -> how many questions of this pattern were chosen."""
        self._chosen: set[int] = set()

    def value(self, at: int) -> float:
        """Return the value of a sentence: the weight, per token, of its facts and terms that no chosen sentence has."""
        candidate, cost = self._candidates[at], self._costs[at]
        facts, terms = self._worth.facts, self._worth.terms
        with_needed = candidate.terms
        if candidate.needs is not None and candidate.needs not in self._chosen:
            with_needed |= self._candidates[candidate.needs].terms
            needed = self._costs[candidate.needs]
            cost = (cost ** (1 / _LENGTH_POWER) + needed ** (1 / _LENGTH_POWER)) ** _LENGTH_POWER
        new_facts = sorted(candidate.facts.keys() - self._stated_facts)
        new_terms = sorted(with_needed - self._stated_terms)
        new = sum(facts[name] for name in new_facts)
        new += _TERM_SHARE * candidate.voice**2 * sum(terms[term] for term in new_terms)
        if candidate.message < 0:
            new *= _EARLIER_CROWDED if self.crowded else _EARLIER_PRIOR
        if candidate.tool and self.tools_crowded:
            new *= _TOOL_CROWDED
        return (new * candidate.stress + _LEAST_WORTH) / cost

    def is_repeated(self, at: int) -> bool:
        """Return True if enough questions were chosen that differ from candidate `at` only in their numbers and ids."""
        return self._patterns[self._candidates[at].pattern] >= _MOST_ALIKE

    def has(self, at: int) -> bool:
        """Return True if candidate `at` was chosen."""
        return at in self._chosen

    def missing(self, at: int) -> list[int]:
        """Return the indexes to choose for `at`: itself, after the sentence that it needs unless that was chosen."""
        needs = self._candidates[at].needs
        return [at] if needs is None or needs in self._chosen else [needs, at]

    def add(self, at: int) -> None:
        chosen = self._candidates[at]
        self._chosen.add(at)
        self._stated_facts |= chosen.facts.keys()
        self._stated_terms |= chosen.terms
        if chosen.pattern:
            self._patterns[chosen.pattern] += 1


class _Room:
    """Tracks the tokens left while sentences are chosen; a line's speaker is counted once for all its sentences."""

    def __init__(
        self, candidates: Sequence[_Candidate], *, limit: int, count: Callable[[str], int]
    ) -> None:
        self._candidates = candidates
        self._count = count
        self._joint = joint_cost(count)
        self._prefixes: dict[str, int] = {}
        self._kept: list[int] = []
        self.left = limit

    def take_all(self, indexes: Sequence[int]) -> list[int]:
        """Choose all these sentences and return their tokens.

        If they do not all fit, none is chosen and an empty list is returned.
        """
        left, costs = self.left, list[int]()
        for number, at in enumerate(indexes):
            cost = self.take(at)
            if not cost:
                for taken in indexes[:number]:
                    self._kept.remove(taken)
                self.left = left
                return []
            costs.append(cost)
        return costs

    def take(self, at: int) -> int:
        """Choose the sentence with index `at` and return its tokens.

        If there is no room for it, it is not chosen and 0 is returned.
        """
        place = bisect(self._kept, at)
        before = self._candidates[self._kept[place - 1]] if place else None
        after = self._candidates[self._kept[place]] if place < len(self._kept) else None
        candidate = self._candidates[at]
        room = self.left - self._opening(before, candidate)
        if after is not None:
            room -= self._opening(candidate, after) - self._opening(before, after)
        cost = _cost(candidate.text, room, self._count) if room > 0 else 0
        if room <= 0 or cost > room:
            return 0
        insort(self._kept, at)
        spent, self.left = self.left - room + cost, room - cost
        return max(spent, 1)

    def _opening(self, before: _Candidate | None, candidate: _Candidate) -> int:
        """Return the tokens before a sentence: of a line break and the speaker's name, or 0 within a line."""
        if not _begins_line(before, candidate):
            return 0
        prefix = candidate.prefix
        if prefix not in self._prefixes:
            self._prefixes[prefix] = self._count(prefix.rstrip()) if prefix else 0
        return self._prefixes[prefix] + (self._joint if self._kept else 0)


def _choose(
    candidates: Sequence[_Candidate], *, limit: int, count: Callable[[str], int]
) -> list[int]:
    """Return the indexes of the best sentences, best first, with about `limit` tokens in all.

    If none fits, the best one is returned.
    """
    cover = _Cover(candidates, _weigh(candidates))
    room = _Room(candidates, limit=limit, count=count)
    telling = [at for at, c in enumerate(candidates) if c.stress >= _LEAST_STRESS]
    heap = [(-cover.value(at), at) for at in telling or range(len(candidates))]
    heapq.heapify(heap)
    best = heap[0][1]
    chosen: list[int] = []
    earlier_spent = tools_spent = misfits = 0
    while heap and misfits < MISFITS_BEFORE_GIVING_UP and room.left > 0:
        _, at = heapq.heappop(heap)
        value = cover.value(at)
        if heap and -heap[0][0] > value:
            heapq.heappush(heap, (-value, at))
        elif cover.is_repeated(at) or cover.has(at):
            continue
        elif costs := room.take_all(group := cover.missing(at)):
            misfits = 0
            chosen.extend(group)
            for each, cost in zip(group, costs, strict=True):
                cover.add(each)
                earlier_spent += cost if candidates[each].message < 0 else 0
                tools_spent += cost if candidates[each].tool else 0
            cover.crowded = earlier_spent > _EARLIER_ROOM * limit
            cover.tools_crowded = tools_spent > _TOOL_ROOM * limit
        else:
            misfits += 1
    return chosen or [best]


def _cost(text: str, room: int, count: Callable[[str], int]) -> int:
    """Return the tokens of a text; if its beginning alone is over `room`, only the tokens of the beginning.

    With little room left, most sentences do not fit, and counting their beginning is enough to find out.
    """
    head = text[: _HEAD_CHARACTERS * (room + _SLACK)]
    if len(head) < len(text) and (least := count(head)) > room + _SLACK:
        return least
    return count(text)


def _estimated_tokens(line: str) -> float:
    """Estimate the tokens of a line without a tokenizer, for ranking; chosen lines are counted exactly."""
    wide = 0 if line.isascii() else (len(line.encode("utf-8", "replace")) - len(line)) // 2
    return 2 + 0.8 * wide + 0.27 * (len(line) - wide)


class MemoizedCounter:
    """A token counter with a cache, so that each text is counted once."""

    __slots__ = ("_cached", "_count")

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._cached: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """Return the number of tokens of `text`, counted or from the cache."""
        tokens = self._cached.get(text)
        if tokens is None:
            tokens = self._cached[text] = self._count(text)
        return tokens

    def keep(self, texts: Iterable[str]) -> None:
        """Drop all cached counts except those of `texts` and of texts contained in one of them."""
        kept = tuple(texts)
        self._cached = {
            text: tokens
            for text, tokens in self._cached.copy().items()  # another thread may be counting
            if any(text in each for each in kept)
        }


_FEW = 16
"""Tokens by which an estimate must exceed the limit to be trusted, because estimates of a few short lines are far off.
"""
_OWN_LINE = 640
_LONG_PREVIOUS_LINE = 240
_STOPS = "!?。！？"
_NO_STOP = frozenset(
    "min max est tel sec ext etc inc ltd corp dept approx ave blvd fig vol sept".split()
)


def extract_summary(
    passages: Sequence[Passage],
    *,
    limit: int,
    count: Callable[[str], int],
    previous: str = "",
    language: Language = "auto",
    without: Iterable[str] = (),
    shown: int = 0,
    reading: ReadCache | None = None,
) -> str:
    """Return the most important sentences of `passages` and of the `previous` summary, in log order.

    The result has at most `limit` tokens by `count`. The same input gives the same result; no sentence occurs twice. It
    is empty only if every text is blank or not a single character fits. Sentences in `without` (outdated rules) are
    left out, unless there is nothing else. The message at log position `shown` (0: none) is shown in addition to the
    summary, so it is left out if there is anything else. `reading` is a cache to share with other calls.
    """
    require_limit(limit)
    ordered = sorted(map(as_read, passages), key=lambda passage: passage.position)
    ordered = [passage for passage in ordered if not 0 < shown == passage.position] or ordered
    chinese = language == "zh" or (language == "auto" and _speak_chinese(ordered, previous))
    reading, without = reading or ReadCache(), tuple(without)
    ordered, previous = merge_repeated_calls(ordered, previous, chinese=chinese)
    candidates = _pool(ordered, previous, reading, without, chinese=chinese)
    if not candidates:
        return ""
    # Count everything only if there are no new passages, or if it may fit by the estimate, which is usually too high.
    estimate = sum(_estimated_tokens(c.prefix + c.whole) for c in candidates)
    if not ordered or estimate <= 2 * limit + _FEW:
        everything = _render(((each, each.whole) for each in candidates), unchanged=True)
        if count(everything) <= limit:
            return everything
    if any(passage.file or is_call(passage.speaker) for passage in ordered):
        brief, previous = list_called_files(
            _brief(ordered, chinese=chinese),
            previous,
            limit=limit,
            count=count,
            chinese=chinese,
        )
        candidates = _pool(brief, previous, reading, without, chinese=chinese) or candidates

    def render(indexes: Sequence[int]) -> str:
        return _render((candidates[at], candidates[at].text) for at in sorted(indexes))

    ranked = _choose(candidates, limit=limit, count=count)
    kept = best_that_fit(ranked, render, limit=limit, count=count)
    return kept or _cut(render(ranked[:1]), limit=limit, count=count, chinese=chinese)


def _pool(
    passages: Sequence[Passage],
    previous: str,
    reading: ReadCache,
    without: Iterable[str],
    *,
    chinese: bool,
) -> list[_Candidate]:
    """Return the sentences to choose from: no duplicates, none outdated, each with those needed to understand it."""
    found = list(_candidates(passages, previous, reading, chinese=chinese))
    candidates = _without_outdated(list(_distinct(found)), without)
    if any(passage.speaker == "tool" for passage in passages):
        candidates = _with_task(candidates)
    if passages and candidates:  # a previous summary alone stays as it is
        candidates = _with_changes(candidates, reading, chinese=chinese)
        candidates = _with_needs(candidates, reading)
    return candidates


def read_for_extract(passages: Iterable[Passage], previous: str, reading: ReadCache) -> None:
    """Fill the cache with the sentences and facts that an extract of these messages and `previous` needs."""
    ordered = list(map(as_read, passages))
    chinese = _speak_chinese(ordered, previous)
    ordered, previous = merge_repeated_calls(ordered, previous, chinese=chinese)
    brief = _brief(ordered, chinese=chinese)
    for each in (ordered, brief) if brief != ordered else (ordered,):
        for candidate in _candidates(each, previous, reading, chinese=chinese):
            read_statement(_statement(candidate), reading)
            if candidate.role != "call":
                reading.once(own_words, candidate.whole, candidate.hits)


def _brief(passages: Sequence[Passage], *, chinese: bool) -> list[Passage]:
    """Return the passages with each tool call on one line, and source files that tools returned as outlines."""
    files = list(dict.fromkeys(p.file for p in passages if p.file))
    root = common_folder(files) if len(files) > 1 else ""
    return [
        brief_call(p) if is_call(p.speaker) else outlined(p, root=root, chinese=chinese)
        for p in passages
    ]


def _with_task(candidates: list[_Candidate]) -> list[_Candidate]:
    """Return the candidates; those of the user's only message, which states the task, get more weight."""
    spoken = [at for at, c in enumerate(candidates) if c.role == "user"]
    told = {candidates[at].message for at in spoken if candidates[at].message >= 0}
    if len(told) + any(candidates[at].message < 0 for at in spoken) != 1:
        return candidates
    for at in [at for at in spoken if candidates[at].prose][:_TASK_SENTENCES]:
        candidates[at] = replace(candidates[at], stress=candidates[at].stress * _TASK)
    return candidates


def _without_outdated(candidates: list[_Candidate], without: Iterable[str]) -> list[_Candidate]:
    """Return the candidates without sentences that repeat a rule in `without`; all candidates if none would be left.

    A sentence that contains an outdated rule word for word and says more than it is marked as changed.
    """
    rules = [(sentence_key(rule), frozenset(content_terms(rule))) for rule in without]
    if not rules:
        return candidates
    exact = {rule for rule, _ in rules}
    kept: list[_Candidate] = []
    for c in candidates:
        key = sentence_key(c.whole)
        if key in exact or (not c.tool and restates(c.text, rules)):
            continue
        partly = not c.tool and any(len(rule) >= _LEAST_CLAUSE and rule in key for rule in exact)
        kept.append(_marked(c, chinese=is_chinese(c.whole)) if partly else c)
    return kept or candidates


def _marked(candidate: _Candidate, *, chinese: bool) -> _Candidate:
    """Return the candidate with a mark that says that a part of it is outdated."""
    if is_marked(candidate.text):
        return candidate
    mark = CHANGED_MARKS["zh" if chinese else "en"]
    return replace(
        candidate,
        text=mark + candidate.text,
        whole=mark + candidate.whole,
        stress=candidate.stress * _CHANGED,
        joins=False,
    )


def _with_changes(
    candidates: list[_Candidate], reading: ReadCache, *, chinese: bool
) -> list[_Candidate]:
    """Return the candidates without sentences that a later one corrected; if one says more, it is marked instead."""
    statements: list[ToldSentence] = []
    speaker, message = "", None
    for c in candidates:
        if c.message != message and c.role in ("user", "assistant"):
            corrects = speaker == "assistant" and c.role == "user" and c.message >= 0
            speaker, message = c.role, c.message
        else:
            corrects = bool(statements) and statements[-1].corrects and c.message == message
        statements.append(_statement(c, corrects=corrects))
    changed = find_changes(statements, reading)
    kept: list[_Candidate] = []
    for at, c in enumerate(candidates):
        if at not in changed:
            kept.append(c)
        elif not changed[at].whole:
            kept.append(_marked(c, chinese=chinese))
    return kept or candidates


def _statement(candidate: _Candidate, *, corrects: bool = False) -> ToldSentence:
    """Return a candidate as a statement that may correct others; None for a question or a tool call."""
    states = candidate.role != "call" and not is_question(candidate.whole)
    hits = candidate.hits if states else ()
    return ToldSentence(candidate.whole, hits, candidate.message, candidate.role, corrects)


def _with_needs(candidates: list[_Candidate], reading: ReadCache) -> list[_Candidate]:
    """Return the candidates, each with the sentences it needs before it; fragments get almost no weight."""
    pieces = [
        SummaryPiece(
            c.whole,
            frozenset(c.facts),
            c.message,
            c.role,
            reading.once(own_words, c.whole, c.hits) if c.role != "call" else 0,
        )
        for c in candidates
    ]
    for at, alone in short_answers(pieces).items():
        c = candidates[at]
        needs = alone.needs
        if needs is not None and candidates[needs].stress < _LEAST_STRESS:
            needs = None  # "Is there anything else?" explains no answer
        stress = c.stress * _IDLE if alone.idle else c.stress
        candidates[at] = replace(c, needs=needs, stress=stress)
    answered = {c.needs for c in candidates}
    for at, c in enumerate(candidates):
        told = any(
            hit.kind not in _RULE_KINDS for hit in c.hits
        )  # "Where is order DD-7?" tells of an order
        if c.role == "user" and not told and at not in answered and is_question(c.whole):
            candidates[at] = replace(c, stress=c.stress * _IDLE)  # a question without its answer
    for at, name in unnamed(pieces).items():
        c = candidates[at]
        answers = c.needs is not None and is_question(candidates[c.needs].whole)
        if name is not None and not answers and candidates[name].stress >= _LEAST_STRESS:
            candidates[at] = replace(c, needs=name)
        elif c.needs is None and name is None:
            candidates[at] = replace(c, stress=c.stress * _UNNAMED)
    for at in idle_rows(pieces):
        candidates[at] = replace(candidates[at], stress=candidates[at].stress * _IDLE)
    together = said_together(pieces)
    return [
        replace(c, needs=together[at]) if at in together and c.needs is None else c
        for at, c in enumerate(candidates)
    ]


def _speak_chinese(passages: Sequence[Passage], previous: str) -> bool:
    """Return True if people mostly speak Chinese; tool calls and output count only if there is nothing else."""
    spoken = [p.text for p in passages if not (is_tool(p.speaker) or is_call(p.speaker))]
    for line in _previous_lines(previous):
        label = starts_with_label(line)
        if not (is_tool(label) or is_call(label)):
            spoken.append(line[len(label) :])
    return is_chinese("\n".join(spoken or [*(p.text for p in passages), previous]))


def _candidates(
    passages: Sequence[Passage], previous: str, reading: ReadCache, *, chinese: bool
) -> Iterator[_Candidate]:
    """Yield every sentence of the previous summary and of the messages as a candidate, in log order."""
    labels = frozenset(prefix_of(p.speaker, chinese=chinese).rstrip(" :：") for p in passages)
    number = 0
    for line in _previous_lines(previous):
        at = 0
        for prefix, sentence in _sentences_of(line, reading, chinese=chinese):
            if at == 0 or starts_with_label(sentence.text):
                number += 1
            speaker, _ = split_prefix(f"{prefix}{sentence.text}", labels)
            at = line.find(sentence.text, at)
            speaker = speaker or "summary"
            hits = reading.hits(sentence.text, sentence.kind)
            yield _candidate(
                prefix,
                reading.once(_read_sentence, sentence, hits, speaker),
                message=-number,
                speaker=speaker,
                spaced=line[at - 1 : at] == " ",
            )
            at += len(sentence.text)
    questioner: str | None = None
    for number, passage in enumerate(passages):
        sentences = _sentences_of_passage(passage, reading)
        answers = questioner is not None and questioner != passage.speaker
        marks = _quote_marks(passage, sentences, chinese=chinese)
        for place, sentence in enumerate(sentences):
            stress = _place_factor(place, len(sentences), passage.speaker)
            if answers and place == 0:
                stress *= _ANSWER
            day = said_on(passage, sentence.text)
            prefix = prefix_of(passage.speaker, chinese=chinese, day=day)
            shown = sentence
            hits = hits_of(passage, sentence, reading)
            if marks[place] and any(hit.kind in _RULE_KINDS for hit in hits):
                shown = replace(sentence, text=marks[place] + sentence.text)
            read = reading.once(_read_sentence, shown, hits, passage.speaker)
            yield _candidate(prefix, read, message=number, speaker=passage.speaker, stress=stress)
        if sentences:
            questioner = passage.speaker if is_question(sentences[-1].text) else None


def _sentences_of_passage(passage: Passage, reading: ReadCache) -> Sequence[Sentence]:
    """Return the sentences of a message; a line of counted calls is one."""
    sentences = reading.sentences(passage.text, gap=passage.unread)
    if sentences and is_counted_call(passage.speaker):
        return (Sentence(single_line(clean_text(passage.text)), sentences[0].kind),)
    return _of_speaker(passage.speaker, sentences)


def _of_speaker(speaker: str, sentences: Sequence[Sentence]) -> Sequence[Sentence]:
    """Return the sentences of a speaker; the parts of a Chinese list are joined if the assistant gives it."""
    spoken = role_of(speaker) == "assistant" and not is_call(speaker)
    return _with_whole_lists(sentences) if spoken else sentences


def _with_whole_lists(sentences: Sequence[Sentence]) -> Sequence[Sentence]:
    """Return the sentences; parts of a short Chinese list that are separated by semicolons are joined to one sentence.

    餐桌寄旧地址；沙发寄新地址。 is one answer, and its second part alone may not say what it is about.
    """
    joined: list[Sentence] = []
    for sentence in sentences:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.text[-1] == "；"
            and (last.kind, sentence.kind) == ("prose", "prose")
            and len(last.text) + len(sentence.text) <= _LONGEST_LIST
        ):
            joined[-1] = replace(last, text=last.text + sentence.text)
        else:
            joined.append(sentence)
    return joined if len(joined) < len(sentences) else sentences


def _quote_marks(passage: Passage, sentences: Sequence[Sentence], *, chinese: bool) -> list[str]:
    """Return for each sentence of a passage the mark for text that a user only quotes; "" for other sentences."""
    if role_of(passage.speaker) != "user" or is_tool(passage.speaker):
        return [""] * len(sentences)
    mark = QUOTED_MARKS["zh" if chinese else "en"]
    return [mark * each for each in is_quoted(passage.text, [each.text for each in sentences])]


def _place_factor(place: int, many: int, speaker: str) -> float:
    """Return the factor for the position of a sentence: the first and last sentences of a message matter more."""
    at_an_edge = place in (0, many - 1)
    if many > _LONG_ANSWER and role_of(speaker) == "assistant":
        return _POINT if at_an_edge else _MIDDLE
    return _EDGE if at_an_edge else 1.0


def _candidate(
    prefix: str,
    read: _ReadSentence,
    *,
    message: int,
    speaker: str,
    stress: float = 1.0,
    spaced: bool = True,
) -> _Candidate:
    for factor in read.factors:
        stress *= factor
    return _Candidate(
        prefix=prefix,
        text=read.text,
        whole=read.whole,
        joins=read.joins and bool(prefix),
        message=message,
        facts=read.facts,
        terms=read.terms,
        voice=voice_of(speaker),
        stress=stress,
        tool=read.role in ("tool", "call"),
        spaced=spaced,
        role=read.role,
        hits=read.hits,
        prose=read.prose,
        pattern=read.pattern,
    )


def _read_sentence(sentence: Sentence, hits: tuple[FactMatch, ...], speaker: str) -> _ReadSentence:
    """Find the facts and terms of a speaker's sentence, which are the same in every summary that may show it."""
    whole, prose, tool = sentence.text, sentence.kind == "prose", is_tool(speaker)
    role = "call" if is_call(speaker) else "tool" if tool else role_of(speaker)
    factors: list[float] = []
    if role == "tool" and sentence.kind == "code" and not is_outcome(whole):
        factors.append(_CODE)
    if is_marked(whole):
        factors.append(_CHANGED)
    terms = frozenset(content_terms(whole))
    rules = _rule_share(whole, hits, role_of(speaker))
    by = ""
    if is_counted_call(speaker):  # a file that was read and a file that was written are two facts
        by = f"{speaker.rpartition(' ×')[0]}\0"
        factors.append(1.0 if only_reads(speaker) else _CHANGED_FILES)
    if is_marked_quoted(whole):  # what a quoted text demands is no rule of the user
        hits = tuple(hit for hit in hits if hit.kind not in _RULE_KINDS)
    facts = {
        f"{by}{hit.kind}\0{hit.key}": _EXTRACT_WEIGHTS[hit.kind]
        * (rules if hit.kind in _RULE_KINDS else 1)
        for hit in hits
    }
    text = whole
    if prose and not tool:
        facts.update((f"proper\0{name}", _PROPER_NAME) for name in proper_names(whole))
        text = without_lead(whole).rstrip("；") or whole
        if text is not whole and starts_with_label(text):
            text = whole  # of "Oh, user: pay", the rest would read as words of the user
    if rules <= _LEAST_RULE and len(terms) <= _FEW_TERMS and len(facts) == 1:
        factors.append(_EMPTY)
    form = form_of(sentence, text, hits, len(terms), tool=tool)
    if form.statement:
        facts[f"statement\0{' '.join(sorted(terms))}"] = form.statement
    return _ReadSentence(
        text=text,
        whole=whole,
        joins=prose
        and _ends(whole)
        and not starts_with_label(whole)
        and whole[:1] not in _INSIDE_A_SENTENCE,
        facts=facts,
        terms=terms,
        factors=(*factors, form.factor),
        role=role,
        hits=hits,
        prose=prose,
        pattern=_NUMBERS.sub("0", text) if prose and not tool and is_question(text) else "",
    )


_EXTRACT_WEIGHTS = FACT_WEIGHTS | {kind: FACT_WEIGHTS[kind] * _RULE_SHARE for kind in _RULE_KINDS}


def _rule_share(text: str, hits: tuple[FactMatch, ...], role: str) -> float:
    """Return the factor for the rules and decisions in a sentence: how likely the sentence really states one.

    "It must be great" states no rule, and neither does an assistant that encourages somebody ("don't quit!").
    """
    if all(hit.kind not in _RULE_KINDS for hit in hits):
        return 1.0
    cheers = role == "assistant" and text[-1] in "!！"
    chinese = is_chinese(text)
    likely = 0.0 if cheers else likely_rule(text, chinese=chinese)
    return max(likely, _LEAST_CHINESE_RULE if chinese else _LEAST_RULE)


def _ends(text: str) -> bool:
    """Return True if a sentence ends with a clear full stop, so that another may follow on the same line."""
    text = text.rstrip(_CLOSING) or text
    if text[-1] in _STOPS:
        return True
    word = text[:-1].rpartition(" ")[2]
    return text[-1] == "." and len(word) > 2 and word.isalpha() and word.lower() not in _NO_STOP


def _previous_lines(previous: str) -> list[str]:
    lines = map(single_line, clean_text(previous).split("\n"))
    return [line for line in lines if line and line not in ANNEX_HEADINGS.values()]


def _sentences_of(
    line: str, reading: ReadCache, *, chinese: bool
) -> Iterator[tuple[str, Sentence]]:
    """Yield the sentences of a line of the previous summary, each with the name of its speaker.

    Each sentence keeps the name that its line begins with, so that none reads as the words of somebody else. A short
    line is not split if this module did not write it, if a sentence in it begins like a name, or if its sentences leave
    out some of its characters, such as the brackets of JSON.
    """
    label = starts_with_label(line)
    words = line[len(label) :]
    sentences = _of_speaker(label.rstrip(" :："), reading.sentences(words))
    if sentences and is_counted_call(label):
        yield label, Sentence(words, sentences[0].kind)
        return
    if label:
        named = (starts_with_label(sentence.text) for sentence in sentences[1:])
        joined = "".join(sentence.text for sentence in sentences)
        partial = joined.replace(" ", "") != words.replace(" ", "")
        whole = len(line) <= _OWN_LINE and (partial or any(named))
    else:
        whole = len(line) <= _LONG_PREVIOUS_LINE
    if whole:
        yield label, Sentence(words, sentences[0].kind)
        return
    for sentence in sentences:
        shown = line_of("", sentence.text, chinese=chinese)
        yield label or shown.removesuffix(sentence.text), sentence


def _distinct(candidates: Sequence[_Candidate]) -> Iterator[_Candidate]:
    """Yield each sentence once, where it first occurs; a tool's outcome ("2 failed, 40 passed") where it last occurs.

    Sentences of the previous summary are yielded even if repeated, unless a newer output gives the same outcome again:
    tests may fail, pass, and fail as they did before.
    """
    newest = {
        sentence_key(each.text): at
        for at, each in enumerate(candidates)
        if each.role == "tool" and is_outcome(each.text)
    }
    seen: set[str] = set()
    for at, candidate in enumerate(candidates):
        key = sentence_key(candidate.text)
        if candidate.role == "tool" and newest.get(key, at) != at:
            continue
        if key not in seen or candidate.message < 0:
            seen.add(key)
            yield candidate


def sentence_key(words: str) -> str:
    """Return a sentence without case and final punctuation, to recognise repetitions."""
    return words.casefold().rstrip(" .!?;,。！？；，…") or words


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
    """Return a function that summarises by extracting sentences, for the window strategy `summarise`."""

    def summarise(messages: Sequence[Message], *, previous: str, limit: int) -> str:
        return extract_summary(passages_of(messages), limit=limit, count=count, previous=previous)

    return summarise
