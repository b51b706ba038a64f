"""Reads a short answer together with the assistant's words that it answers: "yes, do that", "the second one", 周四.

Such an answer says nothing alone. Here it is found which proposal of the assistant it adopts, which item of a list it
picks, or which question it answers. Only the assistant's own proposals and questions count: what the assistant quotes,
or reports from a page, a file or a tool, cannot be adopted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from turnfold._lazy_loading import late_pattern
from turnfold.rules.own_words import BLANK, OwnSentence, own_sentences
from turnfold.text import plain_characters

__all__ = ("ShortAnswer", "read_answer")


class ShortAnswer(NamedTuple):
    """A sentence of the user, and the words of the assistant that it answers."""

    start: int
    end: int
    answers: str
    """The assistant's words: a proposal, an item of a list or a question."""
    meaning: str
    """Full meaning of the user's answer: the adopted part of `answers`, or the question together with the answer."""
    is_explicit: bool
    """True if the meaning counts as a rule without cue words of a rule: it was recommended, picked or asked for."""
    adopts: bool
    """True if the answer adopts words of the assistant; False if it answers a question in the user's own words."""


_LONGEST_ANSWER = 120
_MOST_SENTENCES = 3
_LONGEST_ANSWERED = 6_000
"""Most characters of the assistant's message that are searched for a proposal; of a longer message only the end is
read."""
_LONGEST_SHOWN = 240
"""Most characters of the assistant's proposal that are kept with the rule which the user's agreement makes of it."""
_SHORT_WORDS, _SHORT_HAN = 5, 12
"""Most words, or Chinese characters, of a bare answer to a question."""

_AGREES = late_pattern(
    r"(?:(?:yes|yep|yeah|yup|sure|ok(?:ay)?|fine|great|perfect|good|nice|absolutely|definitely|exactly|of\s+course|please|right|alright"
    r"|you(?:'re|\s+are)\s+right|agreed|i\s+agree|deal|sounds\s+(?:good|great|fine|right|perfect)|(?:that\s+)?works(?:\s+for\s+me)?|that(?:'s|\s+is)\s+(?:fine|good|ok(?:ay)?|perfect|great|a\s+good\s+idea)"
    r"|good\s+idea|go\s+ahead|go\s+for\s+it|(?:let's\s+)?(?:please\s+)?(?:do|go\s+with|use|take)\s+(?:that|it|this|so)|(?:do\s+it\s+)?(?:that|this)\s+way|like\s+that|(?:let's\s+)?do\s+so|as\s+you\s+(?:suggest(?:ed)?|propose[d]?|say|said)"
    r"|with\s+(?:that|me)|(?:for|to)\s+me|thanks?(?:\s+you)?|then)\b"
    r"|好[的啊呀嘞]?|行[的啊]?|可以的?|嗯+|对的?|是的?|要的?|需要|同意|赞成|没问题|(?<![a-z])ok(?![a-z])|成|妥|没意见"
    r"|就?(?:按|照|听)你?(?:的|们的|说的|的建议|的意思)(?:来|办|做|定)?|就?(?:先)?(?:这样|这么)(?:办|定|做|干|来|吧)?|就?(?:用|选|定|要)?(?:这个|这款|它)|定[了吧]|有道理|谢谢[你您]?|麻烦[你您]?了|那就?|那好|就|[吧了啊呀哦哈]"
    r"|\W)+",
    re.IGNORECASE,
)
"""Matches a sentence, or the beginning of one, in which the user agrees with the assistant: "yes", "sure, go ahead",
好的."""
_THANKS = late_pattern(
    r"\b(?:thanks?(?:\s+you)?|please|then|for\s+me)\b|谢谢[你您]?|麻烦[你您]?了|[那就吧了啊呀哦哈]|\W",
    re.IGNORECASE,
)
_OUTRIGHT = late_pattern(
    r"\b(?:do|go\s+with|use|take)\s+(?:that|it|this|so)\b|\bgo\s+(?:ahead|for\s+it)\b|agree|\bdeal\b|as\s+you\s+(?:suggest|propose|sa)|(?:that|this)\s+way"
    r"|这样|这么|按你|照你|听你|同意|赞成|这个|定[了吧]",
    re.IGNORECASE,
)
"""Matches a clear agreement such as "go with that" or "do it". It is needed where the assistant did not ask: "ok" alone
is a mere acknowledgement there."""
_HESITATES = late_pattern(
    r"\b(?:but|however|although|though|wait|except|unless|maybe|perhaps|think\s+about|not|don't|no|nope|instead|haha\w*|lol)\b|哈哈|[?？]|不过|但|可是|等等|再想|先[不别]|可能|也许|算了|不[^,，。]{0,2}|吗|呢\W*$",
    re.IGNORECASE,
)
_ECHO_WORDS = frozenset(
    "it them that this those these the a an all my our your out please to do in on of with".split()
)
_LATIN = late_pattern(r"[A-Za-z0-9][\w'-]*")
_HAN = late_pattern("[\u3400-\u9fff]")

