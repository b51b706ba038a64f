"""Recalled passages: choose the search results that a model is shown under a token limit, and write them as text.

Relevance: a search always finds something. A passage that nobody asked for is shown only if it shares two terms with
the user's message, or one term that is an identifier (`A-4711`, `src/app.py`, `gpt4`), or if it is next to such a
passage: an answer follows its question. Single CJK characters are in every text and do not count.

Selection: the best entries are taken first, as long as they fit. The score of an entry is divided by the square root of
its length in tokens: a long entry must be worth the shorter ones it displaces, and it matches many words by chance. A
long entry is taken as an excerpt first, and whole if there is room when its turn comes with that length, but never more
of it than half of the limit. Equal texts are shown once. The text that is
really sent is counted at the end, headings included, so the limit holds whatever was estimated before.

Text: entries next to each other in the log, or of one turn, are shown together, under a line with their turn and time,
so that the model sees who answered whom and a reader can find the place. A line with the time also stands where another
day begins. The time is left out if it is within an hour of the one before, to save tokens. That line and the first line
of each message begin at the margin, every other line is indented, so that no text can imitate a message of another
speaker.

Excerpts and snippets show the part of a long text that matches a query. An excerpt is cut by tokens, for a model: the
beginning of a tool result or a pasted file is rarely what is needed, so the sentences around the best match are taken.
A snippet is cut by characters, for a person, with the matching words marked.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, timedelta, tzinfo
from typing import NamedTuple

from turnfold._lazy_loading import late_pattern
from turnfold.errors import InvalidOption
from turnfold.records import Entry, Message
from turnfold.search.term_matches import Occurrence, QueryTerms, occurrences
from turnfold.text import (
    RUN,
    clip,
    count_upto,
    indented,
    is_character,
    is_chinese,
    is_cjk,
    local_time,
    plain_name,
    plain_text,
    terms_of_run,
    time_text,
)

__all__ = (
    "SNIPPET_CHARACTERS",
    "Recalled",
    "Snippet",
    "excerpt",
    "fill",
    "is_telling",
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
"""Score of a piece without a term in the part that is nearest in meaning."""
_MARKS = 4
"""Tokens reserved for the ellipses before and after an excerpt."""


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
        self._of_run: dict[str, frozenset[str]] = {}

    def found_in(self, piece: str) -> set[str]:
        """Return the terms of the query that a piece contains."""
        found: set[str] = set()
        for run in RUN.findall(plain_text(piece)):
            of_run = self._of_run.get(run)
            if of_run is None:
                of_run = self._of_run[run] = self._terms.intersection(terms_of_run(run))
            found |= of_run
        return found


SNIPPET_CHARACTERS = 160
"""Default length of a snippet, in characters."""
_LEAD = 0.25
"""Share of the characters left over by the match that are shown before it; the rest are shown after it."""
_LONGEST_WORD = 24
"""Most characters dropped at either end so that a snippet begins and ends with a whole word."""


@dataclass(frozen=True, slots=True)
class Snippet:
    """A part of a text, with the matching words marked."""

    text: str
    marks: tuple[tuple[int, int], ...] = ()
    """Start and stop, within `text`, of the matches; in order, none touching another."""
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
    """Microseconds since 1970."""
    score: float
    """Relevance: higher is better. Scores of different searches cannot be compared."""
    excerpt: str = ""
    """The part of a long text that is shown; empty if the whole text is shown."""
    outdated: str = ""
    """A remark for the model if the user later changed or took back what the entry says; else empty."""
    zone: tzinfo = UTC
    """Time zone in which a model is shown when the entry was written."""

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

    Turns and speakers are named in Chinese if most of the text is.
    """
    words = _WORDS[is_chinese(" ".join(entry.shown[:_LONGEST_QUERY] for entry in recalled))]
    return "\n".join(_lines(sorted(recalled, key=lambda entry: entry.seq), words))


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
        goes_on = entry.seq == last + 1 or (near and entry.turn == turn)
        if not goes_on and near:
            yield words.turn.format(turn=entry.turn)
        elif not goes_on or shown is None or time.date() != shown.date():
            yield words.dated_turn.format(turn=entry.turn, time=time_text(time))
            shown = time
        last, turn = entry.seq, entry.turn
        yield _entry_text(entry, words)


_ENOUGH = 2
"""Number of terms that a passage and the user's message must share."""
_LONGEST_QUERY = 8_000
"""Most characters of a user's message that are searched for; of a longer message, its beginning and its end."""


def telling_part(message: str) -> str:
    """Return the part of a user's message to search for: all of it, or only beginning and end if it is very long.

    Every word is looked up, so a pasted file would take minutes; the request itself stands before or after the file.
    """
    if len(message) <= _LONGEST_QUERY:
        return message
    half = _LONGEST_QUERY // 2
    return f"{message[:half]}\n{message[-half:]}"


def _is_relevant(text: str, query: QueryTerms, characters: Collection[str]) -> bool:
    """Return True if a text shares enough terms with the query to be shown although it was not asked for.

    Single `characters` do not count.
    """
    shared = [term for term in query.count_in(text).counts if term not in characters]
    return len(shared) >= _ENOUGH or any(map(_is_identifier, shared))


