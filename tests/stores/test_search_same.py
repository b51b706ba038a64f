"""Every backend finds the same, filtered or not, whatever was written, dropped, folded and erased before."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

from tests.stores.servers import PostgresPlaces, postgres_places
from turnfold.errors import Conflict, ConversationDeleted
from turnfold.records import Checkpoint, Document, Message, NewEntry, assistant, tool, user
from turnfold.runtime import drive
from turnfold.search import ENTRY, Within, ranking
from turnfold.stores import MemoryStore, Scope, SqliteStore, Store
from turnfold.stores import memory_store as memory_search
from turnfold.stores.postgres import search as postgres_search
from turnfold.stores.postgres.store import PostgresStore
from turnfold.stores.sqlite import search as sqlite_search
from turnfold.testing.stores.sample_values import comparable, note_now

__all__ = ("postgres_places",)

Clock = Callable[[], int]
Make = Callable[[Path, PostgresPlaces, Clock], Store]
BACKENDS: dict[str, Make] = {
    "sqlite": lambda path, _, clock: SqliteStore(path / "chat.db", blocking=True, clock=clock),
    "postgres": lambda path, places, clock: PostgresStore(
        places.url(path), blocking=True, clock=clock
    ),
}
TENANTS = count()
WORDS = ("alpha", "beta", "gamma", "北京", "你好世界", "src/app.py", "docs/a.md", "zeta", "4711")
NAMES = ("x", "y", "z", "长" * 500)
KINDS = (
    None,
    frozenset({ENTRY}),
    frozenset({"note"}),
    frozenset({"checkpoint", ENTRY}),
    frozenset({"note", "长" * 500}),
)


class Twins:
    """A store and the reference, to which the same happens."""

    def __init__(self, made: Callable[[Clock], Store], seed: int) -> None:
        self.dice = random.Random(seed)  # noqa: S311 (chooses steps, guards nothing)
        self.now = 0
        self.stores = (MemoryStore(clock=lambda: self.now), made(lambda: self.now))
        number = next(TENANTS)
        self.scopes = (Scope(f"a{number}"), Scope(f"b{number}"))
        self.calls = 0

    def both(self, verb: str, *values: Any, **options: Any) -> object:
        answers = []
        for store in self.stores:
            call = partial(note_now, store) if verb == "note" else getattr(store, verb)
            try:
                answers.append(comparable(drive(call(*values, **options))))
            except (Conflict, ConversationDeleted) as error:
                answers.append(type(error))
        assert answers[0] == answers[1], (verb, values, options)
        return answers[0]

    def step(self) -> None:
        """Something happens."""
        self.now += 1
        dice = self.dice
        place = (dice.choice((*self.scopes, self.scopes[0])), dice.choice(NAMES))
        what = dice.choices(
            (self.say, self.note, self.drop, self.fold, self.erase), (10, 3, 1, 2, 1)
        )
        what[0](*place)

    def say(self, scope: Scope, name: str) -> None:
        new = [NewEntry(self.message()) for _ in range(self.dice.randint(1, 4))]
        self.both("append", scope, name, new)

    def message(self) -> Message:
        dice = self.dice
        match dice.randrange(5):
            case 0 | 1:
                return user(self.text())
            case 2:
                return assistant(self.text())
            case 3:
                self.calls += 1
                function = {"name": dice.choice("fg"), "arguments": "{}"}
                call = {"id": f"c{self.calls % 5}", "type": "function", "function": function}
                return assistant(self.text(), tool_calls=[call])
            case _:
                said_by = dice.choice((None, None, "h"))
                return tool(self.text(), tool_call_id=f"c{dice.randrange(6)}", name=said_by)

    def text(self) -> str:
        return " ".join(self.dice.choices(WORDS, k=self.dice.randint(0, 5)))

    def note(self, scope: Scope, name: str) -> None:
        document = Document(*self.document(), b"x", 0, text=self.text())
        if self.dice.random() < 0.3:
            self.both("note", scope, name, document)
        else:
            self.both("put_document", scope, name, document)

    def document(self) -> tuple[str, str]:
        return self.dice.choice(("note", "长" * 500)), self.dice.choice(("k", "键" * 400))

    def drop(self, scope: Scope, name: str) -> None:
        self.both("drop_document", scope, name, *self.document())

    def fold(self, scope: Scope, name: str) -> None:
        head = drive(self.stores[0].head(scope, name))
        made = Checkpoint(f"c{self.now}", head.checkpoint, head.seq, self.text(), "digest")
        self.both("add_checkpoint", scope, name, made)

    def erase(self, scope: Scope, name: str) -> None:
        if self.dice.random() < 0.4:
            self.both("delete", scope, name)

    def search(self) -> None:
        """Somebody searches."""
        dice = self.dice
        terms = dice.choices((*WORDS, "and the", "src/"), k=dice.randint(1, 4))
        within = self.within()
        name = dice.choice((None, None, "x", "y", "nobody"))
        limit = dice.choice((2, 40))
        self.both("search", self.scopes[0], terms, conversation=name, limit=limit, within=within)

    def within(self) -> Within:
        dice, kinds = self.dice, self.dice.choice(KINDS)

        def maybe(*values: str) -> frozenset[str]:
            chosen = dice.sample(values, 2) if dice.random() < 0.25 else ()
            return frozenset(chosen)

        within = Within(kinds=kinds, paths=maybe("src", "./docs/a.md", "nowhere", "src/app.py"))
        if dice.random() < 0.25:
            within = replace(within, since=dice.randint(0, 15))
        if dice.random() < 0.25:
            within = replace(within, until=dice.randint(16, 40))
        if kinds is None or ENTRY in kinds:
            first = dice.randint(0, 6)
            turns = (first, first + dice.randint(0, 5)) if dice.random() < 0.25 else None
            tools, roles = maybe("f", "g", "h", "nothing"), maybe("user", "assistant", "tool")
            within = replace(within, tools=tools, roles=roles, turns=turns)
        return within


@pytest.fixture(params=BACKENDS.values(), ids=list(BACKENDS))
def made(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_places: PostgresPlaces
) -> Iterator[Callable[[Clock], Store]]:
    opened: list[Store] = []

    def make(clock: Clock) -> Store:
        opened.append(request.param(tmp_path, postgres_places, clock))
        return opened[-1]

    yield make
    for store in opened:
        drive(store.close())
    postgres_places.sweep()


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few are weighed, and so few walked, that every search has to choose."""
    monkeypatch.setattr(ranking, "MOST_WALKED", 6)
    for module in (ranking, memory_search, sqlite_search, postgres_search):
        monkeypatch.setattr(module, "MOST_CANDIDATES", 5)


