"""Tells how a later sentence undoes an earlier one: it permits, releases, corrects, replaces or completes it.

Each form is a class, not a list of phrases: a permission may stand before or after what it permits (可以打电话, 电话可以打;
"you can call", "calls are fine"), and a replacement names what fails before it names what takes its place ("the Ibis is
full, we're staying at the Novotel"). All of them ask that the later sentence has no noun of its own, which would show
that it speaks of another thing: a permission of beer lifts no prohibition of wine.
"""

from __future__ import annotations

import re
from functools import lru_cache

from turnfold._lazy_loading import late_pattern
from turnfold.rules.act_classifier import act_of
from turnfold.rules.subjects import without_frame
from turnfold.rules.topics import class_values, rule_terms

__all__ = (
    "adopts",
    "affirms",
    "alters",
    "chooses_again",
    "completes",
    "corrects",
    "drops",
    "gives_anew",
    "is_exception",
    "lifts",
    "may_lift",
    "names_another",
    "names_no_value",
    "releases",
    "takes_all_back",
    "takes_the_place",
    "touches_a_part",
)


_MEASURES = frozenset("个条元块次份位万千台张件")
_LONGEST = 160
"""Most characters of a sentence that is looked at."""
_CLAUSE = late_pattern(
    r"[，；。！？：]\s*|[,;](?!\d)\s*|[.:!?](?=\s|$)\s*|\s+[-–—]+\s+|\s+(?:so|because|since|and|but)\s+", re.IGNORECASE
)
_ASKS = late_pattern(r"[?？]|[吗么呢]\W*$|能不能|可不可以|要不要|是不是|\b(?:can|may|could)\s+(?:i|we)\b.*\?", re.IGNORECASE)
_AFFIRMS = late_pattern(
    r"(?<![不可])可以|(?<![不可才只])能(?![不够力量源耗否效])|[也都]行(?![程李业为人政])|行了?$|没(?:问题|事|关系)|不介意|允许|解禁"
    r"|还是(?=[^,，。]*?(?:吧|好|$))|无所谓|(?<![A-Za-z])ok(?![A-Za-z])"
    r"|\b(?:is|are|'s|'re)\s+(?:\w+\s+){0,2}?(?:ok(?:ay)?|fine|allowed|permitted|welcome|no\s+problem|possible|acceptable)\b"
    r"|\b(?:it's|it\s+is|that's)\s+(?:now\s+)?(?:ok(?:ay)?|fine|allowed)\s+(?:to|for|if)\b"
    r"|\b(?:you|we|they|people|anyone|anybody|everyone)(?:'re\s+allowed\s+to|\s+(?:can|may|could)(?:\s+\w+ly)?)\s+(?!not\b|only\b|never\b)"
    r"|\b\w+\s+(?:can|may)\s+be\s|\bgo\s+ahead\b|\bfeel\s+free\b|\bafter\s+all\b|\bwill\s+\w+\s+(?:a|an|the)\b",
    re.IGNORECASE,
)
"""Matches a clause that permits, or that wants after all what was not wanted."""
_DENIES = late_pattern(
    r"不(?:可以|能|行|许|准|让|要|得|用)|(?<![级特区类性个分识])别(?![的人处名])|禁止|严禁|没法"
    r"|\b(?:not|never|n't|cannot|no\s+longer)\b|n't\b",
    re.IGNORECASE,
)
_CONDITION = late_pattern(
    r"[^,，。可能]{2}[之以]?后(?=[就也都]?(?:可以|能))|(?:只要|如果|要是)[^,，。]{1,20}"
    r"|\b(?:if|as\s+long\s+as|provided|when|once|unless|after\s+(?!all))\b[^,;]{1,60}",
    re.IGNORECASE,
)
_AFFIRMING_WORDS = late_pattern(
    r"可以|能够?|[也都]行|行了|(?:^|\s)[^,，。\s]{1,4}说(?=[^,，。]{2})|没(?:问题|事|关系)|不介意|允许|解禁|无所谓|还是|直接|偶尔|随便|开始|刚才?|说过?|改(?:主意|变)了?|[两几一二三四五六七八九十\d]+\s?[个款份张瓶杯家位只台本束套间下]"
    r"|\b(?:ok(?:ay)?|fine|allowed|permitted|welcome|problem|possible|acceptable|ahead|free|now|again|with\s+me|by\s+me|actually|explained)\b",
    re.IGNORECASE,
)
_POINTS = late_pattern(
    "(?:的事儿?|这事|那个|这个|那条|那边|这边|方面)$|^(?:刚才?说|之前说|说过|我说过|原来说|前面说)|(?:的话)$"
)
"""Matches a clause that only names what the next one is about: 打电话的事，现在可以打了."""
_LIGHT = frozenset("放加吃喝用买打给坐走上来做发看开拍装请点留订选找住穿带碰动办弄去联系自己")
"""Verbs that say nothing about what is permitted, beside a noun of the prohibition."""
_LIGHT_WORDS = frozenset("use get order hire take have put go buy =call tell write change".split())
_TIMES = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday morning evening afternoon night weekend week day month 周末 周 末 晚 早 中 午 夜 上 下".split()
)
_FORBIDDEN = late_pattern(
    r"(?:不要|不许|不准|不能|不得|不用|不必|不需要|不想|不可以|禁止|严禁|避免|切勿|勿|别|不再?|免)(?:再|给我|跟我|在)?(?P<zh>[^,，。;；]+)"
    r"|\b(?:never|don't|do\s+not|must\s+not|mustn't|cannot|can't|shouldn't|won't|no\s+need\s+(?:for|to)|no(?:\s+more)?|not|avoid|without|stop)\s+(?P<en>[^,;.]+)",
    re.IGNORECASE,
)
"""Matches what a prohibition forbids, or what is said not to be needed."""
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
    r"|^\W*(?:sorry\W+|no\W+|oops\W+)*(?:i\s+(?:got|gave(?:\s+you)?|had|wrote|said)\s+)?(?:the\s+|my\s+|that\s+)?(?P<en>[\w' ]{0,40}?)\s*\b(?:(?:was|is|were)\s+)?(?:wrong|incorrect|mistaken|a\s+typo)\b",
    re.IGNORECASE,
)
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
    r"^\W*(?:(?:actually|sorry|no|so|ok(?:ay)?)\W+)?(?:the|our|my)\s+(?P<what>[\w' ]{2,40}?)\s+should\s+(?:be|read|say)\s+(?P<new>.{1,60})"
    r"|^(?:不对|等等|更正)?[,，]?(?P<what_zh>[^,，。我你]{2,8}?)(?:应该|其实)是(?P<new_zh>[^,，。]{1,30})",
    re.IGNORECASE,
)
_SAID_TO_BE = late_pattern(
    r"^\W*(?:the|our|my)\s+(?P<what>[\w' ]{2,40}?)\s+(?:is|are|was)\s+(?:called\s+|named\s+)?(?P<old>.{1,60})"
    r"|^(?P<what_zh>[^,，。我你]{2,8}?)(?:是|叫|写|为)(?P<old_zh>[^,，。]{1,30})",
    re.IGNORECASE,
)
_FAILS = late_pattern(
    r"没|不(?!错)|休|产假|装修|维修|退休|占|太|偏|满|有[点事些]|问题|到期|贵|慢|远|显|差|请假|离职|病|走了|来了|完了|缺|停|坏|涨价|普通|够|紧|回.{0,4}了|倒闭|调走|临时|出差"
    r"|\b(?:is|are|was|has|have|had|can't|cannot|won't|doesn't|didn't|don't|isn't|no|not|left|quit|shows?|got|too|never|lost|needs?|fell|costs?|moved|retired|broke)\b|'s\s+(?:full|off|out|gone|too|sick|ill)\b",
    re.IGNORECASE,
)
"""Matches words with which a clause says why something no longer fits."""
_REFUSED = late_pattern(
    "(?:不(?:同意|喜欢|想要?|要|让|批|想)|反对|讨厌|嫌)(?P<old>[\u4e00-\u9fffA-Za-z0-9]{2,8})"
)
_NUMBER = late_pattern(r"\d[\d.,:]*")
_GIVES_ZH = late_pattern(
    "^(?:所以|那就?|就|只能|只好|还是|以后|直接|都|我们?|咱们?|先)*(?P<verb>[改换挪调加减升降延推提]|从|用|走|住|找|订|看|选|刷|送|发|放|借|租|叫|请|定|去|坐|买|写|存|拿)(?![查问下完过了])(?:[成为到用至走住订看])?(?P<new>[^,，。]{1,24}?)(?:了|吧|好了?|就够|就行|也行)*$"
    "|^(?:[^,，。]{1,8}?)(?:换成?|改成?|交给|由|请)(?P<who>[^,，。]{1,12}?)(?:吧|了|来)*$"
)
_GIVES_EN = late_pattern(
    r"^\W*(?:(?:so|then|instead|let's|please|we'll|we|i'll|i|have\s+to|need\s+to|can\s+only|should|just|will|'ll|are|'re)\W+)*"
    r"(?:(?:use|using|take|get|go\s+with|go\s+for|make\s+it|pick|choose|try|book|order|rent|hire|switch\s+to|give|giving|fly|flying|stay|staying|meet|meeting|host|paint|see|send|put|ask|leave)\b"
    r"|(?P<who>[A-Z][\w'’-]+(?:\s+[A-Z][\w'’-]+)?)\s+(?:takes?|will|is\s+(?:our|the|my|doing)|does|handles?|steps?\s+in|takes\s+over)\b"
    r"|(?:the|my|our)?\s*[\w' ]{2,24}?\s+(?:at|is|are|needs?|for)\b)",
    re.IGNORECASE,
)
_NO_NAME = late_pattern(
    r"\b(?:another|cheaper|better|bigger|smaller|nearer|other|new)\s+one\b|\bone\s+that\b|\bsomething\s+\w+|\bmake\s+it\s+(?:\w+er|more|less)\b|\b(?:find|look\s+for|get)\s+(?:a|an|another|some)\s+\w*er\b"
    r"|太[^,，。]{1,4}[,，]不[^,，。了]{2,12}[。！!]?$"
    r"|找个?(?:一?家)?(?:便宜|近|大|小|好|别的|其他)|换一?[个家种款]?(?:便宜|近|大|小|好|别|其他|浅|深|短|长)[一点]*的?$|再[叫订买找加][一个两]",
    re.IGNORECASE,
)
"""Matches a wish for another thing that is not named: "find a cheaper one"."""
_OTHER_MATTER = late_pattern(
    r"话题|改[天日]|换个?[人家法]?(?:想|问|说|衣|口)|[这那第][^,，。]{0,4}[段句页行章]|帮我|看看|查一?下|问一?下|\b(?:subject|topic|paragraph|sentence|explain|why|check)\b",
    re.IGNORECASE,
)
_LEADING = late_pattern(
    r"^(?:\W|(?:那|就|这|我们?的?|咱们?的?|老大说了?|等等|算了|不过|但是?|可是|刚才|目前|现在|(?i:but|so|well|sorry|actually|ok(?:ay)?|the|our|my|hmm|no)\b))+"
)
_TOKEN = late_pattern(r"[A-Za-z0-9](?:[\w.'’:%/-]*[\w%])?|[\u4e00-\u9fff]")
_DROPS = late_pattern(
    r"(?:不(?:用|想|打算|准备|再|要|需要)*再?|别再?|先不)(?P<verb>[^,，。不]?)[^,，。不]{0,20}了(?:[。！!吧啊]|$)"
)
"""Matches a clause that says that something is no longer done."""
_DROPPING = late_pattern("不(?:用|想|打算|准备|再|要|需要)*再?|先|别再?|还是|了|算了|那个|以后")
_GENERAL = frozenset("做搞弄办要用去装请上买")
_NUMERALS = frozenset("一二两三四五六七八九十")
_EMPTY = frozenset("the and our for are was has had that this there then with from you your not its have will all".split())
_SCHEDULE = (
    r"每(?:天|日|晚|早|周[一二三四五六日天末]?|星期[一二三四五六日天]?|月|年|季度|小时)|一[天周月](?=[^,，。\d]{0,4}一?次)"
    r"|\b(?:daily|weekly|monthly|hourly|every\s+(?:day|week|month|morning|evening|\w+day)|(?:once|twice)\s+a\s+\w+|on\s+\w+days)\b"
)
_VALUES = late_pattern(_SCHEDULE + r"|早上|上午|中午|下午|晚上|(?:周|星期|礼拜)[一二三四五六日天末]|[$€£¥]?\d[\d.,:/-]*\s*(?:[a-zA-Z%]{1,3}\b|万|千|元|块|点半?|号|月|日|个|台|桌|次|篇|天|人|米|码|秒|分钟?|小时)?|[月日号点半]")
_FILLING = frozenset("成为到够线钱额度数量上限标准元万千块最多少以内只需高低加减放调提降升涨砍压缩延推改换挪到台桌个篇次天人张的就行号月日点工日整") | frozenset(
    "enough only most least cap limit cut trim drop go raise lower bump number amount total =budget max maximum".split()
)
"""Words that say nothing about what an amount is of."""
_AMOUNT = late_pattern(
    r"(?P<before>[$€£¥])?(?P<number>\d[\d.,:]*\d|\d|[一二两三四五六七八九十]+(?=[个台桌次篇天人张条份楼层点]))\s*(?P<unit>[a-zA-Z%]+|[\u4e00-\u9fff])?"
)
_CLASSES = frozenset(
    "@database @cache @code @framework @cloud @indent @packager @theme @color @unit @language @script @tone @format"
    " @spelling @chat @ci @payment @editor @transport @carrier @milk @seat @cabin @drink @currency".split()
)
_WHEN = late_pattern(r"(?:周|星期|礼拜)[一二三四五六日天末]|[今明后]天|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\btomorrow\b", re.IGNORECASE)
_BOUND = late_pattern(
    r"超|以[上下内前后外]|之[前后]|[低高少多早晚大小长短]于|\b(?:before|after|until|than|over|under|above|below|exceed\w*|within|up\s+to)\b",
    re.IGNORECASE,
)
"""Matches words that set a limit: another limit for the same thing replaces it."""
_OFTEN = late_pattern(_SCHEDULE, re.IGNORECASE)
_MAIL = late_pattern(r"[\w.+-]{1,64}@[\w-]{1,64}\.[\w.-]{1,64}")
_UNIT_OF = {
    unit: kind
    for kind, units in {
        "": "before after per a an to for and or in on at each every as 的 吧 了 就 以 之 ， 或 也 一",
        "money": "元 块 万 千 k eur euros usd dollars pounds rmb",
        "time": "点 am pm",
        "date": "号 日 st nd rd th",
        "size": "码",
        "duration": "秒 分 时 小 天 周 ms s sec secs second seconds min mins minute minutes hour hours day days week weeks",
    }.items()
    for unit in units.split()
}
_CHOOSES = late_pattern("还是(?P<verb>[送寄住坐去走找订买吃穿写放])")
_ONCE = late_pattern(
    r"这[周次回天一]|本[周次月]|今[天晚早]|明[天晚早]|破例|就这一次|下周[一二三四五六日天]"
    r"|\b(?:this|today'?s?|tonight'?s?|tomorrow'?s?|next)\s+(?:time|once|week|month|mon|tues|wednes|thurs|fri|satur|sun)|\b(?:just|only)\s+(?:this\s+)?once\b|\b(?:today|tonight|tomorrow)(?:'s)?\b|\bthis\s+time\b",
    re.IGNORECASE,
)
_ALWAYS = late_pattern(
    r"每|都|一律|所有|不|别|总|例|\b(?:every|each|always|never|all|any|don't|no|not|must|weekly|daily|monthly|\w+days)\b", re.IGNORECASE
)
_DONE_ZH = late_pattern(
    "了(?:[。！!~]|$)|已经|[过好完]了|搞定|收到|到了|办妥"
)
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


