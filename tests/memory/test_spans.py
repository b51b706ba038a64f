"""Spans of a memory: their names are those of the published conventions, and no text of a conversation is in them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from importlib import import_module
from inspect import getsource
from typing import Any

import pytest

from turnfold.budget import Budget
from turnfold.errors import BudgetTooSmall
from turnfold.memory import AsyncMemory, Memory
from turnfold.telemetry import Meter, trace_to_otel
from turnfold.telemetry.spans import provider_of
from turnfold.wire import anthropic

trace = pytest.importorskip("opentelemetry.sdk.trace", reason="the SDK is not installed")
export: Any = import_module("opentelemetry.sdk.trace.export")
in_memory: Any = import_module("opentelemetry.sdk.trace.export.in_memory_span_exporter")
published: Any = import_module("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
errors: Any = import_module("opentelemetry.semconv.attributes.error_attributes")

SAID = "the parcel 4711 of Dana, 达娜的包裹"


def conventions() -> set[str]:
    """The names of the published conventions, without those that were removed or replaced.

    The package marks all of GenAI as moved to a repository of its own; that changes no name.
    """
    names: set[str] = set()
    for module in (published, errors):
        text = getsource(module)
        found = re.findall(r'^[A-Z_]+: Final = "([\w.]+)"\n"""\n(.*)', text, re.MULTILINE)
        gone = re.compile("Deprecated: (?!Moved to the .*semantic conventions repository)")
        names |= {name for name, note in found if not gone.match(note)}
    return names


def unknown(attributes: Any) -> list[str]:
    """Names of attributes that are neither of the conventions nor our own."""
    known = conventions()
    return [name for name in attributes if name not in known and not name.startswith("turnfold.")]


@pytest.fixture
def spans() -> Iterator[tuple[Any, Any]]:
    """A provider, and what it collects."""
    collected = in_memory.InMemorySpanExporter()
    provider = trace.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(collected))
    yield provider, collected
    provider.shutdown()


def talk(meter: Meter) -> None:
    with Memory(
        "sqlite://", model="claude-sonnet-4-5", budget=Budget(max_tokens=900), meter=meter
    ) as memory:
        session = memory.session("user-42")
        for number in range(8):
            session.user(f"{SAID}: question {number}. " + "really " * 30)
            session.context(SAID, to=anthropic)
            usage = {"input_tokens": 400, "output_tokens": 7, "cache_read_input_tokens": 128}
            session.add({
                "id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5-20250929",
                "content": [{"type": "text", "text": SAID}], "usage": usage, "stop_reason": "end_turn",
            })  # fmt: skip
        session.recall(SAID)
        session.fold(keep_turns=1)
        with pytest.raises(BudgetTooSmall):
            session.context(budget=Budget(max_tokens=2))


def test_every_attribute_is_of_the_conventions_or_our_own(spans: tuple[Any, Any]) -> None:
    provider, collected = spans
    meter = Meter()
    trace_to_otel(meter, provider=provider)
    talk(meter)
    found = collected.get_finished_spans()
    names = [each.name for each in found]
    assert names.count("turnfold.context") == 9
    assert names.count("chat claude-sonnet-4-5") == 8
    assert names.count("retrieval turnfold") == names.count("turnfold.fold") == 1
    assert {name for each in found for name in unknown(each.attributes)} == set()
    assert {each.attributes["gen_ai.conversation.id"] for each in found} == {"user-42"}
    operations = {value.value for value in published.GenAiOperationNameValues}
    providers = {value.value for value in published.GenAiProviderNameValues}
    for each in found:
        assert each.attributes.get("gen_ai.operation.name", "chat") in operations
        assert each.attributes.get("gen_ai.provider.name", "openai") in providers
        said = each.to_json()
        assert "parcel" not in said
        assert "达娜" not in said
        assert "\\u8fbe" not in said


