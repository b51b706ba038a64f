"""Extracts standing rules from a user's message or from the system message, without a model.

Only the author's own sentences count, not quoted or pasted text (see `own_words`). A sentence is a rule if its score is
high enough (see `act_classifier`); the score it needs is lower for a sentence that is the whole message than for one
among small talk. The text of a rule is an unchanged slice of the message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from turnfold._lazy_loading import late_pattern
from turnfold.rules.act_classifier import (
    UNKNOWN,
    Language,
    act_of,
    gives_new_value,
    is_negative,
    is_weak_change,
    kind_of,
    names_nothing,
    reports_done,
    says_it_stays,
    score,
)
from turnfold.rules.adoption import ShortAnswer, read_answer
from turnfold.rules.deferrals import asks_for_action
from turnfold.rules.one_time import asks_a_favour, is_one_time
from turnfold.rules.own_words import BLANK, OwnSentence, bracketed, own_sentences
from turnfold.rules.permissions import is_permission
from turnfold.rules.reversals import alters
from turnfold.rules.sentence_features import is_passing
from turnfold.rules.slots import may_fill
from turnfold.rules.standing_rule import (
    LONGEST_RULE,
    RuleAct,
    RuleKind,
    RuleTrust,
    StandingRule,
    rule_id,
)
from turnfold.rules.subjects import is_fragment
from turnfold.rules.task_completion import closes, may_report
from turnfold.rules.topics import rule_terms
from turnfold.text import plain_characters

__all__ = ("extract_rules",)


_HAN = late_pattern("[\u3400-\u4dbf\u4e00-\u9fff]")
_LATIN_WORD = late_pattern(r"[A-Za-z]+")
_ALONE: dict[Language, float] = {"en": -1.2, "zh": -1.1}
"""Score that a sentence needs to count as a rule if it is the whole message."""
_BESIDE_OTHERS = 1.1
"""Added to the score that a sentence needs to count as a rule, if the message has other sentences."""
_AMONG_TALK = 1.0
"""Added to the score that a sentence needs to count as a rule, if the other long sentences of the message are no
rules."""
_AMONG_CHATTER = 2.4
"""Added to the score that a sentence needs to count as a rule, if the other long sentences are small talk."""
_BESIDE_CHEERS = 1.5
"""Added to the score that a sentence needs to count as a rule, if a short sentence of the message is small talk:
"Great!", "Thanks, Maria!"."""
_UNMARKED = 0.5
"""Added to the score that a sentence needs to count as a rule, if it demands nothing and is not about its author:
"Balance is important."."""
_IS_CHATTER = 2.0
"""Added to the score that a sentence needs to count as a rule, if it has words of small talk."""
_NEVER_LOST = 5.0
"""Subtracted from the score that a sentence needs to count as a rule, if it replaces an old value: without it the old
value would stay."""
_CHANGE = 0.7
"""Subtracted from the score that a sentence needs to count as a rule, if it says that it changes something."""
_TURNED_INTO = late_pattern(r"变成[^\d〇零一二两三四五六七八九十百千万,，]{2,}了")
"""Matches words for a change that happened by itself and that nobody decided: 小狗变成大狗了."""
_OUTRIGHT = 2.0
"""Subtracted from the score that a sentence needs to count as a rule, if it gives a named thing a new value:
把预算改为五千."""
_SETS_ANEW = late_pattern(
    "^(?:更正|纠正)(?:一下)?[,，:：]|把(?![^改换]*[这那第段页句])[^改换]{1,12}[改换](?:成|为|到)."
)
_WEAK = 0.7
"""A rule whose score exceeds the needed score by less than this is `weak`: it is shown after other rules."""
_REPORTED = 2.0
"""Subtracted from the score of a sentence that reports what somebody else said."""
_PASSING: dict[Language, float] = {"en": 2.0, "zh": 1.5}
"""Subtracted from the score of a sentence with the form of a request for one thing now, or of a mishap."""
_OTHERS_SAID: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"^(?:my|the|our|a|an)?\s*(?:boss|manager|mom|mum|mother|dad|father|friends?|colleagues?|teacher|coach"
        r"|neighbou?r|he"
        r"|she|they|people|someone|article|book|manual|tutorial|docs?|sign|contract|lease|law|policy|guide|brochure)\s+(?:said|says|told|thinks?"
        r"|wants?\s+(?:me|us))\b"
        r"(?!.*\b(?:i|my|we|our)\b)|^according\s+to\b",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "^(?:我)?(?:老板|领导|妈妈?|爸爸?|老师|朋友|同事|他们?|她们?|人家|别人|有人|网上|书上|书里|文章|文档|合同里?|守则|传单"
        "|教程|牌子上|医生|专家)"
        "[^,，。我]{0,3}(?:说|讲|告诉|认为|建议|写着|要求|规定)(?!.*我)"
    ),
}
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
_SMALL_TALK: dict[Language, re.Pattern[str]] = {
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
_DEMAND = late_pattern("不要|别|不得|不能|不许|禁止|严禁|必须|务必|一定要|只[用能要发做]|每次")
"""Matches a Chinese clause that demands something, even if the rest of the sentence is only the reason for it."""
_FORBIDS = late_pattern(
    "(?:请|千万|绝对|一定|都|以后|今后)*(?:不要|别(?!忘)|不得|不许|不准|禁止|严禁)"
    "|[^,，。我你您]{1,9}\\d[^,，。我你您]{0,6}(?:不能|不要|不得|不许|不准|禁止|严禁)(?!忘|超)"
)
"""Matches a sentence that forbids something, at once or for a thing with a number: 订单4711不能退款."""
_FORBIDS_OTHERWISE = late_pattern(
    r"\b(?:off|away|out|alone|secret|private|confidential|only|leave|hands|ban|block|refuse|reject|untouched)\b|保密|只|仅|防止|以外",
    re.IGNORECASE,
)
"""Matches a prohibition without a negative word: "hands off the cable"."""
_LAYS_DOWN: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"^(?:(?:and|but|so|also|please|then|just)\s+)*(?:please|never|always|only|keep|use|write|ask|send|put"
        r"|make\s+(?:it|the)|let's|no|nothing|nobody|don't|do\s+not|stop|avoid"
        r"|(?:i|we)(?:'d|'ll|'re|\s+would|\s+will|\s+are)?\s+(?:prefer|rather|want\s+(?!to\b)|take|taking"
        r"|go\s+(?:with|for)|going\s+(?:with|for)|stay|choose|chose|picked|decided)"
        r"|you\s+(?:can|may)|everything|every)\b",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "^(?:那|就|请|也|都|但|千万|可以|所以)*(?:不要(?!太)|别(?![的人说])|不得|不能(?!不)|不许|禁止|严禁"
        "|必须|务必|一定要|以后|每次|最多|至少|不超过|改|换|选|定|只[用发做]|取消|打字)"
        "|(?:取消|以内)$|以内都?|^(?!.*(?:[是对的]吧|也许|可能|大概|估计|猜|好像)).*(?:吧|好了|就好|就行|都行"
        "|都可以)[。！!]?$|还是(?!很|挺|[^,，]{0,4}的$)[^,，。]{2,12}好|应该是"
    ),
}
"""Matches a clause that demands something ("always use tabs") or gives something a value."""
_MARKED: dict[Language, re.Pattern[str]] = {
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
_BESIDE_A_REASON = 1.0
"""Added to the score that a clause needs to count as a rule, if it lays something down and its reason follows or
precedes it."""
_CLAUSE = 0.7
"""Score from which a clause of a sentence counts as a separate rule."""
_SHORT = 4
"""Number of words (Chinese: pairs of characters) below which a sentence, such as "Thanks.", says nothing about its
message."""
# Words of small talk.
_CHATTER = late_pattern(
    r"!|\b(?:awesome|amazing|great|lov(?:e|ed|ely|ing)|fun|excit\w+|happy|glad|proud|beautiful|wonderful|cool"
    r"|wow|yay|haha"
    r"|lol|hope|hoping|dreams?|feel(?:s|ing)?|felt|support\w*|memor\w+|enjoy\w*|inspir\w+|joy|peace\w*|passion\w*|blast"
    r"|incredible|grateful|lucky|life|friends?|together|congrats|miss|sweet|nice|cute|fantastic|special"
    r"|journey|strength"
    r"|bond|cozy|relax\w*|comfort\w*|courage|thankful|appreciate|bet|buddy|pic|photo)\b"
    r"|！|哈哈|开心|好玩|太棒|加油|可爱|幸福|喜欢你|羡慕|感动|真好",
    re.IGNORECASE,
)
_GREETING = late_pattern(
    r"\W*(?:hi|hello|hey|good\s+(?:morning|evening|afternoon)|你好|您好|早上好|嗨)(?:\s+(?:there|all|everyone))?\W*$",
    re.IGNORECASE,
)
_INSTRUCTS: dict[Language, re.Pattern[str]] = {
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
_ELLIPTIC: dict[Language, re.Pattern[str]] = {
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
_MOST_ABOVE = 0.8
"""Most that the other sentences of a message can add to the score which an instruction to the assistant needs to count
as a rule."""
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
_QUESTION: dict[Language, re.Pattern[str]] = {
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
        "^\\W*(?P<fact>(?:你好|您好|对了|那)?[,，]?(?:我|我们|我家|[他她]|孩子|宝宝|女儿|儿子|老公|老婆|爱人"
        "|妈妈?|爸爸?|父亲|母亲|老人|客户)[^,，。?？]{0,8}?"
        "(?:对[^,，。?？]{1,10}过敏|吃素|素食|糖尿病|怀孕|孕妇|高血压|哮喘|乳糖不耐受?|(?:不能吃"
        "|不吃(?![饭药了早午晚]))[^,，。?？]{1,8}|忌口[^,，。?？]{0,8})[^,，。?？吗呢]{0,6})"
        "[,，;；][^。]*[?？吗呢]"
    ),
}
"""Matches a question after a lasting fact about the user: "I'm allergic to nuts, do you have anything without?"."""
_KIND_FORMS: dict[Language, tuple[tuple[RuleKind, re.Pattern[str]], ...]] = {
    "en": (
        (
            "task",
            re.compile(
                r"^\W*(?:(?:and|also|please|so|but)\s+)*remind\s+(?:me|us)\b(?!.*\b(?:every|always|each)\b)|^\W*to-?do\s*:",
                re.IGNORECASE,
            ),
        ),
        (
            "fact",
            re.compile(
                r"^\W*(?:(?:and|also|but|hi|so|by\s+the\s+way)\W+)*(?:(?:i|we|he|she|they|my\s+[\w-]+"
                r"|our\s+[\w-]+|[A-Z]\w+)(?:'m|'s|'re|\s+am|\s+is|\s+are|\s+has|\s+have|\s+can't\s+(?:eat|have))\s+)"
                r"(?:(?:very|severely|also|both|a|an|got|type\s+\d|highly)\s+)*(?:allergic|vegetarian|vegan"
                r"|diabetic|diabetes|pregnant|co?eliac|asthma\w*|epilep\w+|gluten|lactose|shellfish"
                r"|high\s+blood\s+pressure)\b"
            ),
        ),
        (
            "fact",
            re.compile(
                r"^\W*(?:my|the|our)\s+(?:booking|order|customer|member\w*|reference|contract|ticket|confirmation)\s+(?:number|reference|code|id|no\.?)\s+is\b",
                re.IGNORECASE,
            ),
        ),
    ),
    "zh": (
        (
            "prohibition",
            re.compile(
                "^[^,，。]{0,12}?(?:不要|不准|不许|别|禁止|不得|不能)(?:再)?(?:超过|高于|多于)"
            ),
        ),
        (
            "task",
            re.compile(
                "^待办[:：]|^(?:对了|另外|还有|也|再|请|记得|麻烦|到时候|还要)*[,，]?提醒我(?!.*(?:每|都|别))|(?:告诉我"
                "|叫我|通知我|跟我说)(?:一声)?[。！!]?$(?<!以后)"
            ),
        ),
        (
            "fact",
            re.compile(
                "^(?:对了|另外|那个|还有|其实|因为)?[,，]?(?:我|咱|他|她|孩子|宝宝|老[公婆人]|爱人|儿子|女儿"
                "|[一两三四五]个|有)[^,，。不别]{0,8}?"
                "(?:(?:过敏|糖尿病|高血[压脂]|血压高|血糖高|痛风|心脏病|心脏不好|癫痫|哮喘|中风|关节炎|肾病"
                "|肝病|胃病|抑郁|自闭症|多动症|色盲|晕车|恐高|怀孕|孕妇|穆斯林|回族|回民|吃素|吃清真|轮椅|腰椎间盘突出)"
                "|(?:乳糖|麸质|酒精)不耐受?|(?:膝盖|腰|腿脚|眼睛|耳朵|胃|肠胃|听力|视力|心脏|身体)不[好便行])"
                "|^[^,，。我你不别]{1,6}(?:我|他|她)(?:用不了|吃不了|不能用|不能吃)|^(?!.*(?:不"
                "|别))(?:(?:我的?|这次的?|那个)?(?:预订|预定|订单|会员|客户|取件|合同|确认|参考|保单|运单"
                "|病历)(?:号码?|编号|码)|身份证号?|护照号?|税号)[是为:： ]*[A-Za-z]{0,4}[- ]?\\d"
                "|^(?:我们?)?[^,，。]{1,6}(?:就|只有)我(?:一个|自己|一个人)(?:人)?(?:[,，。]|$)"
            ),
        ),
        (
            "decision",
            re.compile("^[^不别勿每]*(?:[改挪换调推]|推迟|提前|延期)(?:到|至|成|为)[^不别勿每]*$"),
        ),
    ),
}
"""Patterns of sentences whose kind of rule is certain: a reminder, health, an id, another date."""
_CLAUSES: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"\s*[;,]\s+(?:and\s+|but\s+|also\s+)?|\s+(?:and|but)\s+(?=(?:i|my|we|our|never|don't|please|the)\b)",
        re.IGNORECASE,
    ),
    "zh": re.compile(r"[,，;；]\s*"),
}
_CLAUSE_END = late_pattern(r"[,;:，；：、。]\s*|\s(?=(?:and|but|because|which|so|unless)\b)")
_NAMES_ONLY = late_pattern(
    r"\W*(?:and\s|or\s|but\s)?(?:(?:\d[\w:./-]*|the|an?|all|both|each|my|our|your|his|her|their)\s"
    r"|(?!I\b)[A-Z][\w-]*(?:\s[A-Z][\w-]*)*\s(?=(?:for|at|on|in|to|with|of|from|by)\s))"
    r"(?!.*\b(?:is|are|was|were|has|have|had|will|would|must|should|can|cannot|may|might|needs?|wants?|likes?|prefers?"
    r"|goes|takes?|gets?|stays?|never|always|only)\b)(?!.*['’](?:s|ll|re|ve|d|t)\b)"
)
"""Matches an English clause that begins with a thing or a name and has no common verb: the second part of "ask Kim for
the 13th, the 14th and all pallets"."""
_TOPIC_ONLY = late_pattern(
    r"^\W*(?:(?:and|so|but|then|also)\s+)*(?:for|about|as\s+for|regarding|concerning|in|on|with|when|if)\b(?!.*\b(?:must|never|always|don't|no|only|please)\b)[^,;]*$",
    re.IGNORECASE,
)
"""Matches a clause that only names the subject of the next clause: "for the commit messages"."""
_HEADINGS: tuple[tuple[RuleKind, re.Pattern[str]], ...] = (
    ("prohibition", re.compile("don'?ts|restriction|禁忌|忌口", re.IGNORECASE)),
    (
        "rule",
        re.compile(
            "rule|constraint|requirement|guideline|convention|instruction|规则|要求|原则|规范|约定|注意|限制",
            re.IGNORECASE,
        ),
    ),
    ("decision", re.compile("decision|decided|agreed|决定", re.IGNORECASE)),
    ("preference", re.compile("preference|偏好", re.IGNORECASE)),
    ("task", re.compile("to-?do|task|remind|待办|任务", re.IGNORECASE)),
)


