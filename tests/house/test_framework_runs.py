"""The runner of the frameworks' own tests: its lists, its counts, its table and its exit code."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tools.frameworks import (
    FRAMEWORKS,
    PLUGINS,
    Counts,
    Framework,
    Outcome,
    as_json,
    compared,
    exit_code,
    outcome_of,
    results_of,
    source_of,
    table,
)

GOOD = Outcome("langgraph", "1.2.20", Counts(10, 2, 0), Counts(12, 0, 0))
BAD = Outcome("langchain", "1.4.7", Counts(9, 0, 1), Counts(10, 0, 0))
ABSENT = Outcome("llama-index-core", "0.14.25", not_run="set LLAMA_INDEX_CHECKOUT")


def exclusions() -> ModuleType:
    spec = importlib.util.spec_from_file_location("exclusions", PLUGINS / "exclusions.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda each: each.package)
def test_every_framework_has_a_plugin_and_a_list_with_reasons(framework: Framework) -> None:
    assert (PLUGINS / f"{framework.plugin}.py").is_file()
    text = framework.excluded.read_text(encoding="utf-8")
    listed = exclusions().reasons(text)
    for name, reason in listed.items():
        assert re.match(r"tests/[\w/]+\.py::\w", name), name
        assert len(reason) > 10, name
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(lines) == len(listed)  # none is there twice
    assert all(any(name.startswith(path) for path in framework.tests) for name in listed)


def test_no_list_or_plugin_is_left_over() -> None:
    used = {each.excluded.name for each in FRAMEWORKS} | {f"{x.plugin}.py" for x in FRAMEWORKS}
    found = {path.name for path in PLUGINS.iterdir() if path.is_file()}
    assert found == used | {"exclusions.py"}


def test_all_went_well_only_if_something_ran_and_nothing_failed() -> None:
    assert exit_code([GOOD, ABSENT]) == 0
    assert exit_code([GOOD, BAD]) == 1
    assert exit_code([ABSENT]) == 1
    assert exit_code([]) == 1
    only_plain = Outcome("langgraph", "1.2.20", None, Counts(11, 0, 1))
    assert exit_code([only_plain]) == 1
    assert exit_code([GOOD._replace(plain=Counts(10, 0, 2))]) == 0  # they fail without turnfold too
    assert exit_code([GOOD._replace(plain=Counts(0, 0, 12))]) == 1  # there was nothing to compare


def test_a_test_that_fails_without_turnfold_too_is_no_failure_of_turnfold() -> None:
    plain = {"a": "passed", "b": "failed", "c": "failed", "d": "passed", "e": "passed"}
    swapped = {"a": "failed", "b": "failed", "c": "passed", "d": "excluded", "e": "passed"}
    assert compared(swapped, plain) == (Counts(2, 1, 1), Counts(3, 0, 2), ["a"])
    assert compared(None, plain) == (None, Counts(3, 0, 2), [])


def test_a_run_without_results_has_failed() -> None:
    assert compared({}, {"a": "passed"}) == (Counts(failed=1), Counts(1, 0, 0), [])
    assert compared({"a": "passed"}, {}) == (Counts(1, 0, 0), Counts(failed=1), [])


def test_the_table_has_a_row_for_each_framework() -> None:
    assert table([GOOD, BAD, ABSENT]).splitlines() == [
        "framework         version  passed with  passed plain  excluded  failed  failed plain",
        "langgraph         1.2.20   10           12            2         0       0",
        "langchain         1.4.7    9            10            0         1       0",
        "llama-index-core  0.14.25  not run: set LLAMA_INDEX_CHECKOUT",
    ]
    assert '"not_run": "set LLAMA_INDEX_CHECKOUT"' in as_json([ABSENT])
    assert '"passed": 10' in as_json([GOOD])
    only_plain = GOOD._replace(swapped=None)
    assert table([only_plain]).split()[-6:] == ["1.2.20", "-", "12", "0", "-", "0"]


def test_a_checkout_is_taken_where_a_variable_names_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SOME_CHECKOUT", str(tmp_path))
    framework = Framework("pytest", "none", "SOME_CHECKOUT", ("tests/test_one.py",), "libs/one")
    assert source_of(framework) == tmp_path / "libs/one"


def test_a_source_package_without_the_tests_is_not_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    framework = Framework("pytest", "none", "SOME_CHECKOUT", ("tests/test_one.py",))
    monkeypatch.setattr("tools.frameworks.SOURCES", tmp_path)
    folder = tmp_path / f"pytest-{pytest.__version__}"
    folder.mkdir()
    assert source_of(framework) is None
    (folder / "tests").mkdir()
    (folder / "tests" / "test_one.py").touch()
    assert source_of(framework) == folder


def test_a_source_package_that_cannot_be_downloaded_is_not_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    framework = Framework("pytest", "none", "SOME_CHECKOUT", ("tests/test_one.py",))
    monkeypatch.setattr("tools.frameworks.SOURCES", tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    outcome = outcome_of(framework, only_plain=True)
    assert outcome.not_run == "no source package was downloaded; set SOME_CHECKOUT"


SAMPLE = """
import pytest

def test_passes(): pass
def test_fails(): assert False
def test_needs(): assert False
@pytest.mark.parametrize("n", [1, 2])
def test_each(n): assert False
def test_listed_but_passes(): pass
"""
LIST = """# a remark
test_sample.py::test_fails = reads private fields
test_sample.py::test_needs = needs a server
test_sample.py::test_each = reads private fields
test_sample.py::test_listed_but_passes = reads private fields
"""


def run_sample(folder: Path, *more: str) -> dict[str, str]:
    (folder / "test_sample.py").write_text(SAMPLE, encoding="utf-8")
    (folder / "list.txt").write_text(LIST, encoding="utf-8")
    report = folder / "report.xml"
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "exclusions", "--rootdir=."]
    subprocess.run(
        [sys.executable, *command, "--excluded=list.txt", f"--junitxml={report}", *more],
        cwd=folder,
        env={"PYTHONPATH": str(PLUGINS)},
        check=False,
        capture_output=True,
    )
    return {name.partition("::")[2]: result for name, result in results_of(report).items()}


def test_a_listed_test_must_fail_and_what_needs_something_is_skipped(tmp_path: Path) -> None:
    assert run_sample(tmp_path) == {
        "test_passes": "passed",
        "test_fails": "excluded",
        "test_needs": "excluded",
        "test_each[1]": "excluded",
        "test_each[2]": "excluded",
        "test_listed_but_passes": "failed",
    }


def test_without_turnfold_no_listed_test_is_expected_to_fail(tmp_path: Path) -> None:
    assert run_sample(tmp_path, "--plain") == {
        "test_passes": "passed",
        "test_fails": "failed",
        "test_needs": "excluded",
        "test_each[1]": "failed",
        "test_each[2]": "failed",
        "test_listed_but_passes": "passed",
    }


def test_a_report_that_is_not_there_has_no_results(tmp_path: Path) -> None:
    assert results_of(tmp_path / "none.xml") == {}
    (tmp_path / "empty.xml").write_text('<testsuites><testsuite tests="0"/></testsuites>')
    assert results_of(tmp_path / "empty.xml") == {}


def test_a_test_that_passes_and_then_fails_to_clean_up_has_failed(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    case = '<testcase classname="a" name="b">{}</testcase>'
    report.write_text(f"<testsuite>{case.format('<error/>')}{case.format('')}</testsuite>")
    assert results_of(report) == {"a::b": "failed"}
