"""Tells how a later sentence undoes an earlier one: it corrects it, drops it, changes a part of it or takes all back.

Each form is a class, not a list of phrases. The forms that permit, replace and repeat have modules of their own
(`lifted_prohibitions`, `replaced_values`, `restated_rules`).
"""

from __future__ import annotations

import re
from functools import lru_cache

from turnfold._lazy_loading import late_pattern
from turnfold.rules.act_classifier import act_of
from turnfold.rules.changed_values import amounts_of, another_amount
from turnfold.rules.clauses import (
    DENIES,
    LEADING,
    LIGHT_VERBS,
    LIGHT_WORDS,
    LONGEST,
    clauses_of,
    nouns_of,
    only_in_first,
    units_of,
)
from turnfold.rules.lifted_prohibitions import (
    RELEASES,
    affirming_clauses,
    asks_something,
    what_is_forbidden,
)
from turnfold.rules.replaced_values import FAILS, NUMBER, named_as_failing
from turnfold.rules.restated_rules import HAPPENED, NEGATION, STARTING

__all__ = (
    "adopts",
    "alters",
    "chooses_again",
    "chooses_rejected",
    "chosen_verb",
    "complains_of",
    "corrects",
    "drops",
    "first_signs",
    "is_exception",
    "is_one_occasion",
    "offers_another",
    "only_takes_back",
    "speaks_of_once",
    "takes_all_back",
    "takes_back",
    "takes_last_back",
    "touches_a_part",
)


