"""Recalled passages: choose the search results that a model is shown under a token limit, and write them as text.

Relevance: a search always finds something. A match is shown only if its score reaches a share of what one rare word
shared by chance is worth, and a share of the best score. If the user's message is a question, these shares are low,
because much of what an answer needs matches only weakly. Other messages rarely need anything old: for them one rare
term of the message is enough, and several common ones are not. Neighbours share scores. Room that no relevant entry
needs stays free.

Company: a question is shown with its answer, and a reply of a few words with what it replies to, or not at all. A model
that reads an old question without its answer tends to answer it.

Selection: the best entries are taken first, as long as they fit. The score of an entry is divided by the square root of
its length in tokens: a long entry must be worth the shorter ones it displaces, and it matches many words by chance. A
long entry is taken as an excerpt first; further down, by its whole length, it is taken whole if there is still room,
but never more of it than half of the limit. Equal texts are shown once. The text that is really sent is counted at the
end, headings included, so the limit holds whatever was estimated before.

Text: the entries of each turn stand under a line with the turn and its time, so that the model sees who answered whom
and a reader can find the place. A line with the time also stands where another day begins. The time is left out if it
is within an hour of the one before, to save tokens. That line and the first line
of each message begin at the margin, every other line is indented, so that no text can imitate a message of another
speaker.

Excerpts and snippets show the part of a long text that matches a query. An excerpt is cut by tokens, for a model: the
beginning of a tool result or a pasted file is rarely what is needed, so the sentences around the best match are taken.
A snippet is cut by characters, for a person, with the matching words marked.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, timedelta, tzinfo
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from turnfold._lazy_loading import late_pattern
from turnfold.errors import InvalidOption
from turnfold.records import Entry, Message
from turnfold.search.messages_without_topic import is_brief
from turnfold.search.term_matches import Occurrence, QueryTerms, occurrences
from turnfold.text import (
    RUN,
    WantedTerms,
    clip,
    count_upto,
    found_in,
    indented,
    is_character,
    is_chinese,
    is_cjk,
    local_time,
    plain_characters,
    plain_name,
    plain_text,
    search_terms,
    terms_of_run,
    time_text,
)

__all__ = (
    "SNIPPET_CHARACTERS",
    "Recalled",
    "Snippet",
    "answers_first",
    "are_chinese",
    "company",
    "covers",
    "excerpt",
    "fill",
    "is_question",
    "is_searchable",
    "passages_text",
    "places_to_read",
    "relevant_places",
    "snippet",
    "telling_part",
)


_PIECE = late_pattern(
    r"[^\n.!?。！？；]*(?:[.!?](?!\s)[^\n.!?。！？；]*)*(?:[.!?。！？；]+\s*|\n+|$)"
)
_CUT = "…"
_INSIDE = 1e-6
"""Score of a piece of text without any term of the query that lies in the part nearest in meaning; lower than that of
any term."""
_MARKS = 4
"""Tokens kept free for the ellipses (`…`) before and after an excerpt."""


def excerpt(
    text: str,
    terms: Collection[str],
    limit: int,
    count: Callable[[str], int],
    *,
    near: slice | None = None,
) -> str:
    """Return a part of `text` of at most `limit` tokens, around the sentence that matches the terms best.

    `near` is the part of the text that is nearest to the query in meaning: terms in it count twice, and without any
    term the excerpt begins with it.
    """
    if count_upto(text, limit, count) <= limit:
        return text
    pieces = [match.span() for match in _PIECE.finditer(text) if match[0]]
    room = limit - _MARKS
    if room < 1 or not pieces:
        return clip(text, max(limit, 0), count)
    matcher = _TermMatcher(terms)
    found = [matcher.found_in(text[start:stop]) for start, stop in pieces]
    inside = [near is not None and near.start <= start < near.stop for start, _ in pieces]
    best = _best_piece(found, inside)
    start, stop = _widened(text, pieces, best, room, count)
    shown = clip(text[start:stop].strip(), room, count)
    before = _CUT if text[:start].strip() else ""
    cut = f"{before}{shown}{_CUT}"
    return cut if count(cut) <= limit else clip(cut, limit, count)


def _best_piece(found: Sequence[Collection[str]], inside: Sequence[bool]) -> int:
    """Return the index of the piece that matches best: the fewer pieces contain a term, the more the term weighs.

    A piece that is `inside` the part nearest in meaning counts twice, and more than one without a match.
    """
    holding = Counter(term for terms in found for term in terms)
    weights = {term: math.log(1 + len(found) / count) for term, count in holding.items()}
    scores = [math.fsum(map(weights.__getitem__, terms)) for terms in found]
    scores = [
        2 * score + _INSIDE if near else score for score, near in zip(scores, inside, strict=True)
    ]
    return scores.index(max(scores))


def _widened(
    text: str,
    pieces: list[tuple[int, int]],
    best: int,
    room: int,
    count: Callable[[str], int],
) -> tuple[int, int]:
    """Return start and end of an excerpt: the best piece of the text, and as many neighbours as fit `room` tokens."""
    first = last = best
    room -= count_upto(text[slice(*pieces[best])], room, count)
    while room > 0:
        onwards = last + 1 < len(pieces) and (last - best <= 2 * (best - first) or first == 0)
        at = last + 1 if onwards else first - 1
        if at < 0:
            break
        room -= count_upto(text[slice(*pieces[at])], room, count)
        if room < 0:
            break
        first, last = min(first, at), max(last, at)
    return pieces[first][0], pieces[last][1]


class _TermMatcher:
    """Finds the terms of a query in the pieces of one text; splits each distinct word into terms only once."""

    def __init__(self, terms: Collection[str]) -> None:
        self._terms = frozenset(terms)
        self._wanted = WantedTerms(self._terms)
        self._of_run: dict[str, frozenset[str]] = {}

    def found_in(self, piece: str) -> set[str]:
        """Return the terms of the query that a piece contains."""
        found: set[str] = set()
        for run in found_in(RUN, plain_text(piece)):
            of_run = self._of_run.get(run)
            if of_run is None:
                if not is_cjk(run) and self._wanted.rules_out(run):
                    continue
                of_run = self._of_run[run] = self._terms.intersection(terms_of_run(run))
            found |= of_run
        return found


SNIPPET_CHARACTERS = 160
"""Default length of a snippet, in characters."""
_LEAD = 0.25
"""Share of a snippet's characters, beyond the match, that are shown before the match; the rest are shown after it."""
_LONGEST_WORD = 24
"""Most characters that are dropped at either end of a snippet, so that it begins and ends with a whole word."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """A part of a text, with the matching words marked."""

    text: str
    marks: tuple[tuple[int, int], ...] = ()
    """Start and stop of each match within `text`; in order, without touching each other."""
    before: bool = False
    """True if the full text has more before the snippet."""
    after: bool = False
    """True if the full text has more after the snippet."""

    def shown(self, begin: str, end: str, cut: str = "…") -> str:
        """Return the text with `begin` before and `end` after every match, and `cut` where text was left out."""
        parts = [cut if self.before else ""]
        at = 0
        for start, stop in self.marks:
            parts += [self.text[at:start], begin, self.text[start:stop], end]
            at = stop
        return "".join([*parts, self.text[at:], cut if self.after else ""])


def snippet(text: str, terms: Collection[str], *, characters: int = SNIPPET_CHARACTERS) -> Snippet:
    """Return the part of `text`, at most `characters` long, that contains the most different terms."""
    if characters < 1:
        raise InvalidOption(f"characters must be at least 1, got {characters}")
    found = occurrences(text, terms)
    start, stop = _best(found, characters) if found else (0, 0)
    start, stop = _widened_snippet(text, start, stop, characters)
    marks = _joined([each for each in found if each.start < stop and each.stop > start])
    return Snippet(
        text[start:stop],
        tuple((max(first, start) - start, min(last, stop) - start) for first, last in marks),
        before=bool(text[:start].strip()),
        after=bool(text[stop:].strip()),
    )


def _best(found: Sequence[Occurrence], characters: int) -> tuple[int, int]:
    """Return the range of at most `characters` with the most different terms, then the most matches."""
    counts: Counter[str] = Counter()
    best, place, last = (0, 0), (found[0].start, found[0].stop), 0
    for first, each in enumerate(found):
        while last < len(found) and (found[last].stop - each.start <= characters or last == first):
            counts[found[last].term] += 1
            last += 1
        worth = (len(+counts), counts.total())
        if worth > best:
            best = worth
            place = (each.start, max(one.stop for one in found[first:last]))
        counts[each.term] -= 1
    return place


def _widened_snippet(text: str, start: int, stop: int, characters: int) -> tuple[int, int]:
    """Return start and end of a snippet: a match, widened to `characters`, at whole words if possible."""
    stop = min(stop, start + characters)
    room = characters - (stop - start)
    begin = max(0, start - int(room * _LEAD))
    end = min(len(text), begin + characters)
    begin = max(0, min(begin, end - characters))
    return _word_start(text, begin, start), _word_end(text, end, stop)


def _word_start(text: str, begin: int, start: int) -> int:
    if not begin or text[begin - 1].isspace():
        return begin
    for place in range(begin, min(begin + _LONGEST_WORD, start)):
        if text[place].isspace():
            return place + 1
    return begin


def _word_end(text: str, end: int, stop: int) -> int:
    if end >= len(text) or text[end].isspace():
        return end
    for place in range(end, max(end - _LONGEST_WORD, stop), -1):
        if text[place - 1].isspace():
            return place - 1
    return end


def _joined(found: Sequence[Occurrence]) -> list[tuple[int, int]]:
    """Return the ranges of matches, in order; ranges that touch or overlap are merged."""
    joined: list[tuple[int, int]] = []
    for start, stop, _ in found:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], stop))
        else:
            joined.append((start, stop))
    return joined


_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Recalled:
    """A log entry found by a search, as it is shown to a model."""

    seq: int
    turn: int
    message: Message
    created: int
    """Time at which the entry was stored, in microseconds since 1970."""
    score: float
    """Relevance of the entry: higher is better. Scores of different searches cannot be compared."""
    excerpt: str = ""
    """The part of a long text that is shown; empty if the text is shown whole."""
    outdated: str = ""
    """A remark for the model if the user later changed or took back what the entry says; else empty."""
    zone: tzinfo = UTC
    """Time zone in which the time of the entry is shown."""

    @property
    def shown(self) -> str:
        """The text that is shown: the excerpt, or the whole text if there is no excerpt."""
        return self.excerpt or self.message.text


class _Words(NamedTuple):
    """The words that are written around recalled entries, in one language."""

    turn: str
    dated_turn: str
    speakers: Mapping[str, str]
    colon: str


_WORDS = {
    False: _Words("[turn {turn}]", "[turn {turn}, {time}]", {}, ": "),
    True: _Words(
        "[第 {turn} 轮]",
        "[第 {turn} 轮，{time}]",
        {"user": "用户", "assistant": "助手", "tool": "工具"},
        "：",
    ),
}


def passages_text(recalled: Sequence[Recalled]) -> str:
    """Return the text that shows these entries to a model, in log order, with their turns and times.

    Turns and speakers are named in Chinese if the people speak Chinese.
    """
    words = _WORDS[are_chinese(recalled)]
    return "\n".join(_lines(sorted(recalled, key=lambda entry: entry.seq), words))


def are_chinese(recalled: Iterable[Recalled]) -> bool:
    """Return True if most words of these entries are Chinese; tool output counts only if there is nothing else."""
    every = list(recalled)
    spoken = [entry for entry in every if entry.message.role != "tool"] or every
    return is_chinese(" ".join(entry.shown[:_LONGEST_QUERY] for entry in spoken))


def _entry_text(recalled: Recalled, words: _Words) -> str:
    """Return the text that shows one entry: its speaker and what was said."""
    message = recalled.message
    name = plain_name(message.name) if message.name else ""
    role = words.speakers.get(message.role, message.role)
    who = f"{role} ({name})" if name else role
    if recalled.outdated:
        who = f"{who} [{recalled.outdated}]"
    return f"{who}{words.colon}{indented(recalled.shown)}"


def _lines(recalled: Sequence[Recalled], words: _Words) -> Iterator[str]:
    last, turn, shown = -1, -1, None
    for entry in recalled:
        time = local_time(entry.created, entry.zone)
        near = shown is not None and time.date() == shown.date() and abs(time - shown) < _HOUR
        if near and entry.turn != turn:
            yield words.turn.format(turn=entry.turn)
        elif not near and (
            shown is None
            or entry.turn != turn
            or entry.seq != last + 1
            or time.date() != shown.date()
        ):
            yield words.dated_turn.format(turn=entry.turn, time=time_text(time))
            shown = time
        last, turn = entry.seq, entry.turn
        yield _entry_text(entry, words)


class _Floor(NamedTuple):
    """The least score of a match that is shown for a user's message, as shares of two other scores."""

    of_chance: float
    """Least score of a shown match, as a share of the score for one rare word that is shared by chance."""
    of_best: float
    """Least score of a shown match, as a share of the best score."""


