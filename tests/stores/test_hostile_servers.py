"""The same as test_hostile_stores.py where the bytes come over a wire: PostgreSQL tables and Redis values."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

import msgspec
import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.stores.audit import CodeRan
from tests.stores.hostile_blobs import HOSTILE_BLOBS, SOUND_BODIES, mutations
from tests.stores.redis_server import PATIENCE, redis, shared_url
from tests.stores.servers import PostgresPlaces, admin_url, postgres_places
from tests.stores.test_hostile_stores import (
    ALICE,
    BLOBS,
    PLACE,
    READS,
    TALK,
    assert_what_is_read_is_stored,
    filled,
    read_all,
)
from turnfold.records import Checkpoint
from turnfold.runtime import drive
from turnfold.stores import SqliteStore, Store
from turnfold.stores.postgres.store import PostgresStore
from turnfold.stores.redis import cached_values as redis_values
from turnfold.stores.redis.cache import CachedStore
from turnfold.stores.redis.cached_values import document_field, session_keys

__all__ = ("postgres_places",)

FIRST_USE = ("import", "exec", "compile", "marshal.loads")
CONNECTING = ("socket.connect", "socket.getaddrinfo")
HUGE, LEAST = (1 << 63) - 1, -(1 << 63)

# ---------------------------------------------------------------------------------------- PostgreSQL


@pytest.fixture
def url(postgres_places: PostgresPlaces, tmp_path: Path) -> Iterator[str]:
    yield postgres_places.url(tmp_path)
    postgres_places.sweep()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = PostgresStore(url, blocking=True)
    filled(store)
    read_all(store, *FIRST_USE)
    yield store
    drive(store.close())


@pytest.fixture
def raw(url: str) -> Iterator[psycopg.Connection]:
    """The same tables for somebody whom no wall stops."""
    place = conninfo_to_dict(url)
    address = make_conninfo(admin_url(), dbname=place["dbname"], options=place["options"])
    with psycopg.connect(address, autocommit=True) as connection:
        yield connection


def test_a_hostile_body_in_postgres(store: Store, raw: psycopg.Connection) -> None:
    refused = 0
    for blob in BLOBS:
        raw.execute(
            "UPDATE turnfold_entry SET body = %s, checksum = NULL WHERE seq = 1 AND conversation = %s",
            (blob, TALK),
        )
        found = read_all(store)
        assert_what_is_read_is_stored(found, blob)
        assert found["head"][0] == found["documents"][0] == "value"
        refused += found["read"][0] == "error"
    assert len(BLOBS) // 2 < refused < len(BLOBS)
    assert drive(store.delete(*PLACE)).entries == len(SOUND_BODIES)


CHECKPOINT = msgspec.json.encode(Checkpoint("c1", "", 1, "summary 摘要", "digest", created=5))
RECORDS = [
    *HOSTILE_BLOBS.values(),
    *mutations([CHECKPOINT], 60, seed=3),
    CHECKPOINT.replace(b"1.0", b"1e999"),
    CHECKPOINT.replace(b'"upto":1', b'"upto":' + b"9" * 5000),
    CHECKPOINT.replace(b'"digest"', b'"\\ud800"'),
    CHECKPOINT[:-1] + b',"more":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"id":"c1"}',
]


def test_a_hostile_checkpoint_in_postgres(store: Store, raw: psycopg.Connection) -> None:
    outcomes: set[str] = set()
    for record in RECORDS:
        raw.execute("UPDATE turnfold_checkpoint SET record = %s, checksum = NULL", (record,))
        found = read_all(store)
        assert found["read"][0] == "value"
        assert found["checkpoints"][0] == found["live_checkpoint"][0] == found["capture"][0]
        outcomes.add(found["checkpoints"][0])
        if found["checkpoints"][0] == "value":
            kept: Any = found["checkpoints"][1]
            assert all(isinstance(each, Checkpoint) for each in kept)
    assert outcomes == {"value", "error"}


DAMAGED = [
    (table, column, value)
    for table, columns in {
        "turnfold_conversation": "seq tokens turns revision epoch created updated",
        "turnfold_entry": "created turn tokens running epoch",
        "turnfold_document": "version created",
        "turnfold_checkpoint": "upto created",
    }.items()
    for column in columns.split()
    for value in (HUGE, LEAST, 0)
] + [
    (table, column, value)
    for table, columns in {
        "turnfold_conversation": "long_name checkpoint counter",
        "turnfold_entry": "long_id",
        "turnfold_document": "long_key",
    }.items()
    for column in columns.split()
    for value in ("", "'; DROP TABLE turnfold_entry; --", "\uffff")
]


def test_a_damaged_column_in_postgres(store: Store, raw: psycopg.Connection) -> None:
    for table, column, value in DAMAGED:
        names = sql.Identifier(table), sql.Identifier(column)
        statement = sql.SQL("UPDATE {} SET {} = %s").format(*names)
        with raw.transaction():
            before = raw.execute(sql.SQL("SELECT ctid, {} FROM {}").format(*names[::-1])).fetchall()
        raw.execute(statement, (value,))
        assert set(read_all(store)) == set(READS)
        if column in ("seq", "upto"):  # the others may stay as they are: damage adds up
            raw.execute(statement, (before[0][1],))


def test_a_hostile_index_in_postgres(store: Store, raw: psycopg.Connection) -> None:
    for terms in (["x"], [], ["'); --", "a:b:c", "#"]):
        raw.execute("UPDATE turnfold_term SET terms = %s", (terms,))
        assert read_all(store)["search"] == ("value", [])
    raw.execute("DELETE FROM turnfold_conversation")
    assert read_all(store)["read"][0] == "value"


# --------------------------------------------------------------------------------------------- Redis


@pytest.fixture
def inner(tmp_path: Path) -> SqliteStore:
    return SqliteStore(tmp_path / "chat.db", blocking=True)


@pytest.fixture
def cached(inner: SqliteStore) -> Iterator[CachedStore]:
    store = CachedStore(inner, shared_url(), blocking=True, timeout_seconds=PATIENCE)
    filled(store)
    for _ in range(2):  # the second time from the cache
        read_all(store, *FIRST_USE, *CONNECTING)
    yield store
    drive(store.delete(*PLACE))
    drive(store.close())


KEY = session_keys(ALICE, TALK, default_tenant="default").cache
FIELDS = (b"window", b"checkpoints", document_field("note", "key"))


def _values() -> list[bytes]:
    sound = msgspec.msgpack.encode({"v": 1, "rows": [[1, "id", 2, 3, 4, 5, b"body"]]})
    return [*HOSTILE_BLOBS.values(), *mutations([sound], 60, seed=5)]


def test_rubbish_in_redis_changes_no_answer(cached: CachedStore, inner: SqliteStore) -> None:
    expected = read_all(inner)
    with redis.Redis.from_url(shared_url()) as raw:
        kept = [raw.hget(KEY, field) for field in FIELDS]
        assert all(kept)
        changed = [data for one in kept for data in mutations([one], 40, seed=11) if data != one]
        for value in [*_values(), *changed, *kept[1:], kept[0]]:
            raw.hset(KEY, mapping=dict.fromkeys(FIELDS, value))
            assert read_all(cached, *CONNECTING) == expected


def test_a_value_of_another_type_in_redis_changes_no_answer(
    cached: CachedStore, inner: SqliteStore
) -> None:
    expected = read_all(inner)
    with redis.Redis.from_url(shared_url()) as raw:
        for make in (
            lambda: raw.set(KEY, pickle.dumps(print)),
            lambda: raw.rpush(KEY, b"x"),
            lambda: raw.sadd(KEY, b"x"),
            lambda: raw.zadd(KEY, {b"x": 1}),
            lambda: raw.hset(KEY, "generation", b"not a number"),
            lambda: raw.hset(KEY, "store", b"\xff"),
        ):
            raw.delete(KEY)
            make()
            assert read_all(cached, *CONNECTING) == expected


def sealed(cached: CachedStore, body: bytes, field: bytes) -> bytes:
    """As somebody would seal it who has stolen the secret too."""
    return redis_values._seal_digest(body, cached._cache._secret, KEY, field) + body


def test_hostile_values_under_a_stolen_seal_run_nothing(cached: CachedStore) -> None:
    with redis.Redis.from_url(shared_url()) as raw:
        opened = {field: raw.hget(KEY, field)[16:] for field in FIELDS}
        bodies = [*HOSTILE_BLOBS.values()]
        for field in FIELDS:
            for body in [*bodies, *mutations([opened[field]], 60, seed=13)]:
                raw.hset(KEY, field, sealed(cached, body, field))
                assert set(read_all(cached, *CONNECTING)) == set(READS)


def _unpickled(body: bytes, **_options: object) -> object:
    return pickle.loads(body)  # noqa: S301 (the fault that must be seen)


def test_a_cache_that_unpickles_is_caught(
    cached: CachedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with redis.Redis.from_url(shared_url()) as raw:
        for field in FIELDS:
            raw.hset(KEY, field, sealed(cached, HOSTILE_BLOBS["pickle 4"], field))
        monkeypatch.setattr(redis_values.msgspec.msgpack, "decode", _unpickled)
        with pytest.raises(CodeRan, match=r"pickle\.find_class"):
            read_all(cached, *CONNECTING)
