"""Scores sentences for the extractive summary by their form: how likely later turns need them, whatever their topic.

Without a model the topic of a conversation is not known, but the form of a sentence says much. Later turns ask about
people (who they are, what they have, did, plan and like) and for names, numbers and dates; hardly ever for praise,
thanks, questions, or remarks about the listener. The patterns here use common words of both languages, none of a
topic.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from turnfold._lazy_loading import late_pattern
from turnfold.fold.facts import FactMatch
from turnfold.text import Sentence, content_terms

__all__ = (
    "Form",
    "SentenceNeed",
    "SummaryPiece",
    "form_of",
    "idle_rows",
    "is_outcome",
    "is_question",
    "own_words",
    "proper_names",
    "said_together",
    "short_answers",
    "unnamed",
    "without_lead",
)


_SHORT_ANSWER = 2
"""Most words, facts not counted, of an answer that cannot be understood without its question, such as "yes, on Monday".
"""
_BRIEF_ANSWER = 4
"""Most words, facts not counted, of an assistant's answer without a name that is shown with its question, such as
大约 4 公里，打车 15 元左右。"""
_SHORT_ORDER = 5
"""Most words, facts not counted, of a user's order such as "lower it to 2,000", which the answer may repeat with its
subject."""
_NEAR = 24
"""Number of sentences after a question or order in which its answer is searched for."""
_NO_SUBJECT = 1
"""Most words, facts not counted, of a sentence that cannot be understood without the sentence before it."""
_CHARACTERS_A_WORD = 2
_MANY_ROWS = 4
"""If a tool's output has at least this many lines that differ only in their values, these lines count as rows of a log
or table."""
_USUAL = 10
"""A fact in a row of tool output that occurs in more than this many rows is no reason to keep the row."""
_FEW_DIGITS = 3
_SHORT_LINE = 60
_CHINESE = late_pattern(r"[\u4e00-\u9fff]")
_FUNCTION = late_pattern(r"[的了是在就也都和要吧呢啊吗好行嗯]")
_LONGEST_SHAPE = 500
"""Most characters of a row whose form is compared with other rows: a word of 200,000 characters would take minutes."""
_VALUE = late_pattern(r"(?<==)[^\s,;]+|[\w.,:/-]*\d[\w.,:/%-]*")
_JSON_KEY = late_pattern(r"\"([^\"]{1,80})\"\s*:")


class SummaryPiece(NamedTuple):
    """A sentence, and the information that decides if it can be understood alone."""

    text: str
    facts: frozenset[str]
    message: int
    role: str
    """Role of the piece's speaker: `user`, `assistant`, `tool`, `call`, or another name."""
    words: int
    """Number of words of the sentence, facts not counted; see `own_words`."""


class SentenceNeed(NamedTuple):
    """The other sentence or name that a sentence needs to be understood."""

    needs: int | None
    """Index of another sentence that must be shown before this one."""
    idle: bool
    """True if the sentence is better left out, because the next message says the same together with its subject."""


