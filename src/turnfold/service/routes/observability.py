"""Event streams of live calls, health probes for orchestrators, and metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.responses import JSONResponse, Response, StreamingResponse

from turnfold import api
from turnfold.api import EventsQuery, NoQuery, Nothing, Ready
from turnfold.errors import NotFound
from turnfold.service.events import session_events, tenant_events
from turnfold.service.operation_table import OperationRequest, OperationTable
from turnfold.service.state import ServiceState
from turnfold.telemetry import export_to_prometheus

__all__ = (
    "TABLE",
    "exposition",
)


def exposition(state: ServiceState) -> tuple[bytes, str]:
    """Return all metrics in the Prometheus text format, and their content type."""
    registry = CollectorRegistry()
    export_to_prometheus(state.config.meter, registry=registry)
    registry.register(_RequestMetrics(state))
    return generate_latest(registry), CONTENT_TYPE_LATEST


class _RequestMetrics(Collector):
    def __init__(self, state: ServiceState) -> None:
        self._state = state

    def collect(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(
            "turnfold_service_requests",
            "Requests answered, by operation and status",
            labels=["operation", "status"],
        )
        for (operation, status), number in sorted(self._state.answered.items()):
            requests.add_metric([operation, str(status)], number)
        yield requests
        stored = CounterMetricFamily(
            "turnfold_service_kept_answers",
            "Responses stored under an Idempotency-Key: kept, repeated, and pruned after they expired",
            labels=["event"],
        )
        for event in ("kept", "repeated", "pruned"):
            stored.add_metric([event], getattr(self._state.replies, event))
        yield stored
        streams = sum(self._state.streams.values())
        yield GaugeMetricFamily("turnfold_service_streams", "Event streams open now", value=streams)


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
        from turnfold.service.routes.observability import exposition
    except ImportError as missing:
        raise NotFound("metrics need an extra: pip install 'turnfold[prometheus]'") from missing
    text, media_type = exposition(request.state)
    return Response(text, media_type=media_type)
