"""Snapshots of a workspace: exact, stored once, one write each, safe among several writers, gone when erased."""

from __future__ import annotations

import asyncio
import random
import threading
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.memory.workspaces import (
    SCOPE,
    edited,
    kept_store,
    made_files,
    snapshots_in,
    token_count,
)
from tests.search.test_snapshot_diffs import applied
from tests.sizes import examples
from turnfold import AsyncMemory, Memory
from turnfold.errors import Conflict, ConversationDeleted, InvalidOption, InvalidRecord
from turnfold.records import Document, Snapshot
from turnfold.runtime import SyncRuntime, drive
from turnfold.stores import MemoryStore, SqliteStore, Store, Written
from turnfold.workspace_snapshots import SNAPSHOT, SnapshotStorage, turn_key

__all__ = ("kept_store",)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
snapshots = st.builds(
    Snapshot,
    context=st.text(max_size=400),
    files=st.dictionaries(
        st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=20),
        st.text(max_size=300) | st.binary(max_size=300),
        max_size=5,
    ),
    state=st.dictionaries(st.text(max_size=6), json_values, max_size=4),
    summary=st.text(max_size=40),
    insights=st.lists(st.text(max_size=20), max_size=3).map(tuple),
    links=st.lists(st.text(max_size=20), max_size=3).map(tuple),
)  # fmt: skip


@given(st.lists(snapshots, min_size=1, max_size=4))
@examples(60)
def test_any_snapshot_comes_back_exactly(given: list[Snapshot]) -> None:
    store = MemoryStore()
    taken = [snapshots_in(store).take(snapshot) for snapshot in given]
    for number, snapshot in enumerate(given, 1):
        found = snapshots_in(store).get(number)
        assert found is not None
        assert found == replace(snapshot, turn=number, created=found.created)
        assert found.id == taken[number - 1].id
        assert [type(content) for content in found.files.values()] == [
            type(snapshot.files[path]) for path in found.files
        ]


@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(given=st.lists(snapshots, min_size=1, max_size=3))
def test_on_every_store(kept_store: Store, given: list[Snapshot]) -> None:
    name = uuid4().hex  # examples share the store
    for snapshot in given:
        snapshots_in(kept_store, name).take(snapshot)
    for number, snapshot in enumerate(given, 1):
        found = snapshots_in(kept_store, name).get(number)
        assert found is not None
        assert found == replace(snapshot, turn=number, created=found.created)


def test_an_edit_script_of_many_turns_is_kept_for_what_it_changes(tmp_path: Path) -> None:
    dice = random.Random(3)  # noqa: S311 (a run that can be repeated)
    files = made_files(20, 10_000)
    store = SqliteStore(tmp_path / "s.db", blocking=True)
    handle = snapshots_in(store)
    history: list[dict[str, str]] = []
    written: list[int] = []
    for turn in range(60):
        files = edited(files, dice, mark=f"at {turn}")
        history.append(files)
        if turn % 20 == 7:
            handle = snapshots_in(store)  # another process goes on
        written.append(handle.take(Snapshot(files=files, state={"step": turn})).written)
    assert written[0] > 40_000
    assert max(written[1:]) < 20_000
    assert sum(written[1:]) / 59 < 6_000
    reader = snapshots_in(store)
    for turn in (1, 2, 8, 9, 31, 60):
        found = reader.get(turn)
        assert found is not None
        assert dict(found.files) == history[turn - 1]
        assert found.state == {"step": turn - 1}
    diff = reader.diff(5, 6)
    assert len(diff.files) == 1
    [change] = diff.files
    assert applied(history[4][change.path], change.patch) == history[5][change.path]
    assert diff.state == {"step": (4, 5)}
    whole = reader.diff(1, 60, tokens=500)
    assert token_count(whole.text) <= 500
    assert whole.cut
    rebuilt = {
        change.path: applied(history[0][change.path], change.patch) for change in whole.files
    }
    assert {**history[0], **rebuilt} == history[59]
    drive(store.close())


