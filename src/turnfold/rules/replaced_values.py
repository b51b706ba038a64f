"""Tells whether a later sentence says what fails and what takes its place: "the Ibis is full, we're at the Novotel".

A replacement names what fails before it names what takes its place. It must have no noun of its own, which would show
that it speaks of another thing.
"""

from __future__ import annotations

import re
from functools import lru_cache

from turnfold._lazy_loading import late_pattern
from turnfold.rules.clauses import (
    LEADING,
    LIGHT_VERBS,
    LONGEST,
    clauses_of,
    only_in_first,
    shared_beginning,
    units_of,
)
from turnfold.rules.lifted_prohibitions import AFFIRMS, asks_something

__all__ = (
    "FAILS",
    "NO_NAME",
    "NUMBER",
    "is_other_matter",
    "named_as_failing",
    "names_no_value",
    "takes_the_place",
)


FAILS = late_pattern(
    r"没|不(?!错)|嫌|丢|堵|撞|难|限|休|产假|装修|维修|退休|占|太|偏|满|有[点事些]|问题|到期|贵|慢|远|显|差|请假|离职|病|走了|来了|完了|缺|停|坏|涨价|普通|够|紧|回.{0,4}了|倒闭|调走|临时|出差"
    r"|\b(?:is|are|was|has|have|had|can't|cannot|won't|doesn't|didn't|don't|isn't|no|not|left|quit|shows?|got|too|never|lost|needs?|fell|costs?|moved|retired|broke)\b|'s\s+(?:full|off|out|gone|too|sick|ill)\b",
    re.IGNORECASE,
)
"""Matches words with which a clause says why a choice no longer fits."""
_REFUSED = late_pattern(
    "(?:不(?:同意|喜欢|想要?|要|让|批|想)|反对|讨厌|嫌)(?P<old>[\u4e00-\u9fffA-Za-z0-9]{2,8})"
)
NUMBER = late_pattern(r"\d[\d.,:]*")
_GIVES_ZH = late_pattern(
    "^(?:所以|那就?|就|只能|只好|还是|以后|直接|都|我们?|咱们?|先)*(?P<verb>[改换挪调加减升降延推提]|从|用|走|住|找|订|看|选|刷|送|发|放|借|租|叫|请|定|去|坐|买|写|存|拿)(?![查问下完过了])(?:[成为到用至走住订看])?(?P<new>[^,，。]{1,24}?)(?:了|吧|好了?|就够|就行|也行)*$"
    "|^(?P<what>[^,，。]{1,8}?)(?:换成?|改成?|交给|由|请)(?P<who>[^,，。]{1,12}?)(?:吧|了|来)*$"
)
_GIVES_EN = late_pattern(
    r"^\W*(?:(?:so|then|instead|let's|please|we'll|we|i'll|i|have\s+to|need\s+to|can\s+only|should|just|will|'ll|are|'re)\W+)*"
    r"(?:(?:use|using|take|get|go\s+with|go\s+for|make\s+it|pick|choose|try|book|order|rent|hire|switch\s+to|give|giving|fly|flying|stay|staying|meet|meeting|host|paint|see|send|put|ask|leave)\b"
    r"|(?P<who>[A-Z][\w'’-]+(?:\s+[A-Z][\w'’-]+)?)\s+(?:takes?|will|is\s+(?:our|the|my|doing)|does|handles?|steps?\s+in|takes\s+over)\b"
    r"|(?:the|my|our)?\s*[\w' ]{2,24}?\s+(?:at|is|are|needs?|for)\b)",
    re.IGNORECASE,
)
_CHANGES_EN = late_pattern(
    r"\b(?:use|take|get|go\s+(?:with|for)|make\s+it|pick|choose|try|switch\s+to)\b", re.IGNORECASE
)
_PREDICATE = late_pattern(
    r"\s*(?:['’]s\s+(?:full|off|out|gone|too|sick|ill|not|no|closed|sold|booked)\b|\W*(?:is|are|was|were|has|have|had|can|can't|cannot|will|won't"
    r"|does|doesn't|do|don't|did|didn't|isn't|aren't|wasn't|left|quit|retired|moved|shows?|got|lost|needs?|costs?|broke|fell"
    r"|closed|no\s+longer|never)\b)",
    re.IGNORECASE,
)
"""Matches the words after the subject of a clause; "Bill's car" and "the green of the buttons" have different
subjects."""
_COUNTED = late_pattern(r"(?P<what>(?:\s+[a-z]+){1,2}?)\s+(?:is|are|was|were|isn't|aren't|won't)\b")
_VERB_EN = late_pattern(r"[A-Za-z]{3,}")
_MOVES = late_pattern(
    "(?:放宽|提高|降低|缩短|延长|推迟|提前|[加减放调提降升涨砍压缩延推])[到成至为]"
)
_CHANGING = "改换挪调加减升降延推提用"
NO_NAME = late_pattern(
    r"\b(?:another|cheaper|better|bigger|smaller|nearer|other|new)\s+one\b|\bone\s+that\b|\bsomething\s+\w+|\bmake\s+it\s+(?:\w+er|more|less)\b|\b(?:find|look\s+for|get)\s+(?:a|an|another|some)\s+\w*er\b"
    r"|太[^,，。]{1,4}[,，]不[^,，。了]{2,12}[。！!]?$"
    r"|找个?(?:一?家)?(?:便宜|近|大|小|好|别的|其他)|换一?[个家种款]?(?:便宜|近|大|小|好|别|其他|浅|深|短|长)[一点]*的?$|再[叫订买找加][一个两]",
    re.IGNORECASE,
)
"""Matches a wish for another thing without its name: "find a cheaper one"."""
_OTHER_MATTER = late_pattern(
    r"话题|改[天日]|换个?[人家法]?(?:想|问|说|衣|口)|[这那第][^,，。]{0,4}[段句页行章]|帮我|看看|查一?下|问一?下|\b(?:subject|topic|paragraph|sentence|explain|why|check)\b",
    re.IGNORECASE,
)
_TOKEN = late_pattern(r"[A-Za-z0-9](?:(?a:[\w.'’:%/-])*(?a:[\w%]))?|[\u4e00-\u9fff]")
_EMPTY = frozenset(
    "the and our for are was has had that this there then with from you your not its have will all".split()
)


