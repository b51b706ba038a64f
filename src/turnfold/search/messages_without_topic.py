"""Messages of a user that name nothing to search for, in English and Chinese: courtesies and follow-ups.

A *courtesy* is a greeting, thanks, a farewell or an agreement: "thanks, talk tomorrow!" has three words that a search
finds somewhere in any long conversation, and asks for nothing. Nothing is recalled for it. A *follow-up* asks about
what was said last: "why?", "and what should we do next?", "continue". A search for its words finds old messages by
chance; what it needs are the newest messages.

A message is one of them if it can be divided into the phrases below and nothing else; at least one of them must be more
than a filling word. "Thanks, and when is the talk?" is a message like any other. A message without words, such as an
emoji, counts as a courtesy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import NamedTuple

from turnfold.text import LETTERS, RUN, is_cjk, plain_text

__all__ = ("is_courtesy", "is_follow_up")


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

_FOLLOWING = """
    go on; go ahead; continue; proceed; carry on; keep going; why; why not; how; how come; how so; what; what then
    which; then what; and then; what next; next; what else; anything else; something else; more; one more; another
    others; explain; clarify; elaborate; rephrase; reword; repeat; say; said; saying; tell; told; mean; meant; means
    meaning; think; suggest; suggested; recommend; sure; certain; really; right; correct; true; wrong; serious
    example; examples; detail; details; shorter; longer; simpler; simply; clearer; briefly; short; long; simple; brief
    precise; specific; exactly; in other words; other words; opinion; thoughts; idea; advice; the point; in short
    step by step; again; once more; last; latest; previous; just now; is that all; is this all; is that it
    was that all; do; go; start; begin; finish; work; help; try; answer; question; summarize; summarise; sum up; wait
    为什么; 为啥; 为何; 怎么; 怎么样; 怎样; 怎么办; 怎么做; 如何; 咋办; 咋; 然后; 接下来; 接着; 下一步; 后面; 之后
    继续; 往下; 往下说; 接着说; 做什么; 干什么; 做啥; 干啥; 什么; 啥; 什么意思; 意思; 还有; 别的; 其他; 其它; 更多
    再来; 另外; 解释; 说明; 讲; 讲讲; 说; 说说; 说法; 告诉; 重复; 总结; 归纳; 举; 例子; 例; 示例; 详细; 具体; 简单
    简短; 清楚; 展开; 短; 长; 觉得; 认为; 看; 看法; 想法; 意见; 建议; 确定; 肯定; 真的; 对吗; 是吗; 不对; 错; 刚才
    刚刚; 上面; 上一条; 最后; 怎么说; 换; 就这些; 开始; 办; 做; 干; 试; 试试; 问; 回答; 答
"""
_FOLLOWING_FILLING = """
    that; this; it; these; those; them; they; the; a; an; one; ones; thing; things; part; point; bit; way; word; words
    of; in; on; at; for; from; to; with; about; by; as; than; or; so; if; is; are; was; were; be; been; am; do; does
    did; done; can; could; would; should; shall; will; may; might; must; have; has; had; let; make; give; get; take
    want; need; know; see; we; you; he; she; me; us; my; our; your; his; her; their; what; who; when; where; here
    second; third; both; either; not; no; don't; isn't; doesn't; didn't; won't; can't; some; any; every; out; up; down
    also; only; still; yet; 这; 那; 这个; 那个; 这些; 那些; 这样; 那样; 这里; 它; 他; 她; 它们; 他们; 哪; 哪个; 哪些
    是; 有; 没有; 没; 不; 不是; 会; 能; 能不能; 可以; 可不可以; 可否; 要; 要不要; 该; 应该; 应当; 想; 得; 给; 让; 把
    被; 跟; 和; 与; 对; 在; 到; 从; 用; 还; 又; 再; 更; 只; 就; 才; 已经; 个; 些; 点; 点儿; 一点; 一些; 一个; 几个
    一下; 一遍; 一次; 遍; 次; 条; 句; 话; 步; 种; 样; 方面; 地; 着; 过; 吗; 么; 来; 去; 可; 以
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
def _follow_ups() -> _Phrases:
    filling = [*_listed(_PHRASES), *_listed(_FILLING), *_listed(_FOLLOWING_FILLING)]
    return _made(_listed(_FOLLOWING), filling)


def _made(meaning: Sequence[str], filling: Sequence[str]) -> _Phrases:
    whole = frozenset(map(_units, meaning))
    beside = frozenset(map(_units, filling))
    return _Phrases(whole, beside, max(map(len, whole | beside)))


def _listed(text: str) -> Sequence[str]:
    return [phrase.strip() for line in text.strip().split("\n") for phrase in line.split(";")]
