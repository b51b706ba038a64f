"""Two services on one PostgreSQL and one Redis, and one of them is killed: no acknowledged turn is lost or doubled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.service.running import ServiceProcess
from tests.stores.redis_server import RedisServer
from tests.stores.servers import PostgresPlaces, postgres_places
from turnfold.client import AsyncRemoteMemory, RemoteMemory
from turnfold.errors import LimitExceeded, StoreUnavailable
from turnfold.records import Message

__all__ = ("postgres_places",)

SESSIONS = 8


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    server = RedisServer()
    yield server
    server.stop()


class Writer:
    """A client that writes turns one after the other, and goes to the other service when its own is gone."""

    def __init__(self, number: int, urls: list[str]) -> None:
        self.session = f"talk {number % SESSIONS}"
        self.name = f"w{number}"
        self.urls = urls if number % 2 else urls[::-1]
        self.acknowledged: list[str] = []

    async def write(self, turns: int, written: list[str]) -> None:
        for turn in range(turns):
            key = f"{self.name}.{turn}"
            places = iter([*self.urls, *self.urls])
            url = next(places)
            while True:
                try:
                    # A turn is retried under its own name, there and elsewhere.
                    async with AsyncRemoteMemory(url, retries=0, timeout=60.0) as memory:
                        session = memory.session(self.session)
                        said = [
                            {"role": "user", "content": f"question {key}"},
                            {"role": "assistant", "content": f"answer {key}"},
                        ]
                        await session.add(said, client_id=key)
                        if turn % 3 == 0:
                            await session.context()
                except StoreUnavailable:
                    url = next(places, "")
                    assert url, "neither service answers"
                except LimitExceeded:  # all clients are at one service now: wait, as it says
                    await asyncio.sleep(0.1)
                else:
                    break
            self.acknowledged.append(key)
            written.append(key)


async def load(urls: list[str], clients: int, turns: int, written: list[str]) -> list[Writer]:
    writers = [Writer(number, urls) for number in range(clients)]
    await asyncio.gather(*(writer.write(turns, written) for writer in writers))
    return writers


def seen(url: str) -> dict[str, tuple[list[str], tuple[Message, ...]]]:
    """What each conversation holds, and the context a service makes of it."""
    with RemoteMemory(url) as memory:
        return {
            name: (
                [entry.client_id for entry in memory.session(name).history(limit=100_000)],
                memory.session(name).context().messages,
            )
            for name in (f"talk {number}" for number in range(SESSIONS))
        }


def run(
    places: PostgresPlaces, redis: RedisServer, place: Path, *, clients: int, turns: int
) -> None:
    store = "postgresql:///?" + urlencode(conninfo_to_dict(places.url(place)), quote_via=quote)
    words = ("--store", store, "--cache", redis.url, "--budget", "3000")
    with ServiceProcess(*words) as one, ServiceProcess(*words) as other:
        written: list[str] = []

        def kill_midway() -> None:
            while len(written) < clients * turns // 3:
                done.wait(0.01)
            one.kill()

        done = threading.Event()
        killer = threading.Thread(target=kill_midway)
        killer.start()
        writers = asyncio.run(load([one.url, other.url], clients, turns, written))
        killer.join()
        assert len(written) == clients * turns
        with ServiceProcess(*words) as again:
            here, there = seen(other.url), seen(again.url)
    found = [name for held, _ in here.values() for name in held]
    wanted = [f"{key}.{part}" for each in writers for key in each.acknowledged for part in (1, 2)]
    assert sorted(found) == sorted(wanted)  # none lost, none doubled, none that nobody wrote
    assert {name: held for name, (held, _) in here.items()} == {
        name: held for name, (held, _) in there.items()
    }
    assert here == there  # the very same messages from both


def test_one_of_two_services_is_killed(
    postgres_places: PostgresPlaces, redis: RedisServer, tmp_path: Path
) -> None:
    run(postgres_places, redis, tmp_path, clients=8, turns=3)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_one_of_two_services_is_killed_under_200_clients(
    postgres_places: PostgresPlaces, redis: RedisServer, tmp_path: Path
) -> None:
    run(postgres_places, redis, tmp_path, clients=200, turns=12)
