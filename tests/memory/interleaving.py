"""Every order in which processes that share a store can take their steps, without running each order.

A process is real code over a store whose every verb is a step: it stops before the verb and goes on with its outcome.
The store is all that processes share, and a verb is atomic there, so that what lies between two verbs of one process
cannot matter to another: "before a verb" and "after the one before it" are the same place.

Two things make all orders affordable, and neither leaves any out. What a process asks next depends only on the outcomes
it has seen (nothing in it looks at a clock or a die), so it is run once per row of outcomes and remembered. And two
orders that lead to the same content of the store with the same rows of outcomes have the same future, so that they are
followed once. How many orders that future stands for is counted exactly: a share of orders is a share of all of them.

Where a process has several strands (a call and the fold it began in the background), `merged` takes the order among its
own strands for no matter: strands that share nothing but the store and their locks are the same after the same outcomes
of each. That is an argument about the code, so a test counts with it and without where both are cheap.
"""

from __future__ import annotations

import gc
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Hashable, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import pytest

from tests.memory.store_copies import content, copied, fingerprint
from tests.stores.epochs import draw_one_epoch
from turnfold.errors import TurnfoldError
from turnfold.runtime import Runtime, drive
from turnfold.stores import MemoryStore, Store

__all__ = ("Explored", "Finished", "Interleavings", "Program")

Program = Callable[[Store, Runtime], Coroutine[object, object, object]]
"""What a process does, given its store and its way of waiting."""
Judge = Callable[[MemoryStore, "Sequence[Finished]"], Sequence[str]]
"""The kinds of faults at an end, from the store and what each process returned."""

_WRITES = frozenset({"append", "add_checkpoint", "put_document", "drop_document", "delete"})


class Step(NamedTuple):
    """A verb a process asks of the store."""

    verb: str
    args: tuple[object, ...] = ()
    options: tuple[tuple[str, object], ...] = ()


class Outcome(NamedTuple):
    """What the store answered: a value, or an error to raise."""

    value: object = None
    error: TurnfoldError | None = None


class Finished(NamedTuple):
    """How a process ended: with a value or an error; neither when it waits for ever."""

    value: object
    error: BaseException | None
    stuck: bool


class _Asked:
    def __init__(self, step: Step | _Turnstile) -> None:
        self._step = step

    def __await__(self) -> Generator[Step | _Turnstile, object, object]:
        return (yield self._step)


class _SteppedStore:
    """Each verb is a step."""

    abilities = MemoryStore.abilities
    blocking = False
    left = False
    """Whether the process is followed no further: what it still asks on its way out has no answer."""

    def __getattr__(self, verb: str) -> Callable[..., Coroutine[object, object, object]]:
        async def ask(*args: object, **options: object) -> object:
            if self.left:
                raise GeneratorExit
            return await _Asked(Step(verb, args, tuple(sorted(options.items()))))

        return ask


class _Turnstile:
    """Lets one strand of a process through at a time."""

    def __init__(self) -> None:
        self.held = False

    async def __aenter__(self) -> None:
        while self.held:
            await _Asked(self)
        self.held = True

    async def __aexit__(self, *_: object) -> None:
        self.held = False


class _SteppedWay:
    """Background work is another strand of the process; a pause and a question are over at once.

    While a model answers others go on: that is the place between the read of the range and the commit.
    """

    stopping = False

    def __init__(self, process: _Process) -> None:
        self._process = process
        self._names: set[str] = set()

    def lock(self) -> AbstractAsyncContextManager[None]:
        return _Turnstile()

    async def ask(self, question: Callable[[], object], *, seconds: float) -> object:
        assert seconds > 0
        return question()

    async def compute(self, work: Callable[[], object]) -> object:
        return work()

    async def pause(self, seconds: float) -> None:
        assert seconds >= 0

    def begin(self, name: str, work: Callable[[], Coroutine[object, None, None]]) -> bool:
        if name in self._names:
            return False
        self._names.add(name)

        async def run() -> None:
            await work()
            self._names.discard(name)

        self._process.spawn(run())
        return True

    async def finish(self, *, cancel: bool = False) -> None:
        assert not cancel


