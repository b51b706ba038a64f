"""Input of an evaluation: conversations with questions, read from JSON Lines (`.jsonl`, `.jsonl.gz`).

Each line is one conversation:

    {"conversation_id": "trip",
     "messages": [{"id": "m1", "role": "user", "content": "...", "time": "2026-03-01T09:00:00Z"}, ...],
     "questions": [{"question": "...", "evidence_ids": ["m1"]}],
     "rules": [{"text": "Never book before 9 am.", "message_id": "m1", "until_id": "m7"}]}

`time`, `questions` and `rules` may be missing; messages may have `tool_calls` and `tool_call_id`. `evidence_ids` are
the messages that contain the answer to a question; a question without evidence is not asked. `rules` are standing
instructions of the user: `message_id` is the message that states the rule, and `until_id` the message that withdraws or
replaces it, if there is one. Without `rules`, those that `session.rules()` finds are used. Other fields are ignored.
"""

from __future__ import annotations

import gzip
import zlib
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
    """A question, and the seqs (from 1) of the messages that contain its answer."""

    question: str
    evidence: frozenset[int]


@dataclass(frozen=True, slots=True)
class EvalRule:
    """A rule of the user, in force from message `seq` on until message `until`; `until` is 0 if it never ends."""

    text: str
    seq: int
    until: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalConversation:
    """A conversation to evaluate a memory on, with questions and the user's rules."""

    name: str
    messages: tuple[Message, ...]
    times: tuple[int, ...] = ()
    """Time of each message, in microseconds since 1970; empty if unknown."""
    questions: tuple[EvalQuestion, ...] = ()
    rules: tuple[EvalRule, ...] | None = None
    """Rules of the user; None to use the rules that `session.rules()` finds."""

    def rules_at(self, seq: int) -> tuple[str, ...]:
        """Return the texts of `rules` that are in force after the first `seq` messages."""
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


_LARGEST = 1 << 30
"""Most bytes of a file, unpacked: all of it is in memory."""


class _SetLine(msgspec.Struct):
    conversation_id: str
    messages: list[_SetMessage]
    questions: list[_SetQuestion] = []
    rules: list[_SetRule] | None = None


def read_set(path: str | Path) -> list[EvalConversation]:
    """Read the conversations of a file; raises `InvalidExport` with the number of the line that is wrong."""
    file = Path(path)
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as content:
            data = content.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise InvalidExport(f"{file} has more than {_LARGEST:,} bytes; split it", line=1)
        found = _parse(data)
    except FileNotFoundError:
        raise NotFound(f"no such file: {file}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidExport(f"cannot read {file}: {error}", line=1) from None
    if not found:
        raise NotFound(
            f"{file} has no conversations: each line must be a conversation as a JSON object"
        )
    return found


def sample_set() -> list[EvalConversation]:
    """Return the small invented data set that comes with turnfold: an English and a Chinese conversation."""
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
    return found


def _conversation(line: _SetLine) -> EvalConversation:
    seqs = {message.id: seq for seq, message in enumerate(line.messages, 1)}
    if len(seqs) < len(line.messages):
        twice = next(each.id for seq, each in enumerate(line.messages, 1) if seqs[each.id] != seq)
        raise ValueError(f"two messages have the same id {twice!r}")
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
        raise ValueError(
            f"message {rule.message_id!r} does not contain the text of the rule {rule.text!r}"
        )
    return EvalRule(rule.text, seq, 0 if rule.until_id is None else _seq(seqs, rule.until_id))


def _seq(seqs: dict[str | int, int], name: str | int) -> int:
    if name not in seqs:
        raise ValueError(f"there is no message with the id {name!r}")
    return seqs[name]


def _microseconds(text: str | None) -> int:
    """Convert a time in ISO 8601, or in LoCoMo's form ("1:56 pm on 8 May, 2023"), to microseconds; 0 for no time."""
    if not text:
        return 0
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = datetime.strptime(text, "%I:%M %p on %d %B, %Y")  # noqa: DTZ007 (made UTC below)
    return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()) * 1_000_000