_SHORT_TEXT: dict[Language, int] = {"en": 60, "zh": 14}
_GOES_ON: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"(?:(?:please|and|but|so|also|just)\W+)*(?:not\b|only\b|or\b|it\b|it's\b|that\b|they\b|them\b|those\b"
        r"|he\b|she\b"
        r"|\w+\s+(?:it|them|this|that|those|these)\b|same\b|otherwise\b|no\s+exceptions?\b|(?:do\s+not|don't|never|always)\s+\w+\s+(?:it|them|that|those|him|her)\b)",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "(?:请|就|也|但是?|不过|而且|千万|一定|记得|麻烦|以后)*(?:不要|别|不用|不能|不许|不可以|只要|只能|最好"
        "|必须|尽量|改成|换成|要|得|它|那|这|他|她)"
    ),
}
"""Matches the beginning of a sentence without a subject, or with a pronoun for it."""
_REFUSES = late_pattern(
    r"(?:please\s+)?(?:not|never|no|don't|do\s+not)\b|(?:请|也|千万|但)*(?:不要|别|不能|不)再?(?P<verb>.)",
    re.IGNORECASE,
)
_NEEDS_SUBJECT = late_pattern(
    "^(?:所以|也|就|请|千万|但|一定|记得)*(?:别|不要|不能|不许|不用)[\u4e00-\u9fffA-Za-z0-9 ]{0,4}(?:了"
    "|吧)?[。！!]?$|^(?:都|也|就|才|再|还)"
    "|^[^,，]{0,5}(?:太|很|受不了|吃不消|到期|坏)|了[。]?$(?<!算了)"
)
"""Matches a clause without its subject, or one that is the reason for another."""
_PRONOUN = late_pattern("(?<![其吉])[他她它](?!们?的)")
_SURE = 3.5
"""Score that a sentence gets at least if it has a form that only rules have, such as "I'd rather walk than drive"."""
_SURE_FORMS: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        # a choice between two things, a thing ruled out, a free hand
        r"^\W*(?:just|only)\s+(?:give|show|send)\s+me\s+[^,;]+,\s*(?:i\s+don't\s+(?:need|want)|no|not|without|skip)\b"
        r"|\b(?:i|we)'d\s+(?:much\s+)?rather\s+(?!not\s+say|die)\w+\b.*\bthan\b"
        r"|^\W*(?:(?:and|but|so|also|please)\W+)*no\s+(?:(?:more|new|further|extra)\s+)?(?!way|need|problem|idea|one|thanks?)(?:[\w-]+\s+){1,4}(?:please|pls)\b"
        r"|^\W*(?:(?:and|but|so|then)\W+)*(?:you\s+(?:can|may)\s+(?:now\s+)?)?(?!do\b|say\b|think\b)[a-z]+\s+(?:\w+\s+){0,3}?(?:whatever|whichever|however|whenever)\s+you\s+(?:like|want|please)\b"
        # an amount that will do, a place where things go, an address in a network
        r"|^\W*(?:(?:ok(?:ay)?|yes|yeah|well|i\s+think|maybe|so)\W+)*(?:\d+|a|an|one|two|three|four|five|six|seven|eight|nine|ten|twelve)\s+(?:[\w-]+\s+){1,3}(?:should|would|will)\s+(?:be\s+(?:ok(?:ay)?|enough|fine|plenty)|do)\b"
        r"|^\W*(?:they|these|those|all\s+\w+|the\s+\w+)\s+(?:go|belong|live)\s+(?:to|in|into|under|on)\s+(?:/|the\s)"
        r"|\b(?:\d{1,3}\.){3}\d{1,3}\b",
        re.IGNORECASE,
    ),
    # what follows from a reason
    "zh": re.compile(
        "(?:^|[,，])所以[^,，我]{0,12}?(?:都|就|也|还)?(?:得(?![到了知意])|必须|只能|一律|务必|不能|不要|别)[^,，。]{2,}"
        "|(?:^|[,，])(?:字|字号|字体|声音|音量|语速)[^,，。]{0,6}(?:得|要|必须|放|调)[^,，。]*(?:大|小|慢|快|高|低|以上|以下)"
    ),
}
_FILES: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"^\W*(?:(?:so|and|but|then|also|please|ok(?:ay)?|yes|could\s+you|can\s+you|would\s+you|will\s+you|just|maybe|you\s+can)\b\W*)*"
        r"(?:(?:put|add|write|note|jot|keep|pop|get|stick|take)\s+(?:it|that|this|those|these|them|a\s+note(?:\s+of\s+(?:it|that|this))?)\b"
        r"(?:\s+(?:one|too|as\s+well))?(?:\s+(?:down|somewhere)\b|\s+(?:on|in|to|onto|for)\s+(?:the|my|our|your)\s+(?:\w+\s+){0,2}(?:list|to-?dos?|board|tasks|reminders|agenda)\b|\s*$)"
        r"|(?:put|write|note|jot)\s+down\s+(?:it|that|this)\b|remind\s+me(?:\s+(?:of|about)\s+(?:it|that|this))?\W*$)",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "^(?:(?:那|就|请|也|先|你|您|再|把?(?:这|那)(?:[一]?[条个件项]?[事儿]*)|都|给我|帮我|替我|麻烦|到时候?)*)"
        "(?:记(?:着|下来?|上|一下|一笔|住)|列(?:着|上|下来?|一下|[进到入](?:待办|清单|单子)[里上]?)|挂(?:着|上)"
        "|加(?:上|[进到入](?:待办|清单|单子)[里上]?)|提醒我?一下|提醒我)[吧啊哦哈呀了]*\\W*$"
    ),
}
"""Matches a sentence or clause that asks to note down the words before it: "put that on the list", 先记着."""
_FILED: dict[Language, re.Pattern[str]] = {
    "en": re.compile(
        r"^\W*(?:please\W+)?(?:put|add|note|jot|write)\s+(?:(?:it|this|that)\s+)?(?:down|(?:on|to|onto|in)\s+(?:the|my|our)"
        r"\s+(?:\w+\s+){0,2}(?:list|to-?dos?|board|agenda))\s*:\s*\w",
        re.IGNORECASE,
    ),
    "zh": re.compile(
        "^(?:请|麻烦|帮我)*(?:记一下|记下来?|[加列写][到进入上]+(?:待办|清单|单子)[里上]?)[:：]\\s*\\w"
    ),
}
"""Matches a sentence that asks to note down what follows: "put it on the list: buy a stroller"."""
_POINTS_BACK: dict[Language, re.Pattern[str]] = {
    "en": re.compile(r"\b(?:it|that|this|them|those|these)\b", re.IGNORECASE),
    "zh": re.compile("^(?:那|就|也|先)*[这那它他她]"),
}
"""Matches a task that cannot be understood without the sentence before it: "I'll do that tonight, remind me"."""
_LONGEST_JOINT = 8
"""Most characters between two clauses of a sentence: a comma, a space, a word such as "and"."""


