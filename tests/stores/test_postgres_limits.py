"""Nobody waits for PostgreSQL without end: frozen, unreachable or locked, it is `StoreUnavailable` within a limit.

Limits are set small here, and how long something took is never asked: a wait without end is ended by the limit that a
test itself has. After the server is back nothing is lost and nothing is stored twice.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.stores.pooling_proxy import PoolingProxy
from tests.stores.postgres_server import BadlyTreated
from tests.stores.postgres_wire import Wire
from tests.stores.servers import PostgresPlaces, database_url, fresh_database, postgres_places
from turnfold import Memory
from turnfold.errors import InvalidOption, StoreUnavailable
from turnfold.records import NewEntry, user
from turnfold.runtime import drive
from turnfold.stores import Scope
from turnfold.stores.postgres import schema as postgres_schema
from turnfold.stores.postgres.store import PostgresStore
from turnfold.stores.postgres.timeouts import TimeLimits
from turnfold.stores.postgres.transactions import _Transaction
from turnfold.tokens import TokenCounter, counter_for

__all__ = ("postgres_places",)

pytestmark = pytest.mark.timeout(120)
ALICE = Scope("alice")
SHORT = 0.3
"""Seconds; well above what any statement takes here."""


def batch(*words: str) -> list[NewEntry]:
    return [NewEntry(user(word), word) for word in words]


def texts(store: PostgresStore) -> list[str]:
    return [entry.message.text for entry in drive(store.read(ALICE, "talk"))]


def impatient(url: str, *, blocking: bool = True, **options: Any) -> PostgresStore:
    limits: dict[str, Any] = {
        "connect_timeout_seconds": 2,
        "statement_timeout_seconds": SHORT,
        "lock_timeout_seconds": None,
        "long_timeout_seconds": 60.0,
    }
    return PostgresStore(url, blocking=blocking, **(limits | options))


@pytest.fixture
def url(postgres_places: PostgresPlaces, tmp_path: Path) -> Iterator[str]:
    yield postgres_places.url(tmp_path)
    postgres_places.sweep()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only the server end a statement: on a busy machine its first answer may take longer than `SHORT`."""
    monkeypatch.setattr(TimeLimits, "silence", staticmethod(lambda _: 60.0))


@pytest.fixture(scope="module")
def server() -> Iterator[BadlyTreated]:
    server = BadlyTreated()
    yield server
    server.remove()


@contextmanager
def frozen(server: BadlyTreated) -> Iterator[None]:
    server.freeze()
    try:
        yield
    finally:
        server.thaw()


# -------------------------------------------------------------------------- a server that does not answer


def test_a_frozen_server_is_given_up_and_found_again(server: BadlyTreated) -> None:
    store = impatient(server.url)
    drive(store.append(ALICE, "talk", batch("one")))
    drive(store.append(ALICE, "other", batch("one")))
    with frozen(server):
        # On a connection that is there, and then on ones that have to be made; these wait together.
        with pytest.raises(StoreUnavailable, match="whole or not at all"):
            drive(store.append(ALICE, "talk", batch("two")))
        with ThreadPoolExecutor() as callers:
            append = callers.submit(lambda: drive(store.append(ALICE, "talk", batch("two"))))
            health = callers.submit(lambda: drive(store.health()))
            head = callers.submit(lambda: drive(impatient(server.url).head(ALICE, "talk")))
        assert not health.result().ok
        for refused in (append, head):
            with pytest.raises(StoreUnavailable, match="cannot connect"):
                refused.result()
    done = drive(store.append(ALICE, "talk", batch("two")))
    assert (done.first, done.last) == (2, 2)
    assert texts(store) == ["one", "two"]
    drive(store.close())


def test_so_is_it_by_an_event_loop_whose_other_tasks_go_on(server: BadlyTreated) -> None:
    async def use() -> list[str]:
        store = impatient(server.url, blocking=False)
        await store.append(ALICE, "of a loop", batch("one"))
        with frozen(server):
            outcomes = await asyncio.gather(
                store.append(ALICE, "of a loop", batch("two")),
                store.read(ALICE, "of a loop"),
                return_exceptions=True,
            )
            assert [type(each) for each in outcomes] == [StoreUnavailable] * 2
        await store.append(ALICE, "of a loop", batch("two"))
        found = [entry.message.text for entry in await store.read(ALICE, "of a loop")]
        await store.close()
        return found

    assert asyncio.run(use()) == ["one", "two"]