_FOR_QUESTION = _Floor(0.5, 0.3)
"""Limits for a question. With 0.8 and 0.4, 2 % of the evidence in the benchmark LoCoMo was lost at 4,000 tokens."""
_FOR_OTHERS = _Floor(0.5, 0.4)
_MOST_BEST = 2.0
"""To choose which matches are shown, the best score counts at most as much as this many rare words that are shared by
chance. A long message repeats most words of its best match, and that score would exclude all other matches."""
_QUESTION_MARK = late_pattern(r"[?？]")
_QUESTION_WORD = late_pattern(
    r"^\W*(?:and |so |but |or |ok(?:ay)? |again |also )*"
    r"(?:who|whose|whom|what|when|where|which|why|how|did|do|does|is|are|was|"
    r"were|has|have|remind me)\b|[谁哪啥吗]|几[^乎]|多少|什么|怎[么样]|为何|何时|多[久长大远高]",
    re.IGNORECASE,
)
_LONGEST_QUERY = 8_000
"""Most characters of a user's message that are searched for; of a longer message, only its beginning and its end are.
"""


def telling_part(message: str) -> str:
    """Return the part of a user's message to search for: all of it, or only beginning and end if it is very long.

    Every word is looked up, so a pasted file would take minutes; the request itself stands before or after the file.
    """
    if len(message) <= _LONGEST_QUERY:
        return message
    half = _LONGEST_QUERY // 2
    return f"{message[:half]}\n{message[-half:]}"


