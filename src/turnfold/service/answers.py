"""What is answered: values of the library in the form they have on the wire, and pages of them.

Where a value has no message in it, it is answered as it is: the same class is written here and read by the client.
"""

from __future__ import annotations

import msgspec

from turnfold.memory.manifests import Difference, Explanation, Manifest
from turnfold.memory.searching import Found
from turnfold.memory.tail import Recalled
from turnfold.records import Checkpoint
from turnfold.records.findings import Finding
from turnfold.service.bodies import BudgetBody, EntryForm, Form, Said, said_form, said_forms
from turnfold.stores.protocol import Appended, ConversationInfo
from turnfold.window import Anchor, Context, Receipt

__all__ = (
    "CallsPage",
    "CheckpointAnswer",
    "CheckpointsAnswer",
    "ClearedAnswer",
    "ContextForm",
    "ConversationsPage",
    "CountAnswer",
    "DifferenceForm",
    "DoneAnswer",
    "EntriesPage",
    "ExplanationForm",
    "FindingAnswer",
    "FindingsAnswer",
    "ForkedAnswer",
    "FoundAnswer",
    "PinAnswer",
    "PinsAnswer",
    "RecalledAnswer",
    "RecalledForm",
    "StateAnswer",
    "SystemAnswer",
    "TextAnswer",
    "context_form",
    "difference_form",
    "explanation_form",
    "recalled_answer",
)


class _Answer(msgspec.Struct, kw_only=True):
    """A later release may add fields: readers leave alone what they do not know."""


class SystemAnswer(_Answer):
    """What making a system message did."""

    appended: Appended | None
    """None where it was the system message already."""


class CheckpointAnswer(_Answer):
    """What a fold did."""

    checkpoint: Checkpoint | None
    """None where there was nothing to fold."""


class CheckpointsAnswer(_Answer):
    """All checkpoints, oldest first."""

    checkpoints: list[Checkpoint]


class ContextForm(_Answer):
    """Everything one call sends, with its receipt."""

    call: str
    """Names the call for `explain`, `diff` and its usage; empty for a preview."""
    messages: list[Said]
    costs: list[int]
    positions: list[int]
    ends: tuple[int, int, int, int]
    head: int
    budget: BudgetBody
    counter: str
    anchor: Anchor
    receipt: Receipt


class EntriesPage(_Answer):
    """A page of the log."""

    entries: list[EntryForm]
    next: int | None
    """`after` of the next page; null on the last."""


class CallsPage(_Answer):
    """A page of the calls made so far."""

    calls: list[Manifest]
    next: str | None


class ConversationsPage(_Answer):
    """A page of conversations."""

    conversations: list[ConversationInfo]
    next: str | None


class ExplanationForm(_Answer):
    """A call, with the messages it sent."""

    manifest: Manifest
    messages: list[Said]
    exact: bool
    costs: tuple[int, ...] = ()
    seqs: tuple[int, ...] = ()
    ends: tuple[int, int, int, int] = (0, 0, 0, 0)


class DifferenceForm(_Answer):
    """What changed between two calls."""

    shared_messages: int
    gone: list[Said]
    new: list[Said]
    sections: dict[str, int]
    reasons: tuple[str, ...]


class RecalledForm(_Answer):
    """An entry found again."""

    seq: int
    turn: int
    message: Said
    created: int
    score: float
    excerpt: str


class RecalledAnswer(_Answer):
    """Entries found again."""

    recalled: list[RecalledForm]


class PinAnswer(_Answer):
    """What a text is pinned under."""

    key: str


class PinsAnswer(_Answer):
    """What is pinned, oldest first."""

    pins: dict[str, str]


class StateAnswer(_Answer):
    """The session's state."""

    values: dict[str, object]


class DoneAnswer(_Answer):
    """Whether there was anything to do."""

    done: bool


class ClearedAnswer(_Answer):
    """Up to where nothing is shown again."""

    upto: int


class ForkedAnswer(_Answer):
    """The new conversation."""

    conversation: str


class FindingAnswer(_Answer):
    """What was remembered."""

    finding: Finding | None


class FindingsAnswer(_Answer):
    """What is remembered."""

    findings: list[Finding]


class CountAnswer(_Answer):
    """How many."""

    count: int


class FoundAnswer(_Answer):
    """What a search found, best first."""

    found: list[Found]


class TextAnswer(_Answer):
    """A text."""

    text: str


def context_form(context: Context, *, call: str, form: Form) -> ContextForm:
    """A context as it is answered."""
    return ContextForm(
        call=call,
        messages=said_forms(context.messages, form),
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
    """An explanation as it is answered."""
    return ExplanationForm(
        manifest=found.manifest,
        messages=said_forms(found.messages, form),
        exact=found.exact,
        costs=found.costs,
        seqs=found.seqs,
        ends=found.ends,
    )


def difference_form(found: Difference, form: Form) -> DifferenceForm:
    """A difference as it is answered."""
    return DifferenceForm(
        shared_messages=found.shared_messages,
        gone=said_forms(found.gone, form),
        new=said_forms(found.new, form),
        sections=found.sections,
        reasons=found.reasons,
    )


def recalled_answer(found: list[Recalled], form: Form) -> RecalledAnswer:
    """Entries found again as they are answered."""
    return RecalledAnswer(
        recalled=[
            RecalledForm(
                seq=each.seq,
                turn=each.turn,
                message=said_form(each.message, form),
                created=each.created,
                score=each.score,
                excerpt=each.excerpt,
            )
            for each in found
        ]
    )
