"""Recognises requests for one piece of work now ("run the tests", 帮我查一下航班), which are no standing rules.

Such a request is carried out in its own turn. A word such as "always" or 以后, a plural ("show the prices in euros") or
a new value ("change the port to 9000") makes it a lasting rule or a decision; in doubt it counts as one.
"""

from __future__ import annotations

import re

from turnfold._lazy_loading import late_pattern
from turnfold.rules.act_classifier import Language

__all__ = ("asks_a_favour", "edits_a_piece", "is_one_time")


_ONCE: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"^\W*(?:(?:please|pls|ok(?:ay)?|so|and|then|now|next|just|also|right|great|good|yes)\b\W*)*"
        r"(?:(?:give|show|send|tell|get|find|make|write|bring|read|recommend|suggest|list)\s+(?:me|us)\b"
        r"|(?:recommend|suggest|find|list|show)\s+(?:(?:two|three|four|five|\d+|some|a\s+few|another|more)\b)"
        r"|(?:write|draft|prepare|create|compose|generate|port|deploy|run|re-?run|fix|check|put|add|load[- ]?test|try"
        r"|print|summari[sz]e|translate|explain|compare|review|open|merge|retry|repeat|schedule|plan)\s+(?:the"
        r"|a|an|it|that|this|these|those|another|up)\b"
        r"(?!\s+[\w-]+s\s+(?:in|with|as|like|to|by)\b)(?!.*\b(?:in|as|to)\s+(?:[\w-]+\s+)?(?:style|format|case)\b))"
        r"|^\W*(?:(?:and|also|so|yes|then|just)\W+)*(?:please\s+)?(?:transfer|connect)\s+me\s+to\s+(?:a|an|the|your|someone)\b"
        r"|^\W*(?:and|then|but)\s+(?:[\w-]+\s+){0,3}[\w-]+\W*$",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "^(?:好的?[,，]|行[,，]|那|现在|先|再|请|麻烦|你|快|然后|接着)*(?:(?:帮|给"
        "|替)我(?!打电话)(?:再)?(?:推荐|找|看|查|写|列|订|读|讲|算|选|做|画|翻译|总结|整理|发|打个|一[个份下条])"
        "|推荐[一二两三四五几\\d]|(?:给|替|帮)[^,，。我]{1,12}(?:写|发|打)[个一封张份条]|写[一个]|(?:查|看"
        "|翻译|总结|检查|列|读|跑|试|算|确认|改)(?:一|下|两|三|个)"
        "|把[^,，。]{1,12}(?:翻译|总结|整理|列|读|看|查|写|发给我)(?:一|下|出|$|。))"
        "|再(?:跑|试|查|看|给我|来|写|推荐)[^,，。]{0,8}(?:[一两二三]|看)[次遍个家下份]?"
    ),
}
"""Matches a request for one thing now; with a word such as "always" (`_LASTING`), the request counts as a lasting
rule."""
_LASTING: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"\b(?:always|never|every|each|all|any|when|whenever|before|after|unless|from\s+now|until|only|must"
        r"|future|remind|don't|do\s+not|instead"
        r"|due|,\s*i\s+(?:can't|cannot|don't)\s+(?:think|work|count|calculate|read|speak|need|want|understand)|by\s+(?:\w+day|eod|tomorrow|noon|tonight)|no|mornings?|daily|weekly|monthly|(?:mon|tues|wednes|thurs|fri|satur|sun)days)\b",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "以后|今后|每|都|一律|统一|必须|务必|一定|不要|别|提醒|记得|只|凡|之前|前先|默认|尽量|的时候"
        "|改[成为到用在]|换[成到为]|[设定调]为|不再|所有|任何|比[^,，]*[强好]"
    ),
}
_OPENING = (
    r"^\W*(?:(?:please|pls|ok(?:ay)?|so|and|then|now|next|just|also|right|great|good|yes|perfect|sure"
    r"|thanks|alright|first|done|lgtm|(?:that\s+)?looks\s+(?:good|fine)(?:\s+to\s+me)?"
    r"|in\s+that\s+case|go\s+ahead(?:\s+and)?|(?:can|could|would|will)\s+you"
    r"|i\s+(?:want|need|would\s+like)\s+you\s+to|i'd\s+like\s+you\s+to|let's|let\s+us|proceed\s+to"
    r"|try\s+to|start\s+by|quickly)\b\W*)*"
)
"""Matches words before an English request for work: "ok, now please", "I want you to"."""
_DECIDES = (
    r"(?!\W*(?:\w+\W+){0,3}?let(?:'s|\s+us)\s+(?:also\s+|just\s+|then\s+)?(?:add|create|extract|split"
    r"|inline|update|process|apply|merge|import|export|show|delete|remove|undo|revert)\b)"
)
"""Rules out a change that the user proposes, which is a decision: "let's add a sauna"."""
_WORK_ON = (
    r"(?:re-?)?(?:run(?:ning)?|fix|debug|implement|refactor|merge|restart|retry|try(?:ing)?|check(?:ing)?"
    r"|verify|investigate|inspect|search|show|create|add|extract|split|inline|update|process|resend|apply"
    r"|tackle|redo|scan|import|export|reload|squash)"
)
"""Matches an English verb for work on a thing; not one such as "delete", which may undo a rule: "keep the branch"."""
_GO_ON = (
    r"(?:continue|proceed|resume|carry\s+on|keep\s+going|go\s+ahead|start\s+over|try\s+again|commit|push"
    r"|deploy|rebase)(?:\s+(?:it|that|this|now|again|please|then)\b|\W*$)"
    r"|(?:go\s+ahead|proceed|continue)\s+with\s+(?:(?:it|that|this|these|both)\b"
    r"|(?:the|all|both|steps?|actions?)\s+(?:\w+\s+)?(?:changes?|updates?|bookings?|cancellations?"
    r"|exchanges?|returns?|refunds?|upgrades?|modifications?|requests?|process|steps?|\d))"
    r"|(?:work|start\s+work(?:ing)?)\s+on\s+\S|do\s+the\s+same\s+(?:for|in|to)\s+the\b"
    r"|(?:have|take)\s+a(?:nother)?\s+(?:look|stab)\b"
    r"|look(?:ing)?\s+(?:at|into)\s+(?:the|it|that|this|these|those|what|why|how)\b"
)
"""Matches an English request to go on, or to begin with something that was named before."""
_THIS_PLACE = (
    r"\s[^,;]*\b(?:this|that|these|those)\s+(?:\w+\s+)?(?:file|module|class|function|method|test|line"
    r"|branch|commit|script|query|page|section|paragraph|chapter|endpoint|component)s?\W*$"
)
_ONE_THING = (
    r"(?:\s+(?:up|out|back|again|over|through|whether|if))?"
    r"\s+(?:the|a|an|it|that|this|these|those|them|both|another|my|our|[A-Z]*[a-z]*\d\w*|[\w-]+[-.#]\w+)\b"
    r"(?!\s+[\w-]+s\s+(?:in|like|on)\b)"
)
"""Matches the object of a request for work, if it is named as one thing: "the typo", "parser.py"."""
_WORK: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        rf"{_DECIDES}{_OPENING}(?:{_GO_ON}|(?:{_WORK_ON}|send|write|get)\s[^,;]*\bnow\W*$"
        rf"|{_WORK_ON}(?:{_THIS_PLACE}|{_ONE_THING}))",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "^(?:好[的了]?[,，]|行[,，]|可以了?[,，]|没问题[,，]|那就?|现在|马上|赶紧|先|再|请|麻烦|你|您|快|然后|接着|继续|直接|顺便|顺手|下一步|重新)*"
        "(?:继续(?=[,，。！!吧]|$)|(?:提交|推送|合并|重启|执行)(?:一下|上去|到[^,，。]{0,4}分支[^,，。]{0,2})?吧?(?=[,，。！!]|$)"
        "|(?:重?跑|运行|搜|查|修|改|核对|检查|对比|比较|实现|重构|排查|处理|做|弄|导|补|发|加)(?:一下|一遍|一次|[掉好](?=[^的])|第[一二三四五六七八九十\\d]+[个次步轮])"
        "|发(?:[到给]?群里|过来|一份|我一)|把(?:[^,，。]{1,20}?)(?:修[好掉复]|改掉|补[进上齐]|写[上进]|贴[上出到]|加[上进]|导[入出到进]"
        "|推上|(?:合并|拆|重启|重写|重构|重跑|整理|清理|跑|提交|实现)(?=[一下开通好完掉到了吧,，。！!]|$))"
        "|[^,，。]{1,3}[完好](?:了)?再(?:导|跑|推|提交|部署|试)"
        "|(?:接着|开始)[写做改跑查弄](?:第|[^,，。成用]{1,8}$)|按[你您]说的[改做来]吧?[。！!]?$|给[这那][^,，。]{1,6}[补加写](?:一?[个些份]|几个|上)"
        "|我(?:想|要)(?:退|取消|查)掉?(?:一|昨|我|这|那|刚|上))"
    ),
}
"""Matches a request for work on a thing that is named as one thing."""
_LASTS: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"\b(?:style|format|case|order|language|tone|english|french|german|chinese|uppercase|lowercase|prefix|suffix|folder|rather|once"
        r"|not|without|except|per|prefer\w*|noon|midnight|today|tonight|tomorrow|week\w*|month|time|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
        r"|(?:jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)[a-z]*\.?\s+\d|\d\s*(?:am|pm|a\.m|p\.m)|\d:\d|o'clock"
        r"|if|using|use|(?:as|for|with|by)\s|to\s+(?!(?:see|find|check|make|the\s+(?:end|list|file|class|function|page|test))\b)"
        r"|(?:in|of|on|from|at)\s+(?:[a-z-]+\s+){0,1}(?!this\b|its\b|does\b|us\b|tests\b)(?<!the\s)[a-z-]+[^s\W]s)\b|[$€£¥%]",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "先[^,，。]{1,10}[,，]?再|的话|如果|要是|成[^,，。]{1,4}(?:格式|样式|版)|英文|中文|格式|风格|优先|不许|不能|不得|禁止|不准|[一二三四五六日天0-9]点|周[一二三四五六日天末]|\\d号|千万"
    ),
}
"""Matches words that may make a request for work (`_WORK`) a decision or a lasting rule."""
_OF_SEVERAL = late_pattern(
    r"\b(?:to|in|of|for|on|with|from)\s+(?:[a-z-]+\s+){0,1}(?!this\b|its\b|does\b|us\b|(?:the|my|our|your|these|those)\s)[a-z-]+[^s\W]s\W*$",
    re.IGNORECASE,
)
"""Matches an end that speaks of things of a sort: "add a license header to new files"."""
_PIECE_EN = (
    r"(?:(?-i:[\w/-]+\.[a-z]{1,4}\b|\w+_\w+|[a-z]+[A-Z]\w*|\w+\(\))"
    r"|(?:the|an?|that|this|these|those|my|our)\s+(?:[\w-]+\s+){0,3}?(?:file|folder|module|function|class|variable"
    r"|constant|helper|fixture|test|script|branch|commit|import|endpoint|component|button|header|footer|line|paragraph"
    r"|sentence|section|chapter|heading|intro|ending|change|readme|changelog|docstring|migration|column|row|cell|slide|verse)s?\b)"
)
_PIECE_ZH = (
    r"(?:[A-Za-z][\w/-]*(?:\.[a-z]{1,4}\b|_\w+|\(\))|README|(?:[这那]个?|第)[^,，。]{0,4}[段句章节页行列个条处]|函数|方法|变量|参数"
    r"|脚本|分支|常量|模块|按钮|开头|结尾|(?<=[这那个])(?:接口|测试|用例|提交|文件|标题|commit))"
)
_EDITS: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        rf"{_DECIDES}{_OPENING}(?:delete|remove|rename|move|drop|undo|revert|change|rewrite|replace|cut|bump|shorten|tighten|trim"
        rf"|swap|convert)(?:\s+(?:out|back|down|up))?\s+{_PIECE_EN}"
        r"|^(?=.*\bthis\s+time\W*$)\W*(?:(?:and|so|but|please|ok(?:ay)?|just|only)\b\W*)*(?:don't|do\s+not|skip|leave|use|run|show|make|write|no)\b",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        r"^(?:好[的了]?[,，]|行[,，]|那就?|现在|先|再|请|麻烦|你|您|帮我|顺便|直接)*"
        rf"(?:[把将][^,，。]{{0,12}}?{_PIECE_ZH}[^,，。]{{0,24}}?(?:[改删换加补移挪拆缩撤写]|去掉|合并|重命名|回滚|注释掉)"
        rf"|(?:在|给)?[^,，。]{{0,8}}?{_PIECE_ZH}\s*[里中上下后前末]?[面尾]?(?:再|也|就)?[加补插删](?:上|入)?[一个几两点])"
        # what comes first, and a correction of the last answer
        r"|(?:^|[,，])(?:你|那|就|咱们|我们)*先只?(?:跑|看|做|改|测|写|查|修|弄|试|列|讲)(?![^,，。]*[,，]?再)"
        r"|^(?:这|那|写得|还是|有点|嗯|[,，])*太(?:[长短硬干乱细粗]|啰嗦|复杂|正式|生硬)了?[,，](?:再|你|请|就)*(?:压缩|缩|精简|改|重写|写|展开|删)"
        r"|^[^,，。]{0,8}再[^,，。]{1,8}一?点(?:吧|的)?[。！!]?$|^(?:那|就|再)*换[^,，。]{1,10}试试|^先(?:帮|给|替)我"
        r"|^(?:[^,，]{1,8}[,，])?(?:那|就|还是)*[用选要]第[一二三四五六]个(?:吧|好了)?[。！!]?$"
        # an order that is not wanted any more
        r"|^(?:算了|那|就|还是|唉|[,，])*[这那刚才]+一?(?:单|[个笔份]订单|张票)(?:我|就|先|也)*(?:不要|不用|退|取消)"
    ),
}
"""Matches an edit of one piece of code or text, a first step, or words such as "this time".

Such a request is over when it is done; but it may undo what an earlier rule says ("keep the old branch").
"""
_NO_MARK = late_pattern(
    "[特区分个性级类识错]别|别(?=的|[处字])|都(?=[补写发改加修贴合][进上掉好完齐给并])"
)
"""Matches Chinese words that contain a character of `_LASTING`, but say nothing of when a request holds."""
_VALUE = late_pattern("改[成为到用在]|换[成到为]|[设定调]为")
"""Matches Chinese verbs for a new value, which an edit of one piece of code has, too."""
_FOR_ALL = late_pattern("以后|今后|每|都|一律|统一|所有|任何|必须|务必|凡")


def asks_a_favour(text: str, language: Language) -> bool:
    """Return True if a sentence asks the assistant to show, write or look up something: "show me the logs"."""
    if not _ONCE[language].search(text) or _LASTING[language].search(text):
        return False
    return language == "zh" or not _OF_SEVERAL.search(text)


def is_one_time(text: str, language: Language) -> bool:
    """Return True if a sentence asks for one piece of work now, and nothing in it may hold beyond that work."""
    if _ONCE[language].search(text):
        return asks_a_favour(text, language)
    if edits_a_piece(text, language):
        return True
    found = _WORK[language].match(text)
    if found is None or _LASTS[language].search(text, found.end()):
        return False
    plain = _NO_MARK.sub("", text) if language == "zh" else text
    return not _LASTING[language].search(plain)


def edits_a_piece(text: str, language: Language) -> bool:
    """Return True if a sentence asks to edit one piece of code or text, or is about this time only."""
    found = _EDITS[language].search(text)
    if found is None:
        return False
    rest = _VALUE.sub(" ", text[found.end() :])
    return not (_LASTING[language].search(rest) or _FOR_ALL.search(text))