def relevant_places(
    places: Sequence[tuple[int, float]],
    *,
    entries: int,
    question: bool = False,
    in_units: bool = False,
) -> list[tuple[int, float]]:
    """Return the ranked entries, as (seq, score), that are worth showing although nobody asked for them.

    `entries` is the number of entries searched. Scores by words are compared with its logarithm; with `in_units` they
    already are (see `fuse`). Then all matches of a question are worth showing: nearness in meaning has low scores.
    """
    if question and in_units:
        return list(places)
    floor = _FOR_QUESTION if question else _FOR_OTHERS
    unit = 1.0 if in_units else math.log(max(entries, 1) + 1)
    best = max((score for _, score in places), default=0.0)
    chance, share = floor.of_chance * unit, floor.of_best * min(best, _MOST_BEST * unit)
    if best < chance:
        return [(seq, score) for seq, score in places if score >= share] if question else []
    least = max(chance, share)
    return [(seq, score) for seq, score in places if score >= least]


def is_question(message: str) -> bool:
    """Return True if a message seems to ask something, in English or Chinese."""
    return bool(_QUESTION_MARK.search(message) or _QUESTION_WORD.search(plain_characters(message)))


_COVERED = 0.7
"""An entry that has at least this share of the query's terms counts as the one that was asked about."""
_COVERED_PAIRS = 0.5
"""Like `_COVERED`, for a query with Chinese, in which every other pair of characters belongs to two words."""


