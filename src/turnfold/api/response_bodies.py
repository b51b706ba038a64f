"""Response bodies of the service, and the functions that make them from values of the library.

Values without messages, such as `Manifest`, need no class here: service and client send and read the library's own.
"""

from __future__ import annotations

import msgspec

from turnfold.api.request_bodies import (
    BudgetBody,
    EntryForm,
    Form,
    MessageJson,
    message_json,
    message_list,
)
from turnfold.memory import Difference, Explanation, Manifest, SearchResult
from turnfold.records import Checkpoint, Finding
from turnfold.rules import StandingRule
from turnfold.search import Recalled
from turnfold.stores import Appended, ConversationInfo
from turnfold.window import Anchor, Context, Receipt

__all__ = (
    "CallEvent",
    "CallsPage",
    "CheckpointsAnswer",
    "ClearedAnswer",
    "ContextForm",
    "ConversationsPage",
    "CountAnswer",
    "DifferenceForm",
    "DoneAnswer",
    "EntriesPage",
    "Events",
    "ExplanationForm",
    "FindingAnswer",
    "FindingsAnswer",
    "FoldAnswer",
    "ForkedAnswer",
    "FoundAnswer",
    "PinAnswer",
    "PinsAnswer",
    "PlainText",
    "Ready",
    "RecalledAnswer",
    "RecalledForm",
    "RulesAnswer",
    "StateAnswer",
    "SystemAnswer",
    "TextAnswer",
    "context_form",
    "difference_form",
    "explanation_form",
    "recalled_answer",
)


class _Answer(msgspec.Struct, kw_only=True):
    """Base of response bodies: unknown fields are ignored, since a later release may add some."""


class SystemAnswer(_Answer):
    """Result of setting the system message."""

    appended: Appended | None
    """The appended system message; null if the system message is unchanged."""


class FoldAnswer(_Answer):
    """Result of a fold (compaction)."""

    checkpoint: Checkpoint | None
    """The new checkpoint (summary); null if there was nothing to fold."""


class CheckpointsAnswer(_Answer):
    """All checkpoints (fold summaries) of a conversation, oldest first."""

    checkpoints: list[Checkpoint]


class ContextForm(_Answer):
    """A context: all messages that one model call sends, with its receipt (context report)."""

    call: str
    """Id of the call, to be given to `explain`, `diff` and reports of its usage; empty for a preview."""
    messages: list[MessageJson]
    costs: list[int]
    """Tokens of each message of `messages`."""
    positions: list[int]
    """Seq (log position) of each message of window and newest turn, in order; -1 for a placeholder message."""
    ends: tuple[int, int, int, int]
    """Index in `messages` after the last message of each section: system, summary, window, tail."""
    head: int
    """Seq of a user message sent before the window, because the window begins inside that message's turn; -1 for
    none."""
    budget: BudgetBody
    counter: str
    """Name of the token counter."""
    anchor: Anchor
    """Where the window begins (its first verbatim entry), and why."""
    receipt: Receipt


class EntriesPage(_Answer):
    """A page of the log."""

    entries: list[EntryForm]
    next: int | None
    """Value of `after` with which the next page is requested; null on the last page."""


class CallsPage(_Answer):
    """A page of the recorded model calls of a session."""

    calls: list[Manifest]
    next: str | None


class ConversationsPage(_Answer):
    """A page of the tenant's conversations."""

    conversations: list[ConversationInfo]
    next: str | None


class ExplanationForm(_Answer):
    """A recorded call with the messages it sent."""

    manifest: Manifest
    messages: list[MessageJson]
    exact: bool
    costs: tuple[int, ...] = ()
    seqs: tuple[int, ...] = ()
    ends: tuple[int, int, int, int] = (0, 0, 0, 0)
    tail: dict[str, int] = {}


