"""Contexts carried from one place to another are the same there: exactly, once, or refused whole."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tests.memory.module_scripts import CONTEXTS, recalling, summarised, three_turns
from tests.memory.test_snapshots import snapshots
from tests.memory.workspaces import kept_store, made_files
from tests.sizes import examples
from turnfold import MemoryModule
from turnfold.errors import Conflict, ConversationDeleted, InvalidRecord
from turnfold.memories.memory_module import export as carrying
from turnfold.records import Document, Snapshot, content_digest
from turnfold.runtime import drive
from turnfold.stores import MemoryStore, Scope, Store
from turnfold.testing import ScriptedModel

__all__ = ("kept_store",)

HERE = Scope("default")


def filled(**options: Any) -> MemoryModule:
    """A module with text, files, bytes, state, links, thoughts, and a context without a summary."""
    model = ScriptedModel(
        [
            summarised("分析了代码库结构", "3个模块"),
            recalling("r", turn_numbers=[1]),
            "it grew",
            "DONE",
            summarised("发现性能瓶颈"),
            ValueError("down"),
        ]
    )
    store = options.setdefault("store", MemoryStore())
    quiet = MemoryModule(model, enable_reflective_thinking=False, **options)
    quiet.perform_thinking_phase(CONTEXTS[0])
    MemoryModule(model, **{**options, "store": store}).perform_thinking_phase(
        Snapshot(
            context=CONTEXTS[1],
            files={"a.py": "x\n" * 20_000, "图.png": bytes(range(256)) * 100},
            state={"n": 1.5, "deep": {"空": [None, True]}},
            links=("ctx_elsewhere",),
        )
    )
    quiet.perform_thinking_phase(CONTEXTS[2])
    quiet.memory_store.add_context("looked at, not yet thought about")
    return quiet


def test_export_import_export_is_equal_on_every_store(kept_store: Store) -> None:
    exported = filled().export()
    carried = json.loads(json.dumps(exported))
    assert carried == exported
    there = MemoryModule(store=kept_store)
    done = there.import_(carried)
    assert (done.contexts, done.summaries) == (4, 3)
    assert there.export() == exported
    back = MemoryModule()
    back.import_(there.export())
    assert back.export() == exported
    assert there.notes() == back.notes() == filled().notes()
    assert (
        there.recall_context({"turn_numbers": [2]}).text
        == back.recall_context({"turn_numbers": [2]}).text
    )
    assert there.search("瓶颈")[0].turn_number == 2
    following = there.perform_thinking_phase("goes on")
    assert following.turn == 5


@given(snapshots, snapshots)
@examples(40)
def test_any_contexts_are_carried_exactly(one: Snapshot, two: Snapshot) -> None:
    source = MemoryModule(clock=lambda: 5)
    source.perform_thinking_phase(one)
    source.perform_thinking_phase(two)
    exported = source.export()
    target = MemoryModule()
    target.import_(json.loads(json.dumps(exported)))
    assert target.export() == exported
    assert target.memory_store.contexts() == source.memory_store.contexts()


def test_what_contexts_share_is_carried_once() -> None:
    files = made_files(10, 8_000)
    module = MemoryModule()
    for turn in range(30):
        module.perform_thinking_phase(Snapshot(files={**files, "turn": str(turn)}))
    assert len(json.dumps(module.export())) < 3 * 10 * 8_000


def test_importing_again_changes_nothing(kept_store: Store) -> None:
    exported = filled().export()
    module = MemoryModule(store=kept_store)
    module.import_(exported)
    again = module.import_(exported)
    assert (again.contexts, again.summaries) == (0, 0)
    assert module.export() == exported


def test_an_import_goes_on_where_it_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    exported = filled().export()
    store = MemoryStore()
    drive(_touch(store))
    put = store.put_document
    left = iter(range(3))

    async def failing(*args: Any, **options: Any) -> object:
        if next(left, None) is None:
            raise ConnectionError
        return await put(*args, **options)

    monkeypatch.setattr(store, "put_document", failing)
    with pytest.raises(ConnectionError):
        MemoryModule(store=store).import_(exported)
    monkeypatch.setattr(store, "put_document", put)
    done = MemoryModule(store=store).import_(exported)
    assert (done.contexts, done.summaries) == (1, 3)
    assert MemoryModule(store=store).export() == exported


async def _touch(store: Store) -> None:
    """Make the conversation one that exists."""
    await store.put_document(HERE, "memory", Document("note", "x", b"x", 0))


def test_into_a_new_conversation_all_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    exported = filled().export()
    store = MemoryStore()
    real = carrying.pack
    left = iter(range(3))

    def failing(*args: Any, **options: Any) -> object:
        if next(left, None) is None:
            raise MemoryError
        return real(*args, **options)

    monkeypatch.setattr(carrying, "pack", failing)
    with pytest.raises(MemoryError):
        MemoryModule(store=store).import_(exported)
    assert MemoryModule(store=store).memory_store.contexts() == []
    monkeypatch.setattr(carrying, "pack", real)
    assert MemoryModule(store=store).import_(exported).contexts == 4


def test_what_contradicts_what_is_here_is_a_conflict_and_nothing_is_written() -> None:
    exported = filled().export()
    module = MemoryModule()
    module.perform_thinking_phase("something else")
    before = module.export()
    with pytest.raises(Conflict, match=r"turn 1 has context ctx_1_.* in the store and ctx_1_"):
        module.import_(exported)
    assert module.export() == before
    same_context = MemoryModule(
        ScriptedModel([summarised("another")]), enable_reflective_thinking=False
    )
    same_context.perform_thinking_phase(CONTEXTS[0])
    with pytest.raises(Conflict, match="turn 1 has one summary in the store"):
        same_context.import_(exported)
    assert len(same_context.memory_store.contexts()) == 1


def test_nothing_is_imported_into_what_was_erased() -> None:
    store = MemoryStore()
    module = MemoryModule(store=store)
    module.import_(filled().export())
    drive(store.delete(HERE, "memory"))
    with pytest.raises(ConversationDeleted):
        MemoryModule(store=store).import_(filled().export())


EXPORT: dict[str, Any] = filled().export()
FIRST = next(iter(EXPORT["contexts"]))
PIECE = next(iter(EXPORT["pieces"]))


def rehashed(export: dict[str, Any], text: str) -> None:
    """Another content under its true digest, in place of the first piece."""
    name = content_digest(text.encode()).hex()
    del export["pieces"][PIECE]
    export["pieces"][name] = text
    for context in export["contexts"].values():
        for item in context["items"]:
            item["pieces"] = [name if each == PIECE else each for each in item["pieces"]]


def other_turn(export: dict[str, Any]) -> None:
    context = export["contexts"].pop(FIRST)
    renamed = FIRST.replace("ctx_1_", "ctx_7_")
    export["contexts"][renamed] = {**context, "id": renamed, "turn_number": 7}
    export["summaries"] = {}


HOSTILE: dict[str, Callable[[dict[str, Any]], object]] = {
    "another format": lambda e: e.update(format="x"),
    "a later version": lambda e: e.update(version=2),
    "a field too many": lambda e: e.update(extra=1),
    "a field too few": lambda e: e.pop("pieces"),
    "contexts a list": lambda e: e.update(contexts=[]),
    "a changed piece": lambda e: e["pieces"].update({PIECE: "changed"}),
    "a changed piece under its true name": lambda e: rehashed(e, "changed"),
    "a lone surrogate": lambda e: e["pieces"].update({PIECE: "\ud800"}),
    "no base64": lambda e: e["pieces"].update({PIECE: {"base64": "%%%"}}),
    "a missing piece": lambda e: e["pieces"].pop(PIECE),
    "a piece of nobody": lambda e: e["pieces"].update({content_digest(b"x").hex(): "x"}),
    "a name that is no digest": lambda e: e["pieces"].update({"../x": "x"}),
    "a changed summary of a context": lambda e: e["contexts"][FIRST].update(summary="forged"),
    "a changed id": lambda e: e["contexts"][FIRST].update(id="ctx_1_000000000000"),
    "another name": lambda e: e["contexts"].update({"ctx_1_0": e["contexts"].pop(FIRST)}),
    "another turn": other_turn,
    "turn 0": lambda e: e["contexts"][FIRST].update(turn_number=0),
    "a turn that is text": lambda e: e["contexts"][FIRST].update(turn_number="1"),
    "an endless time": lambda e: e["contexts"][FIRST].update(timestamp=1 << 70),
    "an item twice": lambda e: e["contexts"][FIRST]["items"].append(
        e["contexts"][FIRST]["items"][0]
    ),
    "text that is not": lambda e: [
        i.update(text=True) for c in e["contexts"].values() for i in c["items"]
    ],
    "a summary of nobody": lambda e: e["summaries"].update(
        {"sum_x": {**next(iter(e["summaries"].values())), "id": "sum_x", "context_id": "x"}}
    ),
    "a summary under another name": lambda e: e["summaries"].update(
        {"x": e["summaries"].popitem()[1]}
    ),
    "a summary with a surrogate": lambda e: next(iter(e["summaries"].values())).update(
        summary="\ud800"
    ),
    "a summary with an endless number": lambda e: next(iter(e["summaries"].values())).update(
        tokens_used=1 << 70
    ),
    "a summary with code": lambda e: next(iter(e["summaries"].values())).update(summary=print),
}


@pytest.mark.parametrize("spoil", HOSTILE.values(), ids=HOSTILE)
def test_an_export_with_a_fault_is_refused_whole(spoil: Callable[[dict[str, Any]], object]) -> None:
    spoiled = copy.deepcopy(EXPORT)
    spoil(spoiled)
    assert spoiled != EXPORT
    module = MemoryModule()
    with pytest.raises(InvalidRecord):
        module.import_(spoiled)
    assert module.memory_store.contexts() == []
    assert module.notes() == {}
    assert module.import_(EXPORT).contexts == 4


def test_a_bomb_is_refused_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece may be named any number of times; what that comes to is added up first."""
    monkeypatch.setattr(carrying, "LARGEST_SNAPSHOT", 100_000)
    spoiled = copy.deepcopy(EXPORT)
    spoiled["contexts"][FIRST]["items"][0].update(pieces=[PIECE] * 1_000)
    with pytest.raises(InvalidRecord, match=r"bytes; at most 100,000 are allowed"):
        MemoryModule().import_(spoiled)