@lru_cache(maxsize=2048)
def _units(text: str) -> frozenset[str]:
    """Return the words (Chinese: single characters) and values that a text names."""
    terms = rule_terms(text)
    words = {term for term in terms.scope if term[0] not in "@"}
    parts = {part for term in words for part in ([term] if term.isascii() or term[0] == "=" else term)}
    return frozenset((parts | set(terms.value)) - _MEASURES)


@lru_cache(maxsize=2048)
def _nouns(text: str) -> frozenset[str]:
    """Return the words of a text, for Chinese pairs of characters and words with synonyms."""
    return frozenset(
        term
        for term in rule_terms(text).scope
        if term[0] != "@" and (len(term) > 1 or not term.isascii())
    )


def _clauses(text: str) -> list[str]:
    return [clause.strip() for clause in _CLAUSE.split(text[:_LONGEST]) if clause and clause.strip()]


def _alike(first: str, second: str) -> bool:
    """Return True if two English words have the same stem: "texting", "text"."""
    if first == second:
        return True
    if not (first.isascii() and second.isascii() and first.isalpha() and second.isalpha()):
        return False
    short, long = sorted((first, second), key=len)
    return len(short) >= 4 and long.startswith(short[:-1] if short[-1] in "ey" else short) and len(long) - len(short) <= 4


