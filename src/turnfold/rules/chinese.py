"""Read Chinese clauses: which of them lay down a rule, prohibition, decision, preference, task or fact.

Chinese chat strings clauses together with commas, so the clause between two commas is the unit. Words such as 别,
不能 or 一定要 are parts of other words and idioms as often as they are rules (特别, 能不能, 有机会一定要看看): what
stands before and after them decides.
"""

from __future__ import annotations

import re
from itertools import chain
from operator import add

from turnfold.rules.chinese_clauses import CLAUSES
from turnfold.rules.patterns import labels
from turnfold.rules.record import Reading

__all__ = ("chinese_change", "is_chinese_talk", "read_chinese", "read_swap", "split_chinese")


_LEAD = re.compile(
    r"(?:好的?|嗯+|哦|噢|行|对了|另外|还有|以及|其次|首先|最后(?=[,，、:：])|顺便(?:说一下|提一下)?"
    r"|补充(?:一下|一点)?|提醒一下|注意(?:一下)?|再说一遍|所以|但是?|不过|而且"
    r"|并且|同时|然后|你好|您好|谢谢|我说|说明一下|说一下|强调一下|重要的是|关键是|其实|说实话|总之"
    r"|反正|麻烦(?:你|您)?|拜托|[,，、:：。！!\s]+)+"
)
_CHANGE = re.compile(
    r"改成|改为|改到|改用|改在|改回|改一下|换成|换到|换用|换回|不用.{1,15}了|不是.{1,15}[,，]?"
    r"(?:而)?是|还是.{1,20}吧|算了|取消|更正|纠正|推迟|提前到|延期|延到|延后|挪到|调整|调到|变更|现在"
    r"(?:是|用|改)|重新|不再|反悔|改主意|收回|作废|之前(?:说|定)的|刚才说的|更新一下|提高到|降到"
    r"|增加到|减少到|缩减到|放宽到|应该是"
)
_OLD = re.compile(
    r"(?:不用|不要|别用|不是|取消|放弃|代替|替换|替代|收回|忘掉|忘了|不选|不走|不去)"
    r"(?P<a>[^,，。；;！!了]{1,20}?)(?:了|[,，]|而是|改|换|$)"
    r"|(?:把|将|从)(?P<b>[^,，。；;]{1,20}?)(?:改|换|调|挪|推|移)(?:成|为|到|用)|"
    r"(?P<c>[^,，。；;]{2,20}?)(?:取消|作废|不算数|不用了|不要了|算了|不做了|不办了|不去了|不再需要)"
)
_QUESTION = re.compile(
    r"[?？]\s*$|(?:吗|么|呢|不|没有)[?？。！!~～\s]*$|(?<!无论)(?<!不管)(?<!不论)(?:什么(?!都|也|的"
    r"|时候都|样的都)|怎么(?!都|也)|怎样|为什么|为啥|多少(?!都)|哪[里个些儿种位]?(?!怕|都|里都)|谁"
    r"(?!都|也)|是否|能不能|可不可以|要不要|会不会|是不是|有没有|该不该|好不好|行不行|如何|咋|难道"
    r"|几[个点号月时]|多久|多大)"
)
_ASKED_RULE = re.compile(
    r"(?:能不能|可不可以|可以|能|麻烦|请|好吗|行吗|以后).*(?:以后|从现在|今后|每次|都(?:用|要|给|叫|别"
    r"|不)|一直|总是|尽量|不要|别(?!的|人)|只用|提醒我|简短|简洁|叫我|称呼我)"
)
_HYPOTHETICAL = re.compile(
    r"就好了|假如|假设|倘若|若是|要不是|本来(?:想|要|打算)|原本|差点|恨不得|好像|似乎|可能|也许|说不定"
    r"|大概|估计|据说|听说|传说|听人说|比如说|例如|万一|早知道|难怪|怪不得|我在想|我在考虑|我不(?:知道"
    r"|确定)"
)
_NOT_OWN = re.compile(
    r"大家都?说|我(?:会(?!说)|将会?|想(?!让你|请你|要[^,，。]{2,12}(?:的|座|房|款|色|味))|打算(?!用)"
    r"|尽力|一定会|也会|可以请|最近)|"
    r"(?:他|她|他们|她们|人家|别人|有人|网上|老板|领导|经理|妈妈?|爸爸?|父母|爸妈|医生|大夫|老师|朋友"
    r"|同事|客户|专家|新闻|书上|书里|文章|文档|老婆|老公|奶奶|爷爷|同学|室友|房东|邻居|护士|律师|主任"
    r"|合同|邮件|报道|公告|教练)[^,，。我你]{0,4}?"
    r"(?:说|讲|告诉|认为|觉得|表示|建议|劝|让我|叫我|要我|希望我|写|提到|规定|提醒|觉得|里面?说|上说)"
)
_TALK = re.compile(
    r"有(?:机会|时间|空|缘)|一定要(?:看|去看|尝|试试|听|玩|去玩|珍惜|加油|相信|坚持|注意(?:身体|休息)"
    r"|幸福|开心|快乐|保重)|别(?:担心|难过|着急|急|客气|怕|灰心|放弃|想太多|多想|想那么多|生气|闹|逗"
    r"|提了|说了|介意|误会|紧张|哭|伤心|太(?:累|难过|担心|在意|勉强)|气馁|泄气|这么说|这样说|看|说|管)"
    r"|不要(?:紧|担心|着急|难过|太(?:难过|累|担心|在意|在乎|紧张|过|有压力)|灰心|气馁|放弃|害怕|客气"
    r"|怕|脸|想太多|轻易放弃|伤心|生气|忘记自己|勉强自己|给自己)|不用(?:谢|客气|担心|说|着急|怕)"
    r"|不客气|不能(?:错过|理解|自拔|再.{1,3}了|不|说|忘|想象|相信|释怀|确定|接受|这么|总|老|光)|必须的"
    r"|没问题|没关系|保重|加油|祝你|晚安|再见|拜拜|不要这[样么]|别这[样么]|下次再|改天再聊|再聊|明天见"
    r"|回头见|多喝水|早点休息"
    r"|注意身体|照顾好自己|别具|别有|特别|分别|区别|性别|级别|识别|个别|差别|别墅|别名|告别"
    r"|离别|类别|辨别|不得(?:不|了|已)|舍不得|怪不得|恨不得|由不得|巴不得|不可(?:思议|避免|或缺|能"
    r"|多得|否认|磨灭|估量)|原因不能|永不|从来不|从来没"
)
_LABELED = labels(
    rule="规则 要求 原则 规范 限制 条件 注意",
    decision="约定 决定 结论",
    preference="偏好",
    task="待办 任务 提醒",
    fact="事实 备忘",
)
_LABEL = re.compile(
    "^(?:我的|我们的|几个|几点|以下|新的?|硬性|基本|团队|项目|编码|写作|格式)*(规则|要求|原则|规范"
    "|约定|决定|结论|偏好|待办|任务|提醒|限制|条件|注意|事实|备忘)(?:事项|如下|是)?\\s*[:：]\\s*"
)

