"""Random schedules of handles on one conversation, with everything that can go wrong beside them.

A schedule is made from its seed alone: several handles say things, call tools with small and huge results, ask for
contexts, report usage, look, fold, start over. Their steps are interleaved at every call of the store, before it and
between its effect and its reply. Beside them models are slow, fail or never answer, callers are interrupted (at a call
of the store, or at any line of this library), handles are killed and opened anew, and the store fails over to an
earlier state of itself and goes on from there. Every context is judged by `oracle` with what the store held at the
moment the call was taken.
"""

from __future__ import annotations

import linecache
import random
import sys
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, cast

from tests.memory.fold_actors import COUNTER, NOW, SCOPE
from tests.memory.oracle import Books, Judged, faults
from tests.memory.store_copies import copied
from turnfold.budget import Budget
from turnfold.errors import Conflict, NotFound
from turnfold.memory import AsyncSession, Memory
from turnfold.memory.drive import drive
from turnfold.memory.front_door import make_setting
from turnfold.memory.manifests import CALL, read_manifest
from turnfold.memory.notes import CLEARED, SESSION, STAND_IN, ClearedNote, StandIn, read_note
from turnfold.memory.waiting import Way
from turnfold.memory.writers import SummaryTask
from turnfold.records import Document, Entry, Message, NewEntry, Usage, assistant, tool, user
from turnfold.stores.memory_store import MemoryStore
from turnfold.stores.protocol import Store
from turnfold.testing.audit import audit

__all__ = ("Kind", "run_schedule", "run_schedules")

_PACKAGE = str(Path(sys.modules["turnfold"].__file__ or "").parent)
_TRACED = (f"{_PACKAGE}/memory/", f"{_PACKAGE}/window/")
_PAGE = 500


@dataclass(frozen=True)
class Kind:
    """What may happen in a schedule."""

    name: str
    modes: tuple[str, ...] = ("inline", "background")
    models: tuple[str, ...] = ("extract", "good", "fails", "slow", "stuck")
    handles: int = 2
    acts: int = 3
    interrupts: float = 0.0
    """Share of the acts that are interrupted."""
    lines: bool = False
    """Whether they are interrupted at any line, not only at calls of the store."""
    kills: float = 0.0
    failovers: int = 0
    reports: bool = False
    """Whether usage is reported beside what a handle does, as a program does that waits for no report."""
    huge: float = 0.15
    """Share of the tool results that are larger than the budget."""


_BUDGETS = (Budget(max_tokens=800), Budget(max_tokens=1_500))
_NAME = "c"
_BEGINNINGS = 24
"""Conversations that schedules begin with, for each budget."""


@cache
def _begun(budget: Budget, number: int) -> MemoryStore:
    """A conversation that nearly fills the budget, or more than fills it, and was not folded yet."""
    dice = random.Random(number)  # noqa: S311 (the same on every machine)
    store = MemoryStore(counter=COUNTER, clock=lambda: NOW)
    session = Memory(store, counter=COUNTER, budget=budget, checkpoint="manual").session(_NAME)
    if dice.random() < 0.5:
        session.system("You are careful. 请谨慎。")
    full, said = dice.choice((0.0, 0.6, 0.9, 1.3)) * budget.tokens, 0
    while drive(store.head(SCOPE, _NAME)).tokens < full:
        said += 1
        session.user(f"begun {said} " + "字词" * dice.choice((2, 12, 40)))
        if dice.random() < 0.3:
            call = {"id": f"b{said}", "function": {"name": "look", "arguments": "{}"}}
            session.assistant(tool_calls=[call])
            session.tool(f"seen {said} " + "word " * 30, tool_call_id=f"b{said}")
        session.assistant(f"answered {said} " + "word " * dice.choice((2, 20)))
    return store