def test_unchanged_costs_next_to_nothing_and_back_again_too() -> None:
    handle = snapshots_in(MemoryStore())
    files = made_files(10, 10_000)
    first = handle.take(Snapshot(files=files))
    again = handle.take(Snapshot(files=files))
    changed = handle.take(Snapshot(files={**files, "src/part000.py": "all new"}))
    back = handle.take(Snapshot(files=files))
    assert first.written > 20_000
    assert first.size == again.size
    assert again.written < 400
    assert changed.written < 2_500
    assert back.written < 2_500  # what was seen two turns ago is still known


def test_a_snapshot_is_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    writes: list[str] = []
    for verb in ("append", "put_document", "drop_document", "add_checkpoint", "restore"):

        def noted(*args: object, verb: str = verb, **options: object) -> object:
            writes.append(verb)
            return getattr(MemoryStore, verb)(store, *args, **options)

        monkeypatch.setattr(store, verb, noted)
    handle = snapshots_in(store)
    for turn in range(3):
        handle.take(Snapshot(files=made_files(30, 5_000, seed=turn)))
    assert writes == ["put_document"] * 3


def test_a_turn_keeps_its_first_snapshot() -> None:
    handle = snapshots_in(MemoryStore())
    first = handle.take(Snapshot(turn=4, context="one"))
    again = handle.take(Snapshot(turn=4, context="one"))
    assert (again.id, again.repeated, again.written) == (first.id, True, 0)
    with pytest.raises(Conflict, match=f"turn 4.*{first.id}"):
        handle.take(Snapshot(turn=4, context="two"))
    found = handle.get(4)
    assert found is not None
    assert found.context == "one"


@given(st.permutations([1, 2, 3, 5, 8, 40, 1000]))
@examples(40)
def test_turns_may_come_in_any_order_and_with_gaps(turns: list[int]) -> None:
    store = MemoryStore()
    base = made_files(4, 4_000)
    dice = random.Random(1)  # noqa: S311 (a run that can be repeated)
    kept: dict[int, dict[str, str]] = {}
    handle = snapshots_in(store)
    for turn in turns:
        kept[turn] = base = edited(base, dice, mark=str(turn))
        handle.take(Snapshot(turn=turn, files=base))
        assert snapshots_in(store).newest() == handle.newest() == max(kept)
    assert [head.turn for head in snapshots_in(store).heads()] == sorted(turns)
    assert snapshots_in(store).take(Snapshot(context="next")).turn == 1001
    for turn, files in kept.items():
        found = snapshots_in(store).get(turn)
        assert found is not None
        assert dict(found.files) == files
        assert all(ref.turn <= turn for item in drive(_listing(store, turn)) for ref in item.chunks)


async def _listing(store: Store, turn: int):  # noqa: ANN202 (the shelf's)
    shelf = SnapshotStorage(store, SCOPE, "c", runtime=SyncRuntime())
    stored = await shelf.stored(turn)
    assert stored is not None
    return await shelf.listing(stored)


def test_the_newest_of_many_is_found_in_few_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    handle = snapshots_in(store)
    for _ in range(300):
        handle.take(Snapshot(context="x"))
    asked: list[str] = []
    documents = store.documents

    async def noted(*_: object, after: str = "", limit: int = 1000) -> list[Document]:
        asked.append(after)
        return await documents(SCOPE, "c", SNAPSHOT, after=after, limit=limit)

    monkeypatch.setattr(store, "documents", noted)
    assert snapshots_in(store).newest() == 300
    assert len(asked) < 25
    asked.clear()
    handle.take(Snapshot(context="y"))
    assert len(asked) == 1


def test_writers_at_once_lose_nothing(kept_store: Store) -> None:
    files = made_files(6, 4_000)
    wanted = {f"{name} {number}" for name in range(4) for number in range(6)}
    faults: list[BaseException] = []

    def write(name: int) -> None:
        handle = snapshots_in(kept_store)
        try:
            for number in range(6):
                handle.take(
                    Snapshot(context=f"{name} {number}", files={**files, f"own{name}": f"{number}"})
                )
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    reader = snapshots_in(kept_store)
    found = [reader.get(turn) for turn in range(1, 25)]
    assert {snapshot.context for snapshot in found if snapshot} == wanted
    assert reader.newest() == 24
    assert all(
        snapshot and snapshot.files["src/part000.py"] == files["src/part000.py"]
        for snapshot in found
    )


