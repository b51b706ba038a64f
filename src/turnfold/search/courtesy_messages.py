"""Courtesies: greetings, thanks, farewells and short agreements in English and Chinese, for which nothing is recalled.

"thanks, talk tomorrow!" has three words that a search finds somewhere in any long conversation, and asks for nothing. A
message is a courtesy if it can be divided into the phrases below and nothing else; at least one of them must be more
than a filling word. "Thanks, and when is the talk?" is a message like any other. A message without words, such as an
emoji, counts as a courtesy too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import NamedTuple

from turnfold.text import LETTERS, RUN, is_cjk, plain_text

__all__ = ("is_courtesy",)


_LONGEST = 200
"""Most characters of a message that may count as a courtesy (greeting, thanks)."""
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
    you are right; you're right; never mind; nevermind; my pleasure; not at all; go on; go ahead; continue; proceed
    carry on; keep going; let's go; let us go; do it; please do; wow; haha; hahaha; hahahaha; lol; same to you
    you too; kind; so kind; 你好; 您好; 大家好; 各位好; 早; 早安; 早上好; 上午好; 中午好; 下午好; 晚上好; 午安; 哈喽
    哈啰; 嗨; 嘿; 喂; 在吗; 在么; 在不在; 好久不见; 晚安; 好梦; 做个好梦; 再见; 拜; 拜拜; 回见; 再会; 慢走; 保重
    早点休息; 好好休息; 早点睡; 去睡了; 睡了; 先睡了; 先去忙; 先忙; 去忙了; 先下了; 先走了; 先这样; 就这样; 这样吧
    先到这; 先到这里; 先到这儿; 就到这; 就到这里; 就到这儿; 周末愉快; 节日快乐; 新年快乐; 祝你好运; 一切顺利; 谢
    谢谢; 感谢; 多谢; 辛苦; 麻烦了; 麻烦你了; 麻烦您了; 不客气; 不用谢; 不谢; 别客气; 没事; 没关系; 不好意思; 好
    好的; 好吧; 好啊; 好呀; 好嘞; 好滴; 行; 对; 是; 是的; 嗯; 哦; 噢; 可以; 没错; 当然; 没问题; 收到; 了解; 明白
    知道; 清楚; 记住了; 懂了; 同意; 有道理; 说得对; 听你的; 就这么办; 棒; 赞; 不错; 完美; 厉害; 真好; 很好; 太好了
    挺好; 漂亮; 满意; 贴心; 哈; 呵; 继续; 接着说; 往下说
"""
_FILLING = """
    so; very; much; really; just; all; and; oh; ah; well; now; then; for now; for today; today; again; too; a lot
    a bunch; a million; everyone; everybody; there; folks; team; guys; dear; my friend; please; hm; hmm; but
    once again; let's; let us; that is; that's; this is; it is; it's; that was; it was; to me; for the help
    for your help; with that; for all your help; for all the help; for helping; for helping me; for everything
    for that; for this; for the info; for the information; for your time; for your patience; for the answer
    for the explanation; for the update; for your work; of you; as always; later; soon; I; 那; 了; 啦; 啊; 呀; 吧
    呢; 哟; 嘛; 哎; 诶; 喔; 的; 我; 我们; 咱们; 你; 您; 你们; 大家; 今天; 也; 就; 都; 先; 真; 真的; 太; 很; 非常
    十分; 万分; 再次; 请; 你的; 您的; 帮忙; 帮助; 解答; 回答; 建议; 提醒; 老师; 亲; 极了
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


class _Phrases(NamedTuple):
    meaning: frozenset[tuple[str, ...]]
    """Phrases that make a message a courtesy."""
    filling: frozenset[tuple[str, ...]]
    """Phrases that may stand next to those of `meaning`, and say nothing by themselves."""
    longest: int
    """Number of words (Chinese: characters) of the longest phrase."""


def is_courtesy(message: str) -> bool:
    """Return True if a message is only a greeting, thanks, a farewell or an agreement, or has no words."""
    if len(message) > _LONGEST:
        return False
    units = _units(message)
    phrases = _phrases()
    # For each number of units from the beginning: can they be divided into phrases, and is one of these meaning?
    plain, meaning = [True], [False]
    for stop in range(1, len(units) + 1):
        plain.append(False)
        meaning.append(False)
        for start in range(max(0, stop - phrases.longest), stop):
            phrase = units[start:stop]
            if phrase in phrases.meaning:
                meaning[stop] |= plain[start] or meaning[start]
            elif phrase in phrases.filling:
                plain[stop] |= plain[start]
                meaning[stop] |= meaning[start]
    return meaning[-1] or not units


def _units(text: str) -> tuple[str, ...]:
    """Return the words of a text, and each Chinese character by itself."""
    runs = RUN.findall(plain_text(text).casefold())
    return tuple(unit for run in runs for unit in (run if is_cjk(run) else LETTERS.findall(run)))


@cache
def _phrases() -> _Phrases:
    partings = [
        *map(" ".join, product(_listed(_PARTINGS), _listed(_TIMES))),
        *map("".join, product(_listed(_TIMES_ZH), _listed(_PARTINGS_ZH))),
    ]
    meaning = frozenset(map(_units, [*_listed(_PHRASES), *partings]))
    filling = frozenset(map(_units, _listed(_FILLING)))
    return _Phrases(meaning, filling, max(map(len, meaning | filling)))


def _listed(text: str) -> Sequence[str]:
    return [phrase.strip() for line in text.strip().split("\n") for phrase in line.split(";")]
