"""Recognises sentences that demand something or give a thing a new value, and questions that do so politely."""

from __future__ import annotations

import re

from turnfold._lazy_loading import late_pattern
from turnfold.rules.act_classifier import UNKNOWN, Language, gives_new_value, score
from turnfold.rules.sentence_clauses import LAYS_DOWN, clause_spans

__all__ = (
    "BESIDE_A_REASON",
    "INSTRUCTS",
    "MARKED",
    "QUESTION",
    "SURE_FORMS",
    "asks_back",
    "asks_for_a_change",
    "best_clause_score",
    "demanding_clause",
    "has_demanding_clause",
    "lasting_part",
    "sets_value",
    "without_opening",
)


_TURNED_INTO = late_pattern(r"变成[^\d〇零一二两三四五六七八九十百千万,，]{2,}了")
"""Matches words for a change that happened by itself and that nobody decided: 小狗变成大狗了."""
_DEMAND = late_pattern("不要|别|不得|不能|不许|禁止|严禁|必须|务必|一定要|只[用能要发做]|每次")
"""Matches a Chinese clause that demands something, even if the rest of the sentence is only the reason for it."""
MARKED: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"\b(?:i|i'?m|i'?d|i'?ve|i'?ll|me|my|we|we'?re|we'?ll|our|us|please|pls|never|always|only|no|not"
        r"|nothing|nobody|don'?t|must|has\s+to|have\s+to|should|let'?s|max|every|all"
        r"|from\s+now|instead|unless|until|before|by|remind|forget|deadline|budget|limit)\b|\d|^(?:and\s+|but\s+|so\s+|also\s+|then\s+|ok(?:ay)?,?\s+)*(?:[a-z]+\s+(?:it|them|the|a|an|your|this|that|everything)|use|keep|write|put|ask|show|call|send|make|go|add)\b",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "[我咱你您要用别不勿改选定换走只每都得请就放记吧]|必须|务必|最[多少好]|以[后内上]|提醒|电话|地址"
        "|[编订号码]号|号是|联系人|邮箱|上限|一律|统一|优先|过敏|[0-9一二三四五六七八九十]+[点号]"
    ),
}
"""Matches a sentence about its author, or one that may demand something."""
BESIDE_A_REASON = 1.0
"""Added to the score that a clause needs to count as a rule, if it lays something down and its reason follows or
precedes it."""
INSTRUCTS: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"^\W*(?:(?:and|so|also|but)\s+)?(?:please\s+(?:always\s+|never\s+|only\s+)?|always\s+|never\s+"
        r"|don't\s+|do\s+not\s+|)"
        r"(?:answer|reply|respond|write|use|keep|address|speak|format|cite|quote|show|give|list|avoid|call)\b"
        r"(?=.*\b(?:answers?|repl(?:y|ies)|always|never|only|briefly|short|in\s+(?:\w+\s+)?[A-Z]\w+|every|no)\b)"
        r"|^(?:(?:So|And|Then|Now)\s+)(?:the|our|my)\s+[\w-]+\s+(?:is|are)\b.*\d"
        r"|^(?:Please\s+)?(?:[Nn]ever|[Aa]lways|[Dd]on't|[Dd]o\s+not)\s+(?!ever|give\s+up|quit|stop|let|lose|be)[a-z]+\s+[^!]*[^!?]$",
    ),
    "zh": re.compile(
        "^(?:请|麻烦)?(?:以后|今后)?(?:回答|回复|说话|答复|报价|价格)|^(?:请|以后|今后)[^,，]{0,6}(?:不要|别"
        "|一律|都|用)"
    ),
}
"""Matches an instruction to the assistant, which is a rule whatever else its message says."""
_OPENING: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"(?:(?:and|but|though|although|also|so|then|plus|well|ok(?:ay)?|alright|all\s+right|oh|ah|hm+"
        r"|actually|wait|sorry|anyway|besides"
        r"|still|however|by\s+the\s+way|btw|you\s+know\s+what|on\s+second\s+thoughts?"
        r"|one\s+(?:more\s+)?thing(?:\s+(?:about|on)\s[^,:.]{1,40})?"
        r"|about\s[^,:.]{1,40}(?=:)|another\s+thing|before\s+that|first\s+of\s+all|for\s+context|fyi"
        r"|to\s+be\s+clear|in\s+that\s+case)\b[\s,:;!.\u2014-]*"
        r"|(?:right|fine|sure|great|nice|cool|good|perfect|thanks|yes|yeah|yep|no|nope|hi|hello|hey|just)\b(?:\s+there)?[,:;!.\u2014-]+\s*){1,4}(?=\w\w)",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "(?:(?:那个|另外|对了|然后|还有|所以|不过|但是|而且|那就|先说好|说好了|那么|其次|最后|总之|顺便说一下"
        "|顺便|哦对)[,，:：]?\\s*"
        "|(?:好的?|行|那|算了|等等|不对|不好意思|想了想|你好|您好|嗨|另|但|可以)[,，:：!！.]\\s*|(?:但|那|也"
        "|就是)(?=[^,，])){1,4}(?=\\w\\w)"
    ),
}
"""Matches words before the sentence proper: "and", "hi,", "on second thought,", 另外."""
_ASKED: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"^\W*(?:(?:and|also|so|please|hey|hi|ok(?:ay)?)\W+)*(?:can|could|would|will)\s+(?:you|u|we)\s+"
        r"(?:(?:please|pls|maybe|just|kindly|mind)\s+)*",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "(?:^|(?<=[,，]))(?:你们?|您|那|麻烦)?(?:能不能|可不可以|能否|可否|可以|麻烦|请(?!问))"
    ),
}
"""Matches words that turn a demand into a question: "could you please"."""
_NOT_DOING = late_pattern(
    r"^\W*not\s+(?:to\s+)?(?!see\b|hear\b|find\b|just\b)([a-z]+?)(?:ing)?\b", re.IGNORECASE
)
_SO_MUCH = late_pattern("^(别|不要)(?:再|老是?|总是?|一直|每次都|动不动就?)+")
"""Matches the beginning of a polite prohibition that says how often the thing happens: 能不能别老道歉了."""
_LASTS: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"\b(?:always|never|only|stop|avoid|remind|from\s+now\s+on|future|forward|(?:every|each)\s+\w+"
        r"|any\s?more|make\s+sure"
        r"|you\s+(?:please\s+)?not\s+(?!see\b|hear\b|find\b|just\b|tell\b|wait\b|remember\b|know\b|understand\b|believe\b)"
        r"|stick|short(?:er)?|brief|keep|call\s+me|mind\s+not|not\s+to|whenever|when\s+you|no\s+more|by\s+default)\b",
        re.IGNORECASE,
    ),
    "zh": re.compile("以后|从现在|今后|每次|都|一直|总是|尽量|不要|别|只用|提醒我|叫我|称呼我"),
}
QUESTION: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"\?\W*$|^\W*(?:(?:and|so|but|ok(?:ay)?|hi|hey|then)\W+)*(?:what(?:'s)?(?!\s+(?:i|we|matters)\b"
        r"|'s\s+(?:left|missing|still))|why|whose"
        r"|how\s+(?:much|many|long|do|does|did|can|is|are|often|come|far|old|big|about)|who(?:'s|\s+(?:is|are"
        r"|was|does|will|can|\w+s))"
        r"|(?:when|where)\s+(?:is|are|was|do|does|did|can|will|would|should)|which\s+(?:one|of|\w+\s+(?:is|are"
        r"|do|does|looks?|would|should|can))"
        r"|(?:is|are|was|were|does|did|isn't|aren't|doesn't)|do\s+(?:you|we|they|i)|(?:should|shall|may|could"
        r"|can|would)\s+(?:i|we|you)"
        r"|(?:is|are)\s+there|any\s+(?:\w+\s+){0,2}(?:left|available|news|idea|update))\b(?!.*[:;])",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "[?？]\\W*$|(?:吗|呢|来着|(?<![绝从决也都可])不|(?<![都也还])没)[。！!~～\\s]*$"
        "|(?P<asked>(?!时|动|管)[\u4e00-\u9fff])[不没](?P=asked)(?![^,，。]*[都也][要行可不得])"
        "|^(?!.*(?:不管|无论|不论|随便|告诉|提醒|记|[都也就][要不行可按用给得是]))[^,，。]*(?:几点(?!建议|要求"
        "|意见|注意|[:：。]|$)|什么时候|啥时候|多久|多少钱|一共多少"
        "|为什么|为啥|怎么(?!都|也)(?<!不怎么)|谁(?!.*谁)(?!都|也)|哪[个家款种里儿一]|几[天年折](?:能|可以|会"
        "|才)|[能要得等]几[天年个]|[能可]用几)"
    ),
}
_ASKS_BACK = late_pattern(
    r"^\W*(?:(?:ok(?:ay)?|and|so|but|wait|hm+|oh|please|can\s+you|could\s+you|just)\b\W*)*"
    r"(?:remind\s+(?:me|us)\s+(?:again\s+)?(?:why|what|when|where|who|whose|how|which|if|whether|of\s+(?:what|why|how|the\s+\w+\s+(?:we|i)))\b"
    r"|(?:tell\s+me\s+again|recap|remember)\s+(?:why|what|when|where|who|how|which)\b"
    r"|what\s+(?:did|was|were|had)\s+(?:we|i|you)\b|why\s+(?:did|do|are|were)\s+we\b|what\s+(?:we|i)\s+(?:said|decided|agreed)\b)"
    r"|^(?:那|对了|等等|话说|再)*(?:请|麻烦)?(?:你|您)?(?:再)?(?:提醒|告诉|说)(?:一下)?(?:我|我们)[^,，。]{0,10}(?:为什么|为啥|什么|怎么|哪|谁|几|多少|来着)"
    r"|(?:我们?|咱们?|你)?(?:之前|上次|刚才|当时|前面)[^,，。]{0,12}(?:为什么|为啥|什么|怎么|哪|谁|几[个点号天]|多少|来着)[^,，。]{0,8}[?？]?$",
    re.IGNORECASE,
)
"""Matches a request to be told again what was said or decided: "remind me why we use Postgres"."""
_ASKS_FOR_CHANGE: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"^\W*(?:(?:and|so|also|hm+|ok(?:ay)?|wait|then)\b\W*)*(?:(?:can|could|may|should)\s+(?:we|i|it|that|they|the\s+\w+)|(?:is|would|will)\s+it\s+(?:be\s+)?possible)\b"
        r".*\b(?:chang\w*|switch\w*|mov\w+|swap\w*|reschedul\w*|postpon\w*|upgrad\w*|cancel\w*|return\w*|exchang\w*)\b",
        re.IGNORECASE,
    ),
    "zh": re.compile("(?:[换改挪调](?:成|为|到|个|一下|一个)|提前到?|推迟到?|延期|取消|退掉?)"),
}
"""Matches, in a question, words for a change of something that the user did not decide: 能换成三文鱼味吗."""
_ASKS: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"^\W*(?:(?:and|so|but|ok(?:ay)?|hm+)\b\W*)*(?:what|which|who|where|when|why|how)\b[^.!]*\?\W*$",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "^(?!.*(?:别|不要|不管|无论|不论|随便|以后|今后|每次|都|记得|提醒|告诉|就|只))[^,，。]*(?:用什么|什么好|刷什么|怎么办|怎么样|几月几号|够吗|没事吧|多少钱|是几[点号])"
        "|^(?!.*(?:别|不要|不管|以后|今后|每次|都|记得|提醒|告诉|就)).*[,，][^,，]{0,6}(?:怎么办|怎么样|没事吧|够吗|多少钱|行吗|好吗|可以吗)[?？]?$"
    ),
}
"""Matches a question that only wants to know something: 地板用什么好, "what are three titles?"."""
_OF_REPLIES = late_pattern(
    r"[你您]|回[答复我]|说话|语[气言]|格式|称呼|以后|今后|每次|都|一直|别|不要|尽量|[中英日法德]文"
    r"|\b(?:always|never|every|from\s+now\s+on|answers?|repl(?:y|ies)|respon\w+|language|format|units?|metric|english|chinese|tone)\b",
    re.IGNORECASE,
)
"""Matches words of a demand on how to answer or what to do from now on, which is one even as a question."""
_ASKED_AFTER: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"^(?=.*\b(?:never|don'?t|do\s+not|no|always|must|only|every|from\s+now\s+on)\b)"
        r"(?!\W*(?:so\s+|and\s+)?(?:shall|should|do|does|did|is|are|was|were|can|could|will|would|has|have|who"
        r"|what|why|how"
        r"|when|where|which|no|everything|all)\b(?!\s+\w+\s+(?:before|after|on|in|at|with|without|for)\b)).*\w"
        r"(?P<tail>[,\s]\s*(?:ok(?:ay)?|alright|all\s+right|got\s+it|understood|please|deal)\s*\?+\W*)$",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "^(?=.*(?:不要|别|不得|不能|禁止|必须|务必|一定要|以后|每次)).*"
        "(?P<tail>[,，]\\s*(?:好吗|好不好|行吗|行不行|可以吗|明白吗|知道吗|记住了吗)[?？]*\\W*)$"
    ),
}
"""Matches a demand that ends like a question: "never do that, ok?"."""
_TOLD_BEFORE: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"^\W*(?P<fact>(?:(?:and|so|hi|hello|hey|also|but|ok(?:ay)?)\b\W*)*(?:i'?m|i\s+am|we're|we\s+are"
        r"|my\s+\w+(?:\s+\w+)?(?:'s|\s+is|\s+are)|i\s+have|my\s+\w+\s+has)\s+"
        r"(?:(?:very|severely|also|both|a|an|strict|type\s+\d)\s+)*(?:allerg\w+|vegetarians?|vegans?|diabetic"
        r"|diabetes|pregnant|co?eliac"
        r"|(?:lactose|gluten)[\s-]\w+|asthma\w*)\b[^,;?]*)\s*(?:[,;]|\s(?:so|and|but)\b)[^?]*\?",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "^\\W*(?P<fact>(?:[^,，。?？]{2,16}[,，])?(?:你好|您好|对了|那)?[,，]?(?:我|我们|我家|[他她]|孩子|宝宝|女儿|儿子|老公|老婆|爱人"
        "|妈妈?|爸爸?|父亲|母亲|老人|客户)[^,，。?？]{0,8}?"
        "(?:对[^,，。?？]{1,10}过敏|吃素|素食|糖尿病|怀孕|孕妇|高血压|哮喘|乳糖不耐受?|(?:不能吃"
        "|不吃(?![饭药了早午晚]))[^,，。?？]{1,8}|忌口[^,，。?？]{0,8})[^,，。?？吗呢]{0,6})"
        "[,，;；][^。]*[?？吗呢]"
    ),
}
"""Matches a question after a lasting fact about the user: "I'm allergic to nuts, do you have anything without?"."""
SURE_FORMS: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        # a choice between two things, a thing ruled out, a free hand
        r"^\W*(?:just|only)\s+(?:give|show|send)\s+me\s+[^,;]+,\s*(?:i\s+don't\s+(?:need|want)|no|not|without|skip)\b"
        r"|\b(?:i|we)'d\s+(?:much\s+)?rather\s+(?!not\s+say|die)\w+\b.*\bthan\b"
        r"|^\W*(?:(?:and|but|so|also|please)\W+)*no\s+(?:(?:more|new|further|extra)\s+)?(?!way|need|problem|idea|one|thanks?)(?:[\w-]+\s+){1,4}(?:please|pls)\b"
        r"|^\W*(?:(?:and|but|so|then)\W+)*(?:you\s+(?:can|may)\s+(?:now\s+)?)?(?!do\b|say\b|think\b)[a-z]+\s+(?:\w+\s+){0,3}?(?:whatever|whichever|however|whenever)\s+you\s+(?:like|want|please)\b"
        r"|^\W*please\s+[a-z]+\s[^?!]*\b(?:each|every)\s+\w+\W*$"
        # an amount that will do, a place where things go, an address in a network
        r"|^\W*(?:(?:ok(?:ay)?|yes|yeah|well|i\s+think|maybe|so)\W+)*(?:\d+|a|an|one|two|three|four|five|six|seven|eight|nine|ten|twelve)\s+(?:[\w-]+\s+){1,3}(?:should|would|will)\s+(?:be\s+(?:ok(?:ay)?|enough|fine|plenty)|do)\b"
        r"|^\W*(?:they|these|those|all\s+\w+|the\s+\w+)\s+(?:go|belong|live)\s+(?:to|in|into|under|on)\s+(?:/|the\s)"
        r"|\b(?:\d{1,3}\.){3}\d{1,3}\b"
        # an allergy of a person who was named before
        r"|^\W*(?:(?:and|but|so|also|no|yes|sorry)\W+)*(?:it'?s\s+(?:\w+\s+){1,3}(?:that\s+)?)?(?:he|she)(?:'s|\s+is)\s+(?:\w+\s+)?allergic\s+to\b[^?]*$"
        r"|^\W*(?:he|she|my\s+\w+)\s+has\s+an?\s+(?:\w+\s+){1,2}allergy\b[^?]*$",
        re.IGNORECASE,
    ),
    # what follows from a reason
    "zh": re.compile(
        "(?:^|[,，])(?:我|他|她|孩子|宝宝|女儿|儿子|老[公婆])[^,，。?？说觉以]{0,2}是对[^,，。?？]{1,10}过敏[^吗呢?？]*$"
        "|(?:^|[,，])所以[^,，我]{0,12}?(?:都|就|也|还)?(?:得(?![到了知意])|必须|只能|一律|务必|不能|不要|别)[^,，。]{2,}"
        "|(?:^|[,，])(?:字|字号|字体|声音|音量|语速)[^,，。]{0,6}(?:得|要|必须|放|调)[^,，。]*(?:大|小|慢|快|高|低|以上|以下)"
    ),
}


