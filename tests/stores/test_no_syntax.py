"""No input becomes query syntax: any text, as any name or key of any verb, gives what the memory store gives.

The suite that ships tries hostile names one place at a time. Here every string of every verb is hostile at once, on
every backend: published injections (SQL through a filter's operator or key, JSON paths, FTS5 and tsquery operators
that survive binding, LIKE patterns, the Redis protocol, Lua) and whatever Hypothesis thinks of.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("psycopg", reason="needs psycopg")

from tests.sizes import ANY_TEXT
from tests.stores.redis_server import PATIENCE, shared_url
from tests.stores.servers import PostgresPlaces, postgres_places
from turnfold.errors import TurnfoldError
from turnfold.records import Checkpoint, Document, NewEntry, user
from turnfold.runtime import drive
from turnfold.stores import MemoryStore, Scope, SqliteStore, Store
from turnfold.stores.postgres.store import PostgresStore
from turnfold.stores.redis.cache import CachedStore
from turnfold.stores.sqlite import search_index as sqlite_index
from turnfold.testing.stores.sample_values import (
    HOSTILE_NAMES,
    HOSTILE_TEXTS,
    character_counter,
    comparable,
)

__all__ = ("postgres_places",)

BYSTANDER = Scope("bystander")
NAMES = count()

INJECTIONS = [
    "' OR 1=1 --",
    "'; DELETE FROM conversation; --",
    "x' UNION SELECT name, 1, 2, 3, 4, 5, 6, 7, 8 FROM conversation --",
    "$.a') OR 1=1 --",
    "$.\"key\"' || (SELECT body FROM entry) || '",
    "') OR json_extract(value, '$.x') = json_extract(value, '$.x') --",
    "value->>'$.a' = 'b'",
    "bystander' AND '1'='1",
    "*",
    '"',
    '"" OR ""',
    "NEAR(alpha beta)",
    "scope : s62797374616e646572",
    '{scope terms} : "alpha"',
    "-terms : alpha",
    "entry_terms MATCH 'alpha'",
    "alpha* ^beta",
    "alpha & !beta | (gamma <-> delta)",
    "alpha:*ABCD",
    "%",
    "_%\\_",
    "[[:alpha:]]",
    "(@tenant:{bystander})|@id:{*}",
    "=>[KNN 10 @vector $blob]",
    "\r\n*1\r\n$8\r\nFLUSHALL\r\n",
    "$1$2$3",
    "?1 :name @name %s %(x)s",
    "{} {0} {name!r} {0.__class__}",
    "redis.call('FLUSHALL')",
    "short_term_memory:session:{bystander/talk}",
    "{bystander/talk}",
    "bystander/talk",
    "\\u0027 OR 1=1",
    "＇ OR 1=1",
    "MATCH (n) DETACH DELETE n //",
    "turnfold.tenant",
    "bystander', true); SELECT set_config('turnfold.tenant', 'bystander",
    "#0123456789abcdef0123",
    "E'\\x00'",
    "U&'\\0027'",
    "/**/",
    "\ufeff",
    "\u2028",
    "\U000e0001",
    *HOSTILE_NAMES.values(),
]

plain = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=40)
bits = st.sampled_from([*INJECTIONS, "'", '"', "\\", "--", "alpha", "你好", " "])
names = st.sampled_from(INJECTIONS) | plain | st.lists(bits, min_size=1, max_size=4).map("".join)
names = names.filter(lambda name: 0 < len(name) <= 400)
texts = names | st.sampled_from(list(HOSTILE_TEXTS.values()))


async def answered(verb: Awaitable[object]) -> object:
    try:
        return await verb
    except TurnfoldError as error:
        return type(error)


async def exercise(store: Store, tenant: str, given_names: list[str], said: list[str]) -> list[Any]:
    """Every verb with hostile text in every place, and what each answered."""
    scope, (one, two, three) = Scope(tenant), given_names
    batch = [NewEntry(user(text), f"{one}{number}") for number, text in enumerate(said)]
    note, other = Document(two, three, said[0].encode(), 0), Document(two, one, b"other", 0)
    verbs: list[Awaitable[object]] = [
        store.append(scope, one, batch),
        store.append(scope, one, batch),
        store.append(scope, two, [NewEntry(user(three), two)]),
        store.append(scope, two, [NewEntry(user(one), two)]),
        store.head(scope, one),
        store.read(scope, one),
        store.read_turn(scope, two, 1),
        store.find(scope, one, [f"{one}0", two, three]),
        store.tail(scope, one, tokens=40),
        store.add_checkpoint(scope, one, Checkpoint(three, "", 1, said[0], two, one, three)),
        store.add_checkpoint(scope, one, Checkpoint(two, three, len(said), one, two, three)),
        store.live_checkpoint(scope, one),
        store.checkpoints(scope, one),
        store.put_document(scope, one, note),
        store.put_document(scope, one, other, expect=0),
        store.get_document(scope, one, two, three),
        store.get_document(scope, one, three, two),
        store.get_document(scope, one, two, three),
        store.documents(scope, one, two),
        store.documents(scope, one, two, after=three),
        store.documents(scope, one, two, after=one, limit=1),
        store.drop_document(scope, one, two, one),
        store.conversations(scope),
        store.conversations(scope, after=one),
        store.conversations(scope, after=three, limit=1),
        store.search(scope, said),
        store.search(scope, given_names, limit=100),
        store.search(scope, said, conversation=one),
        store.search(scope, [" ".join(said)], conversation=two),
        store.search(BYSTANDER, given_names, conversation=one),
        store.delete(scope, two),
        store.append(scope, two, [NewEntry(user(one))]),
        store.conversations(scope),
        store.tail(scope, one, tokens=1_000),
    ]
    return [await answered(verb) for verb in verbs]


async def bystanders(store: Store) -> list[object]:
    """All there is of a tenant nobody means."""
    return [
        await store.conversations(BYSTANDER),
        await store.read(BYSTANDER, "talk"),
        await store.documents(BYSTANDER, "talk", "note"),
        await store.checkpoints(BYSTANDER, "talk"),
        await store.search(BYSTANDER, ["alpha 你好"]),
    ]


def with_bystander(store: Store) -> Store:
    drive(store.append(BYSTANDER, "talk", [NewEntry(user("alpha")), NewEntry(user("你好"))]))
    drive(store.add_checkpoint(BYSTANDER, "talk", Checkpoint("c", "", 1, "summary", "digest")))
    drive(store.put_document(BYSTANDER, "talk", Document("note", "key", b"body", 0)))
    return store


def compare(store: Store, tenant: str, given_names: list[str], said: list[str]) -> None:
    """The store answers as the reference does; the bystander's data are as they were."""
    tenant = f"{tenant}{next(NAMES)}"
    reference = with_bystander(MemoryStore(counter=character_counter(), clock=lambda: 1))
    expected = drive(exercise(reference, tenant, given_names, said))
    found = drive(exercise(store, tenant, given_names, said))
    for number, (answer, right) in enumerate(zip(found, expected, strict=True)):
        assert comparable(answer) == comparable(right), f"verb {number}"
    assert comparable(drive(bystanders(store))) == comparable(drive(bystanders(reference)))


