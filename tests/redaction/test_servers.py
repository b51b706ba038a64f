"""Redaction in front of PostgreSQL with Redis: neither of them gets what was found, whatever memory writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")
pytest.importorskip("redis", reason="needs redis")

import psycopg
import redis
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.memory.short_places import as_url
from tests.redaction.test_stored import SECRETS, WAYS, said, snapshot
from tests.stores.redis_server import RedisServer
from tests.stores.servers import PostgresPlaces, admin_url
from turnfold import Memory, ShortMemory
from turnfold.redaction import Redactor


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[str]:
    places = PostgresPlaces()
    yield as_url(places.url(tmp_path))
    places.sweep()
    places.close()


@pytest.fixture
def cache() -> Iterator[RedisServer]:
    server = RedisServer()
    yield server
    server.stop()


def held_by(postgres: str, cache: RedisServer) -> bytes:
    """Return everything that the two servers hold, as bytes."""
    parts: list[bytes] = []
    own = conninfo_to_dict(postgres)
    # As an administrator: row-level security would hide the rows.
    place = {"dbname": own["dbname"], "options": own.get("options", "")}
    with psycopg.connect(make_conninfo(admin_url(), **place)) as link:
        tables = link.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        for (table,) in tables.fetchall():
            copied = sql.SQL("COPY {} TO STDOUT (FORMAT binary)").format(sql.Identifier(table))
            with link.cursor().copy(copied) as rows:
                parts += [bytes(row) for row in rows]
    client = redis.Redis.from_url(cache.url)
    for key in client.scan_iter():
        parts += [bytes(key), client.dump(key) or b""]
        if client.type(key) == b"string":
            parts.append(cast("bytes", client.get(key)))
    client.close()
    return b"".join(parts)


def test_neither_server_gets_a_secret(postgres: str, cache: RedisServer) -> None:
    with Memory(postgres, cache=cache.url, redact=Redactor()) as memory:
        for way in WAYS:
            if way is not snapshot:  # packed: nothing would be found
                way(memory.session(way.__name__), said("email"))
                memory.session(way.__name__).user("And now?")
                memory.session(way.__name__).context()
        with ShortMemory(memory.store) as short:
            short.create_short_memory("talk")
            short.write_turn("talk", user_query=said("phone"), agent_response=said("email"))
            short.query_memory_context("talk", query=said("password"))
    held = held_by(postgres, cache)
    assert b"[redacted: email 1]" in held
    assert [kind for kind, value in SECRETS.items() if value.encode() in held] == []


def test_the_search_finds_what_is_there(postgres: str, cache: RedisServer) -> None:
    with ShortMemory(postgres, cache=cache.url) as short:
        short.create_short_memory("talk")
        short.write_turn("talk", user_query=said("phone"), agent_response=said("email"))
        short.query_memory_context("talk", query=said("password"))
    held = held_by(postgres, cache)
    found = {kind for kind, value in SECRETS.items() if value.encode() in held}
    assert found == {"phone", "email", "password"}
