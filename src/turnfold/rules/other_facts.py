"""What an earlier rule says beside the matter that a new sentence changes, so that ending it would lose a fact.

A rule is shown whole or not at all. "I'm Chen, I have allergies and can't eat seafood" must not end because a little
seafood is fine after all; and a sentence that only refers to an address or number, such as "send it to the new
address", gives no other.
"""

from __future__ import annotations

import re

from turnfold._lazy_loading import late_pattern
from turnfold.text import content_terms, search_terms

__all__ = ("bans_another_thing", "has_other_fact", "only_refers")


_CLAUSE = late_pattern(
    r"[,，;；、。!！\n]+\s*|\.\s+|\s+and\s+(?=(?:i|my|we|our)\b|can't|don't|have\b)", re.IGNORECASE
)
_VITAL = late_pattern(
    r"\d[\d\s()+-]{4,}\d|\d{5,}|[\w.+-]+@[\w-]+\.\w"
    r"|过敏|忌口|忌食|不耐受|糖尿|血压|怀孕|孕妇|哮喘|吃素|素食|清真|我姓|我叫|名字[是叫]"
    r"|\b(?:allerg\w*|intoleran\w*|diabet\w*|pregnan\w*|asthma\w*|co?eliac|vegetarian|vegan|halal|kosher"
    r"|my\s+name\s+is|i'?m\s+called|call\s+me)\b",
    re.IGNORECASE,
)
"""Matches a fact about a person that does harm if it is forgotten, or that nobody can guess: health, name, a number."""
_NAMED = (
    r"(?:地址|手机号?码?|电话号?码?|邮箱|账号|密码|卡号|网址|链接"
    r"|\b(?:address|phone(?:\s+number)?|number|e-?mail|account|password|link)\b)"
)
_DEFINED = late_pattern(
    rf"{_NAMED}\s*(?:[是为叫:：=]|[改换变]|\b(?:is|are|was|will\s+be|becomes?|changed?|to)\b)"
    rf"|(?:[是为]|\b(?:is|as|becomes?)\b)\s*(?:the|my|our|我的?|新的?)?\s*(?:new\s+)?{_NAMED}",
    re.IGNORECASE,
)
_REFERRED = late_pattern(rf"{_NAMED}\W*(?:$|[,，。;；!！]|\.\s)", re.IGNORECASE)
_CHANGED = late_pattern(
    r"[改换变搬错]|作废|不用|别用|取消|\b(?:chang\w+|switch\w*|mov\w+|updat\w+|replac\w+|wrong|instead|no\s+longer|not|don't|cancel\w*)\b",
    re.IGNORECASE,
)


def only_refers(later: str, earlier: str) -> bool:
    """Return True if a sentence refers to an address or number that the earlier one gives, without giving another."""
    if _DEFINED.search(earlier) is None or _REFERRED.search(later) is None:
        return False
    return _DEFINED.search(later) is None and _CHANGED.search(later) is None


def has_other_fact(later: str, earlier: str) -> bool:
    """Return True if a clause of the earlier sentence has a vital fact, and the later one is about another clause."""
    clauses = [each for each in _CLAUSE.split(earlier) if each and each.strip()]
    said = frozenset(search_terms(later))
    shared = [not said.isdisjoint(search_terms(each)) for each in clauses]
    return any(shared) and any(
        _VITAL.search(each) and not common for each, common in zip(clauses, shared, strict=True)
    )


_BAN = late_pattern(
    r"(?:不要|不准|不许|不得|不能|禁止|(?<![特分])别|\b(?:don't|do\s+not|never|must\s+not|mustn't|no)\b)(?P<banned>[^,，;；。.!！]+)",
    re.IGNORECASE,
)


def bans_another_thing(later: str, earlier: str) -> bool:
    """Return True if both sentences forbid something, and neither names what the other forbids."""
    old, new = _BAN.search(earlier), _BAN.search(later)
    if old is None or new is None:
        return False
    banned = frozenset(content_terms(old["banned"])), frozenset(content_terms(new["banned"]))
    return (
        all(banned)
        and banned[0].isdisjoint(content_terms(later))
        and banned[1].isdisjoint(content_terms(earlier))
    )
