"""Scores sentences by tables of weights: is it a rule, of which kind, and what does it do to an earlier rule.

An act is what a sentence does: it changes an earlier rule, permits again what the rule forbade, cancels the rule, or
reports a task as done.
"""

from __future__ import annotations

import math
import re
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from turnfold.rules.sentence_features import chinese_features, english_features, has_known_word
from turnfold.rules.standing_rule import RuleAct, RuleKind

__all__ = (
    "KINDS",
    "KIND_SCALE",
    "MIDDLE",
    "SCALE",
    "UNKNOWN",
    "WEIGHTS",
    "Language",
    "act_of",
    "gives_new_value",
    "is_negative",
    "is_weak_change",
    "kind_of",
    "likely_rule",
    "names_nothing",
    "only_cancels",
    "reports_done",
    "says_it_stays",
    "score",
)


Language: TypeAlias = Literal["en", "zh"]
KINDS: tuple[RuleKind, ...] = ("rule", "prohibition", "decision", "preference", "task", "fact")
SCALE = 16
"""Divisor of stored weights: the weight of a feature for "is a rule" is a whole number of sixteenths."""
KIND_SCALE, MIDDLE = 8, 79
"""Encoding of the weight for a kind of rule as one character: `MIDDLE` (code 79) means 0, each further code adds 1 /
`KIND_SCALE`."""
UNKNOWN = -9.0
"""The score of an English sentence of which no word is known."""
WEIGHTS: dict[Language, Path] = {
    "en": Path(__file__).with_name("weights_en.txt"),
    "zh": Path(__file__).with_name("weights_zh.txt"),
}
"""Files of weights, by language: a line for the bias, then per feature its weight for a rule and for each kind."""
_FEATURES = {"en": english_features, "zh": chinese_features}


@cache
def _table(language: Language) -> dict[str, tuple[int, str]]:
    rows = (line.split("\t") for line in WEIGHTS[language].read_text("utf-8").splitlines())
    return {name: (int(keep), kinds) for name, keep, kinds in rows}


def score(text: str, language: Language) -> float:
    """Return the log-odds that a sentence is a standing rule: above 0 more likely than not; -9 if no word is known."""
    table = _table(language)
    names = set(_FEATURES[language](text))
    rows = [table[name] for name in names if name in table]
    if language == "en" and not has_known_word(text):
        return UNKNOWN
    total = sum(keep for keep, _ in rows) / math.sqrt(len(rows) or 1)
    return (total + table[""][0]) / SCALE


def likely_rule(text: str, *, chinese: bool) -> float:
    """Return the probability that a sentence is a standing rule, 0 to 1."""
    return 1 / (1 + math.exp(-score(text, "zh" if chinese else "en")))


def kind_of(text: str, language: Language) -> RuleKind:
    """Return the most likely kind of a sentence that is a standing rule."""
    table = _table(language)
    rows = [table[name][1] for name in set(_FEATURES[language](text)) if name in table]
    length = math.sqrt(len(rows) or 1)
    bias = table[""][1]
    totals = [
        sum(ord(kinds[number]) - MIDDLE for kinds in rows) / length + ord(bias[number])
        for number in range(len(KINDS))
    ]
    return KINDS[totals.index(max(totals))]