def test_a_session_says_so_and_goes_on_afterwards(server: BadlyTreated) -> None:
    store = impatient(server.url)
    with Memory(store, scope="alice") as memory:
        session = memory.session("of a session")
        session.user("你好")
        session.context()
        with frozen(server):
            for ask in (lambda: session.user("again", client_id="again"), session.context):
                with pytest.raises(StoreUnavailable):
                    ask()
        session.user("again", client_id="again")
        assert [entry.message.text for entry in session.history()] == ["你好", "again"]
        assert [message.text for message in session.context().messages] == ["你好", "again"]
    drive(store.close())


@pytest.mark.parametrize("words", [1, 40_000], ids=["small", "larger than what the line takes"])
def test_a_network_that_drops_packets_is_given_up(url: str, words: int) -> None:
    with closing(Wire(url)) as wire:
        store = impatient(wire.url)
        drive(store.append(ALICE, "talk", batch("one")))
        wire.silent = True
        large = [NewEntry(user("two " * words), "two")]
        with pytest.raises(StoreUnavailable):
            drive(store.append(ALICE, "talk", large))
        with pytest.raises(StoreUnavailable, match="cannot connect"):
            drive(store.head(ALICE, "talk"))
        wire.silent = False
        assert drive(store.append(ALICE, "talk", large)).first == 2
        assert len(texts(store)) == 2
        drive(store.close())


def test_a_commit_whose_reply_never_comes_is_found_by_who_asks_again(url: str) -> None:
    with closing(Wire(url)) as wire:
        store = impatient(wire.url)
        drive(store.append(ALICE, "talk", batch("one")))
        wire.mute = True
        with pytest.raises(StoreUnavailable, match="Retry, an append with the same client ids"):
            drive(store.append(ALICE, "talk", batch("two")))
        wire.mute = False
        assert drive(store.append(ALICE, "talk", batch("two"))).repeated
        assert texts(store) == ["one", "two"]
        drive(store.close())


# ------------------------------------------------------------------------------ locks and statements


@contextmanager
def held_row(url: str, *, table: str = "turnfold_conversation") -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, prepare_threshold=None) as keeper:
        keeper.execute("SELECT set_config('turnfold.tenant', 'alice', true)")
        asked = f"SELECT 1 FROM {table} WHERE conversation = 'talk' FOR UPDATE"  # noqa: S608 (a table)
        assert keeper.execute(asked.encode()).fetchall()
        yield keeper


def test_the_limits_hold_behind_a_proxy_that_lends_connections(url: str) -> None:
    with closing(PoolingProxy(database_url())) as proxy:
        store = impatient(proxy.url(url), lock_timeout_seconds=0.05)
        drive(store.append(ALICE, "talk", batch("one")))
        with held_row(url), pytest.raises(StoreUnavailable, match=r"lock_timeout_seconds=0\.05"):
            drive(store.append(ALICE, "talk", batch("two")))
        drive(store.close())
        store = impatient(proxy.url(url))
        drive(store.head(ALICE, "talk"))
        with held_row(url), pytest.raises(StoreUnavailable) as refused:
            drive(store.append(ALICE, "talk", batch("two")))
        assert "nothing was written" in str(refused.value)
        assert f"statement_timeout_seconds={SHORT:g}" in str(refused.value)
        assert drive(store.append(ALICE, "talk", batch("two"))).first == 2
        drive(store.close())


