"""Operations of the short-term memory (`ShortMemory`), named like its methods."""

from __future__ import annotations

import msgspec

from turnfold import api
from turnfold.api import (
    CheckpointsAnswer,
    CreateBody,
    MemoryContextForm,
    NoQuery,
    Nothing,
    QueryBody,
    SessionForm,
    SetBody,
    ShortCheckpointBody,
    TurnBody,
    as_read_value,
    caller_summary,
    session_form,
    session_value,
)
from turnfold.memories import MemoryWriteResult
from turnfold.records import Checkpoint
from turnfold.service.operation_table import OperationRequest, OperationTable
from turnfold.stores import Erasure

__all__ = ("TABLE",)

TABLE = OperationTable()


@TABLE.bind(api.operations.CREATE_SHORT_MEMORY)
async def create_short_memory(request: OperationRequest[CreateBody, NoQuery]) -> SessionForm:
    options = msgspec.structs.asdict(request.body)
    return session_form(await request.short.create_short_memory(request.conversation_id, **options))


@TABLE.bind(api.operations.QUERY_MEMORY_CONTEXT)
async def query_memory_context(request: OperationRequest[QueryBody, NoQuery]) -> MemoryContextForm:
    options = msgspec.structs.asdict(request.body)
    found = await request.short.query_memory_context(request.conversation_id, **options)
    return MemoryContextForm(
        conversation_id=found.conversation_id,
        mode=found.mode,
        session=session_form(found.session),
        history=found.history,
        full_history=found.full_history,
        estimated_tokens=found.estimated_tokens,
        token_ratio=found.token_ratio,
        should_checkpoint_summary=found.should_checkpoint_summary,
        query=found.query,
        upto=found.upto,
    )


@TABLE.bind(api.operations.WRITE_TURN)
async def write_turn(request: OperationRequest[TurnBody, NoQuery]) -> MemoryWriteResult:
    turn = msgspec.structs.asdict(request.body)
    return await request.short.write_turn(request.conversation_id, **turn, client_id=request.key)


@TABLE.bind(api.operations.CHECKPOINT_SHORT_MEMORY)
async def checkpoint_short_memory(
    request: OperationRequest[ShortCheckpointBody, NoQuery],
) -> Checkpoint:
    body = request.body
    with caller_summary(body.summary):
        return await request.short.checkpoint_short_memory(
            request.conversation_id, body.summary, body.recent_turns, upto=body.upto
        )


@TABLE.bind(api.operations.GET_SHORT_MEMORY)
async def get_short_memory(request: OperationRequest[Nothing, NoQuery]) -> SessionForm:
    return session_form(await request.short.get_short_memory(request.conversation_id))


@TABLE.bind(api.operations.SET_SHORT_MEMORY)
async def set_short_memory(request: OperationRequest[SetBody, NoQuery]) -> SessionForm:
    session = session_value(request.body.session)
    if request.body.as_read is not None:
        session.as_read = as_read_value(request.body.as_read)
    return session_form(await request.short.set_short_memory(request.conversation_id, session))


@TABLE.bind(api.operations.RESET_SHORT_MEMORY)
async def reset_short_memory(request: OperationRequest[Nothing, NoQuery]) -> SessionForm:
    return session_form(await request.short.reset_short_memory(request.conversation_id))


@TABLE.bind(api.operations.CHECKPOINT_HISTORY)
async def checkpoint_history(request: OperationRequest[Nothing, NoQuery]) -> CheckpointsAnswer:
    found = await request.short.checkpoint_history(request.conversation_id)
    return CheckpointsAnswer(checkpoints=found)


@TABLE.bind(api.operations.DELETE_SHORT_MEMORY)
async def delete_short_memory(request: OperationRequest[Nothing, NoQuery]) -> Erasure:
    if await request.is_unused(request.conversation_id):
        return Erasure(request.conversation_id, 0, 0, 0, already=False)
    return await request.short.delete_short_memory(request.conversation_id)
