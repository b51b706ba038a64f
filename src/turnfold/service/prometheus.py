"""Metrics of the service in the Prometheus text format; needs the extra `prometheus`."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from turnfold.service.state import ServiceState
from turnfold.telemetry import export_to_prometheus

__all__ = ("exposition",)


def exposition(state: ServiceState) -> tuple[bytes, str]:
    """Return all metrics of the memories and of the service in the Prometheus text format, and their content type."""
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
