"""Finds sentences that say little alone: short answers without a subject, and rows of tool output nobody took up.

A short answer ("15:00.", 十个。) is shown after its question, or not at all. A row of a log or a table says nothing
unless somebody took it up: an answer repeats one of its ids or numbers, or it tells an error or the result.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from turnfold._lazy_loading import late_pattern
from turnfold.fold.facts import FactMatch
from turnfold.fold.sentence_scores import is_outcome, is_question
from turnfold.text import content_terms

__all__ = ("SentenceNeed", "SummaryPiece", "idle_rows", "own_words", "short_answers")


_SHORT_ANSWER = 2
"""Most words of its own, beside facts, of an answer that needs its question."""
_SHORT_ORDER = 5
"""Most words of its own of a user's sentence ("lower it to 2,000") that the answer may repeat with its subject."""
_NEAR = 24
"""Number of sentences after one among which the answer to it is looked for."""
_NO_SUBJECT = 1
"""Most words of its own of a sentence that needs the sentence before it."""
_CHARACTERS_A_WORD = 2
_MANY_ROWS = 4
"""Number of lines of one output that differ only in their values from which they are rows of a log or a table."""
_USUAL = 10
"""A fact in more than one of this many rows is no reason to keep a row."""
_FEW_DIGITS = 3
_SHORT_LINE = 60
_CHINESE = late_pattern(r"[\u4e00-\u9fff]")
_FUNCTION = late_pattern(r"[的了是在就也都和要吧呢啊吗好行嗯]")
_LONGEST_SHAPE = 500
"""Most characters of a row that are compared with others: a word of 200,000 characters would take minutes."""
_VALUE = late_pattern(r"(?<==)[^\s,;]+|[\w.,:/-]*\d[\w.,:/%-]*")
_JSON_KEY = late_pattern(r"\"([^\"]{1,80})\"\s*:")


class SummaryPiece(NamedTuple):
    """A sentence, and the information that decides if it can be understood alone."""

    text: str
    facts: frozenset[str]
    message: int
    role: str
    """`user`, `assistant`, `tool`, `call`, or another speaker."""
    words: int
    """Its words beside facts; see `own_words`."""


class SentenceNeed(NamedTuple):
    """What a sentence needs to be understood."""

    needs: int | None
    """Index of the sentence that must be shown before it."""
    idle: bool
    """True if it is better left out: the next message says the same with its subject."""


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
    """Return {index: what it needs} of the sentences without a subject; other sentences are not in the result."""
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
        if is_question(piece.text):
            question, asked_in = at, piece.message
        elif piece.facts and piece.words <= (
            _SHORT_ANSWER if piece.role != "user" else _SHORT_ORDER
        ):
            answers = (
                first
                and piece.words <= _SHORT_ANSWER
                and question is not None
                and pieces[question].role != piece.role
            )
            alone = _alone(pieces, at, question if answers else None, first=first)
            if alone is not None:
                found[at] = alone
        spoken_in, spoken = piece.message, piece.role
    return found


def _alone(
    pieces: Sequence[SummaryPiece], at: int, question: int | None, *, first: bool
) -> SentenceNeed | None:
    piece = pieces[at]
    if _is_repeated(pieces, at):
        return SentenceNeed(None, idle=True)
    if question is not None:
        return SentenceNeed(question, idle=False)
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


def _without_unit(fact: str) -> str:
    """Return a fact's name with a number's value alone, as a unit may be left out: 3000 and 3,000 元."""
    kind, _, key = fact.partition("\0")
    return key.partition("|")[0] if kind in ("number", "money") else fact


def idle_rows(pieces: Sequence[SummaryPiece]) -> set[int]:
    """Return the rows of logs and tables, and the bare numbers, of tool output that nobody took up."""
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
