"""Tells whether a sentence says that a task is done: it names the thing of the task and no other thing."""

from __future__ import annotations

import re
from collections.abc import Sequence
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
    "closed_task",
    "closes",
    "completes",
    "is_of_others",
    "is_still_open",
    "may_report",
    "names_another",
    "with_verb_of_call",
)


_DONE_ZH = late_pattern("[了啦](?:[。！!~]|$)|已经|[过好完]了|搞定|收到|到了|办妥")
_DONE_EN = late_pattern(
    r"\b(?:[Ii]|[Ww]e|[Hh]e|[Ss]he|[Tt]hey|[A-Z][\w'-]+|(?i:the|my|our)\s+\w+)(?:'ve|'s|\s+ha(?:ve|s))?\s+(?:just\s+|already\s+|finally\s+|now\s+|actually\s+|also\s+)*"
    r"(?:(?!need|feed|speed|agreed)\w+ed|got|bought|sent|paid|found|saw|wrote|done|made|took|met|gave|spoke|told|sold|brought|did|has|have)\b"
    r"|\b(?:is|are|was|were|been|'s|'re)\s+(?:now\s+|all\s+|already\s+|finally\s+)*(?:\w+ed|done|paid|sent|ready|here|in|back|gone|sorted|bought|written|made|taken|complete|final|through|merged)\b"
    r"|\b(?:arrived|came|went\s+out)\b"
    # without a subject, or without a verb: "picked up the passport", "dentist booked", "electricity bill: paid"
    r"|^\W*(?:(?i:just|finally|already|and|ok(?:ay)?|so)\W+)*(?i:picked|dropped|handed|sent|paid|booked|bought|got|ordered|finished|fixed|cleaned|packed|signed|mailed|posted|submitted|returned|renewed)\b(?!\s+by)"
    r"|\w\W+(?:(?!need|feed|speed|agreed|want|tired|bored|red\b)\w{2,}ed|sent|paid|bought|done|written|made)(?:\s+(?:in|off|out|up|back|over|down))?(?:\s+(?:today|now|already|this\s+morning))?\W*$",
)
_REPORTING = late_pattern(
    "[那这]边|自己|亲自|[拿取收领接带][走到下回去来过]+|接手|签收|交[到给]|到手|到货|送到|上线|装[^,，。]{0,2}里|升完|跑完|今天|今早|[上下]午|总算|终于|已经|刚刚?|都|我们?|也|就|了|出去|回来|进去|下来|收到|那个|帮我|提醒|记得|待办|搞定|没问题|[过好完掉](?=[了啦]|$)|[上到](?=[了啦])|啦"
)
_OF_OTHERS = late_pattern(
    "[我他她](?:们)?(?P<who>姐|妹|哥|弟|妈|爸|老公|老婆|媳妇|同事|朋友|儿子|女儿|邻居|室友)[^,，。]{0,2}?的"
    r"|\b(?:my|his|her|their|our)\s+(?P<who_en>sister|brother|mum|mom|dad|mother|father|wife|husband|friend|colleague|neighbou?r|flatmate|son|daughter)'s\b"
)
"""Matches the owner of a thing if that is not the speaker: "my sister's", 我姐的."""
_REPORTED = frozenset("写做弄办搞交寄买发打看问订约定付还改修补合去送拿取签续过好完掉")
"""Chinese verbs for finishing something that do not name the thing: 做 (do), 完 (finish)."""
_NOT_DONE = late_pattern(
    r"没有?[^,，。]{0,6}(?:完|过|好|到|收|寄|发|交|买)|还没|尚未|不[^,，。]{0,4}了|[昨前]天的|上[次周个]的?|\b(?:not|n't|yet|still|will|tomorrow|must|should|never|if|when|yesterday's|last\s+(?:week|month|year|\w+'s)|has\s+(?:an?|another|no))\b|n't\b",
    re.IGNORECASE,
)
_TASK_WORDS = late_pattern(
    r"待办|提醒我?|记得|记着|帮我|别忘了?|记一下|那个|\b(?:to-?do|remind(?:er)?|remember|need|must|by\s+\w+day)\b|(?:周|星期)[一二三四五六日天末]|[上下]午|[今明后]天|之?前",
    re.IGNORECASE,
)
_NOT_NOW = late_pattern("[昨前]天的|上[次周个]的|上个月的")
_ABOUT = late_pattern(
    r"^\W*(?:(?:so|and|oh|ah|ok(?:ay)?|right|now|as\s+for|about|regarding|concerning|on|remember|by\s+the\s+way)\b\W*)+|的?(?:事情?|问题|那[个件条]|这[个件条])$|\s+(?:is|are|was|were)\s+(?:green|passing|working|fine|clean|up)(?:\s+again)?$|^(?:对了|关于|说到|那个|至于)",
    re.IGNORECASE,
)
_OPEN_OBJECT = late_pattern(
    r"\b(?:it|that|this|them|those|these|one|ones|all|both|everything|actually|finally|myself|himself|herself|themselves)\b|我们?|她|他|都|全|就",
    re.IGNORECASE,
)
_ADJUNCT = late_pattern(
    r"(?<=\w)\s+(?:with|while|over|during|on\s+the|at|in\s+the|this\s+\w+|last\s+\w+|yesterday|today|tonight|before|after)\b.*$",
    re.IGNORECASE,
)
"""Matches words for when, where and with whom something was done; they do not name the task."""
_DONE_VERBS = frozenset(
    "did do done wrote write written send sent make made finish finished fix fixed found find phoned rang called fill"
    " filled".split()
)
_SUBJECT = late_pattern(
    r"^\W*(?:(?:ok(?:ay)?|good\s+news|update|done|finally)\W+)?(?:(?:the|our|my)\s+(?:client|customer|bank|doctor|boss|team|lawyer)|[A-Z][\w'’-]+)\s+(?=(?:has|have|just|already|finally|got|received|did|sent|paid|signed|bought|wrote|called|booked|took|made|found)\b)"
)


