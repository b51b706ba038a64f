"""Tells whether a sentence permits something, for once or for good, that an earlier sentence forbids.

A permission that surely lifts a prohibition ends it (`reversals.lifts`). Many do not: they hold for one occasion ("just
for today you may order takeaway", 这次改配置也行), for a part of what is forbidden, or use another verb ("edit" for
"touch"). Such a permission leaves the prohibition as it is, but has to be shown with it: alone, the prohibition says
the opposite of what the user said last. Here little evidence is enough, because nothing is ended by it.
"""

from __future__ import annotations

import re
from functools import lru_cache

from turnfold._lazy_loading import late_pattern
from turnfold.rules.clauses import (
    DENIES,
    LIGHT_VERBS,
    LIGHT_WORDS,
    LONGEST,
    clauses_of,
    nouns_of,
    only_in_first,
    units_of,
)
from turnfold.rules.topics import rule_terms

__all__ = ("actions_and_times", "exempts", "is_permission", "permits_what")


_PERMITS_EN = late_pattern(
    # One word boundary before all of them: at most places of a text this is all that is tried.
    r"\b(?:(?:is|are|'s|'re|be|would\s+be|sounds?)\s+(?:\w+\s+){0,2}?"
    r"(?:ok(?:ay)?|fine|alright|all\s+right|good|allowed|permitted|welcome|acceptable|no\s+problem)\b"
    r"|(?:you|we|they|he|she|people|anyone|everyone)(?:'re\s+allowed\s+to|\s+(?:can|may|could|might)(?:\s+\w+ly)?)"
    r"\s+(?!not\b|only\b|never\b|be\s+\w+ing)"
    r"|(?-i:[A-Z])[\w'-]+(?:\s+from\s+\w+)?\s+(?:can|may)\s+(?!not\b|only\b|never\b|be\b|have\b)"
    r"|(?:can|may)\s+be\s+\w+ed\b|go\s+ahead\b|feel\s+free\b|exceptions?\b|one[- ]off\b"
    r"|(?:just|only)\s+(?:this|for)\b|this\s+once\b|just\s+once\b|for\s+once\b"
    r"|i\s+don't\s+mind\b|i(?:'m|\s+am)\s+(?:ok(?:ay)?|fine)\s+with\b|won't\s+hurt\b|no\s+(?:problem|harm)\b"
    r"|allowed\s+(?:to|for|this|today|tonight)\b|(?:has|have|got)\s+(?:my\s+)?permission\b"
    r"|let\s+(?!me\b|us\b|you\b)\w+\b)|^\W*(?:ok(?:ay)?|fine|alright)\W+(?:go|do|you|use|take|have)\b",
    re.IGNORECASE,
)
_PERMITS_ZH = late_pattern(
    r"破例|例外|通融|特批|放行|批准|仅此一次|下不为例|就这一?[次回]|可以|(?<![不可才只])能(?![不够力量源耗否效])"
    r"|[也都]行(?![程李业为人政])|[没无](?:问题|事|关系|妨)|不碍事|不要紧|不介意|允许|准许|同意了|随便|尽管"
    r"|(?:这|那)[次回][^,，。]{0,12}[吧行]|行[了啊吧]?[。！!]?$"
)
"""Matches a sentence that permits something, or makes an exception."""
_NO_EXCEPTION = late_pattern(
    r"\bno\s+exceptions?\b|\bwithout\s+exception|不(?:得|能|许|准)?(?:有)?例外|没有例外|不(?:能|得|许|准|要)?破例|不可以",
    re.IGNORECASE,
)
_ASKS = late_pattern(r"[?？]|[吗么呢]\W*$|能不能|可不可以|能否|是否")
_CONTENT_FREE = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday morning evening afternoon night weekend week day month"
    " today tonight tomorrow time ok fine alright okay allowed exception once service problem"
    " 一次 这次 可以 没事 问题 关系 今天 今晚 明天 也行 以后 时候 事情 周末".split()
)
"""Words of a permission that do not say what is permitted."""
_SMALL_SIGNS = frozenset(
    "行事次天前后人说里外时今明来去动改碰推删叫约投批老晚早起多少大小新旧全半号月年周日点分万千元块"
)
"""Chinese characters that name no thing if they stand alone."""
_PRONOUN = late_pattern(
    r"\b(?:it(?!['’]s|\s+is)|them|him|her|those|these)\b|[他她它]", re.IGNORECASE
)
_ANYTHING = late_pattern(
    r"\b(?:anything|everything|nothing|anyone|anybody|nobody|any\s+of)\b|东西|任何|什么|所有|谁",
    re.IGNORECASE,
)
_TIMES: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\bmornings?\b|[早上]午|早[上晨]|今早|一早",
        r"\bafternoons?\b|下午|午后",
        r"\b(?:evenings?|nights?|tonight|late)\b|[今明夜]晚|晚上|夜里|半夜|深夜",
        r"\b(?:weekends?|saturdays?|sundays?)\b|周[末六日天]|星期[六日天]",
        (
            r"\b\d{1,2}(?::\d\d)?\s*[ap]\.?m\b|\b\d{1,2}:\d\d\b|\bo'clock\b|[\d一二两三四五六七八九十]点(?!了|儿|心)"
            r"|\b(?:before|after|until|at)\s+(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|noon|\d{1,2})\b"
        ),
    )
)
_ACTIONS: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\b(?:touch|edit|chang|modif|alter|amend|tweak|adjust|rewrit|overwrit)\w*|[动改碰](?![作物画机车天])|调整|编辑",
        r"\b(?:call|phon|ring|rang|contact|text|messag|disturb)\w*|打(?![开算扫包印])|来电|联系|打扰|找我",
        r"\b(?:buy|bought|order|purchas|get)\w*|[买购订]|下单|点(?=[^,，。\d]{0,4}(?:外卖|餐|菜))",
        r"\b(?:delet|remov|clean|clear|wip|purg|discard|throw)\w*|[删清扔丢]",
        r"\b(?:push|deploy|merg|releas|ship|publish)\w*|推(?![迟后荐])|发布|上线|合并|部署",
        r"\b(?:shar|show|see|view|send|forward|read)\w*|看|分享|转发|[发传]给",
        r"\b(?:visit|com(?:e|es|ing)|guest|invit|stay)\w*|来|做客|留宿|邀请",
        r"\b(?:eat|serv|drink|cook)\w*|[吃喝]",
        r"\b(?:wak|rous)\w*|[叫吵]醒|叫[^,，。]{0,3}起",
        r"\b(?:spend|spent|pay|paid|charg|cost)\w*|[花付]|收费",
        r"\b(?:driv|drove|car)\w*|开车|自驾",
        r"\b(?:book|schedul|meet|plan)\w*|安排|开会|约",
        r"\b(?:install|add|import|introduc)\w*|装|加|引入",
        r"\b(?:watch|play)\w*|玩|[看刷]",
    )
)
"""Groups of verbs that permit or forbid the same: to touch, edit or change a file."""


