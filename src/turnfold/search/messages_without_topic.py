"""Messages of a user that name nothing to search for, in English and Chinese: courtesies and follow-ups.

A *courtesy* is a greeting, thanks, a farewell or an agreement: "thanks, talk tomorrow!" has three words that a search
finds somewhere in any long conversation, and asks for nothing. Nothing is recalled for it. A *follow-up* asks about
what was said last: "why?", "and what should we do next?", "continue". A search for its words finds old messages by
chance; what it needs are the newest messages.

A *formality* is a courtesy, or what somebody who helps says out of politeness: "is there anything else I can do for
you?", "one moment, please". Old formalities are not recalled for later messages.

A message is one of them if it can be divided into the phrases below and nothing else; at least one of them must be more
than a filling word. "Thanks, and when is the talk?" is a message like any other. A message without words, such as an
emoji, counts as a courtesy.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from itertools import product
from typing import NamedTuple

from turnfold._lazy_loading import late_pattern
from turnfold.records import Entry, Message
from turnfold.text import LETTERS, RUN, is_character, is_cjk, plain_text, search_terms

__all__ = (
    "asks_for_summary",
    "idle_entries",
    "is_brief",
    "is_courtesy",
    "is_follow_up",
    "is_formality",
)


_LONGEST = 200
"""A message with more characters than this counts neither as a courtesy ("thanks") nor as a follow-up ("why?")."""
_PHRASES = """
    hi; hello; hey; hiya; howdy; greetings; welcome; welcome back; good morning; good afternoon; good evening
    good day; how are you; how are you doing; how's it going; how do you do; nice to meet you; I'm back; I am back
    good night; goodnight; night night; bye; goodbye; good bye; bye bye; see you; see ya; cu; ciao; farewell
    take care; sleep well; sweet dreams; until then; until tomorrow; until next time; till then; till tomorrow
    that's all; that is all; that will be all; that's it; that is it; have to go; need to go; got to go; gotta go
    off to bed; have a good one; have a nice day; have a good day; have a great day; have a nice evening
    have a good evening; have a nice weekend; have a good weekend; have a great weekend; have a good night
    have a nice week; enjoy your day; enjoy your weekend; enjoy your evening; happy new year; happy holidays
    merry christmas; happy birthday; thanks; thank you; thank u; thx; ty; cheers; many thanks; appreciated
    I appreciate it; appreciate it; good; great; perfect; fine; excellent; awesome; wonderful; lovely; nice; cool
    amazing; brilliant; fantastic; super; well done; good job; great job; good work; great work; sounds good
    sounds great; sounds fine; sounds perfect; looks good; looks great; good idea; great idea; works for me
    fine by me; fine with me; love it; I like it; helpful; that helps; that helped; good to know; great news
    good news; ok; okay; k; yes; yep; yeah; yup; no; nope; sure; alright; all right; agreed; deal; done; noted
    understood; roger; got it; I see; I know; I understand; of course; absolutely; exactly; indeed; definitely
    certainly; fair enough; makes sense; will do; no problem; no worries; you are welcome; you're welcome
    you are right; you're right; never mind; nevermind; my pleasure; not at all; let's go; let us go; do it; please do
    wow; haha; hahaha; hahahaha; lol; same to you; you too; kind; so kind; 你好; 您好; 大家好; 各位好; 早; 早安
    早上好; 上午好; 中午好; 下午好; 晚上好; 午安; 哈喽; 哈啰; 嗨; 嘿; 喂; 在吗; 在么; 在不在; 好久不见; 晚安; 好梦
    做个好梦; 再见; 拜; 拜拜; 回见; 再会; 慢走; 保重; 早点休息; 好好休息; 早点睡; 去睡了; 睡了; 先睡了; 先去忙; 先忙
    去忙了; 先下了; 先走了; 先这样; 就这样; 这样吧; 先到这; 先到这里; 先到这儿; 就到这; 就到这里; 就到这儿; 周末愉快
    节日快乐; 新年快乐; 祝你好运; 一切顺利; 谢; 谢谢; 感谢; 多谢; 辛苦; 麻烦了; 麻烦你了; 麻烦您了; 不客气; 不用谢
    不谢; 别客气; 没事; 没关系; 不好意思; 好; 好的; 好吧; 好啊; 好呀; 好嘞; 好滴; 行; 对; 是; 是的; 嗯; 哦; 噢; 可以
    没错; 当然; 没问题; 收到; 了解; 明白; 知道; 清楚; 记住了; 懂了; 同意; 有道理; 说得对; 听你的; 就这么办; 棒; 赞
    不错; 完美; 厉害; 真好; 很好; 太好了; 挺好; 漂亮; 满意; 贴心; 哈; 呵
