"""The audit: silent about a sound session, loud about each way an entry could vanish."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.memory.fold_actors import COUNTER
from turnfold.budget import Budget
from turnfold.inspect import AuditRule, audit
from turnfold.memory import AsyncMemory, Memory, Session
from turnfold.memory.live_window import LiveWindow
from turnfold.stores import MemoryStore, Scope
from turnfold.window import Context, Omission, Outcome

BUDGET = Budget(max_tokens=900)
SCOPE = Scope("default")


def talked(store: MemoryStore, *, turns: int = 12) -> Session:
    memory = Memory(store, counter=COUNTER, budget=BUDGET, keep_turns=2)
    session = memory.session("c")
    session.system("Be careful.")
    for number in range(turns):
        session.user(f"{number}: " + "where is parcel 4711? " * 10, client_id=f"u{number}")
        session.context()
        session.assistant(f"{number}: " + "on its way. " * 10)
    return session


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(counter=COUNTER)


def rules(session: Session, context: Context | None = None) -> set[AuditRule]:
    return {fault.rule for fault in audit(session, context=context)}


def test_a_sound_session_has_no_faults(store: MemoryStore) -> None:
    session = talked(store)
    assert len(session.checkpoints()) >= 2
    assert audit(session) == []
    session.clear()
    assert audit(session) == []
    session.user("again")
    assert audit(session) == []


def test_it_is_awaited_where_there_is_an_event_loop() -> None:
    async def run() -> list[object]:
        async with AsyncMemory("sqlite://", budget=BUDGET) as memory:
            session = memory.session("c")
            await session.user("hello")
            return list(await audit(session))

    assert asyncio.run(run()) == []


def books(store: MemoryStore):  # noqa: ANN201 (the store's own)
    return store._conversations[SCOPE.tenant, "c"]


def test_an_entry_that_is_gone_is_seen(store: MemoryStore) -> None:
    session = talked(store)
    context = session.context()
    del books(store).rows[3]
    assert AuditRule.DENSE in rules(session, context)


def test_a_client_id_that_leads_nowhere_is_seen(store: MemoryStore) -> None:
    session = talked(store)
    context = session.context()
    del books(store).by_id["u3"]
    assert rules(session, context) == {AuditRule.FOUND}


def test_a_client_id_that_names_two_entries_is_seen(store: MemoryStore) -> None:
    session = talked(store)
    context = session.context()
    held = books(store)
    held.rows[-1] = held.rows[-1]._replace(client_id="u3")
    assert AuditRule.FOUND in rules(session, context)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"upto": 3}, AuditRule.TILED),
        ({"previous": "another"}, AuditRule.TILED),
        ({"digest": "00"}, AuditRule.PROVED),
        ({"text": "something else"}, AuditRule.SUMMARISED),
    ],
)
def test_a_checkpoint_that_was_changed_is_seen(
    store: MemoryStore, changes: dict[str, object], rule: AuditRule
) -> None:
    session = talked(store)
    context = session.context()
    held = books(store)
    held.checkpoints[-1] = replace(held.checkpoints[-1], **changes)
    assert rule in rules(session, context)


def test_a_checkpoint_that_covers_an_entry_too_many_is_seen(store: MemoryStore) -> None:
    session = talked(store)
    context = session.context()
    held = books(store)
    held.checkpoints[-1] = replace(held.checkpoints[-1], upto=held.checkpoints[-1].upto + 1)
    assert {AuditRule.PROVED} <= rules(session, context)


def test_a_changed_log_is_seen(store: MemoryStore) -> None:
    session = talked(store)
    context = session.context()
    held = books(store)
    held.rows[2], held.rows[4] = (
        held.rows[2]._replace(body=held.rows[4].body),
        held.rows[4]._replace(body=held.rows[2].body),
    )
    assert AuditRule.PROVED in rules(session, context)


def without_folded(fates: tuple[Omission, ...]) -> tuple[Omission, ...]:
    return tuple(fate for fate in fates if fate.outcome is not Outcome.FOLDED)


def wordless(fates: tuple[Omission, ...]) -> tuple[Omission, ...]:
    return tuple(fate._replace(outcome=Outcome.DROPPED, reason=" ") for fate in fates)


def also_dropped(fates: tuple[Omission, ...]) -> tuple[Omission, ...]:
    return (*fates, *(fate._replace(outcome=Outcome.DROPPED) for fate in fates))


@pytest.mark.parametrize("falsify", [without_folded, wordless, also_dropped])
def test_a_receipt_that_is_silent_wordless_or_says_two_things_is_seen(
    store: MemoryStore, falsify: Callable[[tuple[Omission, ...]], tuple[Omission, ...]]
) -> None:
    session = talked(store)
    context = session.context()
    context.fates = falsify(context.fates)
    assert AuditRule.ACCOUNTED in rules(session, context)


def test_a_window_that_skips_an_entry_is_seen(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = talked(store, turns=3)
    extend = LiveWindow.extend
    monkeypatch.setattr(
        LiveWindow,
        "extend",
        lambda self, entries: extend(self, [each for each in entries if each.seq != 4]),
    )
    fresh = Memory(store, counter=COUNTER, budget=BUDGET).session("c")
    assert rules(fresh) >= {AuditRule.ACCOUNTED}
    assert audit(session, context=fresh.context())


def test_a_message_that_is_sent_otherwise_is_seen(store: MemoryStore) -> None:
    session = talked(store, turns=3)
    context = session.context()
    messages = list(context.messages)
    messages[1], messages[3] = messages[3], messages[1]
    context.messages = tuple(messages)
    assert AuditRule.VERBATIM in rules(session, context)


def test_a_fault_says_what_and_where(store: MemoryStore) -> None:
    session = talked(store)
    context = session.context()
    del books(store).by_id["u3"]
    [fault] = audit(session, context=context)
    assert str(fault) == "found at entry 8: looking up its client id finds the seqs [], not 8 alone"
