"""Replay of conversations with questions under several budgets, with turnfold and the memories compared with it.

Before each recorded answer a peer builds the context of that call. After the last message each question is asked as a
new user message and answered with "ok". Contexts are kept until the conversation is measured, so that every measure is
a function of messages and contexts (`turnfold.evaluation.measures`). Nothing is written to the user's store.
"""

from __future__ import annotations

import gzip
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from importlib.resources import files
from itertools import chain, count, takewhile
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from turnfold.errors import BudgetTooSmall, InvalidExport, InvalidOption, InvalidRecord, NotFound
from turnfold.evaluation.measures import (
    AtomIndex,
    MeasuredCall,
    call_positions,
    call_prices,
    evidence_share,
    fold_indexes,
    is_usable,
    mean,
    normal_space,
    recall_scores,
    rules_in,
    shared_tokens,
    spread,
    stale_rules_in,
)
from turnfold.evaluation.peers import (
    Bm25Peer,
    MessageCosts,
    Peer,
    PeerFactory,
    RecencyPeer,
    TurnfoldPeer,
)
from turnfold.memory import Memory
from turnfold.records import Message, assistant, user
from turnfold.tokens import PriceTable, TokenCounter, cautious_counter, counter_for

__all__ = (
    "EvalConversation",
    "EvalQuestion",
    "EvalRule",
    "Evaluation",
    "EvaluationRow",
    "EvaluationTrial",
    "FoldPoint",
    "evaluate",
    "read_set",
    "run_trial",
    "sample_set",
)


@dataclass(frozen=True, slots=True)
class EvalQuestion:
    """A question, and the seqs (from 1) of the messages that contain its answer."""

    question: str
    evidence: frozenset[int]