def covers(
    entries: Mapping[int, Entry], places: Iterable[tuple[int, float]], terms: Collection[str]
) -> bool:
    """Return True if one of the best entries contains most terms of a query, so that no weaker match need be shown."""
    telling = [term for term in terms if not is_character(term)]
    query = QueryTerms(telling)
    best = [entries[seq].message.text for seq, _ in islice(places, 3) if seq in entries]
    least = (_COVERED_PAIRS if any(map(is_cjk, telling)) else _COVERED) * len(telling)
    return any(len(query.count_in(text).counts) >= least for text in best)


_PAST = late_pattern(
    r"\b(?:before|earlier|formerly|previous|previously|original|originally|initial|initially|first|used to|at first)\b"
    r"|以前|原来|原先|最初|最早|当初|之前|先前|起初|第一",
    re.IGNORECASE,
)
_REPEATED = 0.6
"""A question counts as a repetition of an earlier one if they share at least this part of their terms."""
_AS_GOOD = 0.6
"""An entry with the same matching words counts as equally good as the best one if its score is at least this share of
the best score."""


def answers_first(
    query: str,
    terms: Sequence[str],
    entries: Mapping[int, Entry],
    scores: Mapping[int, float],
) -> list[tuple[int, float]]:
    """Return matches as (seq, score), best first: repetitions of the question last, and newer before older.

    `scores` has the matches in the order of a search, `entries` are read for all of them. Of entries that have the same
    words of the query the newer one comes first, unless the query asks for the past: it is more likely to hold still.
    """
    matcher = QueryTerms(terms)
    held = {
        seq: frozenset(
            term for term in matcher.count_in(entry.message.text).counts if not is_character(term)
        )
        for seq, entry in entries.items()
    }
    repeated = [seq for seq in scores if _repeats(entries[seq], held[seq], terms)]
    order = [seq for seq in scores if seq not in set(repeated)]
    if not _PAST.search(plain_characters(query)):
        order = _newer_first(order, held, scores)
    return [(seq, scores[seq]) for seq in [*order, *repeated]]


