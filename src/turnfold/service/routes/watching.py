"""What is watched rather than asked: live calls, and how the service itself does."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta
from starlette.responses import JSONResponse, Response, StreamingResponse

from turnfold.errors import NotFound, TurnfoldError
from turnfold.service.bodies import Nothing
from turnfold.service.events import Events, session_events, tenant_events
from turnfold.service.operations import Asked, NoQuery, Operation, operation
from turnfold.service.tokens import Right

__all__ = ("OPERATIONS", "Plain", "Ready")

_RESUME: Final = "last-event-id"


class _EventsQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    after: Annotated[str, Meta(max_length=512)] = ""
    """As the header Last-Event-ID, for who cannot set one."""


class Ready(msgspec.Struct, kw_only=True):
    """Whether requests should be sent here."""

    ready: bool


class Plain:
    """Stands for an answer in plain text in the table of operations."""


@operation(
    "GET",
    "/v1/sessions/{session}/events",
    right=Right.READ,
    query=_EventsQuery,
    answer=Events,
)
async def watch_session(asked: Asked[Nothing, _EventsQuery]) -> StreamingResponse:
    """Watch the calls of a session as they are made; `Last-Event-ID` resumes after that call."""
    after = asked.headers.get(_RESUME) or asked.query.after
    return session_events(asked.state, asked.caller, asked.session.id, after)


@operation("GET", "/v1/events", right=Right.READ, query=_EventsQuery, answer=Events)
async def watch_tenant(asked: Asked[Nothing, _EventsQuery]) -> StreamingResponse:
    """Watch the calls of all sessions of the tenant; `Last-Event-ID` resumes, and may repeat some events."""
    after = asked.headers.get(_RESUME) or asked.query.after
    return tenant_events(asked.state, asked.caller, after)


@operation("GET", "/healthz", right=None, answer=Ready)
async def healthz(asked: Asked[Nothing, NoQuery]) -> Ready:
    """Ask whether the process is alive; it is when it answers."""
    return Ready(ready=not asked.state.stopping)


@operation("GET", "/readyz", right=None, answer=Ready)
async def readyz(asked: Asked[Nothing, NoQuery]) -> Response:
    """Ask whether requests should be sent here: 503 while the store cannot serve or the service is on its way out."""
    ready = False
    if not asked.state.stopping:
        try:
            ready = (await asked.state.setting.store.health()).ok
        except TurnfoldError:
            ready = False
    return JSONResponse({"ready": ready}, 200 if ready else 503)


@operation("GET", "/metrics", right=Right.ADMIN, answer=Plain)
async def metrics(asked: Asked[Nothing, NoQuery]) -> Response:
    """Read the figures of the service and of its memories, for Prometheus. They hold no content and no name."""
    try:
        from turnfold.service.figures import exposition
    except ImportError as missing:
        raise NotFound("figures take the extra: pip install 'turnfold[prometheus]'") from missing
    text, media_type = exposition(asked.state)
    return Response(text, media_type=media_type)


OPERATIONS: tuple[Operation, ...] = (watch_session, watch_tenant, healthz, readyz, metrics)
