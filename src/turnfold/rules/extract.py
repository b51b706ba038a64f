"""Extract standing rules from a message of a user or from the system message, without a model.

Only what the author says himself is read (see `own_words`). A sentence is cut into the clauses that can each be a
rule; if only one of them is one, the whole sentence is kept, so that it can be understood alone. What is kept is a
slice of the message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from turnfold.rules.chinese import (
    chinese_change,
    is_chinese_talk,
    read_chinese,
    read_swap,
    split_chinese,
)
from turnfold.rules.english import (
    english_change,
    is_english_talk,
    may_ask_rule,
    read_english,
    split_english,
)
from turnfold.rules.own_words import BLANK, OwnSentence, own_sentences
from turnfold.rules.patterns import labels
from turnfold.rules.record import LONGEST_RULE, Reading, RuleTrust, StandingRule, rule_id
from turnfold.rules.scope import Terms, plain_terms, scope_terms

__all__ = ("MOST_PER_MESSAGE", "extract_rules")


MOST_PER_MESSAGE = 24
"""Rules taken from one message: two thirds from its beginning, one third from its end."""
_FROM_THE_END = MOST_PER_MESSAGE // 3
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
_LATIN_WORD = re.compile(r"[A-Za-z]+")
_OPENS_ZH = re.compile("[从今往以如凡每无不只遇等]")
_OPENS_EN = re.compile(
    r"\W*(?:from|going|moving|in|as|by|starting|at|no|under|until|for|each|every|when|whenever|if|once|unless|before"
    r"|after|during|outside|on|actually|instead|not|sorry|wait|(?:the|our|my)\s+[\w ]{2,30}(?:changed|moved)|note"
    r"|remember|please|also|and|so|ok|okay|but|by|one|rules?|decision|it's|it)\b",
    re.IGNORECASE,
)
"""Beginnings of sentences of which no clause alone may be a rule, but the whole: "Whenever I ask for code, ..."."""
_CLAUSE_END = re.compile(r"[,;:，；：、。]\s*|\s(?=(?:and|but|because|which|so|unless)\b)")
_LEADS_ON = re.compile(
    r"(?:的话|时候?|之前|以前|之后|以后|情况下|如果.*|关于.*|对于.*|每次.*|只要.*|遇到.*|凡是.*"
    r"|除非.*)$"
)


class _Found(NamedTuple):
    start: int
    end: int
    reading: Reading


def extract_rules(text: str, *, seq: int, trust: RuleTrust) -> tuple[StandingRule, ...]:
    """Return what a message lays down beyond its turn, in order.

    `text` is what a user or the system message says, never a tool result or an answer of a model; what it quotes is
    left out. At most `MOST_PER_MESSAGE` rules are returned.
    """
    rules: list[StandingRule] = []
    seen: set[tuple[str, ...]] = set()
    for sentence in own_sentences(text):
        for found in _read_sentence(sentence):
            rule = _rule(text, sentence, found, seq=seq, trust=trust)
            if rule is None:
                continue
            key = (rule.act, rule.kind, str(rule.negative), *rule.scope, "=", *rule.value)
            if key not in seen:
                seen.add(key)
                rules.append(rule)
    if len(rules) > MOST_PER_MESSAGE:
        rules[MOST_PER_MESSAGE - _FROM_THE_END : -_FROM_THE_END] = []
    return tuple(rules)


def _read_sentence(sentence: OwnSentence) -> list[_Found]:
    """Return the clauses of a sentence that lay something down, each with the words that belong to it."""
    text = sentence.text
    is_zh = not text.isascii() and len(_HAN.findall(text)) >= max(2, len(_LATIN_WORD.findall(text)))
    split, read, is_talk, change = _CHINESE if is_zh else _ENGLISH
    if text[-1] in ":：" or (not is_zh and text.endswith("?") and not may_ask_rule(text)):
        return []
    spans = split(text)
    found = [
        _Found(start, end, reading)
        for start, end in spans
        if (reading := read(text[start:end])) is not None
    ]
    if is_zh and len(spans) > 1 and (swap := read_swap(text)) is not None:
        found = [_Found(0, len(text), swap)]
    leads_on = _OPENS_ZH if is_zh else _OPENS_EN
    if (
        not found
        and len(spans) > 1
        and leads_on.match(text)
        and (reading := read(text)) is not None
    ):
        found = [_Found(0, len(text), reading)]
    if not found and (reading := _listed(sentence)) is not None:
        found = [_Found(0, len(text), reading)]
    # Most sentences lay nothing down: what is costly to find out is asked of the others only.
    if not found or is_talk(text) or _is_babble(text):
        return []
    return [
        each._replace(reading=change(text[each.start : each.end], each.reading))
        for each in _widened(text, spans, found)
    ]


_CHINESE = (split_chinese, read_chinese, is_chinese_talk, chinese_change)
_ENGLISH = (split_english, read_english, is_english_talk, english_change)


def _is_babble(text: str) -> bool:
    """Return True if a text mostly repeats itself: "never never never ..."."""
    words = text.split()
    if len(words) > 20:
        return len(set(words)) < len(words) // 3
    return len(text) > 60 and len(set(text)) < 8


def _listed(sentence: OwnSentence) -> Reading | None:
    """Return the reading of a list item by the heading of its list."""
    heading, text = sentence.heading, sentence.text
    if not heading or not 4 <= len(text) <= LONGEST_RULE or text == heading or text[-1] in ":：?？":
        return None
    lowered = heading.lower()
    for word, kind in _HEADINGS.items():
        if word in lowered:
            return Reading(
                kind, many=kind in ("task", "prohibition"), negative=kind == "prohibition"
            )
    return None


_HEADINGS = labels(
    prohibition="don'ts restriction 禁忌 忌口",
    rule="rule constraint requirement guideline convention instruction 规则 要求 原则 规范 约定 注意 限制",
    decision="decision decided agreed 决定",
    preference="preference 偏好",
    task="todo to-do task remind 待办 任务",
)


def _widened(text: str, spans: list[tuple[int, int]], found: list[_Found]) -> Iterator[_Found]:
    """Give each clause the clauses after it that say nothing of their own, and the condition before it."""
    if not found:
        return
    if len(found) == 1 and len(text) <= LONGEST_RULE:
        yield _Found(0, len(text), found[0].reading)
        return
    starts = [each.start for each in found]
    for number, each in enumerate(found):
        stop = starts[number + 1] if number + 1 < len(starts) else len(text)
        end = stop if stop - each.start <= LONGEST_RULE else each.end
        start = each.start
        before = [span for span in spans if span[1] <= each.start]
        floor = found[number - 1].end if number else 0
        if before and before[-1][0] >= floor and _LEADS_ON.search(text[slice(*before[-1])]):
            start = before[-1][0]
            end = max(each.end, min(end, start + LONGEST_RULE))
        yield _Found(start, end, each.reading)


def _rule(
    text: str, sentence: OwnSentence, found: _Found, *, seq: int, trust: RuleTrust
) -> StandingRule | None:
    start, end = sentence.start + found.start, sentence.start + found.end
    said = _cut(text[start:end])
    reading = found.reading
    terms = scope_terms(
        said, attribute=reading.attribute, value=reading.value, tags=reading.tags, many=reading.many
    )
    old = plain_terms(reading.old.replace(BLANK, " "))
    if old and reading.act == "change":
        terms = _without(terms, old)
    named = [term for term in (*terms.scope, *terms.value) if not term.startswith("@")]
    if not named and not old and not (terms.scope and terms.value) and "@reply" not in terms.scope:
        return None
    if reading.act in ("cancel", "done", "permit") and not old:
        return None
    return StandingRule(
        id=rule_id(said, seq=seq, trust=trust, at=start), text=said, kind=reading.kind, seq=seq, trust=trust,
        act=reading.act, negative=reading.negative, scope=terms.scope[:24], value=terms.value[:12], old=old[:12],
    )  # fmt: skip


def _without(terms: Terms, old: tuple[str, ...]) -> Terms:
    """Return the terms without those of what is replaced, unless nothing else would be left."""
    scope = tuple(term for term in terms.scope if term not in old)
    value = tuple(term for term in terms.value if term not in old)
    return Terms(scope, value) if scope or value else terms


def _cut(said: str) -> str:
    """Return the text without a connecting sign at its ends, cut at a clause if it is too long."""
    if len(said) > LONGEST_RULE:
        ends = [
            match.start() for match in _CLAUSE_END.finditer(said, LONGEST_RULE // 3, LONGEST_RULE)
        ]
        space = said.rfind(" ", LONGEST_RULE // 2, LONGEST_RULE)
        said = said[: ends[-1] if ends else space if space > 0 else LONGEST_RULE]
    return said.strip().strip(",，;；、").strip()
