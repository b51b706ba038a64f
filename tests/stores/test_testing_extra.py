"""The suite for your own stores says what it needs, and the package names the same."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement

from tests.house.source_tree import ROOT, SOURCE

IMPORTED_WITHOUT = """
import sys
sys.modules[{package!r}] = None
from turnfold.errors import MissingExtra
try:
    import turnfold.testing.stores
except MissingExtra as error:
    print(error.package, error.extra, error, sep="|")
"""


def extra() -> dict[str, Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = map(Requirement, project["optional-dependencies"]["testing"])
    return {requirement.name: requirement for requirement in wanted}


@pytest.mark.parametrize("package", ["hypothesis", "pytest"])
def test_a_missing_package_is_told_with_the_extra_that_brings_it(package: str) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", IMPORTED_WITHOUT.format(package=package)],
        capture_output=True,
        check=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    named, name, told = finished.stdout.strip().split("|")
    assert (named, name) == (package, "testing")
    assert (
        told
        == f"the store conformance suite needs the package '{package}': pip install 'turnfold[testing]'"
    )
    assert package in extra()


def test_nothing_is_told_when_nothing_is_missing() -> None:
    finished = subprocess.run(
        [sys.executable, "-c", IMPORTED_WITHOUT.format(package="another_package")],
        capture_output=True,
        check=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    assert finished.stdout == ""