def without_opening(text: str, language: Language) -> str:
    """Return a sentence without introductory words such as "and", "by the way", 对了."""
    opening = _OPENING[language].match(text)
    return text[opening.end() :] if opening else text


def sets_value(text: str, language: Language) -> bool:
    """Return True if a sentence gives a new value, with or without its introductory words."""
    if _TURNED_INTO.search(text):
        return False
    return gives_new_value(text, language) or gives_new_value(
        without_opening(text, language), language
    )


def best_clause_score(text: str, language: Language) -> float:
    """Return the score of the clause that most clearly demands something or gives a value, among all clauses.

    The other clauses are its reasons, and may come before or after it.
    """
    clauses = [text[start:end] for start, end in clause_spans(text, language)]
    if len(clauses) < 2:
        return UNKNOWN
    found = [clause for clause in clauses if len(clause) > 3 and LAYS_DOWN[language].search(clause)]
    best = max((score(clause, language) for clause in found), default=UNKNOWN)
    return best - BESIDE_A_REASON


def lasting_part(text: str, language: Language) -> str:
    """Return the lasting part of a question: an instruction ("could you always ...?"), or a fact stated before it.

    Returns "" for a plain question.
    """
    if told := _TOLD_BEFORE[language].match(text):
        return told["fact"]
    if after := _ASKED_AFTER[language].search(text):
        return text[: after.start("tail")]
    if (asked := _ASKED[language].search(text)) and _LASTS[language].search(text):
        plain = _NOT_DOING.sub(r"don't \1", text[: asked.start()] + text[asked.end() :])
        return _SO_MUCH.sub(r"\1", plain).rstrip(" ?？!！吗呢了")
    return ""