@dataclass(frozen=True, slots=True)
class EvalRule:
    """A rule of the user, in force from message `seq` on until message `until`; `until` is 0 if it never ends."""

    text: str
    seq: int
    until: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalConversation:
    """A conversation to evaluate a memory on, with questions and the user's rules."""

    name: str
    messages: tuple[Message, ...]
    times: tuple[int, ...] = ()
    """Time of each message, in microseconds since 1970; empty if unknown."""
    questions: tuple[EvalQuestion, ...] = ()
    rules: tuple[EvalRule, ...] | None = None
    """Rules of the user; None to use the rules that `session.rules()` finds."""

    def rules_at(self, seq: int) -> tuple[str, ...]:
        """Return the texts of `rules` that are in force after the first `seq` messages."""
        return tuple(
            rule.text for rule in self.rules or () if rule.seq <= seq and not 0 < rule.until <= seq
        )

    def replaced_at(self, seq: int) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the `rules` that ended within the first `seq` messages, each with the texts that ended it."""
        rules = self.rules or ()
        return tuple(
            (
                rule.text,
                (
                    self.messages[rule.until - 1].text,
                    *(new.text for new in rules if new.seq == rule.until),
                ),
            )
            for rule in rules
            if 0 < rule.until <= seq
        )


class _SetMessage(msgspec.Struct):
    id: str | int
    role: str
    content: object = None
    time: str | None = None
    tool_calls: list[object] | None = None
    tool_call_id: str | None = None


class _SetQuestion(msgspec.Struct):
    question: str
    evidence_ids: list[str | int] = []


class _SetRule(msgspec.Struct):
    text: str
    message_id: str | int
    until_id: str | int | None = None


_LARGEST = 1 << 30
"""Most bytes of an unpacked data file, all of which is held in memory; a larger file is refused."""


_SET_FORMAT = (
    "Each line is a JSON object with conversation_id, messages (id, role, content) and questions (question, "
    "evidence_ids) or rules (text, message_id)"
)


class _SetLine(msgspec.Struct):
    conversation_id: str
    messages: list[_SetMessage]
    questions: list[_SetQuestion] = []
    rules: list[_SetRule] | None = None


def read_set(path: str | Path) -> list[EvalConversation]:
    """Read the conversations of a file; raises `InvalidExport` with the number of the line that is wrong."""
    file = Path(path)
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as content:
            data = content.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise InvalidExport(f"{file} has more than {_LARGEST:,} bytes; split it")
        found = _parse(data)
    except FileNotFoundError:
        raise NotFound(f"no such file: {file}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidExport(f"cannot read {file}: {error}") from None
    if not found:
        raise NotFound(
            f"{file} has no conversations: each line must be a conversation as a JSON object"
        )
    return found


def sample_set() -> list[EvalConversation]:
    """Return the small invented data set that comes with turnfold: an English and a Chinese conversation."""
    return _parse(files("turnfold.evaluation").joinpath("sample.jsonl").read_bytes())


def _parse(data: bytes) -> list[EvalConversation]:
    found: list[EvalConversation] = []
    for line, text in enumerate(data.splitlines(), 1):
        if not text.strip():
            continue
        try:
            found.append(_conversation(msgspec.json.decode(text, type=_SetLine)))
        except (msgspec.MsgspecError, UnicodeError, InvalidRecord, ValueError) as error:
            raise InvalidExport(str(error), line=line, remedy=_SET_FORMAT) from None
    return found


def _conversation(line: _SetLine) -> EvalConversation:
    seqs = {message.id: seq for seq, message in enumerate(line.messages, 1)}
    if len(seqs) < len(line.messages):
        twice = next(each.id for seq, each in enumerate(line.messages, 1) if seqs[each.id] != seq)
        raise ValueError(f"two messages have the same id {twice!r}")
    messages = tuple(
        Message(each.role, each.content, tool_calls=each.tool_calls, tool_call_id=each.tool_call_id)
        for each in line.messages
    )
    asked = [
        EvalQuestion(each.question, frozenset(_seq(seqs, one) for one in each.evidence_ids))
        for each in line.questions
    ]
    return EvalConversation(
        name=line.conversation_id,
        messages=messages,
        times=tuple(_microseconds(each.time) for each in line.messages),
        questions=tuple(each for each in asked if each.evidence),
        rules=None
        if line.rules is None
        else tuple(_rule(rule, seqs, messages) for rule in line.rules),
    )


def _rule(rule: _SetRule, seqs: dict[str | int, int], messages: Sequence[Message]) -> EvalRule:
    seq = _seq(seqs, rule.message_id)
    if normal_space(rule.text) not in normal_space(messages[seq - 1].text):
        raise ValueError(
            f"message {rule.message_id!r} does not contain the text of the rule {rule.text!r}"
        )
    return EvalRule(rule.text, seq, 0 if rule.until_id is None else _seq(seqs, rule.until_id))


def _seq(seqs: dict[str | int, int], name: str | int) -> int:
    if name not in seqs:
        raise ValueError(f"there is no message with the id {name!r}")
    return seqs[name]


def _microseconds(text: str | None) -> int:
    """Convert a time in ISO 8601, or in LoCoMo's form ("1:56 pm on 8 May, 2023"), to microseconds; 0 for no time."""
    if not text:
        return 0
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = datetime.strptime(text, "%I:%M %p on %d %B, %Y")  # noqa: DTZ007 (made UTC below)
    return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()) * 1_000_000