class DifferenceForm(_Answer):
    """Difference between the contexts of two calls."""

    shared_messages: int
    gone: list[MessageJson]
    new: list[MessageJson]
    sections: dict[str, int]
    reasons: tuple[str, ...]


class RecalledForm(_Answer):
    """An earlier entry that a recall found."""

    seq: int
    turn: int
    message: MessageJson
    created: int
    score: float
    excerpt: str


class RecalledAnswer(_Answer):
    """The earlier entries that a recall found."""

    recalled: list[RecalledForm]


class PinAnswer(_Answer):
    """Key of the text that was pinned."""

    key: str


class PinsAnswer(_Answer):
    """Pinned texts by key, oldest first."""

    pins: dict[str, str]


class RulesAnswer(_Answer):
    """Active rules, in the order in which the user stated them; rules added by hand come first."""

    rules: list[StandingRule]


class StateAnswer(_Answer):
    """Values of the session state, by name."""

    values: dict[str, object]


class DoneAnswer(_Answer):
    """Result of a change: false if there was nothing to change."""

    done: bool


class ClearedAnswer(_Answer):
    """Result of `clear`: later contexts leave out all entries up to the seq `upto`."""

    upto: int


class ForkedAnswer(_Answer):
    """Id of the conversation that a fork made."""

    conversation: str


class FindingAnswer(_Answer):
    """The remembered finding (tool result); null if the result was not remembered."""

    finding: Finding | None


class FindingsAnswer(_Answer):
    """Remembered findings (tool results)."""

    findings: list[Finding]


class CountAnswer(_Answer):
    """Number of findings (remembered tool results) that were removed."""

    count: int


class FoundAnswer(_Answer):
    """Search results, best first."""

    found: list[SearchResult]


class TextAnswer(_Answer):
    """The findings (remembered tool results) as text for a prompt."""

    text: str


class Ready(_Answer):
    """Result of a health probe.

    `GET /readyz` returns true if this process can serve requests: its store works, and it is not shutting down.
    `GET /healthz` does not ask the store, and returns true until the process shuts down.
    """

    ready: bool


class CallEvent(_Answer):
    """A model call that was recorded, as sent in an event stream."""

    conversation: str
    manifest: Manifest


class Events:
    """Marker: the response is a stream of `CallEvent`."""


class PlainText:
    """Marker: the response is plain text."""


def context_form(context: Context, *, call: str, form: Form) -> ContextForm:
    """Return a context as a response body, with its messages in the form `chat` or `record`."""
    return ContextForm(
        call=call,
        messages=message_list(context.messages, form),
        costs=list(context.costs),
        positions=list(context.positions),
        ends=context.ends,
        head=context.head,
        budget=BudgetBody.of(context.budget),
        counter=context.counter.name,
        anchor=context.anchor,
        receipt=context.receipt,
    )


def explanation_form(found: Explanation, form: Form) -> ExplanationForm:
    """Return the explanation of a call as a response body, with messages in the form `chat` or `record`."""
    return ExplanationForm(
        manifest=found.manifest,
        messages=message_list(found.messages, form),
        exact=found.exact,
        costs=found.costs,
        seqs=found.seqs,
        ends=found.ends,
        tail=found.tail,
    )


def difference_form(found: Difference, form: Form) -> DifferenceForm:
    """Return the difference of two calls as a response body, with messages in the form `chat` or `record`."""
    return DifferenceForm(
        shared_messages=found.shared_messages,
        gone=message_list(found.gone, form),
        new=message_list(found.new, form),
        sections=found.sections,
        reasons=found.reasons,
    )


def recalled_answer(found: list[Recalled], form: Form) -> RecalledAnswer:
    """Return recalled entries as a response body, with messages in the form `chat` or `record`."""
    return RecalledAnswer(
        recalled=[
            RecalledForm(
                seq=each.seq,
                turn=each.turn,
                message=message_json(each.message, form),
                created=each.created,
                score=each.score,
                excerpt=each.excerpt,
            )
            for each in found
        ]
    )