"""
_FILLING = """
    so; very; much; really; just; all; and; oh; ah; well; now; then; for now; for today; today; again; too; a lot
    a bunch; a million; everyone; everybody; there; folks; team; guys; dear; my friend; please; hm; hmm; but
    once again; let's; let us; that is; that's; this is; it is; it's; that was; it was; to me; for the help
    for your help; with that; for all your help; for all the help; for helping; for helping me; for everything
    for that; for this; for the info; for the information; for your time; for your patience; for the answer
    for the explanation; for the update; for your work; of you; as always; later; soon; I; 那; 了; 啦; 啊; 呀; 吧; 呢
    哟; 嘛; 哎; 诶; 喔; 的; 我; 我们; 咱们; 你; 您; 你们; 大家; 今天; 也; 就; 都; 先; 真; 真的; 太; 很; 非常; 十分
    万分; 再次; 请; 你的; 您的; 帮忙; 帮助; 解答; 回答; 建议; 提醒; 老师; 亲; 极了
"""
_PARTINGS = "see you; see ya; talk; talk to you; speak; speak to you; chat; catch you"
_TIMES = """
    tomorrow; later; soon; tonight; then; next time; next week; around; in the morning; this evening; this afternoon
    monday; tuesday; wednesday; thursday; friday; saturday; sunday; on monday; on tuesday; on wednesday; on thursday
    on friday; on saturday; on sunday
"""
_TIMES_ZH = """
    明天; 明早; 明晚; 后天; 回头; 下次; 下周; 改天; 晚点; 待会; 待会儿; 一会; 一会儿; 过会儿; 稍后; 以后; 晚上; 早上
    周一; 周二; 周三; 周四; 周五; 周六; 周日
"""
_PARTINGS_ZH = "见; 聊; 说; 联系; 继续; 再见; 再聊; 再说; 再联系; 再继续"

_SERVICE = """
    is there anything else I can do for you; is there anything else I can help you with
    is there anything else you need; anything else I can do for you; anything else I can help you with
    can I help you with anything else; anything else; is there anything else; what can I do for you
    how can I help you; how can I help; how may I help you; let me know; how can I help you today
    how can I assist you today; how may I assist you; just let me know when you are ready
    just let me know when you're ready; let me know if you need anything else; let me know if you have any questions
    feel free to ask; I am here to help; I'm here to help; happy to help; glad to help; glad I could help; any time
    anytime; one moment; just a moment; one second; hold on; please wait; let me check; let me look that up
    let me look that up for you; let me check that for you; thank you for waiting; thanks for waiting
    thank you for your patience; thank you for your trust; thank you for your support; have a good trip
    have a great trip; have a lovely day; have a lovely evening; have a wonderful day; enjoy your trip
    enjoy your stay; that's kind of you to say; glad you like it; glad to hear that; haha great
    you've been really helpful; you have been really helpful; you've been very helpful; you've been a great help
    right away; 还有其他可以帮您的吗; 还有其他可以帮你的吗; 还有什么可以帮您的吗; 还有什么可以帮你的吗; 有什么可以帮您
    有什么可以帮你; 还有其他需要吗; 还有其他问题吗; 还有别的需要吗; 还有什么需要吗; 请问还有其他需要吗
    您还有其他的问题吗; 还需要别的吗; 有什么能帮到你的吗; 有什么能帮到您的吗; 有需要随时联系我; 需要时随时联系我
    随时联系我; 随时找我; 随时可以问我; 随时都可以来咨询我; 随时向我咨询; 随时跟我提问; 有问题随时问我
    如果还有其他问题; 如果您还有其他问题; 有问题; 很高兴为您服务; 很高兴为你服务; 很高兴能帮到您; 很高兴能帮到你
    乐意效劳; 请稍等; 稍等; 稍等一下; 请稍候; 我帮您查一下; 我查一下; 我看一下; 让您久等了; 久等了; 感谢您的支持
    感谢您的理解; 感谢您的配合; 感谢您的认可; 谢谢您的认可; 感谢您的信任; 感谢您的耐心; 这是我们应该做的; 应该的
    祝您生活愉快; 祝你生活愉快; 祝您旅途愉快; 祝你旅途愉快; 旅途愉快; 生活愉快; 祝您早日康复; 祝你早日康复; 早日康复
    祝您健康; 态度挺好的; 服务真好; 加油; 希望能帮到你; 希望能帮到您; 希望我的建议对你有所帮助; 希望对您有所帮助
    希望对你有帮助