class _Part(NamedTuple):
    """A part of a sentence that is a rule, with its kind and what it does to earlier rules."""

    start: int
    end: int
    language: Language
    kind: RuleKind
    act: RuleAct
    weak: bool = False


class _Read(NamedTuple):
    """A sentence with the score of how likely it is a rule."""

    sentence: OwnSentence
    language: Language
    score: float
    words: int
    """Number of words of the text, or of pairs of Chinese characters; 0 if the text is no sentence."""
    is_chatter: bool = False
    is_work: bool = False
    """True if the sentence asks for one piece of work now ("run the tests"), which is no small talk."""

    @property
    def talk(self) -> float:
        """Certainty, from 0 (none) to 1, that the sentence is not a rule; 0 for a short sentence and for a request."""
        is_talk = self.words >= _SHORT and not self.is_work
        return max(0.0, min(1.0, -self.score / 2)) if is_talk else 0.0


class _Around(NamedTuple):
    """Totals over the sentences of a message, by which it is decided how strictly each sentence is judged."""

    sentences: int
    long: int
    """Number of sentences of the message with at least `_SHORT` words."""
    talk: float
    """Sum of `_Read.talk` over the sentences of the message."""
    chatter: int
    """Number of long sentences of the message with words of small talk."""
    cheers: int
    """Number of short sentences of the message that are small talk, such as "Great!"."""