@dataclass(slots=True)
class _Strand:
    coroutine: Coroutine[object, object, object]
    asks: Step | _Turnstile | None = None
    value: object = None
    error: BaseException | None = None


class _Process:
    """Strands that share what a process holds in memory."""

    def __init__(self, program: Program) -> None:
        self.strands: list[_Strand] = []
        self._store = _SteppedStore()
        self.spawn(program(cast("Store", self._store), cast("Runtime", _SteppedWay(self))))

    def spawn(self, coroutine: Coroutine[object, object, object]) -> None:
        self.strands.append(_Strand(coroutine))
        self.go_on(len(self.strands) - 1, Outcome())

    def go_on(self, number: int, outcome: Outcome) -> None:
        strand = self.strands[number]
        try:
            if outcome.error is not None:
                asked = strand.coroutine.throw(outcome.error)
            else:
                asked = strand.coroutine.send(outcome.value)
        except StopIteration as stop:
            strand.asks, strand.value = None, stop.value
        except Exception as error:
            strand.asks, strand.error = None, error
        else:
            strand.asks = cast("Step | _Turnstile", asked)

    def moves(self) -> list[tuple[int, Step]]:
        """The strands that can go on, each with what it asks."""
        found: list[tuple[int, Step]] = []
        for number, strand in enumerate(self.strands):
            if isinstance(strand.asks, Step):
                found.append((number, strand.asks))
            elif strand.asks is not None and not strand.asks.held:
                found.append((number, Step("enter")))
        return found

    def waits(self) -> bool:
        """Whether a strand waits for another."""
        return any(isinstance(strand.asks, _Turnstile) for strand in self.strands)

    def finished(self) -> Finished:
        main = self.strands[0]
        errors = [strand.error for strand in self.strands if strand.error is not None]
        stuck = any(strand.asks is not None for strand in self.strands)
        return Finished(main.value, main.error or (errors[0] if errors else None), stuck)

    def leave(self) -> None:
        """Follow it no further."""
        self._store.left = True
        for strand in self.strands:
            strand.coroutine.close()


class _World:
    """The contents of the store that were ever reached, and what each verb did to each."""

    def __init__(self, store: MemoryStore) -> None:
        self.stores: list[MemoryStore] = []
        self.outcomes: list[Outcome] = []
        self._numbers: dict[Hashable, int] = {}
        self._outcome_numbers: dict[Hashable, int] = {}
        self._known: dict[tuple[int, int], tuple[int, int]] = {}
        self.first = self._number(store)

    def take(self, world: int, number: int, step: Step) -> tuple[int, int]:
        """The world and the outcome after a step, by their numbers."""
        known = self._known.get((world, number))
        if known is None:
            known = self._known[world, number] = self._taken(world, step)
        return known

    def _taken(self, world: int, step: Step) -> tuple[int, int]:
        store = self.stores[world]
        if step.verb in _WRITES:
            store = copied(store)
        outcome = Outcome()
        if step.verb != "enter":
            try:
                outcome = Outcome(
                    drive(getattr(store, step.verb)(*step.args, **dict(step.options)))
                )
            except TurnfoldError as error:
                outcome = Outcome(error=error)
        key = fingerprint(outcome)
        number = self._outcome_numbers.setdefault(key, len(self.outcomes))
        if number == len(self.outcomes):
            self.outcomes.append(outcome)
        return (self._number(store) if step.verb in _WRITES else world), number

    def _number(self, store: MemoryStore) -> int:
        number = self._numbers.setdefault(content(store), len(self.stores))
        if number == len(self.stores):
            self.stores.append(store)
        return number


@dataclass(slots=True)
class _Node:
    """A process after one row of outcomes."""

    history: tuple[tuple[int, int], ...]
    moves: tuple[tuple[int, int, Step], ...]
    """(strand, number of the step, the step) of everything that can go on."""
    finished: Finished
    after: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])


