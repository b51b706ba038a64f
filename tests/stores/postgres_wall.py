"""Two tenants with the same names for everything, what each is answered, and statements that forget the tenant."""

from __future__ import annotations

import re

import pytest

from turnfold.records import Checkpoint, Document, NewEntry, user
from turnfold.runtime import drive
from turnfold.stores import Scope
from turnfold.stores.postgres.store import PostgresStore
from turnfold.stores.postgres.transactions import Rows, Statement, _Transaction

__all__ = ("ALICE", "BOB", "answers", "furnish", "without_tenants")

ALICE, BOB = Scope("alice"), Scope("bob")


def furnish(store: PostgresStore) -> None:
    """Give both tenants something of every kind."""
    for scope, word in ((ALICE, "hers"), (BOB, "his")):
        drive(
            store.append(
                scope, "talk", [NewEntry(user(f"{word} alpha {n}"), f"id{n}") for n in range(3)]
            )
        )
        drive(store.append(scope, word, [NewEntry(user("alpha"))]))
        drive(store.put_document(scope, "talk", Document("note", "key", word.encode(), 0)))
        drive(store.put_document(scope, "talk", Document("note", word, b"", 0)))
        drive(
            store.add_checkpoint(scope, "talk", Checkpoint(word, "", 2, f"summary of {word}", "d"))
        )


def answers(store: PostgresStore, scope: Scope) -> list[object]:
    """What every question says about a tenant's data; times aside, which differ between tenants."""
    return [
        [entry.message.text for entry in drive(store.read(scope, "talk"))],
        [entry.message.text for entry in drive(store.read_turn(scope, "talk", 2))],
        [entry.message.text for entry in drive(store.find(scope, "talk", ["id0", "id2"]))],
        [entry.message.text for entry in drive(store.tail(scope, "talk", tokens=10**6))],
        [(made.id, made.text) for made in drive(store.checkpoints(scope, "talk"))],
        [(one.key, one.body) for one in drive(store.documents(scope, "talk", "note"))],
        drive(store.get_document(scope, "talk", "note", "key")),
        [(info.conversation, info.head) for info in drive(store.conversations(scope))],
        drive(store.head(scope, "talk")),
        drive(store.search(scope, ["alpha"])),
        drive(store.search(scope, ["hers his"], conversation="talk")),
    ]


def without_tenants(patch: pytest.MonkeyPatch) -> list[str]:
    """Take every tenant predicate out of every statement from now on; returns the statements that lost one."""
    changed: list[str] = []
    ask = _Transaction.ask

    async def mutated(self: _Transaction, *statements: Statement) -> list[Rows]:
        loose: list[Statement] = []
        for statement in statements:
            text = re.sub(r"(\w+\.)?tenant = \$1\b", "$1::text IS NOT NULL", statement.sql)
            if text != statement.sql:
                changed.append(text)
            assert "tenant = " not in text
            loose.append(Statement(text, statement.values))
        return await ask(self, *loose)

    patch.setattr(_Transaction, "ask", mutated)
    return changed
