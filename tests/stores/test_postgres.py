"""What PostgreSQL adds to the suite: round trips, migrations from many processes, loops, index, partitions."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import turnfold
from tests.stores.servers import PostgresPlaces, admin_url, fresh_database, postgres_places
from turnfold.errors import StoreUnavailable, UnsafeStore
from turnfold.records import Checkpoint, Document, NewEntry, assistant, user
from turnfold.runtime import drive
from turnfold.stores import Scope
from turnfold.stores.postgres import statements
from turnfold.stores.postgres.schema import MIGRATIONS, TABLES
from turnfold.stores.postgres.search import SearchQuery
from turnfold.stores.postgres.statements import ConversationKey, allow_terms
from turnfold.stores.postgres.store import PostgresStore
from turnfold.stores.postgres.transactions import Link, Statement

__all__ = ("postgres_places",)

ALICE = Scope("alice")
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(turnfold.__file__).parents[1])}


@pytest.fixture
def url(postgres_places: PostgresPlaces, tmp_path: Path) -> Iterator[str]:
    yield postgres_places.url(tmp_path)
    postgres_places.sweep()


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(url, blocking=True)
    yield store
    drive(store.close())


def trips(store: PostgresStore) -> int:
    return store._engine.round_trips


# ---------------------------------------------------------------------------------------- round trips


def test_a_writer_alone_appends_in_one_round_trip_and_the_first_time_in_two(
    store: PostgresStore,
) -> None:
    drive(store.head(ALICE, "warm"))  # the schema is looked at once
    counts: list[int] = []
    for number in range(4):
        before = trips(store)
        batch = [NewEntry(user("q"), f"q{number}"), NewEntry(assistant("a"), f"a{number}")]
        drive(store.append(ALICE, "talk", batch))
        counts.append(trips(store) - before)
    assert counts == [2, 1, 1, 1]


def test_an_append_that_guessed_wrong_is_made_under_the_lock(
    store: PostgresStore, url: str
) -> None:
    other = PostgresStore(url, blocking=True)
    drive(store.append(ALICE, "talk", [NewEntry(user("1"))]))
    drive(other.append(ALICE, "talk", [NewEntry(user("2"))]))
    before = trips(store)
    done = drive(store.append(ALICE, "talk", [NewEntry(user("3"))]))
    assert (done.first, trips(store) - before) == (3, 3)
    drive(other.close())


def test_a_retry_of_a_remembered_append_is_a_repetition(store: PostgresStore) -> None:
    batch = [NewEntry(user("1"), "one")]
    first = drive(store.append(ALICE, "talk", batch))
    again = drive(store.append(ALICE, "talk", batch))
    assert (again.first, again.repeated, again.head) == (1, True, first.head)
    assert drive(store.append(ALICE, "talk", [NewEntry(user("2"))])).first == 2


def test_every_question_is_one_round_trip(store: PostgresStore) -> None:
    drive(store.append(ALICE, "talk", [NewEntry(user("alpha"), "one")] * 1))
    questions = {
        "head": lambda: store.head(ALICE, "talk"),
        "read": lambda: store.read(ALICE, "talk"),
        "read_turn": lambda: store.read_turn(ALICE, "talk", 1),
        "find": lambda: store.find(ALICE, "talk", ["one"]),
        "tail": lambda: store.tail(ALICE, "talk", tokens=100),
        "search": lambda: store.search(ALICE, ["alpha"]),
        "checkpoints": lambda: store.checkpoints(ALICE, "talk"),
        "documents": lambda: store.documents(ALICE, "talk", "note"),
        "conversations": lambda: store.conversations(ALICE),
    }
    counts: dict[str, int] = {}
    for name, question in questions.items():
        before = trips(store)
        drive(question())
        counts[name] = trips(store) - before
    assert counts == dict.fromkeys(questions, 1)


def test_nothing_is_left_on_a_connection(store: PostgresStore) -> None:
    drive(store.append(ALICE, "talk", [NewEntry(user("alpha"))]))
    drive(store.search(ALICE, ["alpha"]))
    pool = store._engine._blocking_pool
    assert pool is not None
    [connection] = pool._idle
    assert isinstance(connection, psycopg.Connection)
    left = connection.execute(
        "SELECT (SELECT count(*) FROM pg_prepared_statements), "
        "coalesce(current_setting('turnfold.tenant', true), ''), "
        "coalesce(current_setting('turnfold.terms', true), ''), current_setting('lock_timeout')"
    ).fetchone()
    assert left == (0, "", "", "0")


# -------------------------------------------------------------------------------------------- opening

_OPEN = """
import sys
from turnfold.records import NewEntry, user
from turnfold.stores import Scope
from turnfold.stores.postgres.store import PostgresStore
from turnfold.runtime import drive
print("ready", flush=True)
sys.stdin.readline()
store = PostgresStore(sys.argv[1], blocking=True)
drive(store.append(Scope("alice"), "talk", [NewEntry(user(sys.argv[2]), sys.argv[2])]))
drive(store.close())
"""


def test_eight_processes_may_open_an_empty_database_at_once() -> None:
    url = fresh_database()
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _OPEN, url, str(number)],
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(8)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    errors = [process.communicate(timeout=100)[1] for process in started]
    assert [process.returncode for process in started] == [0] * 8, errors
    store = PostgresStore(url, blocking=True)
    entries = drive(store.read(ALICE, "talk"))
    drive(store.close())
    assert sorted(entry.client_id for entry in entries) == [str(number) for number in range(8)]
    assert [entry.seq for entry in entries] == list(range(1, 9))


def test_a_schema_of_a_later_release_is_refused() -> None:
    url = fresh_database()
    first = PostgresStore(url, blocking=True)
    drive(first.head(ALICE, "talk"))
    drive(first.close())
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO turnfold_migration VALUES ('9999_future')")
    second = PostgresStore(url, blocking=True)
    with pytest.raises(UnsafeStore, match="9999_future"):
        drive(second.head(ALICE, "talk"))
    drive(second.close())


def test_a_failed_migration_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    url = fresh_database()
    broken = (*MIGRATIONS, ("0009_broken", ("CREATE TABLE half ()", "SELECT 1 / 0")))
    with monkeypatch.context() as patched:
        patched.setattr("turnfold.stores.postgres.schema.MIGRATIONS", broken)
        store = PostgresStore(url, blocking=True)
        with pytest.raises(StoreUnavailable):
            drive(store.head(ALICE, "talk"))
        drive(store.close())
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        assert found.fetchone() == (0,)
    store = PostgresStore(url, blocking=True)
    assert drive(store.head(ALICE, "talk")).seq == 0
    drive(store.close())


def test_a_missing_driver_names_the_extra() -> None:
    script = (
        "import sys; sys.modules['psycopg'] = None\n"
        "try: import turnfold.stores.postgres.store\n"
        "except ImportError as error: print(type(error).__name__, error)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert shown.startswith("MissingExtra")
    assert "turnfold[postgres]" in shown


def test_a_server_that_is_not_there_is_unavailable() -> None:
    store = PostgresStore("postgresql://nobody@127.0.0.1:1/nothing", blocking=True)
    with pytest.raises(StoreUnavailable, match="cannot connect"):
        drive(store.head(ALICE, "talk"))
    health = drive(store.health())
    assert not health.ok
    assert health.warnings


def test_one_store_serves_one_event_loop_after_another(url: str) -> None:
    store = PostgresStore(url)
    for number in range(3):
        done = asyncio.run(store.append(ALICE, "talk", [NewEntry(user(str(number)))]))
        assert done.first == number + 1
    assert len(store._engine._loop_pools) == 1  # what belonged to loops that ended has been closed
    asyncio.run(store.close())
    assert store._engine._loop_pools == {} or all(
        not pool._idle for pool in store._engine._loop_pools.values()
    )


def test_more_callers_than_connections_take_turns(url: str) -> None:
    async def crowd() -> list[int]:
        store = PostgresStore(url, pool_size=2)
        done = await asyncio.gather(
            *(store.append(ALICE, f"talk {n}", [NewEntry(user("x"))]) for n in range(40))
        )
        await store.close()
        return [one.first for one in done]

    assert asyncio.run(crowd()) == [1] * 40


# ------------------------------------------------------------------------------------ what is promised


def test_a_server_that_does_not_wait_for_the_disk_is_made_to(url: str) -> None:
    async def ask(link: Link) -> object:
        [[(shown,)]] = await link.finish(Statement("SELECT current_setting('synchronous_commit')"))
        return shown

    for setting, used in (("off", "on"), ("local", "local"), ("remote_apply", "remote_apply")):
        store = PostgresStore(
            re.sub("(-c search_path)", rf"-c synchronous_commit={setting} \1", url), blocking=True
        )
        assert drive(store._engine.transact("alice", ask)) == used
        drive(store.close())


def test_health_tells_who_the_wall_does_not_stop(store: PostgresStore, url: str) -> None:
    assert not [text for text in drive(store.health()).warnings if "row-level" in text]
    schema = re.search(r"search_path=(\w+)", url)
    assert schema is not None
    above = make_conninfo(
        admin_url(),
        dbname=conninfo_to_dict(url)["dbname"],
        options=f"-c search_path={schema[1]}",
    )
    superuser = PostgresStore(above, blocking=True)
    warnings = drive(superuser.health()).warnings
    drive(superuser.close())
    assert [text for text in warnings if "bypasses row-level security" in text]


def test_the_longest_names_fit_every_index(store: PostgresStore) -> None:
    chosen = random.Random(7)  # noqa: S311 (repeatable, and not compressible)
    scope, talk, client_id, kind, key, other, mark = (
        "".join(chr(chosen.randrange(0x4E00, 0x9FFF)) for _ in range(512)) for _ in range(7)
    )
    drive(store.append(Scope(scope), talk, [NewEntry(user("alpha"), client_id)]))
    assert drive(store.append(Scope(scope), talk, [NewEntry(user("alpha"), client_id)])).repeated
    drive(store.append(Scope(scope), talk, [NewEntry(user("beta"), other)]))
    entries = drive(store.read(Scope(scope), talk))
    assert [entry.client_id for entry in entries] == [client_id, other]
    assert drive(store.find(Scope(scope), talk, [other]))[0].seq == 2
    put = drive(store.put_document(Scope(scope), talk, Document(kind, key, b"x", 0)))
    stored = put.document
    assert drive(store.get_document(Scope(scope), talk, kind, key)) == stored
    assert drive(store.documents(Scope(scope), talk, kind)) == [stored]
    made = drive(store.add_checkpoint(Scope(scope), talk, Checkpoint(mark, "", 1, "s", "d")))
    assert drive(store.checkpoints(Scope(scope), talk)) == [made]
    assert drive(store.head(Scope(scope), talk)).checkpoint == mark
    assert [info.conversation for info in drive(store.conversations(Scope(scope)))] == [talk]
    assert [hit.conversation for hit in drive(store.search(Scope(scope), ["alpha"]))] == [talk]
    assert drive(store.delete(Scope(scope), talk)).entries == 2


def test_a_search_uses_its_index_although_there_is_a_wall(store: PostgresStore, url: str) -> None:
    for number in range(6):
        words = [NewEntry(user(f"w{number}x{i} common")) for i in range(500)]
        drive(store.append(ALICE, f"talk {number}", words))
    plans: dict[str, str] = {}
    for name in ("with", "without"):
        with psycopg.connect(url) as connection:
            if name == "without":
                connection.execute("DROP POLICY asked_for ON turnfold_term")
            plans[name] = _plan(connection)
            connection.rollback()
    assert "turnfold_term_terms" in plans["with"]
    assert "turnfold_term_terms" not in plans["without"]
    assert [hit.conversation for hit in drive(store.search(ALICE, ["w3x77"]))] == ["talk 3"]


def _plan(connection: psycopg.Connection) -> str:
    """How the server would find the candidates of a search."""
    connection.execute("SELECT gin_clean_pending_list('turnfold_term_terms')")
    connection.execute("ANALYZE turnfold_term, turnfold_conversation, turnfold_entry")
    place = ConversationKey("alice", "")
    cursor = psycopg.RawCursor(connection)
    cursor.execute("SELECT set_config('turnfold.tenant', 'alice', true)")
    naming = allow_terms(place, ["w3x77"])
    cursor.execute(naming.sql.encode(), naming.values)
    statement = SearchQuery(place, ("w3x77",), everywhere=True).any_places(2000)
    cursor.execute(f"EXPLAIN {statement.sql}".encode(), statement.values)
    return "\n".join(str(line) for (line,) in cursor.fetchall())


def _entries_read(plan: dict[str, object]) -> int:
    """Rows of the log that the server looked at to carry out a plan."""
    children = plan.get("Plans", [])
    assert isinstance(children, list)
    found = sum(_entries_read(child) for child in children)
    if plan.get("Relation Name") == "turnfold_entry":
        per_loop = int(plan["Actual Rows"]) + int(plan.get("Rows Removed by Filter", 0))  # pyright: ignore[reportArgumentType] (JSON)
        found += per_loop * int(plan["Actual Loops"])  # pyright: ignore[reportArgumentType] (JSON)
    return found


@pytest.mark.parametrize("analysed", [False, True])
def test_a_tail_and_a_turn_read_their_own_rows_of_a_long_log(
    store: PostgresStore, url: str, *, analysed: bool
) -> None:
    for number in range(4):
        words = [NewEntry(user(f"word {number} {i}")) for i in range(1000)]
        drive(store.append(ALICE, "talk", words))
    place = statements.ConversationKey("alice", "talk")
    read: list[int] = []
    with psycopg.connect(url) as connection:
        if analysed:
            connection.execute("ANALYZE turnfold_entry")
        cursor = psycopg.RawCursor(connection)
        cursor.execute("SELECT set_config('turnfold.tenant', 'alice', true)")
        for statement in (
            statements.rows_of_tail(place, 10**9, 50),
            statements.rows_of_turn(place, 1234),
        ):
            explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.sql}".encode()
            cursor.execute(explain, statement.values)
            [(answer,)] = cursor.fetchall()
            answer = json.loads(answer) if isinstance(answer, str) else answer
            read.append(_entries_read(answer[0]["Plan"]))
    assert read[0] <= 50 + 13
    assert read[1] <= 1 + 2 * 13


def test_every_unique_key_holds_tenant_and_conversation(store: PostgresStore, url: str) -> None:
    drive(store.head(ALICE, "talk"))
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT indexrelid::regclass::text, array_agg(attname::text ORDER BY place) FROM pg_index, "
            "unnest(indkey) WITH ORDINALITY AS part (number, place), pg_attribute "
            "WHERE indisunique AND attrelid = indrelid AND attnum = part.number "
            "AND indrelid = ANY(%s::regclass[]) GROUP BY 1",
            (list(TABLES),),
        ).fetchall()
    assert len(found) == 7
    assert {tuple(columns[:2]) for _, columns in found} == {("tenant", "conversation")}


def test_the_tables_can_be_spread_by_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    def spread(step: str) -> list[str]:
        made = re.search(r"CREATE TABLE (turnfold_\w+)", step)
        if made is None or "tenant" not in step:  # the salt is the same for all tenants
            return [step]
        table = step.replace(" WITH (fillfactor = 70)", "").rstrip()
        parts = [
            f"CREATE TABLE {made[1]}_{n} PARTITION OF {made[1]} FOR VALUES WITH (MODULUS 3, REMAINDER {n})"
            for n in range(3)
        ]
        return [f"{table} PARTITION BY HASH (tenant, conversation)", *parts]

    spread_out = tuple(
        (name, tuple(part for step in steps for part in spread(step))) for name, steps in MIGRATIONS
    )
    monkeypatch.setattr("turnfold.stores.postgres.schema.MIGRATIONS", spread_out)
    store = PostgresStore(fresh_database(), blocking=True)
    for number in range(12):
        name = f"talk {number}"
        drive(store.append(ALICE, name, [NewEntry(user("alpha"), "one")]))
        assert drive(store.append(ALICE, name, [NewEntry(user("alpha"), "one")])).repeated
        drive(store.put_document(ALICE, name, Document("note", "key", b"x", 0)))
        drive(store.add_checkpoint(ALICE, name, Checkpoint("s", "", 1, "text", "d")))
    assert len(drive(store.search(ALICE, ["alpha"]))) == 12
    assert drive(store.delete(ALICE, "talk 3")).entries == 1
    assert len(drive(store.search(ALICE, ["alpha"]))) == 11
    assert len(drive(store.conversations(ALICE))) == 11
    drive(store.close())
