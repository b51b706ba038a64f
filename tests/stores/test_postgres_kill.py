"""Writers, server processes and whole servers are killed at any instant: nothing acknowledged is ever missing.

The server's own setting lets it answer before it has written, and it is slow to write by itself: the store does not
rely on it. What must be true afterwards is said in killing.py; a writer that lives through it asks again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

import psycopg
from psycopg.conninfo import make_conninfo

from tests.sizes import POSTGRES_KILLS
from tests.stores.killing import Texts, Told, needs_fork, nursery
from tests.stores.postgres_server import BadlyTreated
from tests.stores.writers import ALICE
from turnfold.errors import IdReused
from turnfold.records import NewEntry, decode_message, user
from turnfold.runtime import drive
from turnfold.stores.postgres.store import PostgresStore

pytestmark = needs_fork


@pytest.fixture(scope="module")
def server() -> Iterator[BadlyTreated]:
    server = BadlyTreated()
    yield server
    server.remove()


@pytest.fixture
def url(server: BadlyTreated) -> str:
    """A database of the cluster with nothing but the tables in it."""
    server.ask("DROP DATABASE IF EXISTS killed WITH (FORCE)")
    server.ask("CREATE DATABASE killed")
    url = make_conninfo(server.url, dbname="killed")
    store = PostgresStore(url, blocking=True)
    drive(store.head(ALICE, "b"))
    drive(store.close())
    return url


def held(url: str) -> Texts:
    """Seq and text of every entry, by conversation, as they lie in the table."""
    texts: Texts = {}
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT conversation, seq, body FROM turnfold_entry ORDER BY conversation, seq"
        )
        for conversation, seq, body in rows:
            texts.setdefault(conversation, []).append((seq, decode_message(body).text))
    return texts


def kill_often(
    server: BadlyTreated, url: str, cycles: int, *faults: str
) -> tuple[Told, Counter[str], list[str]]:
    """What was acknowledged, what was killed how often, and every fault found."""
    dice = random.Random(cycles)  # noqa: S311 (a run that can be repeated)
    strikes: dict[str, Callable[[], None] | None] = {
        "writer": None,
        "backend": server.kill_backend,
        "server": server.stop_at_once,
    }
    told, struck, found = Told(), Counter[str](), list[str]()
    with nursery("postgres_writers.py", *faults) as writers:
        for cycle in range(cycles):
            what = list(strikes)[cycle % 3]
            struck[what] += 1
            writers.raise_and_kill(
                cycle,
                url,
                told,
                batches=dice.choice((1, 2, 3, 5, 8)),
                seconds=dice.random() * 0.02,
                strike=strikes[what],
            )
            found += told.faults(held(url))
    return told, struck, found


@pytest.mark.parametrize(
    "cycles",
    POSTGRES_KILLS.values(),
)
def test_killing_anything_loses_nothing_that_was_acknowledged(
    server: BadlyTreated, url: str, cycles: int
) -> None:
    told, struck, faults = kill_often(server, url, cycles)
    assert faults == []
    assert min(struck.values()) >= cycles // 3
    assert len(told.batches) > 2 * cycles
    conversation, _, size, label = told.batches[0]
    other = [NewEntry(user("other"), f"{label}.{part}") for part in range(size)]
    store = PostgresStore(url, blocking=True)
    with pytest.raises(IdReused):
        drive(store.append(ALICE, conversation, other))
    drive(store.close())


@pytest.mark.parametrize("fault", ["hasty", "trusting"])
@pytest.mark.slow  # shows that the tests above can fail
def test_a_store_that_answers_before_it_has_written_is_caught(
    server: BadlyTreated, url: str, fault: str
) -> None:
    _, _, faults = kill_often(server, url, 3, fault)
    assert any(fault.startswith("lost") for fault in faults)


def test_a_server_that_may_lose_what_it_wrote_is_spoken_of(
    server: BadlyTreated, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    said: dict[str, list[str]] = {}
    for setting in ("on", "off"):
        server.set("fsync", setting)
        caplog.clear()
        store = PostgresStore(url, blocking=True)
        drive(store.append(ALICE, "b", [NewEntry(user("x"))]))
        logged = [record.getMessage() for record in caplog.records]
        shown = [text for text in drive(store.health()).warnings if "fsync" in text]
        assert logged == shown
        said[setting] = logged
        drive(store.close())
    assert said["on"] == []
    assert "acknowledged entries" in said["off"][0]