_ALL = late_pattern(
    r"^\W*(?:please\s+|ok(?:ay)?,?\s+|so\s+)?(?:forget|drop|ignore|scrap|cancel|delete|remove|disregard)\s+(?:about\s+)?(?:all|every|everything)\b"
    r"(?:\s+(?:of|one))*(?:\s+(?:my|the|those|these|our|previous|earlier))*(?:\s+(?:rules?|instructions?|preferences?|restrictions?|i\s+(?:said|told\s+you)))+(?:\s+(?:so\s+far|before|above|earlier))*\W*$"
    r"|^\W*(?:那|就|请|把|我|之前|以前|前面|上面|刚才|说过?|定|提|的)*(?:所有|全部|一切)?的?(?:规则|规矩|要求|限制|约定)(?:全部?|都|统统|一律)"
    r"(?:作废|取消|不算数?|忘掉|忘了|不作数|清空|删掉|删了)(?:了|吧|掉)*\W*$"
    r"|^\W*(?:请|就)?(?:忘掉|忘了|取消|作废|清空|删掉)(?:我|之前|以前|前面|说过?|定|的)*(?:所有|全部|一切)的?(?:规则|规矩|要求|限制|约定)(?:吧|了)*\W*$",
    re.IGNORECASE,
)
_LAST = late_pattern(
    r"^\W*(?:(?:actually|sorry|no|hm+|oh|ok(?:ay)?|wait|well|please|you\s+know\s+what)\b\W*)*(?:forget|scratch|ignore|disregard|strike)\s+"
    r"(?:that|this|what\s+i\s+(?:just\s+)?said|my\s+last\s+(?:message|rule|request))(?:\s+(?:last\s+)?(?:one|bit|part|rule|please|again))?\W*$"
    r"|^(?:算了|哦|呃|嗯|不|那|[,，])*(?:刚才|刚刚|上一?[条句个])(?:那[个条句])?(?:我)?(?:说)?的?(?:话|要求|规则)?(?:就|都|还是)?(?:当我没说|不算数?|忘了吧?|忘掉吧?|作废|收回|取消)(?:了|吧)?\W*$"
    r"|^(?:算了|哦|呃|嗯|[,，])*当我没说(?:过)?吧?\W*$",
    re.IGNORECASE,
)
"""Matches a sentence that takes back what was said last, without naming it: "forget that"."""
_TAKES_BACK = late_pattern(
    r"\b(?:forget|scratch|drop|ignore|disregard|never\s?mind|take\s+back|strike)\s+(?:about\s+)?(?:(?:what|everything|anything)\s+i\s+(?:said|told\s+you|wrote)\s+about"
    r"|(?:the|that)\s+(?:thing|bit|rule|part|one)\s+(?:about|with|on)|my\s+(?:rule|request)\s+about)\s+(?P<en>[^,;.!?]+)"
    r"|\b(?:forget|scratch|drop|ignore|disregard)\s+(?:the|that|my)\s+(?P<thing>[^,;.!?]{2,40}?)\s+(?:thing|rule|bit|request)\b"
    r"|(?:忘了|忘掉|别管|不用管|收回|忽略|作废|取消)(?:我)?(?:之前|刚才|前面|上次)?(?:说的?)?(?P<zh>[^,，。]{2,16}?)的?(?:那[个条句]|这[个条]|事儿?|规则|要求|话)"
    r"|(?P<zh_thing>[^,，。]{2,16}?)的?(?:那[个条句]|这[个条]|事儿?|规则|要求)(?:我|就|都|还是)*(?:忘了吧?|忘掉|收回|作废|不用管|别管|不算|取消)",
    re.IGNORECASE,
)
"""Matches a sentence that withdraws what it names: "forget what I said about the nuts", 脚注那个我收回."""
_WHEN = late_pattern(
    r"(?:[今明后昨]天|周[一二三四五六日天末]|星期.|[上下]周.?|[早晚]上|[上下]午|\d+\s?点)+|(?:to(?:day|morrow|night)|\w+day|weekend|morning|evening)s?",
    re.IGNORECASE,
)
_WRONG = late_pattern(
    r"^(?P<zh>[^,，。]{0,10}?)(?:[写说弄搞记填打报给]?错了?|不对|有误|不是这个|写的不对)(?=[,，。了]|$)"
    r"|^\W*(?:sorry\W+|no\W+|oops\W+)*(?:i\s+(?:got|gave(?:\s+you)?|had|wrote|said)\s+)?"
    r"(?:the\s+|my\s+|that\s+)?(?P<en>[\w' ]{0,40}?)\s*"
    r"\b(?:(?:was|is|were)\s+)?(?:wrong|incorrect|mistaken|a\s+typo)\b",
    re.IGNORECASE,
)
_STATING = late_pattern("刚才?|那个|我们?|写|填|记|报|给|说|弄|搞|打")
_SIDES = frozenset({"number", "name", "code", "=name", "=address", "=place", "号", "码"})
"""Words for a detail of a thing (its phone number, its place), which an earlier sentence may give without this word:
"the hotline is 555-0111"."""
_RIGHT = late_pattern(
    r"(?:应该?是|其实是|正确的?是|改成|改为|是)(?P<zh>[^,，。]+)|\b(?:it's|it\s+is|should\s+(?:be|read)|should\s+have\s+been|make\s+it|is)\s+(?P<en>(?!not\b)[^,;]+)",
    re.IGNORECASE,
)
_NOT_BUT = late_pattern(
    r"^\W*(?:sorry\W+|no\W+|actually\W+)*(?:it's|it\s+is|that's|it\s+should\s+be)\s+(?P<new>[^,;]{1,60}),\s*not\s+(?P<old>[^,;.]{1,60})"
    r"|^(?:不好意思|对了|等等|更正|那个)*[,，]?不是(?P<old_zh>[^,，。]{1,20})[,，](?:应该)?是(?P<new_zh>[^,，。]{1,20})",
    re.IGNORECASE,
)
_SHOULD_BE = late_pattern(
    r"^\W*(?:(?:actually|sorry|no|so|ok(?:ay)?)\W+)?(?:the|our|my)\s+(?P<what>[\w' ]{2,40}?)"
    r"\s+should\s+(?:be|read|say)\s+(?P<new>.{1,60})"
    r"|^(?:不对|等等|更正)?[,，]?(?P<what_zh>[^,，。我你]{2,8}?)(?:应该|其实)是(?P<new_zh>[^,，。]{1,30})",
    re.IGNORECASE,
)
_SAID_TO_BE = late_pattern(
    r"^\W*(?:the|our|my)\s+(?P<what>[\w' ]{2,40}?)\s+(?:is|are|was)\s+(?:called\s+|named\s+)?(?P<old>.{1,60})"
    r"|^(?P<what_zh>[^,，。我你]{2,8}?)(?:是|叫|写|为)(?P<old_zh>[^,，。]{1,30})",
    re.IGNORECASE,
)
_DROPS = late_pattern(
    r"(?:不(?:用|想|打算|准备|再|要|需要)*再?|别再?|先不)(?P<verb>[^,，。不]?)[^,，。不]{0,20}了(?:[。！!吧啊]|$)"
)
"""Matches a clause that says that something is no longer done."""
_DROPPING = late_pattern("不(?:用|想|打算|准备|再|要|需要)*再?|先|别再?|还是|了|算了|那个|以后")
_GENERAL = frozenset("做搞弄办要用去装请上买写加")
_CHOOSES = late_pattern("还是(?P<verb>[送寄住坐去走找订买吃穿写放])")
_ONCE = late_pattern(
    r"这[周次回天一]|这个(?:月|季度|星期|周末|学期)|本[周次月]|今[天晚早]|明[天晚早]|破例|就这一?次|这[个单条份版篇](?!规|限|要求|约|禁|事|时候)[^,，。]{0,10}(?:可以|[也就]行|没(?:事|关系|问题))|下周[一二三四五六日天]"
    r"|\b(?:this|today'?s?|tonight'?s?|tomorrow'?s?|next)\s+(?:time|once|week|month|mon|tues|wednes|thurs|fri|satur|sun)|\b(?:just|only)\s+(?:this\s+)?once\b|\b(?:today|tonight|tomorrow)(?:'s)?\b|\bthis\s+time\b"
    r"|\bthis\s+(?:one|pr|fix|feature|order|release|commit|ticket)\b(?=.*\b(?:ok(?:ay)?|fine|alright|can|may)\b)",
    re.IGNORECASE,
)
_REJECTS = late_pattern(
    r"(?:\bover|,?\s*\bnot|\binstead\s+of|\brather\s+than)\s+(?P<en>(?!the\b|a\b|an\b|my\b|our\b|to\b|\d)[A-Za-z][\w.+#-]*)(?=\W*$|[,.;!]|\s+(?:in|for|on)\b)"
    r"|(?:而不是|，不用|，不要|，别用|比起)(?P<zh>[^,，。]{1,8}?)(?=[,，。]|$)",
    re.IGNORECASE,
)
"""Matches what a choice rejects by name: "Astro over Next", "tabs, not spaces"."""
_TAKES = late_pattern(
    r"\bit\s+is\W*$|\b(?:use|go(?:ing)?\s+(?:with|for)|switch(?:ed|ing)?\s+to|back\s+to|mov(?:e|ed|ing)\s+to|take|choose|prefer)\b|还是|[改换]|就用|用[^,，。]{1,8}吧",
    re.IGNORECASE,
)
_IT_IS = late_pattern(r"\b\w+\s+it\s+is\W*$", re.IGNORECASE)
"""Matches a choice: "Next it is"."""
_NAME = late_pattern(r"\b[A-Z][\w.+#-]*\w")
_COMPLAINS = late_pattern(
    r"\b(?:annoys?|bothers?|irritates?|bugs?|distracts?|confuses?|tires?)\s+(?:me|us)\b|\bon\s+my\s+nerves\b|\b(?:sick|tired)\s+of\b|\benough\s+(?:with|of)\b"
    r"|\b(?:is|are)\s+(?:just\s+|getting\s+|really\s+|too\s+|so\s+)*(?:old|annoying|tiresome|tedious|distracting|hard\s+to\s+read|noise|too\s+much)\b"
    r"|(?:看|听|读|用)?(?:得|着|起来)(?:也|都|就|真|太|很|好|有点)*(?:累|烦|乱|晕|头疼|费劲|别扭)|[看听]?腻了|眼花|受够了|(?:太|真|好)烦",
    re.IGNORECASE,
)
"""Matches a clause that complains about something: "the bullets annoy me", 表格看着也累."""
_OFFERS = late_pattern(
    r"\b(?:stop|drop|skip|please|instead|rather|just|no\s+more|use|back\s+to|go)\b|还是|[改换]|别|不[要用]|直接|用"
)
_FROM_ON = late_pattern(r"[起始]|以后|\b(?:from|starting|as\s+of|now|again)\b", re.IGNORECASE)
_ALWAYS = late_pattern(
    r"每|都|一律|所有|不|别|总|例|\b(?:every|each|always|never|all|any|don't|no|not|must|weekly|daily|monthly|\w+days)\b",
    re.IGNORECASE,
)
_LATIN = late_pattern(r"[\u4e00-\u9fff\s][A-Z][A-Za-z0-9]+|^[A-Z]{2,}")
_BOTH = late_pattern(
    r"(?P<first>[\u4e00-\u9fffA-Za-z]{2,8}?)(?:和|跟|与|及|、)(?P<second>[\u4e00-\u9fffA-Za-z]{2,8}?)(?=都|均|一律|全|用|写|走|放|要|不|改|按|$|[,，。])"
    r"|\b(?P<first_en>[A-Za-z][\w-]+(?:\s[a-z][\w-]+)?)\s+and\s+(?:the\s+|our\s+|my\s+)?(?P<second_en>[A-Za-z][\w-]+(?:\s[a-z][\w-]+)?)",
)
"""Matches two things that a sentence joins: 注释和提交信息都用中文写."""
_SHORT = 60
"""Most characters of a sentence with one clause that can deny an earlier sentence; a longer one is not compared."""


