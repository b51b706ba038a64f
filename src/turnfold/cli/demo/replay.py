"""Replay of the demo's conversation through a memory on a SQLite file, and through two simple methods for comparison.

Before each assistant message the session builds the context of that call, and folds (compacts) when needed. This module
draws nothing and does not pause. Each step has the context, its violations, and the changes since the previous call:
entries folded into a checkpoint (summary), results shortened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, cast
from urllib.parse import quote

from turnfold.budget import Budget
from turnfold.errors import InvalidOption
from turnfold.memory import Memory, Session
from turnfold.records import Checkpoint, Entry, Message, as_messages
from turnfold.text import is_chinese
from turnfold.tokens import TokenCounter
from turnfold.window import Context, Outcome, Rule, Section, Violation, check

__all__ = (
    "CONVERSATION",
    "Comparison",
    "Fold",
    "Sample",
    "Shrunk",
    "Step",
    "Tally",
    "cached_tokens",
    "compare",
    "database",
    "fixed_clock",
    "in_language",
    "load_sample",
    "newest",
    "pinned_by",
    "replay",
    "tally",
)


@dataclass(frozen=True, slots=True)
class Sample:
    """A conversation and the tools its agent has."""

    messages: tuple[Message, ...]
    tools: tuple[dict[str, object], ...]

    @property
    def talk(self) -> int:
        """Number of messages other than system messages."""
        return sum(message.role != "system" for message in self.messages)

    @property
    def calls(self) -> int:
        """Number of model calls: one per assistant message."""
        return sum(message.role == "assistant" for message in self.messages)

    @property
    def turns(self) -> int:
        """Number of user messages."""
        return sum(message.role == "user" for message in self.messages)

    @property
    def rules(self) -> tuple[str, ...]:
        """The sentences that the demo pins for the whole conversation, in order."""
        return tuple(rule for message in self.messages for rule in pinned_by(message))


def load_sample() -> Sample:
    """Load the conversation and the tool schemas shipped with turnfold."""
    folder = files("turnfold.cli.demo")
    lines = folder.joinpath("conversation.jsonl").read_text(encoding="utf-8").splitlines()
    tools = json.loads(folder.joinpath("tools.json").read_text(encoding="utf-8"))
    return Sample(
        messages=tuple(as_messages(json.loads(line) for line in lines)),
        tools=tuple(cast("list[dict[str, object]]", tools)),
    )


def pinned_by(message: Message) -> list[str]:
    """Return the sentences of a message to pin for the whole conversation."""
    return cast("list[str]", message.metadata.get("pin", []))


CONVERSATION = "warehouse"
"""Id of the demo's conversation in its SQLite file."""
_EXCERPT_LINES = 2
_SPEAKERS = (("user:", "用户："), ("assistant:", "助手："))


@dataclass(frozen=True, slots=True)
class Fold:
    """The entries that a summary replaces from this call of the demo on."""

    checkpoint: str
    """Id of the checkpoint (summary) that the fold made."""
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
    """Lines of the new summary that are about the messages folded by this fold."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A message that is sent shortened from this call on."""

    position: int
    """Seq (log position) of the shortened entry."""
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
        """Return the tokens that the call would have if nothing had been folded or cut."""
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
    """Return the first new lines of a summary: of the user, then of the assistant, then rows of tables.

    There are equally many in both languages, so that a reader of either one has some to read.
    """
    known = set(before.splitlines())
    new = [line for line in checkpoint.text.splitlines() if line not in known]

    def rank(line: str) -> tuple[bool, int]:
        speakers = (at for at, names in enumerate(_SPEAKERS) if line.startswith(names))
        return "|" in line, next(speakers, len(_SPEAKERS))

    ranked = sorted(new, key=rank)
    both = [[line for line in ranked if in_language(line, each)] for each in ("en", "zh")]
    return tuple(line for lines in both for line in lines[:_EXCERPT_LINES])


_ENGLISH: Final = re.compile(r"[A-Za-z]{2,}(?: [A-Za-z]{2,}){2}")
"""Matches three English words in a row."""
_HAN: Final = re.compile(r"[\u3400-\u9fff]")


def in_language(line: str, language: str) -> bool:
    """Return True if a line is in the given language: Chinese lines have no other words, other lines no Chinese."""
    if language == "zh":
        return is_chinese(line) and not _ENGLISH.search(line)
    return not _HAN.search(line)