def extract_rules(
    text: str, *, seq: int, trust: RuleTrust, answered: str = ""
) -> tuple[StandingRule, ...]:
    """Return the standing rules of a message (statements that hold beyond its turn), in order.

    `text` must be a user's message or the system message, never a tool result or a model's answer; text that it quotes
    is ignored. Reports that something is done are returned too (`act="done"`): they end tasks and are not kept.
    `answered` is the assistant's message directly before a user's message: a short answer to it is a rule if it adopts
    a proposal, picks an item of a list or answers what the user wants. Nothing else in it can become a rule.
    """
    sentences = [*own_sentences(text)]
    rules = _own_rules(text, sentences, seq=seq, trust=trust)
    if trust == "user" and answered and (answer := read_answer(text, sentences, answered)):
        return _with_answer(text, answer, rules, seq=seq)
    return rules


def _with_answer(
    text: str, answer: ShortAnswer, rules: tuple[StandingRule, ...], *, seq: int
) -> tuple[StandingRule, ...]:
    """Return the rules of a message, including the answer it gives to the assistant if that is a rule."""
    language: Language = "zh" if _HAN.search(answer.meaning) else "en"
    as_said = _in_the_users_mouth(plain_characters(answer.meaning))
    judged = next(
        (each for each in _own_rules(as_said, [*own_sentences(as_said)], seq=seq, trust="user", is_proposal=True)
         if each.act != "done"),
        None,
    )  # fmt: skip
    if _is_no_rule(as_said, language) or asks_a_favour(as_said, language):
        return rules
    if not (judged or answer.is_explicit):
        return rules
    said = text[answer.start : answer.end].strip()
    plain = plain_characters(answer.meaning)
    terms = rule_terms(plain)
    act = act_of(plain, language) if answer.adopts else "state"
    demands = judged is not None and answer.adopts and judged.kind in ("rule", "prohibition")
    rule = StandingRule(
        id=rule_id(said, seq=seq, trust="user", at=answer.start), text=_cut(said), seq=seq,
        kind=judged.kind if judged and demands and act == "state" else "decision",
        act="state" if act in ("done", "keep") else act,
        negative=answer.adopts and act != "permit" and is_negative(plain, language),
        scope=terms.scope[:24], value=terms.value[:12],
        answers=answer.answers, meaning=answer.meaning, adopts=answer.adopts,
    )  # fmt: skip
    others = [each for each in rules if each.text not in said or each.act == "done"]
    return (rule, *others)


