"""Names and attributes of the trace spans of a memory: contexts, folds (compactions), recalls and model calls.

They follow OpenTelemetry's semantic conventions for GenAI (`gen_ai.…`, `error.type`); what the conventions do not
define is under `turnfold.`. Like the metrics, spans never contain text of a conversation, of a query or of an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol, TypeAlias

from turnfold.records import Checkpoint, Usage
from turnfold.window import Outcome, Receipt

__all__ = (
    "NO_SPAN",
    "RETRIEVAL",
    "Attributes",
    "SpanNote",
    "Tracer",
    "context_attributes",
    "fold_attributes",
    "model_call",
    "provider_of",
    "recall_attributes",
)


Attributes: TypeAlias = Mapping[str, str | int | float | bool]
SpanNote: TypeAlias = Callable[[Callable[[], Attributes]], None]
"""Function that adds attributes to a span; it takes a function, which is called only if the span is traced."""
_PROVIDERS: Final[Mapping[str, str]] = {
    "anthropic": "anthropic",
    "gemini": "gcp.gemini",
    "openai_chat": "openai",
    "openai_responses": "openai",
}
"""Wire format -> name of the provider in OpenTelemetry's conventions."""
_MODELS: Final[Mapping[str, str]] = {
    "claude": "anthropic",
    "command": "cohere",
    "deepseek": "deepseek",
    "gemini": "gcp.gemini",
    "gpt-": "openai",
    "grok": "x_ai",
    "mistral": "mistral_ai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
}
"""Beginning of a model's name -> name of the provider in OpenTelemetry's conventions."""
_OTHER: Final = "other"
RETRIEVAL: Final[Attributes] = {
    "gen_ai.operation.name": "retrieval",
    "gen_ai.data_source.id": "turnfold",
}
"""Attributes that every trace span of a recall has."""


class Tracer(Protocol):
    """Creates trace spans in a tracing system."""

    def span(
        self, name: str, conversation: str, attributes: Attributes
    ) -> AbstractContextManager[SpanNote]:
        """Return a context manager that records a trace span; an exception's type becomes its `error.type`."""
        ...

    def model_call(
        self, name: str, conversation: str, attributes: Attributes, *, began: int, ended: int
    ) -> None:
        """Record a span of a model call that is over; times are microseconds since 1970."""
        ...


def _ignore(_attributes: Callable[[], Attributes]) -> None:
    """Do nothing with the attributes of a trace span, because nothing is traced."""


NO_SPAN: Final[AbstractContextManager[SpanNote]] = nullcontext(_ignore)
"""Context manager that is used instead of a span if there is no tracer."""


def context_attributes(receipt: Receipt, *, call: str, model: str) -> Attributes:
    """Return the trace-span attributes of a context that was built, from its receipt (report)."""
    counts = {
        f"turnfold.context.{outcome}": receipt.count(outcome)
        for outcome in (Outcome.FOLDED, Outcome.DROPPED, Outcome.SHRUNK)
    }
    return {
        "turnfold.call": call,
        "turnfold.context.tokens": receipt.tokens,
        "turnfold.context.allowed": receipt.allowed,
        "turnfold.context.certainty": str(receipt.certainty),
        "turnfold.context.messages": receipt.messages,
        "turnfold.context.prefix_share": receipt.prefix_share,
        **counts,
        **({"gen_ai.request.model": model} if model else {}),
    }


def fold_attributes(checkpoint: Checkpoint | None, *, given: bool) -> Attributes:
    """Return the trace-span attributes of a fold (compaction); `given` is True if the caller wrote the summary."""
    if checkpoint is None:
        return {"turnfold.fold.committed": False}
    written = {"gen_ai.request.model": checkpoint.model} if checkpoint.model and not given else {}
    return {
        "turnfold.fold.committed": True,
        "turnfold.fold.upto": checkpoint.upto,
        "turnfold.fold.fidelity": checkpoint.fidelity,
        **written,
    }


def recall_attributes(results: int) -> Attributes:
    """Return the trace-span attributes of a recall (search for earlier messages) with this many results."""
    return {"turnfold.recall.results": results}


def provider_of(wire_format: str, model: str) -> str:
    """Return the provider's name in OpenTelemetry's conventions, by the wire format or else by the model's name."""
    if wire_format in _PROVIDERS:
        return _PROVIDERS[wire_format]
    name = model.lower().rsplit("/", 1)[-1]
    return next((each for start, each in _MODELS.items() if name.startswith(start)), _OTHER)


def model_call(usage: Usage, *, call: str, model: str, wire_format: str) -> tuple[str, Attributes]:
    """Return name and attributes of the trace span of a model call whose usage was reported."""
    requested = model or usage.model
    attributes: dict[str, str | int | float | bool] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider_of(wire_format, requested),
        "gen_ai.usage.input_tokens": usage.input,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cached,
        "turnfold.call": call,
    }
    if requested:
        attributes["gen_ai.request.model"] = requested
    if usage.model:
        attributes["gen_ai.response.model"] = usage.model
    return f"chat {requested}".rstrip(), attributes
