"""A transcript imported again while it grows: what is new is added, what was completed is told, nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.importing.samples import claude_code_lines, write_lines
from tests.sizes import examples
from turnfold.errors import Conflict
from turnfold.importers import Imported, file_import, import_file
from turnfold.memory import Memory
from turnfold.records import Message, Part
from turnfold.runtime import drive
from turnfold.stores import MemoryStore, Scope
from turnfold.wire import anthropic, lint

SCOPE = Scope("default")
LINES = claude_code_lines()


def land(store: MemoryStore, folder: Path, lines: int, *, trial: bool = False) -> Imported:
    path = write_lines(folder / "s-1.jsonl", LINES[:lines])
    return drive(import_file(store, SCOPE, path, trial=trial))


def stored(store: MemoryStore, name: str = "s-1") -> list[Message]:
    return [entry.message for entry in drive(store.read(SCOPE, name))]


def parts(messages: list[Message], role: str) -> list[Part]:
    return [part for message in messages if message.role == role for part in message.parts]


def whole(folder: Path) -> MemoryStore:
    store = MemoryStore()
    land(store, folder, len(LINES))
    return store


def test_an_answer_imported_in_its_middle_is_completed(tmp_path: Path) -> None:
    store = MemoryStore()
    land(store, tmp_path, 4)  # its thought and its text
    before = stored(store)
    done = land(store, tmp_path, 6)  # its first call, and what that gave
    [completed] = done.completed
    assert (completed.conversation, completed.seq, completed.parts) == ("s-1", 2, 1)
    assert (done.continued, done.entries) == (("s-1",), 2)
    again = land(store, tmp_path, len(LINES))
    assert [(each.seq, each.parts) for each in again.completed] == [(3, 1)]
    assert stored(store)[: len(before)] == before
    for role in ("user", "assistant", "tool"):
        assert parts(stored(store), role) == parts(stored(whole(tmp_path)), role)
    last = land(store, tmp_path, len(LINES))
    assert (last.entries, last.already, last.continued, last.completed) == (0, 2, (), ())


@examples(60)
@given(sizes=st.lists(st.integers(2, len(LINES)), max_size=5))
def test_however_it_is_cut_nothing_is_lost_or_doubled(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("growing")
    store, written = MemoryStore(), 0
    for size in [*sorted(sizes), len(LINES)]:
        tried = land(store, folder, size, trial=True)
        done = land(store, folder, size)
        assert (tried.entries, tried.completed) == (done.entries, done.completed)
        written += done.entries
    for name in ("s-1", "s-1/agent-a77"):
        for role in ("user", "assistant", "tool"):
            assert parts(stored(store, name), role) == parts(stored(whole(folder), name), role)
        written -= len(stored(store, name))
    assert written == 0
    assert land(store, folder, len(LINES)).entries == 0
    with Memory(store) as memory:
        made = anthropic.request(memory.session("s-1").context(), model="claude-sonnet-4-5")
    assert lint(made.kwargs, "anthropic") == ()


def test_an_older_transcript_changes_nothing(tmp_path: Path) -> None:
    store = whole(tmp_path)
    for size in range(2, len(LINES)):
        done = land(store, tmp_path, size)
        assert (done.entries, done.continued, done.completed) == (0, (), ())


def test_a_conversation_that_went_on_here_takes_no_rest_of_an_answer(tmp_path: Path) -> None:
    store = MemoryStore()
    land(store, tmp_path, 4)
    with Memory(store) as memory:
        memory.session("s-1").user("and now?")
    before = stored(store)
    with pytest.raises(Conflict, match="from entry 3 on"):
        land(store, tmp_path, 5)
    assert stored(store) == before


def test_an_answer_that_was_changed_is_a_conflict(tmp_path: Path) -> None:
    store = MemoryStore()
    land(store, tmp_path, 4)
    other = claude_code_lines()
    other[3]["message"]["content"][0]["text"] = "I look elsewhere."  # type: ignore[index]
    path = write_lines(tmp_path / "s-1.jsonl", other)
    with pytest.raises(Conflict, match="from entry 2 on"):
        drive(import_file(store, SCOPE, path))


def test_an_import_that_knows_whole_answers_only_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> bool:
        return False

    monkeypatch.setattr(file_import, "_same_answer", never)
    with pytest.raises(Conflict):
        test_an_answer_imported_in_its_middle_is_completed(tmp_path)
