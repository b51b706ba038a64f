"""An index in PostgreSQL made by other rules is made anew by the searches that need it, in steps that are kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

import psycopg

from tests.stores.servers import PostgresPlaces, postgres_places
from turnfold.errors import StoreUnavailable
from turnfold.records import Checkpoint, Document, NewEntry, assistant, tool, user
from turnfold.runtime import drive
from turnfold.search import Hit, Within
from turnfold.stores import MemoryStore, Scope, Store
from turnfold.stores.postgres import search as postgres_remaking
from turnfold.stores.postgres import statements as postgres_rows
from turnfold.stores.postgres import statements as postgres_terms
from turnfold.stores.postgres.statements import ConversationKey
from turnfold.stores.postgres.store import PostgresStore

__all__ = ("postgres_places",)

ALICE = Scope("alice")
ENTRIES = 23
CALL = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": "{}"}}


@pytest.fixture
def url(tmp_path: Path, postgres_places: PostgresPlaces) -> Iterator[str]:
    yield postgres_places.url(tmp_path)
    postgres_places.sweep()


def old_rules(text: str) -> set[str]:
    return {f"old{word}" for word in text.split()}


def fill(store: Store) -> None:
    for name in ("one", "two"):
        said = [NewEntry(user(f"alpha {name} {at}")) for at in range(ENTRIES)]
        drive(store.append(ALICE, name, said))
    drive(store.append(ALICE, "one", [NewEntry(assistant(tool_calls=[CALL]))]))
    drive(store.append(ALICE, "one", [NewEntry(tool("alpha rain", tool_call_id="c"))]))
    drive(store.put_document(ALICE, "one", Document("note", "n", b"", 0, text="alpha note")))
    drive(store.add_checkpoint(ALICE, "two", Checkpoint("c", "", 3, "alpha summary", "digest")))


def filled_by_old_rules(url: str, monkeypatch: pytest.MonkeyPatch) -> PostgresStore:
    with monkeypatch.context() as before:
        for module in (postgres_rows, postgres_remaking):
            before.setattr(module, "TERMS_MADE_BY", "0/of old")
        before.setattr(postgres_terms, "distinct_terms", old_rules)
        store = PostgresStore(url, blocking=True, clock=lambda: 1)
        fill(store)
    return store


def asked(store: Store, **options: object) -> list[Hit]:
    within = Within(kinds=None)
    return drive(store.search(ALICE, ["alpha"], limit=100, within=within, **options))  # pyright: ignore[reportArgumentType] (passed on)


def expected() -> MemoryStore:
    store = MemoryStore(clock=lambda: 1)
    fill(store)
    return store


def rules(url: str) -> dict[str, tuple[str, int]]:
    """By which rules each conversation is indexed, and how far it has been remade."""
    with psycopg.connect(url) as raw:
        raw.execute("SELECT set_config('turnfold.tenant', 'alice', true)")
        found = raw.execute("SELECT conversation, indexed_by, remade FROM turnfold_conversation")
        return {name: (made_by, remade) for name, made_by, remade in found.fetchall()}


def test_what_other_rules_indexed_is_indexed_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled_by_old_rules(url, monkeypatch)
    assert {made_by for made_by, _ in rules(url).values()} == {"0/of old"}
    assert asked(store, conversation="one") == asked(expected(), conversation="one")
    assert rules(url)["two"] == ("0/of old", 0)  # which nobody asked about
    assert asked(store) == asked(expected())
    assert {made_by for made_by, _ in rules(url).values()} == {postgres_rows.TERMS_MADE_BY}
    weather = Within(tools=frozenset({"weather"}))
    assert len(drive(store.search(ALICE, ["alpha"], within=weather))) == 1
    drive(store.close())


def test_what_is_not_seen_to_be_old_is_caught(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled_by_old_rules(url, monkeypatch)
    with psycopg.connect(url) as raw:
        raw.execute("SELECT set_config('turnfold.tenant', 'alice', true)")
        raw.execute(
            "UPDATE turnfold_conversation SET indexed_by = %s", (postgres_rows.TERMS_MADE_BY,)
        )
    assert asked(store) == []
    drive(store.close())


def test_who_is_stopped_between_two_steps_goes_on_where_it_was(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled_by_old_rules(url, monkeypatch)
    monkeypatch.setattr(postgres_remaking, "_STEP", 5)
    steps: list[str] = []
    step = postgres_remaking._step

    async def stopped(link: postgres_remaking.Link, place: ConversationKey) -> None:
        if len(steps) == 2:
            raise StoreUnavailable("the process is gone")
        steps.append(place.name)
        await step(link, place)

    with monkeypatch.context() as until:
        until.setattr(postgres_remaking, "_step", stopped)
        with pytest.raises(StoreUnavailable):
            asked(store)
    [done] = {name: made for name, (_, made) in rules(url).items() if made}.items()
    assert done == (steps[0], 10)
    drive(
        store.append(ALICE, done[0], [NewEntry(user("alpha late"))])
    )  # writers are served meanwhile
    twin = expected()
    drive(twin.append(ALICE, done[0], [NewEntry(user("alpha late"))]))
    assert asked(store) == asked(twin)
    drive(store.close())


def test_whoever_writes_by_other_rules_leaves_an_index_that_is_made_anew(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(url, blocking=True, clock=lambda: 1)
    fill(store)
    assert asked(store) == asked(expected())
    with monkeypatch.context() as elsewhere:
        for module in (postgres_rows, postgres_remaking):
            elsewhere.setattr(module, "TERMS_MADE_BY", "9/of tomorrow")
        elsewhere.setattr(postgres_terms, "distinct_terms", old_rules)
        drive(store.append(ALICE, "one", [NewEntry(user("alpha late"))]))
    assert rules(url)["one"][0] == ""
    twin = expected()
    drive(twin.append(ALICE, "one", [NewEntry(user("alpha late"))]))
    assert asked(store) == asked(twin)
    drive(store.close())
