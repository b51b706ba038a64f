"""Who meets in a conversation while it is folded: writers, summarisers, deleters, and the judge of how it ended."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import replace

from tests.memory.interleaving import Finished, Program
from tests.memory.store_copies import fingerprint
from tests.window.transcripts import CharacterText
from turnfold.budget import Budget
from turnfold.errors import ConversationDeleted
from turnfold.inspect import audit
from turnfold.memory import AsyncSession, Memory, SummaryTask, make_config
from turnfold.records import assistant, user
from turnfold.runtime import Runtime, drive
from turnfold.stores import Erasure, MemoryStore, Scope, Store
from turnfold.tokens import TokenCounter
from turnfold.window import check

__all__ = (
    "CONVERSATION", "COUNTER", "NOW", "SCOPE", "Judge", "Notes", "agent", "begun", "clearer", "deleter",
    "left_over", "reader", "session_over", "summariser", "writer", "writers",
)  # fmt: skip

SCOPE = Scope("default")
CONVERSATION = "c"
COUNTER = TokenCounter(CharacterText())
NOW = 1_700_000_000_000_000


class Notes:
    """A summariser that tells who wrote and what it was given."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def write(self, task: SummaryTask, runtime: Runtime) -> str:  # noqa: ARG002 (it waits for nothing)
        heard = " ".join(f"{passage.position}" for passage in task.passages)
        return f"{self.name} heard {heard} after {len(task.previous)} characters"


def session_over(
    store: Store,
    runtime: Runtime,
    name: str,
    *,
    fold: str = "manual",
    lease: float = 0.0,
    budget: int = 2_000,
) -> AsyncSession:
    """A handle as another process would hold it: nothing of it is left to chance or to a clock."""
    config = make_config(
        store,
        runtime,
        blocking=False,
        counter=COUNTER,
        budget=Budget(max_tokens=budget),
        summarizer=Notes(name),
        fold=fold,
        keep_turns=1,
        clock=lambda: NOW,
    )
    # A lease of no length is one that always lapsed: nothing but the compare-and-swap keeps two from folding at once.
    policy = replace(config.policy, lease=lease)
    session = AsyncSession(CONVERSATION, replace(config, policy=policy))
    session._folds._owner = name
    return session


def begun(turns: int, *, store: type[MemoryStore] = MemoryStore, long: int = 0) -> MemoryStore:
    """A store with a conversation of some turns."""
    held = store(counter=COUNTER, clock=lambda: NOW)
    memory = Memory(held, counter=COUNTER, fold="manual")
    session = memory.session(CONVERSATION)
    for turn in range(turns):
        session.user(f"question {turn} " + "?" * long, client_id=f"begun-{turn}-q")
        session.assistant(f"answer {turn}", client_id=f"begun-{turn}-a")
    return held


def writer(name: str, *, turns: int = 1, retries: bool = False) -> Program:
    """Writes turns; returns the client id and the seq of everything that was acknowledged."""
    return writers(name, turns=turns, retries=retries)


def writers(*names: str, turns: int = 1, retries: bool = False) -> Program:
    """Writers who differ in nothing but their names, each with a handle of its own, in the order of their names.

    Any other order of the same writers is this one under other names: the orders of `n` of them are n! times these.
    """

    async def write(store: Store, runtime: Runtime) -> object:
        acknowledged: list[tuple[str, int]] = []
        for name in names:
            session = session_over(store, runtime, name)
            with suppress(ConversationDeleted):
                acknowledged += await _turns(session, name, turns, retries=retries)
        return acknowledged

    return write


async def _turns(
    session: AsyncSession, name: str, turns: int, *, retries: bool
) -> list[tuple[str, int]]:
    acknowledged: list[tuple[str, int]] = []
    for turn in range(turns):
        key = f"{name}-{turn}"
        said = [user(f"{key} asks"), assistant(f"{key} hears")]
        for _ in range(2 if retries else 1):  # the answer was lost on the way: the same again
            done = await session.add(said, client_id=key)
            acknowledged += [(f"{key}.1", done.first), (f"{key}.2", done.last)]
    return acknowledged