_SMALLEST_CACHED = 1024
_CACHE_STEP = 128
_BROKEN_PAIR = (Rule.CALL_ANSWERED, Rule.RESULT_CALLED)


@dataclass(frozen=True, slots=True)
class Tally:
    """Totals of one method of choosing messages, over all calls of the demo."""

    calls: int
    tokens_sent: int
    largest_call: int
    calls_over_budget: int
    broken_pairs: int
    """Number of tool calls without their result and of results without their call, over all calls."""
    calls_with_broken_pairs: int
    """Number of calls that a provider would reject because of broken pairs."""
    mean_prefix: float
    """Average share of the previous prompt that a call repeats at its beginning; the first call is not counted."""
    cached_share: float
    """Share of the sent tokens that could have come from a provider's prompt cache."""
    rules_in_last_call: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Figures of turnfold and two simple methods for the same conversation."""

    turnfold: Tally
    sliding: Tally
    sliding_messages: int
    """Number of messages in the sliding window: as many as turnfold sent on average."""
    everything: Tally


def compare(
    sample: Sample, steps: Sequence[Step], budget: Budget, counter: TokenCounter
) -> Comparison:
    """Measure the prompts of turnfold, and those that the two simple methods would have sent."""
    shown = round(sum(len(step.context.positions) for step in steps) / len(steps))

    def measure(prompts: Iterable[Sequence[Message]]) -> Tally:
        return tally(prompts, budget=budget, counter=counter, sample=sample)

    return Comparison(
        turnfold=measure(step.context.messages for step in steps),
        sliding=measure(newest(sample, shown)),
        sliding_messages=shown,
        everything=measure(newest(sample, len(sample.messages))),
    )


def newest(sample: Sample, count: int) -> Iterator[Sequence[Message]]:
    """Yield the prompt of each call with a sliding window: system messages and the newest `count` messages."""
    system: list[Message] = []
    talk: list[Message] = []
    for message in sample.messages:
        if message.role == "assistant":
            yield [*system, *talk[-count:]]
        (system if message.role == "system" else talk).append(message)


def tally(
    prompts: Iterable[Sequence[Message]], *, budget: Budget, counter: TokenCounter, sample: Sample
) -> Tally:
    """Compute the totals (tokens, broken tool pairs, shared prefix) of a sequence of prompts."""
    tools = counter.count_tools(sample.tools)
    known: dict[Message, int] = {}

    def cost(message: Message) -> int:
        if message not in known:
            known[message] = counter.count_message(message)
        return known[message]

    sizes: list[int] = []
    broken: list[int] = []
    prefixes: list[float] = []
    cached = 0
    previous: Sequence[Message] = ()
    for prompt in prompts:
        sizes.append(sum(map(cost, prompt)) + tools + counter.reply)
        broken.append(sum(found.rule in _BROKEN_PAIR for found in check(prompt)))
        if previous:
            shared = sum(map(cost, _common(previous, prompt)))
            prefixes.append(shared / sum(map(cost, previous)))
            cached += cached_tokens(shared + tools)
        previous = prompt
    last_text = "\n".join(message.text for message in previous)
    return Tally(
        calls=len(sizes),
        tokens_sent=sum(sizes),
        largest_call=max(sizes, default=0),
        calls_over_budget=sum(size > budget.tokens for size in sizes),
        broken_pairs=sum(broken),
        calls_with_broken_pairs=sum(count > 0 for count in broken),
        mean_prefix=sum(prefixes) / len(prefixes) if prefixes else 1.0,
        cached_share=cached / sum(sizes) if sizes else 0.0,
        rules_in_last_call=sum(rule in last_text for rule in sample.rules),
    )


def cached_tokens(prefix: int) -> int:
    """Return how many tokens of a repeated prefix, tool schemas included, OpenAI's prompt cache can serve for gpt-4o.

    The cache is not used below 1,024 tokens and counts in steps of 128. The provider decides when its entries expire,
    so this is an upper bound.
    """
    return prefix // _CACHE_STEP * _CACHE_STEP if prefix >= _SMALLEST_CACHED else 0


def _common(before: Sequence[Message], after: Sequence[Message]) -> Iterator[Message]:
    for ours, theirs in zip(before, after, strict=False):
        if ours != theirs:
            return
        yield theirs
