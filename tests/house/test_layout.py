"""Rules of the source tree: functions that fit a screen, names with one meaning, packages used through their faces."""

from __future__ import annotations

import ast
import gc
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from statistics import median

import pytest

from tests.house.source_tree import PACKAGE, ROOT, module_name, python_files, shown

LONGEST_FUNCTION = 60
SHORTEST_DOCSTRING = 20
MEDIAN_FILE = range(150, 351)
MOST_NAMED_ING = 5
PRONOUNS = [["it"], ["its"], ["this"], ["these"], ["they"], ["their"]]

Tree = Mapping[str, ast.Module]


@pytest.fixture(scope="module")
def modules() -> Iterator[Tree]:
    """Every module of the package by its dotted name.

    They are a million objects without a cycle to look for: the garbage collector passes over them.
    """
    gc.disable()
    try:
        yield {
            module_name(path): ast.parse(path.read_text("utf-8")) for path in python_files(PACKAGE)
        }
    finally:
        gc.enable()


def long_functions(tree: ast.AST) -> list[str]:
    return [
        f"{node.name} has {length} lines"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > LONGEST_FUNCTION
    ]


def imports_past_a_face(modules: Tree) -> list[str]:
    """Imports of a module inside another package: `turnfold.a` may import `turnfold.b`, not `turnfold.b.c`."""
    return sorted(
        f"{name} imports {target}"
        for name, tree in modules.items()
        for target in _imported(tree, modules)
        if target.startswith("turnfold.")
        and target.count(".") > 1
        and target.split(".")[1] != name.partition(".")[2].partition(".")[0]
    )


def _imported(tree: ast.Module, modules: Iterable[str]) -> Iterator[str]:
    known = set(modules)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            parts = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from [part for part in parts if part in known] or [node.module]
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def classes_with_two_meanings(modules: Tree) -> dict[str, list[str]]:
    homes: dict[str, list[str]] = defaultdict(list)
    for name, tree in modules.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(name)
    return {name: found for name, found in homes.items() if len(found) > 1}


def attributes_described_by_a_pronoun(tree: ast.AST) -> list[str]:
    """Attributes whose docstring begins with a pronoun: read alone, it does not say what it is about."""
    return [
        ast.unparse(assigned.targets[0] if isinstance(assigned, ast.Assign) else assigned.target)
        for body in _bodies(tree)
        for assigned, after in pairwise(body)
        if isinstance(assigned, ast.Assign | ast.AnnAssign)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
        and str(after.value.value).lower().split()[:1] in PRONOUNS
    ]


def _bodies(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.body


def test_functions_fit_a_screen(modules: Tree) -> None:
    found = {name: long for name, tree in modules.items() if (long := long_functions(tree))}
    assert found == {}


def test_functions_of_tests_fit_a_screen() -> None:
    found = {
        shown(path): long
        for path in python_files(ROOT / "tests")
        if (long := long_functions(ast.parse(path.read_text("utf-8"))))
    }
    assert found == {}


def test_the_typical_file_is_neither_a_crumb_nor_a_drawer() -> None:
    lengths = [len(path.read_text("utf-8").splitlines()) for path in python_files(PACKAGE)]
    assert int(median(lengths)) in MEDIAN_FILE


def test_modules_have_docstrings_and_are_named_by_nouns(modules: Tree) -> None:
    silent = [
        name
        for name, tree in modules.items()
        if len(ast.get_docstring(tree) or "") < SHORTEST_DOCSTRING
    ]
    assert silent == []
    assert len([name for name in modules if name.endswith("ing")]) <= MOST_NAMED_ING


def test_a_docstring_of_an_attribute_begins_with_no_pronoun(modules: Tree) -> None:
    found = {
        name: bad
        for name, tree in modules.items()
        if (bad := attributes_described_by_a_pronoun(tree))
    }
    assert found == {}


def test_packages_are_used_through_their_faces(modules: Tree) -> None:
    assert imports_past_a_face(modules) == []


def test_a_class_name_means_one_thing(modules: Tree) -> None:
    assert classes_with_two_meanings(modules) == {}


def test_the_rules_see_a_bad_tree() -> None:
    body = "    pass\n"
    assert long_functions(ast.parse("def short():\n" + body * (LONGEST_FUNCTION - 1))) == []
    assert long_functions(ast.parse("async def long():\n" + body * 60)) == ["long has 61 lines"]
    described = (
        'class A:\n    a = 1\n    """The length."""\n    b: int\n    """Its length."""\n'
        'C = 1\n"""This is one."""'
    )
    assert attributes_described_by_a_pronoun(ast.parse(described)) == ["C", "b"]
    bad = {
        "turnfold": ast.parse("from turnfold.a import One"),
        "turnfold.a": ast.parse(""),
        "turnfold.a.one": ast.parse("class One: ..."),
        "turnfold.b.two": ast.parse("class One: ...\nfrom turnfold.a.one import One"),
        "turnfold.b.three": ast.parse("from turnfold.a import one\nfrom turnfold.b.two import One"),
    }
    assert imports_past_a_face(bad) == [
        "turnfold.b.three imports turnfold.a.one",
        "turnfold.b.two imports turnfold.a.one",
    ]
    assert classes_with_two_meanings(bad) == {"One": ["turnfold.a.one", "turnfold.b.two"]}