def takes_the_place(later: str, earlier: str) -> bool:
    """Return True if a sentence rejects what an earlier one chose, and names what replaces it.

    "The Ibis is full, we're staying at the Novotel"; 虹桥没直飞，从浦东走吧.
    """
    if is_other_matter(later[:LONGEST]):
        return False
    clauses = clauses_of(later)
    for number, clause in enumerate(clauses[:-1]):
        named = named_as_failing(clause, earlier)
        if named and any(_gives_another(each, named, earlier) for each in clauses[number + 1 :]):
            return True
    return False


@lru_cache(maxsize=512)
def is_other_matter(text: str) -> bool:
    """Return True if a sentence asks something, or says that it is about another thing."""
    return asks_something(text) or _OTHER_MATTER.search(text) is not None


@lru_cache(maxsize=4096)
def _tokens_in_lower_case(text: str) -> tuple[str, ...]:
    return tuple(found[0].lower() for found in _TOKEN.finditer(text))


def _failing(clause: str, earlier: str) -> str:
    """Return the first words of a clause such as "the Ibis is full", if an earlier sentence has them: what it rejects.

    Returns "" if the clause does not say that something fails, or does not begin with such words.
    """
    plain = LEADING.sub("", clause)
    if not FAILS.search(plain):
        return ""
    tokens = [*_TOKEN.finditer(plain)]
    there = _tokens_in_lower_case(earlier)
    best = ""
    for length in range(1, min(len(tokens), 8) + 1):
        run = tuple(found[0].lower() for found in tokens[:length])
        width = len(run)
        if any(there[at : at + width] == run for at in range(len(there) - width + 1)):
            best = plain[: tokens[length - 1].end()]
        else:
            break
    after = plain[len(best) :]
    if re.match("的(?![太没不偏满已卖])", after) or (
        plain.isascii() and not _PREDICATE.match(after)
    ):
        return ""  # MySQL 的连接数, "Bill's car", "the green of the buttons"
    if not (units_of(best) or any(map(str.isdigit, best)) or (len(best) == 1 and best in "SMLX")):
        return ""  # "it", "we"
    if not best.isascii() and len(best) < 2:
        return ""
    return best


