"""What is installed is pinned once: requirement files are exact, agree, and cover the package."""

from __future__ import annotations

import re
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.source_tree import ROOT

FOLDER = ROOT / "requirements"


_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")
FILES = {path.name for path in FOLDER.iterdir()}


def pins(text: str) -> dict[str, str]:
    """Version by package name; anything but an exact pin with hashes is an error."""
    found: dict[str, str] = {}
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("#") or not line.strip():
            continue
        written, *hashes = line.split(" --hash=")
        if not hashes or not all(_HASH.fullmatch(f"--hash={each.strip()}") for each in hashes):
            raise ValueError(f"no hash, or no SHA-256: {line}")
        requirement = Requirement(written)
        [specifier] = requirement.specifier
        if specifier.operator != "==" or specifier.version.endswith("*"):
            raise ValueError(f"not an exact pin: {line}")
        found[canonicalize_name(requirement.name)] = specifier.version
    return found


def pinned(name: str) -> dict[str, str]:
    return pins((FOLDER / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_pin_has_its_hashes(name: str) -> None:
    assert len(pinned(name)) > 5


@pytest.mark.parametrize(
    "name",
    [
        "test.txt",
        "agent-frameworks.txt",
        "bench.txt",
        "claude.txt",
        "docs.txt",
        "frameworks.txt",
        "image.txt",
        "llama-index.txt",
    ],
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
    assert {
        "agent-frameworks.txt",
        "audit.txt",
        "bench.txt",
        "browser.txt",
        "build.txt",
        "claude.txt",
        "docs.txt",
        "frameworks.txt",
        "image.txt",
        "llama-index.txt",
        "proxy-headroom.txt",
        "proxy-litellm.txt",
        "run.txt",
        "test.txt",
    } == FILES


def test_the_image_holds_the_extras_it_is_made_for_and_what_the_tests_ran_with() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    image = pinned("image.txt")
    for extra in ("cli", "service", "postgres", "redis", "prometheus"):
        for line in project["optional-dependencies"][extra]:
            wanted = Requirement(line)
            assert image[canonicalize_name(wanted.name)] in wanted.specifier
    tested = pinned("test.txt")
    assert {
        name: version for name, version in image.items() if tested.get(name, version) != version
    } == {}


def test_every_environment_can_build_the_package_with_the_pinned_tools() -> None:
    build = pinned("build.txt")
    assert {"hatchling", "editables"} <= build.keys()
    for name in FILES:
        both = {each: build[each] for each in build.keys() & pinned(name).keys()}
        assert {each: pinned(name)[each] for each in both} == both


def unchecked_installs(text: str) -> list[str]:
    """Return the commands of a file that install something whose content is not checked."""
    joined = re.sub(r"\s*\\\n\s*", " ", text)
    commands = re.split(r"&&|\|\||[;{}]|\n", joined)
    installs = [each.strip() for each in commands if re.search(r"\bpip (?:install|wheel)\b", each)]
    checked = "--require-hashes", "--no-deps --no-build-isolation", "--no-deps --no-index"
    # uv itself is pinned, and installs nothing that is not checked.
    return [
        each
        for each in installs
        if not any(word in each for word in checked) and "$(UV)" not in each
    ]


@pytest.mark.parametrize("name", ["Makefile", "deploy/Containerfile"])
def test_whatever_is_installed_is_checked(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "--require-hashes" in text
    # What is newest has no pin yet: it is tried in an environment of its own.
    newest = "openai-agents langgraph langchain claude-agent-sdk pydantic-ai-slim llama-index-core"
    unpinned = [f"@.venv-frameworks-newest/bin/python -m pip install --quiet --upgrade {newest}"]
    assert unchecked_installs(text) == (unpinned if name == "Makefile" else [])


def test_the_rule_sees_an_install_that_is_not_checked() -> None:
    loose = "RUN a \\\n  && pip install --no-cache-dir \\\n   '.[cli]' && pip install --require-hashes -r x"
    assert unchecked_installs(loose) == ["pip install --no-cache-dir '.[cli]'"]


WORKFLOWS = ROOT / ".github" / "workflows"


def loose_actions(text: str) -> list[str]:
    """Return the actions of a workflow that are not named by a commit, with the version beside it."""
    used = re.findall(r"uses:\s*(.+)", text)
    return [
        each for each in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each)
    ]


@pytest.mark.parametrize("name", ["ci.yml", "release.yml"])
def test_actions_are_named_by_commit_and_may_only_read(name: str) -> None:
    text = (WORKFLOWS / name).read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    assert loose_actions(text) == []
    assert workflow["permissions"] == {"contents": "read"}
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    checkouts = [step for step in steps if "checkout" in step.get("uses", "")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)
    commands = [step["run"].split() for step in steps if "run" in step]
    targets = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8")))
    assert {target for make, target in commands if make == "make"} <= targets


def test_a_release_has_an_audit_and_a_list_of_what_it_holds() -> None:
    text = (WORKFLOWS / "release.yml").read_text(encoding="utf-8")
    assert [line.strip() for line in text.splitlines() if "run:" in line] == [
        "- run: make audit",
        "- run: make sbom",
        "- run: make dist",
    ]
    assert "build/sbom.json" in text
    assert "make audit" in (WORKFLOWS / "ci.yml").read_text(encoding="utf-8")


def test_the_rule_sees_an_action_that_can_change() -> None:
    digits = "0123456789" * 4
    assert loose_actions(
        f"- uses: a/b@v5\n- uses: a/b@{digits} # v5.0.1\n- uses: a/b@{digits}"
    ) == [
        "a/b@v5",
        f"a/b@{digits}",
    ]


def test_every_exception_of_bandit_is_one_that_ruff_checks() -> None:
    """ruff's rules S are bandit's; there an exception stands beside the code, with its reason."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    chosen = project["ruff"]["lint"]
    assert "ALL" in chosen["select"] or "S" in chosen["select"]
    ignored = {
        rule for rule in chosen.get("ignore", ()) if rule.startswith("S") and rule[1:].isdigit()
    }
    assert {f"S{rule[1:]}" for rule in project["bandit"]["skips"]} & ignored == set()


_ANY = "--hash=sha256:" + "0" * 64


@pytest.mark.parametrize("line", ["rich", "rich>=14", "rich==14.*", "rich==14.0,!=14.1"])
def test_the_rule_sees_a_loose_pin(line: str) -> None:
    good = f"# comment\nrich==14.0 ; sys_platform == 'win32' \\\n    {_ANY} \\\n    {_ANY}\n"
    assert pins(good) == {"rich": "14.0"}
    with pytest.raises(ValueError, match=r"not an exact pin|unpack"):
        pins(f"{line} {_ANY}")


@pytest.mark.parametrize("hashes", ["", " --hash=md5:00", " --hash=sha256:12"])
def test_the_rule_sees_a_pin_without_its_hashes(hashes: str) -> None:
    with pytest.raises(ValueError, match="no hash"):
        pins(f"rich==14.0{hashes}\n")