_FOREIGN = late_pattern(
    r"\b(?:says?|said|states?|stated|reads?|tells?\s+(?:me|us|you)|asks?\s+(?:me|us|you)|instructs?|wants\s+(?:me|us|you)|demands?|requires?|according\s+to|returned|printed|wrote|writes|quoted?|instructions?\s+(?:in|from|of))\b"
    r"|\b(?:readme|web\s?page|website|document(?:ation)?|manual|e-?mail|tool|file|article|page|search\s+results?|message)\b[^.?!]{0,60}\b(?:to|that|should|must|always|never)\b"
    r"|(?:文档|文件|网页|网站|页面|手册|邮件|工具|文章|说明书?|搜索结果|通知|公告|日志|里面?|上面?)[^,，。]{0,6}(?:说|写|要求|返回|提示|指示|让我?|规定|建议)|根据|按照|按(?:手册|文档|网页)|返回[:：]|他们?(?:说|要求)",
    re.IGNORECASE,
)
"""Matches words with which the assistant reports what a person, a page or a tool says."""
_NO_TOPIC = late_pattern(
    r"\W*(?:do|follow|obey|use|try|apply|run|go\s+with|proceed(?:\s+with)?|continue(?:\s+with)?|start(?:\s+with)?|confirm|accept)?\s*(?:it|that|this|so|them|those|these)?(?:\s+(?:now|then|like\s+that|that\s+way|way))*\W*$"
    r"|\W*(?:照做|照办|继续|开始|按它来|这样做?|这么[做办]|执行|确认|那样)?\W*$",
    re.IGNORECASE,
)
"""Matches a proposal that only refers to words before it ("shall I do that?")."""

