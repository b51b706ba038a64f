"""Conversations go from SQLite to PostgreSQL and back, with Redis in front or not, and stay what they were."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

from hypothesis import given

from tests.sizes import POSTGRES_ROUND_TRIPS
from tests.stores.redis_server import PATIENCE, shared_url
from tests.stores.servers import PostgresPlaces, postgres_places
from tests.stores.transfers import ALICE, Contents, any_contents, exported, filled, imported
from turnfold.errors import Conflict, ConversationDeleted, InvalidExport
from turnfold.records import (
    AudioPart,
    FilePart,
    ImagePart,
    Message,
    NewEntry,
    OpaquePart,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
)
from turnfold.runtime import drive
from turnfold.stores import MemoryStore, Scope, SqliteStore, Store, digest, export_to, import_from
from turnfold.stores.postgres.store import PostgresStore
from turnfold.stores.redis.cache import CachedStore
from turnfold.testing.stores.random_operations import settings_for
from turnfold.testing.stores.restore import fill_richly
from turnfold.testing.stores.sample_values import (
    HOSTILE_NAMES,
    HOSTILE_TEXTS,
    TALK,
    checkpoint,
    document,
    user_entries,
)

__all__ = ("postgres_places",)

EVERY_PART = (
    Message.of(
        "user",
        (
            TextPart("看这张图\x00 \U0001f469\u200d\U0001f4bb", '{"b":1,"a":[null,"值"]}'),
            ImagePart("https://example.org/a.png", "high"),
            AudioPart("UklGRg==", "wav"),
            FilePart("file:F-1"),
            OpaquePart('{"type":"new","x":{"y":1.5e300}}', "somebody"),
        ),
        name="名",
        labels='{"z":1,"a":2}',
    ),
    Message.of(
        "assistant",
        (ThinkingPart("想", "signature"), TextPart("好"), ToolCall("c1", "查", '{"q":"北京"}')),
    ),
    Message.of(
        "tool", (ToolResult("c1", (TextPart("晴"), ImagePart("data:x", None)), is_error=True),)
    ),
    Message.of("system", (), extra='{"role":"developer"}'),
)


async def fill_with_everything(store: Store) -> None:
    for name in HOSTILE_NAMES.values():
        entries = [NewEntry(message, f"{n} {name}"[:512]) for n, message in enumerate(EVERY_PART)]
        await store.append(ALICE, name, entries)
        await store.append(ALICE, name, user_entries(*HOSTILE_TEXTS.values()))
        await store.add_checkpoint(ALICE, name, checkpoint(name, 2, text="\x00摘要"))
        await store.add_checkpoint(ALICE, name, checkpoint("s", 9, previous=name))
        for key in HOSTILE_NAMES.values():
            await store.put_document(ALICE, name, document(key, key.encode(), kind=name))
            await store.put_document(ALICE, name, document(key, b"", kind=key))
        await store.drop_document(ALICE, name, name, name)
    await fill_richly(store, ALICE)


@pytest.mark.parametrize("cached", [False, True], ids=["alone", "behind Redis"])
def test_there_and_back_the_digests_are_equal(
    tmp_path: Path, postgres_places: PostgresPlaces, *, cached: bool
) -> None:
    url = postgres_places.url(tmp_path / "store")
    first = SqliteStore(tmp_path / "first.db", blocking=True)
    middle: Store = PostgresStore(url, blocking=True)
    if cached:
        middle = CachedStore(middle, shared_url(), blocking=True, timeout_seconds=PATIENCE)
    last = SqliteStore(tmp_path / "last.db", blocking=True)
    drive(fill_with_everything(first))
    file = tmp_path / "export.jsonl"
    drive(export_to(first, ALICE, file))
    drive(import_from(middle, ALICE, file))
    drive(export_to(middle, ALICE, tmp_path / "second.jsonl"))
    drive(import_from(last, ALICE, tmp_path / "second.jsonl"))
    assert (tmp_path / "second.jsonl").read_bytes() == file.read_bytes() == exported(last)
    names = [info.conversation for info in drive(first.conversations(ALICE))]
    assert len(names) == len(HOSTILE_NAMES) + 1
    for name in names:
        digests = {drive(digest(store, ALICE, name)) for store in (first, middle, last)}
        assert len(digests) == 1
    assert drive(import_from(middle, ALICE, file)).already == len(names)
    for store in (first, middle, last):
        drive(store.close())
    postgres_places.sweep()


@pytest.mark.parametrize("examples", POSTGRES_ROUND_TRIPS.values())
def test_anything_goes_through_postgres_exactly(
    tmp_path: Path, postgres_places: PostgresPlaces, examples: int
) -> None:
    store = PostgresStore(postgres_places.url(tmp_path / "store"), blocking=True)
    tenants = iter(range(10**9))

    @settings_for(examples)
    @given(any_contents)
    def check(some: Contents) -> None:
        scope = Scope(f"tenant {next(tenants)}")
        data = exported(filled(some))
        done = imported(data, store, scope)
        assert exported(store, scope) == data
        assert imported(data, store, scope).already == done.conversations

    check()
    drive(store.close())
    postgres_places.sweep()


def test_what_postgres_refuses_leaves_no_trace(
    tmp_path: Path, postgres_places: PostgresPlaces
) -> None:
    store = PostgresStore(postgres_places.url(tmp_path / "store"), blocking=True)
    source = MemoryStore()
    for name in ("a", TALK, "z"):
        drive(fill_richly(source, ALICE, name))
    data = exported(source)
    drive(store.append(ALICE, TALK, user_entries("mine")))
    with pytest.raises(Conflict, match="'talk'"):
        imported(data, store)
    drive(store.delete(ALICE, TALK))
    with pytest.raises(ConversationDeleted, match="'talk'"):
        imported(data, store)
    twice = data.replace(b'"client_id":"\xe5\x8c\x97\xe4\xba\xac two"', b'"client_id":"one"')
    with pytest.raises(InvalidExport):
        imported(twice, store)
    assert drive(store.conversations(ALICE)) == []
    assert drive(store.search(ALICE, ["one"])) == []
    drive(store.close())
    postgres_places.sweep()


def test_in_an_event_loop_postgres_is_the_same(
    tmp_path: Path, postgres_places: PostgresPlaces
) -> None:
    source = MemoryStore()
    drive(fill_richly(source, ALICE))
    drive(source.append(ALICE, "long", user_entries(*map(str, range(1_200)))))
    data = exported(source)

    async def move() -> bytes:
        store = PostgresStore(postgres_places.url(tmp_path / "store"))
        await import_from(store, ALICE, io.BytesIO(data))
        file = io.BytesIO()
        await export_to(store, ALICE, file)
        assert (await import_from(store, ALICE, io.BytesIO(data))).already == 2
        await store.close()
        return file.getvalue()

    assert asyncio.run(move()) == data
    postgres_places.sweep()
