"""turnfold: `Transcript` with `assemble`, and `MessageMemory`, both with exact counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.contender import Call, Contender, Held, Item, Reopened, Stored
from bench.heard import can_be_heard
from bench.lanes.replay import FoldSent
from turnfold import Budget, Memory, Message, MessageMemory
from turnfold.budget import WaterMarks
from turnfold.inspect import FoldRecorder, SimulatedFold
from turnfold.records import Checkpoint, NewEntry
from turnfold.runtime import drive
from turnfold.stores import MemoryStore, Scope, SqliteStore
from turnfold.tokens import Encoding, counter_for
from turnfold.window import Context, Transcript, assemble

__all__ = (
    "CONTENDERS",
    "HELD",
    "IMPORTS",
    "REOPENED",
    "STORED",
    "FoldingSession",
    "SessionOnDisk",
    "TranscriptSession",
    "as_items",
    "as_turnfold",
    "cache_marks",
    "requests_for_folds",
)

NEEDS = None

MODEL = "gpt-4o"
BUDGET = 8_000
_SCOPE = Scope("bench")


class TranscriptSession:
    """A transcript and the anchor of the last window."""

    def __init__(self, budget: Budget) -> None:
        self.log = Transcript(counter_for(MODEL))
        self.budget = budget
        self.last: Context | None = None

    def add(self, message: Message) -> None:
        """Count and append."""
        self.log.add(message)

    def window(self) -> Sequence[Message]:
        """Assemble from the anchor of the previous call."""
        anchor = self.last.anchor if self.last else None
        self.last = assemble(self.log, self.budget, anchor=anchor, previous=self.last)
        return self.last.messages


class _CountedSession(TranscriptSession):
    """The same with counts that were stored earlier, as after a restart."""

    def add(self, message: Any) -> None:  # noqa: ANN401 (a message with its count)
        self.log.add(*message)


class _MemorySession:
    def __init__(self, budget: int) -> None:
        self.memory = MessageMemory(counter=counter_for(MODEL))
        self.budget = budget

    def add(self, message: Message) -> None:
        if message.role == "system":
            self.memory.set_system(message.text)
        else:
            self.memory.add(message)

    def window(self) -> Sequence[Message]:
        return self.memory.get_messages_within_budget(self.budget)


class FoldingSession:
    """A session of a memory in this process that folds by itself, with the built-in summariser."""

    def __init__(
        self, budget: Budget, *, recall: str = "automatic", threshold: float = 0.75
    ) -> None:
        counter = counter_for(MODEL)
        self.recorder = FoldRecorder()
        self.memory = Memory(
            MemoryStore(counter=counter),
            counter=counter,
            budget=budget,
            summarizer=self.recorder,
            fold="inline",
            recall=recall,
            threshold=threshold,
        )
        self.session = self.memory.session("talk")
        self.made: tuple[SimulatedFold, ...] = ()
        self.last: Context | None = None

    def add(self, message: Message) -> None:
        """Append one message."""
        self.session.add(message)

    def window(self) -> Sequence[Message]:
        """The messages of the next context."""
        context = self.session.context()
        self.made = self.recorder.folds(self.session, self.last)
        self.last = context
        return context.messages


def requests_for_folds(session: FoldingSession) -> list[FoldSent]:
    """What a model that writes the summaries would have been asked for the last window."""
    return [_fold_sent(fold) for fold in session.made]


def cache_marks(context: Context) -> tuple[int, ...]:
    """Messages up to each mark of `turnfold.wire.anthropic`: the ends of system, summary, window and a tool loop."""
    ends = {*context.ends[:3]}
    if any(message.role == "tool" for message in context.messages[context.ends[3] :]):
        ends.add(len(context.messages))
    return tuple(sorted(ends - {0}))


def _fold_sent(fold: SimulatedFold) -> FoldSent:
    prefix, marked = fold.prefix, fold.marked
    return FoldSent(
        fold.fresh.tokens,
        fold.answer,
        *((prefix.tokens, prefix.shared) if prefix else (0, 0)),
        *((marked.tokens, marked.marks[-1] if marked.marks else 0) if marked else (0, 0)),
    )


def as_turnfold(items: Sequence[Item]) -> list[Message]:
    """Items as messages."""
    return [_message(item) for item in items]


def as_items(messages: Sequence[Message]) -> list[Item]:
    """Messages as items; `read` of these contenders."""
    return [
        Item(
            message.role,
            message.text or "".join(result.text for result in message.results),
            tuple(Call(call.id, call.name, call.arguments) for call in message.calls),
            message.results[0].call_id if message.results else "",
        )
        for message in messages
    ]


def _message(item: Item) -> Message:
    if item.answers:
        return Message("tool", item.text, tool_call_id=item.answers)
    if item.calls:
        return Message(item.role, item.text or None, tool_calls=_raw_calls(item))
    return Message(item.role, item.text)


def _raw_calls(item: Item) -> list[dict[str, object]]:
    return [
        {
            "id": each.id,
            "type": "function",
            "function": {"name": each.name, "arguments": each.arguments},
        }
        for each in item.calls
    ]


def _counted(items: Sequence[Item]) -> list[tuple[Message, int]]:
    count = counter_for(MODEL).count_message
    return [(message, count(message)) for message in as_turnfold(items)]


def _fill(session: Any, messages: Sequence[Any]) -> Any:  # noqa: ANN401 (any of the sessions above)
    for message in messages:
        session.add(message)
    return session


def _plain(item: Item) -> dict[str, object]:
    """The dictionary an OpenAI client takes."""
    if item.answers:
        return {"role": "tool", "tool_call_id": item.answers, "content": item.text}
    if item.calls:
        return {"role": item.role, "content": item.text or None, "tool_calls": _raw_calls(item)}
    return {"role": item.role, "content": item.text}


def _store(path: Path) -> SqliteStore:
    return SqliteStore(path, blocking=True, counter=counter_for(MODEL))


def _seed(path: Path, items: Sequence[Item]) -> None:
    store = _store(path)
    messages = as_turnfold(items)
    for start in range(0, len(messages), 2_000):
        batch = [NewEntry(message) for message in messages[start : start + 2_000]]
        drive(store.append(_SCOPE, "talk", batch))
    drive(store.close())


def _reopen(path: Path) -> tuple[int, Callable[[], object]]:
    store = _store(path)
    log = Transcript(counter_for(MODEL))
    for entry in drive(store.tail(_SCOPE, "talk", tokens=BUDGET)):
        log.add(entry.message, entry.tokens)
    window = assemble(log, Budget(max_tokens=BUDGET))
    return len(window.messages), lambda: drive(store.close())


def _prepared_transcript(items: Sequence[Item]) -> tuple[Transcript, Sequence[Item]]:
    log = Transcript(counter_for(MODEL))
    log.counter.count_text("load the vocabulary")
    return log, items


def _marked(low: float) -> Contender:
    """Windows that are cut to `low` of the budget."""
    marks = WaterMarks(low=low)
    return Contender(
        name=f"turnfold, low mark {low}",
        package="turnfold",
        convert=as_turnfold,
        open=lambda messages, budget: _fill(
            TranscriptSession(Budget(max_tokens=budget, marks=marks)), messages
        ),
        read=as_items,
        ours=True,
        timed=False,
        low_mark=low,
    )


CONTENDERS = (
    Contender(
        name="turnfold Transcript + assemble",
        package="turnfold",
        convert=as_turnfold,
        open=lambda messages, budget: _fill(TranscriptSession(Budget(max_tokens=budget)), messages),
        read=as_items,
        ours=True,
    ),
    Contender(
        name="turnfold MessageMemory",
        package="turnfold",
        convert=as_turnfold,
        open=lambda messages, budget: _fill(_MemorySession(budget), messages),
        read=as_items,
        ours=True,
    ),
    Contender(
        name="turnfold Transcript, counts stored",
        package="turnfold",
        convert=_counted,
        open=lambda messages, budget: _fill(_CountedSession(Budget(max_tokens=budget)), messages),
        read=as_items,
        ours=True,
        replays=False,
    ),
    Contender(
        name="turnfold Session, folding",
        package="turnfold",
        convert=as_turnfold,
        open=lambda messages, budget: _fill(FoldingSession(Budget(max_tokens=budget)), messages),
        read=as_items,
        folds=requests_for_folds,
        marks=lambda session: cache_marks(session.last) if session.last else (),
        ours=True,
        timed=False,
    ),
    *(_marked(low) for low in (0.25, 0.5, 0.75, 1.0)),
)

HELD = (
    Held(name="turnfold Message", package="turnfold", build=as_turnfold, ours=True),
    Held(
        name="turnfold Message in a Transcript",
        package="turnfold",
        prepare=_prepared_transcript,
        build=lambda prepared: (
            [prepared[0].add(_message(item)) for item in prepared[1]] and prepared[0]
        ),
        ours=True,
    ),
    Held(name="plain dictionary", package="", build=lambda items: [_plain(item) for item in items]),
)

IMPORTS = (
    "import turnfold",
    "from turnfold import Message",
    "from turnfold import MessageMemory",
    "from turnfold.tokens import counter_for; counter_for('gpt-4o').count_text('first exact count')",
)

REOPENED = (
    Reopened(
        name="turnfold SqliteStore",
        package="turnfold",
        seed=_seed,
        reopen=_reopen,
        note=f"opened, tail of {BUDGET:,} tokens read, window assembled; seeded 2,000 messages an append",
        ours=True,
    ),
)


class SessionOnDisk:
    """A session of a memory on a SQLite file that folds only when asked to."""

    def __init__(self, path: Path, budget: int) -> None:
        self.memory = Memory(
            f"sqlite:///{path}",
            scope=_SCOPE,
            model=MODEL,
            budget=Budget(max_tokens=budget),
            fold="manual",
        )
        self.session = self.memory.session("talk")

    def add(self, item: Item) -> None:
        """Append one message."""
        self.session.add(_message(item))

    def window(self) -> Sequence[Message]:
        """The messages of the next context, of which there is a manifest in the file."""
        return self.session.context().messages

    def meter(self) -> dict[str, tuple[int, float]]:
        """How often the store was asked so far, and for how long."""
        values = self.memory.meter.values
        return {
            name: (values[name].count, values[name].total)
            for name in ("database_read_seconds", "database_write_seconds")
        }

    def close(self) -> None:
        """Close the file."""
        self.memory.close()


def _seed_folded(path: Path, items: Sequence[Item]) -> None:
    """The same with a live checkpoint over all but the newest messages."""
    _seed(path, items)
    store = _store(path)
    upto = len(items) - 40
    while items[upto].role != "user":
        upto -= 1
    summary = " ".join(item.text for item in items[1:40] if item.role == "user")[:2_000]
    checkpoint = Checkpoint(
        id=f"{upto}-seed", previous="", upto=upto, text=summary, digest="seed", model="seed",
        trust="user", fidelity=1.0,
    )  # fmt: skip
    drive(store.add_checkpoint(_SCOPE, "talk", checkpoint))
    drive(store.close())


STORED = (
    Stored(
        name="turnfold Session",
        package="turnfold",
        seed=_seed,
        open=SessionOnDisk,
        read=as_items,
        note="context() with its manifest stored; nothing folded yet",
        ours=True,
    ),
    Stored(
        name="turnfold Session, folded",
        package="turnfold",
        seed=_seed_folded,
        open=SessionOnDisk,
        read=as_items,
        note="the same with a live checkpoint over all but the newest 40 messages",
        ours=True,
        whole=False,
    ),
)


@contextmanager
def _listening(hear: Callable[[str], object]) -> Iterator[None]:
    """Give every text that is counted exactly to `hear`, by counters that are made meanwhile."""
    counted = Encoding.count

    def heard(self: Encoding, text: str) -> int:
        hear(text)
        return counted(self, text)

    Encoding.count = heard
    try:
        yield
    finally:
        Encoding.count = counted


can_be_heard(_listening)