_ON_THE_PHONE = late_pattern(
    r"\b(?:just\s+)?(?:got\s+)?off\s+the\s+phone\s+(?:with|to)\s+", re.IGNORECASE
)
"""Matches words for a call that has ended."""
_CLOSES = late_pattern(
    r"^\W*(?:tick(?:ed)?|check(?:ed)?|done)\b(?:\s+(?:and\s+dusted|that|it))?\W*$|\bcross(?:ed)?\s+(?:it|that|this)?\s*off\b|\boff\s+(?:the|my|our|your)\s+(?:to-?do\s+)?list\b"
    r"|\b(?:that(?:'s|\s+is|\s+one's|\s+one\s+is)?|this(?:\s+one)?(?:'s|\s+is)|it's)\s+(?:now\s+|all\s+|finally\s+)?(?:done|sorted|settled|taken\s+care\s+of|dealt\s+with|out\s+of\s+the\s+way)\b"
    r"|[划勾叉]掉了?(?:吧|啦)?[。！!~]?$|(?:^|[,，。！!])(?:全|都|已经|总算|终于)?(?:搞定|办妥|办好)(?:了|啦)?[。！!~]?$"
    r"|(?:这|那)[一]?[个件条项][事儿]*(?:总|就|也)?(?:算|是)?(?:了了|完了|好了|结了|办好|办完|搞定|了结|解决)",
    re.IGNORECASE,
)
"""Matches a sentence that says that something is done and off the list, whatever the thing is."""
_NOT_CLOSED = late_pattern(
    r"\b(?:not|n't|yet|still|until|once|when|if|isn't|never)\b|n't\b|[没未]|还不|等.{0,8}再|如果|要是|[?？]\W*$",
    re.IGNORECASE,
)
_LEAST_CLAUSE = 6
"""A clause of a message can name a whole task only if it has more characters than this."""
_LEAST_NAMED = 0.2
"""If a message only says that something is done, it closes an open task if it names at least this share of the things
that the task names."""


def closes(text: str) -> bool:
    """Return True if a sentence says that something is done, without naming it: "tick", 搞定."""
    return _CLOSES.search(text) is not None and not _NOT_CLOSED.search(text)


def closed_task(report: str, tasks: Sequence[str]) -> int | None:
    """Return the index of the open task that a message such as "done with the tiles" names best; None if none."""
    told = nouns_of(report) | {each for each in units_of(report) if each.isascii()}
    best, found = 0.0, None
    for number, task in enumerate(tasks):
        wanted = _TASK_WORDS.sub(" ", task)
        there = (
            nouns_of(wanted) | {each for each in units_of(wanted) if each.isascii()}
        ) - LIGHT_WORDS
        shared = there - only_in_first(there, told)
        # Of tasks that are named as much, the newest is the likeliest.
        if shared and len(shared) / len(there) >= max(_LEAST_NAMED, best):
            best, found = len(shared) / len(there), number
    return found


def may_report(text: str) -> bool:
    """Return True if a sentence has the form of a report that some work is done ("I have sent it")."""
    done = _DONE_EN if text.isascii() else _DONE_ZH
    return len(text) <= LONGEST and done.search(text) is not None and not _NOT_DONE.search(text)