def _in_the_users_mouth(meaning: str) -> str:
    """Return a proposal of the assistant in the user's words: "show me the logs" for "show you the logs"."""
    meaning = re.sub(r"\byou\b", "me", re.sub(r"\byour\b", "my", meaning))
    return re.sub("^我们?(?=[^的])", "", re.sub("[您你]", "我", meaning))


def _own_rules(
    text: str,
    sentences: Sequence[OwnSentence],
    *,
    seq: int,
    trust: RuleTrust,
    is_proposal: bool = False,
) -> tuple[StandingRule, ...]:
    """Return the standing rules in the user's own sentences, apart from answers to the assistant.

    If it `is_proposal` of the assistant that the user adopts, a request for work ("split the service") may be one.
    """
    read = [_read(sentence, is_proposal=is_proposal) for sentence in sentences]
    around = _Around(
        sum(each.words > 0 for each in read),
        sum(each.words >= _SHORT for each in read),
        sum(each.talk for each in read),
        sum(each.is_chatter and each.words >= _SHORT for each in read),
        sum(each.is_chatter and each.words < _SHORT for each in read),
    )
    rules: list[StandingRule] = []
    seen: set[tuple[str, ...]] = set()
    last = 0  # where the last rule ends
    for number, each in enumerate(read):
        first = True
        if trust == "user" and _is_noted(read, number):
            parts = [_Part(0, len(each.sentence.text), each.language, "task", "state")]
        elif trust == "user" and number and _is_note(each):
            parts = []  # "put that on the list": what to put there stands before it
        else:
            parts = _parts(each, None if trust == "system" else around)
        for part in parts:
            rule = _rule(text, each.sentence, part, seq=seq, trust=trust)
            start = text.find(rule.text, each.sentence.start + part.start)
            key = (rule.act, rule.kind, rule.text.lower())
            if key in seen:
                continue
            seen.add(key)
            noted = rule.kind == "task" and _has_note(rule.plain, part.language)
            goes_on = not first or _goes_on(rule.plain, part.language)
            goes_on = goes_on or (noted and bool(_POINTS_BACK[part.language].search(rule.plain)))
            before = rules[-1] if rules and rules[-1].act != "done" else None
            if goes_on and before and 0 <= start - last <= _LONGEST_JOINT:
                rule = msgspec.structs.replace(rule, continues=before.id, joint=text[last:start])
            elif goes_on and first and number and _can_lead(read[number - 1]):
                rule = msgspec.structs.replace(rule, lead=_lead(text, read[:number], start, rule))
            first, last = False, start + len(rule.text)
            rules.append(rule)
    if trust == "user" and any(closes(each.sentence.text) for each in read):
        rules.append(_closing(text, [each.sentence for each in read], seq=seq))
    return tuple(rules)


