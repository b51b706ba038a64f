"""The figures of a service for Prometheus: those of its memories, and how its requests were answered."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from turnfold.memory.metrics.prometheus import export_to_prometheus
from turnfold.service.state import ServiceState

__all__ = ("exposition",)


def exposition(state: ServiceState) -> tuple[bytes, str]:
    """All figures as Prometheus reads them, and their content type."""
    registry = CollectorRegistry()
    export_to_prometheus(state.setting.meter, registry=registry)
    registry.register(_Requests(state))
    return generate_latest(registry), CONTENT_TYPE_LATEST


class _Requests(Collector):
    def __init__(self, state: ServiceState) -> None:
        self._state = state

    def collect(self) -> Iterable[Metric]:
        answered = CounterMetricFamily(
            "turnfold_service_requests",
            "Requests answered, by operation and status",
            labels=["operation", "status"],
        )
        for (operation, status), times in sorted(self._state.answered.items()):
            answered.add_metric([operation, str(status)], times)
        yield answered
        replies = self._state.replies
        answers = CounterMetricFamily(
            "turnfold_service_kept_answers",
            "Answers under an Idempotency-Key: kept, given again, and removed because their time was over",
            labels=["event"],
        )
        for event in ("kept", "repeated", "pruned"):
            answers.add_metric([event], getattr(replies, event))
        yield answers
        streams = sum(self._state.streams.values())
        yield GaugeMetricFamily("turnfold_service_streams", "Event streams open now", value=streams)
