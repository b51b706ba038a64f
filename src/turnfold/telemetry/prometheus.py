"""Export the metrics of a memory to Prometheus; the meter is read when Prometheus scrapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from turnfold.errors import InvalidOption, MissingExtra
from turnfold.telemetry.metrics import METRICS, Distribution, Meter, Metric

__all__ = ("export_to_prometheus",)


try:
    from prometheus_client import REGISTRY, CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
    from prometheus_client.metrics_core import Metric as Family
    from prometheus_client.registry import Collector
except ImportError as missing:
    raise MissingExtra(
        package="prometheus-client", extra="prometheus", purpose="export_to_prometheus"
    ) from missing


def export_to_prometheus(meter: Meter, *, registry: CollectorRegistry | None = None) -> None:
    """Register the metrics of `meter` as `turnfold_<name>`, in `registry` or in the global registry."""
    try:
        (registry or REGISTRY).register(_MeterCollector(meter))
    except ValueError:
        raise InvalidOption(
            "this registry already has a turnfold meter: use one meter for all memories of a process "
            "(Memory(..., meter=meter)) and export it once"
        ) from None


class _MeterCollector(Collector):
    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def describe(self) -> Iterable[Family]:
        return [_family(each) for each in METRICS]

    def collect(self) -> Iterable[Family]:
        now = self._meter.snapshot()
        for each in METRICS:
            family = _family(each)
            if isinstance(family, CounterMetricFamily):
                family.add_metric([], now.counts[each.name])
            else:
                found = now.values[each.name]
                family.add_metric([], list(_cumulative(found)), found.total)
            yield family


def _family(metric: Metric) -> CounterMetricFamily | HistogramMetricFamily:
    kind = CounterMetricFamily if metric.kind == "count" else HistogramMetricFamily
    return kind(f"turnfold_{metric.name}", metric.description)


def _cumulative(found: Distribution) -> Iterator[tuple[str, float]]:
    """Yield (upper bound, number of values up to it) of each bucket, cumulative as Prometheus expects it."""
    bounds = (*(repr(float(bound)) for bound in found.bounds), "+Inf")
    reached = 0
    for bound, count in zip(bounds, found.buckets, strict=True):
        reached += count
        yield bound, reached