def takes_all_back(text: str) -> bool:
    """Return True if a sentence withdraws all rules at once: "forget all my rules"."""
    return len(text) <= LONGEST and _ALL.match(text) is not None


@lru_cache(maxsize=512)
def takes_last_back(text: str) -> bool:
    """Return True if a sentence withdraws what was said just before: "forget that"."""
    return len(text) <= LONGEST and _LAST.match(text) is not None


def takes_back(later: str, earlier: str) -> bool:
    """Return True if a sentence withdraws what was said about a thing, and the earlier sentence names that thing."""
    found = _TAKES_BACK.search(later[:LONGEST])
    if found is None:
        return False
    thing = next(each for each in found.groups() if each)
    named = _words(thing)
    return (
        bool(named)
        and not _WHEN.fullmatch(thing)
        and not only_in_first(named - LIGHT_VERBS, _words(earlier))
    )


def only_takes_back(text: str) -> bool:
    """Return True if a sentence withdraws what it names, and its other clauses ask for nothing."""
    if _TAKES_BACK.search(text[:LONGEST]) is None:
        return False
    others = [each for each in clauses_of(text) if not _TAKES_BACK.search(each)]
    return not any(_OFFERS.search(each) or affirming_clauses(each) for each in others)


def corrects(later: str, earlier: str) -> bool:
    """Return True if a sentence says that an earlier statement is wrong, and gives the right one."""
    later = later[:LONGEST]
    if found := _NOT_BUT.search(later):
        old = found["old"] or found["old_zh"]
        return bool(units_of(old)) and not only_in_first(units_of(old), units_of(earlier))
    if (found := _SHOULD_BE.match(later)) and (told := _SAID_TO_BE.match(earlier[:LONGEST])):
        named, there = (units_of(each["what"] or each["what_zh"]) for each in (found, told))
        new, old = found["new"] or found["new_zh"], told["old"] or told["old_zh"]
        alike = _resembles(new, old) or _resembles(old, new)
        return bool(named & there) and (named == there or alike)
    clauses = clauses_of(later)
    for number, clause in enumerate(clauses):
        wrong = _WRONG.search(clause)
        right = next((each for each in clauses[number + 1 :] if _RIGHT.search(each)), "")
        if not (wrong and right):
            continue
        named = units_of(_STATING.sub(" ", wrong["zh"] or wrong["en"] or ""))
        named = named - {"got", "gave", "said"}
        if named - _SIDES:
            named -= _SIDES
        if named:
            return not only_in_first(named, units_of(earlier))
        return _resembles(right, earlier)
    return False


