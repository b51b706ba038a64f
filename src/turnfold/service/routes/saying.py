"""What is said in a session, and what the next call is given of it.

Every append takes an Idempotency-Key: it is the entry's client id, so a repeated request, to this process or another,
stores nothing twice and is answered with the first result.
"""

from __future__ import annotations

from typing import Final

from turnfold import wire
from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.records import Message, NewEntry, assistant, tool, user
from turnfold.service.answers import CheckpointAnswer, ContextForm, SystemAnswer, context_form
from turnfold.service.bodies import (
    AddBody,
    AssistantBody,
    CheckpointBody,
    ContextBody,
    SystemBody,
    ToolBody,
    UserBody,
    to_message,
)
from turnfold.service.operations import Asked, FormQuery, NoQuery, Operation, operation
from turnfold.service.problems import given_by_the_caller
from turnfold.service.tokens import Right
from turnfold.stores.protocol import Appended

__all__ = ("OPERATIONS",)

_SESSION: Final = "/v1/sessions/{session}"


@operation(
    "PUT", f"{_SESSION}/system", right=Right.WRITE, body=SystemBody, answer=SystemAnswer, grows=True
)
async def system(asked: Asked[SystemBody, NoQuery]) -> SystemAnswer:
    """Make this the system message; `appended` is null when it is already."""
    done = await asked.session.system(asked.body.content)
    return SystemAnswer(appended=done and asked.wrote(done))


@operation(
    "POST", f"{_SESSION}/user", right=Right.WRITE, body=UserBody, answer=Appended, grows=True
)
async def say_user(asked: Asked[UserBody, NoQuery]) -> Appended:
    """Append what the user said; starts a turn."""
    body = asked.body
    return await _append(asked, [user(body.content, name=body.name)])


@operation(
    "POST",
    f"{_SESSION}/assistant",
    right=Right.WRITE,
    body=AssistantBody,
    answer=Appended,
    grows=True,
)
async def say_assistant(asked: Asked[AssistantBody, NoQuery]) -> Appended:
    """Append what the model answered, with the tool calls it made."""
    body = asked.body
    return await _append(
        asked, [assistant(body.content, tool_calls=body.tool_calls, name=body.name)]
    )


@operation(
    "POST", f"{_SESSION}/tool", right=Right.WRITE, body=ToolBody, answer=Appended, grows=True
)
async def say_tool(asked: Asked[ToolBody, NoQuery]) -> Appended:
    """Append what a tool answered to the call `tool_call_id`."""
    body = asked.body
    return await _append(
        asked, [tool(body.content, tool_call_id=body.tool_call_id, name=body.name)]
    )


@operation(
    "POST", f"{_SESSION}/messages", right=Right.WRITE, body=AddBody, answer=Appended, grows=True
)
async def add(asked: Asked[AddBody, NoQuery]) -> Appended:
    """Append messages, all of them or none. With a key, each gets it with its number behind it."""
    messages: list[Message] = []
    for at, said in enumerate(asked.body.messages):
        try:
            messages.append(to_message(said))
        except InvalidRecord as error:
            raise error.within(f"messages[{at}]") from None
    names = asked.body.client_ids
    if names is None:
        return await _append(asked, messages, expect=asked.body.expect)
    if len(names) != len(messages):
        raise InvalidOption(f"{len(messages)} messages and {len(names)} client_ids: give one each")
    entries = [NewEntry(*each) for each in zip(messages, names, strict=True)]
    return asked.wrote(await asked.session.add(entries, expect=asked.body.expect))


@operation(
    "POST",
    f"{_SESSION}/context",
    right=Right.WRITE,
    body=ContextBody,
    query=FormQuery,
    answer=ContextForm,
)
async def context(asked: Asked[ContextBody, FormQuery]) -> ContextForm:
    """Assemble the context of the next model call and store its manifest. A repeated request makes another call."""
    body, session = asked.body, asked.session
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
    # Read before anything else may run: this handle serves other requests too.
    call = session.last_call
    asked.state.ring(asked.caller.tenant)
    return context_form(built, call=call, form=asked.query.form)


@operation(
    "POST",
    f"{_SESSION}/checkpoints",
    right=Right.WRITE,
    body=CheckpointBody,
    answer=CheckpointAnswer,
    keyed=True,
)
async def checkpoint(asked: Asked[CheckpointBody, NoQuery]) -> CheckpointAnswer:
    """Fold everything before the newest turns now, behind `summary` or behind what the summariser writes."""
    body = asked.body
    with given_by_the_caller(body.summary):
        made = await asked.session.checkpoint(body.summary, keep_turns=body.keep_turns)
    return CheckpointAnswer(checkpoint=made)


async def _append(
    asked: Asked[UserBody, NoQuery]
    | Asked[AssistantBody, NoQuery]
    | Asked[ToolBody, NoQuery]
    | Asked[AddBody, NoQuery],
    messages: list[Message],
    *,
    expect: int | None = None,
) -> Appended:
    said = messages[0] if len(messages) == 1 else messages
    return asked.wrote(await asked.session.add(said, client_id=asked.key, expect=expect))


OPERATIONS: tuple[Operation, ...] = (
    system,
    say_user,
    say_assistant,
    say_tool,
    add,
    context,
    checkpoint,
)