"""
_SERVICE_FILLING = """
    need; you need it; if you need; any; today; for you; I'm; 请问; 需要; 时; 您需要; 如果; 有; 任何; 问题; 哈哈; 嗯嗯
    其他; 需求; 还有; 随时; 可以; 和; 说; 跟; 咨询; 欢迎; 祝; 希望
"""

_FOLLOWING = """
    go on; go ahead; continue; proceed; carry on; keep going; why; why not; how; how come; how so; what; what then
    which; then what; and then; what next; next; what else; anything else; something else; more; one more; another
    others; explain; clarify; elaborate; rephrase; reword; repeat; say; said; saying; tell; told; mean; meant; means
    meaning; think; suggest; suggested; recommend; sure; certain; really; right; correct; true; wrong; serious
    example; examples; detail; details; shorter; longer; simpler; simply; clearer; briefly; short; long; simple; brief
    precise; specific; exactly; in other words; other words; opinion; thoughts; idea; advice; the point; in short
    the first one; the second one; the third one; the fourth one; the other one; the last one; the next one; the first
    the second; the third; the other; the others; the former; the latter; the other two; the rest; the first two
    the last two; the previous one; number one; number two; number three; step by step; again; once more; last; latest
    previous; just now; is that all; is this all; is that it; was that all; do; go; start; begin; finish; work; help
    try; answer; question; summarize; summarise; sum up; recap; wait; 为什么; 为啥; 为何; 怎么; 怎么样; 怎样; 怎么办
    怎么做; 如何; 咋办; 咋; 然后; 接下来; 接着; 下一步; 后面; 之后; 继续; 往下; 往下说; 接着说; 做什么; 干什么; 做啥
    干啥; 什么; 啥; 什么意思; 意思; 还有; 别的; 其他; 其它; 更多; 再来; 另外; 解释; 说明; 讲; 讲讲; 说; 说说; 说法
    告诉; 重复; 总结; 归纳; 概括; 回顾; 梳理; 举; 例子; 例; 示例; 详细; 具体; 简单; 简短; 清楚; 展开; 短; 长; 觉得
    认为; 看; 看法; 想法; 意见; 建议; 确定; 肯定; 真的; 对吗; 是吗; 不对; 错; 刚才; 第一; 第二; 第三; 第四; 第几; 另一
    另外一; 前者; 后者; 其余; 剩下; 前一; 后一; 上一; 下一; 前两; 后两; 刚刚; 上面; 上一条; 最后; 怎么说; 换; 就这些
    开始; 办; 做; 干; 试; 试试; 问; 回答; 答
"""
_FOLLOWING_FILLING = """
    that; this; it; these; those; them; they; the; a; an; one; ones; thing; things; part; point; bit; way; word; words
    of; in; on; at; for; from; to; with; about; by; as; than; or; so; if; is; are; was; were; be; been; am; do; does
    did; done; can; could; would; should; shall; will; may; might; must; have; has; had; let; make; give; get; take
    want; need; know; see; we; you; he; she; me; us; my; our; your; his; her; their; what; who; when; where; here
    second; third; both; either; not; no; don't; isn't; doesn't; didn't; won't; can't; some; any; every; out; up; down
    also; only; still; yet; 这; 那; 这个; 那个; 这些; 那些; 这样; 那样; 这里; 它; 他; 她; 它们; 他们; 哪; 哪个; 哪些
    是; 有; 没有; 没; 不; 不是; 会; 能; 能不能; 可以; 可不可以; 可否; 要; 要不要; 该; 应该; 应当; 想; 得; 给; 让; 把
    被; 跟; 和; 与; 对; 在; 到; 从; 用; 还; 又; 再; 更; 只; 就; 才; 已经; 个; 些; 点; 点儿; 一点; 一些; 一个; 几个; 家
    款; 项; 件; 座; 位; 间; 套; 部; 本; 张; 份; 班; 情况; 两; 三; 一下; 一遍; 一次; 遍; 次; 条; 句; 话; 步; 种; 样
    方面; 地; 着; 过; 吗; 么; 来; 去; 可; 以
