"""Words that carry meaning, in English and Chinese, without a dictionary or a model.

Ranking and the matching of constraints must agree on what counts as the same word: "e-mails" and
"email", "发邮件" in two different clauses. English words are lower-cased and lightly stemmed;
scripts written without spaces give character bigrams, which need no segmenter and never disagree
with themselves.
"""

from __future__ import annotations

import re
from itertools import pairwise

__all__ = ("CJK", "STOP_WORDS", "is_chinese", "same_width", "stem", "terms_of")

CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"

STOP_WORDS = frozenset(
    """
    a about above after again all also am an and any are aren't as at be because been before being below between both
    but by can could did do does doing down during each either else etc even ever few for from further get gets give
    go going got had has have having he her here hers herself hey hi him himself his how i i'd i'll i'm i've if in into
    is isn't it it'd it'll it's its itself just know let let's like lot made make many may me might mine more most much
    must my myself need no nor not now of off oh ok okay on once one only onto or other our ours ourselves out over own
    per please quite rather really same say see shall she should since so some still such sure take than thank thanks
    that that's the their theirs them themselves then there there's these they they're this those though through thus
    to too under until up upon us use used very via want was way we we'd we'll we're we've well were what what's when
    where whether which while who whom whose why will with within would yeah yes yet you you'd you'll you're you've
    your yours yourself
    """.split()
)
_FUNCTION_CHARACTERS = frozenset("的了是吗呢吧啊呀嘛着们么这那哦嗯")
_TERM = re.compile(rf"[{CJK}]+|[^\W\d_{CJK}]+(?:['’-][^\W\d_{CJK}]+)*")
_CHINESE_CHARACTER = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")
_LATIN_WORD = re.compile(r"[A-Za-z]+")
_WIDE = re.compile("[\uff04\uff05\uff0b\uff0d-\uff1a\uff20-\uff3a\uff3f\uff41-\uff5a]")
_NARROW = {
    code: code - 0xFEE0
    for first, last in ((0xFF04, 0xFF05), (0xFF0B, 0xFF0B), (0xFF0D, 0xFF1A), (0xFF20, 0xFF5A))
    for code in range(first, last + 1)
}
_CHINESE_CHARACTERS_PER_WORD = 1.6


def terms_of(text: str) -> list[str]:
    """Stems of the content words of `text` and bigrams of its unspaced scripts, in order, with repeats."""
    found: list[str] = []
    for match in _TERM.finditer(text):
        word = match[0]
        if "\u3040" <= word[0] <= "\ud7af" or word[0] >= "\uf900":
            found.extend(_bigrams(word))
        else:
            lowered = word.lower().replace("’", "'")
            if len(lowered) > 1 and lowered not in STOP_WORDS:
                found.append(stem(lowered))
    return found


def _bigrams(run: str) -> list[str]:
    if len(run) == 1:
        return [] if run in _FUNCTION_CHARACTERS else [run]
    return [
        first + second
        for first, second in pairwise(run)
        if first not in _FUNCTION_CHARACTERS and second not in _FUNCTION_CHARACTERS
    ]


def stem(word: str) -> str:
    """A lower-cased word without its hyphens and commonest endings; the same for "send", "sends" and "sending"."""
    word = word.replace("-", "").removesuffix("'s")
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    for ending, shortest in (("ing", 6), ("ed", 5), ("es", 5)):
        if word.endswith(ending) and len(word) >= shortest:
            return _undoubled(word[: -len(ending)])
    if len(word) > 3 and word.endswith("s") and word[-2] not in "siu":
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def _undoubled(word: str) -> str:
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls" else word


def same_width(text: str) -> str:
    """Full-width digits, letters and the signs used inside numbers as their ASCII twins; every offset stays valid.

    Full-width commas stay, because between digits they separate items, not thousands.
    """
    return text.translate(_NARROW) if _WIDE.search(text) else text


def is_chinese(text: str) -> bool:
    """Whether a reader would call `text` Chinese: more of its words are Chinese than Latin."""
    characters = len(_CHINESE_CHARACTER.findall(text))
    return characters / _CHINESE_CHARACTERS_PER_WORD > len(_LATIN_WORD.findall(text))