_ASKED_EN = late_pattern(
    r"^\W*(?:(?:so|and|then|ok(?:ay)?|also|alternatively|if\s+you\s+(?:like|want|agree))\b\W*)*"
    r"(?:(?:should|shall|can|could|may)\s+(?:i|we)\s+(?:then\s+|also\s+|just\s+)*|(?:(?:would|do)\s+you\s+(?:like|want)|want)\s+(?:me|us)\s+to\s+)(?P<core>[^?]+)\?",
    re.IGNORECASE,
)
_RECOMMENDED_EN = late_pattern(
    r"(?:^|[,;:.]\s+|\b(?:so|then|and|but)\s+)(?:i(?:'d|\s+would)?\s+(?:strongly\s+|also\s+)?(?:suggest|recommend|propose|advise)(?:\s+that\s+(?:we|you|i))?"
    r"|i(?:'d|\s+would)\s+(?:go\s+(?:with|for)|take|choose|use|pick)|(?:how|what)\s+about(?:\s+(?:we|i|if\s+(?:we|i)))?|why\s+don't\s+we|let's"
    r"|my\s+(?:suggestion|recommendation|proposal|advice|plan)(?:\s+(?:is|would\s+be)(?:\s+(?:that\s+we|to))?)?|the\s+plan\s+(?:is|would\s+be)(?:\s+(?:that\s+we|to))?)\s*[:,]?\s+(?P<core>[^?]+)",
    re.IGNORECASE,
)
_OFFERED_EN = late_pattern(
    r"^\W*(?:so\s+|then\s+)?(?:i|we)\s+(?:can|could|will)\s+(?:also\s+)?(?P<core>[^?]+)",
    re.IGNORECASE,
)
_RECOMMENDED_ZH = late_pattern(
    "(?:我们?|个人)?的?(?:建议|提议|推荐)(?:您|你|咱们?|我们)?(?:是|的是)?[:：,，]?(?P<core>[^?？]+)|(?:计划|安排|方案|打算)(?:就?是|为)[:：,，]?(?P<plan>[^?？]+)|^要不(?!要)(?:我们?|咱们?|就)?(?P<or>[^?？]+)"
)
_ASKED_ZH = late_pattern(
    "^(?:那|您|你|另外|请问|所以)*(?P<what>[^?？,，]{0,12}?)(?:(?:需要|要|想要?|希望)(?:我|我们)|要不要(?:我|我们)?|是否(?:需要)?(?:我|我们)?)(?P<core>[^?？]+?)吗?[?？]"
)
_TAG_ZH = late_pattern(
    r"[,，]?\s*(?:[您你](?:觉得|看|说)?)?(?:这样)?(?:可以|行|好|OK|ok|怎么样|如何|要[\u4e00-\u9fff]?|合适|同意|没问题|可不可以|行不行|好不好|就这样定)(?:吗|么|呢)?\s*[?？]\W*$"
)
_CHECKS = late_pattern(
    r"^\W*(?:so\W+)?(?:(?:is|would)\s+(?:that|this|it)\s+(?:be\s+)?(?:ok(?:ay)?|fine|all\s?right|good|acceptable)|(?:does|would|do)\s+(?:that|this|it|you)\s+(?:work|sound|suit|fit|agree)"
    r"|ok(?:ay)?|agreed|deal|fine|alright|(?:shall|should|may)\s+(?:i|we)(?:\s+(?:do|go\s+with)\s+(?:it|that|this))?(?=\s*\?|\s+(?:like\s+)?that)|what\s+do\s+you\s+think)\b[^?]{0,30}\?\W*$"
    r"|^\W*(?:[您你](?:觉得|看|说|同意)?)?(?:就?这[样么]|那就?)?(?:定|办|做|改|安排)?(?:可以|行|好|OK|ok|怎么样|如何|合适|同意)?(?:吗|么|呢|不)?\s*[?？]\W*$",
    re.IGNORECASE,
)
"""Matches a question that only asks whether the proposal before it is acceptable."""
_WHETHER = late_pattern("要不要|是否")
_EITHER = late_pattern(r"\bor\b|还是|或者?", re.IGNORECASE)
_WANTED_EN = late_pattern(
    r"\b(?:which|what|when|where|who|how\s+(?:many|much|often|long|big))\b[^?]*\b(?:should|shall|would\s+you\s+(?:like|prefer)|do\s+you\s+(?:want|prefer|need)|works?\s+(?:best|for)|suits?|would\s+(?:be|work))\b[^?]*\?\W*$",
    re.IGNORECASE,
)
_EITHER_EN = late_pattern(
    r"\b(?:should|shall|would\s+you|do\s+you\s+(?:want|prefer)|prefer)\b[^?]*\bor\b[^?]*\?\W*$",
    re.IGNORECASE,
)
_WANTED_ZH = late_pattern(
    "(?=.*(?:哪|什么|几|多少|怎么))(?=.*(?:想要|需要|(?<![主重必只])要(?![是素求点紧]|了解)|[用选放定订发](?:在|成|给|几)?(?:什么|哪|几|多少)|(?:什么时候|哪天|几点)(?:[发去办开送走见做定]|出发|提醒)|放在|比较好|好[?？]|合适|倾向|打算))"
    "(?!.*(?:了解|知道|记得|为什么|怎么了|什么意思|喜欢|出生|正在|过[?？]|了[?？]|[是的]哪|[你您]是))[^?？]*[?？]\\W*$"
)
_EITHER_ZH = late_pattern("^(?![^?？]*是[^,，?？]{1,8}还是)[^?？]*还是[^?？]*[?？]?\\W*$")
_NO_ANSWER = late_pattern(
    r"^\W*(?:no|nope|none|neither|not\s+sure|i\s+don't|don't\s+know|hi|hello|hey|bye|thanks?|thank\s+you|haha\w*|lol|what|why|how|who|both|either|whatever|you\s+(?:decide|choose)|me\s+too|stop|wait|done|nothing)\b"
    r"|^\W*(?:记得|应该|我|是的?|那|不知道|不清楚|随便|都[行可]|没|不|谢|哈|再见|你好|您好|为什么|什么|怎么|无所谓|看你|你[定选])",
    re.IGNORECASE,
)
_PICK = late_pattern(
    r"^\W*(?:(?:ok(?:ay)?|yes|so|then|i(?:'d|'ll|\s+would|\s+will)?|we(?:'ll)?|let's|think|want|like|prefer|choose|take|pick|go(?:ing)?|use|do|with|for|please|just|definitely)\b\W*)*(?:the\s+|option\s+|number\s+|plan\s+|no\.?\s*|#)?"
    r"(?:(?P<word>first|second|third|fourth|fifth|last|former|latter)|(?P<label>\d{1,2}|[a-e](?![\w'])))(?:\s+(?:one|option|plan|choice|version|variant|title|item))?(?:\s+(?:please|then|it\s+is|sounds\s+(?:good|best)|is\s+(?:fine|better|best|good)))*\W*$"
    r"|^\W*(?:好的?|行|嗯|那)?[,，]?(?:我|还是|那|就|我们)*(?:选|用|要|定|来|走|按|买|订)?(?:方案|选项|第)?(?P<zh>[一二三四五两\d]|[A-Ea-e]|前者|后者|最后)(?:一?[个种款条项套家]|方案|号)?(?:方案)?(?:吧|好了|了|就行|比较好|更好|可以|不错)*\W*$",
    re.IGNORECASE,
)
_ITEM = late_pattern(
    r"^[ \t]*(?:[-*][ \t]+)?\**(?:option|plan|方案|选项)?[ \t]*\(?(?P<label>\d{1,2}|[A-Ea-e]|[一二三四五])"
    r"\**[.)、．:：][ \t]*(?P<item>\S[^\n]*)",
    re.MULTILINE | re.IGNORECASE,
)
_INLINE_ITEM = late_pattern(
    r"(?:option|plan|方案|选项)[ \t]*(?P<label>\d|[A-Ea-e]|[一二三四五])[:：][ \t]*(?P<item>[^\n.。;；]+)",
    re.IGNORECASE,
)
_ORDER = {
    **dict.fromkeys(("first", "一", "1", "a"), 0),
    **dict.fromkeys(("second", "二", "两", "2", "b"), 1),
    **dict.fromkeys(("third", "三", "3", "c"), 2),
    **dict.fromkeys(("fourth", "四", "4", "d"), 3),
    **dict.fromkeys(("fifth", "五", "5", "e"), 4),
    **dict.fromkeys(("last", "最后"), -1),
}
_OF_TWO = frozenset({"former", "latter", "前者", "后者"})