def test_a_writer_that_overwrites_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sabotage of the test above: without compare-and-swap the second writer wins."""
    store = MemoryStore()
    one, two = snapshots_in(store), snapshots_in(store)
    put = store.put_document

    async def careless(*args: object, expect: int | None = None) -> Written:
        del expect
        return await put(*args)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(store, "put_document", careless)
    base = one.take(Snapshot(context="base"))
    assert base.turn == 1
    monkeypatch.setattr(one.awaiting._storage, "newest", _always_one)
    monkeypatch.setattr(two.awaiting._storage, "newest", _always_one)
    one.take(Snapshot(context="one"))
    two.take(Snapshot(context="two"))
    found = snapshots_in(store).get(2)
    assert found is not None
    assert found.context == "two"


async def _always_one(**_: object) -> int:
    return 1


def test_damage_is_a_typed_error_wherever_it_is() -> None:
    files = made_files(2, 20_000)
    store = MemoryStore()
    handle = snapshots_in(store)
    for turn in range(3):
        handle.take(Snapshot(files={**files, "turn": str(turn)}, summary=f"s{turn}"))
    dice = random.Random(2)  # noqa: S311 (a run that can be repeated)
    document = drive(store.get_document(SCOPE, "c", SNAPSHOT, turn_key(1)))
    assert document is not None
    refused = 0
    for _ in range(150):
        at = dice.randrange(len(document.body))
        body = bytearray(document.body)
        body[at] ^= dice.randrange(1, 256)
        drive(store.put_document(SCOPE, "c", Document(SNAPSHOT, turn_key(1), bytes(body), 0)))
        for turn in (1, 3):
            try:
                found = snapshots_in(store).get(turn)
            except InvalidRecord:
                refused += 1
            else:  # a byte that says nothing of the content: a time, how much is indexed
                assert found is not None
                assert dict(found.files) == {**files, "turn": str(turn - 1)}
                assert found.summary == f"s{turn - 1}"
    assert refused > 200
    forged = document.body.replace(b"s0", b"s9")
    assert forged != document.body
    drive(store.put_document(SCOPE, "c", Document(SNAPSHOT, turn_key(1), forged, 0)))
    with pytest.raises(
        InvalidRecord, match="the stored snapshot is damaged: its content gives the id"
    ):
        snapshots_in(store).get(1)
    drive(store.drop_document(SCOPE, "c", SNAPSHOT, turn_key(1)))
    with pytest.raises(InvalidRecord, match=r"document of turn 1.*backup"):
        snapshots_in(store).get(3)


def test_a_path_with_a_nul_is_refused_for_the_nul() -> None:
    with pytest.raises(InvalidRecord, match="has a NUL at character 1: remove it"):
        Snapshot(files={"a\0b": "text"})


@pytest.mark.parametrize("key", ["1", "x", "00000000000a", "٠٠٠٠٠٠٠٠٠٠٠١"])
def test_a_key_of_another_writer_is_refused(key: str) -> None:
    store = MemoryStore()
    drive(store.put_document(SCOPE, "c", Document(SNAPSHOT, key, b"x", 0)))
    with pytest.raises(InvalidRecord):
        snapshots_in(store).heads()


def test_erasing_the_conversation_erases_them_here_too(kept_store: Store) -> None:
    handle = snapshots_in(kept_store)
    handle.take(Snapshot(context="secret 秘密", summary="秘密"))
    handle.take(Snapshot(context="secret 秘密", files={"a": "b"}))
    assert handle.get(2) is not None
    receipt = drive(kept_store.delete(SCOPE, "c"))
    assert receipt.documents == 2
    assert handle.get(2) is None
    assert handle.get(1) is None
    assert handle.heads() == []
    assert "secret" not in handle.recall({"turn_numbers": [1, 2]}).text
    assert handle.search("秘密") == []
    with pytest.raises(ConversationDeleted):
        handle.take(Snapshot(context="late"))


def test_two_scopes_and_two_conversations_share_nothing() -> None:
    store = MemoryStore()
    files = made_files(2, 10_000)
    first = snapshots_in(store, "one").take(Snapshot(files=files))
    other = snapshots_in(store, "two")
    assert other.get(1) is None
    second = other.take(Snapshot(files=files))
    assert second.written == first.written


def test_files_are_read_one_at_a_time() -> None:
    handle = snapshots_in(MemoryStore())
    handle.take(Snapshot(files={"a": "text", "b": b"\x00\xff", "空": ""}))
    assert handle.files(1) == {"a": 4, "b": 2, "空": 0}
    assert handle.read(1, "a") == "text"
    assert handle.read(1, "b") == b"\x00\xff"
    assert handle.read(1, "空") == ""
    with pytest.raises(InvalidOption, match="no file 'c'"):
        handle.read(1, "c")
    with pytest.raises(InvalidOption, match="no snapshot of turn 9; the newest is of turn 1"):
        handle.read(9, "a")
    with pytest.raises(InvalidOption, match="none yet"):
        snapshots_in(MemoryStore()).diff(1, 2)


def test_a_diff_reads_only_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = snapshots_in(MemoryStore())
    files = made_files(10, 6_000)
    handle.take(Snapshot(context="before\n", files=files))
    handle.take(Snapshot(context="after\n", files={**files, "src/part003.md": "x", "new": b"\x01"}))
    read: list[int] = []
    contents = handle.awaiting._storage.contents

    async def noted(items: list[object]) -> list[bytes]:
        read.append(len(items))
        return await contents(items)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(handle.awaiting._storage, "contents", noted)
    diff = handle.diff(1, 2)
    assert read == [2, 3]
    assert diff.context is not None
    assert [change.path for change in diff.files] == ["new", "src/part003.md"]
    one = handle.diff(1, 2, path="src/part003.md")
    assert [change.path for change in one.files] == ["src/part003.md"]
    assert one.context is None
    assert handle.diff(2, 2).text == "Turn 2 -> turn 2: no change"


def test_a_session_has_its_snapshots(tmp_path: Path) -> None:
    with Memory(f"sqlite:///{tmp_path / 'm.db'}") as memory:
        session = memory.session("chat")
        session.user("look at this")
        taken = session.snapshots.take(Snapshot(turn=1, context="the workspace", files={"a": "1"}))
        assert taken.turn == 1
        assert session.snapshots.recall({"path": "a"}).context_ids == (taken.id,)
        session.delete()
        assert memory.session("chat").snapshots.get(1) is None


def test_a_fork_has_the_snapshots_of_its_turns() -> None:
    with Memory() as memory:
        session = memory.session("chat")
        for turn in (1, 2, 3):
            session.user(f"question {turn}")
            session.assistant(f"answer {turn}")
            session.snapshots.take(
                Snapshot(turn=turn, files=made_files(2, 3_000) | {"turn": str(turn)})
            )
        branch = session.fork(4, conversation="branch")
        assert [head.turn for head in branch.snapshots.heads()] == [1, 2]
        assert branch.snapshots.get(2) == session.snapshots.get(2)
        assert branch.snapshots.take(Snapshot(turn=3, context="another way")).turn == 3
        session.delete()
        assert branch.snapshots.get(2) is not None


def test_awaited_and_all_at_once(tmp_path: Path) -> None:
    files = made_files(3, 3_000)

    async def run() -> list[str]:
        async with AsyncMemory(f"sqlite:///{tmp_path / 'm.db'}") as memory:
            snapshots = memory.session("chat").snapshots
            takes = (snapshots.take(Snapshot(context=str(at), files=files)) for at in range(12))
            taken = await asyncio.gather(*takes)
            assert sorted(each.turn for each in taken) == list(range(1, 13))
            found = [await snapshots.get(turn) for turn in range(1, 13)]
            assert all(each and dict(each.files) == files for each in found)
            assert (await snapshots.search("7"))[0].turn
            return sorted(each.context for each in found if each)

    assert asyncio.run(run()) == sorted(map(str, range(12)))