def test_a_model_call_has_its_model_and_usage(spans: tuple[Any, Any]) -> None:
    provider, collected = spans
    meter = Meter()
    trace_to_otel(meter, provider=provider)
    talk(meter)
    calls = [each for each in collected.get_finished_spans() if each.name.startswith("chat")]
    attributes = dict(calls[-1].attributes)
    call = attributes.pop("turnfold.call")
    assert re.fullmatch(r"\d{12}-\d{4}", call)
    assert attributes == {
        "gen_ai.conversation.id": "user-42",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-sonnet-4-5",
        "gen_ai.response.model": "claude-sonnet-4-5-20250929",
        "gen_ai.usage.input_tokens": 528,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 128,
    }
    assert calls[-1].kind.name == "CLIENT"
    assert calls[-1].start_time <= calls[-1].end_time
    [before, *_] = [
        each
        for each in collected.get_finished_spans()
        if each.attributes.get("turnfold.call") == call
    ]
    assert before.name == "turnfold.context"
    assert before.attributes["turnfold.context.tokens"] <= 900


def test_a_summary_of_the_program_names_no_model(spans: tuple[Any, Any]) -> None:
    provider, collected = spans
    meter = Meter()
    trace_to_otel(meter, provider=provider)
    with Memory("sqlite://", meter=meter) as memory:
        session = memory.session("s")
        for number in range(4):
            session.user(f"question {number}")
            session.assistant(f"answer {number}")
        session.fold(summary="They talked.", keep_turns=1)
        session.fold(keep_turns=9)
    first, second = collected.get_finished_spans()
    assert first.attributes["turnfold.fold.committed"] is True
    assert first.attributes["turnfold.fold.upto"] == 6
    assert "gen_ai.request.model" not in first.attributes
    assert second.attributes["turnfold.fold.committed"] is False


def test_an_error_is_its_kind_without_its_text(spans: tuple[Any, Any]) -> None:
    provider, collected = spans
    meter = Meter()
    trace_to_otel(meter, provider=provider)
    talk(meter)
    [failed] = [each for each in collected.get_finished_spans() if not each.status.is_unset]
    assert failed.attributes["error.type"] == "BudgetTooSmall"
    assert (failed.status.status_code.name, failed.status.description) == ("ERROR", None)
    assert failed.events == ()


def test_ids_can_be_hidden_and_model_calls_left_out(spans: tuple[Any, Any]) -> None:
    provider, collected = spans
    meter = Meter()
    trace_to_otel(
        meter, provider=provider, model_calls=False, conversation_id=lambda name: f"h{len(name)}"
    )
    talk(meter)
    found = collected.get_finished_spans()
    assert {each.attributes["gen_ai.conversation.id"] for each in found} == {"h7"}
    assert not [each for each in found if each.name.startswith("chat")]


def test_a_span_is_a_child_of_the_one_around_it(spans: tuple[Any, Any]) -> None:
    provider, collected = spans
    meter = Meter()
    trace_to_otel(meter, provider=provider)

    async def turn() -> None:
        async with AsyncMemory("sqlite://", meter=meter) as memory:
            session = memory.session("s")
            with provider.get_tracer("app").start_as_current_span("turn"):
                await session.user("hello")
                await session.context()

    asyncio.run(turn())
    inner, outer = collected.get_finished_spans()
    assert (inner.name, outer.name) == ("turnfold.context", "turn")
    assert inner.parent.span_id == outer.context.span_id


def test_a_name_that_is_not_published_would_be_noticed() -> None:
    assert len(conventions()) > 30
    wrong = {"gen_ai.usage.cached_tokens": 1, "gen_ai.system": "openai", "session": "x"}
    assert unknown({**wrong, "gen_ai.usage.input_tokens": 1, "turnfold.call": "x"}) == list(wrong)


@pytest.mark.parametrize(
    ("wire_format", "model", "provider"),
    [
        ("openai_responses", "anything", "openai"),
        ("", "openai/gpt-4o", "openai"),
        ("", "claude-haiku-4-5", "anthropic"),
        ("", "gemini-2.5-pro", "gcp.gemini"),
        ("", "our-own", "other"),
        ("", "", "other"),
    ],
)
def test_the_provider_is_named_as_in_the_conventions(
    wire_format: str, model: str, provider: str
) -> None:
    assert provider_of(wire_format, model) == provider
    known = {value.value for value in published.GenAiProviderNameValues}
    assert provider in known | {"other"}
