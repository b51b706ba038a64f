"""What is kept beside the log of a session: pins, state, what a provider reported; and its end, or its twin."""

from __future__ import annotations

from typing import Final

from turnfold.memory.manifests import Manifest
from turnfold.service.answers import (
    ClearedAnswer,
    DoneAnswer,
    ForkedAnswer,
    PinAnswer,
    StateAnswer,
)
from turnfold.service.bodies import (
    ForkBody,
    Nothing,
    PinBody,
    StateBody,
    UsageBody,
    ValueBody,
    to_usage,
)
from turnfold.service.operations import Asked, NoQuery, Operation, operation
from turnfold.service.tokens import Right
from turnfold.stores.protocol import Erasure

__all__ = ("OPERATIONS",)

_SESSION: Final = "/v1/sessions/{session}"


@operation("POST", f"{_SESSION}/pins", right=Right.WRITE, body=PinBody, answer=PinAnswer)
async def pin(asked: Asked[PinBody, NoQuery]) -> PinAnswer:
    """Show a text word for word in every call from the next user turn on."""
    key = await asked.session.pin(asked.body.content, key=asked.body.key)
    return PinAnswer(key=key)


@operation("DELETE", f"{_SESSION}/pins/{{key}}", right=Right.WRITE, answer=DoneAnswer, keyed=True)
async def unpin(asked: Asked[Nothing, NoQuery]) -> DoneAnswer:
    """Show a pin no longer, from the next user turn on; `done` says whether it was pinned."""
    return DoneAnswer(done=await asked.session.unpin(asked.names["key"]))


@operation("PATCH", f"{_SESSION}/state", right=Right.WRITE, body=StateBody, answer=StateAnswer)
async def update_state(asked: Asked[StateBody, NoQuery]) -> StateAnswer:
    """Set several values of the state at once; the others stay. The state as it is then."""
    state = asked.session.state
    await state.update(asked.body.values)
    return StateAnswer(values=await state.all())


@operation(
    "PUT", f"{_SESSION}/state/{{name}}", right=Right.WRITE, body=ValueBody, answer=StateAnswer
)
async def set_state(asked: Asked[ValueBody, NoQuery]) -> StateAnswer:
    """Set one value of the state. The state as it is then."""
    state = asked.session.state
    await state.set(asked.names["name"], asked.body.value)
    return StateAnswer(values=await state.all())


@operation("DELETE", f"{_SESSION}/state/{{name}}", right=Right.WRITE, answer=DoneAnswer, keyed=True)
async def remove_state(asked: Asked[Nothing, NoQuery]) -> DoneAnswer:
    """Remove a value of the state; `done` says whether it was there."""
    return DoneAnswer(done=await asked.session.state.remove(asked.names["name"]))


@operation(
    "PUT",
    f"{_SESSION}/calls/{{call}}/usage",
    right=Right.WRITE,
    body=UsageBody,
    answer=Manifest,
)
async def record_usage(asked: Asked[UsageBody, NoQuery]) -> Manifest:
    """Note what the provider reported about a call."""
    usage = to_usage(asked.body.usage)
    return await asked.session.record_usage(usage, call=asked.names["call"])


@operation("POST", f"{_SESSION}/clear", right=Right.WRITE, answer=ClearedAnswer, keyed=True)
async def clear(asked: Asked[Nothing, NoQuery]) -> ClearedAnswer:
    """Start over: nothing said so far is shown again, system message and pins aside. It stays in the log."""
    return ClearedAnswer(upto=await asked.session.clear())


@operation(
    "POST",
    f"{_SESSION}/fork",
    right=Right.WRITE,
    body=ForkBody,
    answer=ForkedAnswer,
    grows=True,
    keyed=True,
)
async def fork(asked: Asked[ForkBody, NoQuery]) -> ForkedAnswer:
    """Make a new conversation of everything up to `at`, all of it by default; this one stays as it is."""
    body = asked.body
    made = await asked.session.fork(body.at, conversation=body.conversation)
    return ForkedAnswer(conversation=made.id)


@operation("DELETE", _SESSION, right=Right.WRITE, answer=Erasure)
async def delete(asked: Asked[Nothing, NoQuery]) -> Erasure:
    """Erase the conversation and everything derived from it, for good; a repeated request says `already`."""
    name = asked.names["session"]
    erased = await asked.memory.delete(name)
    asked.state.quota.erased(asked.caller.tenant, name)
    return erased


OPERATIONS: tuple[Operation, ...] = (
    pin,
    unpin,
    update_state,
    set_state,
    remove_state,
    record_usage,
    clear,
    fork,
    delete,
)
