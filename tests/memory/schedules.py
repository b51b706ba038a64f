"""Random schedules of handles on one conversation, with everything that can go wrong beside them.

A schedule is made from its seed alone: several handles say things, call tools with small and huge results, ask for
contexts, report usage, look, fold, start over. Their steps are interleaved at calls of the store, before a call and
between its effect and its reply: in some schedules at every one of them, in others rarely, so that one reply may be
late by as much as others do meanwhile. Beside them models are slow, fail or never answer, callers are interrupted or
cancelled (at a call of the store, or at any line of this library), handles are killed and opened anew, and the store
fails over to an earlier state of itself and goes on from there. Every context is judged by `oracle` with what the store
held at the moment the call was taken.

A million of them must be affordable, so most are short and begin in the middle: with a conversation that is nearly
full, just folded, or just cleared. Pure functions of texts and rows that come back in every schedule are remembered.
"""

from __future__ import annotations

import linecache
import random
import sys
from asyncio import CancelledError
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytest

from tests.memory.fold_actors import COUNTER, NOW, SCOPE
from tests.memory.oracle import Books, Judged, faults
from tests.memory.store_copies import copied
from turnfold.budget import Budget
from turnfold.errors import Conflict, NotFound
from turnfold.fold import extract
from turnfold.fold import summary_input as reading
from turnfold.fold import superseded_statements as changes
from turnfold.inspect import audit
from turnfold.memory import AsyncSession, Memory, Session, SummaryTask, make_config, session_rules
from turnfold.memory.call_log import CALL, read_manifest
from turnfold.records import (
    CLEARED,
    SESSION,
    STAND_IN,
    ClearedNote,
    Document,
    Entry,
    Message,
    NewEntry,
    StandIn,
    Usage,
    assistant,
    read_note,
    tool,
    user,
)
from turnfold.runtime import Runtime, drive
from turnfold.stores import MemoryStore, Scope, Store, memory_store
from turnfold.stores.log_semantics import row_entry
from turnfold.stores.memory_store import _Conversation

__all__ = ("Kind", "run_schedule", "run_schedules")

_PACKAGE = str(Path(sys.modules["turnfold"].__file__ or "").parent)
_TRACED = (f"{_PACKAGE}/memory/", f"{_PACKAGE}/window/")
_PAGE = 500


_ACTS = (*["turn"] * 4, *["loop"] * 3, "look", "usage", "fold")


@dataclass(frozen=True)
class Kind:
    """What may happen in a schedule."""

    name: str
    modes: tuple[str, ...] = ("inline", "background")
    models: tuple[str, ...] = ("extract", "good", "fails", "slow", "stuck")
    handles: int = 2
    acts: int = 2
    """Acts of each handle at most; it does at least half as many."""
    does: tuple[str, ...] = _ACTS
    """What an act may be; what is named more often is done more often."""
    interrupts: float = 0.0
    """Share of the acts that are interrupted."""
    lines: bool = False
    """Whether they are interrupted at any line, not only at calls of the store."""
    kills: float = 0.0
    failovers: int = 0
    reports: bool = False
    """Whether usage is reported after each call, by a program that does not wait for it."""
    huge: float = 0.15
    """Share of the tool results that are larger than the budget."""


_BUDGETS = (Budget(max_tokens=600), Budget(max_tokens=1_000))
_SIZES = (2, 20, 60)
"""Words of a message."""
_CALM = (1.0, 0.3, 0.1)
"""Chances that others may go on at a call of the store, one for each schedule."""
_LINES = (100, 400, 1_600)
"""Lines of an act among which one is interrupted."""
_NAME = "c"
_BEGINNINGS = 48
"""Conversations that schedules begin with, for each budget."""


class _Store(MemoryStore):
    """A memory store that reads a row once, however many schedules begin with it."""

    async def read(
        self,
        scope: Scope,
        conversation: str,
        *,
        after: int = 0,
        upto: int | None = None,
        limit: int = 1000,
    ) -> list[Entry]:
        rows = self._find(scope, conversation).rows
        return [_entry(row) for row in rows[after:upto][:limit]]