def demanding_clause(text: str, language: Language, wanted: float) -> str:
    """Return the clause of a Chinese sentence that demands something, if its score is at least `wanted`; else "".

    Chinese often joins a demand and its reason in one sentence; the reason alone would make the score too low.
    """
    spans = clause_spans(text, "zh") if language == "zh" else []
    clauses = [text[start:end] for start, end in spans]
    found = [clause for clause in clauses if _DEMAND.search(clause)]
    best = max(found, key=lambda clause: score(clause, "zh"), default="")
    return best if len(clauses) > 1 and best and score(best, "zh") >= wanted else ""


def has_demanding_clause(text: str, language: Language) -> bool:
    """Return True if a clause of a sentence demands something or gives a value."""
    plain = without_opening(text, language)
    return any(
        LAYS_DOWN[language].search(plain[start:end]) for start, end in clause_spans(plain, language)
    )


def asks_back(text: str) -> bool:
    """Return True if a sentence only wants to know something, or be told again what was said: it lays nothing down."""
    language: Language = "en" if text.isascii() else "zh"
    return _ASKS_BACK.search(text) is not None or _ASKS[language].search(text) is not None


def asks_for_a_change(text: str, language: Language) -> bool:
    """Return True if a sentence asks whether something can be changed, or what that would cost.

    It decides nothing until the assistant has confirmed it. A question about how to answer ("could you switch to metric
    units?") is a demand.
    """
    if not QUESTION[language].search(text) or _OF_REPLIES.search(text):
        return False
    return _ASKS_FOR_CHANGE[language].search(text) is not None
