"""What a page of the documentation claims to exist: names, files, imports, commands. Each rule lists what does not."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache

from typer.core import TyperGroup
from typer.main import get_command

from tests.house.source_tree import ROOT, python_files
from tools.docs_pages import code_words, fences
from tools.docs_reference import find, module_tree
from turnfold.cli.app import app

__all__ = (
    "command_faults",
    "exists",
    "missing_commands",
    "missing_imports",
    "missing_names",
    "missing_paths",
    "missing_tests",
)

_NAME = re.compile(r"turnfold(?:\.\w+)+")
_PATH = re.compile(r"(?:src|tests|tools|bench|design|deploy|docs|examples|requirements)/[\w./-]*\w")
_TEST = re.compile(r"test_\w+")
_PACKAGES = ("turnfold",)


def exists(dotted: str) -> bool:
    """Whether a dotted name of turnfold is a module, something public in one, or an attribute of that.

    Read from the source: a page may name an adapter whose framework is not installed here.
    """
    parts = dotted.split(".")
    depth = max(at for at in range(1, len(parts) + 1) if module_tree(".".join(parts[:at])))
    rest = parts[depth:]
    if not rest:
        return True
    found = find(".".join(parts[:depth]), rest[0])
    if found is None or len(rest) == 1:
        return found is not None
    return isinstance(found.node, ast.ClassDef) and rest[1] in _members(found.node)


def _members(node: ast.ClassDef) -> set[str]:
    names: set[str] = set()
    for item in node.body:
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(item.name)
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            names.add(item.target.id)
        elif isinstance(item, ast.Assign):
            names.update(one.id for one in item.targets if isinstance(one, ast.Name))
    return names


def missing_names(document: str) -> list[str]:
    """Names of turnfold between back quotes that are not there."""
    named = [
        found.group() for word in code_words(document) for found in [_NAME.match(word)] if found
    ]
    return [
        name
        for name in named
        if not _is_file(name) and not _is_of_a_span(name) and not exists(name)
    ]


def _is_of_a_span(name: str) -> bool:
    """`turnfold.fold.upto` is an attribute of an OpenTelemetry span, `turnfold.fold` the prefix of several."""
    spans = (ROOT / "src" / "turnfold" / "telemetry" / "spans.py").read_text(encoding="utf-8")
    return re.search(rf'"{re.escape(name)}[."]', spans) is not None


def _is_file(name: str) -> bool:
    """`turnfold.service` beside a unit file is the unit: a name that is a file of the deployment."""
    return (ROOT / "deploy" / name).is_file()


def missing_paths(document: str) -> list[str]:
    """Paths of the project between back quotes that lead nowhere."""
    return [
        word
        for word in code_words(document)
        if _PATH.fullmatch(word) and not (ROOT / word).exists()
    ]


@cache
def _test_names() -> frozenset[str]:
    found = re.compile(r"^\s*(?:async )?def (test_\w+)", re.MULTILINE)
    texts = (path.read_text(encoding="utf-8") for path in python_files(ROOT / "tests"))
    return frozenset(name for text in texts for name in found.findall(text))


def missing_tests(document: str) -> list[str]:
    """Tests a page points at that nobody wrote, or that have another name now."""
    named = [word for word in code_words(document) if _TEST.fullmatch(word)]
    return [name for name in named if name not in _test_names()]


def missing_imports(document: str) -> list[str]:
    """What Python blocks import from turnfold and is not there, in blocks that are shown and not run as well."""
    faults: list[str] = []
    for block in fences(document):
        if block.language in {"py", "python"}:
            faults += [name for name in _imported(block.text) if not exists(name)]
    return faults


def _imported(code: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in _PACKAGES:
            for alias in node.names:
                yield f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name.split(".")[0] in _PACKAGES)


def missing_commands(document: str) -> list[str]:
    """Command lines of `turnfold` in the prose and in shell blocks that it would not take."""
    lines = [word for word in code_words(document) if word.startswith("turnfold ")]
    for block in fences(document):
        if block.language == "sh":
            joined = block.text.replace("\\\n", " ")
            lines += [line for line in joined.splitlines() if line.startswith("turnfold ")]
    return [fault for line in lines for fault in command_faults(line)]


@cache
def _command() -> TyperGroup:
    command = get_command(app)
    assert isinstance(command, TyperGroup)
    return command


def command_faults(line: str) -> list[str]:
    """What is wrong with a command line; in prose a command may stand without its arguments."""
    words = [word for word in shlex.split(line, comments=True) if word not in {"...", "…"}][1:]
    command = _command()
    while words and isinstance(command, TyperGroup) and not words[0].startswith("-"):
        inner = command.commands.get(words[0])
        if inner is None:
            return [f"{line}: there is no command {words[0]}"]
        command, words = inner, words[1:]
    known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
    used = [word.partition("=")[0] for word in words if word.startswith("--")]
    return [
        f"{line}: there is no option {option}"
        for option in used
        if option not in known | {"--help"}
    ]
