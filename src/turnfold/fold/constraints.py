"""Finds constraints and decisions in a text by cue words ("must", "never", "we decided"), in English and Chinese.

A summary that loses the word "never" turns a rule into its opposite, and its other words do not show that. A constraint
is identified by its polarity (forbid, require or decide) and the content words of the phrase after its cue word: "do
not send emails" and "never send e-mail" are one rule, "do not send emails" and "must send emails" are two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from turnfold._lazy_loading import late_pattern
from turnfold.text import content_terms

__all__ = ("find_cues",)


_Polarity = Literal["forbid", "require", "decide"]


class _RuleCue(NamedTuple):
    """A rule or decision in a text: whether it requires or forbids, the content words of its phrase, and its place."""

    polarity: _Polarity
    terms: frozenset[str]
    start: int
    end: int


# Idioms that only sound like rules ("don't worry", "can't wait", "能不能", "特别") do not match, and statements that
# somebody cannot or does not do something ("I can't find it", "they don't last") are sorted out by `_is_idiom`.
_FORBID = r"""
    \b(?: (?:must|should|shall|can|may|will)\s+never(?!\s+forget\b)
      | never(?!\s+(?:mind|know|knew|knows|been|heard|seen|had|thought|forget|forgot|felt|met|hurts?|fails?|gets?
          |ever|too|stops?|gonna|going|really|actually|even|quite)\b|-)
      | (?:must|should|shall|may)\s+not | (?:mustn|shouldn)['’]t
      | (?:do\s+not|don['’]t|dont)
        (?!\s+(?:worry|know|think|mind|hesitate|believe|understand|get\s+me|you|see|remember|have|want|feel|seem
          |give\s+up)\b)
      | (?:cannot|can\s+not|can['’]t)
        (?!\s+(?:wait|believe|imagine|help|thank|tell|say|remember|beat|stand|afford|stop|seem|find|even|really
          |quite)\b)
      | (?:not|no\s+longer)\s+(?:be\s+)?(?:allowed|permitted|acceptable|eligible) | no\s+longer
      | forbid(?:s|den)? | prohibit(?:s|ed)? | avoid(?:s|ing)? | refuse[sd]? | allergic\s+to )\b
"""
_FORBID_ZH = r"""
    (?<!要)不要(?!紧|担心|着急|客气) | (?<!能)不能(?!不) | 不得(?![不了已]) | 不可(?![思避能或]) | 不可以
    | 不许 | 不准(?!确) | 禁止 | 严禁 | 切勿 | 请勿 | 切忌 | 忌(?=[食用口]) | 不允许 | 不应该?
    | 不宜 | 避免 | 千万不 | 千万别 | 从不 | 绝不 | 决不 | 不再 | 不用(?![谢客担说]) | 不必(?![担客谢]) | 无需
    | (?<![特分区级性个识鉴差告类辨派])别(?![人的处墅名称致是担客急])
"""
_REQUIRE = r"""
    \b(?: must(?![\s’']+(?:have|ve|of|admit|say|confess)\b)
          (?!\s+be\s+(?!\w+(?:ed|en)\b|paid|made|sent|kept|done|by\b|at\b|in\b|on\b|under|below|over|above|within|before
            |after|no\b|less|more|between|\d))
      | (?:please|should|must|will)\s+always | (?:is|are|be)\s+required | required\s+to
      | only\s+(?:if|when|use|after|with|by|once|accept) | at\s+(?:least|most)(?=\s+(?:\d|[$€£¥]|an?\b|one|two|three
          |four|five|six|seven|eight|nine|ten|half|once|twice))
      | no\s+(?:more|less|later|fewer|earlier)\s+than | make\s+sure | be\s+sure\s+to | ensure )\b
    | (?:\A|(?<=[.:;]\s))always\b
"""
_REQUIRE_ZH = r"""
    必须 | 务必 | 一定要 | 只能 | 只许 | 仅限 | 应当 | 不得不 | (?:至少|至多|最多)(?=\s?[\d一二两三四五六七八九十半])
    | 不超过 | 不少于 | 不低于 | 不晚于 | 不早于
"""
_DECIDE = r"""
    \b(?: decided | agreed | confirmed | approved | chose | chosen | settled\s+on | finali[sz]ed
      | opted\s+(?:for|to) | (?:we|i)(?:['’](?:ll|re|m)|\s+will|\s+are|\s+am)?\s+go(?:ing)?\s+with | signed\s+off )\b
"""
_DECIDE_ZH = r"""
    决定(?![性于因]) | (?<![请需要未])确认 | (?<![我很])同意 | 敲定 | 约定 | 定于 | 选定 | 批准 | 说好 | 定下
"""
_ENGLISH_CUE = late_pattern(
    rf"(?P<decide>{_DECIDE})|(?P<forbid>{_FORBID})|(?P<require>{_REQUIRE})",
    re.VERBOSE | re.IGNORECASE,
)
_CUE = late_pattern(
    rf"(?P<decide>{_DECIDE}|{_DECIDE_ZH})|(?P<require_first>不得不)|(?P<forbid>{_FORBID}|{_FORBID_ZH})"
    rf"|(?P<require>{_REQUIRE}|{_REQUIRE_ZH})",
    re.VERBOSE | re.IGNORECASE,
)
_CHINESE = late_pattern(r"[\u4e00-\u9fff]")
# Cues at the end of a clause ("is not allowed", "是禁止的") are about the words before them.
_LOOKS_BACK = late_pattern(
    r".*(?:allowed|permitted|acceptable|eligible|forbidden|prohibited|required|confirmed|approved)$",
    re.IGNORECASE,
)
_CLAUSE_END = late_pattern(r"[,;:!?，。；：！？、\n()（）|]|\.(?=\s|$)|\s[-–—]\s")
_WORD = late_pattern(r"\S+")
_PHRASE_WORDS = 8
_PHRASE_CHARACTERS = 64
_POLARITIES: dict[str, _Polarity] = {
    "forbid": "forbid", "require": "require", "require_first": "require", "decide": "decide",
}  # fmt: skip


def find_cues(text: str) -> Iterator[_RuleCue]:
    """Yield the constraints and decisions in a sentence; a cue word ("must") inside another's phrase is skipped."""
    pattern = _cue_pattern(text)
    if pattern is None:
        return
    covered = 0
    for match in pattern.finditer(text):
        if match.start() < covered or _is_idiom(text, match):
            continue
        start, end = match.start(), _phrase_end(text, match.end())
        terms = frozenset(content_terms(text[match.end() : end]))
        if not terms or _LOOKS_BACK.match(match[0]):
            back = _phrase_start(text, match.start(), covered)
            before = frozenset(content_terms(text[back : match.start()]))
            start, terms = (back, before | terms) if before else (start, terms)
        if terms and match.lastgroup is not None:
            covered = end
            yield _RuleCue(_POLARITIES[match.lastgroup], terms, start, end)


_IN_EVERY_CUE = (  # every English cue contains one of these
    "never", "not", "n't", "n’t", "dont", "longer", "forbid", "prohibit", "avoid", "refuse", "allergic", "must",
    "always", "requir", "only", "least", "most", "than", "sure", "decid", "agree", "confirm", "approv", "chose",
    "settled", "finali", "opted", "with", "signed",
)  # fmt: skip


def _cue_pattern(text: str) -> re.Pattern[str] | None:
    """Return the pattern that finds the cue words of rules in this text.

    Returns None if a quick check shows that it has none.
    """
    if not text.isascii() and _CHINESE.search(text):
        return _CUE
    lowered = text.lower()
    return _ENGLISH_CUE if any(word in lowered for word in _IN_EVERY_CUE) else None


# Words before a cue that make it a statement ("I can't", "they don't") or a purpose ("to avoid"), not a rule.
_UNABLE = late_pattern(
    r"(?:\A|\b(?:i|it|that|he|she|they|who|which|there)|[.!?,–-])\s*\Z", re.IGNORECASE
)
_STATES = late_pattern(
    r"\b(?!(?:please|and|but|so|just|you|we|also|then|or|ok|okay)\b)[a-z’']+\s+\Z", re.IGNORECASE
)
_PURPOSE = late_pattern(r"\bto\s+\Z|\b(?:have|has|had)\s+\Z|['’](?:ve|d)\s+\Z", re.IGNORECASE)
_BEFORE = 16


def _is_idiom(text: str, match: re.Match[str]) -> bool:
    """Return True if an English cue only states a fact or a purpose ("I can't find it", "to avoid"), not a rule."""
    cue = match[0][:3].lower()
    if cue not in _IDIOMS:
        return False
    start = match.start()
    return _IDIOMS[cue].search(text, max(0, start - _BEFORE), start) is not None


_IDIOMS = {
    "can": _UNABLE, "do ": _STATES, "don": _STATES,
    "nev": _PURPOSE, "avo": _PURPOSE, "mak": _PURPOSE, "ens": _PURPOSE,
}  # fmt: skip


def _phrase_end(text: str, start: int) -> int:
    """Return where the phrase after a cue word ("never", "must") ends: with the clause, or a few words further."""
    stop = min(len(text), start + _PHRASE_CHARACTERS)
    clause = _CLAUSE_END.search(text, start, stop)
    stop = clause.start() if clause else stop
    for number, word in enumerate(_WORD.finditer(text, start, stop), start=1):
        if number == _PHRASE_WORDS:
            stop = word.end()
            break
    while stop < len(text) and _joined(text, stop):
        stop += 1
    return start + len(text[start:stop].rstrip())


def _phrase_start(text: str, end: int, floor: int) -> int:
    start = max(floor, end - _PHRASE_CHARACTERS)
    for clause in _CLAUSE_END.finditer(text, start, end):
        start = clause.end()
    while start > floor and _joined(text, start):
        start -= 1
    return start + len(text[start:end]) - len(text[start:end].lstrip())


def _joined(text: str, at: int) -> bool:
    """Return True if cutting the text at index `at` would split an ASCII word or number."""
    before, after = text[at - 1], text[at]
    return before.isascii() and after.isascii() and not before.isspace() and after.isalnum()
