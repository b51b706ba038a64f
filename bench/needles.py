"""Messages to be found again: each says something that is said once, in words drawn from the seed.

The words are ordinary ones that the invented conversations do not use. A Chinese word stands inside a sentence, with no
mark around it, as Chinese is written. A question is one such word, or a few words of the message as they stand there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from random import Random
from typing import NamedTuple

from bench.contender import Item
from bench.workload import stretch

__all__ = ("LANGUAGES", "Planted", "Probe", "planted")

LANGUAGES = {
    "English word": "English",
    "English phrase": "English",
    "2 characters": "Chinese",
    "3 characters": "Chinese",
    "Chinese phrase": "Chinese",
}
"""The kinds of questions, and whose they are."""
NEWEST = 400
"""Messages at the end that hold none of these: what is still in a window needs no search."""

_WORDS = """
harmonica lighthouse sextant marmalade trellis gondola thimble accordion pelican telescope lantern cinnamon
saxophone compass hammock walnut porcupine teapot glacier violin cactus anchor balloon chimney
""".split()
_TWO = """
风筝 柠檬 琥珀 灯塔 骆驼 蜂蜜 口琴 罗盘 雨伞 茉莉 蜻蜓 陶罐
瀑布 算盘 核桃 孔雀 帆船 蜡烛 石榴 屏风 竹笛 砚台 纽扣 鹦鹉
""".split()
_THREE = """
望远镜 向日葵 蒲公英 缝纫机 萤火虫 显微镜 猕猴桃 热气球 指南针 啄木鸟 牵牛花 手风琴
温度计 荷包蛋 康乃馨 万花筒 保温杯 橄榄油 穿山甲 独木舟 晾衣架 洗衣粉 蜂窝煤 冰淇淋
""".split()
_KEPT = (
    "Please remember that the {word} is locked in the green cupboard of unit {number}.",
    "By the way, Ada lent the {word} to the neighbours until the week {number}.",
    "We agreed to repair the {word} first and to pay {number} crowns for it.",
)
_ZH_KEPT = (
    "请记住我们已经把{word}锁在绿色柜子的第{number}格里面了。",
    "顺便说一下小林昨天把{word}借给了邻居一直到第{number}周。",
    "大家同意先修好那个{word}再付给对方{number}克朗的费用。",
)


class Probe(NamedTuple):
    """A question, and the text of the message that answers it."""

    kind: str
    question: str
    text: str


class Planted(NamedTuple):
    """A conversation with messages to be found, and the questions."""

    items: list[Item]
    probes: list[Probe]


@cache
def planted(size: int, seed: int = 41) -> Planted:
    """A conversation of about `size` messages; the questions are the same for every size."""
    random = Random(seed)  # noqa: S311 (repeatable, not secret)
    needles = list(_needles(random))
    items = list(stretch(size, tail=8, longest=size).history)
    old = [
        at
        for at, item in enumerate(items[:-NEWEST])
        if item.role in ("user", "assistant") and not item.calls
    ]
    places = sorted(random.sample(old[1:], len(needles)), reverse=True)
    random.shuffle(needles)
    for at, (text, _) in zip(places, needles, strict=True):
        items[at] = items[at]._replace(text=text)
    probes = [probe for _, asked in needles for probe in asked]
    _said_once(items, probes)
    return Planted(items, probes)


def _needles(random: Random) -> Iterator[tuple[str, list[Probe]]]:
    for word in _WORDS:
        text = random.choice(_KEPT).format(word=word, number=random.randrange(100, 1_000))
        words = text.rstrip(".").replace(",", "").split()
        first = max(words.index(word) - random.randrange(3), 0)
        phrase = " ".join(words[first : first + 4])
        yield text, [Probe("English word", word, text), Probe("English phrase", phrase, text)]
    for kind, chosen in (("2 characters", _TWO), ("3 characters", _THREE)):
        for word in chosen:
            text = random.choice(_ZH_KEPT).format(word=word, number=random.randrange(100, 1_000))
            first = max(text.index(word) - random.randrange(4), 0)
            phrase = text[first : first + 7]
            yield text, [Probe(kind, word, text), Probe("Chinese phrase", phrase, text)]


def _said_once(items: Sequence[Item], probes: Sequence[Probe]) -> None:
    """A word that is said elsewhere would make its question unfair."""
    everything = "\n".join(item.text.lower() for item in items)
    for probe in probes:
        if "phrase" not in probe.kind and everything.count(probe.question) != 1:
            raise ValueError(f"{probe.question} is said {everything.count(probe.question)} times")
