"""Convert the responses of a service to the values that an embedded memory returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from turnfold.api import (
    ContextForm,
    DifferenceForm,
    EntryForm,
    ExplanationForm,
    MemoryContextForm,
    MessageJson,
    RecalledForm,
    SessionForm,
    to_message,
)
from turnfold.memories import MemoryContext, SessionValue, as_read
from turnfold.memory import Difference, Explanation
from turnfold.records import Entry, Message
from turnfold.search import Recalled
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
    """A context that a service built: all messages that one model call sends, and its receipt (context report)."""

    __slots__ = ("call", "counter_name")

    def __init__(self, form: ContextForm, *, tools: Sequence[Mapping[str, object]] = ()) -> None:
        receipt = form.receipt
        self.call = form.call
        """Id of the call, to be given to `explain`, `diff` and `record_usage`; empty for a preview."""
        self.counter_name = form.counter
        """Name of the token counter that the service used."""
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
        self.native = None
        self.tool_schemas = tools
        self._receipt = receipt

    @property
    def counter(self) -> TokenCounter:
        """Raises `AttributeError`: the service counted the tokens, and this process has no token counter."""
        raise AttributeError(
            f"a remote context has no counter: the service used {self.counter_name!r}. Make one with counter_for(model)"
        )


def to_entry(form: EntryForm) -> Entry:
    """Convert a service response to a log entry."""
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
    """Convert a service response to a recalled entry."""
    return Recalled(
        form.seq, form.turn, to_message(form.message), form.created, form.score, form.excerpt
    )


def to_explanation(form: ExplanationForm) -> Explanation:
    """Convert a service response to the explanation of a call, with the messages it sent."""
    return Explanation(
        form.manifest,
        _messages(form.messages),
        form.exact,
        costs=form.costs,
        seqs=form.seqs,
        ends=form.ends,
        tail=form.tail,
    )


def to_difference(form: DifferenceForm) -> Difference:
    """Convert a service response to the difference between two calls."""
    return Difference(
        form.shared_messages,
        _messages(form.gone),
        _messages(form.new),
        form.sections,
        form.reasons,
    )


def to_session(form: SessionForm) -> SessionValue:
    """Convert a service response to a short-term memory session, which keeps the values as they were read."""
    session = SessionValue.from_json(msgspec.json.encode(form))
    session.as_read = as_read(session)
    return session


def to_memory_context(form: MemoryContextForm) -> MemoryContext:
    """Convert a service response to the context of a short-term memory for a model call."""
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


def _messages(bodies: Iterable[MessageJson]) -> tuple[Message, ...]:
    return tuple(map(to_message, bodies))