_I = re.IGNORECASE
_AMOUNT = r"[^,，。]{0,3}?(?:\d|[〇零一二两三四五六七八九十百千万半几周星每全])"
_MOVED_TO = (
    "(?:放宽|提高|降低|缩短|缩小|缩减|延长|压缩|扩大|增加|减少|推迟|提前|顺延|上调|下调|[加减放调提降升涨砍压缩延推增扩削挪拖])(?:到|至|成|为)"
    + _AMOUNT
)
"""Matches a Chinese verb for a change of amount or time, with the new value: 放宽到 40 万 (relaxed to 400,000), 砍到 15
桌, 推到下周."""
_RAISED_TO = (
    r"\b(?:up|down|back|over)\s+to\s+(?:now\s+)?[$€£¥]?\d|\b(?:can|may|could|should|will|'ll)\s+(?:now\s+)?(?:go|be)\s+(?:up\s+|down\s+)?to\s+[$€£¥]?\d"
    r"|\b(?:capped|limited|raised|lowered|cut|trimmed|reduced|increased|grown|grew|shrunk|dropped|fell|rose)\s+(?:\w+\s+)?(?:to|at)\s+[$€£¥]?\d"
)
"""Matches an English phrase for a change of an amount, with the new amount: "we're down to 28", "capped at 2,500"."""
_ACTS: dict[Language, tuple[tuple[RuleAct, re.Pattern[str]], ...]] = {
    "en": (
        (
            "permit",
            re.compile(
                r"\b(?:is|are|'s|'re)\s+(?:now\s+|also\s+|totally\s+)?(?:ok(?:ay)?|fine|allowed|permitted|welcome)\b"
                r"|\byou\s+(?:may|can)\b[^,;]*\b(?:again|now|after\s+all|from\s+now\s+on)\b|\b(?:ok(?:ay)?|fine)\s+again\b"
                r"|\b(?:it's|it\s+is)\s+(?:now\s+)?(?:ok(?:ay)?|fine|allowed)\s+to\b|\bfeel\s+free\b[^,;]*\bagain\b"
                r"|\byou\s+(?:may|can)\s+(?:now|write|use)\b",
                _I,
            ),
        ),
        (
            "cancel",
            re.compile(
                r"^(?:please\s+|let's\s+|ok(?:ay)?,?\s+)?(?:enough\s+(?:with|of)|i\s+take\s+back|forget|disregard|ignore|scratch|never\s?mind|cancel|undo|lift|scrap|revoke)\s"
                r"+(?!that\b|to\b|it\b)|\b(?:is|are|was|were|been|got)\s+(?:now\s+|all\s+)?(?:cancell?ed|scrapped|called\s+off"
                r"|off\s+the\s+table|dropped|history)\b|\bno\s+longer\b|\bany\s?more\b|\bno\s+need\s+(?:to|for)\b",
                _I,
            ),
        ),
        (
            "change",
            re.compile(
                r"\bactually\b|(?:^|[,;]\s*(?:so\s+|then\s+)?)(?!so\b|then\b|that\b|how\b|what\b|as\b)\w+\s+it\s+is\W*$|\bon\s+second\s+thoughts?|\bchange\s+of\s+plans?|\bscratch\s+that|\binstead\b|\brather\s+than\b"
                r"|\bchang(?:e|ed|es|ing)\b|^(?:no\s+)?wait\b|\bcorrection\b|\bsorry\b|\bswitch(?:ed|ing)?\b|\bswap"
                r"|\breplac(?:e|ed|ing)\b|\brenamed?\b|\bmove[sd]?\b|\bmigrated?\b|\bpush(?:ed)?\b|\bpostponed?\b"
                r"|\breschedul|\bdelayed\b|\bslipped\b|\bextend(?:ed)?\b|\bbump(?:ed)?\b|\braised?\b|\blowered\b|^\W*(?:please\s+|let's\s+|we\s+)?(?:lower|reduce|increase)\s+(?:the|our|my)\b|\bcut\b.*\bto\b"
                r"|\b(?:went|goes|go)\s+(?:up|down)\b|\bupgraded?\b|\btak(?:en|es|ing)\s+over\b|\btook\s+over\b"
                r"|\bmake\s+(?:it|the|my|that)\b|^not\b|\bforget\b|\bdrop(?:ped|ping)?\b|\bditch"
                r"|\bleft\b|\bsold\b|\bin\s+favou?r\s+of\b|\bended\s+up\b|\bdoes(?:n't|\s+not)\s+work\b|\bgone\s+off\b"
                r"|\b(?:is|are|was|were)\s+(?:full|taken|leaving|enough|sold\s+out|booked\s+(?:out|up)|too\s+\w+)\b|\bcancell?ed\b|\bnew\s+\w+(?:\s+\w+)?(?::|\s+is\b)"
                r"|\bmy\s+new\b|\bnot\s+\w+ing\b.*\bafter\s+all\b|\bafter\s+all\b|\boff\s+\w+(?:\s+\w+)?,|\bis\s+better\b"
                r"|\bbetter\s+fit\b|\bdon't\b[^,]*,\s*(?:use|ship|send|take)\b|\bgot\s+room\b|\blet's\s+continue\s+in\b"
                r"|"
                + _RAISED_TO
                + r"|\blonger\b|\bi\s+eat\b|\bstarted\s+a\s+new\b|\bwe\s+can\s+go\s+up\b|\bneed\b.*,\s*not\b",
                _I,
            ),
        ),
    ),
    "zh": (
        (
            "permit",
            re.compile(
                "可以.{0,14}(?:了|也行|都行|一点)|允许.{0,10}了|(?:可以|允许|没问题)了|现在.{0,6}可以"
            ),
        ),
        (
            "cancel",
            re.compile(
                "^(?:请|那就?|就)?(?:取消|撤销|收回|作废|忘掉|忘了)|(?:取消|作废|不算数|不用|不要|不办|不做|不搞)了"
                "|^我(?:现在|已经|早就|以后)*不(?:再)?(?:是|在|吃|喝|住|用|做|养|喜欢|爱|抽).{0,10}了[。！!]?$"
            ),
        ),
        (
            "change",
            re.compile(
                "改|换|跳槽|往[后前][推挪延移]|(?:提前|推迟|延后|延期|顺延)了?[,，]|"
                + _MOVED_TO
                + "|不[^,，。]{0,12}了|不在.{1,8}了|还是.{1,20}(?:吧|好|，)|算了"
                "|推迟|推到|延到|延长|延期|挪|提前到|提到|迁|升[级到]"
                "|涨到|调[到成为]|砍到|加到|降到|不对|等等|不好意思|想了想|取消|(?:退|卖|满|没|弃|腻)了|离职|搬到|接手|变了|要走了"
                "|不是.{1,12}(?:是|[，,]|$)|别(?:用|放|分|叫).{1,10}[，,].|重新|^新的|新(?:日期|电话|地址|号)"
                "|太[贵远吵小大慢晚早难忙].{0,3}[，,]|(?:订|坐|客)满了?|就够|什么.{1,4}都行|(?<![都也])不行[，,]|开始吃|收回|作废|更正"
            ),
        ),
    ),
}
_FORBIDDEN_MOVE = re.compile(
    r"\b(?:never|don't|do\s+not|must\s+not|mustn't|cannot|can't|shouldn't)\s+(?:ever\s+|you\s+|let\s+(?:me|us)\s+)?(?:\w+ly\s+)?(?:push|move|change|switch|drop|cut"
    r"|raise|replace|swap|extend|rename|forget|postpone)\b|\b(?:every|any|each|no|per)\s+(?:\w+\s+)?(?:changes?|moves?|switch|push|cut)\b"
    r"|(?:不[能要得许准可]以?|别|勿|禁止|严禁)(?:随便|擅自|再|私自|给我|乱|更)?(?:[改换挪]|推迟|延期|取消|作废|撤销|撤回|收回|升级|变更)(?![成为到用])"
    r"|每次[^,，。]{0,4}[改换](?![成为到用])|[改换](?:完|好)(?![了成])",
    _I,
)
"""Matches words of change in a sentence that changes no rule: "never push to main", "every change needs a ticket",
地址不能改."""
_WEAK: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"\bnow\b|\bsince\s+(?:last|yesterday|this|\w+day)\b|\bfrom\s+now\s+on\b|\bthese\s+days\b|\blately\b|\bagain\b|\bgoing\s+forward\b|\bstarting\b|\bas\s+of\b"
        r"|\bupdate\b|\brather\b|,\s*not\b",
        _I,
    ),
    "zh": re.compile(
        "[，,](?:别|不用|不要|不在)|现在|以后|最近|今后|接下来|从.{1,4}起|还是|目前|决定"
    ),
}
_DONE: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"^(?:(?:ok(?:ay)?|yes|great|good\s+news|update|finally|all\s+done|done)\W+)?(?!.*\b(?:not|n't|still|yet|need|must"
        r"|should|will|please|never|always|every|if|let's|todo)\b)(?:(?:i|we)(?:'ve|\s+have)?\s+(?:just\s+|already\s+"
        r"|finally\s+|now\s+)*(?:\w+ed|done|sent|paid|bought|got|wrote|written|made|took|taken|found|saw|spoke|met|did|"
        r"gave|put|sold|told|built|ran|read|set|brought)\b|just\s+\w+|\w+ed\b|(?:got|bought|sent|paid|found|saw|wrote|done"
        r"|made|took|met|gave|spoke|told|sold|brought)\s)"
        r"|\b(?:is|are|was|were|'s|'re|got|has\s+been|have\s+been)\s+(?:now\s+|all\s+|already\s+|finally\s+)*(?:\w+ed|done"
        r"|paid|sent|ready|in\b|back|gone|shut|closed|sorted|bought|written|made|taken|up\s+to\s+date|complete|through)\b"
        r"|\bwent\s+out\b|\b(?:submitted|ordered|renewed|booked|shipped|merged|deployed|fixed|paid|done|sorted)[.!]*$",
        _I,
    ),
    "zh": re.compile(
        "(?<!不)(?<!算)(?:好|完|过|上|掉|回来|搞定|到|单|出|下来|关|交|付|买|还|发|删|续|修|取|打|寄|办|签|约|订|退|写|清)了"
        "[。！!~]?$|已经.{1,12}了|过.{0,3}了[。！!]?$|搞定|刚.{0,4}(?:通完|打完|办完|交完|发完)|上去了[。！!]?$|过信了"
    ),
}
_NEGATIVE: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"\b(?:no|not|never|don't|dont|can't|cannot|won't|mustn't|shouldn't|isn't|aren't|nothing|nobody|none|without|avoid"
        r"|stop|skip|refrain|banned|forbidden|prohibited|off[\s-]limits|hate|dislike|quit)\b",
        _I,
    ),
    "zh": re.compile("不|(?<![级特区类性个分识])别(?![的人处名])|勿|禁|严禁|避免|没|讨厌|拒绝|免"),
}


