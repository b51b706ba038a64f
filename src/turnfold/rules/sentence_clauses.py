"""Splits a sentence into its clauses, and tells which of them can be understood alone."""

from __future__ import annotations

import re

from turnfold._lazy_loading import late_pattern
from turnfold.rules.act_classifier import Language, names_nothing, says_it_stays
from turnfold.rules.own_words import bracketed
from turnfold.rules.subjects import is_fragment
from turnfold.rules.topics import rule_terms

__all__ = (
    "LAYS_DOWN",
    "changed_clauses",
    "clause_spans",
    "continues_sentence",
    "needs_the_clause_before",
)


LAYS_DOWN: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"^(?:(?:and|but|so|also|please|then|just)\s+)*(?:please|never|always|only|keep|use|write|ask|send|put"
        r"|make\s+(?:it|the)|let's|no|nothing|nobody|don't|do\s+not|stop|avoid"
        r"|(?:i|we)(?:'d|'ll|'re|\s+would|\s+will|\s+are)?\s+(?:prefer|rather|want\s+(?!to\b)|take|taking"
        r"|go\s+(?:with|for)|going\s+(?:with|for)|stay|choose|chose|picked|decided)"
        r"|you\s+(?:can|may)|everything|every)\b",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "^(?:那|就|请|也|都|但|千万|可以|所以)*(?:不要(?!太)|别(?![的人说])|不得|不能(?!不)|不许|禁止|严禁"
        "|必须|务必|一定要|以后|每次|最多|至少|不超过|改|换|选|定|只[用发做]|取消|打字)"
        "|(?:取消|以内)$|以内都?|^(?!.*(?:[是对的]吧|也许|可能|大概|估计|猜|好像)).*(?:吧|好了|就好|就行|都行"
        "|都可以)[。！!]?$|还是(?!很|挺|[^,，]{0,4}的$)[^,，。]{2,12}好|应该是"
    ),
}
"""Matches a clause that demands something ("always use tabs") or gives something a value."""
_CLAUSES: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"\s*[;,]\s+(?:and\s+|but\s+|also\s+)?|\s+(?:and|but)\s+(?=(?:i|my|we|our|never|don't|please|the)\b)",
        re.IGNORECASE,
    ),
    "zh": re.compile(r"[,，;；]\s*"),
}
_NAMES_ONLY = late_pattern(
    r"\W*(?:and\s|or\s|but\s)?(?:(?:\d[\w:./-]*|the|an?|all|both|each|my|our|your|his|her|their)\s"
    r"|(?!I\b)[A-Z][\w-]*(?:\s[A-Z][\w-]*)*\s(?=(?:for|at|on|in|to|with|of|from|by)\s))"
    r"(?!.*\b(?:is|are|was|were|has|have|had|will|would|must|should|can|cannot|may|might|needs?|wants?|likes?|prefers?"
    r"|goes|takes?|gets?|stays?|never|always|only)\b)(?!.*['’](?:s|ll|re|ve|d|t)\b)"
)
"""Matches an English clause that begins with a thing or a name and has no common verb: the second part of "ask Kim for
the 13th, the 14th and all pallets"."""
_TOPIC_ONLY = late_pattern(
    r"^\W*(?:(?:and|so|but|then|also)\s+)*(?:for|about|as\s+for|regarding|concerning|in|on|with|when|if)\b(?!.*\b(?:must|never|always|don't|no|only|please)\b)[^,;]*$",
    re.IGNORECASE,
)
"""Matches a clause that only names the subject of the next clause: "for the commit messages"."""
_SHORT_TEXT: dict[Language, int] = {"en": 60, "zh": 14}
_GOES_ON: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"(?:(?:please|and|but|so|also|just)\W+)*(?:not\b|only\b|or\b|it\b|it's\b|that\b|they\b|them\b|those\b"
        r"|he\b|she\b"
        r"|\w+\s+(?:it|them|this|that|those|these)\b|same\b|otherwise\b|no\s+exceptions?\b|(?:do\s+not|don't|never|always)\s+\w+\s+(?:it|them|that|those|him|her)\b)",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "(?:请|就|也|但是?|不过|而且|千万|一定|记得|麻烦|以后)*(?:不要|别|不用|不能|不许|不可以|只要|只能|最好"
        "|必须|尽量|改成|换成|要|得|它|那|这|他|她)"
    ),
}
"""Matches the beginning of a sentence without a subject, or with a pronoun for it."""
_REFUSES = late_pattern(
    r"(?:please\s+)?(?:not|never|no|don't|do\s+not)\b|(?:请|也|千万|但)*(?:不要|别|不能|不)再?(?P<verb>.)",
    re.IGNORECASE,
)
_NEEDS_SUBJECT = late_pattern(
    "^(?:所以|也|就|请|千万|但|一定|记得)*(?:别|不要|不能|不许|不用)[\u4e00-\u9fffA-Za-z0-9 ]{0,4}(?:了"
    "|吧)?[。！!]?$|^(?:都|也|就|才|再|还)"
    "|^(?:到现在|至今|一直|仍)|^[^,，]{0,5}(?:太|很|受不了|吃不消|到期|坏)|了[。]?$(?<!算了)"
)
"""Matches a clause without its subject, or one that is the reason for another."""


def continues_sentence(text: str, language: Language) -> bool:
    """Return True if a short sentence has its subject in the sentence before it: "Not as store credit"."""
    return len(text) <= _SHORT_TEXT[language] and _GOES_ON[language].match(text) is not None


def clause_spans(text: str, language: Language) -> list[tuple[int, int]]:
    """Return the clauses of a sentence; nothing is cut in brackets."""
    cuts = [match.span() for match in _CLAUSES[language].finditer(text)]
    if not cuts:
        return [(0, len(text))]
    within = bracketed(text)
    cuts = [cut for cut in cuts if not any(start < cut[0] < end for start, end in within)]
    starts = [0, *(end for _, end in cuts)]
    ends = [*(start for start, _ in cuts), len(text)]
    return list(zip(starts, ends, strict=True))


def changed_clauses(text: str, language: Language) -> str:
    """Return a sentence without clauses that leave something unchanged; "" if it has no other clause."""
    if not says_it_stays(text, language):
        return text
    kept: list[str] = []
    for start, end in clause_spans(text, language):
        clause = text[start:end]
        if not says_it_stays(clause, language):
            kept.append(clause)
        elif kept and names_nothing(clause, language):
            kept.pop()  # "the robot still goes to my mother, no change"
    return ", ".join(kept)


def needs_the_clause_before(clause: str, before: str, language: Language) -> bool:
    """Return True if a clause cannot be understood alone, such as 别推荐, "main hall", or one with a pronoun."""
    if is_fragment(clause) or _sets_off(clause, before):
        return True
    if language == "en" and (_TOPIC_ONLY.match(before) or _NAMES_ONLY.match(clause)):
        return True
    if language == "zh":
        return _NEEDS_SUBJECT.search(clause) is not None
    return len(clause.split()) < 3 and not LAYS_DOWN["en"].search(clause)


def _sets_off(clause: str, before: str) -> bool:
    """Return True if a clause only contrasts with the clause before it: "in white, not in grey"."""
    refused = _REFUSES.match(clause)
    if refused is None:
        return False
    verb = refused["verb"]
    return (verb is not None and verb in before) or not set(rule_terms(clause).scope).isdisjoint(
        rule_terms(before).scope
    )
