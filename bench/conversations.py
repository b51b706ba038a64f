"""The recorded conversations that benchmarks ask questions about; they are not part of the project.

Found by TURNFOLD_DATA or beside the checkout. Where a conversation says when it took place, so does its log: the time a
passage is shown with is paid for like everything else.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from turnfold import Memory, Message
from turnfold.memory import Session
from turnfold.models import Embedder
from turnfold.stores import SqliteStore
from turnfold.tokens import TokenCounter, counter_for

__all__ = ("Asked", "Talk", "data_folder", "exact", "logged", "talks")

SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and the seqs of the entries that hold its answer."""

    question: str
    evidence: frozenset[int]


@dataclass(frozen=True, slots=True)
class Talk:
    """A recorded conversation."""

    name: str
    messages: tuple[Message, ...]
    times: tuple[int, ...]
    """Microseconds since 1970, of each message."""
    questions: tuple[Asked, ...]


def data_folder() -> Path:
    """Where the recorded conversations are, or would be."""
    named = os.environ.get("TURNFOLD_DATA")
    return Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"


def talks(name: str) -> Iterator[Talk]:
    """The conversations of a set, in the order of its file."""
    path = data_folder() / "conversations" / f"{name}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield _talk(json.loads(line))


def exact() -> TokenCounter:
    """o200k counts."""
    return counter_for("gpt-4o")


def logged(talk: Talk, embedder: Embedder | None = None) -> Session:
    """The conversation in a SQLite log, each message at its own time; with its vectors if there is an embedder."""
    now = [0]
    store = SqliteStore(counter=exact(), blocking=True, clock=lambda: now[0])
    session = Memory(store, model="gpt-4o", embedder=embedder).session(talk.name)
    timed = zip(talk.times, talk.messages, strict=True)
    for time, group in groupby(timed, key=lambda pair: pair[0]):
        now[0] = time
        session.add([message for _, message in group])
    if embedder is not None:
        session.index_meaning()
    return session


def _talk(record: dict[str, Any]) -> Talk:
    messages = record["messages"]
    seqs = {message["id"]: seq for seq, message in enumerate(messages, 1)}
    evidence = [
        (asked["question"], frozenset(seqs[at] for at in asked["evidence_ids"] if at in seqs))
        for asked in record.get("questions") or ()
    ]
    return Talk(
        record["conversation_id"],
        tuple(Message(message["role"], message["content"]) for message in messages),
        tuple(_time(message.get("time")) for message in messages),
        tuple(Asked(question, found) for question, found in evidence if found),
    )


def _time(text: str | None) -> int:
    for form in ("%I:%M %p on %d %B, %Y", "%Y-%m-%d"):
        try:
            when = datetime.strptime(text or "", form).replace(tzinfo=UTC)
        except ValueError:
            continue
        return int(when.timestamp()) * SECOND
    return 0
