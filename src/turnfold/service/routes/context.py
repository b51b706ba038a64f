"""Operations that build the next context of a session, or fold (compact) the session."""

from __future__ import annotations

from turnfold import api, wire
from turnfold.api import (
    ContextBody,
    ContextForm,
    FoldAnswer,
    FoldBody,
    FormQuery,
    NoQuery,
    caller_summary,
    context_form,
)
from turnfold.service.operation_table import OperationRequest, OperationTable

__all__ = ("TABLE",)

TABLE = OperationTable()


@TABLE.bind(api.operations.CONTEXT)
async def context(request: OperationRequest[ContextBody, FormQuery]) -> ContextForm:
    body, session = request.body, request.session
    built = await session.context(
        body.query,
        budget=body.budget and body.budget.budget(),
        tools=body.tools,
        recall=body.recall,
        notes=body.notes,
        workspace=body.workspace,
        to=getattr(wire, body.to) if body.to else None,
        max_tokens=body.max_tokens,
    )
    # Read it before the next await, because concurrent requests share this session.
    call = session.last_call
    request.state.call_made(request.caller.tenant)
    return context_form(built, call=call, form=request.query.form)


@TABLE.bind(api.operations.FOLD)
async def fold(request: OperationRequest[FoldBody, NoQuery]) -> FoldAnswer:
    body = request.body
    with caller_summary(body.summary):
        made = await request.session.fold(summary=body.summary, keep_turns=body.keep_turns)
    return FoldAnswer(checkpoint=made)
