"""What can be seen of a session: its log, its calls and why each sent what it sent. Nothing here changes anything."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from turnfold import wire
from turnfold.errors import InvalidOption
from turnfold.memory import SessionStatus
from turnfold.service.answers import (
    CallsPage,
    CheckpointsAnswer,
    ContextForm,
    DifferenceForm,
    EntriesPage,
    ExplanationForm,
    PinsAnswer,
    RecalledAnswer,
    StateAnswer,
    context_form,
    difference_form,
    explanation_form,
    recalled_answer,
)
from turnfold.service.bodies import (
    BudgetBody,
    Count,
    FindBody,
    Form,
    Limit,
    Nothing,
    Provider,
    RecallBody,
    entry_form,
)
from turnfold.service.operations import Asked, FormQuery, NoQuery, Operation, operation
from turnfold.service.tokens import Right

__all__ = ("OPERATIONS",)

_SESSION: Final = "/v1/sessions/{session}"
_READ: Final = Right.READ
_CallName = Annotated[str, Meta(min_length=1, max_length=512)]


class _HistoryQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    after: Count = 0
    limit: Limit = 100
    form: Form = "chat"


class _CallsQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    after: Annotated[str, Meta(max_length=512)] = ""
    limit: Limit = 100


class _DiffQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    before: _CallName
    after: _CallName
    form: Form = "chat"


class _PreviewBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    query: str | None = None
    budget: BudgetBody | None = None
    tools: list[dict[str, object]] | None = None
    to: Provider | None = None
    """Whose body `max_bytes` holds for."""


@operation("GET", _SESSION, right=_READ, answer=SessionStatus)
async def status(asked: Asked[Nothing, NoQuery]) -> SessionStatus:
    """Where the session stands; one that nobody has used stands at 0."""
    return await asked.session.status()


@operation("GET", f"{_SESSION}/messages", right=_READ, query=_HistoryQuery, answer=EntriesPage)
async def history(asked: Asked[Nothing, _HistoryQuery]) -> EntriesPage:
    """Read a page of the log: entries with seq > `after`, oldest first, folded or not."""
    query = asked.query
    found = await asked.session.history(after=query.after, limit=query.limit)
    more = len(found) == query.limit
    return EntriesPage(
        entries=[entry_form(entry, query.form) for entry in found],
        next=found[-1].seq if more else None,
    )


@operation("GET", f"{_SESSION}/turns/{{number}}", right=_READ, query=FormQuery, answer=EntriesPage)
async def turn(asked: Asked[Nothing, FormQuery]) -> EntriesPage:
    """Read the entries of one turn, folded or not; turn 0 is what came before the first user message."""
    number = asked.names["number"]
    if not (number.isascii() and number.isdecimal() and len(number) < 19):
        raise InvalidOption(f"turn {number[:40]!r} is not a whole number from 0")
    found = await asked.session.turn(int(number))
    return EntriesPage(entries=[entry_form(each, asked.query.form) for each in found], next=None)


@operation(
    "POST",
    f"{_SESSION}/find",
    right=_READ,
    body=FindBody,
    query=FormQuery,
    answer=EntriesPage,
)
async def find(asked: Asked[FindBody, FormQuery]) -> EntriesPage:
    """Look up the entries stored under these client ids, oldest first; unknown ids are not among them."""
    found = await asked.session.find(asked.body.client_ids)
    return EntriesPage(entries=[entry_form(each, asked.query.form) for each in found], next=None)


@operation(
    "POST",
    f"{_SESSION}/preview",
    right=_READ,
    body=_PreviewBody,
    query=FormQuery,
    answer=ContextForm,
)
async def preview(asked: Asked[_PreviewBody, FormQuery]) -> ContextForm:
    """See what `context` would give now: nothing is stored, a fold that is due is not made."""
    body = asked.body
    budget = body.budget and body.budget.budget()
    built = await asked.session.preview(
        body.query,
        budget=budget,
        tools=body.tools,
        to=getattr(wire, body.to) if body.to else None,
    )
    return context_form(built, call="", form=asked.query.form)


@operation(
    "POST",
    f"{_SESSION}/recall",
    right=_READ,
    body=RecallBody,
    query=FormQuery,
    answer=RecalledAnswer,
)
async def recall(asked: Asked[RecallBody, FormQuery]) -> RecalledAnswer:
    """Find entries that match, best first, folded or not; with `tokens`, passages that cost no more."""
    body = asked.body
    found = await asked.session.recall(
        body.query, limit=body.limit, tokens=body.tokens, within=body.within.within()
    )
    return recalled_answer(found, asked.query.form)


@operation("GET", f"{_SESSION}/checkpoints", right=_READ, answer=CheckpointsAnswer)
async def checkpoints(asked: Asked[Nothing, NoQuery]) -> CheckpointsAnswer:
    """List all checkpoints, oldest first; the last one is live."""
    return CheckpointsAnswer(checkpoints=await asked.session.checkpoints())


@operation("GET", f"{_SESSION}/pins", right=_READ, answer=PinsAnswer)
async def pins(asked: Asked[Nothing, NoQuery]) -> PinsAnswer:
    """List what is pinned, by key, oldest first."""
    return PinsAnswer(pins=await asked.session.pins())


@operation("GET", f"{_SESSION}/state", right=_READ, answer=StateAnswer)
async def state(asked: Asked[Nothing, NoQuery]) -> StateAnswer:
    """Read every value of the session's state."""
    return StateAnswer(values=await asked.session.state.all())


@operation("GET", f"{_SESSION}/calls", right=_READ, query=_CallsQuery, answer=CallsPage)
async def calls(asked: Asked[Nothing, _CallsQuery]) -> CallsPage:
    """Read a page of the calls made so far, in the order of the log."""
    found = await asked.session.calls(after=asked.query.after, limit=asked.query.limit)
    more = len(found) == asked.query.limit
    return CallsPage(calls=found, next=found[-1].call if more else None)


@operation(
    "GET", f"{_SESSION}/calls/{{call}}", right=_READ, query=FormQuery, answer=ExplanationForm
)
async def explain(asked: Asked[Nothing, FormQuery]) -> ExplanationForm:
    """See what a call sent and why."""
    found = await asked.session.explain(asked.names["call"])
    return explanation_form(found, asked.query.form)


@operation("GET", f"{_SESSION}/diff", right=_READ, query=_DiffQuery, answer=DifferenceForm)
async def diff(asked: Asked[Nothing, _DiffQuery]) -> DifferenceForm:
    """See what changed from one call to another."""
    query = asked.query
    return difference_form(await asked.session.diff(query.before, query.after), query.form)


OPERATIONS: tuple[Operation, ...] = (
    status,
    history,
    turn,
    find,
    preview,
    recall,
    checkpoints,
    pins,
    state,
    calls,
    explain,
    diff,
)