@lru_cache(maxsize=512)
def is_permission(text: str) -> bool:
    """Return True if a sentence permits something or makes an exception, whatever it is about."""
    if len(text) > LONGEST or not _permits(text) or _ASKS.search(text):
        return False
    return not (_NO_EXCEPTION.search(text) or DENIES.search(_without_permitting(text)))


def _permits(text: str) -> bool:
    if _PERMITS_EN.search(text):
        return True
    return not text.isascii() and _PERMITS_ZH.search(text) is not None


def _without_permitting(text: str) -> str:
    return _PERMITS_ZH.sub(" ", _PERMITS_EN.sub(" ", text))


def permits_what(later: str, earlier: str) -> bool:
    """Return True if a permission names what an earlier sentence forbids.

    Both name the same thing; or the action agrees, and the time, or one of them names its object only by a pronoun
    ("you may text her") or not at all ("don't touch anything"); or the permission names nothing but another time.
    """
    later = _permitting(later)
    if _shared_content(later, earlier):
        return True
    times = _times(later) & _times(earlier)
    if _actions(later) & _actions(earlier) or _signs(later) & _signs(earlier):
        return bool(times) or _PRONOUN.search(later) is not None or bool(_ANYTHING.search(earlier))
    return bool(times) and any(
        _permits(clause) and not _content(_without_permitting(clause)) and not _actions(clause)
        for clause in clauses_of(later)
    )


@lru_cache(maxsize=512)
def _permitting(text: str) -> str:
    """Return a permission without the clauses after it, which give reasons: "you can call, I'm on leave"."""
    clauses = clauses_of(text)
    last = max((at for at, clause in enumerate(clauses) if _permits(clause)), default=-1)
    return "，".join(clauses[: last + 1]) if last >= 0 else text


@lru_cache(maxsize=4096)
def actions_and_times(text: str) -> frozenset[str]:
    """Return keys of the actions and the times that a text names; a permission shares one with what it permits."""
    parts = (each for each in _times(text) if isinstance(each, int))
    return frozenset(
        (*(f"action {each}" for each in _actions(text)), *(f"time {each}" for each in parts))
    )


def exempts(later: str, earlier: str) -> bool:
    """Return True if a sentence about one occasion names what an earlier sentence forbids."""
    return not DENIES.search(later) and not _ASKS.search(later) and _shares(later, earlier)


def _shares(later: str, earlier: str) -> bool:
    agree = _actions(later) & _actions(earlier) and _times(later) & _times(earlier)
    return bool(_shared_content(later, earlier) or agree)


def _shared_content(first: str, second: str) -> frozenset[str]:
    """Return the words of one sentence, except verbs without content and times, that another one has too."""
    mine, theirs = _content(first), _content(second)
    alone = {each for each in mine | theirs if len(each) == 1}
    # One character alone is a word (糖可以吃), and may be a part of a pair in the other sentence (吃糖).
    both = alone & _signs(first) & _signs(second)
    return frozenset((mine - only_in_first(mine, theirs)) | both)


@lru_cache(maxsize=1024)
def _content(text: str) -> frozenset[str]:
    english = {unit for unit in units_of(text) if unit.isascii() and not unit[0].isdigit()}
    alone = {term for term in rule_terms(text).scope if len(term) == 1} - LIGHT_VERBS - _SMALL_SIGNS
    return (nouns_of(text) | english | alone) - LIGHT_WORDS - _CONTENT_FREE


@lru_cache(maxsize=1024)
def _actions(text: str) -> frozenset[int]:
    return frozenset(at for at, pattern in enumerate(_ACTIONS) if pattern.search(text))


@lru_cache(maxsize=1024)
def _times(text: str) -> frozenset[int | str]:
    """Return the parts of the day or week that a text names, and its other values."""
    parts = {at for at, pattern in enumerate(_TIMES) if pattern.search(text)}
    return frozenset(parts) | frozenset(rule_terms(text).value)


def _signs(text: str) -> frozenset[str]:
    return frozenset(unit for unit in units_of(text) if not unit.isascii()) - (LIGHT_VERBS - {"来"})