def lives(made: Callable[[Clock], Store], seeds: range) -> None:
    for seed in seeds:
        twins = Twins(made, seed)
        for _ in range(30):
            twins.step()
            if twins.dice.random() < 0.4:
                twins.search()
        for store in twins.stores:
            drive(store.close())


def test_every_backend_finds_the_same(made: Callable[[Clock], Store]) -> None:
    lives(made, range(12))


@pytest.mark.usefixtures("few")
def test_every_backend_chooses_the_same(made: Callable[[Clock], Store]) -> None:
    lives(made, range(100, 112))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", [0, 1000, 2000])
def test_every_backend_finds_the_same_for_long(
    made: Callable[[Clock], Store], first: int, request: pytest.FixtureRequest
) -> None:
    if first:
        request.getfixturevalue("few")
    lives(made, range(first, first + 80))


@pytest.mark.parametrize("module", [sqlite_search, postgres_search])
def test_a_backend_that_forgets_a_filter_is_caught(
    made: Callable[[Clock], Store], module: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "required_marks", lambda _within: [])
    twins = Twins(made, 0)
    ours = "sqlite" in getattr(module, "__name__", "")
    if ours != isinstance(twins.stores[1], SqliteStore):
        pytest.skip("the other backend's module")
    with pytest.raises(AssertionError):
        lives(made, range(12))
