"""What is installed is pinned once: requirement files are exact, agree, and cover the package."""

from __future__ import annotations

import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.source_tree import ROOT

FOLDER = ROOT / "requirements"


def pins(text: str) -> dict[str, str]:
    """Version by package name; anything but an exact pin is an error."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        requirement = Requirement(line)
        [specifier] = requirement.specifier
        if specifier.operator != "==" or specifier.version.endswith("*"):
            raise ValueError(f"not an exact pin: {line}")
        found[canonicalize_name(requirement.name)] = specifier.version
    return found


def pinned(name: str) -> dict[str, str]:
    return pins((FOLDER / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "name", ["test.txt", "bench.txt", "claude.txt", "docs.txt", "llama-index.txt"]
)
def test_every_environment_holds_the_same_run_time_packages(name: str) -> None:
    run = pinned("run.txt")
    assert {package: pinned(name).get(package) for package in run} == run


def test_the_pins_satisfy_what_the_package_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    run = pinned("run.txt")
    for line in project["dependencies"]:
        wanted = Requirement(line)
        assert run[canonicalize_name(wanted.name)] in wanted.specifier


def test_there_is_no_other_requirement_file() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {
        "bench.txt",
        "browser.txt",
        "claude.txt",
        "docs.txt",
        "llama-index.txt",
        "run.txt",
        "test.txt",
    }


@pytest.mark.parametrize("line", ["rich", "rich>=14", "rich==14.*", "rich==14.0,!=14.1"])
def test_the_rule_sees_a_loose_pin(line: str) -> None:
    assert pins("# comment\nrich==14.0 ; sys_platform == 'win32'\n") == {"rich": "14.0"}
    with pytest.raises(ValueError, match=r"not an exact pin|unpack"):
        pins(line)
