"""Replay of the demo's conversation through a memory on a SQLite file, call by call, as a program would use it.

Before each assistant message the session builds the context of that call, and folds (compacts) when needed. This module
draws nothing and does not pause. Each step has the context, its violations, and the changes since the previous call:
entries folded into a checkpoint (summary), results shortened.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from turnfold.budget import Budget
from turnfold.cli.demo.sample import Sample, pinned_by
from turnfold.errors import InvalidOption
from turnfold.memory import Memory, Session
from turnfold.records import Checkpoint, Entry
from turnfold.tokens import TokenCounter
from turnfold.window import Context, Outcome, Section, Violation, check

__all__ = (
    "CONVERSATION",
    "Fold",
    "Shrunk",
    "Step",
    "database",
    "fixed_clock",
    "replay",
)


CONVERSATION = "warehouse"
"""Id of the conversation in the file."""
_EXCERPT_LINES = 2
_SPEAKERS = (("user:", "用户："), ("assistant:", "助手："))


@dataclass(frozen=True, slots=True)
class Fold:
    """Entries that a checkpoint's summary replaces from this call of the demo on."""

    checkpoint: str
    """Id of the checkpoint."""
    messages: int
    tokens: int
    """Tokens of the folded messages."""
    needed: int
    """Tokens that the call would have had without the fold."""
    summary_before: int
    """Tokens of the previous summary, which the new one replaces; 0 for the first."""
    summary_tokens: int
    fidelity: float
    """Share of the facts of the folded entries that the summary states."""
    excerpt: tuple[str, ...]
    """Lines of the new summary about the messages just folded."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A message that is sent shortened from this call on."""

    position: int
    """Seq of the shortened entry."""
    tool: str
    """Name of the tool whose result was shortened; empty for other messages."""
    tokens: int
    sent: int


@dataclass(frozen=True, slots=True)
class Step:
    """One model call of the demo, with the changes since the call before."""

    number: int
    turn: int
    question: str
    """User message of the newest turn."""
    logged: int
    """Number of messages in the log so far, without system messages."""
    folded: int
    """Number of logged messages that the summary covers."""
    context: Context
    violations: tuple[Violation, ...]
    fold: Fold | None
    shrunk: tuple[Shrunk, ...]
    """Messages that this call shortens, but the call before did not."""


@contextmanager
def database(keep: Path | None = None) -> Generator[str]:
    """Context manager: yield the address of a new SQLite file, at `keep` or in a temporary folder that is deleted."""
    if keep is not None:
        if keep.exists():
            raise InvalidOption(f"{keep} exists already: give the name of a new file")
        yield _address(keep)
        return
    with TemporaryDirectory(prefix="turnfold-demo-") as folder:
        yield _address(Path(folder) / "demo.db")


def _address(path: Path) -> str:
    return f"sqlite:///{quote(str(path.absolute()))}"


def fixed_clock() -> Callable[[], int]:
    """Return a clock with fixed times, so that recalled passages, which show dates, are the same in every replay."""
    ticks = count(1_767_603_600_000_000)
    return lambda: next(ticks)


def replay(
    sample: Sample, budget: Budget, counter: TokenCounter, *, keep: Path | None = None
) -> Iterator[Step]:
    """Yield one step per assistant message, in order: the call that the message answers."""
    clock = fixed_clock() if keep is None else None
    with (
        database(keep) as address,
        Memory(address, budget=budget, counter=counter, clock=clock) as memory,
    ):
        session = memory.session(CONVERSATION)
        previous = _PreviousCall()
        question, turn = "", 0
        for message in sample.messages:
            if message.role == "assistant":
                context = session.context(tools=sample.tools)
                yield previous.step(session, context, turn=turn, question=question)
            elif message.role == "user":
                turn += 1
                question = message.text
            if message.role == "system":
                session.system(message.text)
            else:
                session.add(message)
            for rule in pinned_by(message):
                session.pin(rule)