def _only(first: frozenset[str] | set[str], second: frozenset[str] | set[str]) -> set[str]:
    """Return the units of the first set that the second one has in no form."""
    rest = first - second
    return {each for each in rest if not any(_alike(each, other) for other in second)}


def affirms(text: str) -> bool:
    """Return True if a sentence permits something, or wants it after all."""
    return bool(_affirmed(text))


@lru_cache(maxsize=512)
def _affirmed(text: str) -> tuple[str, ...]:
    """Return the clauses that permit something or want it after all, each with the clause that only names it."""
    if _ASKS.search(text[:_LONGEST]):
        return ()
    found: list[str] = []
    pointed = ""
    for clause in _clauses(text):
        if _AFFIRMS.search(clause) and not _DENIES.search(_AFFIRMS.sub(" ", clause)):
            found.append(f"{pointed} {clause}" if pointed else clause)
        elif _POINTS.search(clause):
            pointed = _POINTS.sub("", clause)
    return tuple(found)


def _meant(clause: str) -> frozenset[str]:
    return _units(_AFFIRMING_WORDS.sub(" ", _CONDITION.sub(" ", clause)))


def _forbidden(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the units of the clause that forbids something, and of what it forbids."""
    for clause in _clauses(text):
        if found := _FORBIDDEN.search(clause):
            told = found["zh"] or found["en"]
            return _units(clause), _units(told) or _units(clause)
    return frozenset(), frozenset()


def lifts(later: str, earlier: str) -> bool:
    """Return True if a sentence permits, or wants after all, what an earlier one forbids or does not need."""
    return _lifted(later, earlier) == 1


def may_lift(later: str, earlier: str) -> bool:
    """Return True if a sentence permits a part of what an earlier one forbids, or does not say what it permits."""
    return _lifted(later, earlier) > 0


def _lifted(later: str, earlier: str) -> float:
    there, forbidden = _forbidden(earlier)
    best = 0.0
    for clause in _affirmed(later) if forbidden else ():
        mine = _meant(clause)
        shared = mine - _only(mine, there)
        own = _only(mine, there)
        about = shared - _TIMES or shared if forbidden <= _TIMES else shared - _TIMES
        if not about:
            continue  # "call me in the evening" allows no orders in the evening
        own -= _LIGHT_WORDS
        if shared - _LIGHT or shared >= forbidden:
            own -= _LIGHT
        if not shared or own:
            continue
        covered = len(forbidden) - len(_only(forbidden, shared))
        if 2 * covered < len(forbidden) and not _nouns(clause) & _nouns(earlier):
            continue
        best = max(best, 1.0 if 2 * covered >= len(forbidden) and (shared - _LIGHT or covered) else 0.5)
    return best


def releases(later: str, earlier: str) -> bool:
    """Return True if a sentence says that what an earlier one asks for does not matter: 电梯无所谓了."""
    for clause in _clauses(later):
        if _RELEASES.search(clause):
            mine = _units(_RELEASES.sub(" ", clause))
            if mine and not _only(mine, _units(earlier)) and _nouns(_RELEASES.sub(" ", clause)) & _nouns(earlier):
                return True
    return False


def takes_all_back(text: str) -> bool:
    """Return True if a sentence takes back all rules at once: "forget all my rules"."""
    return len(text) <= _LONGEST and _ALL.match(text) is not None


def corrects(later: str, earlier: str) -> bool:
    """Return True if a sentence says that what an earlier one states is wrong, and what is right."""
    return _corrected(later, earlier) is True


def _corrected(later: str, earlier: str) -> bool | None:
    """The same; None for a correction that names nothing of the earlier sentence."""
    later = later[:_LONGEST]
    if found := _NOT_BUT.search(later):
        old = found["old"] or found["old_zh"]
        return bool(_units(old)) and not _only(_units(old), _units(earlier))
    if (found := _SHOULD_BE.match(later)) and (told := _SAID_TO_BE.match(earlier[:_LONGEST])):
        named, there = (_units(each["what"] or each["what_zh"]) for each in (found, told))
        new, old = found["new"] or found["new_zh"], told["old"] or told["old_zh"]
        alike = _resembles(new, old) or _resembles(old, new)
        return bool(named & there) and (named == there or alike)
    clauses = _clauses(later)
    for number, clause in enumerate(clauses):
        wrong = _WRONG.search(clause)
        right = next((each for each in clauses[number + 1 :] if _RIGHT.search(each)), "")
        if not (wrong and right):
            continue
        named = _units(_REPORTING.sub(" ", (wrong["zh"] or wrong["en"] or "").strip()))
        named = named - {"got", "gave", "said"}
        if named:
            return not _only(named, _units(earlier))
        return None if not _resembles(right, earlier) else True
    return False


def _resembles(first: str, second: str) -> bool:
    """Return True if a sentence repeats most of another one, as one that corrects a part of it does."""
    mine, theirs = _units(first), _units(second)
    return bool(mine) and 3 * len(mine - _only(mine, theirs)) >= 2 * len(mine)


def takes_the_place(later: str, earlier: str) -> bool:
    """Return True if a sentence says why what an earlier one chose does not do, and what takes its place.

    "The Ibis is full, we're staying at the Novotel"; 虹桥没直飞，从浦东走吧.
    """
    if _ASKS.search(later[:_LONGEST]) or _OTHER_MATTER.search(later[:_LONGEST]):
        return False
    clauses = _clauses(later)
    for number, clause in enumerate(clauses[:-1]):
        named = _named_as_failing(clause, earlier)
        if named and any(_gives_another(each, named, earlier) for each in clauses[number + 1 :]):
            return True
    return False


def _failing(clause: str, earlier: str) -> str:
    """Return the words of an earlier sentence with which a clause begins that says that they do not do; "" if none."""
    plain = _LEADING.sub("", clause)
    if not _FAILS.search(plain):
        return ""
    tokens = [*_TOKEN.finditer(plain)]
    there = [found[0].lower() for found in _TOKEN.finditer(earlier)]
    best = ""
    for length in range(1, min(len(tokens), 8) + 1):
        run = [found[0].lower() for found in tokens[:length]]
        width = len(run)
        if any(there[at : at + width] == run for at in range(len(there) - width + 1)):
            best = plain[: tokens[length - 1].end()]
        else:
            break
    after = plain[len(best) :]
    if re.match("的(?![太没不偏满已卖])", after) or re.match(r"['’]s\s+(?!full|off|out|gone|too|sick|ill|not|no\b)|\s+(?:of|in|for|on|at|and|or)\b", after):
        return ""  # MySQL 的连接数, "Bill's car", "the green of the buttons"
    if not (_units(best) or any(map(str.isdigit, best)) or (len(best) == 1 and best in "SMLX")):
        return ""  # "it", "we"
    if not best.isascii() and len(best) < 2:
        return ""
    return best


def _named_as_failing(clause: str, earlier: str) -> str:
    """Return the words of an earlier sentence that a clause says do not do: at its beginning, an amount, or an object."""
    if named := _failing_amount(clause, earlier) or _failing(clause, earlier):
        return named
    refused = _REFUSED.search(clause)
    if refused and refused["old"] in earlier:
        return refused["old"]
    return ""


def _failing_amount(clause: str, earlier: str) -> str:
    """Return the amount of an earlier sentence that a clause about the same thing says does not do: 重试 3 次不够."""
    if not _FAILS.search(clause):
        return ""
    there = {found[0] for found in _NUMBER.finditer(earlier)}
    return next((found[0] for found in _NUMBER.finditer(clause) if found[0] in there), "")


def _gives_another(clause: str, named: str, earlier: str) -> bool:
    """Return True if a clause gives what takes the place of the named words."""
    if re.search(rf"(?<![\w.]){re.escape(named.lower())}(?![\w])", clause.lower()) or (not named.isascii() and named in clause):
        return False
    if _NO_NAME.search(clause) or any(map(str.isdigit, named)) != any(map(str.isdigit, clause)):
        return False  # "another one"; 200 takes the place of no name
    zh = any("\u4e00" <= sign <= "\u9fff" for sign in clause)
    head = _LEADING.sub("", earlier).lower().startswith(named.lower())
    if not zh:
        found = _GIVES_EN.match(clause)
        told = _raw(clause)
        if not found:
            return len((told & _raw(earlier)) - _raw(named)) > 1 and bool(told - _raw(earlier))
        general = re.search(r"\b(?:use|take|get|go\s+(?:with|for)|make\s+it|pick|choose|try|switch\s+to)\b", clause, re.IGNORECASE)
        common = (told & _raw(earlier)) - _raw(named)
        return bool((general or common or found["who"]) and (not head or found["who"] or common))
    if _AFFIRMS.search(clause) and _NUMBER.search(clause) and _NUMBER.fullmatch(named):
        return True
    topic = _shared_beginning(clause, earlier)
    starts = [*range(len(topic), 1, -1), 0] if topic else [0]
    found = next((each for at in starts if (each := _GIVES_ZH.match(clause[at:]))), None)
    if not found or not (found["new"] or found["who"]):
        return False
    if found["who"]:
        return True
    verb = found["verb"]
    changes = verb in "改换挪调加减升降延推提用" or bool(topic)
    if head and named.isascii() is False and not _starts_with_value(earlier, named):
        return False
    return changes or verb in earlier or any(
        pair in earlier for pair in (clause[:2],)
    )


def _shared_beginning(clause: str, earlier: str) -> str:
    """Return the first two or more characters of a clause that an earlier sentence has too: 书房就放张沙发床."""
    length = next((size for size in range(min(len(clause), 8), 1, -1) if clause[:size] in earlier), 0)
    return clause[:length] if _nouns(clause[:length]) else ""


def _raw(text: str) -> set[str]:
    """Return the English words of a text that can name what is done: no short words and no contractions."""
    return {
        found[0] for found in re.finditer(r"[a-z]{3,}(?!['’])", text.lower()) if found[0] not in _EMPTY
    }


def _starts_with_value(earlier: str, named: str) -> bool:
    """Return True if the words with which a sentence begins are all that it names, and so no topic of it."""
    rest = earlier[len(_LEADING.sub("", earlier)) * 0 :].replace(named, "", 1)
    return not _units(rest) - _LIGHT


def drops(later: str, earlier: str) -> bool:
    """Return True if a sentence says that what an earlier one asks for is no longer done: 中央空调不装了."""
    there = _units(earlier)
    for clause in _clauses(later):
        found = _DROPS.search(clause)
        if not found:
            continue
        said = _DROPPING.sub(" ", clause)
        mine, verb = _units(said), found["verb"] or ""
        own = _only(mine, there) - _LIGHT
        named = _nouns(said) & _nouns(earlier)
        if named and 4 * len(own) <= len(mine) and (verb in _GENERAL or verb in earlier):
            return True
    return False


def gives_anew(later: str, earlier: str, *, changes: bool) -> float:
    """Return how surely a sentence gives another amount, time or name for what an earlier one states: 0, 0.5 or 1.

    Both name the same thing and the later one no other thing, and each has one value of the same class.
    """
    clauses = _clauses(later)
    stated = [each for each in _clauses(earlier) if _BOUND.search(each) or not _DENIES.search(each)]
    earlier = "，".join(stated)
    best = 0.0
    lead: frozenset[str] = frozenset()
    for clause in clauses:
        plain = _VALUES.sub(" ", without_frame(_MAIL.sub(" ", clause)))
        others = {each for name, each in class_values(plain).items() if name not in _CLASSES}
        rest = _units(plain) - _FILLING - frozenset[str]().union(*others)
        rest = frozenset(each for each in rest if not each[0].isdigit() and each not in _NUMERALS)
        there = _units(_VALUES.sub(" ", earlier)) | _units(earlier)
        kind = _another_amount(clause, earlier)
        given = _amounts(clause).get(kind, set[str]()) if kind is not None else set[str]()
        rest -= given
        own = _only(rest, there)
        own -= _LIGHT if rest - own else frozenset[str]()
        pairs = {each for each in _nouns(clause) & _nouns(earlier) if len(each) > 1}
        named = pairs or {each for each in rest - own if each.isascii()}
        if lead and not named and not own:
            named = lead
        if named and not own and kind is not None:
            if kind == "often" and not changes:
                continue
            sure = changes and (kind != "often" or "often" in _amounts(earlier))
            special = not changes and _WHEN.search(clause) and not _WHEN.search(earlier)
            best = max(best, 0.0 if special else 1.0 if sure else 0.5)
        begins = _shared_beginning(_LEADING.sub("", clause), earlier)
        lead = _nouns(begins) if begins else frozenset()
    return best


def _another_amount(clause: str, earlier: str) -> str | None:
    """Return the unit or class of which both texts give one value, and not the same one; None if there is none."""
    new, old = _amounts(clause), _amounts(earlier)
    for unit, numbers in new.items():
        plain = unit not in _CLASSES and unit not in ("often", "mail")
        others = old.get(unit, old.get("", set()) if plain and unit else set[str]())
        if not unit and not others:
            told = [each for kind, each in old.items() if kind not in _CLASSES and kind not in ("often", "mail")]
            others = told[0] if len(told) == 1 else others
        if len(others) == 1 and len(numbers - others) == 1:
            return unit
    return None


@lru_cache(maxsize=1024)
def _amounts(text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for each in _MAIL.finditer(text):
        found.setdefault("mail", set()).add(each[0].lower())
    for each in _OFTEN.finditer(text):
        found.setdefault("often", set()).add(each[0].lower())
    for name, values in class_values(text).items():
        if name in _CLASSES:
            found[name] = set(values)
    for each in _AMOUNT.finditer(_MAIL.sub(" ", _OFTEN.sub(" ", text))):
        unit = (each["unit"] or "").lower()
        kind = "money" if each["before"] else _UNIT_OF.get(unit, unit)
        number = each["number"].replace(",", "")
        found.setdefault(kind, set()).add(number + unit if kind == "duration" else number)
    return found


def adopts(later: str, earlier: str) -> bool:
    """Return True if a sentence asks for what an earlier one forbids: 改成灰色瓷砖吧 after 不要瓷砖."""
    forbidden = _forbidden(earlier)[1]
    given = {
        each for clause in _clauses(later) if not _DENIES.search(clause) for each in _units(clause)
    }
    return bool(forbidden) and forbidden <= given


def chooses_again(later: str, earlier: str) -> bool:
    """Return True if a sentence chooses with the verb with which an earlier one begins: 还是送家里吧, 送到公司."""
    found = _CHOOSES.search(later[:_LONGEST])
    return found is not None and found["verb"] in _LEADING.sub("", earlier)[:2]


def completes(report: str, task: str) -> bool:
    """Return True if a sentence reports that a task is done: it names the thing of the task, and no other thing."""
    report = report[:_LONGEST]
    wanted = _TASK_WORDS.sub(" ", task)
    there = _units(wanted) | _units(task)
    for clause in _clauses(report):
        if _NOT_DONE.search(clause):
            continue
        zh = not clause.isascii()
        if not (_DONE_ZH if zh else _DONE_EN).search(clause):
            continue
        plain = _REPORTING.sub(" ", clause) if zh else _without_subject(clause)
        mine = _units(plain)
        own = _only(mine, there) - (_LIGHT_WORDS - {"=call"}) - _REPORTED
        shared = mine - _only(mine, there)
        if own or not shared or (5 if zh else 3) * len(shared) < len(_units(wanted)):
            continue
        nouns = _nouns(plain) & _nouns(wanted) if zh else shared
        whole = frozenset(_units(clause)) <= there
        if nouns or (zh and whole):
            return True
    return False


def names_another(report: str, task: str) -> bool:
    """Return True if all that a report has in common with a task is a verb, a day or half a name."""
    zh = not report.isascii()
    wanted = _TASK_WORDS.sub(" ", task)
    there = _units(task)
    own: set[str] = set()
    told: set[str] = set()
    for clause in _clauses(report):
        if _NOT_NOW.search(clause):
            return True
        plain = _REPORTING.sub(" ", clause) if zh else _without_subject(clause)
        own |= _only(_units(plain), there) - (_LIGHT_WORDS - {"=call"}) - _REPORTED
        told |= _units(clause)
    missing = _only(_units(_REPORTING.sub(" ", wanted) if zh else wanted), told) - _LIGHT_WORDS - _REPORTED
    return bool(own and missing)


_NOT_NOW = late_pattern("[昨前]天的|上[次周个]的|上个月的")
_SUBJECT = late_pattern(
    r"^\W*(?:(?:ok(?:ay)?|good\s+news|update|done|finally)\W+)?(?:(?:the|our|my)\s+(?:client|customer|bank|doctor|boss|team|lawyer)|[A-Z][\w'’-]+)\s+(?=(?:has|have|just|already|finally|got|received|did|sent|paid|signed|bought|wrote|called|booked|took|made|found)\b)"
)


def _without_subject(clause: str) -> str:
    clause = _SUBJECT.sub("", clause)
    return re.sub(
        r"\b(?:got|received|arrived|here|done|finished|finally|final|merged|written|complete[d]?|ready|sorted|sent|paid|bought|booked|made|good)\b",
        " ", clause, flags=re.IGNORECASE,
    )


_LATIN = late_pattern(r"[\u4e00-\u9fff\s][A-Z][A-Za-z0-9]+|^[A-Z]{2,}")
_BOTH = late_pattern(
    r"(?P<first>[\u4e00-\u9fffA-Za-z]{2,8}?)(?:和|跟|与|及|、)(?P<second>[\u4e00-\u9fffA-Za-z]{2,8}?)(?=都|均|一律|全|用|写|走|放|要|不|改|按|$|[,，。])"
    r"|\b(?P<first_en>[A-Za-z][\w-]+(?:\s[a-z][\w-]+)?)\s+and\s+(?:the\s+|our\s+|my\s+)?(?P<second_en>[A-Za-z][\w-]+(?:\s[a-z][\w-]+)?)",
)
"""Matches two things that a sentence names together: 注释和提交信息都用中文写."""


def touches_a_part(later: str, earlier: str) -> bool:
    """Return True if a sentence changes one of two things that an earlier one names together, so that the other stays."""
    said = "，".join(clause for clause in _clauses(later) if "还是" not in clause[1:] or len(_clauses(later)) == 1)
    mine = _units(said)
    if _gives_a_part(later, earlier):
        return True
    for found in _BOTH.finditer(earlier[:300]):
        first, second = (
            _units(found[f"{name}_en"] or "") if found["first_en"] else _units(found[name])
            for name in ("first", "second")
        )
        first, second = first - second, second - first
        if not first or not second:
            continue
        names = [2 * (len(each) - len(_only(each, mine))) >= len(each) + (len(each) > 1) for each in (first, second)]
        if names[0] != names[1]:
            return True
    return False


def _gives_a_part(later: str, earlier: str) -> bool:
    """Return True if a sentence gives another value for one clause of an earlier one, of which another has a value too."""
    clauses = _clauses(earlier)
    if len(clauses) < 2:
        return False
    failing = [named for each in _clauses(later) if (named := _named_as_failing(each, earlier))]
    changed = [_another_amount(later, clause) is not None for clause in clauses]
    valued = [
        bool(_amounts(clause) or _LATIN.search(clause)) and not any(named in clause for named in failing)
        for clause in clauses
    ]
    return any(changed) and any(has and not new for has, new in zip(valued, changed, strict=True))


@lru_cache(maxsize=512)
def alters(text: str) -> bool:
    """Return True if a sentence has a form with which something said before is undone, whatever that was."""
    if len(text) > _LONGEST or _ASKS.search(text):
        return False
    if _affirmed(text) or takes_all_back(text) or _SHOULD_BE.match(text):
        return True
    clauses = _clauses(text)
    if any(_RELEASES.search(clause) for clause in clauses) or _NOT_BUT.search(text):
        return True
    if any(_DROPS.search(clause) for clause in clauses):
        return True
    if any(_WRONG.search(clause) for clause in clauses[:-1]) and _RIGHT.search(text):
        return True
    if _NUMBER.search(text) and act_of(text, "en" if text.isascii() else "zh") == "change":
        return True
    return _FAILS.search(text) is not None and len(clauses) > 1


def is_exception(later: str, earlier: str) -> bool:
    """Return True if a sentence speaks of one occasion only, and an earlier one of every one: 这周的例会取消."""
    return bool(_ONCE.search(later) and not _ONCE.search(earlier) and _ALWAYS.search(earlier))


def names_no_value(text: str) -> bool:
    """Return True if a sentence wants another thing without naming it: "find a cheaper one"."""
    return _NO_NAME.search(text[:_LONGEST]) is not None