def _closing(text: str, sentences: Sequence[OwnSentence], *, seq: int) -> StandingRule:
    """Return the sentence of a message that says that work is done, with those next to it, which say which work.

    The sentences returned are the ones that no quoted text separates from it.
    """
    first = last = next(at for at, each in enumerate(sentences) if closes(each.text))
    while first and not text[sentences[first - 1].end : sentences[first].start].strip():
        first -= 1
    while (
        last + 1 < len(sentences)
        and not text[sentences[last].end : sentences[last + 1].start].strip()
    ):
        last += 1
    said = text[sentences[first].start : sentences[last].end][:LONGEST_RULE].strip()
    terms = rule_terms(said)
    return StandingRule(
        id=rule_id(said, seq=seq, trust="user", at=-1), text=said, kind="task", seq=seq, act="done",
        scope=terms.scope[:24], value=terms.value[:12],
    )  # fmt: skip


def _is_note(each: _Read) -> bool:
    """Return True if a sentence only asks to note down the sentence before it."""
    return _FILES[each.language].match(each.sentence.text) is not None


def _has_note(text: str, language: Language) -> bool:
    """Return True if the last clause of a sentence asks to note down the others: "the cat needs a chip, remind me"."""
    start, end = _clause_spans(text, language)[-1]
    return start > 0 and _FILES[language].match(text[start:end]) is not None


def _is_noted(read: Sequence[_Read], number: int) -> bool:
    """Return True if the user asks to note down a sentence, in its last clause or in the sentence after it."""
    each = read[number]
    text = each.sentence.text
    if _FILED[each.language].match(text) and len(text) <= LONGEST_RULE:
        return True
    if each.words < _SHORT or _is_note(each) or text[-1] in ":：" or len(text) > LONGEST_RULE:
        return False
    if BLANK in text and 2 * text.count(BLANK) > len(text):
        return False
    if _has_note(text, each.language):
        return True
    asks = _QUESTION[each.language].search(text)
    return not asks and number + 1 < len(read) and _is_note(read[number + 1])


def _lead(text: str, before: Sequence[_Read], start: int, rule: StandingRule) -> str:
    """Return the one or two sentences before a rule that may name its subject; "" if they are too long."""
    found = ""
    for each in reversed(before[-2:]):
        lead = text[each.sentence.start : start]
        if not _can_lead(each) or "\n" in lead or len(lead) + len(rule.text) > LONGEST_RULE:
            break
        found = lead
    return found


def _goes_on(text: str, language: Language) -> bool:
    """Return True if a short sentence has its subject in the sentence before it: "Not as store credit"."""
    return len(text) <= _SHORT_TEXT[language] and _GOES_ON[language].match(text) is not None


def _can_lead(before: _Read) -> bool:
    """Return True if a sentence may name the subject of the next one; False for a question or small talk.

    False for a question and for small talk.
    """
    text = before.sentence.text
    asks = _QUESTION[before.language].search(text)
    return before.words >= _SHORT - 1 and not before.is_chatter and not asks


