"""An address opens the store it names, or the error names the remedy."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from turnfold.errors import InvalidOption, MissingExtra
from turnfold.records import NewEntry, user
from turnfold.stores import Ability, Scope, SqliteStore, open_store
from turnfold.stores.postgres.store import PostgresStore
from turnfold.stores.redis.cache import CachedStore

SCOPE = Scope("someone")


def test_a_file_is_durable_and_read_back(tmp_path: Path) -> None:
    async def write_then_read() -> list[str]:
        url = f"sqlite:///{tmp_path}/chat%20log.db"
        store = open_store(url)
        await store.append(SCOPE, "c", [NewEntry(user("你好"))])
        await store.close()
        again = open_store(url)
        texts = [entry.message.text for entry in await again.read(SCOPE, "c")]
        assert Ability.DURABLE in again.abilities
        await again.close()
        return texts

    assert asyncio.run(write_then_read()) == ["你好"]
    assert (tmp_path / "chat log.db").exists()


def test_no_path_is_memory() -> None:
    store = open_store("sqlite://")
    assert isinstance(store, SqliteStore)
    assert Ability.DURABLE not in store.abilities
    asyncio.run(store.close())


def test_other_addresses_open_their_backend() -> None:
    assert isinstance(open_store("postgresql://nobody@127.0.0.1:1/none"), PostgresStore)
    cached = open_store("sqlite://", cache="redis://127.0.0.1:1/0")
    assert isinstance(cached, CachedStore)
    asyncio.run(cached.close())


@pytest.mark.parametrize(
    ("url", "cache", "remedy"),
    [
        ("redis://127.0.0.1", None, "cache="),
        ("mysql://x", None, "known: sqlite:///PATH"),
        ("", None, "known: sqlite:///PATH"),
        ("chat.db", None, "known: sqlite:///PATH"),
        ("sqlite://chat.db", None, "sqlite:///chat.db"),
        ("sqlite:///chat.db?mode=ro", None, "%3F"),
        ("sqlite://", "sqlite:///x", "redis://"),
    ],
)
def test_a_wrong_address_names_the_remedy(url: str, cache: str | None, remedy: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        open_store(url, cache=cache)
    assert remedy in str(refused.value)


@pytest.mark.parametrize(
    ("driver", "call", "extra"),
    [
        ("psycopg", "open_store('postgresql://x')", "turnfold[postgres]"),
        ("redis", "open_store('sqlite://', cache='redis://x')", "turnfold[redis]"),
    ],
)
def test_a_missing_driver_names_its_extra(driver: str, call: str, extra: str) -> None:
    program = (
        f"import sys; sys.modules[{driver!r}] = None\n"
        "from turnfold.errors import MissingExtra\n"
        "from turnfold.stores import open_store\n"
        f"try:\n    {call}\n"
        "except MissingExtra as missing:\n    print(missing)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert extra in told
    assert issubclass(MissingExtra, ImportError)


@pytest.mark.parametrize("given", ["sqlite:/chat.db", "sqlite:chat.db", "chat.db"])
def test_a_file_without_its_slashes_is_answered_with_them(given: str) -> None:
    with pytest.raises(InvalidOption, match=r'For a file write "sqlite:///chat\.db"'):
        open_store(given)
