"""From what a service answered to the values an embedded memory gives: the same classes, with the same contents."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from turnfold.memory.manifests import Difference, Explanation
from turnfold.memory.short_term.merge import as_read
from turnfold.memory.short_term.values import MemoryContext, SessionValue
from turnfold.memory.tail import Recalled
from turnfold.records import Entry, Message
from turnfold.service.answers import ContextForm, DifferenceForm, ExplanationForm, RecalledForm
from turnfold.service.bodies import EntryForm, Said, to_message
from turnfold.service.short_bodies import MemoryContextForm, SessionForm
from turnfold.tokens import TokenCounter
from turnfold.window import Context

__all__ = (
    "RemoteContext",
    "to_difference",
    "to_entry",
    "to_explanation",
    "to_memory_context",
    "to_recalled",
    "to_session",
)


class RemoteContext(Context):
    """A context that a service assembled: everything one call sends, and its receipt."""

    __slots__ = ("call", "counter_name")

    def __init__(self, form: ContextForm) -> None:
        receipt = form.receipt
        self.call = form.call
        """Names the call for `explain`, `diff` and `record_usage`; empty for a preview."""
        self.counter_name = form.counter
        """What the service counted with."""
        self.messages = _messages(form.messages)
        self.costs = form.costs
        self.positions = form.positions
        self.ends = form.ends
        self.head = form.head
        self.tools = receipt.tools
        self.budget = form.budget.budget()
        self.anchor = form.anchor
        self.fates = receipt.fates
        self.moved = receipt.moved
        self.tokens = receipt.tokens
        self.shared = receipt.shared
        self.previous = receipt.previous
        self.wired = receipt.wired
        self._receipt = receipt

    @property
    def counter(self) -> TokenCounter:
        """Not here: the service counted."""
        raise AttributeError(
            f"the service counted this context with {self.counter_name!r}; make a counter with counter_for(model)"
        )


def to_entry(form: EntryForm) -> Entry:
    """A stored message."""
    return Entry(
        form.seq,
        to_message(form.message),
        form.client_id,
        form.created,
        form.turn,
        form.tokens,
        form.running,
    )


def to_recalled(form: RecalledForm) -> Recalled:
    """An entry found again."""
    return Recalled(
        form.seq, form.turn, to_message(form.message), form.created, form.score, form.excerpt
    )


def to_explanation(form: ExplanationForm) -> Explanation:
    """A call with its messages."""
    return Explanation(
        form.manifest,
        _messages(form.messages),
        form.exact,
        costs=form.costs,
        seqs=form.seqs,
        ends=form.ends,
    )


def to_difference(form: DifferenceForm) -> Difference:
    """What changed between two calls."""
    return Difference(
        form.shared_messages,
        _messages(form.gone),
        _messages(form.new),
        form.sections,
        form.reasons,
    )


def to_session(form: SessionForm) -> SessionValue:
    """A session of document 003, which remembers what it was when it was read."""
    session = SessionValue.from_json(msgspec.json.encode(form))
    session.as_read = as_read(session)
    return session


def to_memory_context(form: MemoryContextForm) -> MemoryContext:
    """What a model call is given of a conversation."""
    return MemoryContext(
        conversation_id=form.conversation_id,
        mode=form.mode,
        session=to_session(form.session),
        history=form.history,
        full_history=form.full_history,
        estimated_tokens=form.estimated_tokens,
        token_ratio=form.token_ratio,
        should_checkpoint_summary=form.should_checkpoint_summary,
        query=form.query,
        upto=form.upto,
    )


def _messages(said: Iterable[Said]) -> tuple[Message, ...]:
    return tuple(map(to_message, said))
