"""Tells whether a sentence reports that a task is done: it names the thing of the task and no other thing."""

from __future__ import annotations

import re
from functools import lru_cache

from turnfold._lazy_loading import late_pattern
from turnfold.rules.clauses import (
    LIGHT_WORDS,
    LONGEST,
    clauses_of,
    nouns_of,
    only_in_first,
    units_of,
)

__all__ = (
    "completes",
    "may_report",
    "names_another",
)


_DONE_ZH = late_pattern("了(?:[。！!~]|$)|已经|[过好完]了|搞定|收到|到了|办妥")
_DONE_EN = late_pattern(
    r"\b(?:i|we|he|she|they|[A-Z][\w'-]+|(?:the|my|our)\s+\w+)(?:'ve|'s|\s+ha(?:ve|s))?\s+(?:just\s+|already\s+|finally\s+|now\s+)*"
    r"(?:(?!need|feed|speed|agreed)\w+ed|got|bought|sent|paid|found|saw|wrote|done|made|took|met|gave|spoke|told|sold|brought|has|have)\b"
    r"|\b(?:is|are|was|were|been|'s|'re)\s+(?:now\s+|all\s+|already\s+|finally\s+)*(?:\w+ed|done|paid|sent|ready|here|in|back|gone|sorted|bought|written|made|taken|complete|final|through|merged)\b"
    r"|\b(?:arrived|came|went\s+out)\b",
)
_REPORTING = late_pattern(
    "已经|刚刚?|都|我们?|也|就|了|出去|回来|进去|下来|收到|那个|帮我|提醒|记得|待办|搞定|没问题|[过好完掉](?=了|$)|[上到](?=了)"
)
_REPORTED = frozenset("写做弄办搞交寄买发打看问订约定付还改修补合去送拿取签续过好完掉")
"""Verbs of a report that name nothing but what was done."""
_NOT_DONE = late_pattern(
    r"没有?[^,，。]{0,6}(?:完|过|好|到|收|寄|发|交|买)|还没|尚未|不[^,，。]{0,4}了|[昨前]天的|上[次周个]的?|\b(?:not|n't|yet|still|will|tomorrow|must|should|never|if|when|yesterday's|last\s+\w+'s)\b|n't\b",
    re.IGNORECASE,
)
_TASK_WORDS = late_pattern(
    r"待办|提醒我?|记得|记着|帮我|别忘了?|记一下|那个|\b(?:to-?do|remind(?:er)?|remember|need|must|by\s+\w+day)\b|(?:周|星期)[一二三四五六日天末]|[上下]午|[今明后]天|之?前",
    re.IGNORECASE,
)
_NOT_NOW = late_pattern("[昨前]天的|上[次周个]的|上个月的")
_SUBJECT = late_pattern(
    r"^\W*(?:(?:ok(?:ay)?|good\s+news|update|done|finally)\W+)?(?:(?:the|our|my)\s+(?:client|customer|bank|doctor|boss|team|lawyer)|[A-Z][\w'’-]+)\s+(?=(?:has|have|just|already|finally|got|received|did|sent|paid|signed|bought|wrote|called|booked|took|made|found)\b)"
)


def may_report(text: str) -> bool:
    """Return True if a sentence has the form of a report that something is done, whatever it is."""
    done = _DONE_EN if text.isascii() else _DONE_ZH
    return len(text) <= LONGEST and done.search(text) is not None and not _NOT_DONE.search(text)


def completes(report: str, task: str) -> bool:
    """Return True if a sentence reports that a task is done: it names the thing of the task, and no other thing."""
    told = _told_done(report[:LONGEST])
    if not told:
        return False
    wanted, there = _wanted(task)
    for clause, plain in told:
        zh = not clause.isascii()
        mine = units_of(plain)
        own = only_in_first(mine, there) - (LIGHT_WORDS - {"=call"}) - _REPORTED
        shared = mine - only_in_first(mine, there)
        if own or not shared or (5 if zh else 3) * len(shared) < len(units_of(wanted)):
            continue
        nouns = nouns_of(plain) & nouns_of(wanted) if zh else shared
        whole = frozenset(units_of(clause)) <= there
        if nouns or (zh and whole):
            return True
    return False


@lru_cache(maxsize=512)
def _told_done(report: str) -> tuple[tuple[str, str], ...]:
    """Return the clauses that say that something is done, each also without the words of a report."""
    found: list[tuple[str, str]] = []
    for clause in clauses_of(report):
        zh = not clause.isascii()
        if _NOT_DONE.search(clause) or not (_DONE_ZH if zh else _DONE_EN).search(clause):
            continue
        found.append((clause, _REPORTING.sub(" ", clause) if zh else _without_subject(clause)))
    return tuple(found)


@lru_cache(maxsize=1024)
def _wanted(task: str) -> tuple[str, frozenset[str]]:
    """Return a task without the words that every task has, and the words of both forms."""
    wanted = _TASK_WORDS.sub(" ", task)
    return wanted, units_of(wanted) | units_of(task)


def names_another(report: str, task: str) -> bool:
    """Return True if all that a report has in common with a task is a verb, a day or half a name."""
    zh = not report.isascii()
    wanted = _TASK_WORDS.sub(" ", task)
    there = units_of(task)
    own: set[str] = set()
    told: set[str] = set()
    for clause in clauses_of(report):
        if _NOT_NOW.search(clause):
            return True
        plain = _REPORTING.sub(" ", clause) if zh else _without_subject(clause)
        own |= only_in_first(units_of(plain), there) - (LIGHT_WORDS - {"=call"}) - _REPORTED
        told |= units_of(clause)
    missing = (
        only_in_first(units_of(_REPORTING.sub(" ", wanted) if zh else wanted), told)
        - LIGHT_WORDS
        - _REPORTED
    )
    return bool(own and missing)


def _without_subject(clause: str) -> str:
    clause = _SUBJECT.sub("", clause)
    return re.sub(
        r"\b(?:got|received|arrived|here|done|finished|finally|final|merged|written|complete[d]?|ready|sorted|sent|paid|bought|booked|made|good)\b",
        " ",
        clause,
        flags=re.IGNORECASE,
    )