def _repeats(entry: Entry, held: Collection[str], terms: Collection[str]) -> bool:
    """Return True if a user's message asks the same thing as a query."""
    text = entry.message.text
    if entry.message.role != "user" or not _ASKED.search(text[-_LONGEST_END:]):
        return False
    own = {term for term in search_terms(text[:_LONGEST_QUERY]) if not is_character(term)}
    every = own | {term for term in terms if not is_character(term)}
    return bool(every) and len(held) >= _REPEATED * len(every)


def _newer_first(
    order: Sequence[int], held: Mapping[int, frozenset[str]], scores: Mapping[int, float]
) -> list[int]:
    """Return matches in another order: those with the same words trade places until the newer is before the older."""
    best: dict[frozenset[str], float] = {}
    groups: dict[frozenset[str], list[int]] = {}
    for seq in order:
        words = held[seq]
        if words and scores[seq] >= _AS_GOOD * best.setdefault(words, scores[seq]):
            groups.setdefault(words, []).append(seq)
    moved = {
        former: newer
        for group in groups.values()
        for former, newer in zip(group, sorted(group, reverse=True), strict=True)
    }
    return [moved.get(seq, seq) for seq in order]


def is_searchable(terms: Iterable[str]) -> bool:
    """Return True if a term can tell entries apart; single CJK characters and numbers alone cannot."""
    return any(not is_character(term) and not term.isdigit() for term in terms)


_ASKED = late_pattern(r"[?？][\s\W]*$|(?:吗|呢|么)[\s\W]*$")
"""Matches the end of a text that ends with a question."""
_ANSWERED_WITHIN = 8
"""Most entries after a question in which its answer is searched for, because tool calls and results come between."""


def company(entries: Mapping[int, Entry], *, after: int, before: int) -> dict[int, tuple[int, ...]]:
    """Return {seq: seqs of the entries that must be shown together with this entry}; 0 is one that cannot be shown.

    `entries` are those that may be shown. Answers, and messages that a reply refers to, are looked for between the log
    positions `after` and `before`; the model sees the entries from `before` on anyway.
    """
    needed: dict[int, tuple[int, ...]] = {}
    for seq, entry in entries.items():
        if entry.message.role not in ("user", "assistant"):
            continue
        text = entry.message.text
        others: list[int] = []
        if entry.message.role == "user" and _asks(text):
            others += _answer(entry, entries, before)
        if seq - 1 > after and is_brief(text):
            before_it = entries.get(seq - 1)
            if before_it is None or before_it.message.role != "system":
                others.append(seq - 1 if before_it else 0)
        if others:
            needed[seq] = tuple(others)
    return needed


def _asks(text: str) -> bool:
    """Return True if a message ends with a question, or is a short one with no question mark: 有没有积分什么的."""
    if _ASKED.search(text[-_LONGEST_END:]):
        return True
    most = _LONGEST_BARE_QUESTION // 2 if is_chinese(text) else _LONGEST_BARE_QUESTION
    return len(text) <= most and is_question(text)


_LONGEST_BARE_QUESTION = 60
"""Most characters of a question without a question mark; half as many in Chinese."""
_LONGEST_END = 80
"""Number of characters at the end of a message in which a question is looked for."""


