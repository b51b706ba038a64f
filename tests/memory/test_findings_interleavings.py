"""Processes that note, drop and outdate findings at the same moment: whatever the order of their steps, they agree.

Every order of real steps over a store is followed; see interleaving.py for how that is affordable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.memory.fold_actors import COUNTER, NOW, begun, session_over
from tests.memory.interleaving import Explored, Finished, Interleavings, Program
from turnfold import Memory
from turnfold.errors import ConversationDeleted
from turnfold.findings import FindingRule
from turnfold.findings import store as finding_store
from turnfold.records import Document, Finding, ToolCall
from turnfold.runtime import Runtime
from turnfold.stores import MemoryStore, Scope, Store, Written

C = "c"
RULES = (
    FindingRule("search", invalidated_by=("update",)),
    FindingRule("update", side_effects=True),
)


def noter(content: str, asked: int, *, query: str = "a", most: int = 9, ran: str = "") -> Program:
    """Says that a tool ran where one is named, then notes a result of `search`."""

    async def note(store: Store, runtime: Runtime) -> object:
        findings = session_over(store, runtime, content).findings
        findings.use(RULES, most=most)
        if ran:
            await findings.ran(ran)
        call = ToolCall("", "search", f'{{"q":"{query}"}}')
        await findings.note(call, content, asked=asked)
        return await findings.get("search", {"q": query})

    return note


def dropper(store: Store, runtime: Runtime) -> object:
    return session_over(store, runtime, "dropper").findings.clear()


def deleter(store: Store, runtime: Runtime) -> object:
    return session_over(store, runtime, "deleter").delete()


def left(store: MemoryStore) -> list[Finding]:
    with Memory(store, counter=COUNTER, clock=lambda: NOW) as memory:
        return list(memory.session(C).findings.list())


def wrong(finished: Sequence[Finished]) -> list[str]:
    return [f"error: {each.error!r}" for each in finished if each.error is not None]


def the_newer(store: MemoryStore, finished: Sequence[Finished]) -> list[str]:
    kept = [each.content for each in left(store)]
    return [*wrong(finished), *([] if kept == ["newer"] else [f"kept {kept}"])]


def explored(*programs: Program, judge: object) -> Explored:
    return Interleavings(begun(2), programs, judge).all()  # pyright: ignore[reportArgumentType]


def test_the_newer_of_two_results_stays_whoever_writes_last() -> None:
    found = explored(noter("older", 3), noter("newer", 4), judge=the_newer)
    assert not found.faults, found
    assert found.orders > 1_000


def test_without_the_comparison_the_older_would_stay_in_some_orders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(finding_store, "newer_finding", lambda _, new: new)
    assert explored(noter("older", 3), noter("newer", 4), judge=the_newer).faults


class Careless(MemoryStore):
    """Writes whatever it is told, without a look at what is there."""

    async def put_document(
        self,
        scope: Scope,
        conversation: str,
        document: Document,
        *,
        expect: int | None = None,
        **fences: Any,
    ) -> Written:
        del expect
        return await super().put_document(scope, conversation, document, **fences)


def test_without_compare_and_swap_one_would_be_lost_in_some_orders() -> None:
    programs = [noter("older", 3), noter("newer", 4)]
    assert Interleavings(begun(2, store=Careless), programs, the_newer).all().faults


def test_different_calls_do_not_undo_one_another() -> None:
    def both(store: MemoryStore, finished: Sequence[Finished]) -> list[str]:
        kept = sorted(each.content for each in left(store))
        return [*wrong(finished), *([] if kept == ["one", "two"] else [f"kept {kept}"])]

    found = explored(noter("one", 3), noter("two", 3, query="b"), judge=both)
    assert not found.faults, found


def test_the_bound_holds_once_the_next_is_noted() -> None:
    """Each may have looked before the other wrote; both then stand until the next one is noted."""

    def one(store: MemoryStore, finished: Sequence[Finished]) -> list[str]:
        with Memory(store, counter=COUNTER, clock=lambda: NOW) as memory:
            findings = memory.session(C).findings
            findings.use(RULES, most=1)
            findings.note(ToolCall("", "search", "{}"), "three", score=0.1)
        kept = [each.content for each in left(store)]
        return [*wrong(finished), *([] if kept in (["one"], ["two"]) else [f"kept {kept}"])]

    found = explored(noter("one", 3, most=1), noter("two", 3, query="b", most=1), judge=one)
    assert not found.faults, found


def test_what_ran_is_not_forgotten_when_two_say_so() -> None:
    async def says(store: Store, runtime: Runtime) -> object:
        findings = session_over(store, runtime, "says").findings
        findings.use([FindingRule("search", invalidated_by=("update", "other"))])
        await findings.ran("other")

    def stale(store: MemoryStore, finished: Sequence[Finished]) -> list[str]:
        with Memory(store, counter=COUNTER, clock=lambda: NOW) as memory:
            session = memory.session(C)
            session.findings.list()
            ran = session._awaiting._cache.findings.ran
        return [*wrong(finished), *([] if set(ran) == {"update", "other"} else [f"ran {ran}"])]

    found = explored(noter("x", 3, ran="update"), says, judge=stale)
    assert not found.faults, found


def test_a_read_beside_a_change_never_holds() -> None:
    """One process reads what another is changing: the read began before the change was done."""

    async def changes(store: Store, runtime: Runtime) -> object:
        findings = session_over(store, runtime, "changes").findings
        findings.use(RULES)
        await findings.ran("update")

    def none(store: MemoryStore, finished: Sequence[Finished]) -> list[str]:
        kept = [each.content for each in left(store)]
        return [*wrong(finished), *([f"kept {kept}"] if kept else [])]

    found = explored(noter("old value", 4), changes, judge=none)
    assert not found.faults, found


def test_nothing_late_brings_an_erased_conversation_back() -> None:
    def gone(store: MemoryStore, finished: Sequence[Finished]) -> list[str]:
        errors = [
            each
            for each in finished
            if each.error and not isinstance(each.error, ConversationDeleted)
        ]
        return [*wrong(errors), *(["kept"] if left(store) else [])]

    found = explored(noter("x", 3), deleter, judge=gone)  # pyright: ignore[reportArgumentType]
    assert not found.faults, found


def test_clearing_beside_a_note_leaves_all_or_nothing_of_it() -> None:
    def sound(store: MemoryStore, finished: Sequence[Finished]) -> list[str]:
        return [*wrong(finished), *([] if len(left(store)) <= 1 else ["too many"])]

    found = explored(noter("x", 3), dropper, judge=sound)  # pyright: ignore[reportArgumentType]
    assert not found.faults, found