def read_answer(text: str, said: Sequence[OwnSentence], answered: str) -> ShortAnswer | None:
    """Return what the first sentence of a user's message means as an answer to the assistant's message before it.

    `said` are the user's own sentences of the message. Returns None if it adopts, picks and answers nothing there, or
    says enough by itself.
    """
    if not said and text.strip().isalnum():
        said = [OwnSentence(0, len(text), plain_characters(text).strip(), "")]
    if not said or said[0].start > 2 or len(said) > _MOST_SENTENCES:
        return None
    first = said[0]
    if len(first.text) > _LONGEST_ANSWER:
        return None
    picked = _PICK.match(first.text)
    rest = None if picked else _disagreement(first.text)
    if any(_HESITATES.search(each.text) for each in said if picked or rest is not None):
        picked = rest = None
    bare = len(said) == 1 and _is_bare(first.text)
    if picked is None and rest is None and not bare:
        return None
    answered = answered[-_LONGEST_ANSWERED:]
    asked = [*own_sentences(answered)]
    found = None
    if asked and picked:
        found = _picked(picked, first, asked, answered)
    elif asked and rest is not None:
        found = _adopted(first, rest, asked, answered)
    return _question_of(first, asked, answered) if asked and bare and not found else found


def _disagreement(text: str) -> str | None:
    """Return the words after an agreement ("yes, but ..."); None for a long sentence without an agreement."""
    agreed = _AGREES.match(text)
    if agreed and not _THANKS.sub("", agreed[0]):
        return None
    return text[agreed.end() :].strip() if agreed else text if len(text) <= _SHORT_HAN else None


