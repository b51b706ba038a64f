"""The checkpoint protocol of document 003 as its prose has it, to see that the scheduler finds what is wrong with it.

A turn is a row; a checkpoint is a row among them; session state is one value that everybody reads, changes and writes
back whole. The summariser reads all rows, asks the model, reads the newest rows again, inserts the checkpoint row and
writes the session's pointer to it. The next context is what the summary covers, the newest rows it read, and every row
after the checkpoint's.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import cast

from tests.memory.fold_actors import CONVERSATION, COUNTER, NOW, SCOPE
from tests.memory.interleaving import Finished, Program
from turnfold.records import Document, Entry, NewEntry, user
from turnfold.runtime import Runtime, drive
from turnfold.stores import MemoryStore, Store

__all__ = ("documented_begun", "documented_faults", "documented_summariser", "documented_writer")

_RECENT = 2
_POINTER = ("session", "value")
_MARK = "[MEMORY_CHECKPOINT]"


def documented_begun(turns: int) -> MemoryStore:
    """A store with some turns, written one after another."""
    store = MemoryStore(counter=COUNTER, clock=lambda: NOW)
    drive(store.append(SCOPE, CONVERSATION, [_row(f"turn {n}") for n in range(turns)]))
    drive(_write_pointer(store, {"checkpoint": 0, "count": turns}))
    return store


def documented_writer(name: str) -> Program:
    """Inserts the row, reads the session's value, writes it back with one more turn."""

    async def write(store: Store, runtime: Runtime) -> object:  # noqa: ARG001 (it waits for nothing)
        await store.append(SCOPE, CONVERSATION, [_row(name)])
        value = await _read_pointer(store)
        await _write_pointer(store, {**value, "count": value["count"] + 1})
        return None

    return write


def documented_summariser() -> Program:
    """Reads everything, summarises it, reads the newest again, inserts the row, points to it."""

    async def fold(store: Store, runtime: Runtime) -> object:  # noqa: ARG001 (the model answers between two steps)
        covered = _turns(await store.read(SCOPE, CONVERSATION))
        value = await _read_pointer(store)
        recent = _turns(await store.read(SCOPE, CONVERSATION))[-_RECENT:]
        row = _row(_MARK + json.dumps([covered, recent]))
        done = await store.append(SCOPE, CONVERSATION, [row])
        await _write_pointer(store, {**value, "checkpoint": done.first})
        return None

    return fold


def documented_faults(store: MemoryStore, finished: Sequence[Finished]) -> list[str]:
    """What the next context gets wrong."""
    assert not any(end.error for end in finished)
    rows = drive(store.read(SCOPE, CONVERSATION))
    value = drive(_read_pointer(store))
    turns = _turns(rows)
    faults: list[str] = []
    if value["checkpoint"]:
        row = rows[value["checkpoint"] - 1]
        covered, recent = json.loads(row.message.text.removeprefix(_MARK))
        shown = Counter([*covered, *recent, *_turns(rows[row.seq :])])
        faults += ["lost"] if set(turns) - set(shown) else []
        faults += ["doubled"] if max(shown.values()) > 1 else []
    else:
        faults.append("pointer lost")
    return faults + (["miscounted"] if value["count"] != len(turns) else [])


def _row(text: str) -> NewEntry:
    return NewEntry(user(text))


def _turns(rows: Sequence[Entry]) -> list[str]:
    return [row.message.text for row in rows if not row.message.text.startswith(_MARK)]


async def _read_pointer(store: Store) -> dict[str, int]:
    document = await store.get_document(SCOPE, CONVERSATION, *_POINTER)
    assert document is not None
    return cast("dict[str, int]", json.loads(document.body))


async def _write_pointer(store: Store, value: dict[str, int]) -> None:
    body = json.dumps(value, sort_keys=True).encode()
    await store.put_document(SCOPE, CONVERSATION, Document(*_POINTER, body, 0))
