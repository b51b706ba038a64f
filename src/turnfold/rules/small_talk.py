"""Recognises sentences that lay nothing down, whatever words they have: small talk, past events, wishes of others."""

from __future__ import annotations

import re

from turnfold._lazy_loading import late_pattern
from turnfold.rules.act_classifier import Language
from turnfold.rules.own_words import BLANK

__all__ = (
    "CHATTER",
    "ELLIPTIC",
    "GREETING",
    "OTHERS_SAID",
    "SMALL_TALK",
    "is_babble",
    "is_no_rule",
)


OTHERS_SAID: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"^(?:my|the|our|a|an)?\s*(?:boss|manager|mom|mum|mother|dad|father|friends?|colleagues?|teacher|coach"
        r"|neighbou?r|he"
        r"|she|they|people|someone|article|book|manual|tutorial|docs?|sign|contract|lease|law|policy|guide|brochure)\s+(?:said|says|told|thinks?"
        r"|wants?\s+(?:me|us))\b"
        r"(?!.*\b(?:i|my|we|our)\b)|^according\s+to\b"
        r"|^\W*(?:it|(?:this|that|the|an?)\s+(?:ad(?:vert\w*)?|e-?mail|letter|log|label|notice|page|website|form|poster|sign|leaflet|review))\s+"
        r"(?:just\s+)?(?:says?|said|states?|reads?|tells?)\b",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "^(?:我)?(?:老板|领导|妈妈?|爸爸?|老师|朋友|同事|他们?|她们?|人家|别人|有人|网上|书上|书里|文章|文档|合同里?|守则|传单"
        "|教程|牌子上|医生|专家)"
        "[^,，。我]{0,3}(?:说|讲|告诉|认为|建议|写着|要求|规定)(?!.*我)"
        "|^(?:这|那)?(?:上面|里面|下面|条款|公告|通知|说明|标签|广告|邮件|日志|评论|协议)(?:上|里)?(?:说|写着|写的|写了|提示|显示|规定|要求)"
    ),
}
_QUOTES_ANOTHER = late_pattern(
    r"\W*(?!(?:I|You|If|When\w*|Never|Always)\b)(?=\w)[^,;!?\x1a]{0,60}?"
    r"\b(?:texted|messaged|e-?mailed|commented|wrote|writes|says|said|replied|posted|noted|told\s+me)\b"
    r"[^,;!?\x1a]{0,30}?\W*\x1a+[\W\x1a]*$"
    r"|\W*(?:here(?:'s|\s+(?:is|are))|this\s+is)\s+(?:the|an?|her|his|their|what)\s[^,;!?\x1a]{1,40}?:\W*\x1a+[\W\x1a]*$"
    r"|(?!.{0,16}(?:别|不|以后|都|一律|请|要|每|必须|先|如果|我[说写想]))[^,，。\x1a]{1,16}?"
    r"(?:说|问|喊|吩咐|(?:(?<=[里上中])写|写(?=[了道着的过]))|[发留回](?=[了来]|消息|微信|短信|言|复))(?:了|过|道|着|来|的|是|消息|微信|短信|言|复|一[条句])*"
    r"[^\w\x1a]*\x1a+[\W\x1a]*$",
    re.IGNORECASE,
)
"""Matches a sentence that only introduces somebody else's words: 'Fiona just wrote: "never skip it"'."""
_NO_RULE: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        # what somebody else asks, says or wants
        r"^\W*(?:and\s+|but\s+|so\s+)?(?!(?:I|We|You|It|That|This|Please|Everyone|Everybody|Nobody|Legal"
        r"|Always|Never|Only)\b)"
        r"(?:my\s+|the\s+|our\s+)?[A-Za-z][\w'’-]+(?:\s+[A-Z][\w'’-]+)?\s+(?:just\s+|also\s+"
        r"|still\s+)?(?:asks?|asked|wonders?|wondered"
        r"|thinks?|believes?|wants?\s+to\s+know)\b"
        # where somebody is for some days
        r"|^\W*(?!(?:It|That|This)\b)[A-Z][\w-]+(?:\s+[A-Z][\w-]+)?(?:['’]s|\s+is"
        r"|\s+will\s+be)\s+(?:on\s+(?:leave|holidays?|vacation)|off\s+(?:sick|today|this)"
        r"|away|out\s+(?:of\s+office|sick|today)|ill|sick|travel\w+)\b"
        # an id alone
        r"|^\W*(?:(?:the|my|our|see|it's|this\s+is)\s+)?(?:ticket|case|invoice|order|issue|task|pr|mr"
        r"|ref(?:erence)?|receipt|booking|claim|file)"
        r"(?:\s+(?:number|no\.?|id|is))*\s*[:#]?\s*[A-Z]{0,6}[-#/]?\d[\w/-]*\W*$"
        r"|^\W*(?:ok(?:ay)?\W+|hmm?\W+)*let\s+me\s+(?:think|see|check|look|know|ask|guess)\b"
        r"|^\W*(?:my|the|our)\s+[\w-]+(?:'s|\s+is|\s+has)\s+gone\s+\w+(?:\s+again)?\W*$"
        r"|^\W*i(?:'m|\s+am)\s+(?:all\s?right|alright|fine|good|ok(?:ay)?|great|well)\W*$"
        r"|^\W*(?:ok(?:ay)?\W+|so\W+)*let's\s+(?:(?:change|drop|switch)\s+(?:the\s+)?(?:subject|topic)|move\s+on)\W*$"
        r"|^\W*(?:now|next)\s+(?:the|to|for|about)\s+(?:[\w-]+\s*){1,4}\W*$"
        # who called, answered or came by; what the author did, will do or must leave for
        r"|^\W*(?:(?:ugh|great|good|bad|perfect|done|ok(?:ay)?|yes|yeah|and|but|so|just\s+so\s+you\s+know|btw"
        r"|news)\b[\s,.:!]*)*(?:(?!(?:I|We|You)\b)(?:[Mm]y\s+|[Tt]he\s+|[Oo]ur\s+)?(?!is\b|was\b"
        r"|are\b)[\w'’-]+(?:\s+from\s+(?:the\s+)?\w+"
        r"|\s+(?!is\b|was\b|are\b|be\b|were\b)[A-Z][\w'’-]+)?\s+(?:just\s+|finally\s+|also\s+)?(?:called|rang"
        r"|phoned|replied|answered|wrote\s+back|came\s+by|stopped\s+by|declined|dropped\s+out"
        r"|cancelled\s+on)\b(?!\s+(?:off|it|me)\b)"
        r"|(?:i|we)\s+(?:just\s+|finally\s+|already\s+|also\s+)?(?:spoke|talked|called|checked|looked|asked"
        r"|told|tried|cried|laughed|slept|lost|forgot|missed|printed|compared|counted|showed|watched)\b"
        r"|(?:printed|sent|mailed|signed|uploaded|paid)(?:\s+and\s+\w+)?\s+(?:it|them|that)\b|(?:i"
        r"|we)'ll\s+(?:let\s+you\s+know|see|catch|work\s+it\s+out|think|check|ask|try|have\s+a\s+look|get\s+back)\b"
        r"|(?:i|we)'ve\s+(?:worked|built|seen|tried|visited|played|met|watched|read)\b|(?:it|that|this|he|she"
        r"|they)\s+(?:was|were)\b|(?:i'll\s+)?keep\s+you\s+posted\b|i\s+bet\b|(?:i'm|we're)\s+considering\b"
        r"|i'm\s+a\s+(?:huge|big)\s+fan\b|we\s+c(?:an|ould)\s+[^,;.]*\bif\s+you\s+(?:want|like)\b"
        r"|i\s+(?:have|need|must|got)\s+to\s+(?:run|go|leave|dash)\b|(?:talk|speak"
        r"|see\s+you)\s+(?:to\s+you\s+)?(?:soon|later|tomorrow|on\s+\w+day|next\s+week)\b)(?!.*(?:\b(?:must"
        r"|never|don't|please|deadline|from\s+now\s+on|settled\s+(?:on|for)|agreed\s+(?:on|to)|decided|(?:are|'re)\s+going\s+with)\b|;))"
        r"|^\W*(?:and\s+|but\s+|bad\s+news\W+)?(?!(?:I|We|You|It|This"
        r"|That)\b)(?:[\w'’]+\s+){1,3}(?:asks?\s+for|offers|offered|declined|double-booked|dropped\s+out"
        r"|raised\s+(?:the|his|her|their))\b(?!.*\b(?:we|i|must|please|so)\b)"
        r"|^\W*(?:yes\W+)?there(?:'s|\s+is|\s+are)\s+(?:a|an|one|two|three|\d+|some|also)\b(?!.*\b(?:allerg\w+"
        r"|must|limit|deadline|of\s+us|my|our)\b)"
        # a general truth, a delegation
        r"|^\W*(?!Going|Regarding|Nothing|Everything|Starting|Meeting|Parking"
        r"|Shipping)[A-Z][a-z]+ing\b[^,;]*\s(?:is|feels|makes)\s(?:\w+ly\s+)?(?:key|crucial|important|great"
        r"|fun|amazing|like|hard|tough|so|such|rewarding|priceless|good|worth\w*)\b"
        r"|^\W*(?:[\w'’]+,?\s+){0,2}must\s+(?:be|have\s+been)\s+(?:really\s+|so\s+|very\s+)?(?:tough|hard|nice"
        r"|great|fun|amazing|rewarding|exciting|difficult|cool|lovely)\b"
        r"|^\W*(?:(?:it's\s+)?(?:entirely\s+|all\s+)?up\s+to\s+you|you\s+(?:decide|choose|pick)\b(?!\s+only)"
        r"|your\s+(?:call|choice)|whatever\s+you\s+(?:think|like|prefer)|do\s+as\s+you\s+like|(?:fine"
        r"|okay)\s+(?:by|with)\s+me|call\s+me\s+(?:old|crazy|lazy)\b)"
        # what was, what might be, complaints
        r"|^\W*(?:if\s+i\s+were\b|imagine\b|suppose\b|what\s+if\b|i\s+(?:wonder|wish|dreamt?)\b|once\s+upon)"
        r"|^\W*(?:my|his|her)\s+(?:\w+\s+)?(?:grand\w+|great-\w+|mother|father|uncle|aunt|neighbou?r|teacher)\s+(?:never|always)\s+(?:ate|went|was|had|did|said|made|drank|slept|wore|kept|\w+ed)\b"
        r"|^\W*you\s+(?:can|could|should|must)\s+(?:also\s+|really\s+|definitely\s+)?(?:watch|read|visit|see|try)\s+(?!to\b)(?:[A-Z\x1a\"]|the\s+[A-Z])"
        r"|^\W*(?:he|she|they)\s+(?:said|told\s+(?:me|us))\b"
        r"|^\W*(?:some(?:where|time)|probably|maybe|roughly)\s+(?:around|near|about|in|next|between)\b[^,;]*$|^\W*(?:hmm?|wow|ouch|ugh)\W[^,;]*\b(?:more|less|much|lot|steep|expensive|half|double)\b[^,;]*$",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "^(?!我|我们|咱|你|您|请|以后|老板|领导)[^,，。\\s我你先没未不]{1,5}(?:问(?:我们?|咱们?|你|他"
        "|她)?(?:为什么|为啥|怎么|能不能|要不要"
        "|可不可以|是不是|有没有|多少|什么|哪|几)|想知道|觉得|认为)"
        "|^[^,，。我你每都]{1,5}?(?:从|在)?(?:今天|明天|后天|下?周[一二三四五六日天]?|这周|本周)?(?:开始|起"
        "|之?前|之?后)?(?:休假|请假|出差|不在)(?:了|中)?[。！!]?$"
        "|^(?:这是|就是)?(?:案号|工单号?|发票号码?|订单号?|单号|流水号|收据号?|编号|票号|快递单号?)(?:是|为)?[:： ]*"
        "[A-Za-z]{0,6}[-#/]?\\d[A-Za-z0-9_/-]*[。.]?$"
        "|^(?:我们?|咱们?)?(?:刚刚?|先|这就|马上)(?:去|到|回|下|上|吃|出|付|看|开|在)[^,，。]{0,6}了?[。！!]?$"
        "|^我们?[^,，。]{0,4}了一[下遍次](?!.*[决改换定])"
        "|^(?:稍?等我?|我(?:先|再|这就|马上|要|得)?去[^,，。每]{1,6}|等我?一[会下]儿?|我?(?:已经)?(?:下单|付款"
        "|签收|转账|付钱)了)[。！!]?$"
        "|[发传寄][给]?[你您]了[。！!]?$|^(?:那|就|我们)*换个?(?:话题|个?姿势)|^(?:[你您]好[,，])?我想(?:买|问"
        "|看|找|了解|咨询|订|查)(?:点|下|一|个|些|几|问)(?!.*(?:以后|每|都|不要|别))"
        # what was, what might be, complaints
        "|^(?:我们?|咱们?)?(?:以前|小时候|从前|曾经|过去)(?!.*(?:现在|以后|今后|改|换))"
        "|^(?:真|简直|我)*(?:不敢相信|难以置信|想不到|没想到)"
        "|^(?:我|他|她)(?:奶奶|爷爷|外婆|外公|姥姥|姥爷|太爷)[^,，。]{0,6}(?:从来|总是|从不)|烦死|烦人|受够了|^听说|^[^,，。]{0,4}老[师板][^,，。]{0,4}老(?:是)?让"
        "|^[他她]们?(?:跟|和|对)?我?们?(?:说|讲)"
        # a greeting by name, an interjection, a tip for whoever listens
        "|^(?:你好|您好|嗨|哈喽|早上好|晚上好)[,，]?[^,，。我是叫请要]{1,6}[。！!~]?$"
        "|^(?:如果|要是|等)?[你您]有(?:机会|空|时间)[^,，。]{0,3}[,，]?(?:的话)?[,，]?一定要(?:来|去|看|试|尝)"
        # a delegation, a goodbye, an example, a reminder of nothing, a story, what the author does meanwhile
        "|[你您](?:看着|自己看着|随便|来)(?!.*(?:但|不过|别|不要|最[多少]"
        "|以内))[办给定弄选买来挑安排写]{1,2}吧?[。！!]?$|^[^,，]{0,6}[你您](?:定|决定|拿主意|做主)(?:就[行好]"
        "|吧)?(?:[,，。！!]|$)|^(?:剩下的|这个)?(?:都)?(?:听|随|交给)[你您](?:的|了|便)?[。！!]?$"
        "|^[^,，。我]{1,5}刚(?:走|到|来|出门)了?[。!！]?$|^(?:晚点|回头|明天|改天|下次"
        "|周[一二三四五六日])(?:再)?(?:聊|说|见|联系)(?:吧|了)?[。！!]?$|^(?:比如|例如|譬如|像)(?!我)[^,，]*$"
        "|^(?:请|千万|可)?(?:别忘了?|记得|记住)[哦啊呀吧了]?[。！!~～]?$"
        "|^那?我(?:猜|听到|听说|记着|记得讲|觉得[他她])|^从那以后|^[^,，]{1,8}那[条个项块][^,，]{0,2}(?:保持"
        "|维持|照旧|还是)?(?:不变|原样|照旧|那样)[。]?$|^我(?:琢磨|想想|考虑|看看|问问|试试)[^,，]{0,4}[。]?$"
        "|^(?:你|您)不用管(?:了|它|这个)?[。！!]?$"
        "|^我?(?:今天|明天|下午|上午|今晚|晚上|这会儿|现在)?(?:都)?在?(?:开会|上课|出差|开车|路上)(?:[,，]|到"
        "|$|。)(?!.*(?:别|不要|以后|每))"
        "|^(?:我们?|咱们?)?(?:昨天|昨晚|前天|上周末?|上个?月|去年|刚才?|前几天)(?!.*(?:搬|换|改|决定|入职|离职"
        "|定了|选|以后)).*(?:了|过)"
    ),
}
"""Matches a sentence that is no rule whatever words it has: what others ask, an absence, an id alone, a past event."""
_PAST = late_pattern(
    r"\b(?:i|we|he|she|they)\s+used\s+to\b(?!.*\b(?:now|from\s+now|any\s?more)\b)|\bdriv\w+\s+me\s+(?:crazy|mad|nuts)\b",
    re.IGNORECASE,
)
"""Matches a statement about what used to be so ("I used to eat meat"), or a complaint. It is no rule."""
_PAST_SIGNS = ("used to", "me crazy", "me mad", "me nuts")
"""Texts of which every match of `_PAST` contains one, in small letters; searching for them first is much faster."""
SMALL_TALK: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"^\W*in\s+(?:the|this|that|a)\s+(?:film|movie|book|novel|series|show|game|story)\b|^\W*i\s+(?:watched"
        r"|read|saw)\s+(?:a|an|the)\s+(?:\w+\s+)?(?:film|movie|book|novel|series|show)\b"
        r"|^\W*(?:please\s+)?(?:don'?t\s+(?:worry|mention\s+it|be\s+(?:silly|shy|sorry|sad)|get\s+me\s+wrong|sweat)"
        r"|never\s?mind)\b(?!.*\b(?:from\s+now\s+on|about\s+\w+ing)\b)",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "^(?:我)?(?:昨天|昨晚|刚刚?|最近|今天|前几天)?(?:在)?(?:看|追|读)(?:了|完|过)?(?:一|几"
        "|[^,，。]{1,4}的)?[部本集个]?(?:电影|电视剧|剧|小说|书|番|纪录片)[,，]|^(?:这)?(?:电影|小说|书|剧|故事|游戏)里"
        "|^(?:如果|假如|要是)我(?:是|当)(?!在)|^(?:假设|想象)|^假如(?:一辈子|有一天|能)|^(?:那)?(?:必须|当然)的[啊呀]?[,，。！!]"
        "|^\\W*(?:请)?(?:别|不要|不用)(?:紧[,，。！!]|闹|担心|客气|着?急|介意|提了|逗|难过|伤心|害羞|生气)"
    ),
}
"""Matches phrases that look like a prohibition but are none: "don't worry"."""
# Words of small talk.
CHATTER = late_pattern(
    r"!|\b(?:awesome|amazing|great|lov(?:e|ed|ely|ing)|fun|excit\w+|happy|glad|proud|beautiful|wonderful|cool"
    r"|wow|yay|haha"
    r"|lol|hope|hoping|dreams?|feel(?:s|ing)?|felt|support\w*|memor\w+|enjoy\w*|inspir\w+|joy|peace\w*|passion\w*|blast"
    r"|incredible|grateful|lucky|life|friends?|together|congrats|miss|sweet|nice|cute|fantastic|special"
    r"|journey|strength"
    r"|bond|cozy|relax\w*|comfort\w*|courage|thankful|appreciate|bet|buddy|pic|photo)\b"
    r"|！|哈哈|开心|好玩|太棒|加油|可爱|幸福|喜欢你|羡慕|感动|真好",
    re.IGNORECASE,
)
GREETING = late_pattern(
    r"\W*(?:hi|hello|hey|good\s+(?:morning|evening|afternoon)|你好|您好|早上好|嗨)(?:\s+(?:there|all|everyone))?\W*$",
    re.IGNORECASE,
)
ELLIPTIC: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"(?:(?:ok(?:ay)?|fine|yes|yeah|no|nope|not|now|then|later|do|it|that|that's|this|one|the|first|second"
        r"|third|last|other|go|with|for|let's|leave"
        r"|skip|sounds?|good|great|sure|thanks?|please|just|as|you|said|say|think|whatever|never\s?mind|take|i"
        r"|i'll|we|we'll|want|agreed|right|alright"
        r"|all|both|why|is|are|too|so|and|but|maybe|again|well|hm+|ah|oh|on|ahead|continue)\b\W*)+",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "(?:好的?|行|嗯+|那|就|先|再|都|也|这么|那么|样|这|个|办|定|来|吧|了|的|啊|呀|哦|按|照|你们?|您|我们?"
        "|说|听|要|不|用|换|买|它|第?[一二三四五两]|款|种|暂时"
        "|随便|可以|没问题|没事|算|放着|下|是|吗|呢|对|没|有|想|看|OK|ok|\\W)+"
    ),
}
"""Matches an answer that says nothing without its question: "ok, go with that", 先不要了."""


def is_no_rule(text: str, language: Language) -> bool:
    """Return True if a sentence has a form that rules never have.

    Such forms are the wish of somebody else, and a past event.
    """
    if _NO_RULE[language].search(text) or _QUOTES_ANOTHER.match(text):
        return True
    return any(sign in text for sign in _PAST_SIGNS) and _PAST.search(text) is not None


def is_babble(text: str) -> bool:
    """Return True if a text is mostly punctuation, or mostly repeats itself: "never never never ..."."""
    words = text.split()
    if 2 * sum(map(str.isalnum, text)) < len(text) - text.count(BLANK):
        return True
    if len(words) > 20:
        return len(set(words)) < len(words) // 3
    return len(text) > 60 and len(set(text)) < 8
