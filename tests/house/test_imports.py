"""Importing turnfold costs only what is used: other packages load when something needs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source_tree import SOURCE

REPORT = """
import sys
before = set(sys.modules)
{statement}
loaded = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(*sorted(loaded - set(sys.stdlib_module_names)))
"""


def packages_loaded_by(statement: str, *, source: Path = SOURCE) -> set[str]:
    """The packages outside the standard library that a fresh interpreter loads for a statement."""
    finished = subprocess.run(
        [sys.executable, "-c", REPORT.format(statement=statement)],
        capture_output=True,
        check=False,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(source)},
    )
    assert finished.returncode == 0, finished.stderr
    return set(finished.stdout.split())


def test_the_bare_import_loads_no_other_package() -> None:
    assert packages_loaded_by("import turnfold") == {"turnfold"}


@pytest.mark.parametrize("name", ["Message", "MessageMemory"])
def test_values_and_memories_load_msgspec_and_nothing_else(name: str) -> None:
    allowed = {"turnfold"} | packages_loaded_by("import msgspec")
    assert packages_loaded_by(f"from turnfold import {name}") <= allowed


def test_the_rule_sees_an_eager_import(tmp_path: Path) -> None:
    package = tmp_path / "turnfold"
    package.mkdir()
    (package / "__init__.py").write_text("import json, msgspec, rich.table\n", encoding="utf-8")
    assert packages_loaded_by("import turnfold", source=tmp_path) >= {"turnfold", "msgspec", "rich"}
