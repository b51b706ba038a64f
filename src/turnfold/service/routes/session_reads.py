"""Operations that read a session: its status, log, calls, pins, rules and state; none of them changes stored data."""

from __future__ import annotations

from turnfold import api, wire
from turnfold.api import (
    CallsPage,
    CheckpointsAnswer,
    CheckpointsQuery,
    ClientIdsBody,
    ContextForm,
    DifferenceForm,
    DiffQuery,
    EntriesPage,
    ExplanationForm,
    Form,
    FormQuery,
    HistoryQuery,
    NamePageQuery,
    NoQuery,
    Nothing,
    PinsAnswer,
    PreviewBody,
    RecallBody,
    RecalledAnswer,
    RulesAnswer,
    RulesQuery,
    StateAnswer,
    context_form,
    difference_form,
    entry_form,
    explanation_form,
    recalled_answer,
)
from turnfold.memory import SessionStatus
from turnfold.records import Entry
from turnfold.service.operation_table import OperationRequest, OperationTable

__all__ = ("TABLE",)

TABLE = OperationTable()


@TABLE.bind(api.operations.STATUS)
async def status(request: OperationRequest[Nothing, NoQuery]) -> SessionStatus:
    return await request.session.status()


@TABLE.bind(api.operations.HISTORY)
async def history(request: OperationRequest[Nothing, HistoryQuery]) -> EntriesPage:
    query = request.query
    found = await request.session.history(after=query.after, limit=query.limit)
    return _entries(found, query.form, following=len(found) == query.limit)


@TABLE.bind(api.operations.TURN)
async def turn(request: OperationRequest[Nothing, FormQuery]) -> EntriesPage:
    return _entries(await request.session.turn(request.number("number")), request.query.form)


@TABLE.bind(api.operations.BY_CLIENT_ID)
async def by_client_id(request: OperationRequest[ClientIdsBody, FormQuery]) -> EntriesPage:
    found = await request.session.by_client_id(request.body.client_ids)
    return _entries(found, request.query.form)


def _entries(found: list[Entry], form: Form, *, following: bool = False) -> EntriesPage:
    return EntriesPage(
        entries=[entry_form(entry, form) for entry in found],
        next=found[-1].seq if following else None,
    )


@TABLE.bind(api.operations.PREVIEW)
async def preview(request: OperationRequest[PreviewBody, FormQuery]) -> ContextForm:
    body = request.body
    built = await request.session.preview(
        body.query,
        budget=body.budget and body.budget.budget(),
        tools=body.tools,
        to=getattr(wire, body.to) if body.to else None,
    )
    return context_form(built, call="", form=request.query.form)


@TABLE.bind(api.operations.RECALL)
async def recall(request: OperationRequest[RecallBody, FormQuery]) -> RecalledAnswer:
    body = request.body
    found = await request.session.recall(
        body.query, limit=body.limit, tokens=body.tokens, within=body.within.within()
    )
    return recalled_answer(found, request.query.form)


@TABLE.bind(api.operations.CHECKPOINTS)
async def checkpoints(request: OperationRequest[Nothing, CheckpointsQuery]) -> CheckpointsAnswer:
    found = await request.session.checkpoints(dropped=request.query.dropped)
    return CheckpointsAnswer(checkpoints=found)


@TABLE.bind(api.operations.PINS)
async def pins(request: OperationRequest[Nothing, NoQuery]) -> PinsAnswer:
    return PinsAnswer(pins=await request.session.pins())


@TABLE.bind(api.operations.RULES)
async def rules(request: OperationRequest[Nothing, RulesQuery]) -> RulesAnswer:
    return RulesAnswer(rules=await request.session.rules(ended=request.query.ended))


@TABLE.bind(api.operations.STATE)
async def state(request: OperationRequest[Nothing, NoQuery]) -> StateAnswer:
    return StateAnswer(values=await request.session.state.all())


@TABLE.bind(api.operations.CALLS)
async def calls(request: OperationRequest[Nothing, NamePageQuery]) -> CallsPage:
    query = request.query
    found = await request.session.calls(after=query.after, limit=query.limit)
    return CallsPage(calls=found, next=found[-1].call if len(found) == query.limit else None)


@TABLE.bind(api.operations.EXPLAIN)
async def explain(request: OperationRequest[Nothing, FormQuery]) -> ExplanationForm:
    found = await request.session.explain(request.params["call"])
    return explanation_form(found, request.query.form)


@TABLE.bind(api.operations.DIFF)
async def diff(request: OperationRequest[Nothing, DiffQuery]) -> DifferenceForm:
    query = request.query
    return difference_form(await request.session.diff(query.before, query.after), query.form)
