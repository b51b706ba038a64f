"""The summary that needs no model: the sentences of the source that say most, in order, word for word.

It serves when no model is configured, and when one fails. It cannot misquote: every line is a
speaker's name and a sentence that speaker's message contains. Text is data here: it is cut,
weighed and copied, never followed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from turnfold.summary.facts import Hit
from turnfold.summary.fitting import best_that_fit, cut_to_fit, joint_cost, require_limit
from turnfold.summary.ranking import Candidate, choose, estimated_tokens
from turnfold.summary.reading import Reading
from turnfold.summary.sentences import Sentence, clean_text, one_line
from turnfold.summary.speakers import (
    ANNEX_HEADINGS,
    is_tool,
    line_of,
    prefix_of,
    role_of,
    split_prefix,
    starts_with_label,
    voice_of,
)
from turnfold.summary.terms import is_chinese, terms_of

__all__ = (
    "LONGEST_READ",
    "Language",
    "Passage",
    "as_read",
    "extract_summary",
    "hits_of",
    "spoken_language",
)

Language = Literal["auto", "en", "zh"]


@dataclass(frozen=True, slots=True)
class Passage:
    """One message as the summariser reads it: who spoke, what was said, and its position in the log."""

    speaker: str
    text: str
    position: int
    unread: str = ""
    """The line of `text` that stands for what of the message is not read; empty where all of it is."""


_FEW = 16
"""Tokens that are counted whatever the estimate says: it is far off for a few short lines."""
LONGEST_READ = 200_000
"""Characters of one message that are read: about 50,000 tokens of English."""
_READ_FROM_THE_START = 3 / 4
_LONGEST_WORD_CUT = 200
_LANGUAGE_SAMPLE = 4_000

_OWN_LINE = 640
_LONG_PREVIOUS_LINE = 240

_BOILERPLATE = re.compile(
    r"""
    (?: hi | hello | hey | dear | greetings | good\ (?:morning|afternoon|evening|night) | thanks?
      | thank\ you | you['’]?re\ (?:very\ )?welcome | no\ problem | my\ pleasure | sure | certainly
      | of\ course | absolutely | great | perfect | awesome | wow | ok(?:ay)? | got\ it | sounds\ good
      | bye | goodbye | take\ care | have\ a\ (?:great|nice|good|wonderful) | anything\ else
      | is\ there\ anything\ else | how\ (?:can|may)\ i\ (?:help|assist) | how\ are\ you
      | (?:please\ )?let\ me\ know | feel\ free | i['’]?(?:m|\ am)\ (?:here|happy|glad|sorry)
      | i['’]?(?:d|\ would)\ be\ happy | i\ apologi[sz]e | i\ understand | please\ (?:wait|hold)
      | one\ moment | let\ me )\b
    | 你好 | 您好 | 大家好 | 谢谢 | 感谢 | 多谢 | 不客气 | 不用谢 | 没关系 | 没问题 | 好的 | 好吧
    | 收到 | 明白 | 嗯 | 哦 | 再见 | 拜拜 | 祝[您你] | 希望.{0,12}帮助 | 请问还有
    | 还有(?:什么|其他).{0,8}(?:帮|问题) | 如果[您你]?(?:还有|有任何) | 随时 | 很高兴 | 抱歉
    | 对不起 | 辛苦了 | 早上好 | 晚上好 | 下午好
    """,
    re.IGNORECASE | re.VERBOSE,
)
_BOILERPLATE_LENGTH = 90
_ENCODED = re.compile(r"[A-Za-z0-9+=_-]{100}")
_WEAK_HITS = frozenset({"identifier", "name", "time"})


def extract_summary(
    passages: Sequence[Passage],
    *,
    limit: int,
    count: Callable[[str], int],
    previous: str = "",
    language: Language = "auto",
    reading: Reading | None = None,
) -> str:
    """The most telling sentences of `passages` and of the `previous` summary, in log order, one line each.

    The result costs at most `limit` by `count`. It is the same for the same input, never holds one
    sentence twice, and is empty only if every text is blank or not a single character fits.
    `reading` is for who has read some of it already.
    """
    require_limit(limit)
    ordered = sorted(map(as_read, passages), key=lambda passage: passage.position)
    chinese = spoken_language(ordered, previous, language) == "zh"
    found = _candidates(ordered, previous, reading or Reading(), chinese=chinese)
    candidates = list(_distinct(found))
    if not candidates:
        return ""

    def render(indexes: Sequence[int]) -> str:
        return "\n".join(candidates[at].line for at in sorted(indexes))

    everything = range(len(candidates))
    # All of it is counted only where the estimate, which errs upward, leaves a chance: else the choice decides.
    if (
        sum(estimated_tokens(c.line) for c in candidates) <= 2 * limit + _FEW
        and count(render(everything)) <= limit
    ):
        return render(everything)
    ranked = choose(candidates, limit=limit, count=count, joint=joint_cost(count))
    kept = best_that_fit(ranked, render, limit=limit, count=count)
    return kept or _cut(candidates[ranked[0]].line, limit=limit, count=count, chinese=chinese)


def as_read(passage: Passage, longest: int = LONGEST_READ) -> Passage:
    """The passage with a note in place of the middle of a text that is too long to be read whole.

    Reading takes a few microseconds a character, so 50 MB that a tool printed would take minutes.
    """
    text = passage.text
    if passage.unread or len(text) <= longest:
        return passage
    head = _cut_before(text, int(longest * _READ_FROM_THE_START))
    tail = _cut_after(text, len(text) - (longest - head))
    unread = f"{tail - head:,}"
    chinese = is_chinese(text[:_LANGUAGE_SAMPLE])
    note = f"[…… 未读 {unread} 个字符 ……]" if chinese else f"[… {unread} characters not read …]"
    read = f"{text[:head]}\n{note}\n{text[tail:]}"
    return Passage(passage.speaker, read, passage.position, note)


def hits_of(passage: Passage, sentence: Sentence, reading: Reading) -> tuple[Hit, ...]:
    """Where the hard facts of a sentence of `passage` stand; that something is not read is one of them."""
    if passage.unread and sentence.text == passage.unread:
        return (Hit("unread", passage.unread.casefold(), 0, len(passage.unread)),)
    return reading.hits(sentence.text, sentence.kind)


def _cut_before(text: str, at: int) -> int:
    """A place to cut at or shortly before `at`, between words where there are any."""
    found = max(text.rfind(mark, max(0, at - _LONGEST_WORD_CUT), at) for mark in "\n 。，")
    return found + 1 if found >= 0 else at


def _cut_after(text: str, at: int) -> int:
    places = (text.find(mark, at, at + _LONGEST_WORD_CUT) for mark in "\n 。，")
    return min((found + 1 for found in places if found >= 0), default=at)


def _is_question(text: str) -> bool:
    """Whether nothing but signs follows the last question mark."""
    for character in reversed(text):
        if character in "?？":
            return True
        if character.isalnum() or character == "_":
            return False
    return False


def spoken_language(
    passages: Sequence[Passage], other: str, language: Language
) -> Literal["en", "zh"]:
    """The language asked for, or the one people speak in: tools answer in English whatever their users speak."""
    if language != "auto":
        return language
    spoken = [p.text for p in passages if not is_tool(p.speaker)]
    return "zh" if is_chinese("\n".join([*(spoken or [p.text for p in passages]), other])) else "en"


def _candidates(
    passages: Sequence[Passage], previous: str, reading: Reading, *, chinese: bool
) -> Iterator[tuple[str, Candidate]]:
    """Every sentence with its body, from which duplicates are told, in the order of the log."""
    labels = frozenset(prefix_of(p.speaker, chinese=chinese).rstrip(" :：") for p in passages)
    for line in _previous_lines(previous, reading, chinese=chinese):
        yield _from_previous(line, labels, reading)
    asked_by: str | None = None
    for number, passage in enumerate(passages):
        sentences = reading.sentences(passage.text, gap=passage.unread)
        prefix = prefix_of(passage.speaker, chinese=chinese)
        answers = asked_by is not None and asked_by != passage.speaker
        for place, sentence in enumerate(sentences):
            edge = 1.1 if place == 0 or place == len(sentences) - 1 else 1.0
            hits = hits_of(passage, sentence, reading)
            terms = frozenset(terms_of(sentence.text))
            stress = (
                edge * _form(sentence, hits, len(terms)) * (1.25 if answers and place == 0 else 1.0)
            )
            yield (
                sentence.text,
                Candidate(
                    line=prefix + sentence.text,
                    message=number,
                    hits=hits,
                    terms=terms,
                    voice=voice_of(passage.speaker),
                    stress=stress,
                    earlier=role_of(passage.speaker) == "summary",
                ),
            )
        if sentences:
            asked_by = passage.speaker if _is_question(sentences[-1].text) else None


def _previous_lines(previous: str, reading: Reading, *, chinese: bool) -> Iterator[str]:
    """The previous summary's lines; a long line that is not one of our own is cut into sentences.

    Each sentence keeps the name its line began with: none of them may come to read as the words of somebody else.
    """
    for raw in clean_text(previous).split("\n"):
        line = one_line(raw)
        if not line or line in ANNEX_HEADINGS.values():
            continue
        label = starts_with_label(line)
        if len(line) <= _LONG_PREVIOUS_LINE or (len(line) <= _OWN_LINE and label):
            yield line
        elif label:
            yield from (label + each.text for each in reading.sentences(line[len(label) :]))
        else:
            yield from (line_of("", each.text, chinese=chinese) for each in reading.sentences(line))


def _from_previous(line: str, labels: frozenset[str], reading: Reading) -> tuple[str, Candidate]:
    speaker, body = split_prefix(line, labels)
    kind = reading.sentences(body)[0].kind
    hits = reading.hits(body, kind)
    terms = frozenset(terms_of(body))
    stress = _form(Sentence(body, kind), hits, len(terms))
    voice = voice_of(speaker or "summary")
    return body, Candidate(line, -1, hits, terms, voice, stress, earlier=True)


def _form(sentence: Sentence, hits: Sequence[Hit], terms: int) -> float:
    """How much the form of a sentence adds or takes away: courtesies, questions, code and encoded data say less."""
    factor = 1.0
    solid = any(hit.kind not in _WEAK_HITS for hit in hits)
    if (
        len(sentence.text) <= _BOILERPLATE_LENGTH
        and not solid
        and _BOILERPLATE.match(sentence.text)
    ):
        factor *= 0.1
    if _is_question(sentence.text):
        factor *= 0.8
    if sentence.kind == "prose":
        factor *= min(1.0, 0.25 + 0.2 * (terms + 2 * len(hits)))
    if sentence.kind == "code":
        factor *= 0.7
    if _ENCODED.search(sentence.text):
        factor *= 0.2
    return factor


def _distinct(candidates: Iterator[tuple[str, Candidate]]) -> Iterator[Candidate]:
    """Each sentence once, where it was first said."""
    seen: set[str] = set()
    for body, candidate in candidates:
        key = body.casefold().rstrip(" .!?;,。！？；，…") or body
        if key not in seen:
            seen.add(key)
            yield candidate


def _cut(line: str, *, limit: int, count: Callable[[str], int], chinese: bool) -> str:
    """The head of a line that is too long alone, under the role of its speaker if the name would leave no room."""
    head = cut_to_fit(line, limit=limit, count=count)
    speaker, body = split_prefix(line)
    if speaker and len(head) < len(line) - len(body) + 4:
        shorter = cut_to_fit(
            line_of(role_of(speaker), body, chinese=chinese), limit=limit, count=count
        )
        return shorter if split_prefix(shorter)[0] else head
    return head