"""


class _Phrases(NamedTuple):
    meaning: frozenset[tuple[str, ...]]
    """Phrases of which a courtesy or follow-up must contain one: "thanks", "why"."""
    filling: frozenset[tuple[str, ...]]
    """Phrases that may stand next to those of `meaning`, and say nothing by themselves."""
    longest: int
    """Number of words (Chinese: characters) of the longest phrase."""


def is_courtesy(message: str) -> bool:
    """Return True if a message is only a greeting, thanks, a farewell or an agreement, or has no words."""
    units = _units_of_short(message)
    return units is not None and (not units or _consists_of(units, _courtesies()))


def is_follow_up(message: str) -> bool:
    """Return True if a message only asks about what was said last, or to continue; it may begin with a courtesy."""
    units = _units_of_short(message)
    return bool(units) and not is_courtesy(message) and _consists_of(units, _follow_ups())


def asks_for_summary(message: str) -> bool:
    """Return True if a message asks to sum up what was said."""
    return len(message) <= _LONGEST and _SUMMARY.search(plain_text(message)) is not None


def is_formality(text: str) -> bool:
    """Return True if a text is only a courtesy or what somebody who helps says out of politeness, or has no words."""
    units = _units_of_short(text)
    return units is not None and (not units or _consists_of(units, _formalities()))


_FEW_WORDS = 3
"""Most words (two Chinese characters count as one) of a reply such as "the blue one" that says nothing without its
question."""
_SUMMARY = late_pattern(
    r"\b(?:summari[sz]e|sum(?:ming)?\ up|summary|recap|overview)\b|总结|归纳|概括|回顾|梳理|小结",
    re.IGNORECASE,
)
_ASKS = late_pattern(r"[?？][\s\W]*$|(?:吗|呢|么)[\s\W]*$")
_CONFIRMS = late_pattern(
    r"\s*(?:noted|done|all\ ?right|ok(?:ay)?|sure|got\ it|understood|of\ course|will\ do|no\ problem|certainly|good"
    r"|great|perfect|changed|updated|added|registered|recorded|saved)\b"
    r"|\s*(?:好|收到|明白|了解|没问题|当然|行|可以|知道|记[住下]|已|嗯)",
    re.IGNORECASE,
)
"""Matches the beginning of a reply that confirms what was said."""
_MORE = late_pattern(r"[.!?。！？；;]\s*\w|[?？]")
"""Matches a place in a text after which a second sentence begins, or a question."""
_VALUE = late_pattern(r"\d[\d,.:]*|(?<=\w[ ,] )[A-Z]\w+")
_CONFIRMING = late_pattern(
    r"(?:已经?|会|将)?(?:为[您你]|帮[您你]|给[您你])?(?:备注|登记|记录|写入|记下|记住|安排|更新|优先|推荐)|好的|收到|明白|没问题"
)
"""Matches words of a Chinese confirmation that name nothing."""
_LONGEST_CONFIRMATION = 160
_SPOKEN_WITHIN = 16
"""Number of entries before a reply in which the message it replies to is looked for: tool calls may come between."""
_CLAUSE = late_pattern(r"[,，、:：]")
_FEW_TERMS, _SAME_TERMS = 4, 1 / 3
"""A confirmation adds something if a clause with more than this many terms shares none with what it confirms, or if
less than this part of all its terms is shared."""
_SHORT_QUESTION = 40
"""Most columns of a question that says nothing without its answer; a Chinese character takes two."""


def idle_entries(entries: Mapping[int, Entry], hidden: Collection[int]) -> set[int]:
    """Return the seqs (log positions) of entries that are not worth their tokens when nobody asked for them.

    These are formalities that answer no question, and tool results of a few words. Messages of the user may be `hidden`
    because another part of the prompt shows their words, or because they no longer hold: then an assistant's reply that
    only confirms one is idle too, and so is a question that one of them answers.
    """
    short = {seq: each for seq, each in entries.items() if len(each.message.text) <= _LONGEST}
    return {seq for seq, entry in short.items() if _is_idle(entry, entries, hidden)}


def _is_idle(entry: Entry, entries: Mapping[int, Entry], hidden: Collection[int]) -> bool:
    message, after = entry.message, entries.get(entry.seq + 1)
    if message.role == "tool":
        return is_brief(message.text) and not (after and is_brief(after.message.text))
    if message.role not in ("user", "assistant"):
        return False
    before = _spoken_before(entry.seq, entries)
    if is_formality(message.text):
        return not (is_courtesy(message.text) and _is_asked(message, before))
    if message.role == "user":
        return False
    if after is not None and after.seq in hidden and _ASKS.search(message.text):
        return sum(1 + is_cjk(each) for each in message.text) <= _SHORT_QUESTION
    if before is None or before.seq not in hidden or before.message.role != "user":
        return False
    return _only_confirms(message.text, before.message.text)


def _spoken_before(seq: int, entries: Mapping[int, Entry]) -> Entry | None:
    """Return the message before this entry, tool calls and results skipped; None if it was not read."""
    for at in range(seq - 1, max(seq - _SPOKEN_WITHIN, 0), -1):
        before = entries.get(at)
        if before is None or (before.message.role != "tool" and not before.message.calls):
            return before
    return None


def _is_asked(message: Message, before: Entry | None) -> bool:
    """Return True if a message answers a question of somebody else that is more than a formality."""
    if before is None or before.message.role == message.role:
        return False
    said = before.message.text
    return _ASKS.search(said) is not None and not is_formality(said)


def _only_confirms(reply: str, said: str) -> bool:
    """Return True if a reply confirms what was said before it, without a value or a subject of its own."""
    if len(reply) > _LONGEST_CONFIRMATION or _MORE.search(reply) or not _CONFIRMS.match(reply):
        return False
    if any(value.strip(",.:") not in said for value in _VALUE.findall(reply)):
        return False
    known = frozenset(search_terms(said))
    clauses = [
        {term for term in search_terms(clause) if not is_character(term)}
        for clause in _CLAUSE.split(_CONFIRMING.sub(" ", reply))
    ]
    if any(len(terms) > _FEW_TERMS and known.isdisjoint(terms) for terms in clauses):
        return False
    terms = frozenset[str]().union(*clauses)
    return len(terms & known) >= _SAME_TERMS * len(terms)


def is_brief(text: str) -> bool:
    """Return True if a text has so few words that it cannot be understood without the message it replies to."""
    if len(text) > 16 * _FEW_WORDS:
        return False
    runs = RUN.findall(plain_text(text))
    return sum(len(run) / 2 if is_cjk(run) else 1 for run in runs) <= _FEW_WORDS


def _units_of_short(message: str) -> tuple[str, ...] | None:
    """Return the units of a message that is short enough to be of one of the two kinds, else None."""
    return None if len(message) > _LONGEST else _units(message)


def _consists_of(units: Sequence[str], phrases: _Phrases) -> bool:
    """Return True if the units can be divided into phrases, of which at least one is not filling."""
    # For each number of units from the beginning: can they be divided into phrases, and is one of these meaning?
    plain, meaning = [True], [False]
    for stop in range(1, len(units) + 1):
        plain.append(False)
        meaning.append(False)
        for start in range(max(0, stop - phrases.longest), stop):
            phrase = tuple(units[start:stop])
            if phrase in phrases.meaning:
                meaning[stop] |= plain[start] or meaning[start]
            elif phrase in phrases.filling:
                plain[stop] |= plain[start]
                meaning[stop] |= meaning[start]
    return meaning[-1]


def _units(text: str) -> tuple[str, ...]:
    """Return the words of a text, and each Chinese character by itself."""
    runs = RUN.findall(plain_text(text).casefold())
    return tuple(unit for run in runs for unit in (run if is_cjk(run) else LETTERS.findall(run)))


@cache
def _courtesies() -> _Phrases:
    partings = [
        *map(" ".join, product(_listed(_PARTINGS), _listed(_TIMES))),
        *map("".join, product(_listed(_TIMES_ZH), _listed(_PARTINGS_ZH))),
    ]
    return _made([*_listed(_PHRASES), *partings], _listed(_FILLING))


@cache
def _formalities() -> _Phrases:
    meaning = [" ".join(each) for each in _courtesies().meaning]
    filling = [*_listed(_FILLING), *_listed(_SERVICE_FILLING)]
    return _made([*meaning, *_listed(_SERVICE)], filling)


@cache
def _follow_ups() -> _Phrases:
    filling = [*_listed(_PHRASES), *_listed(_FILLING), *_listed(_FOLLOWING_FILLING)]
    return _made(_listed(_FOLLOWING), filling)


def _made(meaning: Sequence[str], filling: Sequence[str]) -> _Phrases:
    whole = frozenset(map(_units, meaning))
    beside = frozenset(map(_units, filling))
    return _Phrases(whole, beside, max(map(len, whole | beside)))


def _listed(text: str) -> Sequence[str]:
    return [phrase.strip() for line in text.strip().split("\n") for phrase in line.split(";")]