class _Behaviour:
    """What one program asks after each row of outcomes; the program is run where that is not known yet."""

    _HELD = 256

    def __init__(
        self, program: Program, world: _World, steps: dict[Hashable, int], *, merged: bool
    ) -> None:
        self._program, self._world, self._steps, self._merged = program, world, steps, merged
        self._live: dict[int, _Process] = {}
        self._alike: dict[Hashable, int] = {}
        """Nodes by what their strands have seen and, where strands wait for each other, by what each asks."""
        self._waited = False
        self.nodes: list[_Node] = []
        self._add((), _Process(program))

    def next(self, node: int, strand: int, outcome: int) -> int:
        known = self.nodes[node].after.get((strand, outcome))
        if known is None:
            history = (*self.nodes[node].history, (strand, outcome))
            if self._merged and not self._waited:
                alike = self._alike.get((_rows(history), ()))
                if alike is not None:
                    self.nodes[node].after[strand, outcome] = alike
                    return alike
            process = self._live.pop(node, None)
            if process is None:
                process = _Process(self._program)
                for number, seen in history[:-1]:
                    process.go_on(number, self._world.outcomes[seen])
            process.go_on(strand, self._world.outcomes[outcome])
            known = self.nodes[node].after[strand, outcome] = self._add(history, process)
        return known

    def _add(self, history: tuple[tuple[int, int], ...], process: _Process) -> int:
        moves = tuple(
            (strand, self._steps.setdefault(fingerprint(step), len(self._steps)), step)
            for strand, step in process.moves()
        )
        if self._merged:
            self._waited = self._waited or process.waits()
            alike = (_rows(history), tuple(move[:2] for move in moves) if self._waited else ())
            known = self._alike.setdefault(alike, len(self.nodes))
            if known < len(self.nodes):
                process.leave()
                return known
        self.nodes.append(_Node(history, moves, process.finished()))
        self._live[len(self.nodes) - 1] = process
        if len(self._live) > self._HELD:
            self._live.pop(next(iter(self._live))).leave()
        return len(self.nodes) - 1

    def leave(self) -> None:
        """Keep what is known, and no process."""
        while self._live:
            self._live.popitem()[1].leave()


def _rows(history: Sequence[tuple[int, int]]) -> Hashable:
    """The outcomes of each strand, without the order in which different strands had theirs."""
    rows: dict[int, list[int]] = {}
    for strand, outcome in history:
        rows.setdefault(strand, []).append(outcome)
    return tuple((strand, *rows[strand]) for strand in sorted(rows))


@dataclass(slots=True)
class Explored:
    """What was found."""

    orders: int = 0
    """Orders in which the processes can take their steps."""
    faults: Counter[str] = field(default_factory=Counter[str])
    """Kind of fault -> orders that end with it."""
    states: int = 0
    ends: int = 0
    """Different ends, by content of the store and outcomes."""
    runs: int = 0
    """Rows of outcomes the real code was run for."""

    def __str__(self) -> str:
        faults = ", ".join(f"{kind} {n / self.orders:.1%}" for kind, n in self.faults.items())
        return (
            f"{self.orders:,} orders ({self.states:,} states, {self.ends:,} ends, {self.runs:,} rows of outcomes): "
            f"{faults or 'no faults'}"
        )


_State = tuple[int, ...]
"""The number of the world, then that of each process's node."""
_BITS = 28
"""Bits of each of these numbers."""


def _packed(state: _State) -> int:
    """The state as one number: there are millions of them, and a tuple takes five times the memory."""
    key = 0
    for number in state:
        key = key << _BITS | number
    return key


class _Place(NamedTuple):
    """A state, and those that follow it, with their keys."""

    state: _State
    after: list[_State]
    keys: list[int]