def _answer(question: Entry, entries: Mapping[int, Entry], before: int) -> list[int]:
    """Return the log position of the answer to a question, as a list with one number.

    Returns [0] if the answer cannot be shown, and [] if it is not in the part of the log that is searched.
    """
    for seq in range(question.seq + 1, question.seq + 1 + _ANSWERED_WITHIN):
        if seq >= before:
            return []
        entry = entries.get(seq)
        if entry is None:
            return [0]
        if entry.message.role == "assistant" and entry.message.text.strip():
            return [seq]
    return [0]


_HEADING = 8
"""Tokens that the line above a passage has on average, for estimates."""
_SPEAKER = 3
"""Tokens that the name of the speaker before a text has on average, for estimates."""
_ROUNDS = 3
"""Most rounds in which tokens that are left over, because estimates were too high, are filled with more entries."""
_DAMPED_TOKENS = 100
"""Length in tokens from which the score of an entry is reduced noticeably; see `_offers`."""
_EXCERPT = 300
"""Most tokens of the excerpt of an entry that is more than twice as long; the excerpt is tried first."""
_COMPANY_TOKENS = 150
"""Most tokens of the excerpt from a long entry that is shown only because of another one, such as the answer to a
recalled question."""
_MOST_COMPANY = 4
"""Most entries that are shown only because of one recalled entry, such as the answer to a question."""
_FEWEST_READ = 100
_MOST_READ = 600
_PAIRED = 60
"""Number of best matches whose neighbouring entries are read too, because a question and its answer are shown
together."""
_GAP = 8
"""If at most this many entries lie between two that are needed, they are read too, to save a second request to the
store."""


def places_to_read(
    places: Sequence[tuple[int, float]], *, tokens: int, mean_tokens: float
) -> list[tuple[int, int]]:
    """Return the ranges (first seq, last seq) to read: enough of the best entries to fill `tokens` about twice.

    The entries before and after the very best are among them.
    """
    enough = int(2 * tokens / max(mean_tokens, 1.0))
    best = {seq for seq, _ in places[: min(max(enough, _FEWEST_READ), _MOST_READ)]}
    known = {seq for seq, _ in places}
    pairs = {near for seq, _ in places[:_PAIRED] for near in (seq - 1, seq + 1) if near in known}
    wanted = sorted(best | pairs)
    ranges: list[tuple[int, int]] = []
    for seq in wanted:
        if ranges and seq - ranges[-1][1] <= _GAP:
            ranges[-1] = (ranges[-1][0], seq)
        else:
            ranges.append((seq, seq))
    return ranges


def fill(
    places: Iterable[tuple[int, float]],
    entries: Mapping[int, Entry],
    *,
    terms: Collection[str],
    tokens: int,
    count: Callable[[str], int],
    measure: Callable[[Sequence[Recalled]], int],
    near: Mapping[int, slice] | None = None,
    needed: Mapping[int, Sequence[int]] = MappingProxyType({}),
) -> list[Recalled]:
    """Return the best entries that fit into `tokens` together, in log order; long entries as excerpts.

    `places` are (seq, score), best first; a place without an entry in `entries` is skipped. `count` returns the tokens
    of a text, `measure` the tokens of everything that is sent for a selection of entries. `near` says which part of a
    text is nearest in meaning, by seq. `needed` are the entries without which an entry is not shown (see `company`).
    """
    ranked = list(places)
    offers = _offers(ranked, entries, tokens, count)
    beside = _Company(needed, entries, dict(ranked), tokens, count)
    parts = near or {}

    def shown(offer: _Offer) -> Recalled:
        if not offer.cut:
            return offer.entry
        text, part = offer.entry.message.text, parts.get(offer.entry.seq)
        return replace(offer.entry, excerpt=excerpt(text, terms, offer.cut, count, near=part))

    taken: dict[int, _Offer] = {}
    steps: list[dict[int, _Offer | None]] = []

    def selection() -> list[Recalled]:
        return [taken[seq].entry for seq in sorted(taken)]

    used = measure(())
    for _ in range(_ROUNDS):
        added = _take(offers, taken, tokens - used, shown, beside)
        if used >= tokens or not added:
            break
        steps += added
        while (used := measure(selection())) > tokens and steps:
            for seq, former in steps.pop().items():
                if former is None:
                    del taken[seq]
                else:
                    taken[seq] = former
    return selection()


