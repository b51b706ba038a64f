"""Operations on all conversations of a tenant: list, search, erase, verify an erasure, check the store's health."""

from __future__ import annotations

from dataclasses import replace

from turnfold import api
from turnfold.api import (
    ConversationsPage,
    EraseBody,
    FoundAnswer,
    NoQuery,
    Nothing,
    Right,
    SearchBody,
    SessionsQuery,
    VerifyErasureBody,
)
from turnfold.memory import ErasureCheck, ErasureReceipt
from turnfold.service.operation_table import OperationRequest, OperationTable
from turnfold.service.state import ServiceState
from turnfold.stores import Health, list_sessions

__all__ = ("TABLE",)

TABLE = OperationTable()


@TABLE.bind(api.operations.CONVERSATIONS)
async def conversations(request: OperationRequest[Nothing, SessionsQuery]) -> ConversationsPage:
    query, memory = request.query, request.memory
    found = await list_sessions(
        memory.store,
        memory.scope,
        prefix=query.prefix,
        after=query.after,
        limit=query.limit,
        internal=query.internal,
    )
    more = len(found) == query.limit
    return ConversationsPage(conversations=found, next=found[-1].conversation if more else None)


@TABLE.bind(api.operations.SEARCH)
async def search(request: OperationRequest[SearchBody, NoQuery]) -> FoundAnswer:
    body = request.body
    found = await request.memory.search(
        body.query,
        conversation=body.conversation,
        within=body.within.within(),
        limit=body.limit,
    )
    return FoundAnswer(found=found)


@TABLE.bind(api.operations.ERASE)
async def erase(request: OperationRequest[EraseBody, NoQuery]) -> ErasureReceipt:
    memory, body = request.memory, request.body
    if body.kind == "session":
        return await memory.erase_session(body.id)
    if body.kind == "user":
        return await memory.erase_user(body.id)
    return await memory.erase_tenant(body.id)


@TABLE.bind(api.operations.VERIFY_ERASURE)
async def verify_erasure(request: OperationRequest[VerifyErasureBody, NoQuery]) -> ErasureCheck:
    return await request.memory.verify_erasure(request.body.receipt)


@TABLE.bind(api.operations.HEALTH)
async def health(request: OperationRequest[Nothing, NoQuery]) -> Health:
    found = await request.memory.health()
    if Right.ADMIN in request.caller.rights:
        return replace(found, details={**found.details, **_service_details(request.state)})
    return Health(ok=found.ok, backend=found.backend)


def _service_details(state: ServiceState) -> dict[str, str]:
    """Return the settings of the service that operators see, in addition to those of the store."""
    hours, embedder = state.limits.answer_hours, state.config.embedder
    return {
        "idempotency keys kept": f"{hours:g} hours" if hours else "for ever",
        "recall": f"by words and by meaning ({embedder.name})" if embedder else "by words",
    }
