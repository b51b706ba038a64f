"""The recorded conversations that benchmarks ask questions about; they are not part of the project.

Found by TURNFOLD_DATA or beside the checkout. Where a conversation says when it took place, so does its log: the time a
passage is shown with is paid for like everything else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from turnfold import Memory
from turnfold.evaluation import EvalConversation, read_set
from turnfold.memory import Session
from turnfold.models import Embedder
from turnfold.stores import SqliteStore
from turnfold.tokens import TokenCounter, counter_for

__all__ = ("data_folder", "exact", "logged", "talks")


def data_folder() -> Path:
    """Where the recorded conversations are, or would be."""
    named = os.environ.get("TURNFOLD_DATA")
    return Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"


def talks(name: str) -> Iterator[EvalConversation]:
    """The conversations of a set, in the order of its file."""
    yield from read_set(data_folder() / "conversations" / f"{name}.jsonl.gz")


def exact() -> TokenCounter:
    """o200k counts."""
    return counter_for("gpt-4o")


def logged(talk: EvalConversation, embedder: Embedder | None = None) -> Session:
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
