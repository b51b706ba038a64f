"""Routes of sessions: messages, contexts, reads and changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from turnfold import api, wire
from turnfold.api import (
    AddBody,
    AddRuleBody,
    AssistantBody,
    CallsPage,
    CheckpointsAnswer,
    CheckpointsQuery,
    ClearedAnswer,
    ClientIdsBody,
    ContextBody,
    ContextForm,
    DifferenceForm,
    DiffQuery,
    DoneAnswer,
    EntriesPage,
    EraseQuery,
    ExplanationForm,
    FoldAnswer,
    FoldBody,
    ForkBody,
    ForkedAnswer,
    Form,
    FormQuery,
    HistoryQuery,
    NamePageQuery,
    NoQuery,
    Nothing,
    PinAnswer,
    PinBody,
    PinsAnswer,
    PreviewBody,
    RecallBody,
    RecalledAnswer,
    RulesAnswer,
    RulesQuery,
    StateAnswer,
    StateBody,
    SystemAnswer,
    SystemBody,
    ToolBody,
    UsageBody,
    UserBody,
    ValueBody,
    caller_summary,
    context_form,
    difference_form,
    entry_form,
    explanation_form,
    recalled_answer,
    to_message,
    to_usage,
)
from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.memory import Manifest, SessionStatus
from turnfold.records import Entry, Message, NewEntry, assistant, encode_message, tool, user
from turnfold.rules import StandingRule
from turnfold.service.operation_table import OperationRequest, OperationTable
from turnfold.stores import Appended, Erasure, Scope

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


_STEP: Final = 32
"""Most entries or calls that are read from the store at once, so that few are in memory if they are large."""
_PAGE_BYTES: Final = 4 << 20
"""Most bytes of the items of a page; the page then has fewer items than requested, but at least one."""
_MANIFEST_BYTES: Final = 2_000
"""Bytes that a call's manifest (record) is estimated to have besides the text of its pins, rules and recalled passages.
"""
_Item = TypeVar("_Item")
_Place = TypeVar("_Place")


@TABLE.bind(api.operations.STATUS)
async def status(request: OperationRequest[Nothing, NoQuery]) -> SessionStatus:
    return await request.session.status()


@TABLE.bind(api.operations.HISTORY)
async def history(request: OperationRequest[Nothing, HistoryQuery]) -> EntriesPage:
    query, session = request.query, request.session

    async def read(after: int, limit: int) -> list[Entry]:
        return await session.history(after=after, limit=limit)

    found, more = await bounded_page(
        read,
        query.after,
        query.limit,
        place=lambda entry: entry.seq,
        size=lambda entry: len(encode_message(entry.message)),
    )
    return await _entries(request, found, query.form, following=found[-1].seq if more else None)


@TABLE.bind(api.operations.TURN)
async def turn(request: OperationRequest[Nothing, HistoryQuery]) -> EntriesPage:
    query, session, number = request.query, request.session, request.number("number")
    before = await _last_before_turn(request, number)

    async def read(after: int, limit: int) -> list[Entry]:
        found = await session.history(after=after, limit=limit)
        return [entry for entry in found if entry.turn == number]

    found, more = await bounded_page(
        read,
        max(query.after, before),
        query.limit,
        place=lambda entry: entry.seq,
        size=lambda entry: len(encode_message(entry.message)),
    )
    return await _entries(request, found, query.form, following=found[-1].seq if more else None)


async def _last_before_turn(request: OperationRequest[Any, Any], number: int) -> int:
    """Return the seq of the last entry before a turn, found by binary search: turns grow with seq."""
    scope, conversation = Scope(request.caller.tenant), request.params["session"]
    before, stop = 0, (await request.state.config.store.head(scope, conversation)).seq + 1
    while stop - before > 1:
        middle = (before + stop) // 2
        found = await request.session.history(after=middle - 1, limit=1)
        if not found or found[0].turn >= number:
            stop = middle
        else:
            before = middle
    return before


@TABLE.bind(api.operations.BY_CLIENT_ID)
async def by_client_id(request: OperationRequest[ClientIdsBody, FormQuery]) -> EntriesPage:
    asked, found, size = request.body.client_ids, list[Entry](), 0
    for first in range(0, len(asked), _STEP):
        some = await request.session.by_client_id(asked[first : first + _STEP])
        found += some
        size += sum(len(encode_message(entry.message)) for entry in some)
        request.state.limits.check_answer(size)
    found.sort(key=lambda entry: entry.seq)
    return await _entries(request, found, request.query.form)


async def _entries(
    request: OperationRequest[Any, Any],
    found: list[Entry],
    form: Form,
    *,
    following: int | None = None,
) -> EntriesPage:
    def make() -> EntriesPage:
        return EntriesPage(entries=[entry_form(entry, form) for entry in found], next=following)

    runtime = request.session.config.runtime
    return await runtime.compute(make) if len(found) > _STEP else make()


async def bounded_page(
    read: Callable[[_Place, int], Awaitable[list[_Item]]],
    after: _Place,
    limit: int,
    *,
    place: Callable[[_Item], _Place],
    size: Callable[[_Item], int],
) -> tuple[list[_Item], bool]:
    """Read up to `limit` items, at most `_PAGE_BYTES` of them but at least one; also return True if there may be more.

    They are read in steps, so that the number of items in memory is bounded even if each of them is large.
    """
    found: list[_Item] = []
    room = _PAGE_BYTES
    while len(found) < limit:
        asked = min(_STEP, limit - len(found))
        some = await read(after, asked)
        for each in some:
            room -= size(each)
            if room < 0 and found:
                return found, True
            found.append(each)
        if len(some) < asked:
            return found, False
        after = place(some[-1])
    return found, True


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
    query, session = request.query, request.session

    async def read(after: str, limit: int) -> list[Manifest]:
        return await session.calls(after=after, limit=limit)

    found, more = await bounded_page(
        read,
        query.after,
        query.limit,
        place=lambda each: each.call,
        size=lambda each: len(each.tail) + _MANIFEST_BYTES,
    )
    return CallsPage(calls=found, next=found[-1].call if more else None)


@TABLE.bind(api.operations.EXPLAIN)
async def explain(request: OperationRequest[Nothing, FormQuery]) -> ExplanationForm:
    found = await request.session.explain(request.params["call"])
    return explanation_form(found, request.query.form)


@TABLE.bind(api.operations.DIFF)
async def diff(request: OperationRequest[Nothing, DiffQuery]) -> DifferenceForm:
    query = request.query
    return difference_form(await request.session.diff(query.before, query.after), query.form)


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
    return await request.memory.delete(request.params["session"])