_MOST_POINTS = 20
"""Most calls of a conversation in which rules and hard facts are counted; of a longer conversation, evenly spaced
calls."""
_BEST = 5
"""Number of best search results per question from which recall and precision are computed."""
OnCall = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldPoint:
    """Numbers of rules and hard facts (names, numbers, dates) that one call still sends after some folds (compactions).

    They are measured only at calls whose log does not fit the budget, at the same calls for every compared memory.
    """

    conversation: str
    folds: int
    """Folds so far: calls that dropped or shortened a message of the log which the previous call sent."""
    seq: int
    """Number of messages in the log when the call was made."""
    rules: int
    rules_kept: int
    replaced: int
    """Rules that the user replaced or withdrew before this call."""
    stale_rules: int
    """Replaced rules that the call sends word for word, without the rule that replaced them."""
    atoms: int
    atoms_kept: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationTrial:
    """Measurements of one conversation with one compared memory and budget."""

    calls: tuple[MeasuredCall, ...]
    folds: int
    points: tuple[FoldPoint, ...]
    coverage: tuple[float, ...]
    """Share of the evidence in the context, for each question."""
    found: tuple[tuple[float, float], ...]
    """Recall and precision of the five best search results, for each question; empty if the compared memory cannot
    search."""
    refused: str
    """Error of the first call for which the compared memory built no context; empty if the compared memory built all
    contexts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRow:
    """Totals of all conversations with one compared memory and budget; a figure that could not be measured is None."""

    method: str
    budget: int
    calls: int
    usable: int
    """Number of calls that a provider would accept and that include the message to be answered."""
    over_budget: int
    folds: int
    rules_kept: float | None
    """Share of the rules in force that a call sends word for word, once the log no longer fits the budget."""
    stale_rules: float | None
    """Share of the replaced rules that a call sends word for word without the rule that replaced them; lower is
    better. None without given rules: those that turnfold finds itself cannot show a change that it misses."""
    atoms_kept: float | None
    coverage: float | None
    """Mean share of a question's evidence that is in the context."""
    recall_at_5: float | None
    precision_at_5: float | None
    kept_prefix: float | None
    """Mean share of the previous request that a request repeats at its beginning."""
    budget_used: float | None
    """Mean share of the budget that calls use once the log no longer fits the budget."""
    price_per_call: float | None
    """Mean list price of a usable call, including the discount of the provider's prompt cache."""
    points: tuple[FoldPoint, ...]
    refused: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The result of an evaluation: a row of figures per compared memory and budget, and where they come from."""

    conversations: int
    entries: int
    questions: int
    rules_from: Literal["given", "session.rules()", "both"]
    """Source of the rules: given in the data set, found by turnfold, or both."""
    counter: str
    model: str
    prices: str
    """Date of the price table; empty if nothing was priced."""
    currency: str
    rows: tuple[EvaluationRow, ...]
    skipped: tuple[str, ...]
    """Ids of the conversations that were skipped, because they have neither an answer nor a question."""


class _RulesAt(NamedTuple):
    """The user's rules when a call was made."""

    in_force: tuple[str, ...]
    replaced: tuple[tuple[str, tuple[str, ...]], ...]
    """Rules that ended before this call, each with the texts that say so; empty if the rules are not given."""


class _Reference:
    """The user's rules at each call and the hard facts of a conversation, which contexts should keep."""

    def __init__(self, conversation: EvalConversation, counter: TokenCounter) -> None:
        self.conversation, self.counter = conversation, counter
        self.positions = call_positions(conversation.messages)

    @cached_property
    def atoms(self) -> AtomIndex:
        return AtomIndex(self.conversation.messages)

    @cached_property
    def rules(self) -> dict[int, _RulesAt]:
        given, messages = self.conversation, self.conversation.messages
        if given.rules is not None:
            return {
                seq: _RulesAt(given.rules_at(seq), given.replaced_at(seq)) for seq in self.positions
            }
        found: dict[int, _RulesAt] = {}
        logged = 0
        with Memory(counter=self.counter) as memory:
            session = memory.session("rules")
            for seq in self.positions:
                session.add(messages[logged:seq])
                logged = seq
                # Which rules were replaced is not taken from the ledger: a change that it misses would be missed by
                # the measure too, and the share of stale rules would be 0 for whatever is sent.
                found[seq] = _RulesAt(tuple(rule.text for rule in session.rules()), ())
        return found


