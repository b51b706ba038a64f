"""The figures are right, cost little, and reach OpenTelemetry and Prometheus as the real libraries read them."""

from __future__ import annotations

import ast
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    HistogramDataPoint,
    InMemoryMetricReader,
    NumberDataPoint,
)
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.house.source_tree import PACKAGE, ROOT, python_files
from turnfold import Budget, Memory
from turnfold.errors import Conflict, InvalidOption, StoreUnavailable, SummaryFailed
from turnfold.stores import MemoryStore, Scope, View
from turnfold.telemetry import (
    METRICS,
    Distribution,
    Meter,
    export_to_otel,
    export_to_prometheus,
    time_store_calls,
)

NAMES = {metric.name for metric in METRICS}


@pytest.fixture
def meter() -> Meter:
    return Meter()


@pytest.fixture
def memory(tmp_path: Path, meter: Meter) -> Iterator[Memory]:
    with Memory(
        f"sqlite:///{tmp_path / 'chat.db'}", budget=Budget(max_tokens=1_200), meter=meter
    ) as opened:
        yield opened


def talk(memory: Memory, turns: int) -> None:
    session = memory.session("one")
    for number in range(turns):
        session.user(f"问题 {number}: where are the {number * 7} tons of order A-{1000 + number}?")
        session.context()
        session.assistant(f"Order A-{1000 + number} arrives on 2026-03-{number % 28 + 1:02d}.")


# ------------------------------------------------------------------------------------------ the figures


def test_a_session_is_counted_as_it_went(memory: Memory, meter: Meter) -> None:
    talk(memory, 40)
    checkpoints = memory.session("one").checkpoints()
    assert len(checkpoints) > 1
    assert meter.counts["entries"] == 80
    assert meter.counts["contexts"] == 40
    assert meter.counts["checkpoints"] == len(checkpoints)
    assert meter.counts["fold_failures"] == meter.counts["database_errors"] == 0
    values = meter.values
    assert values["token_ratio"].count == values["prefix_share"].count == 40
    assert 0 < values["token_ratio"].least <= values["token_ratio"].most <= 1
    assert values["checkpoint_entries"].total == checkpoints[-1].upto
    assert values["summary_tokens"].count == values["summary_fidelity"].count == len(checkpoints)
    assert values["database_write_seconds"].count >= 80 + 40 + len(checkpoints)
    assert values["database_read_seconds"].least > 0


def test_a_failed_fold_is_counted(tmp_path: Path, meter: Meter) -> None:
    def fails(_prompt: str) -> str:
        raise TimeoutError

    with Memory(f"sqlite:///{tmp_path / 'chat.db'}", summarizer=fails, meter=meter) as memory:
        talk(memory, 3)
        with pytest.raises(SummaryFailed):
            memory.session("one").fold(keep_turns=1)
    assert meter.counts["fold_failures"] == 1