def _is_bare(text: str) -> bool:
    """Return True if a sentence is a few words that may answer a question."""
    words, han = len(_LATIN.findall(text[:_LONGEST_ANSWER])), len(_HAN.findall(text))
    if not words + han or words > _SHORT_WORDS or han > _SHORT_HAN or BLANK in text:
        return False
    return _AGREES.fullmatch(text) is None and text[-1] not in "?？"


def _adopted(
    first: OwnSentence, rest: str, asked: Sequence[OwnSentence], answered: str
) -> ShortAnswer | None:
    checks = len(asked) > 1 and _CHECKS.match(asked[-1].text) is not None
    proposal = asked[-2] if checks else asked[-1]
    before = asked[-3 if checks else -2].text if len(asked) > 1 + checks else ""
    if _FOREIGN.search(before) or _FOREIGN.search(proposal.text) or _FOREIGN.search(asked[-1].text):
        return None
    found = _core(proposal.text, is_asked=checks)
    if found is None:
        return None
    start, end, is_explicit = found
    core = proposal.text[start:end]
    asks = checks or proposal.text.rstrip()[-1:] in "?？"
    if BLANK in proposal.text or _NO_TOPIC.match(core) or (not asks and not _is_outright(first)):
        return None
    if rest and not _echoes(rest, proposal.text + (asked[-1].text if checks else "")):
        return None
    if is_explicit is False and _EITHER.search(core):
        return None  # "yes" to "tabs or spaces?"
    shown = answered[proposal.start : proposal.end].strip()
    meaning = answered[proposal.start + start : proposal.start + end].strip(" ,，.。:：;；!！")
    meaning = _WHETHER.sub("", meaning)
    if len(shown) > _LONGEST_SHOWN:
        shown = meaning
    if not meaning or len(shown) > _LONGEST_SHOWN:
        return None
    return ShortAnswer(first.start, first.end, shown, meaning, is_explicit, adopts=True)


def _is_outright(first: OwnSentence) -> bool:
    return _OUTRIGHT.search(first.text) is not None


def _core(text: str, *, is_asked: bool) -> tuple[int, int, bool] | None:
    """Return where in a sentence the assistant proposes something (start, end), and True if it recommends it.

    Returns None if nothing is proposed. With `is_asked` the next sentence asks whether that will do.
    """
    tag = _TAG_ZH.search(text)
    end = tag.start() if tag else len(text)
    for pattern in (_RECOMMENDED_EN, _RECOMMENDED_ZH):
        if found := pattern.search(text[:end]):
            name = found.lastgroup or "core"
            return found.start(name), min(found.end(name), end), True
    for pattern in (_ASKED_EN, _ASKED_ZH):
        if found := pattern.search(text):
            what = found.start("what") if "what" in found.re.groupindex and found["what"] else -1
            # 宣传册里要不要把价格去掉: the thing stands before the question.
            return (what if what >= 0 else found.start("core")), found.end("core"), False
    if is_asked and (found := _OFFERED_EN.search(text)):
        return found.start("core"), found.end("core"), False
    if tag and tag.start() > 3:
        return 0, end, False
    return None


