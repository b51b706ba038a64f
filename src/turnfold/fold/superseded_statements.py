"""Finds statements that a later one changed, so that a summary does not show an old value as if it still held.

A later sentence changes an earlier one if it says so ("moved to", "now", "instead", 改为, 换成), gives another value of
the same kind (a date, an amount, a quantity of the same unit, a phone number), and is about the same thing: most of its
other words, weighed by how rare they are, stand in the earlier sentence too. A setting (`RETRIES = 7`, `p99=188ms`)
needs no such word. Two sentences that name different things (HAR-412 and HAR-431, table 5 and table 6) never change
each other: showing both in order is better than losing one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from turnfold._lazy_loading import late_pattern
from turnfold.fold.facts import ENGLISH_UNITS, FactMatch
from turnfold.fold.sentence_scores import is_outcome
from turnfold.fold.summary_input import ReadCache
from turnfold.text import content_terms, single_line

__all__ = (
    "CHANGED_MARKS",
    "QUOTED_MARKS",
    "SentenceChange",
    "ToldSentence",
    "find_changes",
    "is_marked",
    "is_marked_quoted",
    "read_statement",
    "restates",
)


CHANGED_MARKS = {"en": "(changed later) ", "zh": "（后有变更）"}
"""Language -> mark before a sentence of a summary that is partly outdated."""
_MARKS = tuple(mark.strip() for mark in CHANGED_MARKS.values())
QUOTED_MARKS = {"en": "(quoted) ", "zh": "（引文）"}
"""Language -> mark before a sentence of a summary that the user only quoted or pasted."""
_SAME_SUBJECT = 0.5
"""A sentence corrects an earlier one only if the earlier one has at least this share of its words, words weighted by
how rare they are."""
_SAME_SUBJECT_CONFIRMED = 0.75
"""The same share (see `_SAME_SUBJECT`), if the sentence itself does not say that something changed, but a message next
to it does."""
_SAME_RULE, _SAME_CHINESE_RULE = 0.7, 0.55
"""Least share of a sentence's words that a rule must have, so that the sentence counts as restating the rule. In
Chinese the share is lower, because a word in between breaks two pairs of characters."""
_FEW_WORDS = 3
"""A sentence with fewer words than this never counts as one that repeats a rule in other words."""
_OTHER_WORDS = 6
"""A corrected sentence is kept, with a mark, if more than this many of its words do not occur in the correcting
sentence."""
_COMMON = 60
"""A word in more sentences than this says nothing about the subject; comparing all these sentences would take long."""
_LEAST_PHONE = 7
_BARE = "number|"
"""Kind of a number without a unit."""
_NEAR = 8
"""Number of sentences before and after a sentence in which the other half of a question and answer is searched for."""
_VALUE_KINDS = frozenset({"date", "time", "money", "number", "id"})
_UNITS = frozenset(ENGLISH_UNITS.values())
_SUBJECT_KINDS = frozenset({"id", "path", "url", "email", "version", "identifier"})

_CUE = late_pattern(
    r"(?i:\b(?:chang(?:e|ed|es|ing)|mov(?:e|ed|es|ing)|switch(?:ed|ing)?|replac(?:e|ed|es|ing)|renam(?:e|ed)"
    r"|reschedul(?:e|ed)|postpon(?:e|ed)|delayed|push(?:ed)?\s+back|brought\s+forward|instead|no\s+longer"
    r"|(?:is|are)\s+now|now\s+(?:on|at|is|in)|make\s+(?:it|that)|rais(?:e|ed)|lower(?:ed)?|reduc(?:e|ed)"
    r"|increas(?:e|ed)|go(?:es)?\s+(?:up|down)|went\s+(?:up|down)|(?:rose|fell|dropp?s?(?:ed)?|rises?)\s+to|extend(?:ed)?|updat(?:e|ed)|correct(?:ed|ion)|set\s+to|takes?\s+over|rather\s+than)\b)"
    r"|改(?:为|成|到|用|按|在|约|期|主意)?|换(?:成|为|人|到|了)?|更[新正改]|调(?:整|走|到)|推(?:迟|到|后)|顺延|延[期到后]"
    r"|提(?:前|高)到?|降(?:到|为|低)|升(?:到|级)|涨(?:到|价)|跌到|加到|减到|增加到|追加|现在是|变(?:更|成|为)|搬到|取消"
)
_REJECTED = late_pattern(r"(?i:\b(?:instead|not?|from|than)\b)|不[行对是]|改|换|从|由|原")
_CORRECTION = late_pattern(
    r"(?i:\b(?:no|not|then|only|too|rather|better|use)\b)|不[行对]|要|太|只|不是|不用"
)
_MAKES = late_pattern(
    r"(?i:\b(?:make\s+(?:it|that)|(?:chang|mov|rais|lower|reduc|increas)\w*\s+(?:it|that)\s+to))\s+\D{0,8}\d"
    r"|(?:改|换|调|设|降|升|提高|加|减)(?:为|成|到|用)?\s*\d"
)
"""Matches words that set a value of something that was named before: "make it 12", 改成 12."""
_SETTING = late_pattern(r"(?<![\w.-])(?:([A-Za-z]+[\d_]\w*)\s*[=:：]?|([A-Z]{3,})\s*=)\s*$")
_SORT = late_pattern(r"(?<![^\W\d_])[^\W\d_]+(?=[-_ ]\d)")
_THING = late_pattern(
    r"(?<![\w.-])([A-Za-z]{3,}|[\u4e00-\u9fff]{1,2})\s?(?:No\.?\s?|#)?(\d[\d.]*\d|\d)(?![\w%])"
)
_CLAUSE = late_pattern(r"[,;:.!，；：。！]")
_DIGITS = late_pattern(r"(?<![\w-])\d[\d.,:]*(?:m?s|%)?(?![\w-])")
_NOT_NAMES = frozenset(
    "the and for with than from until about over under below above least most are was between only just has have"
    " takes needs all some".split()
)


class ToldSentence(NamedTuple):
    """A sentence that may correct an earlier statement, or be corrected by a later one."""

    text: str
    hits: tuple[FactMatch, ...]
    message: int
    """Number of the message that the sentence is from; sentences of one message never change each other."""
    role: str
    corrects: bool = False
    """True if the sentence is the user's and follows an assistant's message, which it may correct without naming the
    subject."""


class SentenceChange(NamedTuple):
    """A sentence that a later one changed."""

    by: int
    """Index of the later sentence, which changes the earlier one."""
    whole: bool
    """True if nothing of the earlier sentence holds any more, so that a summary can leave it out."""


class _Read(NamedTuple):
    """The subject of a statement, and the values that it states."""

    topic: frozenset[str]
    """The words before the first word of the sentence that signals a change, such as 开庭 in 开庭改到."""
    values: dict[str, frozenset[str]]
    """The values in the sentence by kind: a date, an amount, a quantity by its unit, a phone number, a setting by its
    name."""
    things: frozenset[str]
    """The things that the sentence names: ids, paths, "table 5"."""
    terms: frozenset[str]
    """The content words of the sentence, without its values and things."""
    changes: bool
    """True if the sentence says that something changes."""
    rejects: bool
    """True if a value in the sentence may be the old one ("14 days instead of 7")."""


def is_marked(text: str) -> bool:
    """Return True if a sentence begins with the words that mark a changed statement."""
    return text.startswith(_MARKS)


def is_marked_quoted(text: str) -> bool:
    """Return True if a sentence begins with the words that mark text which the user only quoted."""
    return text.startswith(tuple(mark.strip() for mark in QUOTED_MARKS.values()))


def restates(text: str, rules: Iterable[tuple[str, frozenset[str]]]) -> bool:
    """Return True if a sentence says little more than one of these rules.

    `rules` has the text of each rule in lower case, and its words.

    A sentence that says that something changes ("no oak floor, tiles instead") does not only repeat the old rule.
    """
    words = text.casefold()
    said: frozenset[str] | None = None
    for rule, terms in rules:
        if rule not in words and not terms:
            continue
        if _CUE.search(text):
            return False
        said = frozenset(content_terms(text)) if said is None else said
        if rule in words and 2 * len(terms) >= len(said):
            return True
        share = _SAME_RULE if rule.isascii() else _SAME_CHINESE_RULE
        if len(said) >= _FEW_WORDS and len(said & terms) >= share * len(said):
            return True
    return False


def find_changes(
    statements: Sequence[ToldSentence], reading: ReadCache
) -> dict[int, SentenceChange]:
    """Return {index: change} of the sentences that a later sentence changed; the newest change of each counts."""
    read = [read_statement(each, reading) for each in statements]
    places: dict[str, list[int]] = {}
    for at, each in enumerate(read):
        for name in (each.terms | each.things | _settings(each)) if each else ():
            places.setdefault(name, []).append(at)
    changed: dict[int, SentenceChange] = {}
    for at in reversed(range(len(statements))):
        new = read[at]
        if new is None or not new.values:
            continue
        cue = new.changes or _is_confirmed(at, statements, read)
        near = _near(at, new, places) if cue else _near_settings(at, new, places)
        for before in near:
            old = read[before]
            if (
                old is None
                or before in changed
                or statements[before].message == statements[at].message
            ):
                continue
            share = _SAME_SUBJECT if new.changes else _SAME_SUBJECT_CONFIRMED
            if _changes(new, old, _weights(at, new, places), least=share if cue else None):
                changed[before] = SentenceChange(
                    at, _leaves_nothing(statements, before, at, old, new)
                )
        for before in _corrected(at, statements, read):
            changed.setdefault(
                before, SentenceChange(at, whole=not _other_facts(statements, before, at))
            )
    changed.update(_older_results(statements))
    return changed


def _older_results(statements: Sequence[ToldSentence]) -> Iterator[tuple[int, SentenceChange]]:
    """Yield (index, change) of each outcome of a tool, such as "2 failed, 212 passed", that a later message updates.

    A later outcome updates an earlier one if both have the same words; the numbers in them may differ.
    """
    newest: dict[str, int] = {}
    for at in reversed(range(len(statements))):
        said = statements[at]
        if said.role != "tool" or said.text[0] == '"' or not is_outcome(said.text):
            continue
        shape = single_line(_DIGITS.sub(" ", said.text))
        later = newest.setdefault(shape, at)
        if statements[later].message != said.message and content_terms(shape):
            yield at, SentenceChange(later, whole=True)


def read_statement(statement: ToldSentence, reading: ReadCache) -> _Read | None:
    """Return the subject and the values of a sentence, from the cache if it was read before; None without a value."""
    text, hits = statement.text, statement.hits
    if is_marked(text) or all(hit.kind not in _VALUE_KINDS for hit in hits):
        return None
    return reading.once(_read, text, hits, statement.role == "tool")


def _read(text: str, hits: tuple[FactMatch, ...], is_tool: bool) -> _Read:  # noqa: FBT001 (a key of the cache)
    values: dict[str, set[str]] = {}
    things: set[str] = set()
    spans: list[tuple[int, int]] = [match.span() for match in _CUE.finditer(text)]
    before = _CLAUSE.split(text[: spans[0][0]])[-1] if spans else ""
    topic = frozenset(content_terms(before))
    changes = bool(spans) and not is_tool
    named = {match.start(2): f"{match[1].casefold()} {match[2]}" for match in _THING.finditer(text)}
    for hit in hits:
        kind = _value_kind(text, hit)
        if kind and text[hit.start] == "一" and hit.key.startswith("1|"):
            continue  # "one" of something is rarely a value: 169 元一片
        if kind and not (hit.start in named and _is_name(named[hit.start], hit)):
            values.setdefault(kind, set()).add(hit.key)
            spans.append((hit.start, hit.end))
        elif hit.start in named:
            things.add(named[hit.start])
        elif hit.kind in _SUBJECT_KINDS:
            things.add(hit.key)
            spans.append((hit.start, hit.end))
    facts = [range(hit.start, hit.end) for hit in hits]
    things.update(name for start, name in named.items() if not any(start in fact for fact in facts))
    terms = frozenset(content_terms(_blanked(text, spans)))
    return _Read(
        topic,
        {kind: frozenset(keys) for kind, keys in values.items()},
        frozenset(things),
        terms,
        changes,
        rejects=_REJECTED.search(text) is not None,
    )


def _is_name(thing: str, hit: FactMatch) -> bool:
    """Return True if a word and the number after it name a thing, such as "release 4.2" or "migration 0097"."""
    word, _, number = thing.partition(" ")
    if hit.kind != "number" or word in _NOT_NAMES or _CUE.search(word):
        return False
    unit = hit.key.partition("|")[2]
    return not unit or (unit not in _UNITS and ("." in number or number[0] == "0"))


def _value_kind(text: str, hit: FactMatch) -> str:
    """Return the kind of value of a fact, which only a value of the same kind can replace; "" if it is not a value."""
    if hit.kind in ("date", "time"):
        return "weekday" if hit.key.startswith("weekday") else hit.kind
    if hit.kind == "id":
        digits = sum(c.isdigit() for c in hit.key)
        plain = all(c.isdigit() or c in "-+ " for c in hit.key)
        return "phone" if plain and digits >= _LEAST_PHONE else ""
    if hit.kind not in ("money", "number"):
        return ""
    before = _SETTING.search(text, max(0, hit.start - 40), hit.start)
    if before:
        return f"={(before[1] or before[2]).casefold()}"
    unit = hit.key.partition("|")[2]
    last = text[hit.end - 1 : hit.end]
    return f"{hit.kind}|{unit or ('' if last.isdigit() else last)}"


def _settings(read: _Read) -> frozenset[str]:
    return frozenset(kind for kind in read.values if kind[0] == "=")


def _blanked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    for start, end in spans:
        text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
    return text


def _near(at: int, new: _Read, places: dict[str, list[int]]) -> list[int]:
    """Return the earlier sentences that share a word, a thing or a setting with a correcting sentence, newest first."""
    found: set[int] = set()
    for name in new.terms | new.things | _settings(new):
        if len(places[name]) <= _COMMON:
            found.update(before for before in places[name] if before < at)
    return sorted(found, reverse=True)


def _near_settings(at: int, new: _Read, places: dict[str, list[int]]) -> list[int]:
    found = {before for name in _settings(new) for before in places[name][-_COMMON:] if before < at}
    return sorted(found, reverse=True)


def _weights(at: int, new: _Read, places: dict[str, list[int]]) -> dict[str, float]:
    """Return the weights of the words that show what a correcting sentence is about.

    New words of the later sentence are about the new value.

    The rarer a word, the more it says about the subject.
    """
    return {
        name: len(places[name]) ** -0.5
        for name in new.terms | new.things
        if (places[name][0] < at or name in new.topic) and len(places[name]) <= _COMMON
    }


def _changes(new: _Read, old: _Read, weights: dict[str, float], *, least: float | None) -> bool:
    """Return True if `new` states another value for the subject of `old`.

    `least` is the least share of the subject's words that both have; None if `new` does not say that it corrects
    something.
    """
    kinds = {kind for kind in new.values if kind in old.values and _differ(new, old, kind)}
    shared = new.things & old.things
    if not kinds or (not shared and _name_others(new.things, old.things)):
        return False
    if any(kind[0] == "=" for kind in kinds):
        return True
    if least is None:
        return False
    if any("-" in thing for thing in shared):
        # Of one thing, the price may be told beside the sum; a date or a count has one value.
        return new.changes or any(not kind.startswith("money") for kind in kinds)
    both = [name for name in weights if name in old.terms or name in shared]
    if all(_is_pair(name) for name in both) and len(both) < 2 and new.topic.isdisjoint(both):
        return False
    subject = [name for name in weights if name in new.terms or old.things]
    return sum(weights[name] for name in both) >= least * sum(weights[name] for name in subject)


def _name_others(new: frozenset[str], old: frozenset[str]) -> bool:
    """Return True if both sentences name things of one kind (tickets, releases, files), but different things."""
    return not {_sort_of(thing) for thing in new}.isdisjoint(_sort_of(thing) for thing in old)


def _sort_of(thing: str) -> str:
    found = _SORT.match(thing)
    return found[0] if found else "/" if "/" in thing else thing


def _differ(new: _Read, old: _Read, kind: str) -> bool:
    """Return True if `new` has another value of this kind, and `old` one that `new` lacks or rejects."""
    later, earlier = new.values[kind], old.values[kind]
    return bool(later - earlier) and bool(earlier - later or new.rejects)


def _is_pair(term: str) -> bool:
    """Return True if a text is one or two Chinese characters, which alone may not even be a word."""
    return len(term) <= 2 and term > "\u2e7f"


def _is_confirmed(
    at: int, statements: Sequence[ToldSentence], read: Sequence[_Read | None]
) -> bool:
    """Return True if the user's message before, or the answer after, states a correcting sentence's value."""
    step = {"user": 1, "assistant": -1}.get(statements[at].role, 0)
    new, message = read[at], statements[at].message
    if new is None or not step or message < 0:
        return False
    near = (
        range(at + 1, min(at + _NEAR, len(statements)))
        if step > 0
        else range(at - 1, max(at - _NEAR, -1), -1)
    )
    for other in near:
        if statements[other].message != message and statements[other].role == statements[at].role:
            return False
        each = read[other]
        if (
            each
            and each.changes
            and any(keys & each.values.get(kind, frozenset()) for kind, keys in new.values.items())
        ):
            return True
    return False


def _corrected(
    at: int, statements: Sequence[ToldSentence], read: Sequence[_Read | None]
) -> Iterator[int]:
    """Yield the sentences that a user's sentence corrects ("no, make it 50") without naming their subject.

    They are in the assistant's message just before, and in the user's order that it confirms with the same value.
    """
    said, new = statements[at], read[at]
    if not said.corrects or new is None or not (new.changes or _CORRECTION.search(said.text)):
        return
    before = _end_of_message_before(at, statements)
    bare = _MAKES.search(said.text) is not None
    given_up: set[str] = set()
    for place in _message_ending_at(before, statements, "assistant"):
        old = read[place]
        if old and (keys := _given_up(new, old, bare=bare)):
            given_up |= keys
            yield place
        before = place - 1
    if not bare:
        return
    while before >= 0 and at - before < _NEAR and statements[before].role in ("tool", "call"):
        before -= 1
    for place in _message_ending_at(before, statements, "user"):
        old = read[place]
        if old and not given_up.isdisjoint(_given_up(new, old, bare=bare)):
            yield place


def _end_of_message_before(at: int, statements: Sequence[ToldSentence]) -> int:
    """Return the index of the last sentence of the message before that of sentence `at`; -1 if there is none."""
    before = at - 1
    while before >= 0 and statements[before].message == statements[at].message:
        before -= 1
    return before


def _message_ending_at(last: int, statements: Sequence[ToldSentence], role: str) -> Iterator[int]:
    """Yield the indexes of the sentences of a message with this role that ends with sentence `last`, last first."""
    place = last
    while (
        place >= 0
        and statements[place].message == statements[last].message
        and statements[place].role == role
    ):
        yield place
        place -= 1


def _given_up(new: _Read, old: _Read, *, bare: bool) -> set[str]:
    """Return the values of `old` that `new`, which names no subject, replaces with others of the same kind.

    A `bare` number ("make it 12") replaces a number with any unit, if it is the only one.
    """
    found: set[str] = set()
    for kind in new.values:
        if kind in old.values and _differ(new, old, kind):
            found |= old.values[kind] - new.values[kind]
    numbers = [kind for kind in old.values if kind.startswith("number|")]
    if bare and _BARE in new.values and len(numbers) == 1 and len(old.values[numbers[0]]) == 1:
        said = {key.partition("|")[0] for key in new.values[_BARE]}
        found |= {key for key in old.values[numbers[0]] if key.partition("|")[0] not in said}
    return found


def _leaves_nothing(
    statements: Sequence[ToldSentence], before: int, at: int, old: _Read, new: _Read
) -> bool:
    return len(old.terms - new.terms) <= _OTHER_WORDS and not _other_facts(statements, before, at)


def _other_facts(statements: Sequence[ToldSentence], before: int, at: int) -> bool:
    """Return True if a corrected sentence has facts that the correcting sentence does not repeat or correct."""
    told = {(hit.kind, hit.key) for hit in statements[at].hits}
    kinds = {_value_kind(statements[at].text, hit) for hit in statements[at].hits} - {""}
    text = statements[before].text
    return any(
        (hit.kind, hit.key) not in told
        and _value_kind(text, hit) not in (*kinds, "weekday", "time")
        and not (_BARE in kinds and hit.kind == "number")
        for hit in statements[before].hits
        if hit.kind not in ("constraint", "decision")
    )