class _Offer(NamedTuple):
    """An entry that may be shown, its cost in tokens, and its value: the score, reduced for a long entry."""

    entry: Recalled
    tokens: int
    value: float
    cut: int = 0
    """Most tokens of the excerpt that is shown; 0 if the whole text is shown."""


def _take(
    offers: Iterable[_Offer],
    taken: dict[int, _Offer],
    room: int,
    shown: Callable[[_Offer], Recalled],
    beside: _Company,
) -> list[dict[int, _Offer | None]]:
    """Add entries that fit into `room` tokens to `taken`, best first; also replace excerpts by longer ones.

    An entry is added with the entries that must be shown with it (`company`). Returns one dictionary for each step:
    {seq of an entry that it added: the shorter excerpt it replaced, or None}.
    """
    steps: list[dict[int, _Offer | None]] = []
    turns = {offer.entry.turn for offer in taken.values()}
    for offer in offers:
        held = taken.get(offer.entry.seq)
        if held is not None and offer.tokens <= held.tokens:
            continue
        others = beside.of(offer.entry.seq, taken)
        if others is None:
            continue
        new = [offer, *others]
        headings = {each.entry.turn for each in new} - turns
        cost = sum(each.tokens for each in new) + _HEADING * len(headings)
        cost -= held.tokens if held else 0
        if cost > room:
            continue
        steps.append({each.entry.seq: taken.get(each.entry.seq) for each in new})
        taken.update((each.entry.seq, each._replace(entry=shown(each))) for each in new)
        turns |= headings
        room -= cost
    return steps


@dataclass(frozen=True, slots=True)
class _Company:
    """Finds the entries that must be shown together with an entry, such as the question to an answer."""

    needed: Mapping[int, Sequence[int]]
    entries: Mapping[int, Entry]
    scores: Mapping[int, float]
    tokens: int
    count: Callable[[str], int]

    def of(self, seq: int, taken: Collection[int]) -> list[_Offer] | None:
        """Return the entries to add with an entry; None if one of them cannot be shown."""
        found: list[_Offer] = []
        asked, waiting = {seq}, list(self.needed.get(seq, ()))
        while waiting:
            other = waiting.pop()
            if other in asked or other in taken:
                continue
            entry = self.entries.get(other)
            if entry is None or not entry.message.text.strip() or len(asked) > _MOST_COMPANY:
                return None
            asked.add(other)
            waiting += self.needed.get(other, ())
            score = self.scores.get(other, 0.0)
            found.append(_offers_of(entry, score, _COMPANY_TOKENS, self.tokens // 2, self.count)[0])
        return found


def _offers(
    places: Iterable[tuple[int, float]],
    entries: Mapping[int, Entry],
    tokens: int,
    count: Callable[[str], int],
) -> list[_Offer]:
    """Return the entries that may be shown, best value first: each distinct text once, a long text in two lengths."""
    seen: set[str] = set()
    offers: list[_Offer] = []
    for seq, score in places:
        entry = entries.get(seq)
        text = entry.message.text.strip() if entry else ""
        if entry is None or not text or text in seen or entry.message.role == "system":
            continue
        seen.add(text)
        offers += _offers_of(entry, score, _EXCERPT, tokens // 2, count)
    return sorted(offers, key=lambda offer: (-offer.value, -offer.entry.seq))


def _offers_of(
    entry: Entry, score: float, short: int, most: int, count: Callable[[str], int]
) -> list[_Offer]:
    """Return the lengths in which an entry may be shown: whole, or first an excerpt of `short` tokens if it is long."""
    found = Recalled(entry.seq, entry.turn, entry.message, entry.created, score)
    whole = count_upto(_entry_text(found, _WORDS[False]), most, count) + 1
    offers: list[_Offer] = []
    if whole > min(2 * short, most):
        cut = min(short, most)
        offers.append(_Offer(found, cut + _SPEAKER, _value(score, cut), cut))
    if whole <= most:
        offers.append(_Offer(found, whole, _value(score, whole)))
    elif most > short:
        offers.append(_Offer(found, most + _SPEAKER, _value(score, most), most))
    return offers


def _value(score: float, tokens: int) -> float:
    return score / math.sqrt(1 + tokens / _DAMPED_TOKENS)