_SPLIT = re.compile(r"[,，;；]\s*|(?<=[\u4e00-\u9fff])\s+(?=[\u4e00-\u9fff])")


def split_chinese(text: str) -> list[tuple[int, int]]:
    """Return the spans of the clauses of a sentence."""
    spans: list[tuple[int, int]] = []
    start = 0
    for match in _SPLIT.finditer(text):
        if match.start() > start:
            spans.append((start, match.start()))
        start = match.end()
    if start < len(text):
        spans.append((start, len(text)))
    return spans


def is_chinese_talk(text: str) -> bool:
    """Return True if a sentence cannot lay down anything: a question, a supposition, what others said."""
    if _NOT_OWN.search(text) or _HYPOTHETICAL.search(text):
        return True
    return _QUESTION.search(text) is not None and not (
        text[-1:] in "?？吗" and _ASKED_RULE.search(text) is not None
    )


def read_chinese(clause: str) -> Reading | None:
    """Return what a clause lays down, or None."""
    lead = _LEAD.match(clause)
    rest = clause[lead.end() :] if lead else clause
    if len(rest) < 2:
        return None
    reading = _read_label(rest)
    reading = reading or _read_rest(rest)
    if reading is None or _TALK.search(rest):
        return None
    return reading


def chinese_change(text: str, reading: Reading) -> Reading:
    """Return the reading of a text as a change if its words say so, with what they name as replaced."""
    if reading.act == "state" and _CHANGE.search(text):
        reading = reading._replace(act="change")
    if not reading.old and reading.act == "change" and (old := _OLD.search(text)):
        reading = reading._replace(old=old["a"] or old["b"] or old["c"] or "")
    return reading


def read_swap(sentence: str) -> Reading | None:
    """Return the reading of "不用 X 了，用 Y", which is one decision in two clauses."""
    if moved := _MOVED.search(sentence):
        return Reading(
            "decision",
            act="change",
            attribute=moved["attribute"],
            value=moved["value"],
            tags=("@is",),
        )
    if "不" not in sentence and "别" not in sentence:
        return None
    found = _SWAP.search(sentence)
    if found is None or ("不是" in found[0] and not _CHANGE_OF_VALUE.search(sentence)):
        return None
    return Reading(
        "decision", act="change", value=found["value"], old=found["old"], tags=("@choice",)
    )


_MOVED = re.compile(
    r"^(?P<attribute>[^,，。我你他她]{1,10}?)(?:又|已经)?(?:换|改|变|推迟|提前|延期|延后)(?:了"
    r"|[一两三几]\S{1,2})[,，]\s*(?:现在|是|改成|换成|变成|到|在)*"
    r"(?P<value>[^,，。；;！!？?]{1,20})"
)
_CHANGE_OF_VALUE = re.compile(
    "截止|预算|时间|日期|会议|端口|地点|改|定|用|选|[周星期礼拜][一二三四五六日天]|\\d"
)
_SWAP = re.compile(
    r"(?:不用|不要|不选|别用|不走|不去|不再用|不是)(?P<old>[^,，。；;！!？?]{1,16}?)了?[,，]\s*(?:而是"
    r"|改|换|就|还是|我们|咱们|都|直接|统一|以后)*(?:用|换成|换|走|选|去|改成|改为|要|是)"
    r"(?P<value>[^,，。；;！!？?]{1,20})"
)


def _read_label(rest: str) -> Reading | None:
    label = _LABEL.match(rest)
    if label is None or not rest[label.end() :].strip():
        return None
    found = _read_rest(rest[label.end() :])
    kind = _LABELED[label[1]]
    return found if found and found.act != "done" else Reading(kind, many=kind == "task")


def _read_rest(rest: str) -> Reading | None:
    return CLAUSES.read(rest, chain(rest, map(add, rest, rest[1:])))