_STAYS: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"\b(?:stays?|remains?|keep|leave|is|are)\b.*\b(?:the\s+same|as\s+(?:it\s+|they\s+)?(?:is|are|was|were)|unchanged"
        r"|untouched|as\s+before|put)\b|\bno\s+changes?\b|\b(?:doesn't|don't|won't|not)\s+change\b|\bunaffected\b",
        _I,
    ),
    "zh": re.compile(
        "不变|照旧|照常|照原来|原样|不用[改换动变]|不需要[改换动变]|(?:别|不要)[动变](?:它)?$|维持|老样子|依旧|跟(?:之前|原来|以前)一样"
    ),
}
_NAMES = re.compile(
    r"(?!(?:there|that|it|this|so|please|all|of|course)\b)\b[a-z]{2,}|[\u4e00-\u9fff]{2}", _I
)
_NEW_VALUE: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"^\W*(?:(?:ok(?:ay)?|so|and|but|no|wait|sorry|actually|on\s+(?:second\s+thoughts?|reflection)|please|let's|we'll|you\s+can)\b\W*)*"
        r"(?:make\s+(?:it|that)\s+(?!through|happen|count|last|up|out|on|in|so|all)\w"
        r"|make\s+(?:the|my|our|that)\s+(?!most|best|effort|point|time|world|day|trip|choice|decision)\w+\s+\w"
        r"|(?:change|switch|set|bump|raise|lower|move)\s+(?:the|my|our|that|it|this|\w+s)\s+(?:[\w'-]+\s+){0,4}?to\s+\w|switch\s+to\s+\w"
        r"|\w+\s+[^,;!]*\binstead\W*$)"
        # what was not so before
        r"|^\W*(?:(?:so|and|but|well)\W+)?i\s+(?:do|can|now|may)\s+\w+\s+[^,;!?]*\b(?:now(?:adays)?|these\s+days|again|after\s+all)\W*$",
        _I,
    ),
    "zh": re.compile(
        "(?:[改换变调挪延降涨升加减缩切推]|推迟|提前|延期|延长|放宽|提高|降低)(?:成|为|到|用|至|在)[^,，。了吧]|"
        + _MOVED_TO
        + ""
        "|[改换](?:[用订买走发寄送坐住吃喝叫存从退签约放选穿看找按报给去]|(?=[A-Z]))(?!的|一下)[^,，。]"
        "|^(?:那|就|我|我们|咱们?|都|先|把)*换(?![了个成为到人一两几下班气])[^,，。]{2,6}吧?[。！!]?$"
        "|还是(?:先|就|都|走|改|换|直接)*(?:[用订选坐去走发寄送住吃喝放买叫要停装点写做在到按给找开穿拿约办寄付报]|部署|采用|安排)"
        "[^,，。]+(?:吧|好了?)[。！!]?$"
        # what was not so before
        "|^(?:我|我们|现在我|我现在|现在)[^,，。]{0,4}(?:能|会|可以|开始|又|也)[^,，。]{0,2}[吃喝用做开抽住养学喜爱]?[^,，。]{1,8}了(?=[,，。！!]|$)"
        "|(?:^|[,，])我们?(?!.{0,2}(?:知道|说|聊|玩|行|管|记得|想|买))[^,，。]{0,8}(?:不再?|戒)[^,，。了]{1,8}了[。！!]?$"
    ),
}
"""Matches words of change together with the new value: "make it Thursday", 改成京东, 还是坐高铁吧."""
_NO_VALUE: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"\b(?:subject|topic|trains|lanes|seats|places|clothes|channels?|gears)\b|\b(?:it|that)\s+(?:work|stop|better|clear|sound|look|happen|up|quick\w*"
        r"|fast\w*|short\w*|simple\w*|nicer|cleaner|easier)\b|\b(?:this|that|the\s+(?:first|second|third|last|next))\s+(?:sentence|paragraph|line|word|page|section|function|variable)\b",
        _I,
    ),
    "zh": re.compile(
        "话题|改[天日](?:再|聊|见)|换[衣口]|换位|[这那第][^,，。]{0,4}(?:段|句|页|行|字|个词|函数|变量|一版|张图)[^,，。]{0,6}[改换]|改得|改好|一下[。！!]?$"
    ),
}
"""Matches words of change that concern what is being discussed or worked on now, and no rule: "let's change the
subject", "change trains"."""
_TAKES_BACK: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"^(?:\W|\b(?:please|ok(?:ay)?|so|and|actually|let's|you\s+can|just)\b)*(?:enough\s+(?:with|of)|i\s+take\s+back|forget|disregard|ignore|scratch|never\s?mind"
        r"|cancel|undo|lift|scrap|revoke|drop|ditch|withdraw|remove)\b[^,;]*$"
        r"|\b(?:rule|restriction|ban|limit|thing|instruction|requirement|request|condition|preference)\b[^,;]*"
        r"\b(?:no\s+longer|not|doesn't|any\s?more|off|void|lifted|gone|cancell?ed|dropped|over)\b[^,;]*$",
        _I,
    ),
    "zh": re.compile(
        "^(?:请|那就?|就|把|之前|刚才|上次|前面|我)*[^,，;；]*(?:作废|取消|撤销|收回|不算数?|当我没说|别管|不用管|忘掉|忘了|不作数|忽略|失效)"
        "(?:了|吧|掉)*[。！!.]?$"
    ),
}
"""Matches a sentence that only withdraws an earlier rule and puts nothing in its place."""