_entry = lru_cache(maxsize=65_536)(row_entry)
_REMEMBERED = (
    (reading, "find_hits", lru_cache(maxsize=8_192)(reading.find_hits)),
    (reading, "split_sentences", lru_cache(maxsize=8_192)(
        lambda text, *, gap="", _split=reading.split_sentences: tuple(_split(text, gap=gap))
    )),
    (changes, "_read", lru_cache(maxsize=65_536)(changes._read)),
    (extract, "content_terms", lru_cache(maxsize=65_536)(
        lambda text, _terms=extract.content_terms: frozenset(_terms(text))
    )),
    (session_rules, "extract_rules", lru_cache(maxsize=65_536)(session_rules.extract_rules)),
    (memory_store, "row_entry", _entry),
)  # fmt: skip
"""Pure functions of texts and rows, where they are used: the same few texts come back in every schedule."""


@contextmanager
def _texts_read_once() -> Iterator[None]:
    """Remember what was found in the texts of earlier schedules."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, remembering in _REMEMBERED:
            patch.setattr(module, name, remembering)
        yield


@cache
def _begun(budget: Budget, number: int) -> MemoryStore:
    """A conversation that nearly fills the budget, or more than fills it; in part folded or cleared."""
    dice = random.Random(number)  # noqa: S311 (the same on every machine)
    store = _Store(counter=COUNTER, clock=lambda: NOW)
    session = Memory(store, counter=COUNTER, budget=budget, fold="manual").session(_NAME)
    if dice.random() < 0.5:
        session.system("You are careful. 请谨慎。")
    full = dice.choice((0.0, 0.6, 0.9, 1.3)) * budget.tokens
    said = _talk(session, dice, 0, full=full)
    before = dice.choice(("", "", "folded", "folded", "cleared"))
    if said and before == "folded":
        session.fold(keep_turns=1)
    elif said and before == "cleared":
        session.clear()
    if before:
        # At least a turn: what is said inside a cleared turn is the matter of a kind of its own.
        full = session.status().tokens + 1 + dice.choice((0.0, 0.3, 0.6)) * budget.tokens
        _talk(session, dice, said, full=full)
    return store


def _talk(session: Session, dice: random.Random, said: int, *, full: float) -> int:
    """Say turns until the log has so many tokens; how many turns there were by then."""
    while session.status().tokens < full:
        said += 1
        session.user(f"begun {said} " + "字词" * dice.choice((4, 24, 80)))
        if dice.random() < 0.3:
            call = {"id": f"b{said}", "function": {"name": "look", "arguments": "{}"}}
            session.assistant(tool_calls=[call])
            session.tool(f"seen {said} " + "word " * 60, tool_call_id=f"b{said}")
        session.assistant(f"answered {said} " + "word " * dice.choice((4, 40)))
    return said


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
            self._world.interrupt()
        self.holder = self._world.current

    async def __aexit__(self, *_: object) -> None:
        self.holder = None


@dataclass(eq=False)
class _Task:
    coroutine: Coroutine[object, None, object]
    handle: _Handle
    interrupt: int = 0
    """Lines after which it is interrupted; below 0: halves of store calls after which it is. 0 for never."""
    is_program: bool = False
    is_report: bool = False
    """Whether replies of the store to it may be as late as the next acts of its handle."""


class _SteppedWay:
    """How a handle waits in a schedule: every wait is a pause, work in the background is another task."""

    stopping = False

    def __init__(self, handle: _Handle) -> None:
        self._handle = handle
        self._names: set[str] = set()

    def lock(self) -> AbstractAsyncContextManager[None]:
        return _Lock(self._handle.world)

    async def compute(self, work: Callable[[], object]) -> object:
        return work()

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
        handle, world = self._handle, self._handle.world
        writes = verb in ("note", "put_document")

        async def ask(*args: object, **options: object) -> object:
            if world.switches():
                await _Pause()
            world.interrupt()
            answer = await getattr(world.store, verb)(*args, **options)
            if writes:
                document = cast("Document", args[2])
                if document.kind == CALL and not options.get("expect"):
                    handle.taken = (document, world.books(), world.history)
            if world.switches():
                await _Pause()
            if world.current and world.current.is_report:
                await handle.later_act()
            world.interrupt()
            return answer

        self.__dict__[verb] = ask
        return ask


class _Model:
    """A summariser: good, failing, slow, or never answering."""

    def __init__(self, kind: str, dice: random.Random, *, patience: int) -> None:
        self.name = kind
        self._dice = dice
        self._patience = patience

    async def write(self, task: SummaryTask, runtime: Runtime) -> str:  # noqa: ARG002 (it pauses by itself)
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
    acts: int = 0
    """Acts it has begun."""

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        world = self.world
        model = world.model
        store = cast("Store", _SteppedStore(self))
        config = make_config(
            store,
            cast("Runtime", _SteppedWay(self)),
            blocking=False,
            counter=COUNTER,
            budget=world.budget,
            summarizer=None
            if model == "extract"
            else _Model(model, world.dice, patience=50 if world.mode == "inline" else 1_000_000),
            fold=world.mode,
            keep_turns=world.dice.randrange(3),
            recall=world.recall,
            backoff=0.0,
            clock=lambda: NOW,
        )
        if isinstance(world.store, _Store):  # how long it takes is measured around the others
            config = replace(config, store=store)
        self.session = AsyncSession(world.name, config)

    async def later_act(self) -> None:
        """Wait until it has begun none, one or two more acts."""
        until = self.acts + self.world.dice.randrange(3)
        while self.acts < until:
            await _Pause()


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
        self._calm = self.dice.choice(_CALM)
        # A recall is a third of the time.
        self.recall = self.dice.choice(("automatic", "off", "off"))
        self.tasks: list[_Task] = []
        self._running = kind.handles
        """Programs that have not ended."""
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
            self.tasks.append(_Task(self._program(handle), handle, is_program=True))
        failovers = self.kind.failovers
        steps, choice = 0, self.dice.choice
        while self._running:
            self._step(choice(self.tasks))
            steps += 1
            if steps > 50_000:
                return [*self.found, "hang: the schedule does not end"]
            if failovers and self.dice.random() < 0.01 / self._calm:
                failovers -= self._fail_over()
        for task in self.tasks:  # models that never answer
            task.coroutine.close()
            self._release(task)
        self.tasks.clear()
        self._calm = 0.0
        self._settle(handles)
        return self.found

    def _step(self, task: _Task) -> None:
        self.current = task
        try:
            if task.interrupt > 0:
                self._traced(task)
            else:
                task.coroutine.send(None)
        except StopIteration:
            pass
        except (KeyboardInterrupt, CancelledError):  # in the background nobody catches it
            self._release(task)
        except RecursionError:
            raise
        except Exception as error:
            self.found.append(f"raised: {type(error).__name__}: {error}")
        else:
            return
        self.tasks.remove(task)
        self._running -= task.is_program

    def switches(self) -> bool:
        """Whether another task may go on at this call of the store."""
        return self.dice.random() < self._calm

    def interrupt(self) -> None:
        """Interrupt or cancel the task that is at a call of the store, if its time has come."""
        task = self.current
        if task is not None and task.interrupt < 0:
            task.interrupt += 1
            if task.interrupt == 0:
                raise self.dice.choice((KeyboardInterrupt, CancelledError))

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
                    sys.settrace(None)
                    raise KeyboardInterrupt
            return line

        def call(frame: FrameType, event: str, _: object) -> Any:
            is_traced = frame.f_code.co_filename.startswith(_TRACED)
            return line(frame, event, _) if is_traced else None

        sys.settrace(call)
        try:
            task.coroutine.send(None)
        finally:
            sys.settrace(None)

    # ------------------------------------------------------------------------------------- programs

    async def _program(self, handle: _Handle) -> None:
        acts: dict[str, Callable[[_Handle], Coroutine[object, None, None]]] = {
            "turn": self._turn,
            "loop": self._loop,
            "look": self._look,
            "usage": self._usage,
            "fold": self._fold,
            "clear": self._clear,
        }
        task = next(task for task in self.tasks if task.handle is handle)
        for _ in range(self.dice.randint(self.kind.acts // 2, self.kind.acts)):
            act = acts[self.dice.choice(self.kind.does)]
            handle.acts += 1
            if self.dice.random() < self.kind.interrupts:
                most = self.dice.choice(_LINES) if self.kind.lines else 40
                task.interrupt = (1 if self.kind.lines else -1) * self.dice.randrange(1, most)
            try:
                await act(handle)
            except (KeyboardInterrupt, CancelledError):
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
        text = self._text(self.dice.choice(_SIZES))
        await self._say(handle, user(text), text)
        await self._context(handle)
        text = self._text(self.dice.choice(_SIZES))
        await self._say(handle, assistant(text), text)

    async def _loop(self, handle: _Handle) -> None:
        for _ in range(self.dice.randint(1, 2)):
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
            await handle.session.fold(keep_turns=1)

    async def _clear(self, handle: _Handle) -> None:
        await handle.session.clear()

    async def _context(self, handle: _Handle) -> tuple[str, ...]:
        known, history = max(self.acknowledged, default=0), self.history
        handle.taken = None
        context = await handle.session.context()
        if handle.taken is None:
            self.found.append("unseen: a context was answered without a call")
            return ()
        document, books, where = cast("tuple[Document, Books, int]", handle.taken)
        judged = Judged(
            context,
            read_manifest(document),
            COUNTER,
            known if where == history else 0,
        )
        self.found += faults(judged, books)
        if self.kind.reports:
            self.tasks.append(_Task(self._usage(handle), handle, is_report=True))
        return tuple(message.text for message in context.messages)

    # ------------------------------------------------------------------------------------- the store

    def books(self) -> Books:
        """What the store holds now."""
        if isinstance(self.store, _Store):
            return _books(self.store._find(SCOPE, self.name))
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
        if not entries or self.dice.random() < 0.75:
            return
        fresh, held = _Handle(self, 99), self.dice.choice(handles)
        for handle in (fresh, held):  # what is due, and may be folded by one of them, is folded
            self._quiet(handle)
        last, handle = self._quiet(fresh), held
        for _ in range(12):
            known = self._summaries()
            shown = self._quiet(handle)
            if shown == last:
                break
            if self._summaries() == known:
                self.found.append("differs: a handle shows another context than a fresh one")
                break
            # A model that failed so far has written a summary in this call: the next one must show it too.
            last, handle = shown, held if handle is fresh else fresh
        if self.dice.random() < 0.1:
            self.found += [f"audit: {each}" for each in self._audited(fresh)]

    def _summaries(self) -> frozenset[str]:
        """Ids of all checkpoints and keys of all extracts that stand in for them."""
        books = self.books()
        return frozenset((*books.checkpoints, *books.stand_ins))

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


def _books(held: _Conversation) -> Books:
    """What a memory store holds of a conversation, without asking for it verb by verb."""
    stood_in = [each for (kind, _), each in held.documents.items() if kind == STAND_IN]
    return Books(
        [_entry(row) for row in held.rows],
        {each.id: each for each in held.checkpoints},
        {each.key: StandIn.read(each).text for each in stood_in},
        read_note(held.documents.get((SESSION, CLEARED)), ClearedNote).upto,
    )


def run_schedule(seed: int, kind: Kind, *, store: Store | None = None) -> list[str]:
    """Everything wrong in the schedule of a seed."""
    with _texts_read_once():
        return _World(seed, kind, store).run()


def run_schedules(seeds: range, kind: Kind) -> Mapping[int, list[str]]:
    """Seed -> what was wrong, of the schedules in which something was."""
    return {seed: found for seed in seeds if (found := run_schedule(seed, kind))}
