"""Operations that read a session: its status, log, calls, pins, rules and state; none of them changes stored data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

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
from turnfold.memory import Manifest, SessionStatus
from turnfold.records import Entry, encode_message
from turnfold.service.operation_table import OperationRequest, OperationTable

__all__ = ("TABLE",)

TABLE = OperationTable()

_STEP: Final = 32
"""Most entries or calls that are read at once."""
_PAGE_BYTES: Final = 4 << 20
"""Most bytes of the items of a page, even if they are fewer than were asked for."""
_MANIFEST_BYTES: Final = 2_000
"""Bytes of a manifest (record of a call) in addition to its longest text."""
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

    found, more = await _bounded_page(
        read,
        query.after,
        query.limit,
        place=lambda entry: entry.seq,
        size=lambda entry: len(encode_message(entry.message)),
    )
    return await _entries(request, found, query.form, following=found[-1].seq if more else None)


@TABLE.bind(api.operations.TURN)
async def turn(request: OperationRequest[Nothing, FormQuery]) -> EntriesPage:
    found = await request.session.turn(request.number("number"))
    request.state.limits.check_answer(sum(len(encode_message(each.message)) for each in found))
    return await _entries(request, found, request.query.form)


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


async def _bounded_page(
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

    found, more = await _bounded_page(
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
