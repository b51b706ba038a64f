"""Transcripts of the Claude Agent SDK: its own 14 contracts on two databases, and what they do not ask for."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip(
    "claude_agent_sdk",
    reason="the extra claude-agent-sdk is not installed; make test-claude has it",
)

from hypothesis import given
from hypothesis import strategies as st

from tests.sizes import examples
from tests.stores.servers import PostgresPlaces, postgres_places
from turnfold import AsyncMemory, Memory
from turnfold.adapters.claude_agent_sdk import TurnfoldSessionStore
from turnfold.errors import ConversationDeleted, InvalidOption
from turnfold.runtime import drive
from turnfold.stores.postgres.store import PostgresStore

__all__ = ("postgres_places",)

KEY: Any = {"project_key": "proj", "session_id": "sess"}
Work = Callable[[TurnfoldSessionStore], Awaitable[None]]


def with_store(work: Work, address: str = "sqlite://") -> None:
    async def main() -> None:
        async with AsyncMemory(address) as memory:
            await work(TurnfoldSessionStore(memory))

    asyncio.run(main())


def line(number: int, **more: object) -> Any:
    return {"type": "user", "uuid": str(number), "n": number, **more}


def canonical(lines: object) -> bytes:
    return json.dumps(lines, sort_keys=True).encode()


async def conformance(make: Callable[[], AsyncMemory]) -> int:
    testing: Any = import_module("claude_agent_sdk.testing")
    opened: list[AsyncMemory] = []

    def fresh() -> TurnfoldSessionStore:
        opened.append(make())
        return TurnfoldSessionStore(opened[-1])

    await testing.run_session_store_conformance(fresh)
    for memory in opened:
        await memory.close()
    return len(opened)


def test_the_fourteen_contracts_on_sqlite(tmp_path: Path) -> None:
    made = asyncio.run(conformance(lambda: AsyncMemory(f"sqlite:///{tmp_path / uuid4().hex}.db")))
    assert made == 15  # one to look at, and one for each contract


def test_the_fourteen_contracts_on_postgresql(
    tmp_path: Path, postgres_places: PostgresPlaces
) -> None:
    stores: list[PostgresStore] = []

    def fresh() -> AsyncMemory:
        stores.append(PostgresStore(postgres_places.url(tmp_path / uuid4().hex)))
        return AsyncMemory(stores[-1])

    async def main() -> int:
        made = await conformance(fresh)
        for store in stores:
            await store.close()
        return made

    assert asyncio.run(main()) == 15
    postgres_places.sweep()


def test_lines_with_and_without_uuid_come_in_one_batch_and_in_order() -> None:
    async def work(store: TurnfoldSessionStore) -> None:
        batch = [line(1), {"type": "mode", "mode": "x"}, line(2), {"type": "mode", "mode": "x"}]
        await store.append(KEY, batch)
        assert await store.load(KEY) == batch

    with_store(work)


def test_a_batch_sent_again_or_overlapping_stores_each_uuid_once() -> None:
    async def work(store: TurnfoldSessionStore) -> None:
        await store.append(KEY, [line(1), line(2)])
        await store.append(KEY, [line(1), line(2)])
        await store.append(KEY, [line(2), line(3), line(3)])
        assert await store.load(KEY) == [line(1), line(2), line(3)]

    with_store(work)


def test_transcripts_are_erased_with_the_session_of_their_id() -> None:
    async def main() -> None:
        async with AsyncMemory("sqlite://") as memory:
            store = TurnfoldSessionStore(memory)
            keys: list[Any] = [
                {"project_key": project, "session_id": session, **more}
                for project in ("proj", "项目")
                for session in ("sess", "sess2")
                for more in ({}, {"subpath": "agents/1"})
            ]
            for key in keys:
                await store.append(key, [line(1)])
            receipt = await memory.erase_session("sess")
            assert len(receipt.conversations) == 5
            assert (await memory.verify_erasure(receipt)).ok
            for key in keys:
                if key["session_id"] == "sess":  # a program that goes on after the erasure
                    with pytest.raises(ConversationDeleted, match="has been erased"):
                        await store.append(key, [line(2)])
            assert (await memory.verify_erasure(receipt)).ok
            left = [key for key in keys if await store.load(key)]
            assert left == [key for key in keys if key["session_id"] == "sess2"]
            assert [each["session_id"] for each in await store.list_sessions("proj")] == ["sess2"]
            await memory.session("sess2").delete()
            assert not [key for key in keys if await store.load(key)]

    asyncio.run(main())


def test_sabotage_without_client_ids_a_batch_sent_again_is_doubled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from turnfold.adapters.claude_agent_sdk import session_store

    monkeypatch.setattr(session_store, "short_name", lambda name: f"{name}{uuid4().hex}"[:60])
    monkeypatch.setattr(TurnfoldSessionStore, "_home_prefix", lambda *_: "home:")
    monkeypatch.setattr(TurnfoldSessionStore, "_index", lambda *_: "index")
    monkeypatch.setattr(session_store, "_transcript_key", lambda *names: names[0])

    async def work(store: TurnfoldSessionStore) -> None:
        await store.append(KEY, [line(1)])
        await store.append(KEY, [line(1)])
        assert len(await store.load(KEY) or []) == 2

    with_store(work)


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
odd = st.sampled_from(["\ud83d", "a\udc00b", "\x00", "\u2028", "港口", "😀"])
lines = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["user", "assistant", "system"])},
        optional={
            "uuid": st.sampled_from(["u1", "u2", "u3", "\ud83d"]),
            "message": json_values,
            "text": odd,
        },
    ),
    max_size=4,
)


@examples(40)
@given(st.lists(lines, max_size=4))
def test_what_was_appended_is_loaded_equal_in_canonical_json(batches: list[list[Any]]) -> None:
    async def work(store: TurnfoldSessionStore) -> None:
        expected: list[Any] = []
        seen: set[str] = set()
        for batch in batches:
            await store.append(KEY, batch)
            for one in batch:
                if one.get("uuid") not in seen or "uuid" not in one:
                    expected.append(one)
                if "uuid" in one:
                    seen.add(one["uuid"])
        assert canonical(await store.load(KEY) or []) == canonical(expected)

    with_store(work)


def test_writers_at_once_lose_nothing_and_the_summary_speaks_of_all() -> None:
    async def work(store: TurnfoldSessionStore) -> None:
        def titled(number: int) -> Any:
            return line(number, customTitle=f"title {number}", timestamp="2026-01-01T00:00:00Z")

        await asyncio.gather(*(store.append(KEY, [titled(number)]) for number in range(12)))
        loaded: Any = await store.load(KEY)
        assert sorted(one["n"] for one in loaded) == list(range(12))
        [summary] = await store.list_session_summaries("proj")
        assert summary["data"]["custom_title"] == loaded[-1]["customTitle"]

    with_store(work)


def test_a_summary_that_was_never_written_is_made_up_for_at_the_next_append(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(store: TurnfoldSessionStore) -> None:
        async def dies(self: object, key: object) -> None:
            raise KeyboardInterrupt(f"{self} {key}")

        with monkeypatch.context() as patched:
            patched.setattr(TurnfoldSessionStore, "_update_summary", dies)
            with pytest.raises(KeyboardInterrupt):
                await store.append(KEY, [line(1, customTitle="lost?")])
        assert await store.load(KEY) == [line(1, customTitle="lost?")]
        await store.append(KEY, [line(2)])
        [summary] = await store.list_session_summaries("proj")
        assert summary["data"]["custom_title"] == "lost?"

    with_store(work)


def test_a_deleted_session_is_erased_and_its_name_can_be_used_again() -> None:
    async def main() -> None:
        async with AsyncMemory("sqlite://") as memory:
            store = TurnfoldSessionStore(memory)
            sub: Any = {**KEY, "subpath": "subagents/agent-1"}
            await store.append(KEY, [line(1)])
            await store.append(sub, [line(2)])
            await store.delete(KEY)
            assert [
                info.head.seq for info in await memory.conversations(internal=True) if info.head.seq
            ] == []
            await store.append(KEY, [line(1)])
            assert await store.load(KEY) == [line(1)]
            assert await store.load(sub) is None

    asyncio.run(main())


def test_sessions_written_in_the_same_millisecond_are_listed_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def work(store: TurnfoldSessionStore) -> None:
        names = ["c", "a", "d", "b", "c"]  # the last one continues the first
        for number, name in enumerate(names):
            await store.append({"project_key": "proj", "session_id": name}, [line(number)])
        found = await store.list_sessions("proj")
        newest_last = sorted(found, key=lambda each: each["mtime"])
        assert [each["session_id"] for each in newest_last] == ["a", "d", "b", "c"]
        assert len({each["mtime"] for each in found}) == 4

    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now)
    with_store(work)


def test_tenants_share_nothing_and_odd_names_are_kept_apart() -> None:
    async def main() -> None:
        async with AsyncMemory("sqlite://") as memory:
            ours = TurnfoldSessionStore(memory)
            theirs = TurnfoldSessionStore(AsyncMemory(memory.store, scope="other"))
            names = ["a/b", "a", "a\x1fb", "x" * 900, "x" * 901, "项目"]
            for at, name in enumerate(names):
                key: Any = {"project_key": name, "session_id": name, "subpath": name}
                await ours.append(key, [line(at)])
            for at, name in enumerate(names):
                key = {"project_key": name, "session_id": name, "subpath": name}
                assert await ours.load(key) == [line(at)]
                assert await ours.list_subkeys(key) == [name]
                assert await theirs.load(key) is None
            key = {**KEY, "subpath": ""}
            with pytest.raises(InvalidOption, match="subpath=''"):
                await ours.append(key, [line(1)])

    asyncio.run(main())


def test_a_memory_without_an_event_loop_serves_too() -> None:
    with Memory("sqlite://") as memory:
        store = TurnfoldSessionStore(memory)
        drive(store.append(KEY, [line(1)]))
        assert drive(store.load(KEY)) == [line(1)]
