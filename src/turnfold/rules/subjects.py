"""Finds the subject of a sentence, without the value it states: "the log level" in "set the log level to DEBUG".

A correcting sentence ("actually", "instead", 改成) ends an earlier rule only if both are about the same thing. Words in
the place of a value (after "to", "use", 改成) do not name the subject, nor do words that only say that something
changes ("raise", 推迟). A word that only the later sentence has is a qualifier: it speaks of a special case ("the
timeout of payments"), or of another thing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from turnfold._lazy_loading import late_pattern
from turnfold.rules.act_classifier import act_of, is_weak_change
from turnfold.rules.topics import rule_terms

__all__ = (
    "Subject",
    "actors_in",
    "begins_alike",
    "common_terms",
    "first_sign",
    "is_fragment",
    "is_wish_of_others",
    "named_things",
    "parts_of",
    "same_frame",
    "subject_of",
    "without_frame",
)


class Subject(NamedTuple):
    """The terms of a sentence by their role: what it is about, the value it gives, the value it ends."""

    topic: frozenset[str]
    """Words that name what the sentence is about ("log level")."""
    given: frozenset[str]
    """Words in the place of the value that the sentence gives ("DEBUG")."""
    left: frozenset[str]
    """Words and values that the sentence names as no longer valid: "instead of Postgres", 不坐飞机了."""

    @property
    def words(self) -> frozenset[str]:
        """All terms of the sentence."""
        return self.topic | self.given | self.left


_STEM = 4
"""Number of letters: two words are forms of one word if they begin with this many equal letters, and one has at most as
many more ("threshold" and "three" are not)."""
_CLAUSES = late_pattern(
    r"[,;，；。]\s*|[:：](?!\d)\s*|\s+[-–—]+\s+|\s+(?:so|because|since)\s+", re.IGNORECASE
)
_HEADED = late_pattern(r"(?P<head>[^:：,，]{1,40})[:：](?!\d)\s*(?P<new>\S.*)", re.DOTALL)
"""Matches the name of a thing before a colon, with the value after it: "new tagline: ..."."""
_POINTED_AT = late_pattern(
    r"\W*(?P<head>[^,，。]{1,12}?)(?:那个|那条|这条|那边|这块|的事儿?|方面|的话)[,，]\s*(?P<new>\S.*)"
    r"|\W*(?:about|as\s+for|regarding|concerning)\s+(?P<head_en>[^,;:]{2,40})[,:]\s*(?P<new_en>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
"""Matches the thing that a sentence names before it says something about it: "as for the calls, ...", 电话那个，…."""
_ANNOUNCED = late_pattern(
    "^(?:我们?|咱们?)?(?:又|刚|最近|已经)*[换改]了?(?P<topic>[^,，。了成为到用个]{2,6}?)了?$"
)
"""Matches a clause that says that something has changed, but not to what: 我换手机号了."""
_ACTOR = late_pattern(
    r"(?P<zh>(?<![\u4e00-\u9fff])[\u4e00-\u9fff]{1,2}?(?:老师|经理|主任|总监|总(?![是在共之算得价结会部体])|律师|师傅|女士|先生|老板|教授|局长|校长|院长|医生|大夫|主管|同学|阿姨|大姐|大哥)"
    r"(?![是为]|叫|变|换)"
    r"|(?<![\u4e00-\u9fff])(?:老(?![师板公婆人家是实早远式旧样手年天虎鼠的])|小(?![时区心说孩学吃气型票费程猫狗组声票额])|阿(?![姨拉里胶]))[\u4e00-\u9fff]"
    r"(?=[说讲问要想来去在让提跟和把给刚那病又也都不受,，]|自己|技术))"
    r"|\b(?:Mr|Mrs|Ms|Dr)\.?\s+(?P<titled>[A-Z][\w-]+)"
    r"|(?:^|[,.;:!?]\s+|\b(?:and|so|but|that|because)\s+)(?P<en>[A-Z][a-z]+)\s+(?:just|also|finally|still|even|now)?\s*"
    r"(?:says?|said|wants?|wanted|asks?|asked|told|tells|thinks?|thought|called|wrote|rang|phoned|complains?|prefers?|hates?|likes?|loves|needs?|insists?|mentioned|reckons?)\b"
)
"""Matches the person who says, wants or does something; two sentences with the same person need not be about the same
thing."""
_STILL = late_pattern("还是(?=[^,，。]*?[把改换用订选坐去定])")
_BEGINNING = late_pattern(r"^(?:\W|那|就|请|把|还是|我们的?|(?i:please|actually|the|our|my)\b)+")
_ADDRESSED = late_pattern(
    r"\b(?:ask|tell|have|let|get)\s+(?:(?:Mr|Mrs|Ms|Dr|Prof)\.?\s+)?[A-Z][\w'’-]+(?:\s+[A-Z][\w'’-]+)*\s+to\b"
    r"|^\W*(?:[A-Z][\w'’-]+\s+){1,2}(?:has\s+|is\s+|will\s+)?(?:taken?|takes|taking|took)\s+over(?:\s+(?:as|from))?"
    r"|(?:让|叫|请|通知|告诉)[^,，。]{1,5}?(?=[把降改换加提给去来做])"
)
"""Matches the person whom a sentence asks to do something, or who takes something over: "tell Nadia to ...". The
sentence is not about this person."""
_ROLE = late_pattern(
    r"^\W*(?P<new>(?:[A-Z][\w'’-]+\s+){1,2})(?:is|are|will\s+be)\s+(?:the|our|my)\s+(?=[a-z])"
)
"""Matches the name of the person to whom a sentence gives a role. "Nadia is the project lead" is about the lead, so the
name is its value."""
_FRAME = late_pattern(
    r"\b(?:hmm|uh|ok|you\s+know\s+what|to-?do|notes?|reminder|ground|rules|scrap|scratch|forget|cancell?(?:ed)?|drop(?:ped)?|ditch|disregard|ignore"
    r"|revoke|lift|undo|stop|change|changed|changes|changing|plans?|correction|update|raise[sd]?|raising|lower(?:ed)?|increased?|reduced?"
    r"|mov(?:e|es|ed|ing)|push(?:ed)?|postponed?|rescheduled?|delayed|slipped|extend(?:ed)?|bump(?:ed)?|shift(?:ed)?|cut|swap(?:ped)?"
    r"|switch(?:ed|ing)?|replaced?|renamed?|migrated?|upgraded?|taken?|taking|took|went|ended|choos\w+|chosen?|thoughts?|rethink"
    r"|fit|room|enough|fine|okay|allowed|permitted|welcome|again|anymore|rule|thing|restriction|instead|rather|earlier|later|longer"
    r"|higher|shorter|these|days|lately|starting|week|month|year|today|tomorrow|tonight|date|hour|default|general|down|up)\b"
    r"|放宽|[减放压砍增扩削缩]到|就?够了?|而已|往[后前][推挪延移]|太[贵远吵小大慢晚早难忙]|偶尔|经常|有时|现在|新的?|计划|变了|变更|更正|调整|时间|日期|推迟|顺延|延期|延长|提前|提到|挪|换人|改|换|降|提高|涨|砍|加到|升级|迁|重新|一下|主意|想法|想了?想|算了|对了|不好意思"
    r"|待办|备注|注意|开始|上个?月|上周末?|下个?月|下周|这周|本周|明天|今天|后天|最后|决定|允许|可以|没问题|取消|作废|收回|规定|规则|都?行|放|更新",
    re.IGNORECASE,
)
"""Matches words, in a sentence that changes something, which do not say what is changed: "now", "instead", 改成."""
_LEFT: tuple[re.Pattern[str], ...] = (
    re.compile(
        r"\b(?:instead\s+of|rather\s+than|no\s+longer|not|forget|from(?=\s+\S+(?:\s+\S+)?\s+to\b)|(?:mov|switch|migrat|chang|shift)\w*\s+(?:\w+\s+){0,3}?(?:away\s+)?from|away\s+from|off|drop(?:ped)?|ditch(?:ed|ing)?"
        r"|cancell?(?:ed)?|scrap(?:ped)?|scratch|left|sold)\s+(?P<old>(?:(?:the|our|my|a|an|in|on|at|to|for|with|using|use)\s+)*"
        r"[\w'’.+#:-]+(?:\s+(?!(?:and|but|to|for|on|in|at|after|we|i|is|are|use|take|with)\b)[\w'’.+#:-]+){0,2})",
        re.IGNORECASE,
    ),
    re.compile(
        r"^\W*(?:the\s+)?(?P<old>[\w'’-]+(?:\s+[\w'’-]+){0,2})\s+(?:is|are|was|were|got)\s+(?:full|taken|sold\s+out|booked\s+\w+"
        r"|too\s+\w+|gone|cancell?ed|off)\b",
        re.IGNORECASE,
    ),
    re.compile(
        "(?:不再|不是|不要|不用|不想|不去|不坐|不铺|不在|不吃|不住|不发给|不|别用|别放|别叫|取消|退(?![款货到回给])掉?|弃用)(?P<old>[^,，。;；了不]{1,10}?)"
        "(?=了|[,，。;；]|$)"
    ),
    re.compile(
        "(?:^|[,，。])(?P<old>[^,，。;；改换]{1,10}?)的?(?:那就|就|都)?(?:取消|作废)(?:了|吧|掉)*(?=[,，。;；]|$)"
    ),
    re.compile(
        "(?:^|[,，。])(?P<old>[^,，。;；]{1,8}?)(?:退|订满|坐满|满|没|太[贵远吵小大慢晚早难])了?(?=[,，。;；]|$)"
    ),
)
_GIVEN: tuple[re.Pattern[str], ...] = (
    re.compile(
        r"\b(?:make\s+(?:it|that)|to(?!\s+be\b)|is|are|was|be|as|with|use|using|take|taking|book(?:ed|ing)?|order(?:ing)?|get(?:ting)?|choos(?:e|ing)|chose"
        r"|call(?:ed)?(?!\s+(?:the|our|my)\b)|named?(?!\s+(?:the|our|my)\b)|(?:call|name)\s+(?:the|our|my)\s+[\w-]+|in|at|from|by|via)"
        r"\s+(?:(?:the|an?|our|my|now)\s+)?[\"“]?"
        r"(?P<new>(?!(?:for|on|in|of|as|from|at|with|by|the)\b)[\w'’.+#-]+"
        r"(?:\s+(?!(?:for|on|in|of|as|from|at|instead|rather|now|by|every|each|when|if|and|but|with|after|before|to|until)\b)[\w'’.+#-]+){0,2})",
        re.IGNORECASE,
    ),
    re.compile(
        "(?:[改换定设调延推降提涨砍加挪搬迁放][成为到用在给]|[改换]了?(?=[^了主人,，。])|就[用定选]|还?是|叫|为|选(?!项)|用(?![户途品处])|订(?![单金])|去(?!年)|坐(?![垫椅具])|铺(?!位)|吃|住(?![址宅户])|走(?![廊道])|买(?!家)|存(?![储款])成?|签(?![名证字])|装(?![修饰])|发给|发(?=[^票货布送消短邮给到件出])|送到|寄到|退[到回])"
        "(?P<new>[^,，。;；]+)"
    ),
)
_OTHERS_WISH = late_pattern(
    r"^\W*(?:and\s+|but\s+)?(?!(?:i|we|you|please|it|that|this|everyone|everybody)\b)(?:[\w'’.-]+\s+){1,3}?(?:wants?|wanted|asks?|asked|says?|said|insists?|expects?"
    r"|demands?|prefers?|thinks?|wonders?)\b|^[^,，我你]{1,8}(?:要求|希望|想要|通知|说|问|觉得|建议)",
    re.IGNORECASE,
)
_FRAGMENT = late_pattern(
    r"(?:and\s+|but\s+|so\s+)?(?:whoever|whatever|no\s+matter|regardless|even\s+if|capped|starting|limited|based|including|excluding|except|with|without|at|on|off|in|by|from|up\s+to|plus"
    r"|max(?:imum)?|min(?:imum)?|at\s+(?:most|least)|no\s+more\s+than|not\s+(?:for|in|on|at|with|to|as))\b(?!.*\b(?:i|we|my|our|you)\b)",
    re.IGNORECASE,
)
_ZH_VERB = late_pattern(
    "[不别勿禁要用是叫住有在对给让请问发做买写看吃喝找改换约付送去来到说记提选订走放会能可得打过爱喜按听养姓负先再每都只统]|必须|一律|默认|最多|至少|以内|以上|电话|地址|[0-9０-９]"
)
_WHATEVER = late_pattern(
    "(?:不管|无论|不论)?(?:是?谁|什么|怎么)[^,，。]{0,8}[都也]不?(?:行|可以|一样|算)?$"
)
"""Matches a Chinese clause that only says that there are no exceptions: 谁来说都不行 ("whoever asks")."""
_ZH_FRAGMENT = 6
"""A Chinese clause without a verb that has at most this many characters only continues the clause before it."""


def common_terms(first: Iterable[str], second: Iterable[str]) -> set[str]:
    """Return the terms of the first set that the second set also has, in the same form or with the same stem."""
    mine, theirs = set(first), set(second)
    shared = mine & theirs
    rest = [term for term in theirs - shared if _has_stem(term)]
    if not rest:
        return shared
    return shared | {
        term
        for term in mine - shared
        if _has_stem(term) and any(_alike(term, other) for other in rest)
    }


def _has_stem(term: str) -> bool:
    return len(term) >= _STEM and term.isascii() and term.isalpha()


def _alike(term: str, other: str) -> bool:
    if term[:_STEM] != other[:_STEM]:
        return False
    shorter, longer = sorted((term, other), key=len)
    stem = shorter[:-1] if len(shorter) > _STEM and shorter[-1] in "eiy" else shorter
    return longer.startswith(stem) and len(longer) - len(stem) <= _STEM


@lru_cache(maxsize=1024)
def named_things(text: str) -> frozenset[str]:
    """Return the values of a text that name a thing, for example KLM in "make the flight KLM"."""
    terms = rule_terms(text)
    return frozenset(terms.value) if _THINGS.intersection(terms.scope) else frozenset()


@lru_cache(maxsize=4096)
def actors_in(text: str) -> frozenset[str]:
    """Return the terms of the people in a sentence who say, want or do something, but are not its subject."""
    found: set[str] = set()
    for match in _ACTOR.finditer(text):
        name = match["zh"] or match["titled"] or match["en"]
        if name.isascii():
            found.add(name.lower())
        else:  # pairs of characters, and the pairs with the characters beside it
            start, end = match.start("zh"), match.end("zh")
            around = text[max(0, start - 1) : end + 1]
            found.update(a + b for a, b in pairwise(around))
    return frozenset(found)


def parts_of(terms: Iterable[str]) -> set[str]:
    """Return English terms whole and Chinese terms as single characters, because pairs of characters rarely match."""
    return {
        part for term in terms for part in ([term] if term.isascii() or term[0] == "=" else term)
    }


@lru_cache(maxsize=1024)
def subject_of(text: str, *, changes: bool = False) -> Subject:
    """Return the subject of a sentence; if the sentence `changes` a rule, only its correcting clauses count."""
    clauses = [clause for clause in _CLAUSES.split(text) if clause.strip()]
    headed = _HEADED.match(text)
    if headed and (topic := _topic_and_value([headed["head"]])[0]):
        given = _terms(headed["new"])
        return Subject(frozenset(topic), frozenset(given - topic), frozenset())
    pointed = _POINTED_AT.match(text)
    if pointed and (topic := _terms(pointed["head"] or pointed["head_en"])):
        given = _terms(pointed["new"] or pointed["new_en"])
        return Subject(frozenset(topic), frozenset(given - topic), frozenset())
    if not changes:
        topic, given = _topic_and_value(clauses)
        return Subject(frozenset(topic - given or topic), frozenset(given), frozenset())
    left: set[str] = set()
    for pattern in _LEFT:
        for found in pattern.finditer(text):
            left |= _terms(found["old"]) | set(rule_terms(found["old"]).value)
    changing = [clause for clause in clauses if _changes(clause)]
    topic, given = _topic_and_value(changing)
    if not topic - left - given and not any(map(named_things, changing)):
        topic, given = _topic_and_value(clauses)
    # A pair of characters across the end of what is left behind names nothing: 家退 of 如家退了.
    signs = {sign for term in left if not term.isascii() for sign in term}
    topic = {term for term in topic if term in left or signs.isdisjoint(term)}
    return Subject(frozenset(topic - left - given), frozenset(given - left), frozenset(left))


def without_frame(text: str) -> str:
    """Return a text without words that only say that something changes, such as "raise", 推迟, 可以."""
    return _FRAME.sub(" ", text)


def begins_alike(text: str, other: str) -> frozenset[str]:
    """Return the terms of the words with which both sentences begin, which are their subject if it is the same."""
    first, second = (_BEGINNING.sub("", each) for each in (text, other))
    length = next(
        (at for at, (one, two) in enumerate(zip(first, second, strict=False)) if one != two),
        min(len(first), len(second)),
    )
    return frozenset(_terms(first[:length])) if length > 1 else frozenset()


def _topic_and_value(clauses: Iterable[str]) -> tuple[set[str], set[str]]:
    topic: set[str] = set()
    given: set[str] = set()
    for clause in clauses:
        announced = _ANNOUNCED.match(clause)
        if announced and (named := _terms(_FRAME.sub(" ", announced["topic"]))):
            topic |= named
            continue
        rest = _STILL.sub(" ", _ADDRESSED.sub(" ", clause))
        patterns = (_ROLE,) if _ROLE.match(rest) else _GIVEN
        for pattern in patterns:
            for found in pattern.finditer(rest):
                given |= _terms(found["new"])
            rest = pattern.sub(_before_value, rest)
        topic |= _terms(_FRAME.sub(" ", rest))
    return topic, given


def _before_value(found: re.Match[str]) -> str:
    """Return the words that name the topic before a value: "call the cat" of "call the cat Tofu"."""
    before = found[0][: found.start("new") - found.start()]
    return before if before.isascii() else " "


@lru_cache(maxsize=4096)
def first_sign(text: str) -> str:
    """Return the first character of the words with which a Chinese sentence frames its value; see `same_frame`."""
    return "" if text.isascii() else _FRAME_BEGIN.sub("", text.strip())[:1]


def same_frame(text: str, other: str) -> bool:
    """Return True if a sentence has the words of an earlier one around another value: 先做安卓版, 还是先做苹果版."""
    new, old = (_FRAME_END.sub("", _FRAME_BEGIN.sub("", each.strip())) for each in (text, other))
    units = (new.split(), old.split()) if new.isascii() else (list(new), list(old))
    shorter = min(map(len, units))
    start = next((at for at in range(shorter) if units[0][at] != units[1][at]), shorter)
    after = (
        at
        for at in range(shorter - start)
        if units[0][len(units[0]) - 1 - at] != units[1][len(units[1]) - 1 - at]
    )
    end = next(after, shorter - start)
    slots = [each[start : len(each) - end] for each in units]
    gap = " " if new.isascii() else ""
    shared = gap.join([*units[0][:start], *units[0][len(units[0]) - end :]])
    value = gap.join(slots[0])
    return (
        all(0 < len(slot) <= _LONGEST_SLOT for slot in slots)
        and len(_WORD_OR_SIGN.findall(shared)) > 1
        and not _changes(value)
        and (bool(start and not new.isascii()) or bool(rule_terms(shared).scope))
    )


_FRAME_BEGIN = late_pattern(
    r"^(?:\W|那|就|请|把|还是|以后|现在|我们的?|咱们|(?:改|换)(?:成|为|用)?|用|(?i:please|actually|let's|we'll|make\s+it|switch\s+to|change\s+(?:it|that)\s+to|use)\b)+"
)
_FRAME_END = late_pattern(
    r"(?:\s+(?i:instead|now|please|after\s+all|from\s+now\s+on)|[吧了好])*\W*$"
)
_WORD_OR_SIGN = late_pattern(r"[A-Za-z]+|[\u4e00-\u9fff]")
_THINGS = frozenset({"@transport", "@drink", "@milk", "@seat", "@phone"})
"""Classes of values that name a thing with details of its own, such as a train with its time."""
_LONGEST_SLOT = 6
"""Most characters, or English words, of the value in which two otherwise equal sentences differ."""
_MEASURES = frozenset("个条元块点号次小分份名位万千天周月年")
"""Measure words, which do not name the counted thing."""


def _changes(clause: str) -> bool:
    return (
        act_of(clause, "en") != "state"
        or act_of(clause, "zh") != "state"
        or is_weak_change(clause, "en" if clause.isascii() else "zh")
    )


def _terms(text: str) -> set[str]:
    return {term for term in rule_terms(text).scope if term[0] != "@" and term not in _MEASURES}


def is_wish_of_others(text: str) -> bool:
    """Return True if a sentence reports what somebody else wants or says: "ops wants a freeze until Thursday"."""
    return _OTHERS_WISH.match(text) is not None


def is_fragment(text: str) -> bool:
    """Return True if a clause only continues the one before it and cannot stand alone: "capped at 10", 橡木色."""
    plain = text.strip().rstrip("。.!！")
    if plain.isascii():
        if plain and len(plain.split()) == 1:
            return True
        return _FRAGMENT.match(plain) is not None
    if _WHATEVER.match(plain):
        return True
    return len(plain) <= _ZH_FRAGMENT and _ZH_VERB.search(plain) is None