@pytest.mark.parametrize("given", [None, 3, "x", [], {}, {"contexts": {}}])
def test_what_is_no_export_is_refused(given: Any) -> None:
    with pytest.raises(InvalidRecord, match="not an export"):
        MemoryModule().import_(given)


def test_an_import_that_believes_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    spoiled = copy.deepcopy(EXPORT)
    spoiled["pieces"][PIECE] = "changed"
    real = carrying.content_digest

    def believing(data: bytes) -> bytes:
        return bytes.fromhex(PIECE) if data == b"changed" else real(data)

    monkeypatch.setattr(carrying, "content_digest", believing)
    with pytest.raises(InvalidRecord, match="does not match the digest in its id"):
        MemoryModule().import_(spoiled)  # the second wall: the id


def test_memory_of_one_file_is_read_by_another(tmp_path: Path) -> None:
    with MemoryModule(
        three_turns(), f"sqlite:///{tmp_path / 'a.db'}", enable_reflective_thinking=False
    ) as one:
        for context in CONTEXTS:
            one.perform_thinking_phase(context)
        (tmp_path / "saved.json").write_text(json.dumps(one.export()), encoding="utf-8")
    with MemoryModule(store=f"sqlite:///{tmp_path / 'b.db'}") as two:
        two.import_(json.loads((tmp_path / "saved.json").read_text(encoding="utf-8")))
        assert two.notes()["memory_summaries"].splitlines() == [
            "[Turn 1] 分析了代码库结构",
            "[Turn 2] 发现性能瓶颈",
            "[Turn 3] 实施了优化",
        ]


def test_nothing_is_imported_of_nothing() -> None:
    store = MemoryStore()
    module = MemoryModule(store=store)
    assert module.import_(MemoryModule().export()).contexts == 0
    assert drive(store.conversations(HERE)) == []
