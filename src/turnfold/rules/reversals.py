"""Tells how a later sentence undoes an earlier one: it permits, releases, corrects, replaces or completes it.

Each form is a class, not a list of phrases: a permission may stand before or after what it permits (可以打电话,
电话可以打; "you can call", "calls are fine"), and a replacement names what fails before it names what takes its place
("the Ibis is full, we're staying at the Novotel"). All of them ask that the later sentence has no noun of its own,
which would show that it speaks of another thing: a permission of beer lifts no prohibition of wine.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import lru_cache

from turnfold._lazy_loading import late_pattern
from turnfold.rules.act_classifier import act_of
from turnfold.rules.changed_values import (
    amounts_of,
    another_amount,
)
from turnfold.rules.clauses import (
    DENIES,
    LEADING,
    LIGHT_VERBS,
    LIGHT_WORDS,
    LONGEST,
    clauses_of,
    nouns_of,
    only_in_first,
    shared_beginning,
    units_of,
)

__all__ = (
    "adopts",
    "affirms",
    "alters",
    "chooses_again",
    "corrects",
    "drops",
    "is_exception",
    "lifts",
    "may_lift",
    "names_no_value",
    "releases",
    "restates",
    "speaks_of_once",
    "takes_all_back",
    "takes_the_place",
    "touches_a_part",
)


_ASKS = late_pattern(
    r"[?？]|[吗么呢]\W*$|能不能|可不可以|要不要|是不是|\b(?:can|may|could)\s+(?:i|we)\b.*\?",
    re.IGNORECASE,
)
_AFFIRMS = late_pattern(
    r"(?<![不可])可以|(?<![不可才只])能(?![不够力量源耗否效])|[也都]行(?![程李业为人政])|行了?$|没(?:问题|事|关系)|不介意|允许|解禁"
    r"|还是(?=[^,，。]*?(?:吧|好|$))|无所谓|(?<![A-Za-z])ok(?![A-Za-z])"
    # One word boundary before all of them: at most places of a text this is all that is tried.
    r"|\b(?:(?:is|are|'s|'re)\s+(?:\w+\s+){0,2}?(?:ok(?:ay)?|fine|allowed|permitted|welcome|no\s+problem|possible|acceptable)\b"
    r"|(?:it's|it\s+is|that's)\s+(?:now\s+)?(?:ok(?:ay)?|fine|allowed)\s+(?:to|for|if)\b"
    r"|(?:you|we|they|people|anyone|anybody|everyone)(?:'re\s+allowed\s+to|\s+(?:can|may|could)(?:\s+\w+ly)?)\s+(?!not\b|only\b|never\b)"
    r"|\w+\s+(?:can|may)\s+be\s|go\s+ahead\b|feel\s+free\b|after\s+all\b|actually\s+(?:i|we)\s+(?:do|will)\b)",
    re.IGNORECASE,
)
"""Matches a clause that permits something, or wants something that was not wanted before."""
_CONDITION = late_pattern(
    r"[^,，。可能]{2}[之以]?后(?=[就也都]?(?:可以|能))|(?:只要|如果|要是)[^,，。]{1,20}"
    r"|\b(?:if|as\s+long\s+as|provided|when|once|unless|after\s+(?!all))\b[^,;]{1,60}",
    re.IGNORECASE,
)
_AFFIRMING_WORDS = late_pattern(
    r"可以|能够?|[也都]行|行了|(?:^|\s)[^,，。\s]{1,4}说(?=[^,，。]{2})|没(?:问题|事|关系)|不介意|允许|解禁|无所谓|还是|考虑|接受|试试|直接|偶尔|随便|开始|刚才?|说过?|改(?:主意|变)了?|[两几一二三四五六七八九十\d]+\s?[个款份张瓶杯家位只台本束套间下]"
    r"|\b(?:ok(?:ay)?|fine|allowed|permitted|welcome|problem|possible|acceptable|ahead|free|now|again|with\s+me|by\s+me|actually|explained)\b",
    re.IGNORECASE,
)
_POINTS = late_pattern(
    "(?:的事儿?|这事|那个|这个|那条|那边|这边|方面)$|^(?:刚才?说|之前说|说过|我说过|原来说|前面说)|(?:的话)$"
)
"""Matches a Chinese clause that only names the subject of the next clause: 打电话的事，现在可以打了 ("about the calls:
...")."""
_TIMES = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday morning evening afternoon night weekend week day month"
    " 周末 周 末 晚 早 中 午 夜 上 下".split()
)
_FORBIDDEN = late_pattern(
    r"(?:不要|不许|不准|不能|不得|不用|不必|不需要|不想|不可以|禁止|严禁|避免|切勿|勿|别|不再?|免)(?:再|给我|跟我|在)?(?P<zh>[^,，。;；]+)"
    r"|\b(?:never|don't|do\s+not|must\s+not|mustn't|cannot|can't|shouldn't|won't|no\s+need\s+(?:for|to)|no(?:\s+more)?|not|avoid|without|stop)\s+(?P<en>[^,;.]+)",
    re.IGNORECASE,
)
"""Matches the thing that a prohibition forbids, or that is said not to be needed."""
_RELEASES = late_pattern(
    r"无所谓|不强求|没要求|不要求|不讲究|有没有都行|不必了|不重要|\b(?:does(?:n't|\s+not)|no\s+longer)\s+matters?\b|\bisn't\s+(?:needed|necessary|required)\b"
    r"|\b(?:is|are)\s+optional\b",
    re.IGNORECASE,
)
_ALL = late_pattern(
    r"^\W*(?:please\s+|ok(?:ay)?,?\s+|so\s+)?(?:forget|drop|ignore|scrap|cancel|delete|remove|disregard)\s+(?:about\s+)?(?:all|every|everything)\b"
    r"(?:\s+(?:of|one))*(?:\s+(?:my|the|those|these|our|previous|earlier))*(?:\s+(?:rules?|instructions?|preferences?|restrictions?|i\s+(?:said|told\s+you)))+(?:\s+(?:so\s+far|before|above|earlier))*\W*$"
    r"|^\W*(?:那|就|请|把|我|之前|以前|前面|上面|刚才|说过?|定|提|的)*(?:所有|全部|一切)?的?(?:规则|规矩|要求|限制|约定)(?:全部?|都|统统|一律)"
    r"(?:作废|取消|不算数?|忘掉|忘了|不作数|清空|删掉|删了)(?:了|吧|掉)*\W*$"
    r"|^\W*(?:请|就)?(?:忘掉|忘了|取消|作废|清空|删掉)(?:我|之前|以前|前面|说过?|定|的)*(?:所有|全部|一切)的?(?:规则|规矩|要求|限制|约定)(?:吧|了)*\W*$",
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
_FAILS = late_pattern(
    r"没|不(?!错)|嫌|丢|堵|撞|难|限|休|产假|装修|维修|退休|占|太|偏|满|有[点事些]|问题|到期|贵|慢|远|显|差|请假|离职|病|走了|来了|完了|缺|停|坏|涨价|普通|够|紧|回.{0,4}了|倒闭|调走|临时|出差"
    r"|\b(?:is|are|was|has|have|had|can't|cannot|won't|doesn't|didn't|don't|isn't|no|not|left|quit|shows?|got|too|never|lost|needs?|fell|costs?|moved|retired|broke)\b|'s\s+(?:full|off|out|gone|too|sick|ill)\b",
    re.IGNORECASE,
)
"""Matches words with which a clause says why a choice no longer fits."""
_REFUSED = late_pattern(
    "(?:不(?:同意|喜欢|想要?|要|让|批|想)|反对|讨厌|嫌)(?P<old>[\u4e00-\u9fffA-Za-z0-9]{2,8})"
)
_NUMBER = late_pattern(r"\d[\d.,:]*")
_GIVES_ZH = late_pattern(
    "^(?:所以|那就?|就|只能|只好|还是|以后|直接|都|我们?|咱们?|先)*(?P<verb>[改换挪调加减升降延推提]|从|用|走|住|找|订|看|选|刷|送|发|放|借|租|叫|请|定|去|坐|买|写|存|拿)(?![查问下完过了])(?:[成为到用至走住订看])?(?P<new>[^,，。]{1,24}?)(?:了|吧|好了?|就够|就行|也行)*$"
    "|^(?P<what>[^,，。]{1,8}?)(?:换成?|改成?|交给|由|请)(?P<who>[^,，。]{1,12}?)(?:吧|了|来)*$"
)
_GIVES_EN = late_pattern(
    r"^\W*(?:(?:so|then|instead|let's|please|we'll|we|i'll|i|have\s+to|need\s+to|can\s+only|should|just|will|'ll|are|'re)\W+)*"
    r"(?:(?:use|using|take|get|go\s+with|go\s+for|make\s+it|pick|choose|try|book|order|rent|hire|switch\s+to|give|giving|fly|flying|stay|staying|meet|meeting|host|paint|see|send|put|ask|leave)\b"
    r"|(?P<who>[A-Z][\w'’-]+(?:\s+[A-Z][\w'’-]+)?)\s+(?:takes?|will|is\s+(?:our|the|my|doing)|does|handles?|steps?\s+in|takes\s+over)\b"
    r"|(?:the|my|our)?\s*[\w' ]{2,24}?\s+(?:at|is|are|needs?|for)\b)",
    re.IGNORECASE,
)
_CHANGES_EN = late_pattern(
    r"\b(?:use|take|get|go\s+(?:with|for)|make\s+it|pick|choose|try|switch\s+to)\b", re.IGNORECASE
)
_PREDICATE = late_pattern(
    r"\s*(?:['’]s\s+(?:full|off|out|gone|too|sick|ill|not|no|closed|sold|booked)\b|\W*(?:is|are|was|were|has|have|had|can|can't|cannot|will|won't"
    r"|does|doesn't|do|don't|did|didn't|isn't|aren't|wasn't|left|quit|retired|moved|shows?|got|lost|needs?|costs?|broke|fell"
    r"|closed|no\s+longer|never)\b)",
    re.IGNORECASE,
)
"""Matches the words after the subject of a clause; "Bill's car" and "the green of the buttons" have different
subjects."""
_COUNTED = late_pattern(r"(?P<what>(?:\s+[a-z]+){1,2}?)\s+(?:is|are|was|were|isn't|aren't|won't)\b")
_VERB_EN = late_pattern(r"[A-Za-z]{3,}")
_CHANGING = "改换挪调加减升降延推提用"
_NO_NAME = late_pattern(
    r"\b(?:another|cheaper|better|bigger|smaller|nearer|other|new)\s+one\b|\bone\s+that\b|\bsomething\s+\w+|\bmake\s+it\s+(?:\w+er|more|less)\b|\b(?:find|look\s+for|get)\s+(?:a|an|another|some)\s+\w*er\b"
    r"|太[^,，。]{1,4}[,，]不[^,，。了]{2,12}[。！!]?$"
    r"|找个?(?:一?家)?(?:便宜|近|大|小|好|别的|其他)|换一?[个家种款]?(?:便宜|近|大|小|好|别|其他|浅|深|短|长)[一点]*的?$|再[叫订买找加][一个两]",
    re.IGNORECASE,
)
"""Matches a wish for another thing without its name: "find a cheaper one"."""
_OTHER_MATTER = late_pattern(
    r"话题|改[天日]|换个?[人家法]?(?:想|问|说|衣|口)|[这那第][^,，。]{0,4}[段句页行章]|帮我|看看|查一?下|问一?下|\b(?:subject|topic|paragraph|sentence|explain|why|check)\b",
    re.IGNORECASE,
)
_TOKEN = late_pattern(r"[A-Za-z0-9](?:[\w.'’:%/-]*[\w%])?|[\u4e00-\u9fff]")
_DROPS = late_pattern(
    r"(?:不(?:用|想|打算|准备|再|要|需要)*再?|别再?|先不)(?P<verb>[^,，。不]?)[^,，。不]{0,20}了(?:[。！!吧啊]|$)"
)
"""Matches a clause that says that something is no longer done."""
_DROPPING = late_pattern("不(?:用|想|打算|准备|再|要|需要)*再?|先|别再?|还是|了|算了|那个|以后")
_GENERAL = frozenset("做搞弄办要用去装请上买")
_EMPTY = frozenset(
    "the and our for are was has had that this there then with from you your not its have will all".split()
)
_CHOOSES = late_pattern("还是(?P<verb>[送寄住坐去走找订买吃穿写放])")
_ONCE = late_pattern(
    r"这[周次回天一]|这个(?:月|季度|星期|周末|学期)|本[周次月]|今[天晚早]|明[天晚早]|破例|就这一?次|这[个单条份版篇](?!规|限|要求|约|禁|事|时候)[^,，。]{0,10}(?:可以|[也就]行|没(?:事|关系|问题))|下周[一二三四五六日天]"
    r"|\b(?:this|today'?s?|tonight'?s?|tomorrow'?s?|next)\s+(?:time|once|week|month|mon|tues|wednes|thurs|fri|satur|sun)|\b(?:just|only)\s+(?:this\s+)?once\b|\b(?:today|tonight|tomorrow)(?:'s)?\b|\bthis\s+time\b"
    r"|\bthis\s+(?:one|pr|fix|feature|order|release|commit|ticket)\b(?=.*\b(?:ok(?:ay)?|fine|alright|can|may)\b)",
    re.IGNORECASE,
)
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


_OPENS = late_pattern(
    r"^(?:\W|[\u4e00-\u9fff]{1,4}(?:说|要求|建议)[,，]?|(?:那|就|请|所以|以后|还是|只好|只能|我们?|咱们?)|(?:从)?(?:[下这本明今][个]?)?(?:周[一二三四五六日天]?|月|年|天|学期)(?:起|开始)"
    r"|(?i:so|then|now|well|please|actually|let's|let|we(?:'re|'ll|'ve)?|i(?:'m|'ll|'d)?|it(?:'s)?|is|are|will|the|our|my|a|an|better|just)\b)+"
)
_CLOSES = late_pattern(
    r"(?:\s+(?i:instead|now|please|then|after\s+all|from\s+(?:now|\w+day)(?:\s+on)?|any\s?more|again|these\s+days|this\s+\w+)|[吧了啊呀的]|好了|就行|\W)+$"
)
_HAPPENED = late_pattern(
    r"了(?!解)|[过错]$|嫌|说|老是?|'s\s|\b(?:\w{2,}ed|got|has|have|had|is|are|isn't|won't|can't|doesn't|insists?|wants?|hates?|says?|told|chose|took|left|went)\b",
    re.IGNORECASE,
)
"""Matches a clause that tells what happened, which may be the reason for a new value."""
_STARTING = late_pattern(
    r"(?:从|^)(?:[下这本明今]个?)?(?:周[一二三四五六日天]?|月|年|天|学期)(?:起|开始)|\bfrom\s+(?:\w+day|next\s+\w+|now)\s*(?:on|onwards?)?\W*$",
    re.IGNORECASE,
)
_SWITCHES = late_pattern(r"还是|[改换]|\b(?:actually|instead|rather|after\s+all)\b", re.IGNORECASE)
_PREPOSITIONS = frozenset("at by for from in into of on to under with".split())
_ARTICLES = frozenset(("a", "an", "the", "my", "our", "your", "their"))
_ADDS = late_pattern(
    r"\b(?:also|too(?=\W*$)|as\s+well|and|or|another|both|besides|additionally|only|if|unless|when)\b|[也还]|另外|再|同时|加上|以及|如果|要是|的话|只有|除了",
    re.IGNORECASE,
)
"""Matches a clause that adds something to a rule, or holds only sometimes."""
_NEGATION = late_pattern(
    r"\b(?:do\s+not|don't|never|not|no\s+longer|isn't|aren't|needn't|no)\b|不(?:用|要|必|许|准|再|能|得)?|别再?|没有?|禁止",
    re.IGNORECASE,
)
_FRAME_TOKEN = late_pattern(r"[A-Za-z0-9](?:[\w.'’:%/-]*[\w%])?|[\u4e00-\u9fff]")
_SHORT = 60
"""Most characters of a sentence with one clause that can deny an earlier sentence; a longer one is not compared."""
_LONGEST_VALUE = 6
"""Most words, or Chinese characters, that can be a value in place of another value."""


def restates(later: str, earlier: str) -> bool:
    """Return True if a clause repeats an earlier sentence with another value, or with the opposite of it.

    "Neighbour's away, leave the parcel in the shed", 组里投票了，测试用 unittest 写. Another value needs a reason
    beside it, or a time from which it holds: of some things there are several.
    """
    if _is_other_matter(later[:LONGEST]):
        return False
    told, clauses = clauses_of(earlier), clauses_of(later)
    if len(told) != 1 or len(earlier) > LONGEST or _is_conditional(later):
        return False
    for number, clause in enumerate(clauses):
        if _adds_or_names_nothing(clause):
            continue
        reasons = clauses[:number]
        if _opposes(clause, told[0]) or _gives_another_value(clause, told[0], reasons=reasons):
            return True
        if any(_names_another_for(clause, told[0], reason=each) for each in reasons):
            return True
    return False


def _opposes(clause: str, earlier: str) -> bool:
    """Return True if one of two clauses denies what the other says, and all their other words are the same."""
    if _is_negated(clause) == _is_negated(earlier):
        return False
    mine, theirs = (
        units_of(_NEGATION.sub(" ", _CLOSES.sub("", each))) for each in (clause, earlier)
    )
    words = mine - LIGHT_VERBS
    return len(words) > 1 and not only_in_first(mine, theirs) and not only_in_first(theirs, mine)


def _gives_another_value(clause: str, earlier: str, *, reasons: Sequence[str]) -> bool:
    """Return True if two clauses differ in one value only, and words show that the earlier value ended."""
    (new, new_lower), (old, old_lower) = _words_in_frame(clause), _words_in_frame(earlier)
    if not new or not old or _denies(clause) != _denies(earlier):
        return False
    lower = (new_lower, old_lower)
    shorter = min(map(len, lower))
    start = next((at for at in range(shorter) if lower[0][at] != lower[1][at]), shorter)
    left = range(1, shorter - start + 1)
    end = next((at - 1 for at in left if lower[0][-at] != lower[1][-at]), shorter - start)
    slots = [each[start : len(each) - end] for each in (new, old)]
    if not all(0 < len(slot) <= _LONGEST_VALUE for slot in slots):
        return False
    gap = "" if any(map(_is_han, new)) else " "
    value, before = (gap.join(slot) for slot in slots)
    if any(map(str.isdigit, value)) != any(map(str.isdigit, before)):
        return False
    # The subject is what a sentence begins with; an imperative verb is none.
    shared = lower[0][:start] if gap == "" or _is_subject(earlier) else lower[0][1:start]
    topic = units_of(gap.join([*shared, *lower[0][len(new) - end :]])) - LIGHT_VERBS - LIGHT_WORDS
    if not topic or (start == 0 and not (gap and end and lower[0][-end] in _PREPOSITIONS)):
        return False
    switches = _SWITCHES.search(clause) or _STARTING.search(clause)
    return switches is not None or any(_HAPPENED.search(each) for each in reasons)


def _names_another_for(clause: str, earlier: str, *, reason: str) -> bool:
    """Return True if a reason names the value of an earlier sentence, and a clause gives another one for the same.

    The clause has the word beside that value ("in bed one", 刷黄色), and names the same thing or nothing else.
    """
    if not (_FAILS.search(reason) or _HAPPENED.search(reason)) or DENIES.search(clause):
        return False
    words = [
        each
        for each in _FRAME_TOKEN.findall(_OPENS.sub("", earlier))
        if each.lower() not in _ARTICLES
    ]
    lower = [each.lower() for each in words]
    there = [each.lower() for each in _FRAME_TOKEN.findall(reason) if each.lower() not in _ARTICLES]
    start, stop = _longest_run(lower, there)
    gap = "" if any(map(_is_han, words)) else " "
    value = gap.join(words[start:stop])
    given = {each.lower() for each in _FRAME_TOKEN.findall(clause)}
    if not units_of(value) or len(value) < 2 or start == 0 or value.isdigit():
        return False  # amounts are compared with what they count
    if not given.isdisjoint(lower[start:stop]) or any(map(str.isdigit, value)) != any(
        map(str.isdigit, clause)
    ):
        return False
    beside = {lower[start - 1], *lower[stop : stop + 1]}
    rest = units_of(gap.join([*words[:start], *words[stop:]])) - LIGHT_VERBS - LIGHT_WORDS
    topic = rest - {each for each in beside if each in rest}
    return not beside.isdisjoint(given) and (
        not topic or bool(topic & units_of(clause)) or _begins_with(clause, beside)
    )


def _begins_with(clause: str, words: Collection[str]) -> bool:
    first = _FRAME_TOKEN.search(_OPENS.sub("", clause))
    return first is not None and first[0].lower() in words


def _longest_run(words: Sequence[str], others: Sequence[str]) -> tuple[int, int]:
    """Return where the longest run of words is that other words contain, too."""
    best = (0, 0)
    for start in range(len(words)):
        for at in range(len(others)):
            size = 0
            while (
                start + size < len(words)
                and at + size < len(others)
                and words[start + size] == others[at + size]
            ):
                size += 1
            if size > best[1] - best[0]:
                best = (start, start + size)
    return best


def _is_han(word: str) -> bool:
    return "\u4e00" <= word[0] <= "\u9fff"


def _is_subject(text: str) -> bool:
    """Return True if an English sentence begins with its subject, not with a verb."""
    return re.match(r"(?:the|our|my|we|i|it)\b", text.strip(), re.IGNORECASE) is not None


# A new sentence is compared with every rule, so what depends on one text alone is found once.


@lru_cache(maxsize=512)
def _asks(text: str) -> bool:
    return _ASKS.search(text) is not None


@lru_cache(maxsize=512)
def _is_other_matter(text: str) -> bool:
    """Return True if a sentence asks something, or says that it is about another thing."""
    return _asks(text) or _OTHER_MATTER.search(text) is not None


@lru_cache(maxsize=512)
def _is_conditional(text: str) -> bool:
    return _CONDITION.search(text) is not None


@lru_cache(maxsize=512)
def _adds_or_names_nothing(clause: str) -> bool:
    return bool(_ADDS.search(clause) or _NO_NAME.search(clause))


@lru_cache(maxsize=4096)
def _is_negated(text: str) -> bool:
    return _NEGATION.search(text) is not None


@lru_cache(maxsize=4096)
def _denies(text: str) -> bool:
    return DENIES.search(text) is not None


@lru_cache(maxsize=4096)
def _words_in_frame(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of a clause without what opens and closes it: as they are, and in lower case."""
    words = tuple(_FRAME_TOKEN.findall(_CLOSES.sub("", _OPENS.sub("", text))))
    return words, tuple(word.lower() for word in words)


@lru_cache(maxsize=4096)
def _tokens_in_lower_case(text: str) -> tuple[str, ...]:
    return tuple(found[0].lower() for found in _TOKEN.finditer(text))


def affirms(text: str) -> bool:
    """Return True if a sentence permits something, or asks for it after an earlier refusal."""
    return bool(_affirmed(text))


@lru_cache(maxsize=512)
def _affirmed(text: str) -> tuple[str, ...]:
    """Return the clauses that permit something or want it after all, each with the clause that names the thing."""
    if _asks(text[:LONGEST]) or not _AFFIRMS.search(text[:LONGEST]):
        return ()
    found: list[str] = []
    pointed = ""
    for clause in clauses_of(text):
        if _AFFIRMS.search(clause) and not DENIES.search(_AFFIRMS.sub(" ", clause)):
            found.append(f"{pointed} {clause}" if pointed else clause)
        elif _POINTS.search(clause):
            pointed = _POINTS.sub("", clause)
    return tuple(found)


def _meant(clause: str) -> frozenset[str]:
    return units_of(_AFFIRMING_WORDS.sub(" ", _CONDITION.sub(" ", clause)))


@lru_cache(maxsize=4096)
def _forbidden(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the units (words, characters) of the clause that forbids something, and of the forbidden thing."""
    for clause in clauses_of(text):
        if found := _FORBIDDEN.search(clause):
            told = found["zh"] or found["en"]
            return units_of(clause), units_of(told) or units_of(clause)
    return frozenset(), frozenset()


def lifts(later: str, earlier: str) -> bool:
    """Return True if a sentence permits, or asks for, something that an earlier one forbids or makes unnecessary."""
    return _lifted(later, earlier) == 1


def may_lift(later: str, earlier: str) -> bool:
    """Return True if a sentence permits a part of what an earlier one forbids, or permits without naming a thing."""
    return _lifted(later, earlier) > 0


def _lifted(later: str, earlier: str) -> float:
    there, forbidden = _forbidden(earlier)
    best = 0.0
    for clause in _affirmed(later) if forbidden else ():
        mine = _meant(clause)
        shared = mine - only_in_first(mine, there)
        own = only_in_first(mine, there)
        if not shared - _TIMES and not forbidden <= _TIMES:
            continue  # "call me in the evening" allows no orders in the evening
        own -= LIGHT_WORDS
        if shared - LIGHT_VERBS or shared >= forbidden:
            own -= LIGHT_VERBS
        if not shared or own:
            continue
        covered = len(forbidden) - len(only_in_first(forbidden, shared))
        if 2 * covered < len(forbidden) and not nouns_of(clause) & nouns_of(earlier):
            continue
        best = max(
            best,
            1.0 if 2 * covered >= len(forbidden) and (shared - LIGHT_VERBS or covered) else 0.5,
        )
    return best


def releases(later: str, earlier: str) -> bool:
    """Return True if a sentence says that an earlier request no longer matters: 电梯无所谓了."""
    for clause in clauses_of(later):
        if _RELEASES.search(clause):
            mine = units_of(_RELEASES.sub(" ", clause))
            if (
                mine
                and not only_in_first(mine, units_of(earlier))
                and nouns_of(_RELEASES.sub(" ", clause)) & nouns_of(earlier)
            ):
                return True
    return False


def takes_all_back(text: str) -> bool:
    """Return True if a sentence withdraws all rules at once: "forget all my rules"."""
    return len(text) <= LONGEST and _ALL.match(text) is not None


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


def takes_the_place(later: str, earlier: str) -> bool:
    """Return True if a sentence rejects what an earlier one chose, and names what replaces it.

    "The Ibis is full, we're staying at the Novotel"; 虹桥没直飞，从浦东走吧.
    """
    if _is_other_matter(later[:LONGEST]):
        return False
    clauses = clauses_of(later)
    for number, clause in enumerate(clauses[:-1]):
        named = _named_as_failing(clause, earlier)
        if named and any(_gives_another(each, named, earlier) for each in clauses[number + 1 :]):
            return True
    return False


def _failing(clause: str, earlier: str) -> str:
    """Return the first words of a clause such as "the Ibis is full", if an earlier sentence has them: what it rejects.

    Returns "" if the clause does not say that something fails, or does not begin with such words.
    """
    plain = LEADING.sub("", clause)
    if not _FAILS.search(plain):
        return ""
    tokens = [*_TOKEN.finditer(plain)]
    there = _tokens_in_lower_case(earlier)
    best = ""
    for length in range(1, min(len(tokens), 8) + 1):
        run = tuple(found[0].lower() for found in tokens[:length])
        width = len(run)
        if any(there[at : at + width] == run for at in range(len(there) - width + 1)):
            best = plain[: tokens[length - 1].end()]
        else:
            break
    after = plain[len(best) :]
    if re.match("的(?![太没不偏满已卖])", after) or (
        plain.isascii() and not _PREDICATE.match(after)
    ):
        return ""  # MySQL 的连接数, "Bill's car", "the green of the buttons"
    if not (units_of(best) or any(map(str.isdigit, best)) or (len(best) == 1 and best in "SMLX")):
        return ""  # "it", "we"
    if not best.isascii() and len(best) < 2:
        return ""
    return best


def _named_as_failing(clause: str, earlier: str) -> str:
    """Return the amount, subject or object of an earlier sentence that a clause rejects."""
    if not _refuses(clause):
        return ""
    if named := _failing_amount(clause, earlier) or _failing(clause, earlier):
        return named
    refused = _REFUSED.search(clause)
    if refused and refused["old"] in earlier:
        return refused["old"]
    return ""


@lru_cache(maxsize=512)
def _refuses(clause: str) -> bool:
    """Return True if a clause has words that reject something, whatever it is."""
    patterns = ((_FAILS, clause), (_FAILS, LEADING.sub("", clause)), (_REFUSED, clause))
    return any(pattern.search(text) for pattern, text in patterns)


def _failing_amount(clause: str, earlier: str) -> str:
    """Return the amount of an earlier sentence that a clause calls not enough or too much: 重试 3 次不够."""
    plain = LEADING.sub("", clause)
    if not _FAILS.search(clause) or not _begins_with_the_same(plain, earlier):
        return ""
    there = {found[0] for found in _NUMBER.finditer(earlier)}
    amount = next((found for found in _NUMBER.finditer(clause) if found[0] in there), None)
    if amount is None:
        return ""
    counted = _COUNTED.match(clause, amount.end())
    if counted and only_in_first(units_of(counted["what"]), units_of(earlier)):
        return ""  # "200 flyers are not enough" says nothing about 200 posters
    return amount[0]


def _begins_with_the_same(clause: str, earlier: str) -> bool:
    """Return True if a clause begins with an amount, or with a word of an earlier sentence."""
    found = _TOKEN.search(clause)
    if found is None:
        return False
    if found[0].isascii():
        return found[0][0].isdigit() or found[0].lower() in earlier.lower()
    return bool(shared_beginning(clause, earlier))


def _gives_another(clause: str, named: str, earlier: str) -> bool:
    """Return True if a clause names something in place of the rejected words."""
    word = rf"(?<![\w.]){re.escape(named)}(?!\w)" if named.isascii() else re.escape(named)
    if re.search(word, clause, re.IGNORECASE) or _NO_NAME.search(clause):
        return False
    if any(map(str.isdigit, named)) != any(map(str.isdigit, clause)):
        return False  # 200 takes the place of no name
    is_head = LEADING.sub("", earlier).lower().startswith(named.lower())
    if any("\u4e00" <= sign <= "\u9fff" for sign in clause):
        return _gives_in_chinese(clause, named, earlier, is_head=is_head)
    found, told = _GIVES_EN.match(clause), _raw(clause)
    common = (told & _raw(earlier)) - _raw(named)
    if not found:
        verb = _VERB_EN.match(earlier)
        same = len(common) > 1 or (verb is not None and verb[0].lower() in common)
        return same and bool(told - _raw(earlier))
    if found["who"] or common:
        return True
    return not is_head and _CHANGES_EN.search(clause) is not None


def _gives_in_chinese(clause: str, named: str, earlier: str, *, is_head: bool) -> bool:
    if _AFFIRMS.search(clause) and _NUMBER.search(clause) and _NUMBER.fullmatch(named):
        return True
    topic = shared_beginning(clause, earlier)
    starts = [*range(len(topic), 1, -1), 0] if topic else [0]
    found = next((each for at in starts if (each := _GIVES_ZH.match(clause[at:]))), None)
    if not found or not (found["new"] or found["who"]):
        return False
    if found["who"]:
        return not only_in_first(units_of(found["what"]), units_of(earlier))
    if is_head and not named.isascii() and not _starts_with_value(earlier, named):
        return False  # what a sentence begins with is mostly its topic
    return bool(topic) or found["verb"] in _CHANGING or found["verb"] in earlier


def _raw(text: str) -> set[str]:
    """Return the English words of a text that can name an action: no short words and no contractions."""
    return {
        found[0]
        for found in re.finditer(r"[a-z]{3,}(?!['’])", text.lower())
        if found[0] not in _EMPTY
    }


def _starts_with_value(earlier: str, named: str) -> bool:
    """Return True if a sentence names nothing but the value with which it begins, so that it has no topic."""
    return not units_of(earlier.replace(named, "", 1)) - LIGHT_VERBS


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


def adopts(later: str, earlier: str) -> bool:
    """Return True if a sentence asks for what an earlier one forbids: 改成灰色瓷砖吧 after 不要瓷砖."""
    forbidden = _forbidden(earlier)[1]
    given = {
        each
        for clause in clauses_of(later)
        if not DENIES.search(clause)
        for each in units_of(clause)
    }
    return bool(forbidden) and forbidden <= given


def chooses_again(later: str, earlier: str) -> bool:
    """Return True if a sentence chooses anew with the verb that begins an earlier choice: 还是送家里吧, 送到公司."""
    found = _CHOOSES.search(later[:LONGEST])
    return found is not None and found["verb"] in LEADING.sub("", earlier)[:2]


def touches_a_part(later: str, earlier: str) -> bool:
    """Return True if a sentence changes one of the two things that an earlier sentence names.

    The rule for the other thing stays: "comments in English" after "comments and commit messages in Chinese".
    """
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
    failing = [named for each in clauses_of(later) if (named := _named_as_failing(each, earlier))]
    valued = [
        bool(amounts_of(clause) or _LATIN.search(clause))
        and not any(named in clause for named in failing)
        for clause in clauses
    ]
    return any(has and not new for has, new in zip(valued, changed, strict=True))


@lru_cache(maxsize=512)
def alters(text: str) -> bool:
    """Return True if a sentence has a form that undoes an earlier statement, whatever it said."""
    if len(text) > LONGEST or _asks(text):
        return False
    if _affirmed(text) or _SHOULD_BE.match(text) or _NOT_BUT.search(text) or takes_all_back(text):
        return True
    clauses = clauses_of(text)
    if _RELEASES.search(text) or any(map(_DROPS.search, clauses)):
        return True
    if any(_WRONG.search(clause) for clause in clauses[:-1]) and _RIGHT.search(text):
        return True
    if _NUMBER.search(text) and act_of(text, "en" if text.isascii() else "zh") == "change":
        return True
    if len(clauses) < 2:
        if len(text) > _SHORT or not _NEGATION.search(text):
            return _STARTING.search(text) is not None
        return len(units_of(_NEGATION.sub(" ", text)) - LIGHT_VERBS - LIGHT_WORDS) > 1
    return _FAILS.search(text) is not None or any(map(_HAPPENED.search, clauses[:-1]))


def speaks_of_once(text: str) -> bool:
    """Return True if a sentence is about a single occasion only: "this time", 破例."""
    return _ONCE.search(text) is not None


def is_exception(later: str, earlier: str) -> bool:
    """Return True if a sentence is about one occasion, and an earlier rule about every occasion: 这周的例会取消."""
    return bool(speaks_of_once(later) and not _ONCE.search(earlier) and _ALWAYS.search(earlier))


def names_no_value(text: str) -> bool:
    """Return True if a sentence wants another thing without naming it: "find a cheaper one"."""
    return _NO_NAME.search(text[:LONGEST]) is not None