def own_words(text: str, hits: Iterable[FactMatch]) -> int:
    """Return the number of content words of a sentence outside its numbers, dates and ids."""
    for hit in hits:
        if hit.kind == "unread":  # a note that stands for a part of a message
            return len(text)
        if hit.kind not in ("constraint", "decision", "name"):
            text = f"{text[: hit.start]}{' ' * (hit.end - hit.start)}{text[hit.end :]}"
    chinese = len(_CHINESE.findall(_FUNCTION.sub("", text)))
    if chinese:
        text = _CHINESE.sub(" ", text)
    return -(-chinese // _CHARACTERS_A_WORD) + len(content_terms(text))


def short_answers(pieces: Sequence[SummaryPiece]) -> dict[int, SentenceNeed]:
    """Return, by index, the sentences without a subject and what each needs to be understood."""
    found: dict[int, SentenceNeed] = {}
    question: int | None = None
    call: int | None = None
    asked_in = spoken_in = 0
    spoken = ""
    for at, piece in enumerate(pieces):
        if piece.role == "call":
            call = at
        if piece.role == "tool" and call is not None and piece.words <= _SHORT_ANSWER:
            found[at] = SentenceNeed(call, idle=False)
        if piece.role in ("tool", "call"):
            continue
        call = None
        first = at == 0 or piece.message != spoken_in or piece.role != spoken
        if first and question is not None and asked_in != spoken_in:
            question = None  # the question is older than the message before this one
        asked = question if first and question is not None else None
        if asked is not None and pieces[asked].role == piece.role:
            asked = None
        if is_question(piece.text):
            question, asked_in = at, piece.message
        elif (alone := _needed(pieces, at, asked, first=first)) is not None:
            found[at] = alone
        spoken_in, spoken = piece.message, piece.role
    return found


def _needed(
    pieces: Sequence[SummaryPiece], at: int, asked: int | None, *, first: bool
) -> SentenceNeed | None:
    """Return what a statement needs to be understood, if it has too few words; `asked` is the question it answers."""
    piece = pieces[at]
    found: SentenceNeed | None = None
    if piece.facts and piece.words <= (_SHORT_ANSWER if piece.role != "user" else _SHORT_ORDER):
        found = _alone(pieces, at, asked if piece.words <= _SHORT_ANSWER else None, first=first)
    elif asked is not None and _has_no_subject(piece):
        found = SentenceNeed(asked, idle=False)
    if found is None and piece.role == "user" and _points_back(piece):
        return SentenceNeed(None, idle=True)
    return found


def _has_no_subject(piece: SummaryPiece) -> bool:
    """Return True if an assistant's answer has values and few words, none of them a name."""
    return (
        piece.role == "assistant"
        and piece.words <= _BRIEF_ANSWER
        and _states_value(piece)
        and not _has_name(piece)
    )


def _points_back(piece: SummaryPiece) -> bool:
    """Return True if a user's short sentence says nothing without the message before it: 两个都修, "fix both"."""
    return (
        piece.words <= _SHORT_ANSWER
        and not any(map(str.isdigit, piece.text))
        and not _has_name(piece)
        and _BACKWARD.search(piece.text) is not None
    )


def unnamed(pieces: Sequence[SummaryPiece]) -> dict[int, int | None]:
    """Return {index of a fact about "him" or "it": index of the sentence with the name, None if there is none}.

    The name is looked for in the same exchange: the same message and the one before it. A Chinese fact without a
    subject (片长才95分钟) is in the result only if there is a name.
    """
    found: dict[int, int | None] = {}
    for at, piece in enumerate(pieces):
        if piece.role in ("tool", "call") or not _states_value(piece):
            continue
        lead = _LEAD.match(piece.text)
        pronoun = _PRONOUN.match(piece.text, lead.end() if lead else 0)
        bare = (
            _CHINESE.search(piece.text) and not _PERSON.search(piece.text) and not _has_name(piece)
        )
        if pronoun or bare:
            name = _name_before(pieces, at)
            if pronoun or name is not None:
                found[at] = name
    return found


def _name_before(pieces: Sequence[SummaryPiece], at: int) -> int | None:
    messages = {pieces[at].message}
    for before in range(at - 1, max(at - _NEAR, -1), -1):
        piece = pieces[before]
        if piece.role in ("tool", "call"):
            continue
        if piece.message not in messages:
            if len(messages) == 2 or piece.message < 0 <= pieces[at].message:
                return None
            messages.add(piece.message)
        if _has_name(piece) and not is_question(piece.text):
            return before
    return None


def _states_value(piece: SummaryPiece) -> bool:
    return any(fact.partition("\0")[0] in _VALUES for fact in piece.facts)


def _has_name(piece: SummaryPiece) -> bool:
    return any(fact.startswith(("name\0", "proper\0")) for fact in piece.facts)


def _alone(
    pieces: Sequence[SummaryPiece], at: int, question: int | None, *, first: bool
) -> SentenceNeed | None:
    piece = pieces[at]
    if _is_repeated(pieces, at) or (question is None and _is_echo(pieces, at)):
        return SentenceNeed(None, idle=True)
    if question is not None:
        asked = pieces[question]
        # 哪年出生的？ 1955年05月18日。 tells of nobody.
        nobody = asked.words <= _SHORT_ANSWER and not (_has_name(asked) or _has_name(piece))
        if nobody and not piece.words and _CHINESE.search(asked.text):
            return SentenceNeed(None, idle=True)
        return SentenceNeed(question, idle=False)
    values = all(fact.partition("\0")[0] in _VALUES for fact in piece.facts)
    if first and values and piece.role == "assistant" and not piece.words:
        return SentenceNeed(None, idle=True)  # a bare value that answers nothing
    return None if first or piece.words > _NO_SUBJECT else SentenceNeed(at - 1, idle=False)


def _is_repeated(pieces: Sequence[SummaryPiece], at: int) -> bool:
    """Return True if the next message says all the facts of a sentence, and more words or facts."""
    piece = pieces[at]
    told: set[str] = set()
    words = 0
    message: int | None = None
    for after in range(at + 1, min(at + _NEAR, len(pieces))):
        each = pieces[after]
        if each.role in ("tool", "call") or each.message == piece.message:
            continue
        message = each.message if message is None else message
        if each.message != message:
            break
        told |= each.facts
        words = max(words, each.words)
    facts, others = set(map(_without_unit, piece.facts)), set(map(_without_unit, told))
    return facts <= others and (words > piece.words or facts < others)


def _is_echo(pieces: Sequence[SummaryPiece], at: int) -> bool:
    """Return True if the assistant only confirms values of the user's message before ("Updated to 135 EUR.").

    An answer to a question is none: its values may be a choice among those of the question.
    """
    piece = pieces[at]
    if piece.role != "assistant":
        return False
    told: set[str] = set()
    message: int | None = None
    for before in range(at - 1, max(at - _NEAR, -1), -1):
        each = pieces[before]
        if each.message == piece.message:
            continue
        message = each.message if message is None else message
        if each.message != message:
            break
        if each.role != "user" or is_question(each.text):
            return False
        told |= each.facts
    return bool(told) and set(map(_without_unit, piece.facts)) <= set(map(_without_unit, told))


def said_together(pieces: Sequence[SummaryPiece]) -> dict[int, int]:
    """Return {index of a user's sentence: index of the sentence beside it without which it would say something else}.

    What somebody else said is shown with what the user says next ("Jonas says never store numbers. I don't agree."),
    and a value that is given up with the value in its place ("We can't make 12 March. Let's say the end of April.").
    """
    found: dict[int, int] = {}
    for at, (piece, after) in enumerate(pairwise(pieces)):
        # Lines of an earlier summary no longer tell which of them were one message.
        line = after.message == piece.message - 1 < -1 and (
            _PRONOUN.match(after.text) or _STANCE.match(after.text)
        )
        if piece.role != "user" or after.role != "user":
            continue
        if piece.message != after.message and not line:
            continue
        if is_question(piece.text) or is_question(after.text):
            continue
        if _SAID_BY_OTHERS.match(piece.text):
            found[at] = at + 1
            if _PRONOUN.match(after.text) or _STANCE.match(after.text):
                found[at + 1] = at
        elif (
            (_states_value(piece) or _states_value(after) or _has_name(piece) or _has_name(after))
            and _GIVEN_UP.search(piece.text)
            and _IN_ITS_PLACE.match(after.text)
        ):
            found[at], found[at + 1] = at + 1, at
    return found


def _without_unit(fact: str) -> str:
    """Return the key of a fact without its unit, because a unit may be left out: 3000 and 3,000 元."""
    kind, _, key = fact.partition("\0")
    return key.partition("|")[0] if kind in ("number", "money") else fact


def idle_rows(pieces: Sequence[SummaryPiece]) -> set[int]:
    """Return the indexes of lines of tool output that a summary can leave out.

    These are rows of logs and tables and bare numbers that nobody took up, and short lines that somebody repeated.
    """
    spoken: set[str] = set()
    outputs: dict[int, list[int]] = {}
    for at, piece in enumerate(pieces):
        if piece.role == "tool":
            outputs.setdefault(piece.message, []).append(at)
        elif piece.role != "call":
            spoken |= piece.facts
    idle: set[int] = set()
    for rows in outputs.values():
        shapes = {at: _shape(pieces[at].text) for at in rows}
        often = Tally(shapes.values())
        uses = Tally(fact for at in rows for fact in pieces[at].facts)
        for at in rows:
            piece, usual = pieces[at], max(2, len(rows) // _USUAL)
            taken_up = any(
                fact in spoken and uses[fact] <= usual and _is_distinct(fact)
                for fact in piece.facts
            )
            is_row = often[shapes[at]] >= _MANY_ROWS or piece.words == 0
            # What an answer took up of a short line is told there with its subject.
            is_told = piece.words <= _SHORT_ANSWER and len(piece.text) <= _SHORT_LINE
            if is_told if taken_up else is_row and not is_outcome(piece.text):
                idle.add(at)
    return idle


def _shape(row: str) -> str:
    """Return a row without its values: the keys of JSON, or a line with 0 for each number, id and `=value`."""
    row = row[:_LONGEST_SHAPE]
    return " ".join(_JSON_KEY.findall(row)) if row[0] == '"' else _VALUE.sub("0", row)


def _is_distinct(fact: str) -> bool:
    kind, _, key = fact.partition("\0")
    if kind == "number":
        return sum(c.isdigit() for c in key) + (key[-1] != "|") >= _FEW_DIGITS
    return kind not in ("date", "time", "constraint", "decision", "statement")


_SAYS = (
    r"(?:says|said|told\ (?:me|us)|writes|wrote|thinks|insists|insisted|claims|claimed|suggests|suggested|recommends"
    r"|recommended|wants\ (?:me|us)|wanted\ (?:me|us)|demands|keeps\ saying)"
)
_SAID_BY_OTHERS = late_pattern(
    rf"""(?:\(quoted\)\ |（引文）)?
    (?: (?i:my|our|his|her|their|the)\ (?:\w+\ ){{1,4}}?(?:(?:just|also|always)\ )?
        (?:say|think|insist|claim|suggest|recommend|want\ (?:me|us)|demand|{_SAYS})
      | [A-Z]\w{{1,20}}\ (?:[A-Z]\w{{1,20}}\ )?(?:(?:just|also|always)\ )?{_SAYS} )\b
    | (?!我(?:们|自己)?(?:也|就|还|都|想|是)?(?:说|觉得|认为|建议|坚持|要求|想))[^，,。；;：:？?\n]{{1,12}}?
      (?:说|告诉我们?|发来|写道|认为|觉得|坚持|建议|要求|想让我)
    """,
    re.VERBOSE,
)
"""Matches the beginning of a sentence with what somebody else said, thinks or wants."""
_STANCE = late_pattern(
    r"(?:but\ )?I\ (?:do(?:\ not|n['’]t)?\ |also\ |fully\ )?(?:agree|disagree|think\ so)\b"
    r"|我(?:也|并|完全)?不?(?:同意|赞成|认同|这么[看想])",
    re.IGNORECASE,
)
"""Matches the beginning of a sentence in which users say what they think of the words before."""
_GIVEN_UP = late_pattern(
    r"\b(?:(?:can['’]?t|cannot)(?!\ (?:wait|stop|imagine|help|believe|even))|won['’]?t|will\ not|isn['’]?t|is\ not"
    r"|was\ not|wasn['’]?t|do(?:es)?n['’]?t\ work"
    r"|no\ longer|scrap|(?<!n['’]t\ )(?<!not\ )(?<!to\ )forget|drop|cancel|bad\ idea|a\ mistake"
    r"|wrong|never\ mind|too\ (?:\w+)|changed\ my\ mind)\b"
    r"|不[行对要用了合]|[赶来用做]不[及上了成]|算了|取消|作废|太[贵大小慢晚早多少远]|弄错|改主意",
    re.IGNORECASE,
)
_IN_ITS_PLACE = late_pattern(
    r"(?:so\ |then\ |and\ |but\ |ok(?:ay)?,?\ |please\ )?(?:let['’]?s|let\ us|make\ it|make\ that|use|go\ with|take"
    r"|instead|rather|better|say"
    r"|(?:i|we)(?:['’]d|['’]ll|\ will|\ would)\ (?:rather\ |better\ )?(?:go|take|use|say|do|make|have|switch|move)"
    r"|[\w.-]+\ then\b|switch|move)\b"
    r"|(?:那就?|就|所以)?(?:改|换|用|定|推|挪|还是|要|换成|选)",
    re.IGNORECASE,
)
_LEAD = late_pattern(
    r"""
    (?: (?: (?:oh|ah|aw+|wow|hey|hi|hello|hmm+|ha(?:ha)+|lol|yeah|yep|yup|yes|ok(?:ay)?|sure|right|well|so|anyways?
      | alright|cool|great|nice|awesome|amazing|perfect|exactly|absolutely|definitely|totally|certainly|of\ course
      | indeed|honestly|actually|basically|also|plus|by\ the\ way|btw|you\ know|i\ mean
      | thank(?:s|\ you)(?:\ (?:so|very)\ much|\ a\ lot)?|sounds\ (?:good|great|fun|nice|perfect)|got\ it
      | no\ (?:problem|worries)|i\ (?:see|agree|(?:hope|think|guess)\ so)|you\ bet|for\ sure
      | good\ (?:idea|point|question))
      (?:,?\ (?-i:[A-Z][a-z]+))?\s*[,!.;:–—]+\s*
    | (?:嗯+|哦+|噢|啊|哈+|嘿|嗨|哎呀?|唉|好(?:的|啊|呀|吧|哒)?|是(?:的|啊|呀)|对(?:的|啊|呀|了)?|没错|当然(?:了|可以)?
      | 行|没问题|明白了?|知道了|了解了?|收到|谢谢[你您]?|感谢[你您]?|不客气|其实|另外|那么?|[你您]好)
      [，,！!。、；;～~\s]+ )+ )
    """,
    re.IGNORECASE | re.VERBOSE,
)
_TIED = late_pattern(r"(?:for|since|because|gonna|['’]?cause|cuz)\b", re.IGNORECASE)
"""Matches words that mean nothing without the words before them: "Thank you, Sofia, for confirming it"."""
_REACTION = late_pattern(
    r"""
    (?: (?:that|this|it)(?:['’]s|\ is|\ was|\ sounds|\ looks|\ must|\ would|\ will)\b | sounds\b | looks\ like\ you
      | how\ \w+(?:[!.]|\ (?:of|that|for|to)\b) | what\ an?\b | such\ an?\b | so\ (?:glad|happy|proud|cool|great|nice)
      | (?:i['’]m|i\ am)\ (?:so\ |really\ |very\ |always\ )*(?:glad|happy|proud|sorry|excited\ for|here)
      | glad\b | happy\ (?:for|to)\b | proud\b | congrat | good\ (?:luck|job|for|to|morning|afternoon|evening|night)
      | (?:i\ )?love\ (?:that|your|it|this)\b | great\b | cool\b | nice\b | lovely\b | awesome\b | amazing\b
      | perfect\b | you(?:['’]re|\ are|\ got|\ rock|['’]ve|\ have|\ should|\ can|\ could|['’]ll)\b | keep\b
      | best\ of | enjoy\b | have\ (?:an?\ |fun)| take\ care | (?:please\ )?let\ me\ know | feel\ free
      | (?:i\ )?hope\ (?:you|that|this|it) | let\ me\b | one\ moment | please\ (?:wait|hold) | is\ there\ anything
      | i(?:\ can|['’]ll|\ will|['’]m\ able\ to)\ (?:help|assist|do\ that) | your\ \w+\ (?:\w+\ )?means?\b
      | (?:i['’]d|i\ would)\ be\ (?:happy|glad) | i\ (?:apologi[sz]e|understand|agree|see|appreciate) | thank | thanks\b
      | (?:hi|hello|hey|dear|sure|certainly|of\ course|absolutely|wow|ok(?:ay)?|got\ it|bye|goodbye|no\ problem)\b
      | my\ pleasure | any\ ?time[.!]*$ | agreed\b[^a-z]*$ | exactly\b | totally\b | can['’]?t\ wait | see\ you
      | talk\ (?:to\ you\ )?soon | looking\ forward | how\ (?:can|may)\ i | how\ are\ you | welcome\b )
    | [你您]好 | 大家好 | 谢谢 | 感谢 | 多谢 | 不客气 | 不用谢 | 没关系 | 没问题 | 好[的吧啊呀] | 收到 | 明白 | 知道了
    | 了解 | 嗯 | 哦 | 再见 | 拜拜 | 祝 | 希望.{0,12}(?:帮助|帮到|喜欢|[你您]) | 请问还有
    | 还有(?:什么|其他).{0,8}(?:帮|问题|需)
    | (?:如果|若)[您你]?.{0,4}(?:还有|有任何|有其他|需要) | 随时 | 很高兴 | 抱歉 | 对不起 | 不好意思 | 辛苦 | [早晚]上好
    | 下午好 | 太[好棒]了 | 真[好棒不的] | 听起来 | 听上去 | 这(?:真|很|太|都?是个?(?:很|非常)?好) | 加油 | 哈哈
    | 是[的啊] | 对[的啊] | 我(?:可以|能|会|来)(?:帮|为)[你您] | 当然 | 有什么.{0,8}(?:帮|吗) | 不用担心 | 别担心 | 没错
    | 那?[行好][吧啊呀的了]?\W*$ | (?:非常|十分|实在|真是)(?:抱歉|对不起|感谢|不好意思) | 原来如此
    | [你您](?:真|可以|应该|一定|很|说得)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_OWN = late_pattern(r"\b(?:I|[Mm]y|[Ww]e|[Oo]ur|me|us|mine)\b|[我咱]")
_ADDRESSED = late_pattern(r"\b[Yy]ou(?:r|rs|rself)?\b|[你您]")
_TOLD = late_pattern(
    r"""
    (?: \b(?: was|were|went|did|had|got|came|made|took|bought|found|met|saw|moved|began|wrote|won|lost|left|gave|told
      | yesterday|ago|last\s+(?:week|month|year|night|summer|winter|spring|fall|weekend|\w+day) | recently|lately
      | tomorrow|tonight|next\s+(?:week|month|year|\w+day)|this\s+(?:week|month|year|weekend|\w+day) ) | [a-z]{2}ed )\b
    | 昨[天晚日]|前天|上(?:个?月|周|次)|去年|今年|明[天年]|后天|下(?:个?月|周)|最近|刚刚?
    | [过完到成]了|[去做看吃买学住]过
    """,
    re.VERBOSE | re.IGNORECASE,
)
_LIKES = late_pattern(
    r"""
    \b(?: (?:i|we)(?:['’](?:d|ll|m|re|ve))?\s+(?:\w+\s+)?(?:likes?|loved?|enjoy(?:ed)?|prefer|hate|dislike
        |can['’]?t\s+stand)
      | (?:my|our)\s+(?:\w+\s+)?(?:favou?rite|hobb(?:y|ies)|preference) | allergic | interested\s+in | fan\s+of
      | rather\s+(?:than|have|not) )\b
    | 喜欢|最爱|偏爱|更爱|爱[吃喝看听玩]|讨厌|过敏|习惯|爱好|兴趣|偏好
    """,
    re.VERBOSE | re.IGNORECASE,
)
_PLANS = late_pattern(
    r"""
    \b(?: (?:i|we|he|she|they)(?:['’](?:d|ll|m|re|ve))?\s+(?:\w+\s+)?
        (?:wants?|needs?|plan(?:s|ned)?|hopes?|wish|dream|decided?|chose|intend|going\s+to|tend)
      | works?\s+(?:as|at|for)|lives?\s+in|named|called|grew\s+up
      | (?:my|our|his|her|their)\s+(?:\w+\s+)?(?:wife|husband|partner|son|daughter|kids?|child(?:ren)?|mother|mom
        |mum|father|dad|sister|brother|parents?|family|friend|boss|job|work|home|house|birthday|dream|plan|goal) )\b
    | 想[要去学做买吃看]|希望|打算|计划|准备|决定|梦想
    | 我(?:是|在|住|家|爸|妈|妻|老婆|老公|丈夫|儿子|女儿|朋友|同事|老板|的)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_WHO = late_pattern(
    r"\b(?:[Mm]y\s+name|[Cc]all\s+me|I(?:['’]m|\s+am)\s+(?:an?|from|called|\d+)|I\s+(?:work|live)|born\s+(?:in|on))\b"
    r"|我(?:叫|姓|的名字|是一?[名位个]|今年|住在|在.{1,12}(?:工作|上班|读书|上学))|\d岁"
)
_QUESTION_END = late_pattern(
    r"[吗呢么][\W_]*$|^[^,，。;；]{0,8}(?:[能有是要会好行]|可)[不没](?:能|有|是|要|会|好|行|可以)[^,，。;；]{0,12}$"
)
_NAMED = late_pattern(r"[A-Z][a-z]{1,20}: (?:Oh|Wow|Yeah|Yes|Aw+|Haha|Hey|Hi)?[,!. ]*")
"""Matches the name of a speaker at the beginning of a text, as some imported logs have it."""
_GREETING = late_pattern(r"(?:hi|hey|hello)\b,?(?: [A-Z][a-z]+)?[\W_]*", re.IGNORECASE)
_LETTER = late_pattern(r"[^\W_]")
_ENCODED = late_pattern(r"[A-Za-z0-9+=_-]{100}")
_OUTCOME = late_pattern(
    r"\b(?:error|failed|failure|exception|denied|refused|not\ found|invalid|success\w*|passed|completed|created"
    r"|confirmed|cancell?ed|status|total|traceback)\b|失败|成功|错误|完成|异常",
    re.IGNORECASE,
)
_PROPER = late_pattern(r"(?<=[a-z,;] )(?!I\b)[A-Z][\w’'-]+(?: [A-Z][\w’'-]+)*")
_PRONOUN = late_pattern(
    r"(?:(?:He|She|It|They|This|That|These|Those)(?:['’]\w+)?\b|[他她它])", re.IGNORECASE
)
_BACKWARD = late_pattern(
    r"^(?:好[的吧]?[，,]?)?(?:那就?|就)?(?:(?:[两三]个?|这[些个]?|它们?|全部?)都?|都|前者|后者|第[一二三]个)"
    r"|\b(?:both|it|that|them|those|these|this|the (?:first|second|other|last) one)\b",
    re.IGNORECASE,
)
"""Matches words that point to something in an earlier message."""
_PERSON = late_pattern(r"[我咱你您]")
_VALUES = frozenset({"number", "money", "date", "time"})
_LEAD_IN = late_pattern(
    r"\A.{0,8}想[跟和要向]{0,2}[你您](?:分享|聊|说|倾诉)|作为(?:一[个名位]|[你您]的)?(?:AI|人工智能)|AI\s?(?:伴侣|助手|助理)|陪伴着?[你您]"
    r"|\bas\ an\ AI\b|\bAI\ (?:language\ model|companion|assistant)\b|\bin\ the\ following\b",
    re.IGNORECASE,
)
"""Matches words that only announce a statement, such as "Here is the list:", or "As an AI, ..." of an assistant."""
_SELF = late_pattern(
    r"(?:我(?:只|就)?是|作为)(?:你的|您的)?(?:一[个名位款])?(?:AI|人工智能)\s?(?:伴侣|助手|助理|语言模型|模型|机器人|程序|[，,。])"
    r"|\b(?:I['’]?a?m|as)(?:\ (?:just|only))?\ an\ AI"
    r"(?:\ (?:language\ model|model|companion|assistant|chatbot))?"
    r"(?=[,.;!]|\ and\b|\ (?:so|that)\b|$)",
    re.IGNORECASE,
)
"""Matches an assistant's statement about being an assistant ("As an AI, I can only …"), which is no rule."""
_REACTION_FACTOR = 0.07
"""Highest factor for a reaction such as "that's great!"; so low that it never replaces another sentence."""
_EMPTY_WORDS = 2
"""An exclamation of at most this many words, without a fact or a name, is a reaction: "Any time!", 非常抱歉！"""
_WHO_WEIGHT, _LIKES_WEIGHT = 1.5, 0.6
_ENCODED_LENGTH = 100
_SHORT_REACTION = 6
_WEAK = frozenset({"identifier", "name", "time"})


def without_lead(text: str) -> str:
    """Return a sentence without the interjections it begins with; the whole sentence if little else is left."""
    lead = _LEAD.match(text)
    if (
        lead is None
        or _TIED.match(text, lead.end())
        or len(text) - lead.end() < (4 if text[-1] > "\u2e7f" else 12)
    ):
        return text
    return text[lead.end() :]


def proper_names(text: str) -> list[str]:
    """Return the capitalised names inside an English sentence."""
    return [] if text.islower() else _PROPER.findall(text)


def is_question(text: str) -> bool:
    """Return True if a sentence ends with a question mark, or with a Chinese question particle."""
    for character in reversed(text):
        if character in "?？":
            return True
        if character.isalnum() or character == "_":
            break
    return _QUESTION_END.search(text) is not None


class Form(NamedTuple):
    """The importance of a sentence for a summary, judged by its form (statement, question, praise) alone."""

    factor: float
    """Factor of the sentence: 1.0 for a plain statement, less if it is hardly ever needed later, more if it often
    is."""
    statement: float = 0.0
    """Weight, like that of a fact, of a statement about the speaker (who they are, what they like); 0 for other
    sentences."""


def is_outcome(words: str) -> bool:
    """Return True if a line of tool output reports an error or a result."""
    return _OUTCOME.search(words) is not None


def form_of(
    sentence: Sentence, words: str, hits: tuple[FactMatch, ...], terms: int, *, tool: bool
) -> Form:
    """Return how important a sentence is by its form; `words` is the sentence without leading interjections."""
    if not _LETTER.search(words):
        return Form(0.0)
    factor = 0.2 if len(words) > _ENCODED_LENGTH and _ENCODED.search(words) else 1.0
    if sentence.kind == "code":
        factor *= 0.7
    if tool:
        return Form(factor * (1.4 if _OUTCOME.search(words) else 1.0))
    return _form_of_prose(words, hits, terms, factor) if sentence.kind == "prose" else Form(factor)


def _form_of_prose(words: str, hits: tuple[FactMatch, ...], terms: int, factor: float) -> Form:
    factor *= min(1.0, 0.2 + 0.16 * (terms + 2 * len(hits)))
    own = _OWN.search(words) is not None
    who = own and _WHO.search(words) is not None
    likes = own and _LIKES.search(words) is not None
    named = _NAMED.match(words)
    start = named.end() if named else 0
    lead = _LEAD.match(words, start)
    if _GREETING.fullmatch(words, start if named is None else words.index(": ") + 2):
        return Form(_REACTION_FACTOR * factor)
    if (
        (_REACTION.match(words, start) or (lead and not _LETTER.search(words, lead.end())))
        and not (who or likes or (own and terms > _SHORT_REACTION))
        and all(hit.kind in _WEAK for hit in hits)
    ):
        return Form(min(0.15 * factor, _REACTION_FACTOR))
    exclaims = words[-1] in "!！" and not (hits or own or proper_names(words))
    if exclaims and own_words(words, hits) <= _EMPTY_WORDS:
        return Form(min(0.15 * factor, _REACTION_FACTOR))
    announces = words[-1] in ":：" or _LEAD_IN.search(words)
    if _SELF.search(words) or (announces and all(hit.kind in _WEAK for hit in hits)):
        return Form(min(0.15 * factor, _REACTION_FACTOR))
    asks = is_question(words)
    if asks:
        factor *= 0.45
    if own:
        factor *= 1.3
    elif _ADDRESSED.search(words):
        factor *= 0.6
    if likes or _PLANS.search(words):
        factor *= 1.25
    if _TOLD.search(words):
        factor *= 1.2
    return Form(factor, 0.0 if asks else _WHO_WEIGHT if who else _LIKES_WEIGHT if likes else 0.0)