def in_sqlite(path: Path, _places: PostgresPlaces) -> Store:
    return SqliteStore(
        path / "chat.db", blocking=True, counter=character_counter(), clock=lambda: 1
    )


def in_postgres(path: Path, places: PostgresPlaces) -> Store:
    url = places.url(path)
    return PostgresStore(url, blocking=True, counter=character_counter(), clock=lambda: 1)


def in_front(path: Path, places: PostgresPlaces) -> Store:
    inner = in_sqlite(path, places)
    return CachedStore(inner, shared_url(), blocking=True, timeout_seconds=PATIENCE)


BACKENDS = {"sqlite": in_sqlite, "postgres": in_postgres, "redis": in_front}
each_backend = pytest.mark.parametrize("make", BACKENDS.values(), ids=BACKENDS)
Make = Callable[[Path, PostgresPlaces], Store]


@pytest.fixture
def store(make: Make, tmp_path: Path, postgres_places: PostgresPlaces) -> Iterator[Store]:
    store = with_bystander(make(tmp_path, postgres_places))
    yield store
    drive(store.close())
    postgres_places.sweep()


@each_backend
def test_a_published_injection_is_a_name_like_any_other(store: Store) -> None:
    size = len(INJECTIONS)
    for number, name in enumerate(INJECTIONS):
        given_names = [name, INJECTIONS[(number + 1) % size], INJECTIONS[(number + 7) % size]]
        compare(store, name[:400], [each[:400] for each in given_names], [name, "alpha", "你好"])


@each_backend
@pytest.mark.parametrize("examples", ANY_TEXT.values())
def test_so_is_any_text(store: Store, examples: int) -> None:
    @settings(
        deadline=None,
        max_examples=examples,
        database=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    @given(names, st.lists(names, min_size=3, max_size=3), st.lists(texts, min_size=1, max_size=3))
    def tried(tenant: str, given_names: list[str], said: list[str]) -> None:
        compare(store, tenant, given_names, said)

    tried()


@pytest.mark.parametrize("make", [in_sqlite], ids=["sqlite"])
def test_a_term_that_reaches_the_query_as_it_is_is_caught(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_index, "_digest", lambda term, _key: term)
    monkeypatch.setattr(sqlite_index, "_number", hash)
    monkeypatch.setattr("turnfold.stores.sqlite.store.query_terms", list)
    with pytest.raises((AssertionError, TurnfoldError)):
        compare(store, "a", ["alpha", "x", "y"], ['alpha" OR "beta', "beta"])
