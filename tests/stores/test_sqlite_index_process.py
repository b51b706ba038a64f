"""The process that makes the index rows of long texts indexes what a thread would, and nobody depends on it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.stores.sqlite_file import ALICE
from tests.stores.test_sqlite_index import places
from tests.stores.test_sqlite_large_texts import counts
from turnfold.records import Document, NewEntry, user
from turnfold.search import Within
from turnfold.service import ServiceOptions, make_state
from turnfold.stores import SqliteStore
from turnfold.stores.sqlite.search_index_batches import IndexStep
from turnfold.stores.sqlite.search_index_process import IndexProcess

ENGLISH = " ".join(f"word{number}" for number in range(8_000))
CHINESE = "".join(chr(0x4E00 + number * 7 % 20_000) for number in range(30_000))

Work = Callable[[SqliteStore, IndexProcess], Awaitable[None]]


def with_store(path: Path, work: Work) -> None:
    """Do something with a store that has long texts and a process; the process has ended afterwards."""

    async def run() -> None:
        store = SqliteStore(path, index_process=True)
        process = store._index._process
        assert process is not None
        await store.append(ALICE, "talk", [NewEntry(user(ENGLISH)), NewEntry(user(CHINESE))])
        await store.put_document(ALICE, "talk", Document("note", "n", b"", 0, text=ENGLISH[::-1]))
        try:
            await work(store, process)
        finally:
            running = process._process
            await store.close()
            assert process._process is None
            assert running is None or running.poll() is not None

    asyncio.run(run())


async def find_all(store: SqliteStore) -> None:
    assert places(await store.search(ALICE, ["word7999"])) == {("talk", 1)}
    assert ("talk", 2) in places(await store.search(ALICE, [CHINESE[-2:]]))


def test_it_indexes_what_a_thread_would(tmp_path: Path) -> None:
    async def use(store: SqliteStore, process: IndexProcess) -> None:
        await find_all(store)
        assert process._process is not None

    async def without(store: SqliteStore, process: IndexProcess) -> None:
        process.close()
        await find_all(store)
        assert process._process is None

    with_store(tmp_path / "process.db", use)
    with_store(tmp_path / "thread.db", without)
    assert counts(tmp_path / "process.db") == counts(tmp_path / "thread.db")


def test_short_texts_start_no_process(tmp_path: Path) -> None:
    async def run() -> None:
        store = SqliteStore(tmp_path / "chat.db", index_process=True)
        await store.append(ALICE, "talk", [NewEntry(user("gamma"))])
        assert places(await store.search(ALICE, ["gamma"])) == {("talk", 1)}
        assert store._index._process is not None
        assert store._index._process._process is None
        await store.close()

    asyncio.run(run())


def test_a_process_that_dies_is_not_missed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def use(store: SqliteStore, process: IndexProcess) -> None:
        await find_all(store)
        assert process._process is not None
        process._process.kill()
        process._process.wait()
        await store.append(ALICE, "talk", [NewEntry(user(f"{ENGLISH} delta"))])
        assert places(await store.search(ALICE, ["delta"])) == {("talk", 3)}

    with caplog.at_level(logging.WARNING, "turnfold.stores"):
        with_store(tmp_path / "chat.db", use)
    [record] = caplog.records
    assert "texts are indexed without it" in record.getMessage()


def test_what_changes_while_it_works_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, asked = IndexProcess.batches, list[int]()

    async def use(store: SqliteStore, _: IndexProcess) -> None:
        other = SqliteStore(tmp_path / "chat.db", blocking=True)

        def changing(*values: object) -> object:
            made = ask(*values)  # pyright: ignore[reportArgumentType] (passed on as it came)
            asked.append(1)
            if len(asked) == 1:
                new = Document("note", "n", b"", 0, text="epsilon " * 4_000)
                with pytest.raises(StopIteration):
                    other.put_document(ALICE, "talk", new).send(None)
            return made

        monkeypatch.setattr(IndexProcess, "batches", changing)
        notes = Within(kinds=frozenset({"note"}))
        assert len(await store.search(ALICE, ["epsilon"], within=notes)) == 1
        assert not await store.search(ALICE, [ENGLISH[::-1].split()[3]], within=notes)
        await find_all(store)

    with_store(tmp_path / "chat.db", use)
    assert len(asked) > 1


def test_a_step_comes_back_with_the_versions_of_its_texts() -> None:
    step = IndexStep(1, 0, 2, [], [], {}, last=True)
    assert step.with_versions({7: (1,)}) == step.without_terms() == step


def test_a_service_has_one_unless_it_is_told_otherwise(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'chat.db'}"
    for wanted in (True, False):
        state = make_state(ServiceOptions(store=store, index_process=wanted))
        inner: object = state.config.store
        while not isinstance(inner, SqliteStore):
            inner = vars(inner).get("_inner") or vars(inner)["_store"]
        assert (inner._index._process is not None) is wanted
        asyncio.run(state.close())


def test_nobody_waits_for_the_texts_of_another_tenant(tmp_path: Path) -> None:
    async def use(store: SqliteStore, process: IndexProcess) -> None:
        with process._lock:  # it works for somebody else
            await asyncio.wait_for(find_all(store), 60.0)
        assert process._process is None

    with_store(tmp_path / "chat.db", use)