def evaluate(
    conversations: Iterable[EvalConversation],
    *,
    budgets: Sequence[int] = (2_000, 8_000),
    peers: Mapping[str, PeerFactory] | None = None,
    model: str = "gpt-4o",
    prices: PriceTable | None = None,
    on_progress: Callable[[int, int, str], object] | None = None,
) -> Evaluation:
    """Evaluate turnfold and other memories (default: recency and BM25) on conversations under each budget.

    Tokens are counted for `model`; with `prices`, calls are priced. `on_progress` is called with the calls done, all
    calls, and the present memory. `skipped` lists conversations with neither an answer nor a question.
    """
    counter = counter_for(model) if model else cautious_counter()
    others = {"recency": RecencyPeer, "bm25": Bm25Peer} if peers is None else peers
    if TurnfoldPeer.name in others:
        raise InvalidOption(
            f"a peer cannot be named {TurnfoldPeer.name!r}: that is the name of turnfold's own row; rename the peer"
        )
    given = list(conversations)
    chosen = [each for each in given if _work(each)]
    skipped = [each.name for each in given if not _work(each)]
    if not budgets:
        raise InvalidOption(
            "no budget was given, so there is nothing to evaluate: give at least one budget"
        )
    if not chosen:
        raise NotFound(
            f"nothing to evaluate: none of the {len(skipped)} conversations has an answer or a question"
        )
    trials: dict[tuple[int, str], list[EvaluationTrial]] = {
        (budget, name): [] for budget in budgets for name in (TurnfoldPeer.name, *others)
    }
    total, done, at_work = len(trials) * sum(map(_work, chosen)), count(), ""

    def on_call() -> None:
        if on_progress is not None:
            on_progress(next(done), total, at_work)

    for each in chosen:
        reference = _Reference(each, counter)
        for (budget, name), found in trials.items():
            at_work = f"{name} at {budget:,}"
            ours = partial(TurnfoldPeer, times=each.times, budget=budget)
            peer = others.get(name, ours)(counter)
            found.append(_trial(reference, peer, budget, on_call))
    charge = partial(call_prices, model=model, prices=prices) if prices else None
    return Evaluation(
        conversations=len(chosen),
        entries=sum(len(each.messages) for each in chosen),
        questions=sum(len(each.questions) for each in chosen),
        rules_from=_rules_from(chosen),
        counter=counter.name,
        model=model,
        prices=prices.date if prices else "",
        currency=prices.currency if prices else "",
        rows=tuple(_row(name, budget, found, charge) for (budget, name), found in trials.items()),
        skipped=tuple(skipped),
    )


def run_trial(
    conversation: EvalConversation,
    peer: Peer,
    budget: int,
    *,
    counter: TokenCounter,
) -> EvaluationTrial:
    """Evaluate one compared memory on one conversation under one budget."""
    return _trial(_Reference(conversation, counter), peer, budget, lambda: None)


def _work(conversation: EvalConversation) -> int:
    return len(call_positions(conversation.messages)) + len(conversation.questions)


def _rules_from(
    conversations: Sequence[EvalConversation],
) -> Literal["given", "session.rules()", "both"]:
    given = {each.rules is not None for each in conversations}
    return "both" if len(given) == 2 else "given" if given.pop() else "session.rules()"


def _trial(reference: _Reference, peer: Peer, budget: int, on_call: OnCall) -> EvaluationTrial:
    try:
        replay = _Replay(reference, peer, budget, on_call)
        replay.calls()
        found, coverage = replay.questions()
    finally:
        close = getattr(peer, "close", None)
        if close is not None:
            close()
    messages, contexts = reference.conversation.messages, replay.contexts
    folds = fold_indexes(contexts, messages)
    calls = tuple(_measured(replay, messages, MessageCosts(reference.counter)))
    full = [index for index, call in enumerate(calls) if call.full]
    chosen = [full[at] for at in spread(len(full), _MOST_POINTS)]
    points = [
        _point(reference, contexts[index] or (), calls[index].seq, bisect_right(folds, index))
        for index in chosen
    ]
    return EvaluationTrial(
        calls=calls,
        folds=len(folds),
        points=tuple(points),
        coverage=tuple(coverage),
        found=tuple(found),
        refused=replay.refused,
    )


class _Replay:
    """Replay of one conversation with one compared memory; collects the contexts."""

    def __init__(self, reference: _Reference, peer: Peer, budget: int, on_call: OnCall) -> None:
        self._conversation, self.positions = reference.conversation, reference.positions
        self._peer, self.budget, self._on_call = peer, budget, on_call
        self.contexts: list[tuple[Message, ...] | None] = []
        self.marks: list[tuple[int, ...]] = []
        """Number of messages before each cache breakpoint, for each call."""
        self.refused = ""

    def calls(self) -> None:
        """Let the compared memory build the context of every recorded call, and collect the contexts."""
        for at in self.positions:
            context = self._context(self._conversation.messages[:at])
            system = len(list(takewhile(lambda message: message.role == "system", context or ())))
            usual = (system, len(context or ()))
            self.contexts.append(context)
            self.marks.append(getattr(self._peer, "marks", usual))

    def questions(self) -> tuple[list[tuple[float, float]], list[float]]:
        """Search for each question, then ask the questions one after the other.

        Returns search scores and evidence shares.
        """
        log = list(self._conversation.messages)
        questions = self._conversation.questions
        search = getattr(self._peer, "search", None)
        found = [
            recall_scores(search(log, each.question, _BEST), each.evidence)
            for each in questions
            if search is not None
        ]
        coverage: list[float] = []
        for each in questions:
            evidence = [log[seq - 1] for seq in sorted(each.evidence)]
            log.append(user(each.question))
            coverage.append(evidence_share(self._context(log) or (), evidence))
            log.append(assistant("ok"))
        return found, coverage

    def _context(self, log: Sequence[Message]) -> tuple[Message, ...] | None:
        """Return the compared memory's context; None if it raises an error (for turnfold, only `BudgetTooSmall`)."""
        self._on_call()
        expected = BudgetTooSmall if isinstance(self._peer, TurnfoldPeer) else Exception
        try:
            return tuple(self._peer.context(log, self.budget))
        except expected as error:
            self.refused = self.refused or f"after {len(log):,} messages: {error}"
            return None


