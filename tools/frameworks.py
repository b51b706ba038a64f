"""Runs the frameworks' own tests with turnfold in the place of their memories: `make test-frameworks`.

The tests come from the source package of the installed version if it has them, or from a checkout that a variable
names. A pytest plugin in `tests/frameworks` swaps turnfold in; a list names the tests that cannot pass, each with its
reason. Every test also runs without turnfold, and a test that fails there too is no failure of turnfold: a framework's
tests may not fit the other packages that are installed. With `--plain` the tests run only without turnfold.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

__all__ = (
    "FRAMEWORKS",
    "PLUGINS",
    "Counts",
    "Framework",
    "Outcome",
    "as_json",
    "compared",
    "exit_code",
    "main",
    "outcome_of",
    "results_of",
    "source_of",
    "table",
    "tests_alone",
)


ROOT = Path(__file__).resolve().parents[1]
PLUGINS = ROOT / "tests" / "frameworks"
SOURCES = ROOT / "build" / "frameworks"


class Framework(NamedTuple):
    """A framework, and those of its tests that concern memory."""

    package: str
    plugin: str
    checkout: str
    """Variable that names a checkout to take instead of the source package."""
    tests: tuple[str, ...]
    folder: str = ""
    """Folder of the package in a checkout."""
    options: tuple[str, ...] = ()
    """More options of pytest."""

    @property
    def excluded(self) -> Path:
        """The list of the tests that cannot pass with turnfold."""
        return PLUGINS / f"{self.package.replace('-', '_')}_excluded.txt"


class Counts(NamedTuple):
    """How many tests had which result in one run."""

    passed: int = 0
    excluded: int = 0
    """Tests that failed as their list says, or were skipped."""
    failed: int = 0
    """Tests that failed; with turnfold, those that do not fail without it."""


class Outcome(NamedTuple):
    """The results of one framework."""

    package: str
    version: str
    swapped: Counts | None = None
    plain: Counts | None = None
    not_run: str = ""
    """Why no test ran; empty if they ran."""


FRAMEWORKS = (
    Framework(
        "openai-agents",
        "openai_agents_swap",
        "OPENAI_AGENTS_CHECKOUT",
        (
            "tests/memory/test_session.py",
            "tests/memory/test_session_limit.py",
            "tests/memory/test_session_context_wrapper.py",
            "tests/deferred_session_writes",
            "tests/test_agent_as_tool.py",
            "tests/test_agent_as_tool_output_guardrails.py",
            "tests/test_agent_runner.py",
            "tests/test_agent_runner_streamed.py",
            "tests/test_agent_scoped_approvals.py",
            "tests/test_guardrails.py",
            "tests/test_handoff_history_duplication.py",
            "tests/test_hitl_error_scenarios.py",
            "tests/test_hitl_session_scenario.py",
            "tests/test_runner_guardrail_resume.py",
            "tests/test_tool_approval_call_id_reuse.py",
        ),
    ),
    Framework(
        "langgraph-checkpoint",
        "langgraph_swap",
        "LANGGRAPH_CHECKOUT",
        ("tests/test_memory.py", "tests/test_store.py"),
        "libs/checkpoint",
    ),
    Framework(
        "langgraph",
        "langgraph_swap",
        "LANGGRAPH_CHECKOUT",
        (
            "tests/test_channels.py",
            "tests/test_checkpoint_migration.py",
            "tests/test_delta_channel_benchmark.py",
            "tests/test_delta_channel_exit_mode.py",
            "tests/test_delta_channel_fork.py",
            "tests/test_delta_channel_id_stability.py",
            "tests/test_delta_channel_migration.py",
            "tests/test_delta_channel_node_cache.py",
            "tests/test_delta_channel_parallel_order.py",
            "tests/test_delta_channel_run_input.py",
            "tests/test_delta_channel_seal_subscribers.py",
            "tests/test_delta_channel_subgraph.py",
            "tests/test_delta_channel_supersteps_bound.py",
            "tests/test_delta_channel_to_plain.py",
            "tests/test_delta_channel_update_overwrite.py",
            "tests/test_delta_channel_update_state.py",
            "tests/test_delta_channel_write_failures.py",
            "tests/test_graph_callbacks.py",
            "tests/test_interrupt_state.py",
            "tests/test_interruption.py",
            "tests/test_large_cases.py",
            "tests/test_large_cases_async.py",
            "tests/test_pregel.py",
            "tests/test_pregel_async.py",
            "tests/test_pregel_stream_events_v3.py",
            "tests/test_pydantic.py",
            "tests/test_remote_graph.py",
            "tests/test_retry.py",
            "tests/test_runtime.py",
            "tests/test_stream_data_transformers.py",
            "tests/test_stream_events_v3.py",
            "tests/test_stream_events_v3_e2e.py",
            "tests/test_stream_events_v3_kwarg_forwarding.py",
            "tests/test_strict_resume.py",
            "tests/test_subgraph_persistence.py",
            "tests/test_subgraph_persistence_async.py",
            "tests/test_time_travel.py",
            "tests/test_time_travel_async.py",
            "tests/test_tool_stream_handler.py",
        ),
        "libs/langgraph",
    ),
    Framework(
        "langgraph-prebuilt",
        "langgraph_swap",
        "LANGGRAPH_CHECKOUT",
        ("tests/test_react_agent.py",),
        "libs/prebuilt",
    ),
    Framework(
        "langchain",
        "langgraph_swap",
        "LANGCHAIN_CHECKOUT",
        (
            "tests/unit_tests/agents/middleware/core/test_dynamic_tools.py",
            "tests/unit_tests/agents/middleware/core/test_framework.py",
            "tests/unit_tests/agents/middleware/core/test_sync_async_wrappers.py",
            "tests/unit_tests/agents/middleware/core/test_wrap_tool_call.py",
            "tests/unit_tests/agents/middleware/implementations/test_human_in_the_loop.py",
            "tests/unit_tests/agents/middleware/implementations/test_model_call_limit.py",
            "tests/unit_tests/agents/middleware/implementations/test_model_retry.py",
            "tests/unit_tests/agents/middleware/implementations/test_structured_output_retry.py",
            "tests/unit_tests/agents/middleware/implementations/test_summarization.py",
            "tests/unit_tests/agents/middleware/implementations/test_tool_call_limit.py",
            "tests/unit_tests/agents/middleware/implementations/test_tool_retry.py",
            "tests/unit_tests/agents/test_invalid_tool_calls.py",
            "tests/unit_tests/agents/test_react_agent.py",
            "tests/unit_tests/agents/test_response_format.py",
        ),
        "libs/langchain_v1",
    ),
    Framework(
        "claude-agent-sdk",
        "claude_agent_sdk_swap",
        "CLAUDE_AGENT_SDK_CHECKOUT",
        (
            "tests/test_session_helpers_store.py",
            "tests/test_session_import.py",
            "tests/test_session_resume.py",
            "tests/test_session_store_anyio.py",
            "tests/test_session_store_conformance.py",
            "tests/test_session_summary.py",
            "tests/test_transcript_mirror.py",
        ),
    ),
    Framework(
        "pydantic-ai-slim",
        "pydantic_ai_swap",
        "PYDANTIC_AI_CHECKOUT",
        (
            "tests/test_ag_ui.py",
            "tests/test_agent.py",
            "tests/test_capabilities.py",
            "tests/test_history_processor.py",
            "tests/test_run_cancellation.py",
            "tests/test_streaming.py",
            "tests/test_tools.py",
            "tests/test_transcript_repair.py",
            "tests/test_ui.py",
            "tests/test_vercel_ai.py",
        ),
        options=("-p", "no:asyncio"),
    ),
    Framework(
        "llama-index-core",
        "llama_index_swap",
        "LLAMA_INDEX_CHECKOUT",
        (
            "tests/agent/workflow",
            "tests/chat_engine",
            "tests/memory/test_chat_memory_buffer.py",
            "tests/memory/test_memory_base.py",
        ),
        "llama-index-core",
    ),
)


def source_of(framework: Framework) -> Path | None:
    """Return the folder with the tests; None if no checkout is named and the source package has no tests.

    The source package of the installed version is downloaded if need be.
    """
    named = os.environ.get(framework.checkout)
    if named:
        return Path(named) / framework.folder
    installed = version(framework.package)
    name = f"{framework.package.replace('-', '_')}-{installed}"
    if not (SOURCES / name).is_dir():
        SOURCES.mkdir(parents=True, exist_ok=True)
        wanted = f"{framework.package}=={installed}"
        command = ["download", "--quiet", "--no-deps", "--no-binary", ":all:", wanted]
        subprocess.run([sys.executable, "-m", "pip", *command, "-d", SOURCES], check=True)
        with tarfile.open(SOURCES / f"{name}.tar.gz") as packed:
            packed.extractall(SOURCES, filter="data")
    found = SOURCES / name
    return found if (found / framework.tests[0]).exists() else None


def tests_alone(framework: Framework, source: Path) -> Path:
    """Copy the tests and the settings of pytest, without the package: the installed one is to be tested."""
    folder = SOURCES / "tests" / framework.package
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source / "tests", folder / "tests")
    shutil.copy(source / "pyproject.toml", folder)
    return folder


def run(framework: Framework, folder: Path, *, plain: bool) -> dict[str, str]:
    """Run the tests of a framework, and return the result of each."""
    form = "without turnfold" if plain else "with turnfold"
    sys.stderr.write(f"== {framework.package} {version(framework.package)}, {form}\n")
    report = SOURCES / f"{framework.package}{'-plain' if plain else ''}.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    paths = [str(PLUGINS), str(folder), os.environ.get("PYTHONPATH", "")]
    options = ["-q", "-p", "no:cacheprovider", "--tb=short", "-n", "2", "--timeout", "120"]
    options += ["-p", "exclusions", f"--excluded={framework.excluded}", f"--junitxml={report}"]
    options += ["--continue-on-collection-errors", *framework.options]
    # Without its name pytest would take our settings where theirs say nothing about pytest.
    options += ["-c", "pyproject.toml"]
    options += ["--plain"] if plain else ["-p", framework.plugin]
    # LangGraph's tests then need no servers, and PydanticAI's no package of its own that looks for blocking calls.
    settings = {"NO_DOCKER": "true", "BLOCKBUSTER_ENABLED": "false"}
    more = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), **settings}
    subprocess.run(
        [sys.executable, "-m", "pytest", *options, *framework.tests],
        cwd=folder,
        env={**os.environ, **more},
        stdout=sys.stderr,
        check=False,
    )
    return results_of(report)


def results_of(report: Path) -> dict[str, str]:
    """Return the result of each test in a JUnit report: `passed`, `excluded` or `failed`; empty if there is none."""
    if not report.is_file():
        return {}
    found: dict[str, str] = {}
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 (pytest wrote it)
        name = f"{case.get('classname')}::{case.get('name')}"
        kinds = {child.tag for child in case}
        result = "excluded" if "skipped" in kinds else "passed"
        if kinds & {"failure", "error"} or found.get(name) == "failed":
            result = "failed"
        found[name] = result
    return found


def compared(
    swapped: Mapping[str, str] | None, plain: Mapping[str, str]
) -> tuple[Counts | None, Counts, list[str]]:
    """Return the counts with and without turnfold, and the tests that fail only with it.

    A run without results has failed.
    """
    failed = _failed(plain)
    broken = [name for name in _failed(swapped or {}) if plain.get(name) != "failed"]
    with_turnfold = None if swapped is None else _counts(swapped, broken)
    return with_turnfold, _counts(plain, failed), broken


def _failed(results: Mapping[str, str]) -> list[str]:
    return [name for name, result in results.items() if result == "failed"]


def _counts(results: Mapping[str, str], failed: Sequence[str]) -> Counts:
    found = list(results.values())
    return Counts(found.count("passed"), found.count("excluded"), len(failed) if results else 1)


def outcome_of(framework: Framework, *, only_plain: bool) -> Outcome:
    """Run the tests of a framework with and without turnfold."""
    installed = version(framework.package)
    try:
        source = source_of(framework)
    except subprocess.CalledProcessError:  # pip has said why; the other frameworks go on
        reason = f"no source package was downloaded; set {framework.checkout}"
        return Outcome(framework.package, installed, not_run=reason)
    if source is None:
        return Outcome(framework.package, installed, not_run=f"set {framework.checkout}")
    folder = tests_alone(framework, source)
    results = None if only_plain else run(framework, folder, plain=False)
    swapped, plain, broken = compared(results, run(framework, folder, plain=True))
    for name in broken:
        sys.stderr.write(f"fails only with turnfold: {name}\n")
    return Outcome(framework.package, installed, swapped, plain)


def table(outcomes: Iterable[Outcome]) -> str:
    """Return the results as a table."""
    head = (
        "framework",
        "version",
        "passed with",
        "passed plain",
        "excluded",
        "failed",
        "failed plain",
    )
    rows: list[tuple[str, ...]] = [head]
    for each in outcomes:
        if each.not_run:
            rows.append((each.package, each.version, f"not run: {each.not_run}", "", "", "", ""))
            continue
        swapped, plain = each.swapped, each.plain or Counts()
        shown = (swapped.passed, plain.passed, swapped.excluded, swapped.failed) if swapped else ()
        cells = map(str, shown or ("-", plain.passed, plain.excluded, "-"))
        rows.append((each.package, each.version, *cells, str(plain.failed)))
    widths = [max(len(row[at]) for row in rows if at != 2 or row[3]) for at in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def exit_code(outcomes: Iterable[Outcome]) -> int:
    """Return 0 if the tests of at least one framework ran and none failed, else 1.

    With turnfold only tests count that do not fail without it.
    """
    ran = [each for each in outcomes if not each.not_run]
    judged = [each.swapped or each.plain or Counts() for each in ran]
    alike = all(each.plain is not None and each.plain.passed for each in ran)
    return 0 if ran and alike and not any(one.failed for one in judged) else 1


def as_json(outcomes: Iterable[Outcome]) -> str:
    """Return the results as JSON."""
    rows = [
        {
            **each._asdict(),
            "swapped": each.swapped._asdict() if each.swapped else None,
            "plain": each.plain._asdict() if each.plain else None,
        }
        for each in outcomes
    ]
    return json.dumps(rows, indent=2)


def main() -> None:
    """Run the tests of the frameworks; exit with 1 if any failed, or none ran."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("frameworks", nargs="*", help="packages to try; all if none is named")
    parser.add_argument("--plain", action="store_true", help="only without turnfold")
    parser.add_argument("--json", action="store_true", help="write the results as JSON")
    given = parser.parse_args()
    packages = [each.package for each in FRAMEWORKS]
    unknown = sorted(set(given.frameworks) - set(packages))
    if unknown:
        parser.error(f"unknown framework {', '.join(unknown)}; known: {', '.join(packages)}")
    outcomes = [
        outcome_of(each, only_plain=given.plain)
        for each in FRAMEWORKS
        if not given.frameworks or each.package in given.frameworks
    ]
    sys.stdout.write((as_json(outcomes) if given.json else table(outcomes)) + "\n")
    sys.exit(exit_code(outcomes))


if __name__ == "__main__":
    main()
