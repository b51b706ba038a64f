"""No file of the project knows the machine or the package registry it was made with."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.source_tree import ROOT, shown

# Written as patterns, so that this file does not match itself.
REGISTRY = re.compile(
    r"pypi\.org|pythonhosted\.org|registry\.(?:npmjs|yarnpkg)\.|npmmirror\.com"
    r"|--(?:extra-)?index-url|\bregistry = \"http|\"resolved\": \"http"
    r"|://[^/\s\"']*(?:pypi|artifactory|nexus)[^/\s\"']*/"
)
MACHINE_PATH = re.compile(
    r"(?<![\w.~*/})>\]-])/+(?:(?:root|work|tmp|private/tmp)(?![\w-])|(?:home|Users)/\w)[\w./-]*"
    r"|\b[A-Z]:\\+Users\\"
)


def project_files() -> list[Path]:
    """What is tracked or about to be; in a copy without history, everything that is not hidden."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        check=False,
        cwd=ROOT,
        encoding="utf-8",
    )
    if listed.returncode == 0:
        paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        paths = [
            path
            for path in ROOT.rglob("*")
            if not any(part.startswith((".", "__py")) for part in path.relative_to(ROOT).parts)
        ]
    return sorted(path for path in paths if path.is_file())


def machine_traces(text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), start=1):
        for pattern in (REGISTRY, MACHINE_PATH):
            if found := pattern.search(line):
                yield f"line {number}: {found.group()}"


def text_of(path: Path) -> str:
    """The text of a file; a binary file has none."""
    content = path.read_bytes()
    return "" if b"\0" in content else content.decode("utf-8")


def test_no_file_names_a_registry_or_a_machine() -> None:
    files = project_files()
    assert ROOT / "pyproject.toml" in files
    # A short one ("/app") is also an ordinary word of a text.
    here = [str(path) for path in (ROOT, Path.home()) if len(path.parts) > 2]
    traces = [
        f"{shown(path)}: {trace}"
        for path in files
        for text in [text_of(path)]
        for trace in [*machine_traces(text), *(name for name in here if name in text)]
    ]
    assert traces == []


@pytest.mark.parametrize(
    "parts",
    [
        ("https://", "pypi", ".org/simple"),
        ("https://files.", "pythonhosted", ".org/packages/x.whl"),
        ("https://registry.", "npmjs", ".org/pyright"),
        ("https://pypi", ".internal.example/simple/"),
        ("--index", "-url https://example.org"),
        ("see /ho", "me/dana/project/x.py"),
        ("'/ro", "ot/.cache'"),
        ("(/wo", "rk/main)"),
        ('open("/tm', 'p/out.json")'),
        ("sqlite:////tm", "p/x.db"),
        ("C:", "\\Users\\Dana"),
    ],
)
def test_the_rule_sees_a_trace(parts: tuple[str, ...]) -> None:
    [trace] = machine_traces("first line\n" + "".join(parts))
    assert trace.startswith("line 2: ")


@pytest.mark.parametrize(
    "text",
    [
        "a/home/page",
        "docs/tmp/x",
        "https://example.org/tmp/x",
        "{root}/tmp/x",
        "/etc/hosts",
        "./tmp/x",
        "/workspace/x",
        "/home",
    ],
)
def test_the_rule_lets_ordinary_text_pass(text: str) -> None:
    assert list(machine_traces(text)) == []
