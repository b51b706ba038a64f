"""turnfold: what folds by a model, what finds again, what counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from bench.contender import Ask, Counted, Extract, Find, Found, Item, Summarised
from bench.peers.turnfold_itself import MODEL, STORED, SessionOnDisk, as_items, as_turnfold
from turnfold import Budget, Memory, Message, SummaryTokenMemory
from turnfold.tokens import CL100K_LIKE, MODERN, cautious_counter, counter_for, estimate_text

__all__ = ("COUNTED", "FOUND", "NEEDS", "SUMMARISED")

NEEDS = None

_PAUSE = 10_000_000
"""Microseconds between two messages, by the clock of the memory: it waits a while after a failed summary."""


class _Folding:
    """A session that folds when its context is asked for."""

    def __init__(self, budget: int, ask: Ask) -> None:
        self._now = 0
        memory = Memory(
            "sqlite://",
            model=MODEL,
            budget=Budget(max_tokens=budget),
            summarizer=ask,
            fold="inline",
            clock=lambda: self._now,
        )
        self._session = memory.session("talk")

    def add(self, message: Message) -> None:
        self._now += _PAUSE
        self._session.add(message)

    def window(self) -> Sequence[Message]:
        return self._session.context().messages

    def extracts(self) -> list[Extract]:
        """What was folded without the model; the entry of a message is numbered one higher than its place."""
        made = self._session.checkpoints()
        return [
            Extract(
                new.text,
                old.text if old else "",
                frozenset(range(old.upto if old else 0, new.upto)),
            )
            for old, new in pairwise([None, *made])
            if new is not None and not new.model
        ]


class _Asked:
    """A model as `SummaryTokenMemory` wants it."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def acompletion(self, messages: list[dict[str, str]], /) -> object:
        return self._ask("\n".join(message["content"] for message in messages))


class _TokenMemory:
    """The whole history is handed in with every call, as its document says."""

    def __init__(self, budget: int, ask: Ask) -> None:
        self._memory = SummaryTokenMemory("talk", _Asked(ask), max_tokens=budget, model_name=MODEL)
        self._messages: list[Message] = []
        self._loop = asyncio.new_event_loop()

    def add(self, message: Message) -> None:
        self._messages.append(message)

    def window(self) -> Sequence[Message]:
        return self._loop.run_until_complete(self._memory.get_history(self._messages))


def _summarised(
    name: str, session: Callable[[int, Ask], _Folding | _TokenMemory], note: str
) -> Summarised:
    return Summarised(
        name=f"turnfold {name}",
        package="turnfold",
        convert=as_turnfold,
        open=session,
        read=as_items,
        note=note,
        ours=True,
    )


SUMMARISED = (
    _summarised(
        "Session",
        _Folding,
        'fold="inline", all other settings as they come; while the model fails an extract stands in, which '
        "counts as a summary of the messages it was made of",
    ),
    _summarised(
        "SummaryTokenMemory",
        _TokenMemory,
        "settings as they come; an extract stands in while the model fails, of which only whole messages are counted",
    ),
)


def _recalling(path: Path, items: Sequence[Item]) -> tuple[Find, Callable[[], object]]:
    session = _stored(path, items)

    def find(question: str, limit: int) -> list[str]:
        return [found.message.text for found in session.session.recall(question, limit=limit)]

    return find, session.close


def _searching(path: Path, items: Sequence[Item]) -> tuple[Find, Callable[[], object]]:
    session = _stored(path, items)

    def find(question: str, limit: int) -> list[str]:
        return [found.text for found in session.memory.search(question, limit=limit)]

    return find, session.close


def _stored(path: Path, items: Sequence[Item]) -> SessionOnDisk:
    STORED[0].seed(path, items)
    return SessionOnDisk(path, 8_000)


FOUND = (
    Found(
        name="turnfold Session.recall",
        package="turnfold",
        open=_recalling,
        note="in one conversation of a SQLite file",
        ours=True,
    ),
    Found(
        name="turnfold Memory.search",
        package="turnfold",
        open=_searching,
        note="in all conversations of a SQLite file, of which there is one",
        ours=True,
    ),
)


def _counted(name: str, count: Callable[[str], int], claims: str, encoding: str = "") -> Counted:
    return Counted(
        name=f"turnfold {name}",
        package="turnfold",
        count=count,
        claims=claims,
        encoding=encoding,
        ours=True,
    )


def _like_cl100k(text: str) -> int:
    return estimate_text(text, profile=CL100K_LIKE)


def _like_o200k(text: str) -> int:
    return estimate_text(text, profile=MODERN)


COUNTED = (
    _counted("exact, gpt-4o", counter_for("gpt-4o").count_text, "exact", "o200k_base"),
    _counted("exact, gpt-4", counter_for("gpt-4").count_text, "exact", "cl100k_base"),
    _counted("estimate of an unknown model", estimate_text, "bound"),
    _counted("estimate, profile MODERN", _like_o200k, "bound", "o200k_base"),
    _counted("estimate, profile CL100K_LIKE", _like_cl100k, "bound", "cl100k_base"),
    _counted("count where no model is named", cautious_counter().count_text, "bound"),
)