class _Totals:
    """Orders and faults from each state on, by its key."""

    def __init__(self) -> None:
        self.orders: dict[int, int] = {}
        self._faults: dict[int, Counter[str]] = {}
        """Of the states that have any."""

    def of(self, key: int) -> tuple[int, Counter[str]]:
        return self.orders[key], self._faults.get(key, Counter())

    def add(self, place: _Place, verdict: Sequence[str]) -> None:
        key = _packed(place.state)
        self.orders[key] = sum(self.orders[each] for each in place.keys) or 1
        faults = Counter(verdict)
        for each in place.keys:
            if found := self._faults.get(each):
                faults.update(found)
        if faults:
            self._faults[key] = faults


@contextmanager
def _no_collector() -> Generator[None]:
    """Nothing that is remembered is cyclic, and there are millions of it to walk through.

    Epochs are all the same meanwhile: drawn at random they would make no two contents of a store equal.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        with pytest.MonkeyPatch.context() as patched:
            draw_one_epoch(patched)
            yield
    finally:
        if was:
            gc.enable()


class Interleavings:
    """The orders of some programs over one store."""

    def __init__(
        self,
        store: MemoryStore,
        programs: Sequence[Program],
        judge: Judge,
        *,
        merged: bool = False,
    ) -> None:
        self._world = _World(copied(store))
        steps: dict[Hashable, int] = {}
        self._behaviours = [
            _Behaviour(program, self._world, steps, merged=merged) for program in programs
        ]
        self._judge = judge
        self._verdicts: dict[_State, tuple[str, ...]] = {}
        self._start: _State = (self._world.first, *(0 for _ in programs))

    def all(self) -> Explored:
        """Every order there is."""
        with _no_collector():
            return self._all()

    def _all(self) -> Explored:
        totals = _Totals()
        path = [self._place(self._start)]
        while path:
            place = path[-1]
            missing = next(
                (at for at, key in enumerate(place.keys) if key not in totals.orders), None
            )
            if missing is not None:
                path.append(self._place(place.after[missing]))
                continue
            totals.add(place, () if place.after else self._verdict(place.state))
            path.pop()
        orders, faults = totals.of(_packed(self._start))
        return self._explored(orders, faults, states=len(totals.orders))

    def _place(self, state: _State) -> _Place:
        after = self._after(state)
        return _Place(state, after, [_packed(each) for each in after])

    def some(self, runs: int, *, seed: int) -> Explored:
        """Random orders: before each step, each process that can go on is as likely as any other."""
        dice = random.Random(seed)  # noqa: S311 (a run that can be repeated)
        faults: Counter[str] = Counter()
        seen: set[_State] = set()
        for _ in range(runs):
            state = self._start
            while after := self._after(state):
                state = dice.choice(after)
                seen.add(state)
            faults.update(self._verdict(state))
        return self._explored(runs, faults, states=len(seen))

    def _explored(self, orders: int, faults: Counter[str], *, states: int) -> Explored:
        for behaviour in self._behaviours:
            behaviour.leave()
        runs = sum(len(behaviour.nodes) for behaviour in self._behaviours)
        return Explored(orders, faults, states, len(self._verdicts), runs)

    def _after(self, state: _State) -> list[_State]:
        found: list[_State] = []
        world = state[0]
        for process, behaviour in enumerate(self._behaviours, 1):
            node = state[process]
            for strand, number, step in behaviour.nodes[node].moves:
                reached, outcome = self._world.take(world, number, step)
                following = behaviour.next(node, strand, outcome)
                found.append((reached, *state[1:process], following, *state[process + 1 :]))
        return found

    def _verdict(self, state: _State) -> tuple[str, ...]:
        known = self._verdicts.get(state)
        if known is None:
            nodes = zip(self._behaviours, state[1:], strict=True)
            finished = [behaviour.nodes[node].finished for behaviour, node in nodes]
            stuck = ("stuck",) if any(each.stuck for each in finished) else ()
            known = (*stuck, *self._judge(copied(self._world.stores[state[0]]), finished))
            known = self._verdicts[state] = tuple(sorted(set(known)))
        return known
