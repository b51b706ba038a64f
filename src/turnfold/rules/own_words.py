"""Separates a user's own words from quoted and pasted text, and splits them into sentences.

Users paste documents, logs, e-mails and code. These are not the user's own statements, so they are replaced by blanks
before sentences are read. The blanked text has the same length as the message, so that positions are the same in both,
and a sentence found in it can be cut from the message unchanged. All functions take time linear in the length of the
text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from turnfold._lazy_loading import late_pattern
from turnfold.text import is_program_output, plain_characters

__all__ = ("BLANK", "OwnSentence", "blank_quotes", "bracketed", "is_quoted", "own_sentences")


BLANK = "\x1a"
"""Replaces each character of quoted text. It is a control character, so that no pattern takes it for a letter or a
space."""
_MOST_READ = 24_000
"""Most characters of a message that are read; of a longer message, half of them from each end."""
_LONGEST_SENTENCE = 600

_FENCE = late_pattern(r"[ \t]*(?:```|~~~)")
_QUOTED_LINE = late_pattern(r"[ \t]*(?:>|\||\+[-=]{3}|//|/\*|\*/|#{1,6}[ \t]|#!)")
_TAG = late_pattern(r"[ \t]*<([^\W\d_][\w.-]{0,40})(?:[ \t][^<>\n]{0,200})?>")
_RULER = late_pattern(r"[ \t]*(?:-{3,}|={3,}|\*{3,}|_{3,}|~{3,}|\"{3}|'{3})[ \t]*$")
_PASTE_MARK = late_pattern(
    r"[ \t]*(?:[-=_*#]{3,}[ \t]*\S|[<\[]{2,}[ \t]*\w|On [^\n]{4,120} wrote:[ \t]*$"
    r"|(?:begin|start) (?:of )?(?:document|quote|paste|log|email|transcript|file)\b"
    # what a coding agent writes in the user's place when its context is full
    r"|This session is being continued from a previous conversation\b"
    r"|Your task is to create a detailed summary of (?:the|this|our) conversation\b)",
    re.IGNORECASE,
)
_MAIL_HEADER = late_pattern(
    r"[ \t]*(?:From|To|Cc|Bcc|Subject|Sent|Date|Reply-To|发件人|收件人|抄送|主题|日期|发送时间|时间)[ \t]*[:：]",
    re.IGNORECASE,
)
_CODE_OR_LOG = late_pattern(
    r"""[ ]{0,12}\t{0,4}(?:
        \[?\d{4}[-/]\d\d[-/]\d\d[T ]\d | \d\d:\d\d:\d\d\b
      | \[?(?:INFO|WARN|WARNING|ERROR|DEBUG|TRACE|FATAL|CRITICAL)\b[\]: ]
      | Traceback[ ]\( | File[ ]"[^"\n]+",[ ]line | at[ ][\w$.<>]+\(
      | (?:def|class|import|return|const|let|var|function|public|private|static|fn|func|elif|except|package|using)
        [ ][^.?!。？！\n]*[(){}=:;][ \t]*$
      | (?:from[ ][\w.]+[ ])?import[ ][\w., {}*]+$
      | [\w.\[\]"']+[ ]?(?:=|\+=|:=|==)[ ]?\S[^\n]*[)\]};"'\d][ \t]*$ | @\w+\( | \$[ ]\w | %\w+[ ]
      | "[\w-]+"[ ]?: | [{}\[\]();,]+[ \t]*$ | [^\n]*[{};][ \t]*$ | [\w.-]+(?:,[\w. -]*){4,}$ )""",
    re.VERBOSE,
)
_ROLE = late_pattern(
    r"[ \t]*\W{0,3}(?:assistant|system|user|human|ai|bot|tool|function|developer|助手|系统|用户|工具)\W{0,3}[:：]",
    re.IGNORECASE,
)
_SPEAKER = late_pattern(
    r"[ \t]*(?:\[[^\]\n]{1,20}\][ \t]*)?([A-Z][\w.'-]{1,20}(?: [A-Z][\w.'-]{1,20})?"
    r"|[\u4e00-\u9fff·]{1,8})[ \t]*[:：][ \t]*(?=\S)"
)
_LABEL = late_pattern(
    r"(?:new |my |our |the |hard |house |ground |some |a few |these |following )*(?:rules?|notes?"
    r"|constraints?|decisions?"
    r"|preferences?|reminders?|to-?do|tasks?|requirements?|important|polic(?:y|ies)|facts?|fyi|update|correction"
    r"|changes?|guidelines?|conventions?|style|format|tone|language|deadline|budget|name|instructions?"
    r"|warning|caution"
    r"|remember|conditions?|restrictions?|limits?|boundar(?:y|ies)|dos and don'?ts|dietary|diet"
    r"|location|job|role|goal|ps"
    r"|final|plan|pricing|price|cost|front-?end|back-?end|stack|hosting|theme|colou?r|font|audience|client|lead|contact"
    r"|meeting|launch|release|team|project|version|branch|framework|server|agreed|decided|dates?|times?|place|venue|owner|port|database|also|please|so|ok|okay|hi|hello|hey"
    r"|规则|要求|注意(?:事项)?|约定|决定|偏好|待办|任务|提醒|原则|规范|更正|更新|备注|说明|限制|条件"
    r"|另外|重要|结论|最终|事实"
    r"|(?:delivery |shipping |home |billing |e-?mail |postal |phone |contact |my )*(?:address|phone|number|e-?mail)"
    r"|birthday|allerg(?:y|ies)"
    r"|[\u4e00-\u9fff]{0,4}(?:地址|电话|手机号?|号码|邮箱|抬头|税号|日期|联系方式|生日|过敏史?)"
    r"|预算|截止(?:日期|时间)?|时间|地点|语言|格式|风格|语气|名字|姓名|职业|忌口|补充|请|你好|好|目标|安排|计划)$",
    re.IGNORECASE,
)
_SETS = late_pattern("[改换成为是写填开送寄到选定]")
"""Matches a verb in what stands before a colon: "发票抬头换成个人：周敏" names no speaker."""
_PASTE_INTRO = late_pattern(
    r"(?:\b(?:e-?mails?|logs?|docs?|documents?|documentation|article|readme|error|output|traceback|transcript"
    r"|chat|thread|ticket|message|letter|contract|polic(?:y|ies) (?:says|reads|states|document)|spec(?:ification)?"
    r"|page|website|file|snippet|code|config|report|paper|abstract|review|post|tweet|comment|text|excerpt|paragraph"
    r"|passage|quote|prompt|manual|terms|story|poem|lyrics|job ad|posting|listing|notes from|minutes"
    r"|example|diff|patch"
    r"|wrote|writes|said|says|saying|reads|states|replied|answered|sent me|got this|received|pasted?"
    r"|quoting|summari[sz]e"
    r"|translate|proofread|rewrite|rephrase|review|edit|explain|analy[sz]e|read|look at) ?"
    r"(?:this|that|it|me|us|below|the following|here|above|from \w+|of \w+|for me)?"
    r"|(?:here(?:'s| is)|below is|this is|see) (?:what|the|a|an|my) [^:\n]{0,60})[ \t]*[:：][ \t]*$"
    r"|(?:邮件|日志|文档|文章|原文|报错|错误|输出|代码|合同|协议|条款|聊天记录|记录|文件|内容|材料"
    r"|段落|说明书|截图|通知|公告|帖子|评论"
    r"|新闻|资料|文字|文本|这段话?|这句话?|下面|写道|写着|说|显示|回复|翻译|总结|概括|润色|改写|解释"
    r"|分析|转发|引用|摘录|如下)"
    r"(?:一下|的?内容|如下|是|这样|了|道|：)?[ \t]*[:：][ \t]*$",
    re.IGNORECASE,
)
_PASTE_SOURCE = late_pattern(
    r"\b(?:e-?mails?|mailed|newsletter|letter|memo|article|readme|contributing|changelog|handbook|style\s?guide|guidelines\s+of|polic(?:y|ies)|terms|contract|manual|brochure|flyer"
    r"|leaflet|notice|sign|poster|forum|blog|post|chat|group|thread|transcript|log|page|website|doc(?:s|ument(?:s|ation)?)?|minutes|quote|offer|review|comment|story|poem|book)\b"
    r"|\b(?:he|she|they|[A-Z][a-z]+)\s+(?:wrote|writes|sent|posted|mailed|texted|says|said)\b"
    r"|邮件|来信|信里|信上|文档|手册|规定|守则|须知|公告|通知|通告|告示|文章|帖子|群聊|群里|聊天|记录|合同|协议|条款|网上|公众号|朋友圈|说明书|简章|章程|攻略|教程|书里|书上|总结的|[他她]们?(?:说|写|发)|发来的?|转来的?|转的|贴[出在]|写着|写得",
    re.IGNORECASE,
)
"""Matches words that name the source of a text ("from the docs"), in a line that ends with a colon and is followed by
an empty line."""
_OWN_INTRO = late_pattern(
    r"\b(?:rules?|requirements?|constraints?|preferences?|guidelines?|conventions?|instructions?|decisions?|to-?dos?"
    r"|tasks?|reminders?|conditions?|restrictions?|things|points|don'?ts)\b"
    r"|规则|要求|注意|约定|偏好|待办|任务|原则|规范|限制|条件|几点|决定",
    re.IGNORECASE,
)
_OWN_HEADING = late_pattern(
    r"\b(?:my|our|these|following|a\s+few|some|new|ground|house)\s+(?:\w+\s+){0,2}(?:rules?|requirements?|constraints?|preferences?|decisions?|to-?dos?|tasks?|wishes|conditions?|points|things)\b[^,;]*$"
    r"|\b(?:please|you|i\s+want|we\s+agreed)\b[^,;:]*$|(?:我的|我们的?|几[点条个]|以下|这些|新的)[^,，。]{0,6}(?:规则|要求|约定|偏好|待办|任务|规范|限制|条件|决定|安排)[^,，]{0,3}$|(?:请你?|你要|你得|麻烦)[^,，。]{0,12}$",
    re.IGNORECASE,
)
"""Matches a heading under which the author states rules, whatever else it names."""
_SAID_INLINE = late_pattern(
    r"\b(?:says?|said|reads?|states?|stated|wrote|writes|replied|asks?|asked|goes|error|output|message"
    r"|called)[ ]?[:：](?=[ ]?\S)"
    r"|(?:说|写道|写着|显示|回复|提示|问|道|原话是|报错)[:：]",
    re.IGNORECASE,
)
_WORKS_EN = (
    r"(?:translate|proof-?read|summari[sz]e|rewrite|re-?phrase|paraphrase|correct|polish|improve|shorten|edit|spell-?check"
    r"|explain|turn(?=\s+this)|fix\s+the\s+(?:grammar|spelling|typos?|wording))"
)
_WORKS_ZH = "(?:翻译|润色|校对|改写|总结|概括|缩写|扩写|解释|修改|改(?=一?下|改|病句))"
_WORKS = (
    *(
        "ranslate",
        "roof",
        "ummari",
        "ewrite",
        "phrase",
        "orrect",
        "olish",
        "mprove",
        "horten",
        "dit",
        "pell",
        "xplain",
    ),
    *("urn this", "ix the", "翻译", "润色", "校对", "写", "总结", "概括", "解释", "改"),
)
"""Texts of which every match of `_WORKED_ON` contains one; searching for them first is much faster."""
_WORKED_ON = late_pattern(
    r"(?:^|(?<=[.!?。！？\n,，])[ \t]*)"
    r"(?:(?:please|pls|hi|hey|ok(?:ay)?|now|and|then|could|can|would|will|you|help|me|kindly)\b[\s,]*)*"
    rf"{_WORKS_EN}\b"
    r"(?![^.:!?\n]*\b(?:always|never|every|each|all|any|whenever|from\s+now|when)\b)"
    r"(?:(?:(?=\s*:)|(?<=[gs]):?(?=:)|(?=[^.:!?\n]*\b(?:this|following|below|my|(?:the|that)\s+(?:sentence|paragraph|text"
    r"|e-?mail|letter|passage|message|line|post|caption|essay))\b))[^.:!?\n]{0,80}?(?::(?=\s|[\"“”\x1a]|$)|\bthis\s[^.:!?\n]{0,40}\s[-–—]+\s)"
    r"|\s+(?:(?:the\s+)?following|this)\s+(?:sentence|paragraph|text|e-?mail|letter|passage|message|section)\b"
    r"[^.:!?\n]{0,40}[.!?](?=\s))"
    r"|\b(?:here(?:'s|\s+is)|this\s+is)\s+my\s+[^.:\n]{2,40},\s*(?:please\s+)?"
    r"(?:improve|fix|correct|edit|polish|proof-?read|shorten|translate)\s+it\s*:"
    r"|(?:^|(?<=[。！？\n,，]))(?:请你?|麻烦[你您]?|[你您]|能不能|可以)*(?:帮我|给我|替我)?"
    r"(?![^。：:！？\n]{0,20}(?:以后|每|都|凡|一律))(?:[把将]?(?:[这下以][上下面]?[^。：:！？\n]{0,8})?"
    rf"{_WORKS_ZH}(?:(?<!改)(?=一?下?[：:成为])|(?=[^。：:！？\n]{{0,12}}(?:下面|这[条段句篇封]|[句段篇封稿信话])))(?![^：:]*(?:时|注意|要求|规则|风格|[改调]))"
    rf"[^。：:！？\n]{{0,16}}?[：:]|{_WORKS_ZH}(?:一下)?(?:下面|以下|这)[^。：:！？\n]{{0,6}}[段句篇封条话]。)"
    rf"|这是我的?[^。：:\n]{{1,12}}[,，]\s*(?:请|麻烦)?(?:帮我|给我|替我)(?:看|{_WORKS_ZH})[^。：:\n]{{0,6}}[：:]",
    re.IGNORECASE,
)
"""Matches a request to work on a text ("translate this: ..."), which then follows."""
_INLINE_QUOTES = late_pattern(
    r'"[^"\n]{1,400}"|“[^”]{1,2000}”|「[^」]{1,2000}」|『[^』]{1,2000}』|《[^》\n]{1,100}》|`[^`\n]{1,400}`|«[^»]{1,400}»'
    r"|(?:(?<=[\s(:：,])|^)['‘][^'‘’\n]{2,300}['’](?=[\s.,;:!?)]|$)"
    r'|(?:^|(?<=[\s:：]))"[^"]{1,4000}"|https?://[^\s<>"，。]{1,400}',
    re.MULTILINE,
)
_QUOTE_SIGNS = frozenset('"“「『《`«/')
_SINGLE_QUOTE = late_pattern(r"(?:^|[\s(:：,])['‘]")
_NOT_BLANK = late_pattern(r"[^\n]")
_BULLET = late_pattern(
    r"[ \t]*(?:[-*•·▪●◦][ \t]+|\(?\d{1,2}[.)、．](?!\d)[ \t]*|[（(]\d{1,2}[)）][ \t]*|[一二三四五六七八九十]{1,2}、)"
)
_SIGNS = late_pattern(r"[.!?。！？；;…—–]+")
_BRACKETS = {")": "(", "]": "[", "}": "{", "）": "（", "】": "【", "〕": "〔"}
_OPENING_BRACKETS = frozenset(_BRACKETS.values())
_LONGEST_BRACKET = 200
_CLOSERS = "\"'”’)]」』）"
_ABBREVIATION = late_pattern(
    r"(?:^|[\s(\"'“])(?:[A-Z]|[a-z](?:\.[a-z])+|Mr|Mrs|Ms|Dr|Prof|St|No|vs|etc|approx|incl|excl|Inc|Ltd|Jan|Feb"
    r"|Mar|Apr|Jun|Jul|Aug|Sept?"
    r"|Oct|Nov|Dec|Mon|Tue|Wed|Thu|Fri|Sat|Sun)$",
    re.IGNORECASE,
)
_WRAPPED_LINE = 50


class OwnSentence(NamedTuple):
    """A sentence in the message's author's own words (not quoted), with its place in the message."""

    start: int
    end: int
    text: str
    """The sentence in simplified characters and ASCII digits, with quoted parts replaced by `BLANK`."""
    heading: str
    """The heading of the list in which the sentence is an item, such as "Rules:"; empty if there is none."""


def own_sentences(text: str) -> Iterator[OwnSentence]:
    """Yield the sentences that the author of a message wrote (not quoted or pasted); none if it is program output."""
    if is_program_output(text):
        return
    text = plain_characters(text)
    if len(text) <= _MOST_READ:
        yield from _sentences(text, 0)
        return
    half = _MOST_READ // 2
    head = text[:half]
    head = head[: head.rfind("\n") + 1 or half]
    start = len(text) - half
    start = text.find("\n", start, start + half // 2) + 1 or start
    yield from _sentences(head, 0)
    # The skipped middle may contain the end of a quotation that begins before it, or the beginning of one.
    open_fence = text.count("```", 0, start) % 2 == 1
    if not _ends_pasted(head):
        tail = text[start:]
        closing = tail.find("```") if open_fence else 0
        if closing >= 0:
            yield from _sentences(tail, start, read_from=closing)


def _ends_pasted(head: str) -> bool:
    """Return True if the first half of a long message ends in quoted text, which then continues after the gap."""
    return BLANK in _blank_lines(head + "\nx")[-1:]


def _sentences(text: str, offset: int, *, read_from: int = 0) -> Iterator[OwnSentence]:
    own = blank_quotes(text)
    heading = ""
    for start, end in _lines(own):
        if end <= read_from or (
            own[start : start + 1] == BLANK and not own[start:end].strip(BLANK)
        ):
            continue
        bullet = _BULLET.match(own, start, end)
        line = own[start:end].strip()
        if not line:
            continue
        if not bullet and line[-1] in ":：" and len(line) <= 80:
            heading = line
        elif not bullet and heading:
            heading = heading if _follows(own, start) else ""
        begin = bullet.end() if bullet else start
        if (
            not bullet
            and (":" in line or "：" in line)
            and (speaker := _SPEAKER.match(own, start, end))
        ):
            told = _LABEL.match(speaker[1]) or _SETS.search(speaker[1])
            begin = start if told else speaker.end()
        for first, last in _split(own, begin, end):
            yield OwnSentence(offset + first, offset + last, own[first:last], heading)


def _follows(own: str, start: int) -> bool:
    """Return True if the line above is not empty, so that this line belongs to the same list."""
    return own[max(0, start - 2) : start] not in {"\n\n", "\r\n"}


def _lines(own: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each line of a text; a line that was wrapped at a column is joined with the next line."""
    start = at = 0
    while at <= len(own):
        end = own.find("\n", at)
        end = len(own) if end < 0 else end
        following = own[end + 1 : end + 2]
        wrapped = (
            end - at >= _WRAPPED_LINE
            and following.isascii()
            and following.islower()
            and own[end - 1] not in ".!?:;。！？；："
            and end - start < 4 * _LONGEST_SENTENCE
        )
        if not wrapped:
            yield start, end
            start = end + 1
        at = end + 1


def bracketed(text: str, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    """Return the spans of a text that stand in brackets, in order; of nested ones only the outermost."""
    found: list[tuple[int, int]] = []
    opened: list[tuple[int, str]] = []
    for at in range(start, len(text) if end is None else end):
        sign = text[at]
        if sign in _OPENING_BRACKETS:
            opened.append((at, sign))
        elif sign in _BRACKETS and opened and opened[-1][1] == _BRACKETS[sign]:
            begin, _ = opened.pop()
            if at - begin > _LONGEST_BRACKET:
                continue
            while found and found[-1][0] > begin:
                found.pop()
            found.append((begin, at + 1))
    return found


def _split(own: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    spans = bracketed(own, start, end)
    within = 0
    for signs in _SIGNS.finditer(own, start, end):
        while within < len(spans) and spans[within][1] <= signs.start():
            within += 1
        if within < len(spans) and spans[within][0] < signs.start():
            continue
        stop = signs.end()
        while stop < end and own[stop] in _CLOSERS:
            stop += 1
        if _ends_sentence(own, signs, stop, start, end):
            yield from _trimmed(own, start, stop)
            start = stop
    yield from _trimmed(own, start, end)


def _ends_sentence(own: str, signs: re.Match[str], stop: int, start: int, end: int) -> bool:
    sign = signs[0]
    if sign[0] in "。！？；;":
        return True
    after = own[stop] if stop < end else " "
    if sign[0] in "—–":
        return after.isspace() and own[signs.start() - 1 : signs.start()].isspace()
    if not after.isspace():
        return sign[-1] in "!?" and after >= "\u4e00"
    before = max(start, signs.start() - 8)
    return sign != "." or not _ABBREVIATION.search(own, before, signs.start())


def _trimmed(own: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    end = min(end, start + _LONGEST_SENTENCE)
    while start < end and own[start].isspace():
        start += 1
    while start < end and own[end - 1].isspace():
        end -= 1
    if end - start > 1:
        yield start, end


def blank_quotes(text: str) -> str:
    """Return `text` with everything that is quoted or pasted replaced by `BLANK`, at the same length."""
    own = text.replace("’", "'")
    if "\n" in own or "<" in own:
        own = _blank_lines(own)
    elif _CODE_OR_LOG.match(own) or _QUOTED_LINE.match(own) or _ROLE.match(own):
        return BLANK * len(own)
    if not _QUOTE_SIGNS.isdisjoint(own) or _SINGLE_QUOTE.search(own):
        own = _INLINE_QUOTES.sub(_blank_match, own)
    if (":" in own or "：" in own) and (said := _SAID_INLINE.search(own)):
        own = _blank_after_said(own, said)
    if any(sign in own for sign in _WORKS):
        own = _blank_worked_on(own)
    return own


def _blank_worked_on(own: str) -> str:
    """Return a text with requests to work on a text blanked, together with that text up to an empty line."""
    at = 0
    while found := _WORKED_ON.search(own, at):
        end = own.find("\n\n", found.end())
        end = len(own) if end < 0 else end
        if found.end() < end and own[found.end() : end].strip():
            blank = _NOT_BLANK.sub(BLANK, own[found.start() : end])
            own = own[: found.start()] + blank + own[end:]
        at = end
    return own


def is_quoted(text: str, sentences: Sequence[str]) -> list[bool]:
    """Return for each of these parts of a user's message, in order, True if it is mostly quoted or pasted."""
    if not sentences:
        return []
    own = blank_quotes(text[:_MOST_READ])
    found: list[bool] = []
    at = 0
    for sentence in sentences:
        start = text.find(sentence, at, _MOST_READ)
        if start < 0:
            found.append(False)
            continue
        at = start + len(sentence)
        found.append(2 * own.count(BLANK, start, at) > len(sentence))
    return found


def _blank_match(match: re.Match[str]) -> str:
    found = match[0]
    return found[0] + _NOT_BLANK.sub(BLANK, found[1:-1]) + found[-1]


def _blank_after_said(own: str, said: re.Match[str]) -> str:
    parts: list[str] = []
    at = 0
    while said:
        end = own.find("\n", said.end())
        end = len(own) if end < 0 else end
        parts += [own[at : said.end()], BLANK * (end - said.end())]
        at = end
        following = _SAID_INLINE.search(own, at)
        if following is None:
            break
        said = following
    return "".join([*parts, own[at:]])


def _blank_lines(text: str) -> str:
    """Return the text with lines of code, logs, e-mails, transcripts and delimited blocks replaced by `BLANK`."""
    lines = text.split("\n")
    quoted = [False] * len(lines)
    _mark_blocks(text, lines, quoted)
    _mark_transcripts(lines, quoted)
    for number, line in enumerate(lines):
        if not quoted[number] and (
            _CODE_OR_LOG.match(line)
            or _QUOTED_LINE.match(line)
            or _ROLE.match(line)
            or (line.startswith(("    ", "\t")) and not _BULLET.match(line))
        ):
            quoted[number] = True
    return "\n".join(
        BLANK * len(line) if mark else line for line, mark in zip(lines, quoted, strict=True)
    )


def _mark_blocks(text: str, lines: list[str], quoted: list[bool]) -> None:
    """Set `quoted` for the lines of code blocks, tagged blocks, blocks between rulers, and announced pastes."""
    missing: set[str] = set()
    at = number = 0
    while number < len(lines):
        line = lines[number]
        last = number
        if _FENCE.match(line):
            last = _next_line(lines, number + 1, _FENCE)
        elif _RULER.match(line):
            last = _next_line(lines, number + 1, _RULER)
        elif tag := _TAG.match(line):
            last = _tag_end(text, at, tag[1], missing, number)
        elif _PASTE_MARK.match(line) or (
            _MAIL_HEADER.match(line)
            and number + 1 < len(lines)
            and _MAIL_HEADER.match(lines[number + 1])
        ):
            last = len(lines) - 1
        elif _introduces_paste(lines, number):
            quoted[number + 1 :] = [True] * (len(lines) - number - 1)
            return
        else:
            at += len(line) + 1
            number += 1
            continue
        last = min(last, len(lines) - 1)
        for marked in range(number, last + 1):
            quoted[marked] = True
            at += len(lines[marked]) + 1
        number = last + 1


def _next_line(lines: list[str], start: int, pattern: re.Pattern[str]) -> int:
    for number in range(start, len(lines)):
        if pattern.match(lines[number]):
            return number
    return len(lines) - 1


def _tag_end(text: str, at: int, name: str, missing: set[str], number: int) -> int:
    """Return the number of the line that closes a tag; the line of the tag itself if nothing closes it."""
    if name in missing:
        return number
    closing = text.find(f"</{name}", at)
    if closing < 0:
        missing.add(name)
        return number
    return number + text.count("\n", at, closing)


def _introduces_paste(lines: list[str], number: int) -> bool:
    """Return True if the line announces a paste that has no delimiters of its own."""
    line = lines[number].rstrip()
    if line[-1:] not in {":", "："}:
        return False
    line = line[-160:]
    apart = number + 2 < len(lines) and not lines[number + 1].strip()
    if apart and _PASTE_SOURCE.search(line) and not _OWN_HEADING.search(line):
        pass  # "this is from the handbook, made me laugh:", an empty line, and what the handbook says
    elif not _PASTE_INTRO.search(line) or _OWN_INTRO.search(line):
        return False
    following = next((each for each in lines[number + 1 :] if each.strip()), "")
    delimited = any(
        pattern.match(following) for pattern in (_FENCE, _RULER, _TAG, _QUOTED_LINE, _CODE_OR_LOG)
    )
    return not delimited and not following.lstrip().startswith(('"', "“", "「"))


def _mark_transcripts(lines: list[str], quoted: list[bool]) -> None:
    """Set `quoted` for the lines of a chat transcript: at least two lines by at least two speakers."""
    said: list[tuple[int, str]] = []
    for number, line in enumerate(lines):
        speaker = None if quoted[number] else _SPEAKER.match(line[:80])
        if speaker and not _LABEL.match(speaker[1]):
            said.append((number, speaker[1]))
    if len({name for _, name in said}) < 2:
        return
    for (number, _), (following, _) in pairwise([*said, (said[-1][0] + 1, "")]):
        end = following if following - number <= 2 else number + 1
        quoted[number:end] = [True] * (end - number)