def completes(report: str, task: str) -> bool:
    """Return True if a sentence reports that a task is done: it names the thing of the task, and no other thing."""
    told = _told_done(report[:LONGEST])
    if not told or is_of_others(report, task):
        return False
    wanted, there = _wanted(task)
    if any(_names_nothing(plain) for _, plain in told) and _is_about(report, there, wanted):
        return True
    for clause, plain in told:
        zh = not clause.isascii()
        mine = units_of(plain)
        own = only_in_first(mine, there) - (LIGHT_WORDS - {"=call"}) - _REPORTED
        shared = mine - only_in_first(mine, there)
        if own or not shared or (5 if zh else 3) * _share_of_a_clause(shared, wanted) < 1:
            continue
        nouns = nouns_of(plain) & nouns_of(wanted) if zh else shared
        whole = frozenset(units_of(clause)) <= there
        if nouns or (zh and whole):
            return True
    return False


def is_of_others(report: str, task: str) -> bool:
    """Return True if "done" is said of somebody else's thing, and the task is not about it: 我姐的牙医约上了."""
    found = _OF_OTHERS.search(report)
    return found is not None and (found["who"] or found["who_en"]) not in task


def is_still_open(report: str) -> bool:
    """Return True if a sentence sounds like "done", but says when or whether something will be done."""
    return _NOT_DONE.search(report) is not None


def _share_of_a_clause(shared: frozenset[str] | set[str], wanted: str) -> float:
    """Return the highest share of a task's words that one clause of a sentence reporting work as done names."""
    most = len(shared) / max(len(units_of(wanted)), 1)
    for clause in clauses_of(wanted):
        mine = units_of(clause)
        if len(mine) > 1 and len(clause) > _LEAST_CLAUSE:
            most = max(most, len(mine - only_in_first(mine, shared)) / len(mine))
    return most


def _names_nothing(report: str) -> bool:
    """Return True if a clause says that something is done, but not what: "I wrote that one", 我写完了."""
    return not units_of(_OPEN_OBJECT.sub(" ", report)) - LIGHT_WORDS - _REPORTED - _DONE_VERBS


def _is_about(report: str, there: frozenset[str], wanted: str) -> bool:
    """Return True if a clause before "done" names the thing of the task and nothing else: "about the note, ...".

    `wanted` is the text of the task, `there` are its words and values.
    """
    for clause in clauses_of(report[:LONGEST]):
        if (_DONE_EN if clause.isascii() else _DONE_ZH).search(clause):
            return False
        mine = units_of(_ABOUT.sub(" ", clause))
        zh = not clause.isascii()
        shared = mine - only_in_first(mine, there)
        if shared and shared == mine and (5 if zh else 4) * _share_of_a_clause(shared, wanted) >= 1:
            return True
    return False


@lru_cache(maxsize=512)
def _told_done(report: str) -> tuple[tuple[str, str], ...]:
    """Return the clauses that report work as done, each also without the words that say "done", as pairs."""
    found: list[tuple[str, str]] = []
    for clause in clauses_of(report):
        zh = not clause.isascii()
        if _NOT_DONE.search(clause) or not (_DONE_ZH if zh else _DONE_EN).search(clause):
            continue
        plain = _REPORTING.sub(" ", clause) if zh else _without_subject(clause)
        if not zh and not plain.strip():
            plain = clause  # "dentist booked": what looks like the subject is the thing
        found.append((clause, plain))
        if not zh and (short := _ADJUNCT.sub("", clause)) != clause and _DONE_EN.search(short):
            found.append((short, _without_subject(short)))
    return tuple(found)


@lru_cache(maxsize=1024)
def _wanted(task: str) -> tuple[str, frozenset[str]]:
    """Return a task without words such as "please" that most tasks have, and its words and values in both forms."""
    wanted = _TASK_WORDS.sub(" ", task)
    return wanted, units_of(wanted) | units_of(task)


def names_another(report: str, task: str) -> bool:
    """Return True if a sentence that reports work as done shares only a verb, a day or half a name with a task."""
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


def with_verb_of_call(text: str) -> str:
    """Return a text with "called" in place of "got off the phone with"."""
    return _ON_THE_PHONE.sub("called ", text)


def _without_subject(clause: str) -> str:
    clause = _SUBJECT.sub("", with_verb_of_call(clause))
    return re.sub(
        r"\b(?:off|out|up|back|today|himself|herself|themselves|picked|dropped|handed|got|received|arrived|here|done|finished|finally|final|merged|written|complete[d]?|ready|sorted|sent|paid|bought|booked|made|good)\b",
        " ",
        clause,
        flags=re.IGNORECASE,
    )
