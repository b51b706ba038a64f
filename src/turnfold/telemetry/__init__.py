"""Metrics and trace spans of a memory, a timer for store calls, and exporters to Prometheus and OpenTelemetry.

An exporter is imported only when it is used, because each needs an optional package.
"""

from __future__ import annotations

from turnfold._lazy_loading import late_names
from turnfold.telemetry.metrics import (
    METRICS,
    Distribution,
    Meter,
    redis_listener,
    time_store_calls,
)
from turnfold.telemetry.spans import (
    RETRIEVAL,
    Tracer,
    context_attributes,
    fold_attributes,
    model_call,
    recall_attributes,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnfold.telemetry.otel import export_to_otel, trace_to_otel
    from turnfold.telemetry.prometheus import export_to_prometheus

__all__ = (
    "METRICS",
    "RETRIEVAL",
    "Distribution",
    "Meter",
    "Tracer",
    "context_attributes",
    "export_to_otel",
    "export_to_prometheus",
    "fold_attributes",
    "model_call",
    "recall_attributes",
    "redis_listener",
    "time_store_calls",
    "trace_to_otel",
)

_HOMES = {
    "turnfold.telemetry.otel": "export_to_otel trace_to_otel",
    "turnfold.telemetry.prometheus": "export_to_prometheus",
}

__getattr__, __dir__ = late_names(__name__, _HOMES)
