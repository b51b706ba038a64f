"""Operations that change the pins, rules, state or usage of a session, or clear, fork or delete it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from turnfold import api
from turnfold.api import (
    AddRuleBody,
    CheckpointsAnswer,
    ClearedAnswer,
    DoneAnswer,
    EraseQuery,
    ForkBody,
    ForkedAnswer,
    NoQuery,
    Nothing,
    PinAnswer,
    PinBody,
    StateAnswer,
    StateBody,
    UsageBody,
    ValueBody,
    to_usage,
)
from turnfold.memory import Manifest
from turnfold.rules import StandingRule
from turnfold.service.operation_table import OperationRequest, OperationTable
from turnfold.stores import Erasure

__all__ = ("TABLE",)

TABLE = OperationTable()


@TABLE.bind(api.operations.PIN)
async def pin(request: OperationRequest[PinBody, NoQuery]) -> PinAnswer:
    body = request.body
    return PinAnswer(key=await request.session.pin(body.content, seq=body.seq, key=body.key))


@TABLE.bind(api.operations.UNPIN)
async def unpin(request: OperationRequest[Nothing, NoQuery]) -> DoneAnswer:
    return DoneAnswer(done=await request.session.unpin(request.params["key"]))


@TABLE.bind(api.operations.ADD_RULE)
async def add_rule(request: OperationRequest[AddRuleBody, NoQuery]) -> StandingRule:
    return await request.session.add_rule(request.body.text, kind=request.body.kind)


@TABLE.bind(api.operations.DROP_RULE)
async def drop_rule(request: OperationRequest[Nothing, NoQuery]) -> StandingRule:
    return await request.session.drop_rule(request.params["rule"])


@TABLE.bind(api.operations.UPDATE_STATE)
async def update_state(request: OperationRequest[StateBody, NoQuery]) -> StateAnswer:
    return await _updated(request, request.body.values)


@TABLE.bind(api.operations.SET_STATE)
async def set_state(request: OperationRequest[ValueBody, NoQuery]) -> StateAnswer:
    return await _updated(request, {request.params["name"]: request.body.value})


async def _updated(
    request: OperationRequest[Any, NoQuery], values: Mapping[str, object]
) -> StateAnswer:
    """Set values of the state, unless it would become too large to be read and written whole."""
    state = request.session.state
    request.state.limits.check_state(len(msgspec.json.encode({**await state.all(), **values})))
    await state.update(values)
    return StateAnswer(values=await state.all())


@TABLE.bind(api.operations.REMOVE_STATE)
async def remove_state(request: OperationRequest[Nothing, NoQuery]) -> DoneAnswer:
    return DoneAnswer(done=await request.session.state.remove(request.params["name"]))


@TABLE.bind(api.operations.RECORD_USAGE)
async def record_usage(request: OperationRequest[UsageBody, NoQuery]) -> Manifest:
    usage = to_usage(request.body.usage)
    return await request.session.record_usage(usage, call=request.params["call"])


@TABLE.bind(api.operations.CLEAR)
async def clear(request: OperationRequest[Nothing, NoQuery]) -> ClearedAnswer:
    return ClearedAnswer(upto=await request.session.clear())


@TABLE.bind(api.operations.FORK)
async def fork(request: OperationRequest[ForkBody, NoQuery]) -> ForkedAnswer:
    body = request.body
    made = await request.session.fork(body.at, conversation=body.conversation)
    return ForkedAnswer(conversation=made.id)


@TABLE.bind(api.operations.ERASE_ENTRY)
async def erase_entry(request: OperationRequest[Nothing, EraseQuery]) -> Erasure:
    return await request.session.erase(request.number("seq"), reason=request.query.reason)


@TABLE.bind(api.operations.DROP_CHECKPOINT)
async def drop_checkpoint(request: OperationRequest[Nothing, NoQuery]) -> CheckpointsAnswer:
    dropped = await request.session.drop_checkpoint(request.params["checkpoint"])
    return CheckpointsAnswer(checkpoints=dropped)


@TABLE.bind(api.operations.DELETE)
async def delete(request: OperationRequest[Nothing, NoQuery]) -> Erasure:
    session = request.params["session"]
    if await request.is_unused(session):
        return Erasure(session, 0, 0, 0, already=False)
    return await request.memory.delete(session)
