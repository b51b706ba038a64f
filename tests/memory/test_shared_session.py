"""Processes that use one session at once: every one of them gets its contexts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from turnfold import Budget, Memory
from turnfold.errors import Conflict
from turnfold.records import Document
from turnfold.stores import MemoryStore, Scope, Written
from turnfold.tokens import counter_for

SMALL = Budget(max_tokens=2_000)


class _Outrun(MemoryStore):
    """A store in which others always store first where a window begins."""

    refused = 0

    async def put_document(
        self,
        scope: Scope,
        conversation: str,
        document: Document,
        *,
        expect: int | None = None,
        state: tuple[int, int] | None = None,
        seen: tuple[int, int] | None = None,
    ) -> Written:
        if document.kind == "window":
            self.refused += 1
            raise Conflict("another process was first")
        return await super().put_document(
            scope, conversation, document, expect=expect, state=state, seen=seen
        )


def test_a_context_is_built_though_others_always_store_their_window_first() -> None:
    store = _Outrun(counter=counter_for("gpt-4o"))
    with Memory(store, model="gpt-4o", budget=SMALL) as memory:
        session = memory.session("shared")
        for turn in range(60):
            session.user(
                f"How many crates are on ship {turn * 7}, and how many were on ship {turn}?"
            )
            context = session.context()
            assert context.messages[-1].text.startswith(f"How many crates are on ship {turn * 7},")
            assert context.tokens <= SMALL.tokens
            assert session.explain().manifest.tokens == context.tokens
            session.assistant(f"There were {turn} crates of lemons on board of that ship. " * 3)
        assert session.checkpoints()
    assert store.refused > 20


_WRITER = """
import sys
from turnfold import Budget, Memory

with Memory(sys.argv[1], model="gpt-4o", budget=Budget(max_tokens=2_000)) as memory:
    session = memory.session("shared")
    for turn in range(int(sys.argv[3])):
        session.user(f"{sys.argv[2]} says {turn}", client_id=f"{sys.argv[2]}-{turn}")
        session.context()
        session.assistant(f"ok {sys.argv[2]} {turn}")
"""


@pytest.mark.parametrize("turns", [30, pytest.param(150, marks=pytest.mark.slow)])
def test_two_processes_talk_in_one_session(tmp_path: Path, turns: int) -> None:
    url = f"sqlite:///{tmp_path}/shared.db"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, url, name, str(turns)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("A", "B")
    ]
    told = [writer.communicate()[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0], told
    with Memory(url) as memory:
        said = [entry.message.text for entry in memory.session("shared").history()]
    for name in ("A", "B"):
        mine = [text for text in said if text.startswith((f"{name} says", f"ok {name}"))]
        assert mine == [
            text for turn in range(turns) for text in (f"{name} says {turn}", f"ok {name} {turn}")
        ]