def test_buckets_hold_what_is_at_or_below_their_bound() -> None:
    found = Distribution((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        found.add(value)
    assert found.buckets == [2, 2, 1]
    assert (found.count, found.total, found.least, found.most) == (5, 7.5, 0.5, 2.5)


def test_counting_from_many_threads_loses_nothing(meter: Meter) -> None:
    def work() -> None:
        for _ in range(2_000):
            meter.add("contexts")
            meter.observe("token_ratio", 0.5)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert meter.counts["contexts"] == meter.values["token_ratio"].count == 16_000


def test_a_snapshot_stands_still(meter: Meter) -> None:
    meter.observe("token_ratio", 0.5)
    before = meter.snapshot()
    meter.observe("token_ratio", 0.7)
    meter.add("contexts")
    assert before.values["token_ratio"].count == sum(before.values["token_ratio"].buckets) == 1
    assert before.counts["contexts"] == 0


def test_a_listener_that_raises_is_let_go_and_the_call_goes_on(
    memory: Memory, meter: Meter, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    def broken(name: str, value: float) -> None:
        raise RuntimeError(f"{name} {value}")

    meter.subscribe(counts=broken, values=broken)
    meter.subscribe(counts=lambda name, _: heard.append(name), values=lambda *_: None)
    with caplog.at_level(logging.WARNING):
        talk(memory, 2)
    assert heard.count("contexts") == 2
    assert [record.__dict__["event"] for record in caplog.records] == ["listener_failed"]


# -------------------------------------------------------------------------------------------- the store


class Unwell(MemoryStore):
    """A store whose database has gone away."""

    async def view(self, scope: Scope, conversation: str, kinds: Sequence[str]) -> View:
        raise StoreUnavailable(f"{scope.tenant} {conversation}: {kinds}")


def test_calls_that_raise_are_timed_and_counted(meter: Meter) -> None:
    with Memory(Unwell(), meter=meter) as memory, pytest.raises(StoreUnavailable):
        memory.session("one").context()
    assert meter.counts["database_errors"] == 1
    assert meter.values["database_read_seconds"].count == 1


def test_a_refusal_is_an_answer_and_no_error(memory: Memory, meter: Meter) -> None:
    memory.session("one").user("a")
    with pytest.raises(Conflict):
        memory.session("one").add({"role": "user", "content": "b"}, expect=7)
    assert meter.counts["database_errors"] == 0


UNTIMED = {"abilities", "blocking", "capture", "restore", "health", "close"}


def test_every_verb_is_timed_unless_it_moves_whole_conversations_or_none(meter: Meter) -> None:
    store = time_store_calls(MemoryStore(), meter)
    verbs = {name for name in vars(MemoryStore) if not name.startswith("_")}
    assert {name for name in vars(store) if not name.startswith("_")} == verbs - UNTIMED
    assert all(hasattr(store, name) for name in verbs)


# --------------------------------------------------------------------------------------- one catalogue


def metered_names() -> set[str]:
    """The names the package counts under, as its source spells them."""
    found: set[str] = set()
    for path in python_files(PACKAGE):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(
                        value=ast.Attribute(attr="_meter" | "meter") | ast.Name(id="meter"),
                        attr="add" | "observe",
                    ),
                    args=[ast.Constant(value=str(name)), *_],
                ):
                    found.add(name)
                case ast.Assign(value=ast.Constant(value=str(name))) if name.startswith(
                    "database_"
                ):
                    found.add(name)
    return found


def test_what_is_counted_is_what_is_listed() -> None:
    assert metered_names() == NAMES


def test_an_unlisted_name_is_refused(meter: Meter) -> None:
    with pytest.raises(KeyError):
        meter.add("turns")
    with pytest.raises(KeyError):
        meter.observe("turns", 1.0)


def test_the_documentation_lists_every_metric_as_it_is() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `") and line.count("|") == 5]
    assert rows == [
        f"| `{each.name}` | {each.kind} | `{each.unit}` | {each.description} |" for each in METRICS
    ]


# ------------------------------------------------------------------------------------------ the exports


def test_prometheus_reads_the_figures(memory: Memory, meter: Meter) -> None:
    registry = CollectorRegistry()
    export_to_prometheus(meter, registry=registry)
    talk(memory, 40)
    page = generate_latest(registry).decode()
    families = {family.name: family for family in text_string_to_metric_families(page)}
    assert set(families) == {f"turnfold_{name}" for name in NAMES}
    for metric in METRICS:
        family = families[f"turnfold_{metric.name}"]
        assert family.documentation == metric.description
        samples = {(each.name, each.labels.get("le", "")): each.value for each in family.samples}
        if metric.kind == "count":
            assert samples[f"turnfold_{metric.name}_total", ""] == meter.counts[metric.name]
            continue
        found = meter.values[metric.name]
        assert samples[f"turnfold_{metric.name}_count", ""] == found.count
        assert samples[f"turnfold_{metric.name}_sum", ""] == pytest.approx(found.total)
        assert samples[f"turnfold_{metric.name}_bucket", "+Inf"] == found.count
    ratio = families["turnfold_token_ratio"]
    below = {each.labels["le"]: each.value for each in ratio.samples if "le" in each.labels}
    assert 0 < below["0.5"] < below["0.95"] <= 40
    assert list(below.values()) == sorted(below.values())


def test_a_registry_shows_one_meter(meter: Meter) -> None:
    registry = CollectorRegistry()
    export_to_prometheus(meter, registry=registry)
    with pytest.raises(InvalidOption, match="one meter"):
        export_to_prometheus(Meter(), registry=registry)


def test_opentelemetry_reads_the_figures(memory: Memory, meter: Meter) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider(metric_readers=[reader])
    export_to_otel(meter, provider=provider)
    talk(memory, 40)
    collected = reader.get_metrics_data()
    provider.shutdown()
    assert collected is not None
    [resource] = collected.resource_metrics
    [scope] = resource.scope_metrics
    found = {each.name: each for each in scope.metrics}
    counted = {name for name, count in meter.counts.items() if count}
    observed = {name for name, each in meter.values.items() if each.count}
    assert {"contexts", "checkpoints"} <= counted
    assert {"token_ratio", "summary_tokens", "database_read_seconds"} <= observed
    for metric in METRICS:
        if metric.name not in counted | observed:
            continue
        each = found[f"turnfold.{metric.name}"]
        assert (each.unit, each.description) == (metric.unit, metric.description)
        [point] = each.data.data_points
        if isinstance(point, HistogramDataPoint):
            values = meter.values[metric.name]
            assert tuple(point.explicit_bounds) == metric.bounds
            assert list(point.bucket_counts) == values.buckets
            assert point.sum == pytest.approx(values.total)
        else:
            assert isinstance(point, NumberDataPoint)
            assert point.value == meter.counts[metric.name]


@pytest.mark.parametrize(
    ("package", "module", "extra"),
    [
        ("opentelemetry", "otel", "otel"),
        ("prometheus_client", "prometheus", "prometheus"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(package: str, module: str, extra: str) -> None:
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "import turnfold.memory, turnfold.errors\n"
        f"try: import turnfold.telemetry.{module}\n"
        f"except turnfold.errors.MissingExtra as error: print(error.extra, error)\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, encoding="utf-8"
    )
    assert finished.stdout.startswith(f"{extra} export_to_")
    assert f"pip install 'turnfold[{extra}]'" in finished.stdout