def _resembles(first: str, second: str) -> bool:
    """Return True if a sentence repeats most words of an earlier one, as a correction of one detail does."""
    mine, theirs = units_of(first), units_of(second)
    return bool(mine) and 3 * len(mine - only_in_first(mine, theirs)) >= 2 * len(mine)


def drops(later: str, earlier: str) -> bool:
    """Return True if a sentence says that something requested earlier will not be done: 中央空调不装了."""
    there = units_of(earlier)
    for clause in clauses_of(later):
        found = _DROPS.search(clause)
        if not found:
            continue
        said = _DROPPING.sub(" ", clause)
        mine, verb = units_of(said), found["verb"] or ""
        own = only_in_first(mine, there) - LIGHT_VERBS
        named = nouns_of(said) & nouns_of(earlier)
        if named and 4 * len(own) <= len(mine) and (verb in _GENERAL or verb in earlier):
            return True
    return False


def chooses_rejected(later: str, earlier: str) -> bool:
    """Return True if a sentence chooses what an earlier one rejects: "spaces it is" after "tabs, not spaces"."""
    before, rejected = _rejected_in(earlier[:LONGEST])
    if not rejected:
        return False
    chosen = frozenset(
        each
        for clause in clauses_of(later)
        if _TAKES.search(clause) and not DENIES.search(clause)
        for each in _words(clause)
    )
    return rejected <= chosen and not (chosen & before - rejected)