def is_telling(terms: Collection[str]) -> bool:
    """Return True if a query has enough terms for a search to make sense; "OK, thanks!" has not.

    A Chinese word of two characters gives one pair of characters, and two such words give three pairs, so a pair counts
    half as much as an English word.
    """
    pairs = sum(is_cjk(term) and not is_character(term) for term in terms)
    words = sum(not is_cjk(term) for term in terms)
    return 2 * words + pairs > _ENOUGH


def relevant_places(
    places: Iterable[tuple[int, float]], entries: Mapping[int, Entry], terms: Sequence[str]
) -> list[tuple[int, float]]:
    """Return the ranked entries that share enough terms with the query, or are next to an entry that does."""
    # Fast: the search has just counted the terms of most of these texts, and has cached the counts.
    query, characters = QueryTerms(terms), frozenset(filter(is_character, terms))
    close = {
        neighbour
        for seq, entry in entries.items()
        if _is_relevant(entry.message.text, query, characters)
        for neighbour in (seq - 1, seq, seq + 1)
    }
    return [(seq, score) for seq, score in places if seq in close]


def _is_identifier(term: str) -> bool:
    # A number alone may be any number; with letters it is an identifier.
    return any(map(str.isdigit, term)) and any(map(str.isalpha, term))


_HEADING = 8
"""Average tokens of the line above a passage."""
_SPEAKER = 3
"""Average tokens of the speaker before a text."""
_ROUNDS = 3
"""Most rounds in which tokens that are left over, because estimates were too high, are filled with more entries."""
_DAMPED_TOKENS = 100
"""Length in tokens from which the score of an entry is reduced noticeably; see `_offers`."""
_LONG_ENTRY = 600
"""Tokens from which an entry is long: it is taken as an excerpt first."""
_EXCERPT = 300
"""Most tokens of that excerpt."""
_FEWEST_READ = 100
_MOST_READ = 600
_PAIRED = 20
"""Best places whose neighbours are read too: a question and its answer are shown together."""
_GAP = 8
"""Most unneeded entries read between two needed ones, to save a second request to the store."""


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
) -> list[Recalled]:
    """Return the best entries that fit into `tokens` together, in log order; long entries as excerpts.

    `places` are (seq, score), best first; a place without an entry in `entries` is skipped. `count` returns the tokens
    of a text, `measure` the tokens of everything that is sent for a selection of entries. `near` says which part of a
    text is nearest in meaning, by seq.
    """
    offers = _offers(places, entries, tokens, count)
    parts = near or {}

    def shown(offer: _Offer) -> Recalled:
        if not offer.cut:
            return offer.entry
        text, part = offer.entry.message.text, parts.get(offer.entry.seq)
        return replace(offer.entry, excerpt=excerpt(text, terms, offer.cut, count, near=part))

    taken: dict[int, _Offer] = {}

    def selection() -> list[Recalled]:
        return [taken[seq].entry for seq in sorted(taken)]

    used = measure(())
    for _ in range(_ROUNDS):
        if used >= tokens or not _take(offers, taken, tokens - used, shown):
            break
        while (used := measure(selection())) > tokens and taken:
            taken.popitem()
    return selection()


class _Offer(NamedTuple):
    """An entry that may be shown, its cost in tokens, and its value: the score, reduced for a long entry."""

    entry: Recalled
    tokens: int
    value: float
    cut: int = 0
    """Most tokens of the excerpt that is shown; 0 if the whole text is."""


def _take(
    offers: Iterable[_Offer],
    taken: dict[int, _Offer],
    room: int,
    shown: Callable[[_Offer], Recalled],
) -> bool:
    """Add entries that fit into `room` tokens to `taken`, best first, or longer excerpts.

    Returns True if any was added.
    """
    any_taken = False
    for offer in offers:
        seq = offer.entry.seq
        held = taken.get(seq)
        joins = seq - 1 in taken or seq + 1 in taken
        cost = offer.tokens - held.tokens if held else offer.tokens + (0 if joins else _HEADING)
        if cost <= room and (held is None or cost > 0):
            taken.pop(
                seq, None
            )  # what is added last is dropped first if the estimates were too low
            taken[seq] = offer._replace(entry=shown(offer))
            room -= cost
            any_taken = True
    return any_taken


def _offers(
    places: Iterable[tuple[int, float]],
    entries: Mapping[int, Entry],
    tokens: int,
    count: Callable[[str], int],
) -> list[_Offer]:
    """Return the entries that may be shown, best value first: each distinct text once, a long text in two lengths."""
    seen: set[str] = set()
    offers: list[_Offer] = []
    most = tokens // 2
    for seq, score in places:
        entry = entries.get(seq)
        text = entry.message.text.strip() if entry else ""
        if entry is None or not text or text in seen or entry.message.role == "system":
            continue
        seen.add(text)
        found = Recalled(entry.seq, entry.turn, entry.message, entry.created, score)
        whole = count_upto(_entry_text(found, _WORDS[False]), most, count) + 1
        if whole > min(_LONG_ENTRY, most):
            cut = min(_EXCERPT, most)
            offers.append(_Offer(found, cut + _SPEAKER, _value(score, cut), cut))
        if whole <= most:
            offers.append(_Offer(found, whole, _value(score, whole)))
        elif most > _EXCERPT:
            offers.append(_Offer(found, most + _SPEAKER, _value(score, most), most))
    return sorted(offers, key=lambda offer: (-offer.value, -offer.entry.seq))


def _value(score: float, tokens: int) -> float:
    return score / math.sqrt(1 + tokens / _DAMPED_TOKENS)