def _read(sentence: OwnSentence, *, is_proposal: bool = False) -> _Read:
    """Score how likely a sentence is a rule; a question scores low unless it asks for something lasting."""
    text = sentence.text
    chinese = 0 if text.isascii() else len(_HAN.findall(text))
    words = len(_LATIN_WORD.findall(text))
    language: Language = "zh" if chinese >= max(2, words) else "en"
    if (
        _is_babble(text)
        or not chinese + words
        or text[0] in "[【"
        or _SMALL_TALK[language].search(text)
    ):
        return _Read(sentence, language, -9.0, 0)
    is_work = not is_proposal and is_one_time(text, language) and not _listed(sentence)
    if is_work or (not sentence.heading and _is_no_rule(text, language)):
        size = min(_SHORT, chinese // 2 + words)
        is_chatter = _CHATTER.search(text) is not None
        is_work = is_work and not is_chatter and not asks_a_favour(text, language)
        return _Read(sentence, language, -3.0, size, is_chatter, is_work)
    if _GREETING.match(text):
        return _Read(sentence, language, -3.0, 1)
    if _ELLIPTIC[language].fullmatch(text):
        return _Read(sentence, language, UNKNOWN, 1, _CHATTER.search(text) is not None)
    plain = _demanded(text, language) if _QUESTION[language].search(text) else text
    if not plain:
        return _Read(sentence, language, -3.0, _SHORT, _CHATTER.search(text) is not None)
    likely = score(plain, language)
    proper = _without_opening(plain, language)
    if proper != plain:
        likely = max(likely, score(proper, language))
    likely = max(likely, _clause_score(proper, language))
    if _SURE_FORMS[language].search(proper):
        likely = max(likely, _SURE)
    likely -= _REPORTED if _OTHERS_SAID[language].search(text) else 0.0
    likely -= _PASSING[language] if is_passing(plain, chinese=language == "zh") else 0.0
    return _Read(
        sentence, language, likely, chinese // 2 + words, _CHATTER.search(text) is not None
    )


def _without_opening(text: str, language: Language) -> str:
    """Return a sentence without introductory words such as "and", "by the way", 对了."""
    opening = _OPENING[language].match(text)
    return text[opening.end() :] if opening else text


def _sets_value(text: str, language: Language) -> bool:
    """Return True if a sentence gives a new value, with or without its introductory words."""
    if _TURNED_INTO.search(text):
        return False
    return gives_new_value(text, language) or gives_new_value(
        _without_opening(text, language), language
    )


def _clause_score(text: str, language: Language) -> float:
    """Return the score of the clause that most clearly demands something or gives a value, among all clauses.

    The other clauses are its reasons, and may come before or after it.
    """
    clauses = [text[start:end] for start, end in _clause_spans(text, language)]
    if len(clauses) < 2:
        return UNKNOWN
    found = [
        clause for clause in clauses if len(clause) > 3 and _LAYS_DOWN[language].search(clause)
    ]
    best = max((score(clause, language) for clause in found), default=UNKNOWN)
    return best - _BESIDE_A_REASON


def _clause_spans(text: str, language: Language) -> list[tuple[int, int]]:
    """Return the clauses of a sentence; nothing is cut in brackets."""
    cuts = [match.span() for match in _CLAUSES[language].finditer(text)]
    if not cuts:
        return [(0, len(text))]
    within = bracketed(text)
    cuts = [cut for cut in cuts if not any(start < cut[0] < end for start, end in within)]
    starts = [0, *(end for _, end in cuts)]
    ends = [*(start for start, _ in cuts), len(text)]
    return list(zip(starts, ends, strict=True))


def _is_no_rule(text: str, language: Language) -> bool:
    """Return True if a sentence has a form that rules never have.

    Such forms are the wish of somebody else, and a past event.
    """
    if _NO_RULE[language].search(text):
        return True
    return any(sign in text for sign in _PAST_SIGNS) and _PAST.search(text) is not None


def _demanded(text: str, language: Language) -> str:
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


def _is_babble(text: str) -> bool:
    """Return True if a text is mostly punctuation, or mostly repeats itself: "never never never ..."."""
    words = text.split()
    if 2 * sum(map(str.isalnum, text)) < len(text) - text.count(BLANK):
        return True
    if len(words) > 20:
        return len(set(words)) < len(words) // 3
    return len(text) > 60 and len(set(text)) < 8


def _parts(each: _Read, around: _Around | None) -> Iterator[_Part]:
    """Yield the rules in a sentence: the sentence itself, or several of its clauses; nothing if it scores too low.

    Without `around` (totals of its message), the sentence is judged as if it were the whole message.
    """
    sentence, language = each.sentence, each.language
    text = sentence.text
    if text[-1] in ":：" or not each.words:
        return
    kind = _listed(sentence)
    wanted = _wanted(each, around)
    if kind is None and each.score < wanted:
        asks = _QUESTION[language].search(text)
        demand = "" if asks or each.is_work else _demand(text, language, wanted + _BESIDE_A_REASON)
        if demand:
            yield _Part(0, len(text), language, _kind(demand, language), _act(text, language))
            return
        plain = plain_characters(text)
        if not asks and _may_undo(plain, language):
            yield _Part(0, len(text), language, "task", "done")
        return
    act = _act(text, language)
    clauses = [] if act != "state" or kind else [*_clauses(text, language)]
    if len(clauses) > 1:
        yield from clauses
        return
    asked = max(wanted, _ALONE[language]) if _sets_value(text, language) else wanted
    explicit = _INSTRUCTS[language].search(text) or _demand(text, language, asked)
    weak = kind is None and each.score < asked + _WEAK and not explicit
    kind = kind or _kind(text, language)
    if kind in ("task", "decision", "fact") and reports_done(text, language):
        yield _Part(0, len(text), language, "task", "done")
    yield _Part(0, len(text), language, kind, act, weak)


def _act(text: str, language: Language) -> RuleAct:
    """Return what a sentence does to earlier rules, without its clauses that leave something unchanged."""
    changed = _changed(text, language)
    return act_of(changed, language) if changed else "keep"


def _may_undo(text: str, language: Language) -> bool:
    """Return True if a sentence that is no rule by its words may end, permit or complete what an earlier one says."""
    if reports_done(text, language) or may_report(text) or alters(text):
        return True
    return is_permission(text) or may_fill(text) or asks_for_action(text)


def _kind(text: str, language: Language) -> RuleKind:
    """Return the kind of a rule: by its form where that is certain, else the most likely one."""
    for kind, pattern in _KIND_FORMS[language]:
        if pattern.search(text):
            return kind
    return kind_of(text, language)


def _changed(text: str, language: Language) -> str:
    """Return a sentence without clauses that leave something unchanged; "" if it has no other clause."""
    if not says_it_stays(text, language):
        return text
    kept: list[str] = []
    for start, end in _clause_spans(text, language):
        clause = text[start:end]
        if not says_it_stays(clause, language):
            kept.append(clause)
        elif kept and names_nothing(clause, language):
            kept.pop()  # "the robot still goes to my mother, no change"
    return ", ".join(kept)


def _demand(text: str, language: Language, wanted: float) -> str:
    """Return the clause of a Chinese sentence that demands something, if its score is at least `wanted`; else "".

    Chinese often joins a demand and its reason in one sentence; the reason alone would make the score too low.
    """
    spans = _clause_spans(text, "zh") if language == "zh" else []
    clauses = [text[start:end] for start, end in spans]
    found = [clause for clause in clauses if _DEMAND.search(clause)]
    best = max(found, key=lambda clause: score(clause, "zh"), default="")
    return best if len(clauses) > 1 and best and score(best, "zh") >= wanted else ""


def _wanted(each: _Read, around: _Around | None) -> float:
    """Return the score that a sentence needs to be a rule; it depends on the other sentences of its message."""
    alone = wanted = _ALONE[each.language]
    if not _MARKED[each.language].search(each.sentence.text):
        alone = wanted = wanted + _UNMARKED
    if _sets_value(each.sentence.text, each.language):
        return wanted - _NEVER_LOST
    if around is None or around.sentences < 2:
        text = each.sentence.text
        if _SETS_ANEW.search(text):
            return wanted - _OUTRIGHT
        wanted += _IS_CHATTER / 2 * each.is_chatter
        if _INSTRUCTS[each.language].search(text):
            return wanted - _CHANGE
        return wanted - (_CHANGE if act_of(text, each.language) != "state" else 0.0)
    is_long = each.words >= _SHORT
    wanted += _BESIDE_OTHERS + _IS_CHATTER * each.is_chatter
    if others := around.long - is_long:
        wanted += _AMONG_TALK * (around.talk - each.talk) / others
        chatter = around.chatter - (each.is_chatter and is_long)
        wanted += _AMONG_CHATTER * min(1.0, 0.3 + chatter / others) if chatter else 0.0
    if around.cheers > (each.is_chatter and not is_long):
        wanted += _BESIDE_CHEERS
    if _INSTRUCTS[each.language].search(each.sentence.text):
        return min(wanted, alone + _MOST_ABOVE)
    calm = not around.chatter and not each.is_chatter
    if calm and _is_explicit(each.sentence.text, each.language):
        return min(wanted, alone + _MOST_ABOVE)
    return wanted


def _is_explicit(text: str, language: Language) -> bool:
    """Return True if a clause of a sentence demands something or gives a value."""
    plain = _without_opening(text, language)
    return any(
        _LAYS_DOWN[language].search(plain[start:end])
        for start, end in _clause_spans(plain, language)
    )


def _clauses(text: str, language: Language) -> Iterator[_Part]:
    """Yield the clauses of a sentence that are separate rules, each up to the next of them.

    Yields nothing if fewer than two are.
    """
    found = [
        span
        for span in _clause_spans(text, language)
        if span[1] - span[0] > 3 and score(text[slice(*span)], language) >= _CLAUSE
    ]
    ends = [start for start, _ in found[1:]] + [len(text)]
    for (begin, end), (start, stop), last in zip(found, found[1:], ends[1:], strict=False):
        whole = text[start:last]
        if _needs_the_clause_before(text[start:stop], text[begin:end], language) or (
            language == "zh" and _PRONOUN.search(whole)
        ):
            return
    if len(found) < 2:
        return
    found[0] = (0, found[0][1])
    for number, (start, _) in enumerate(found):
        end = found[number + 1][0] if number + 1 < len(found) else len(text)
        yield _Part(start, end, language, _kind(text[start:end], language), "state")


def _needs_the_clause_before(clause: str, before: str, language: Language) -> bool:
    """Return True if a clause cannot be understood alone, such as 别推荐, "main hall", or one with a pronoun."""
    if is_fragment(clause) or _sets_off(clause, before):
        return True
    if language == "en" and (_TOPIC_ONLY.match(before) or _NAMES_ONLY.match(clause)):
        return True
    if language == "zh":
        return _NEEDS_SUBJECT.search(clause) is not None
    return len(clause.split()) < 3 and not _LAYS_DOWN["en"].search(clause)


def _sets_off(clause: str, before: str) -> bool:
    """Return True if a clause only contrasts with the clause before it: "in white, not in grey"."""
    refused = _REFUSES.match(clause)
    if refused is None:
        return False
    verb = refused["verb"]
    return (verb is not None and verb in before) or not set(rule_terms(clause).scope).isdisjoint(
        rule_terms(before).scope
    )


def _listed(sentence: OwnSentence) -> RuleKind | None:
    """Return the kind of rule of a list item by the heading of its list ("Rules:").

    Returns None if the heading names no kind.
    """
    heading, text = sentence.heading, sentence.text
    if not heading or not 4 <= len(text) <= LONGEST_RULE or text == heading or text[-1] in ":：?？":
        return None
    return next((kind for kind, pattern in _HEADINGS if pattern.search(heading)), None)


def _rule(
    text: str, sentence: OwnSentence, part: _Part, *, seq: int, trust: RuleTrust
) -> StandingRule:
    start, end = sentence.start + part.start, sentence.start + part.end
    said = _cut(text[start:end])
    plain = plain_characters(said)
    terms = rule_terms(_changed(plain, part.language) or plain)
    act, kind = part.act, part.kind
    negative = is_negative(plain, part.language)
    if kind == "prohibition" and (act == "permit" or (act == "change" and not negative)):
        kind = "rule"  # "change the port" forbids nothing
    if kind == "prohibition" and not negative and not _FORBIDS_OTHERWISE.search(plain):
        kind = "rule"  # neither does "pay with PayPal"
    if kind != "prohibition" and act == "state" and _FORBIDS.match(plain):
        kind = "prohibition"
    negative = negative or kind == "prohibition"
    if act == "state" and is_weak_change(plain, part.language):
        act = "renew"
    return StandingRule(
        id=rule_id(said, seq=seq, trust=trust, at=start), text=said, kind=kind, seq=seq, trust=trust,
        act=act, negative=negative and act != "permit", weak=part.weak, scope=terms.scope[:24], value=terms.value[:12],
    )  # fmt: skip


def _cut(said: str) -> str:
    """Return a rule's text without commas at its ends, cut at a clause if it is longer than a rule may be."""
    if len(said) > LONGEST_RULE:
        ends = [
            match.start() for match in _CLAUSE_END.finditer(said, LONGEST_RULE // 3, LONGEST_RULE)
        ]
        space = said.rfind(" ", LONGEST_RULE // 2, LONGEST_RULE)
        said = said[: ends[-1] if ends else space if space > 0 else LONGEST_RULE]
    return said.strip().strip(",，;；、").strip()
