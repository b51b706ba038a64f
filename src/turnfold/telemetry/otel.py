"""Export the metrics and the trace spans of a memory to OpenTelemetry.

Only OpenTelemetry's API is needed; the application chooses the SDK that collects metrics and spans.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from turnfold.errors import MissingExtra
from turnfold.telemetry.metrics import METRICS, Meter
from turnfold.telemetry.spans import Attributes, SpanNote

__all__ = ("export_to_otel", "trace_to_otel")


try:
    from opentelemetry.metrics import MeterProvider, get_meter_provider
    from opentelemetry.trace import SpanKind, StatusCode, TracerProvider, get_tracer_provider
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


def trace_to_otel(
    meter: Meter,
    *,
    provider: TracerProvider | None = None,
    model_calls: bool = True,
    conversation_id: Callable[[str], str] = str,
) -> None:
    """Trace the memories of `meter` as OpenTelemetry spans, by the semantic conventions for GenAI.

    Without `provider` the global one is used. `model_calls=False` leaves out the spans of model calls, for applications
    whose client library is traced already. `conversation_id` converts the id of a session to the value of
    `gen_ai.conversation.id`, for example to a hash if ids should not leave the process.
    """
    found = provider or get_tracer_provider()
    meter.tracer = _OtelTracer(found, conversation_id, model_calls=model_calls)


class _OtelTracer:
    """Creates OpenTelemetry spans for a memory: implements `Tracer`."""

    def __init__(
        self,
        provider: TracerProvider,
        conversation_id: Callable[[str], str],
        *,
        model_calls: bool,
    ) -> None:
        self._tracer = provider.get_tracer("turnfold")
        self._conversation_id = conversation_id
        self._model_calls = model_calls

    @contextmanager
    def span(self, name: str, conversation: str, attributes: Attributes) -> Generator[SpanNote]:
        known = {"gen_ai.conversation.id": self._conversation_id(conversation), **attributes}
        kind = SpanKind.CLIENT if "gen_ai.operation.name" in attributes else SpanKind.INTERNAL
        # The text of an exception may quote a conversation: only its kind is recorded.
        with self._tracer.start_as_current_span(
            name,
            kind=kind,
            attributes=known,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield lambda found: span.set_attributes(dict(found()))
            except BaseException as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(StatusCode.ERROR)
                raise

    def model_call(
        self, name: str, conversation: str, attributes: Attributes, *, began: int, ended: int
    ) -> None:
        if not self._model_calls:
            return
        known = {"gen_ai.conversation.id": self._conversation_id(conversation), **attributes}
        span = self._tracer.start_span(
            name, kind=SpanKind.CLIENT, attributes=known, start_time=began * 1_000
        )
        span.end(end_time=max(began, ended) * 1_000)