def _echoes(rest: str, proposal: str) -> bool:
    """Return True if the words after an agreement only repeat the proposal: "yes, leave them out", 去掉吧."""
    there = {each.lower() for each in _LATIN.findall(proposal)} | set(_HAN.findall(proposal))
    said = {each.lower() for each in _LATIN.findall(rest)} | set(
        _HAN.findall(rest.rstrip("吧了的"))
    )
    return said - _ECHO_WORDS <= there


def _picked(
    picked: re.Match[str], first: OwnSentence, asked: Sequence[OwnSentence], answered: str
) -> ShortAnswer | None:
    """Return the item of the assistant's list that an answer picks by its place or label."""
    named = (picked["word"] or picked["label"] or picked["zh"]).lower()
    if named in _OF_TWO:
        question = _whole_question(asked, answered)
        if not _EITHER.search(question) and "也可以" not in question:
            return None
        return _answering(first, question, first.text)
    own = plain_characters(answered)
    for pattern in (_ITEM, _INLINE_ITEM):
        items = _last_list([*pattern.finditer(own)])
        at = next(
            (n for n, item in enumerate(items) if item["label"].lower() == named),
            _ORDER.get(named, 99),
        )
        if len(items) > 1 and at < len(items):
            item = items[at]
            shown = answered[item.start("item") : item.end("item")].replace("**", "").strip()
            if _FOREIGN.search(shown) or len(shown) < 2 or _is_quoted(item, asked):
                return None
            shown = shown[:_LONGEST_SHOWN]
            return ShortAnswer(first.start, first.end, shown, shown, is_explicit=True, adopts=True)
    return None


def _last_list(items: Sequence[re.Match[str]]) -> Sequence[re.Match[str]]:
    """Return the items of the last of several lists, which begins at the last label that comes first."""
    starts = [at for at, item in enumerate(items) if _ORDER.get(item["label"].lower()) == 0]
    return items[starts[-1] :] if starts else []


def _is_quoted(item: re.Match[str], asked: Sequence[OwnSentence]) -> bool:
    """Return True if an item of a list is no sentence of the assistant's own, or quotes somebody."""
    at = item.start("item")
    own = [each for each in asked if each.start < item.end("item") and at < each.end]
    return not own or any(BLANK in each.text for each in own)


def _whole_question(asked: Sequence[OwnSentence], answered: str) -> str:
    """Return the last sentence of the assistant, with the one before it if it is short."""
    start = asked[-1].start
    if len(asked) > 1 and asked[-1].end - asked[-2].start <= _LONGEST_SHOWN:
        start = asked[-2].start
    return answered[start : asked[-1].end].strip()[-_LONGEST_SHOWN:]


def _question_of(
    first: OwnSentence, asked: Sequence[OwnSentence], answered: str
) -> ShortAnswer | None:
    """Return the question that a few words of the user answer, if it asks what the user wants."""
    text, question = first.text, asked[-1].text
    if _FOREIGN.search(question) or len(question) > _LONGEST_SHOWN or BLANK in question:
        return None
    either = _EITHER_EN.search(question) or _EITHER_ZH.search(question)
    if either:
        if not _echoes(text, question):
            return None
    elif _NO_ANSWER.match(text) or not (_WANTED_EN.search(question) or _WANTED_ZH.search(question)):
        return None
    shown = answered[asked[-1].start : asked[-1].end].strip()
    return _answering(first, shown, text.strip(" ,，.。!！"))


def _answering(first: OwnSentence, question: str, said: str) -> ShortAnswer:
    """Return the user's answer in the user's own words; its meaning is that of question and answer together."""
    meaning = f"{question.rstrip(' ?？')}: {said}"
    return ShortAnswer(first.start, first.end, question, meaning, is_explicit=True, adopts=False)