def summariser(name: str, *, lease: float = 0.0) -> Program:
    """Folds everything but the newest turn."""

    async def fold(store: Store, runtime: Runtime) -> object:
        session = session_over(store, runtime, name, lease=lease)
        with suppress(ConversationDeleted):
            await session.fold()
        return None

    return fold


def reader(name: str, *, fold: str, budget: int, lease: float = 0.0) -> Program:
    """Asks for a context, which folds on the way or begins to."""

    async def read(store: Store, runtime: Runtime) -> object:
        session = session_over(store, runtime, name, fold=fold, lease=lease, budget=budget)
        with suppress(ConversationDeleted):
            return check(await session.context())
        return None

    return read


def agent(name: str, *, turns: int, budget: int) -> Program:
    """One process whose calls begin folds in the background, and which writes on while they run."""

    async def work(store: Store, runtime: Runtime) -> object:
        session = session_over(store, runtime, name, fold="background", budget=budget)
        acknowledged: list[tuple[str, int]] = []
        with suppress(ConversationDeleted):
            for turn in range(turns):
                asked = await session.user(f"{name} asks {turn}", client_id=f"{name}-{turn}-q")
                acknowledged.append((f"{name}-{turn}-q", asked.first))
                if faults := check(await session.context()):
                    return faults
                said = await session.assistant(f"{name} hears {turn}", client_id=f"{name}-{turn}-a")
                acknowledged.append((f"{name}-{turn}-a", said.first))
        return acknowledged

    return work


def clearer() -> Program:
    """Starts the conversation over."""

    async def clear(store: Store, runtime: Runtime) -> object:
        with suppress(ConversationDeleted):
            await session_over(store, runtime, "clearer").clear()
        return None

    return clear


def deleter() -> Program:
    """Erases the conversation."""

    async def erase(store: Store, runtime: Runtime) -> object:
        return await session_over(store, runtime, "deleter").delete()

    return erase


class Judge:
    """Finds the kinds of faults of a conversation that everybody has left; the same books are audited once."""

    def __init__(self) -> None:
        self._audited: dict[Hashable, list[str]] = {}

    def __call__(self, store: MemoryStore, finished: Sequence[Finished]) -> list[str]:
        faults = [f"error {type(end.error).__name__}" for end in finished if end.error is not None]
        for end in finished:
            if isinstance(end.value, tuple):
                faults += [f"unsound {each.rule}" for each in end.value]
        if any(isinstance(end.value, Erasure) for end in finished):
            return faults + left_over(store)
        held = store._conversations[SCOPE.tenant, CONVERSATION]
        places = {row.client_id: row.seq for row in held.rows}
        if len(places) != len(held.rows):
            faults.append("doubled")
        acknowledged = [
            pair for end in finished if isinstance(end.value, list) for pair in end.value
        ]
        faults += ["lost" for name, _ in acknowledged if name not in places]
        faults += ["elsewhere" for name, seq in acknowledged if places.get(name, seq) != seq]
        return faults + self._audit(store)

    def _audit(self, store: MemoryStore) -> list[str]:
        held = store._conversations[SCOPE.tenant, CONVERSATION]
        key = (
            tuple((row.client_id, row.body) for row in held.rows),
            tuple(map(fingerprint, held.checkpoints)),
            tuple(sorted((each.kind, each.key, each.body) for each in held.documents.values())),
        )
        known = self._audited.get(key)
        if known is None:
            session = Memory(store, counter=COUNTER, fold="manual").session(CONVERSATION)
            known = self._audited[key] = [f"audit {fault.rule}" for fault in audit(session)]
        return known


def left_over(store: MemoryStore) -> list[str]:
    """What is still there of a conversation that was erased."""
    held = store._conversations.get((SCOPE.tenant, CONVERSATION))
    if held is None:
        return []
    there = bool(held.rows or held.by_id or held.checkpoints or held.documents or held.head.seq)
    return ["resurrected"] if there or drive(store.conversations(SCOPE)) else []
