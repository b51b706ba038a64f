"""Exports the metrics of a memory as OpenTelemetry instruments.

Only OpenTelemetry's API is needed; the application chooses the SDK that collects the metrics.
"""

from __future__ import annotations

from turnfold.errors import MissingExtra
from turnfold.telemetry.metrics import METRICS, Meter

__all__ = ("export_to_otel",)


try:
    from opentelemetry.metrics import MeterProvider, get_meter_provider
except ImportError as missing:
    raise MissingExtra(
        package="opentelemetry-api", extra="otel", purpose="export_to_otel"
    ) from missing


def export_to_otel(meter: Meter, *, provider: MeterProvider | None = None) -> None:
    """Export all later values of `meter` as OpenTelemetry metrics named `turnfold.<name>`.

    Without `provider` the global one is used. Call it once for a meter that several memories share.
    """
    otel_meter = (provider or get_meter_provider()).get_meter("turnfold")
    counters = {
        each.name: otel_meter.create_counter(
            f"turnfold.{each.name}", unit=each.unit, description=each.description
        )
        for each in METRICS
        if each.kind == "count"
    }
    histograms = {
        each.name: otel_meter.create_histogram(
            f"turnfold.{each.name}",
            unit=each.unit,
            description=each.description,
            explicit_bucket_boundaries_advisory=each.bounds,
        )
        for each in METRICS
        if each.kind == "distribution"
    }
    meter.subscribe(
        counts=lambda name, amount: counters[name].add(amount),
        values=lambda name, value: histograms[name].record(value),
    )