def named_as_failing(clause: str, earlier: str) -> str:
    """Return the amount, subject or object of an earlier sentence that a clause rejects."""
    if not _refuses(clause):
        return ""
    if named := _failing_amount(clause, earlier) or _failing(clause, earlier):
        return named
    refused = _REFUSED.search(clause)
    if refused and refused["old"] in earlier:
        return refused["old"]
    return ""


@lru_cache(maxsize=512)
def _refuses(clause: str) -> bool:
    """Return True if a clause has words that reject something, whatever it is."""
    patterns = ((FAILS, clause), (FAILS, LEADING.sub("", clause)), (_REFUSED, clause))
    return any(pattern.search(text) for pattern, text in patterns)


def _failing_amount(clause: str, earlier: str) -> str:
    """Return the amount of an earlier sentence that a clause calls not enough or too much: 重试 3 次不够."""
    plain = LEADING.sub("", clause)
    if not FAILS.search(clause) or not _begins_with_the_same(plain, earlier):
        return ""
    there = {found[0] for found in NUMBER.finditer(earlier)}
    amount = next((found for found in NUMBER.finditer(clause) if found[0] in there), None)
    if amount is None:
        return ""
    counted = _COUNTED.match(clause, amount.end())
    if counted and only_in_first(units_of(counted["what"]), units_of(earlier)):
        return ""  # "200 flyers are not enough" says nothing about 200 posters
    return amount[0]


def _begins_with_the_same(clause: str, earlier: str) -> bool:
    """Return True if a clause begins with an amount, or with a word of an earlier sentence."""
    found = _TOKEN.search(clause)
    if found is None:
        return False
    if found[0].isascii():
        return found[0][0].isdigit() or found[0].lower() in earlier.lower()
    return bool(shared_beginning(clause, earlier))


def _gives_another(clause: str, named: str, earlier: str) -> bool:
    """Return True if a clause names something in place of the rejected words."""
    word = rf"(?<![\w.]){re.escape(named)}(?!\w)" if named.isascii() else re.escape(named)
    if re.search(word, clause, re.IGNORECASE) or NO_NAME.search(clause):
        return False
    if any(map(str.isdigit, named)) != any(map(str.isdigit, clause)):
        return False  # 200 takes the place of no name
    is_head = LEADING.sub("", earlier).lower().startswith(named.lower())
    if any("\u4e00" <= sign <= "\u9fff" for sign in clause):
        return _gives_in_chinese(clause, named, earlier, is_head=is_head)
    found, told = _GIVES_EN.match(clause), _raw(clause)
    common = (told & _raw(earlier)) - _raw(named)
    if not found:
        verb = _VERB_EN.match(earlier)
        same = len(common) > 1 or (verb is not None and verb[0].lower() in common)
        return same and bool(told - _raw(earlier))
    if found["who"] or common:
        return True
    return not is_head and _CHANGES_EN.search(clause) is not None


def _gives_in_chinese(clause: str, named: str, earlier: str, *, is_head: bool) -> bool:
    if AFFIRMS.search(clause) and NUMBER.search(clause) and NUMBER.fullmatch(named):
        return True
    if _MOVES.search(clause) and NUMBER.search(clause) and NUMBER.fullmatch(named):
        return True
    topic = shared_beginning(clause, earlier)
    starts = [*range(len(topic), 1, -1), 0] if topic else [0]
    found = next((each for at in starts if (each := _GIVES_ZH.match(clause[at:]))), None)
    if not found or not (found["new"] or found["who"]):
        return False
    if found["who"]:
        return not only_in_first(units_of(found["what"]), units_of(earlier))
    if is_head and not named.isascii() and not _starts_with_value(earlier, named):
        return False  # what a sentence begins with is mostly its topic
    return bool(topic) or found["verb"] in _CHANGING or found["verb"] in earlier


def _raw(text: str) -> set[str]:
    """Return the English words of a text that can name an action: no short words and no contractions."""
    return {
        found[0]
        for found in re.finditer(r"[a-z]{3,}(?!['’])", text.lower())
        if found[0] not in _EMPTY
    }


def _starts_with_value(earlier: str, named: str) -> bool:
    """Return True if a sentence names nothing but the value with which it begins, so that it has no topic."""
    return not units_of(earlier.replace(named, "", 1)) - LIGHT_VERBS


def names_no_value(text: str) -> bool:
    """Return True if a sentence wants another thing without naming it: "find a cheaper one"."""
    return NO_NAME.search(text[:LONGEST]) is not None
