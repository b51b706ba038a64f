"""What is asked of a tenant's memory as a whole: its conversations, what was said in any, whether it can serve."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import msgspec
from msgspec import Meta

from turnfold.service.answers import ConversationsPage, FoundAnswer
from turnfold.service.bodies import Limit, Nothing, SearchBody
from turnfold.service.operations import Asked, NoQuery, Operation, operation
from turnfold.service.state import ServiceState
from turnfold.service.tokens import Right
from turnfold.stores.protocol import Health

__all__ = ("OPERATIONS",)


class _PageQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    after: Annotated[str, Meta(max_length=512)] = ""
    limit: Limit = 100


@operation("GET", "/v1/sessions", right=Right.READ, query=_PageQuery, answer=ConversationsPage)
async def conversations(asked: Asked[Nothing, _PageQuery]) -> ConversationsPage:
    """List the conversations of the tenant, in id order."""
    query = asked.query
    found = await asked.memory.conversations(after=query.after, limit=query.limit)
    more = len(found) == query.limit
    return ConversationsPage(conversations=found, next=found[-1].conversation if more else None)


@operation("POST", "/v1/search", right=Right.READ, body=SearchBody, answer=FoundAnswer)
async def search(asked: Asked[SearchBody, NoQuery]) -> FoundAnswer:
    """Find the best of what was said in any conversation, or in one, and whatever else `within` names."""
    body = asked.body
    found = await asked.memory.search(
        body.query,
        conversation=body.conversation,
        within=body.within.within(),
        limit=body.limit,
    )
    return FoundAnswer(found=found)


@operation("GET", "/v1/health", right=Right.READ, answer=Health)
async def health(asked: Asked[Nothing, NoQuery]) -> Health:
    """Ask whether the store can serve; its details and warnings are for tokens with the right `admin`."""
    found = await asked.memory.health()
    if Right.ADMIN in asked.caller.rights:
        return replace(found, details={**found.details, **_told(asked.state)})
    return Health(ok=found.ok, backend=found.backend)


def _told(state: ServiceState) -> dict[str, str]:
    """What an operator should know of the service beside its store."""
    hours, embedder = state.limits.answer_hours, state.setting.embedder
    return {
        "idempotency keys kept": f"{hours:g} hours" if hours else "for ever",
        "recall": f"by words and by meaning ({embedder.name})" if embedder else "by words",
    }


OPERATIONS: tuple[Operation, ...] = (conversations, search, health)
