"""A suite that passes everything proves nothing: each sabotaged store must fail the cases written against its fault."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.house.source_tree import ROOT
from tests.stores import sabotaged, sabotaged_epochs, sabotaged_search
from tests.stores.sabotaged import Sabotaged

FAULTS = {
    name: value
    for module in (sabotaged, sabotaged_epochs, sabotaged_search)
    for name, value in vars(module).items()
    if name.startswith("Test") and issubclass(value, Sabotaged)
}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What became of each case: passed, failed, error or skipped, by class and case."""
    report = tmp_path_factory.mktemp("sabotage") / "report.xml"
    cases = [
        f"{fault.__module__.replace('.', '/')}.py::{name}::{case}"
        for name, fault in FAULTS.items()
        for case in fault.bitten_by
    ]
    quietly = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--junitxml={report}"]
    quietly += ["--hypothesis-profile", "sabotage", "--tb", "no"]
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", *quietly, *cases],
        capture_output=True,
        check=False,
        cwd=ROOT,
        encoding="utf-8",
    )
    assert finished.returncode == pytest.ExitCode.TESTS_FAILED, finished.stdout + finished.stderr
    return read_verdicts(report)


def read_verdicts(report: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 (written by our own run)
        kinds = [child.tag for child in case if child.tag in {"failure", "error", "skipped"}]
        owner = (case.get("classname") or "").rpartition(".")[2]
        found[f"{owner}::{case.get('name')}"] = kinds[0] if kinds else "passed"
    return found


@pytest.mark.slow  # shows that the conformance suite can fail
@pytest.mark.parametrize("name", FAULTS)
def test_the_suite_notices(name: str, verdicts: dict[str, str]) -> None:
    noticed = {case: verdicts[f"{name}::{case}"] for case in FAULTS[name].bitten_by}
    assert noticed == dict.fromkeys(FAULTS[name].bitten_by, "failure")


def test_there_is_a_fault_for_every_promise_that_is_easily_broken() -> None:
    assert len(FAULTS) >= 15
