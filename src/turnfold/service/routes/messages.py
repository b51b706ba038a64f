"""Operations that append messages to a session.

The Idempotency-Key of an append becomes the client id of the entry. So a retry, to this process or another, stores
nothing twice and gets the first result.
"""

from __future__ import annotations

from turnfold import api
from turnfold.api import (
    AddBody,
    AssistantBody,
    NoQuery,
    SystemAnswer,
    SystemBody,
    ToolBody,
    UserBody,
    to_message,
)
from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.records import Message, NewEntry, assistant, tool, user
from turnfold.service.operation_table import OperationRequest, OperationTable
from turnfold.stores import Appended

__all__ = ("TABLE",)

TABLE = OperationTable()


@TABLE.bind(api.operations.SET_SYSTEM)
async def set_system(request: OperationRequest[SystemBody, NoQuery]) -> SystemAnswer:
    return SystemAnswer(appended=await request.session.system(request.body.content))


@TABLE.bind(api.operations.ADD_USER)
async def add_user(request: OperationRequest[UserBody, NoQuery]) -> Appended:
    body = request.body
    message = await request.compute(lambda: user(body.content, name=body.name))
    return await request.add(message)


@TABLE.bind(api.operations.ADD_ASSISTANT)
async def add_assistant(request: OperationRequest[AssistantBody, NoQuery]) -> Appended:
    body = request.body
    message = await request.compute(
        lambda: assistant(body.content, tool_calls=body.tool_calls, name=body.name)
    )
    return await request.add(message)


@TABLE.bind(api.operations.ADD_TOOL)
async def add_tool(request: OperationRequest[ToolBody, NoQuery]) -> Appended:
    body = request.body
    message = await request.compute(
        lambda: tool(body.content, tool_call_id=body.tool_call_id, name=body.name)
    )
    return await request.add(message)


@TABLE.bind(api.operations.ADD)
async def add(request: OperationRequest[AddBody, NoQuery]) -> Appended:
    messages = await request.compute(lambda: _messages(request.body))
    names, expect = request.body.client_ids, request.body.expect
    if names is None:
        given = messages[0] if len(messages) == 1 else messages
        return await request.add(given, expect=expect)
    if len(names) != len(messages):
        raise InvalidOption(
            f"the request has {len(messages)} messages and {len(names)} client_ids: send one client id per message"
        )
    entries = [NewEntry(*each) for each in zip(messages, names, strict=True)]
    return await request.add(entries, expect=expect)


def _messages(body: AddBody) -> list[Message]:
    messages: list[Message] = []
    for at, each in enumerate(body.messages):
        try:
            messages.append(to_message(each))
        except InvalidRecord as error:
            raise error.within(f"messages[{at}]") from None
    return messages
