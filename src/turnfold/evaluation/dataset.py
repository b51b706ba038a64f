"""Conversations with questions: the input of an evaluation, read from JSON Lines (`.jsonl`, `.jsonl.gz`).

Each line is one conversation:

    {"conversation_id": "trip",
     "messages": [{"id": "m1", "role": "user", "content": "...", "time": "2026-03-01T09:00:00Z"}, ...],
     "questions": [{"question": "...", "evidence_ids": ["m1"]}],
     "rules": [{"text": "Never book before 9 am.", "message_id": "m1", "until_id": "m7"}]}

`time`, `questions` and `rules` may be missing; messages may have `tool_calls` and `tool_call_id`. The evidence of a
question are the messages its answer rests on; a question without evidence is not asked. `rules` lists what the user
laid down, each with the message that says it and, if it was taken back or replaced, the message that did so; without
`rules`, those that `session.rules()` finds are used. Other fields are ignored.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

import msgspec

from turnfold.errors import InvalidExport, InvalidRecord, NotFound
from turnfold.evaluation.measures import normal_space
from turnfold.records import Message

__all__ = (
    "EvalConversation",
    "EvalQuestion",
    "EvalRule",
    "read_set",
    "sample_set",
)


@dataclass(frozen=True, slots=True)
class EvalQuestion:
    """A question, and the seqs (from 1) of the messages that hold its answer."""

    question: str
    evidence: frozenset[int]


@dataclass(frozen=True, slots=True)
class EvalRule:
    """A sentence that holds from message `seq` on, up to message `until`; 0 if it holds to the end."""

    text: str
    seq: int
    until: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalConversation:
    """A conversation to evaluate a memory on."""

    name: str
    messages: tuple[Message, ...]
    times: tuple[int, ...] = ()
    """Microseconds since 1970, of each message; empty if unknown."""
    questions: tuple[EvalQuestion, ...] = ()
    rules: tuple[EvalRule, ...] | None = None
    """What the user laid down; None to use what `session.rules()` finds."""

    def rules_at(self, seq: int) -> tuple[str, ...]:
        """Return the given rules that hold once `seq` messages are said."""
        return tuple(
            rule.text for rule in self.rules or () if rule.seq <= seq and not 0 < rule.until <= seq
        )


class _SetMessage(msgspec.Struct):
    id: str | int
    role: str
    content: object = None
    time: str | None = None
    tool_calls: list[object] | None = None
    tool_call_id: str | None = None


class _SetQuestion(msgspec.Struct):
    question: str
    evidence_ids: list[str | int] = []


class _SetRule(msgspec.Struct):
    text: str
    message_id: str | int
    until_id: str | int | None = None


class _SetLine(msgspec.Struct):
    conversation_id: str
    messages: list[_SetMessage]
    questions: list[_SetQuestion] = []
    rules: list[_SetRule] | None = None


def read_set(path: str | Path) -> list[EvalConversation]:
    """Read the conversations of a file; raises `InvalidExport` with the line that is wrong."""
    file = Path(path)
    try:
        data = file.read_bytes()
        return _parse(gzip.decompress(data) if file.suffix == ".gz" else data)
    except FileNotFoundError:
        raise NotFound(f"no such file: {file}") from None
    except (OSError, EOFError) as error:
        raise InvalidExport(f"cannot read {file}: {error}", line=1) from None


def sample_set() -> list[EvalConversation]:
    """Return the small invented set that comes with turnfold: a conversation in English, one in Chinese."""
    return _parse(files("turnfold.evaluation").joinpath("sample.jsonl").read_bytes())


def _parse(data: bytes) -> list[EvalConversation]:
    found: list[EvalConversation] = []
    for line, text in enumerate(data.splitlines(), 1):
        if not text.strip():
            continue
        try:
            found.append(_conversation(msgspec.json.decode(text, type=_SetLine)))
        except (msgspec.MsgspecError, UnicodeError, InvalidRecord, ValueError) as error:
            remedy = "See `turnfold.evaluation.dataset` for the format"
            raise InvalidExport(str(error), line=line, remedy=remedy) from None
    if not found:
        raise InvalidExport("no conversation in the file", line=1)
    return found


def _conversation(line: _SetLine) -> EvalConversation:
    seqs = {message.id: seq for seq, message in enumerate(line.messages, 1)}
    if len(seqs) < len(line.messages):
        raise ValueError("two messages have the same id")
    messages = tuple(
        Message(each.role, each.content, tool_calls=each.tool_calls, tool_call_id=each.tool_call_id)
        for each in line.messages
    )
    asked = [
        EvalQuestion(each.question, frozenset(_seq(seqs, one) for one in each.evidence_ids))
        for each in line.questions
    ]
    return EvalConversation(
        name=line.conversation_id,
        messages=messages,
        times=tuple(_microseconds(each.time) for each in line.messages),
        questions=tuple(each for each in asked if each.evidence),
        rules=None
        if line.rules is None
        else tuple(_rule(rule, seqs, messages) for rule in line.rules),
    )


def _rule(rule: _SetRule, seqs: dict[str | int, int], messages: Sequence[Message]) -> EvalRule:
    seq = _seq(seqs, rule.message_id)
    if normal_space(rule.text) not in normal_space(messages[seq - 1].text):
        raise ValueError(f"message {rule.message_id!r} does not say the rule {rule.text!r}")
    return EvalRule(rule.text, seq, 0 if rule.until_id is None else _seq(seqs, rule.until_id))


def _seq(seqs: dict[str | int, int], name: str | int) -> int:
    if name not in seqs:
        raise ValueError(f"there is no message with the id {name!r}")
    return seqs[name]


def _microseconds(text: str | None) -> int:
    """Return a time in ISO 8601, or as LoCoMo writes it ("1:56 pm on 8 May, 2023"); 0 if there is none."""
    if not text:
        return 0
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = datetime.strptime(text, "%I:%M %p on %d %B, %Y")  # noqa: DTZ007 (made UTC below)
    return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()) * 1_000_000