def says_it_stays(text: str, language: Language) -> bool:
    """Return True if a clause says that something stays as it is, so that the clause changes no rule."""
    return _STAYS[language].search(text) is not None


def names_nothing(clause: str, language: Language) -> bool:
    """Return True if a clause says that something stays, without naming the thing: "no change there", 不变."""
    return _NAMES.search(_STAYS[language].sub("", clause)) is None


def only_cancels(text: str) -> bool:
    """Return True if a sentence withdraws an earlier rule and says nothing else."""
    return any(pattern.search(text) for pattern in _TAKES_BACK.values())


def act_of(text: str, language: Language) -> RuleAct:
    """Return the effect of a user's sentence on an earlier rule: change, permit, cancel, done, or "state" for none."""
    text = _FORBIDDEN_MOVE.sub("never", text)
    for act, pattern in _ACTS[language]:
        if pattern.search(text):
            return act
    return "state"


def gives_new_value(text: str, language: Language) -> bool:
    """Return True if a sentence changes something and gives the new value, which must not be lost."""
    found = _NEW_VALUE[language].search(_FORBIDDEN_MOVE.sub("never", text))
    return found is not None and not _NO_VALUE[language].search(text)


def is_weak_change(text: str, language: Language) -> bool:
    """Return True if a sentence says how things are "now" or "again": it may replace a rule or be a new one."""
    return _WEAK[language].search(text) is not None


def reports_done(text: str, language: Language) -> bool:
    """Return True if a sentence reports, by its form, that a task is done ("I have sent it")."""
    return len(text) <= 120 and _DONE[language].search(text) is not None


def is_negative(text: str, language: Language) -> bool:
    """Return True if a sentence forbids or denies something."""
    return _NEGATIVE[language].search(text) is not None
