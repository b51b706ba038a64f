"""The tree stays readable: short files and functions, names that explain, a reason per module."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from tests.house.source_tree import PACKAGE, ROOT, python_files, shown

LONGEST_FILE = 700
LONGEST_FUNCTION = 60
LONGEST_MEDIAN_FILE = 250
SHORTEST_MODULE_DOCSTRING = 60
EMPTY_WORDS = frozenset(
    {"util", "utils", "helper", "helpers", "manager", "managers", "handler", "handlers"}
)

SHIPPED = python_files(PACKAGE)
ALL_FILES = python_files(PACKAGE, ROOT / "tests")


def line_count(text: str) -> int:
    return len(text.splitlines())


def long_functions(text: str) -> list[str]:
    return [
        f"{node.name} has {length} lines"
        for node in definitions(text)
        if not isinstance(node, ast.ClassDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > LONGEST_FUNCTION
    ]


def definitions(text: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node


def words(name: str) -> set[str]:
    """`HTTPHandler` and `http_handler` are both made of the words http and handler."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+", " ", name)
    return set(spaced.lower().split())


def empty_names(path: Path, text: str) -> list[str]:
    """Names of folders, files, classes and functions that hide what they are for."""
    names = [*Path(shown(path)).with_suffix("").parts, *(node.name for node in definitions(text))]
    return [name for name in names if words(name) & EMPTY_WORDS]


def docstring_length(text: str) -> int:
    return len(ast.get_docstring(ast.parse(text)) or "")


@pytest.mark.parametrize("path", ALL_FILES, ids=shown)
def test_files_and_functions_fit_the_reader(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert line_count(text) <= LONGEST_FILE
    assert long_functions(text) == []


@pytest.mark.parametrize("path", ALL_FILES, ids=shown)
def test_names_explain_themselves(path: Path) -> None:
    assert empty_names(path, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", SHIPPED, ids=shown)
def test_every_module_says_why_it_exists(path: Path) -> None:
    assert docstring_length(path.read_text(encoding="utf-8")) >= SHORTEST_MODULE_DOCSTRING


def test_the_typical_file_is_short() -> None:
    lengths = [line_count(path.read_text(encoding="utf-8")) for path in SHIPPED]
    assert median(lengths) <= LONGEST_MEDIAN_FILE


def test_the_rules_see_a_bad_file() -> None:
    body = "    pass\n"
    assert long_functions("def short():\n" + body * (LONGEST_FUNCTION - 1)) == []
    assert long_functions("async def long():\n" + body * LONGEST_FUNCTION) == ["long has 61 lines"]
    assert long_functions("class A:\n    def m(self):\n" + "        1\n" * 60) == ["m has 61 lines"]
    assert line_count("x\n" * 701) > LONGEST_FILE
    assert docstring_length("x = 1\n") == 0
    assert docstring_length('"""Short."""\n') < SHORTEST_MODULE_DOCSTRING


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("src/turnfold/string_utils.py", "", ["string_utils"]),
        ("src/helpers/text.py", "", ["helpers"]),
        ("src/a.py", "class HTTPHandler: ...", ["HTTPHandler"]),
        ("src/a.py", "def window_manager(): ...", ["window_manager"]),
        ("src/a.py", "class Managed: ...\ndef utilisation(): ...", []),
    ],
)
def test_the_rule_sees_an_empty_name(path: str, text: str, found: list[str]) -> None:
    assert empty_names(ROOT / path, text) == found
