"""Document 003's short-term memory, under its names, so that its programs find in the API what they know."""

from __future__ import annotations

from typing import Final

from turnfold.memory.short_term.values import MemoryWriteResult
from turnfold.records import Checkpoint
from turnfold.service.answers import CheckpointsAnswer
from turnfold.service.bodies import Nothing
from turnfold.service.operations import Asked, NoQuery, Operation, operation
from turnfold.service.problems import given_by_the_caller
from turnfold.service.short_bodies import (
    CreateBody,
    MemoryContextForm,
    QueryBody,
    SessionForm,
    SetBody,
    ShortCheckpointBody,
    TurnBody,
    as_read_value,
    session_form,
    session_value,
)
from turnfold.service.tokens import Right
from turnfold.stores.protocol import Erasure

__all__ = ("OPERATIONS",)

_SHORT: Final = "/v1/short-memories/{conversation_id}"


@operation(
    "POST",
    _SHORT,
    right=Right.WRITE,
    body=CreateBody,
    answer=SessionForm,
    grows=True,
    keyed=True,
)
async def create_short_memory(asked: Asked[CreateBody, NoQuery]) -> SessionForm:
    """Begin a conversation. One that exists goes on as it was, unless `restart` says to start it over."""
    body = asked.body
    made = await asked.short.create_short_memory(
        asked.conversation_id,
        body.user_id,
        enterprise_id=body.enterprise_id,
        patient_id=body.patient_id,
        restart=body.restart,
    )
    return session_form(made)


@operation("POST", f"{_SHORT}/context", right=Right.WRITE, body=QueryBody, answer=MemoryContextForm)
async def query_memory_context(asked: Asked[QueryBody, NoQuery]) -> MemoryContextForm:
    """Read what the next model call is given of the conversation; `query` is kept until the write that answers it."""
    body = asked.body
    found = await asked.short.query_memory_context(
        asked.conversation_id,
        enterprise_id=body.enterprise_id,
        patient_id=body.patient_id,
        query=body.query,
        token_threshold_ratio=body.token_threshold_ratio,
        recent_turns=body.recent_turns,
        model_context_window=body.model_context_window,
    )
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


@operation(
    "POST",
    f"{_SHORT}/turns",
    right=Right.WRITE,
    body=TurnBody,
    answer=MemoryWriteResult,
    grows=True,
)
async def write_turn(asked: Asked[TurnBody, NoQuery]) -> MemoryWriteResult:
    """Write a turn, question and answer at once; durable when it is answered."""
    body = asked.body
    return await asked.short.write_turn(
        asked.conversation_id,
        user_id=body.user_id,
        agent_code=body.agent_code,
        user_query=body.user_query,
        agent_response=body.agent_response,
        client_id=asked.key,
    )


@operation(
    "POST",
    f"{_SHORT}/checkpoints",
    right=Right.WRITE,
    body=ShortCheckpointBody,
    answer=Checkpoint,
    keyed=True,
)
async def checkpoint_short_memory(asked: Asked[ShortCheckpointBody, NoQuery]) -> Checkpoint:
    """Put a summary in place of everything but the newest turns; without one, the summariser writes it."""
    body = asked.body
    with given_by_the_caller(body.summary):
        return await asked.short.checkpoint_short_memory(
            asked.conversation_id, body.summary, body.recent_turns, upto=body.upto
        )


@operation("GET", _SHORT, right=Right.READ, answer=SessionForm)
async def get_short_memory(asked: Asked[Nothing, NoQuery]) -> SessionForm:
    """Read the session as it is now; of a conversation nobody has used, an empty one."""
    return session_form(await asked.short.get_short_memory(asked.conversation_id))


@operation("PUT", _SHORT, right=Right.WRITE, body=SetBody, answer=SessionForm, grows=True)
async def set_short_memory(asked: Asked[SetBody, NoQuery]) -> SessionForm:
    """Store what was changed in a session that was read, field by field; the session as it is then."""
    session = session_value(asked.body.session)
    if asked.body.as_read is not None:
        session.as_read = as_read_value(asked.body.as_read)
    return session_form(await asked.short.set_short_memory(asked.conversation_id, session))


@operation("POST", f"{_SHORT}/reset", right=Right.WRITE, answer=SessionForm, keyed=True)
async def reset_short_memory(asked: Asked[Nothing, NoQuery]) -> SessionForm:
    """Start over: nothing said or set so far is shown again. It stays in the log."""
    return session_form(await asked.short.reset_short_memory(asked.conversation_id))


@operation("GET", f"{_SHORT}/checkpoints", right=Right.READ, answer=CheckpointsAnswer)
async def checkpoint_history(asked: Asked[Nothing, NoQuery]) -> CheckpointsAnswer:
    """List all checkpoints, oldest first, with what was started over."""
    found = await asked.short.checkpoint_history(asked.conversation_id)
    return CheckpointsAnswer(checkpoints=found)


@operation("DELETE", _SHORT, right=Right.WRITE, answer=Erasure)
async def delete_short_memory(asked: Asked[Nothing, NoQuery]) -> Erasure:
    """Erase a conversation and everything derived from it, for good."""
    return await asked.short.delete_short_memory(asked.conversation_id)


OPERATIONS: tuple[Operation, ...] = (
    create_short_memory,
    query_memory_context,
    write_turn,
    checkpoint_short_memory,
    get_short_memory,
    set_short_memory,
    reset_short_memory,
    checkpoint_history,
    delete_short_memory,
)
