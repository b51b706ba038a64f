"""Operations that stream new calls as events, answer health probes, and export metrics for Prometheus."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response, StreamingResponse

from turnfold import api
from turnfold.api import EventsQuery, NoQuery, Nothing, Ready
from turnfold.errors import NotFound
from turnfold.service.events import session_events, tenant_events
from turnfold.service.operation_table import OperationRequest, OperationTable

__all__ = ("TABLE",)


TABLE = OperationTable()


@TABLE.bind(api.operations.WATCH_SESSION)
async def watch_session(request: OperationRequest[Nothing, EventsQuery]) -> StreamingResponse:
    return session_events(request.state, request.caller, request.session.id, _after(request))


@TABLE.bind(api.operations.WATCH_TENANT)
async def watch_tenant(request: OperationRequest[Nothing, EventsQuery]) -> StreamingResponse:
    return tenant_events(request.state, request.caller, _after(request))


def _after(request: OperationRequest[Nothing, EventsQuery]) -> str:
    return request.headers.get("last-event-id") or request.query.after


@TABLE.bind(api.operations.HEALTHZ)
async def healthz(request: OperationRequest[Nothing, NoQuery]) -> Ready:
    return Ready(ready=not request.state.stopping)


@TABLE.bind(api.operations.READYZ)
async def readyz(request: OperationRequest[Nothing, NoQuery]) -> Response:
    ready = not request.state.stopping and await request.state.is_store_ready()
    return JSONResponse({"ready": ready}, 200 if ready else 503)


@TABLE.bind(api.operations.METRICS)
async def metrics(request: OperationRequest[Nothing, NoQuery]) -> Response:
    try:
        from turnfold.service.prometheus import exposition
    except ImportError as missing:
        raise NotFound("metrics need an extra: pip install 'turnfold[prometheus]'") from missing
    text, media_type = exposition(request.state)
    return Response(text, media_type=media_type)