class _PreviousCall:
    """State of the last call, with which the next one is compared."""

    def __init__(self) -> None:
        self._number = 0
        self._context: Context | None = None
        self._log: list[Entry] = []

    def step(self, session: Session, context: Context, *, turn: int, question: str) -> Step:
        """Return the next call of the demo, with the changes since the call before."""
        self._log += session.history(after=len(self._log), limit=1_000)
        self._number += 1
        fold = self._fold(session, context)
        shrunk = tuple(self._newly_shrunk(context))
        self._context = context
        talk = {entry.seq for entry in self._log if entry.message.role != "system"}
        return Step(
            number=self._number,
            turn=turn,
            question=question,
            logged=len(talk),
            folded=sum(seq in talk for seq in _seqs(context, Outcome.FOLDED)),
            context=context,
            violations=check(context),
            fold=fold,
            shrunk=shrunk,
        )

    def _fold(self, session: Session, context: Context) -> Fold | None:
        covered = self._context.anchor.covered if self._context else 0
        if context.anchor.covered == covered:
            return None
        checkpoint = session.checkpoints()[-1]
        before = self._context.anchor.summary if self._context else ""
        folded = [
            entry
            for entry in self._log[covered : checkpoint.upto]
            if entry.message.role != "system"
        ]
        count = context.counter.count_text
        return Fold(
            checkpoint=checkpoint.id,
            messages=len(folded),
            tokens=sum(entry.tokens for entry in folded),
            needed=self._unfolded(context),
            summary_before=count(before),
            summary_tokens=count(checkpoint.text),
            fidelity=checkpoint.fidelity,
            excerpt=_excerpt(checkpoint, before),
        )

    def _unfolded(self, context: Context) -> int:
        """Return the tokens that the call would have had if nothing had been folded or cut."""
        sections = context.receipt.sections
        changed = (Section.SUMMARY, Section.WINDOW, Section.TURN)
        cost = context.tokens - sum(sections[part] for part in changed)
        previous = self._context
        sent = dict(_costs(previous)) if previous else {}
        first = previous.anchor.position if previous else 1
        for entry in self._log:
            if entry.seq in sent or (entry.seq >= first and entry.message.role != "system"):
                cost += sent.get(entry.seq, entry.tokens)
        return cost + (previous.receipt.sections[Section.SUMMARY] if previous else 0)

    def _newly_shrunk(self, context: Context) -> Iterator[Shrunk]:
        known = dict(self._context.anchor.caps) if self._context else {}
        sent = dict(_costs(context))
        for seq, cap in context.anchor.caps:
            if known.get(seq) != cap:
                yield Shrunk(seq, self._tool_of(seq), self._log[seq - 1].tokens, sent[seq])

    def _tool_of(self, seq: int) -> str:
        answered = {result.call_id for result in self._log[seq - 1].message.results}
        called = (call for entry in self._log[:seq] for call in entry.message.calls)
        return next((call.name for call in called if call.id in answered), "")


def _costs(context: Context) -> Iterator[tuple[int, int]]:
    """Yield the log position and the tokens of each entry that the context sends."""
    _, summary_ends, window_ends, tail_ends = context.ends
    costs = [*context.costs[summary_ends:window_ends], *context.costs[tail_ends:]]
    return zip(context.positions, costs, strict=True)


def _seqs(context: Context, outcome: Outcome) -> Iterator[int]:
    for fate in context.fates:
        if fate.outcome is outcome:
            yield from range(fate.start, fate.stop)


def _excerpt(checkpoint: Checkpoint, before: str) -> tuple[str, ...]:
    """Return the first new lines of a summary: of the user, then of the assistant, then rows of tables."""
    known = set(before.splitlines())
    new = [line for line in checkpoint.text.splitlines() if line not in known]

    def rank(line: str) -> tuple[bool, int]:
        speakers = (at for at, names in enumerate(_SPEAKERS) if line.startswith(names))
        return "|" in line, next(speakers, len(_SPEAKERS))

    return tuple(sorted(new, key=rank)[:_EXCERPT_LINES])