def test_without_a_limit_of_ours_the_servers_own_holds(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("ALTER ROLE CURRENT_USER SET lock_timeout = '40ms'")
        try:
            store = impatient(url, statement_timeout_seconds=None)
            drive(store.append(ALICE, "talk", batch("one")))
            with held_row(url), pytest.raises(StoreUnavailable, match="lock timeout"):
                drive(store.append(ALICE, "talk", batch("two")))
            drive(store.close())
        finally:
            owner.execute("ALTER ROLE CURRENT_USER RESET lock_timeout")


# ---------------------------------------------------------------------------------- long work


LONG: dict[str, tuple[str, Callable[[PostgresStore], Coroutine[Any, Any, object]]]] = {
    "delete": ("turnfold_entry", lambda store: store.delete(ALICE, "talk")),
    "recount": ("turnfold_entry", lambda store: store.tail(ALICE, "talk", tokens=100)),
    "new index": ("turnfold_conversation", lambda store: store.search(ALICE, ["one"])),
}


def _waited_for(url: str, work: Callable[[], object], table: str) -> BaseException | None:
    """Do something while a row it needs is held for longer than a statement may take; what it raised."""
    outcome: list[BaseException | None] = []

    def run() -> None:
        try:
            work()
            outcome.append(None)
        except BaseException as error:
            outcome.append(error)

    doing = threading.Thread(target=run)
    with held_row(url, table=table):
        doing.start()
        doing.join(4 * SHORT)
    doing.join(60)
    [raised] = outcome
    return raised


def _furnished(url: str, kind: str) -> PostgresStore:
    counter: TokenCounter | None = counter_for("gpt-4o") if kind == "recount" else None
    store = impatient(url, counter=counter)
    drive(store.append(ALICE, "talk", batch("one", "two")))
    drive(store.close())
    if kind == "new index":
        with psycopg.connect(url) as owner:
            owner.execute("SELECT set_config('turnfold.tenant', 'alice', true)")
            owner.execute("UPDATE turnfold_conversation SET indexed_by = 'older rules'")
    store = impatient(url)
    drive(store.head(ALICE, "another"))
    return store


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("kind", LONG)
def test_long_work_is_not_ended_by_the_limit_of_a_statement(url: str, kind: str) -> None:
    table, work = LONG[kind]
    store = _furnished(url, kind)
    assert _waited_for(url, lambda: drive(work(store)), table) is None
    drive(store.close())


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("kind", LONG)
def test_without_its_own_limit_it_would_be(
    url: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, work = LONG[kind]
    store = _furnished(url, kind)
    monkeypatch.setattr(_Transaction, "allow_long", lambda _self, **_: None)
    raised = _waited_for(url, lambda: drive(work(store)), table)
    assert isinstance(raised, StoreUnavailable)
    assert "statement timeout" in str(raised)
    drive(store.close())


@pytest.mark.usefixtures("patient")
def test_who_finds_somebody_else_migrating_waits_for_them() -> None:
    url = fresh_database()
    store, outcome = impatient(url), list[int]()
    opening = threading.Thread(
        target=lambda: outcome.append(drive(store.append(ALICE, "talk", batch("one"))).first)
    )
    with psycopg.connect(url) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (postgres_schema._LOCK,))
        opening.start()
        opening.join(4 * SHORT)
        assert outcome == []
    opening.join(60)
    assert outcome == [1]
    drive(store.close())


# ------------------------------------------------------------------------------------------ options


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("connect_timeout_seconds", 1),
        ("statement_timeout_seconds", 0),
        ("lock_timeout_seconds", -1.0),
        ("long_timeout_seconds", 0.0),
        ("tcp_timeout_seconds", 0),
    ],
)
def test_a_limit_that_cannot_be_is_refused(option: str, value: float) -> None:
    limits: dict[str, Any] = {option: value}
    with pytest.raises(InvalidOption, match=f"{option} must be .* got {value}"):
        PostgresStore("postgresql://nobody@127.0.0.1/none", **limits)


def _parameters(url: str, **options: Any) -> dict[str, Any]:
    engine = PostgresStore(url, **options)._engine
    return dict(conninfo_to_dict(engine._url))


def test_connections_have_limits_of_their_own_unless_the_address_brings_some() -> None:
    url = "postgresql://someone@127.0.0.1/some"
    usual = _parameters(url)
    assert {
        name: usual[name] for name in usual if name.endswith(("timeout", "interval", "count"))
    } == {
        "connect_timeout": "10",
        "keepalives_count": "4",
        "keepalives_interval": "5",
        "tcp_user_timeout": "30000",
    }
    assert usual["keepalives_idle"] == "10"
    given = _parameters(f"{url}?connect_timeout=3&tcp_user_timeout=4000&keepalives_idle=1")
    assert (given["connect_timeout"], given["tcp_user_timeout"]) == ("3", "4000")
    assert given["keepalives_idle"] == "1"
    assert "tcp_user_timeout" not in _parameters(url, tcp_timeout_seconds=None)