def _point(reference: _Reference, sent: Sequence[Message], seq: int, folds: int) -> FoldPoint:
    rules = reference.rules[seq]
    atoms_kept, atoms = reference.atoms.kept(sent, seq)
    return FoldPoint(
        conversation=reference.conversation.name,
        folds=folds,
        seq=seq,
        rules=len(rules.in_force),
        rules_kept=rules_in(sent, rules.in_force),
        replaced=len(rules.replaced),
        stale_rules=stale_rules_in(sent, rules.replaced),
        atoms=atoms,
        atoms_kept=atoms_kept,
    )


def _measured(
    replay: _Replay, messages: Sequence[Message], cost: MessageCosts
) -> Iterator[MeasuredCall]:
    """Yield the figures of each replayed call: tokens, shared prefix, whether it is usable."""
    before: tuple[Message, ...] = ()
    logged = counted = 0
    for at, context, marks in zip(replay.positions, replay.contexts, replay.marks, strict=True):
        logged += sum(map(cost, messages[counted:at]))
        counted = at
        sent = context or ()
        answer = takewhile(lambda message: message.role == "assistant", messages[at:])
        yield MeasuredCall(
            seq=at,
            tokens=sum(map(cost, sent)) + cost.reply if sent else 0,
            marks=tuple(sum(map(cost, sent[:mark])) for mark in marks),
            shared=shared_tokens(before, sent, cost),
            previous=sum(map(cost, before)),
            answer=sum(map(cost, answer)),
            usable=is_usable(sent, messages[at - 1]),
            full=logged + cost.reply > replay.budget,
        )
        before = sent


def _row(
    method: str,
    budget: int,
    trials: Sequence[EvaluationTrial],
    prices: Callable[[Iterable[MeasuredCall]], list[float]] | None,
) -> EvaluationRow:
    calls = [call for trial in trials for call in trial.calls]
    points = [point for trial in trials for point in trial.points]
    found = [each for trial in trials for each in trial.found]
    return EvaluationRow(
        method=method,
        budget=budget,
        calls=len(calls),
        usable=sum(call.usable for call in calls),
        over_budget=sum(call.tokens > budget for call in calls),
        folds=sum(trial.folds for trial in trials),
        rules_kept=_ratio((point.rules_kept, point.rules) for point in points),
        stale_rules=_ratio((point.stale_rules, point.replaced) for point in points),
        atoms_kept=_ratio((point.atoms_kept, point.atoms) for point in points),
        coverage=mean(chain.from_iterable(trial.coverage for trial in trials)),
        recall_at_5=mean(recall for recall, _ in found),
        precision_at_5=mean(precision for _, precision in found),
        kept_prefix=mean(call.shared / call.previous for call in calls if call.previous),
        budget_used=mean(call.tokens / budget for call in calls if call.full and call.tokens),
        price_per_call=mean(
            chain.from_iterable(prices(trial.calls) for trial in trials) if prices else ()
        ),
        points=tuple(points),
        refused=next((trial.refused for trial in trials if trial.refused), ""),
    )


def _ratio(pairs: Iterable[tuple[int, int]]) -> float | None:
    """Return the sum of the pairs' first numbers divided by the sum of their second numbers.

    Returns None if that sum is 0.
    """
    found = list(pairs)
    whole = sum(total for _, total in found)
    return sum(kept for kept, _ in found) / whole if whole else None
