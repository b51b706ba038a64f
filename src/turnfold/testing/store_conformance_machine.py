"""Any sequence of calls gives the same answers and the same typed errors as the reference, the store in memory."""

# ruff: noqa: D102, S101 (the name of a case is its sentence, and assert is what a case is made of)

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, rule, run_state_machine_as_test

from turnfold.errors import TurnfoldError
from turnfold.stores import Ability, MemoryStore, Scope
from turnfold.testing.store_conformance_strategies import (
    Operation,
    operations,
    outcome,
    settings_for,
)
from turnfold.testing.store_conformance_trial import StoreCases, Trial, drive
from turnfold.testing.store_conformance_values import character_counter, comparable, digest

__all__ = ("MachineCases",)

STEPS = 30


class _Twins(RuleBasedStateMachine):
    """The store under test and the reference, given the same calls at the same time."""

    sent = Bundle("sent")

    def __init__(self, trial: Trial, reference: MemoryStore) -> None:
        super().__init__()
        self._trial = trial
        self._reference = reference
        self._scopes = [Scope(trial.fresh("tenant")) for _ in range(2)]
        trial.clock.step = 0

    @rule(target=sent, call=operations("append"), who=st.integers(0, 1), aimed=st.booleans())
    def append(self, call: Operation, who: int, *, aimed: bool) -> tuple[Operation, int]:
        return self._compare(call, who, aimed=aimed)

    @rule(earlier=sent)
    def retry(self, earlier: tuple[Operation, int]) -> None:
        self._compare(*earlier)

    @rule(
        call=operations(
            "put_document", "note", "drop_document", "add_checkpoint", "add_checkpoint"
        ),
        who=st.integers(0, 1),
        aimed=st.booleans(),
    )
    def change(self, call: Operation, who: int, *, aimed: bool) -> None:
        self._compare(call, who, aimed=aimed)

    @rule(
        call=operations("head", "read", "read", "read_turn", "find", "tail"),
        who=st.integers(0, 1),
    )
    def read(self, call: Operation, who: int) -> None:
        self._compare(call, who)

    @rule(
        call=operations("checkpoints", "documents", "conversations", "search"),
        who=st.integers(0, 1),
    )
    def look(self, call: Operation, who: int) -> None:
        self._compare(call, who)

    @rule(call=operations("delete"), who=st.integers(0, 1), often=st.integers(0, 4))
    def delete(self, call: Operation, who: int, often: int) -> None:
        if (
            not often
        ):  # what is deleted stays so: done as often as the rest, there would soon be nothing left
            self._compare(call, who)

    @rule()
    def reopen(self) -> None:
        if Ability.DURABLE in self._trial.store.abilities:
            self._trial.run(self._trial.reopen())

    def teardown(self) -> None:
        for scope in self._scopes:
            found = self._trial.run(digest(self._trial.store, scope))
            assert found == drive(digest(self._reference, scope))

    def _compare(self, call: Operation, who: int, *, aimed: bool = False) -> tuple[Operation, int]:
        if aimed:
            call = self._aimed(call, self._scopes[who])
        self._trial.clock.now += 1
        found = self._trial.run(outcome(call, self._trial.store, self._scopes[who]))
        expected = drive(outcome(call, self._reference, self._scopes[who]))
        if isinstance(expected, TurnfoldError):
            assert type(found) is type(expected), f"{found!r} where {expected!r} is right"
        else:
            assert comparable(found) == comparable(expected)
        return call, who

    def _aimed(self, call: Operation, scope: Scope) -> Operation:
        """The call with arguments that fit where things stand, so that not every change is refused."""
        store, where = self._reference, call.conversation
        if call.verb == "add_checkpoint":
            live = len(drive(store.checkpoints(scope, where)))
            return replace(call, number=drive(store.head(scope, where)).seq, other=live)
        if call.verb == "append":
            return replace(call, expect=drive(store.head(scope, where)).seq)
        known = drive(store.get_document(scope, where, "note", call.word))
        return replace(call, expect=known.version if known else 0)


class MachineCases(StoreCases):
    """The differential run."""

    def test_any_calls_give_the_answers_of_the_reference(self, trial: Trial) -> None:
        reference = MemoryStore(counter=character_counter(), clock=trial.clock)

        class Run(_Twins):
            def __init__(self) -> None:
                super().__init__(trial, reference)

        run_state_machine_as_test(
            Run, settings=settings(settings_for(self.examples), stateful_step_count=STEPS)
        )