class _Pause:
    """A place where another task may go on."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class _Lock:
    """Lets one task of a handle through at a time; a call that was interrupted leaves none held, as `drive` has it."""

    def __init__(self, world: _World) -> None:
        self._world = world
        self.holder: _Task | None = None
        world.locks.append(self)

    async def __aenter__(self) -> None:
        while self.holder is not None:
            await _Pause()
        self.holder = self._world.current

    async def __aexit__(self, *_: object) -> None:
        self.holder = None


@dataclass(eq=False)
class _Task:
    coroutine: Coroutine[object, None, object]
    handle: _Handle
    interrupt: int = 0
    """Lines after which it is interrupted; below 0: pauses after which it is. 0 for never."""


class _SteppedWay:
    """How a handle waits in a schedule: every wait is a pause, work in the background is another task."""

    stopping = False

    def __init__(self, handle: _Handle) -> None:
        self._handle = handle
        self._names: set[str] = set()

    def turnstile(self) -> AbstractAsyncContextManager[None]:
        return _Lock(self._handle.world)

    async def ask(self, question: Callable[[], object], *, seconds: float) -> object:
        assert seconds > 0
        return question()

    async def pause(self, seconds: float) -> None:
        assert seconds >= 0
        await _Pause()

    def begin(self, name: str, work: Callable[[], Coroutine[object, None, None]]) -> bool:
        if name in self._names:
            return False
        self._names.add(name)

        async def run() -> None:
            try:
                await work()
            finally:
                self._names.discard(name)

        self._handle.world.tasks.append(_Task(run(), self._handle))
        return True


class _SteppedStore:
    """A store with a pause before every verb and another before its reply; it tells the world of every call taken."""

    blocking = False

    def __init__(self, handle: _Handle) -> None:
        self._handle = handle
        self.abilities = handle.world.store.abilities

    def __getattr__(self, verb: str) -> Callable[..., Coroutine[object, None, object]]:
        handle = self._handle

        async def ask(*args: object, **options: object) -> object:
            await _Pause()
            answer = await getattr(handle.world.store, verb)(*args, **options)
            if verb in ("note", "put_document"):
                document = cast("Document", args[2])
                if document.kind == CALL and not options.get("expect"):
                    handle.taken = (document, handle.world.books(), handle.world.history)
            await _Pause()
            return answer

        return ask


class _Model:
    """A summariser: good, failing, slow, or never answering."""

    def __init__(self, kind: str, dice: random.Random, *, patience: int) -> None:
        self.name = kind
        self._dice = dice
        self._patience = patience

    async def write(self, task: SummaryTask, way: Way) -> str:  # noqa: ARG002 (it pauses by itself)
        if self.name == "stuck":
            for _ in range(self._patience):
                await _Pause()
            raise TimeoutError("no answer")
        for _ in range(self._dice.randrange(40) if self.name == "slow" else 1):
            await _Pause()
        if self.name == "fails" and self._dice.random() < 0.7:
            raise RuntimeError("503")
        return "summary of " + " ".join(passage.text[:8] for passage in task.passages[-6:])


@dataclass(eq=False)
class _Handle:
    world: _World
    number: int
    session: AsyncSession = field(init=False)
    taken: tuple[Document, Books, int] | None = None
    """The call taken last: its manifest, what the store held then, in which history."""
    alive: bool = True

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        world = self.world
        model = world.model
        setting = make_setting(
            cast("Store", _SteppedStore(self)),
            cast("Way", _SteppedWay(self)),
            blocking=False,
            counter=COUNTER,
            budget=world.budget,
            summarizer=None
            if model == "extract"
            else _Model(model, world.dice, patience=50 if world.mode == "inline" else 1_000_000),
            checkpoint=world.mode,
            keep_turns=world.dice.randrange(3),
            backoff=0.0,
            clock=lambda: NOW,
        )
        self.session = AsyncSession(world.name, setting)


class _World:
    """One schedule."""

    def __init__(self, seed: int, kind: Kind, store: Store | None = None) -> None:
        self.dice = random.Random(seed)  # noqa: S311 (a schedule that can be repeated)
        self.kind = kind
        self.budget = self.dice.choice(_BUDGETS)
        begun = _begun(self.budget, self.dice.randrange(_BEGINNINGS))
        self.name = f"schedule {kind.name} {seed}" if store else _NAME
        self.store: Store = store or copied(begun)
        if store is not None and (said := drive(begun.read(SCOPE, _NAME))):
            drive(store.append(SCOPE, self.name, [NewEntry(entry.message) for entry in said]))
        self.mode, self.model = self.dice.choice(kind.modes), self.dice.choice(kind.models)
        self.tasks: list[_Task] = []
        self.locks: list[_Lock] = []
        self.current: _Task | None = None
        self.said = 0
        self.history = 0
        self.acknowledged: dict[int, str] = {}
        """Text by seq of everything acknowledged in this history."""
        self.found: list[str] = []
        self._saved: MemoryStore | None = None

    # ------------------------------------------------------------------------------------- running

    def run(self) -> list[str]:
        """Run to the end; everything that was wrong."""
        handles = [_Handle(self, number) for number in range(self.kind.handles)]
        for handle in handles:
            self.tasks.append(_Task(self._program(handle), handle))
        failovers = self.kind.failovers
        steps = 0
        while any(not _is_background(task) for task in self.tasks):
            task = self.dice.choice(self.tasks)
            self._step(task)
            steps += 1
            if steps > 50_000:
                return [*self.found, "hang: the schedule does not end"]
            if failovers and self.dice.random() < 0.01:
                failovers -= self._fail_over()
        for task in self.tasks:  # models that never answer
            task.coroutine.close()
            self._release(task)
        self.tasks.clear()
        self._settle([handle for handle in handles if handle.alive])
        return self.found

    def _step(self, task: _Task) -> None:
        self.current = task
        try:
            if task.interrupt < 0:
                task.interrupt += 1
                if task.interrupt == 0:
                    task.coroutine.throw(KeyboardInterrupt())
                    return
            if task.interrupt > 0:
                self._traced(task)
            else:
                task.coroutine.send(None)
        except StopIteration:
            self.tasks.remove(task)
        except KeyboardInterrupt:  # in the background nobody catches it
            self._release(task)
            self.tasks.remove(task)
        except RecursionError:
            raise
        except Exception as error:
            self.tasks.remove(task)
            self.found.append(f"raised: {type(error).__name__}: {error}")

    def _release(self, task: _Task) -> None:
        for lock in self.locks:
            if lock.holder is task:
                lock.holder = None

    def _traced(self, task: _Task) -> None:
        """Let the task go on, and interrupt it after some lines of this library."""

        def line(frame: FrameType, event: str, _: object) -> Any:
            if event == "line" and _can_interrupt(frame.f_code.co_filename, frame.f_lineno):
                task.interrupt -= 1
                if task.interrupt == 0:
                    raise KeyboardInterrupt
            return line

        sys.settrace(line)
        try:
            task.coroutine.send(None)
        finally:
            sys.settrace(None)

    # ------------------------------------------------------------------------------------- programs

    async def _program(self, handle: _Handle) -> None:
        acts = [
            self._turn,
            self._turn,
            self._turn,
            self._loop,
            self._loop,
            self._look,
            self._usage,
            self._fold,
        ]
        task = next(task for task in self.tasks if task.handle is handle)
        for _ in range(self.kind.acts):
            act = self.dice.choice(acts)
            if self.dice.random() < self.kind.interrupts:
                most = 400 if self.kind.lines else 12
                task.interrupt = (1 if self.kind.lines else -1) * self.dice.randrange(1, most)
            if self.kind.reports:
                self.tasks.append(_Task(self._usage(handle), handle))
            try:
                await act(handle)
            except KeyboardInterrupt:
                self._release(task)
            except (Conflict, NotFound):
                if not self.kind.failovers:
                    raise
            finally:
                task.interrupt = 0
            if self.dice.random() < self.kind.kills:
                handle.open()  # what it held in memory is gone; its background tasks never go on
                self.locks.clear()
                self.tasks = [
                    each for each in self.tasks if each.handle is not handle or each is task
                ]

    def _text(self, size: int) -> str:
        self.said += 1
        return f"#{self.said}# " + self.dice.choice(("word ", "字词", "x1 ")) * size

    async def _say(self, handle: _Handle, message: Message, text: str) -> None:
        entry = NewEntry(message, f"m{self.said}")
        history = self.history
        done = await handle.session.add([entry])
        if history == self.history:
            self.acknowledged[done.first] = text

    async def _turn(self, handle: _Handle) -> None:
        text = self._text(self.dice.choice((2, 12, 40)))
        await self._say(handle, user(text), text)
        await self._context(handle)
        text = self._text(self.dice.choice((2, 12, 40)))
        await self._say(handle, assistant(text), text)

    async def _loop(self, handle: _Handle) -> None:
        for _ in range(self.dice.randrange(1, 4)):
            self.said += 1
            call = {"id": f"c{self.said}", "function": {"name": "look", "arguments": "{}"}}
            await self._say(handle, assistant(None, tool_calls=[call]), "")
            huge = self.dice.random() < self.kind.huge
            size = self.budget.tokens if huge else self.dice.choice((4, 20, 80))
            text = self._text(size)
            await self._say(handle, tool(text, tool_call_id=cast("str", call["id"])), text)
            await self._context(handle)

    async def _look(self, handle: _Handle) -> None:
        await handle.session.status()

    async def _usage(self, handle: _Handle) -> None:
        if handle.session.last_call:
            with suppress(Conflict, NotFound):  # two reports of one call, or of one that is lost
                await handle.session.record_usage(Usage(input=10, output=1))

    async def _fold(self, handle: _Handle) -> None:
        if self.model in ("extract", "good"):
            await handle.session.checkpoint(keep_turns=1)

    async def _context(self, handle: _Handle) -> tuple[str, ...]:
        known, history = max(self.acknowledged, default=0), self.history
        handle.taken = None
        context = await handle.session.context()
        if handle.taken is None:
            self.found.append("unseen: a context was answered without a call")
            return ()
        document, books, where = cast("tuple[Document, Books, int]", handle.taken)
        judged = Judged(context, read_manifest(document), COUNTER, known if where == history else 0)
        self.found += faults(judged, books)
        return tuple(message.text for message in context.messages)

    # ------------------------------------------------------------------------------------- the store

    def books(self) -> Books:
        """What the store holds now."""
        entries = list[Entry]()
        while page := drive(self.store.read(SCOPE, self.name, after=len(entries), limit=_PAGE)):
            entries += page
        cleared = drive(self.store.get_document(SCOPE, self.name, SESSION, CLEARED))
        stood_in = drive(self.store.documents(SCOPE, self.name, STAND_IN))
        checkpoints = drive(self.store.checkpoints(SCOPE, self.name))
        return Books(
            entries,
            {each.id: each for each in checkpoints},
            {each.key: StandIn.read(each).text for each in stood_in},
            read_note(cleared, ClearedNote).upto,
        )

    def _fail_over(self) -> bool:
        """Remember this state, or go back to the one remembered; whether that was done."""
        store = cast("MemoryStore", self.store)
        if self._saved is None:
            self._saved = copied(store)
            return False
        self.store, self._saved = self._saved, None
        self.history += 1
        newest = len(self.books().entries)
        self.acknowledged = {seq: text for seq, text in self.acknowledged.items() if seq <= newest}
        return True

    # ------------------------------------------------------------------------------------- the end

    def _settle(self, handles: list[_Handle]) -> None:
        """When all is quiet: what was acknowledged is there once, and every handle shows the same."""
        entries = self.books().entries
        texts = [entry.message.text for entry in entries]
        for seq, text in self.acknowledged.items():
            if seq > len(texts) or (text and texts[seq - 1] != text):
                self.found.append(f"lost: {text[:12]!r} was acknowledged at {seq}")
        spoken = [text for text in texts if text]
        if len(set(spoken)) != len(spoken):
            self.found.append("doubled: a text stands in the log twice")
        if not entries or self.dice.random() < 0.5:
            return
        fresh = _Handle(self, 99)
        for handle in (fresh, *handles):  # what is due, and may be folded by one of them, is folded
            self._quiet(handle)
        last = self._quiet(fresh)
        if any(self._quiet(handle) != last for handle in handles):
            self.found.append("differs: a handle shows another context than a fresh one")
        if self.dice.random() < 0.1:
            self.found += [f"audit: {each}" for each in self._audited(fresh)]

    def _quiet(self, handle: _Handle) -> tuple[str, ...]:
        async def ask() -> tuple[str, ...]:
            return await self._context(handle)

        return cast("tuple[str, ...]", self._finished(ask()))

    def _audited(self, handle: _Handle) -> list[object]:
        return cast("list[object]", self._finished(audit(handle.session)))

    def _finished(self, work: Coroutine[object, None, object]) -> object:
        """Run one coroutine alone; what it begins in the background is left undone."""
        try:
            for _ in range(20_000):
                work.send(None)
        except StopIteration as stop:
            return stop.value
        except Exception as error:
            self.found.append(f"raised at rest: {type(error).__name__}: {error}")
            return ()
        finally:
            for task in self.tasks:
                task.coroutine.close()
            self.tasks.clear()
        self.found.append("hang: a quiet call does not end")
        return ()


@cache
def _can_interrupt(path: str, number: int) -> bool:
    """Whether a signal can arrive at a line: never between the body of a `with` and the release of its lock."""
    text = linecache.getline(path, number).strip()
    return path.startswith(_TRACED) and not text.startswith(("with ", "async with "))


def _is_background(task: _Task) -> bool:
    return not task.coroutine.__qualname__.endswith("_program")


def run_schedule(seed: int, kind: Kind, *, store: Store | None = None) -> list[str]:
    """Everything wrong in the schedule of a seed."""
    return _World(seed, kind, store).run()


def run_schedules(seeds: range, kind: Kind) -> Mapping[int, list[str]]:
    """Seed -> what was wrong, of the schedules in which something was."""
    return {seed: found for seed in seeds if (found := run_schedule(seed, kind))}
