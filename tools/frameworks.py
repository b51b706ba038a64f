"""Runs the frameworks' own tests with turnfold in the place of their sessions: `make test-frameworks`.

The tests come from the source package of the installed version, or from a checkout that a variable names. A pytest
plugin in `tests/frameworks` swaps turnfold in, and marks the tests that cannot pass, with the reason of each. With
`--plain` the same tests run without turnfold.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

__all__ = ("main",)


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
)


def source_of(framework: Framework) -> Path:
    """Return the folder with the tests of the installed version; its source package is downloaded if need be."""
    named = os.environ.get(framework.checkout)
    if named:
        return Path(named)
    installed = version(framework.package)
    name = f"{framework.package.replace('-', '_')}-{installed}"
    if not (SOURCES / name).is_dir():
        SOURCES.mkdir(parents=True, exist_ok=True)
        wanted = f"{framework.package}=={installed}"
        command = ["download", "--quiet", "--no-deps", "--no-binary", ":all:", wanted]
        subprocess.run([sys.executable, "-m", "pip", *command, "-d", SOURCES], check=True)
        with tarfile.open(SOURCES / f"{name}.tar.gz") as packed:
            packed.extractall(SOURCES, filter="data")
    return SOURCES / name


def run(framework: Framework, *, plain: bool) -> int:
    """Run the tests of a framework, and return the exit code of pytest."""
    source = source_of(framework)
    sys.stdout.write(f"== {framework.package} {version(framework.package)}\n")
    sys.stdout.flush()
    paths = [str(PLUGINS), str(source), os.environ.get("PYTHONPATH", "")]
    plugin = () if plain else ("-p", framework.plugin)
    options = ("-q", "-p", "no:cacheprovider", "--tb=short", "-n", "2", "--timeout", "120")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *plugin, *framework.tests],
        cwd=source,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        check=False,
    ).returncode


def main() -> None:
    """Run the tests of every framework; exit with 1 if any failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plain", action="store_true", help="without turnfold, for comparison")
    plain: bool = parser.parse_args().plain
    failed = [each.package for each in FRAMEWORKS if run(each, plain=plain)]
    if failed:
        sys.exit(f"== FAILED: {', '.join(failed)}")


if __name__ == "__main__":
    main()