@lru_cache(maxsize=4096)
def _rejected_in(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the words of a choice before what it rejects, and those of what it rejects."""
    found = _REJECTS.search(text)
    if found is None:
        return frozenset(), frozenset()
    return _words(text[: found.start()]), _words(found["en"] or found["zh"])


def _words(text: str) -> frozenset[str]:
    """Return the units of a text, with English words that have another meaning in small letters ("Next")."""
    names = {each.lower() for each in _NAME.findall(text)}
    return units_of(text) | names


def complains_of(later: str, earlier: str) -> bool:
    """Return True if a clause complains about something that an earlier sentence asks for, and names nothing else."""
    for clause in clauses_of(later):
        if _COMPLAINS.search(clause):
            said = _COMPLAINS.sub(" ", clause)
            mine = units_of(said)
            if mine and not only_in_first(mine, units_of(earlier)):
                return bool(nouns_of(said) & nouns_of(earlier))
    return False


def offers_another(text: str) -> bool:
    """Return True if a sentence that complains says in another clause what should be instead, or that it should stop.

    A complaint alone may be just that.
    """
    others = [each for each in clauses_of(text) if not _COMPLAINS.search(each)]
    return any(_OFFERS.search(each) or affirming_clauses(each) for each in others)


def adopts(later: str, earlier: str) -> bool:
    """Return True if a sentence asks for what an earlier one forbids: 改成灰色瓷砖吧 after 不要瓷砖."""
    forbidden = what_is_forbidden(earlier)[1]
    given = {
        each
        for clause in clauses_of(later)
        if not DENIES.search(clause)
        for each in units_of(clause)
    }
    return bool(forbidden) and forbidden <= given


def chooses_again(later: str, earlier: str) -> bool:
    """Return True if a sentence chooses anew with the verb that begins an earlier choice: 还是送家里吧, 送到公司."""
    verb = chosen_verb(later)
    return bool(verb) and verb in first_signs(earlier)


def chosen_verb(text: str) -> str:
    """Return the verb with which a Chinese sentence chooses anew (送 of 还是送家里吧); "" if it does not."""
    found = _CHOOSES.search(text[:LONGEST])
    return found["verb"] if found else ""


@lru_cache(maxsize=4096)
def first_signs(text: str) -> str:
    """Return the first two characters of a sentence, among which the verb of a choice is: 送到公司."""
    return LEADING.sub("", text)[:2]


def touches_a_part(later: str, earlier: str) -> bool:
    """Return True if a sentence changes one of the two things that an earlier sentence names.

    The rule for the other thing stays: "comments in English" after "comments and commit messages in Chinese".
    """
    if chooses_rejected(later, earlier):
        return False
    if _gives_a_part(later, earlier):
        return True
    pairs = [*_BOTH.finditer(earlier[:300])]
    if not pairs:
        return False
    said = "，".join(
        clause
        for clause in clauses_of(later)
        if "还是" not in clause[1:] or len(clauses_of(later)) == 1
    )
    mine = units_of(said)
    for found in pairs:
        first, second = (
            units_of(found[f"{name}_en"] or "") if found["first_en"] else units_of(found[name])
            for name in ("first", "second")
        )
        first, second = first - second, second - first
        if not first or not second:
            continue
        names = [
            2 * (len(each) - len(only_in_first(each, mine))) >= len(each) + (len(each) > 1)
            for each in (first, second)
        ]
        if names[0] != names[1]:
            return True
    return False


def _gives_a_part(later: str, earlier: str) -> bool:
    """Return True if a sentence gives a new value to one of several clauses with values in an earlier sentence."""
    clauses = clauses_of(earlier)
    if len(clauses) < 2:
        return False
    changed = [another_amount(later, clause) is not None for clause in clauses]
    if not any(changed):
        return False
    failing = [named for each in clauses_of(later) if (named := named_as_failing(each, earlier))]
    valued = [
        bool(amounts_of(clause) or _LATIN.search(clause))
        and not any(named in clause for named in failing)
        for clause in clauses
    ]
    return any(has and not new for has, new in zip(valued, changed, strict=True))


@lru_cache(maxsize=512)
def alters(text: str) -> bool:
    """Return True if a sentence has a form that undoes an earlier statement, whatever it said."""
    if len(text) > LONGEST or asks_something(text):
        return False
    if (
        affirming_clauses(text)
        or _SHOULD_BE.match(text)
        or _NOT_BUT.search(text)
        or takes_all_back(text)
        or takes_last_back(text)
        or _TAKES_BACK.search(text)
    ):
        return True
    clauses = clauses_of(text)
    if (
        RELEASES.search(text)
        or _COMPLAINS.search(text)
        or _IT_IS.search(text)
        or any(map(_DROPS.search, clauses))
    ):
        return True
    if any(_WRONG.search(clause) for clause in clauses[:-1]) and _RIGHT.search(text):
        return True
    if NUMBER.search(text) and act_of(text, "en" if text.isascii() else "zh") == "change":
        return True
    if len(clauses) < 2:
        if len(text) > _SHORT or not NEGATION.search(text):
            return STARTING.search(text) is not None
        return len(units_of(NEGATION.sub(" ", text)) - LIGHT_VERBS - LIGHT_WORDS) > 1
    return FAILS.search(text) is not None or any(map(HAPPENED.search, clauses[:-1]))


def speaks_of_once(text: str) -> bool:
    """Return True if a sentence is about a single occasion only: "this time", 破例."""
    return _ONCE.search(text) is not None


@lru_cache(maxsize=4096)
def is_one_occasion(text: str) -> bool:
    """Return True if a sentence is about one occasion, and does not say from when on something holds."""
    return speaks_of_once(text) and not STARTING.search(text) and not _FROM_ON.search(text)


@lru_cache(maxsize=4096)
def is_exception(later: str, earlier: str) -> bool:
    """Return True if a sentence is about one occasion, and an earlier rule about every occasion: 这周的例会取消."""
    return bool(speaks_of_once(later) and not _ONCE.search(earlier) and _ALWAYS.search(earlier))
