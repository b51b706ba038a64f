"""Sessions with findings for tests: their rules, a clock that stands still, calls and turns to note."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from turnfold import Budget, Memory
from turnfold.findings import FindingRule
from turnfold.memory import Session
from turnfold.records import ToolCall
from turnfold.window import check

__all__ = ("MINUTE", "RULES", "TOC", "WIDE", "Places", "ask", "call", "place", "session", "tail")

WIDE = Budget(max_tokens=6_000)
MINUTE = 60_000_000
TOC = {
    "title": "安规 2024",
    "children": [{"title": f"第 {at} 章 绝缘", "page": at} for at in range(9)],
}
RULES = (
    FindingRule("get_toc", kind="toc", serve=True),
    FindingRule("search", invalidated_by=("update",), serve=True),
    FindingRule("quote", ttl=60, serve=True),
    FindingRule("update", side_effects=True),
)


class Clock:
    """A clock that stands still until it is told."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000

    def __call__(self) -> int:
        return self.now


class Places:
    """Memories over one file, as many as there are processes."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.url = f"sqlite:///{folder / 'chat.db'}"
        self.clock = Clock()
        self._stack = stack

    def __call__(self, conversation: str = "one", **options: Any) -> Session:
        options = {"budget": WIDE, "fold": "manual", "clock": self.clock, **options}
        memory = self._stack.enter_context(Memory(self.url, **options))
        session = memory.session(conversation)
        session.findings.use(RULES)
        return session


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Places]:
    with ExitStack() as stack:
        yield Places(tmp_path, stack)


@pytest.fixture
def session(place: Places) -> Session:
    return place()


def call(name: str, number: int = 1, **arguments: object) -> ToolCall:
    return ToolCall(f"c{number}", name, json.dumps(arguments))


def ask(session: Session, name: str, result: object, number: int = 1, **arguments: object) -> int:
    """A turn in which a tool is called, its result logged and noted."""
    session.user(f"question {number}")
    asked = call(name, number, **arguments)
    at = session.assistant(tool_calls=[asked]).last
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    seq = session.tool(text, tool_call_id=asked.id).last
    session.findings.note(asked, result, seq=seq, asked=at)
    session.assistant(f"answer {number}")
    return seq


def tail(session: Session, **options: Any) -> str:
    context = session.context(**options)
    assert not check(context)
    start, stop = context.ends[2], context.ends[3]
    return "".join(message.text for message in context.messages[start:stop])
