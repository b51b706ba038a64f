"""The files people deploy with name commands, options, paths and packages: a typo is found here or by an operator."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
import yaml

from tests.house.doc_claims import command_faults
from tests.house.source_tree import ROOT

DEPLOY = ROOT / "deploy"
# What has a dot or a colon before its first slash is the name of a registry.
REGISTRY_IN_IMAGE = re.compile(r"^[^/]*[.:][^/]*/")
_VARIABLE = re.compile(r"\$\{(\w+)(?::[-?]([^}]*))?\}")


def compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


def unit(text: str) -> dict[str, dict[str, list[str]]]:
    """The sections of a unit file; a key may stand more than once."""
    sections: dict[str, dict[str, list[str]]] = {}
    current: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("["):
            current = sections.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            current.setdefault(key, []).append(value)
    return sections


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a container file, continued lines joined."""
    joined = re.sub(r"\s*\\\n\s*", " ", text)
    return [
        (line.partition(" ")[0], line.partition(" ")[2])
        for line in joined.splitlines()
        if line and not line.startswith("#")
    ]


def serve_faults(words: list[str]) -> list[str]:
    """What is wrong with the command line of a service: unknown names, and listening to all without tokens."""
    faults = command_faults(shlex.join(["turnfold", *words]))
    options = dict(pairwise(words))
    if options.get("--host", "127.0.0.1") != "127.0.0.1" and "--tokens-file" not in options:
        faults.append("it would listen off loopback without tokens, and refuse to start")
    return faults


def missing_variables(services: Mapping[str, Any], known: set[str]) -> set[str]:
    """Variables the services need and the example of the environment does not name."""
    return {name for name, _ in _VARIABLE.findall(json.dumps(services))} - known


def example_variables() -> set[str]:
    text = (DEPLOY / "environment.example").read_text(encoding="utf-8")
    return {line.partition("=")[0] for line in text.splitlines() if "=" in line and line[0] != "#"}


def test_the_service_of_the_compose_file_runs_a_command_that_exists() -> None:
    service = compose()["services"]["service"]
    assert serve_faults(service["command"]) == []
    assert service["stop_grace_period"] == "90s"
    drain = service["command"][service["command"].index("--drain") + 1]
    assert int(drain) < 90
    built = service["build"]
    assert (DEPLOY / built["context"] / built["dockerfile"]).resolve().is_file()


def test_what_the_compose_file_names_is_there() -> None:
    whole = compose()
    services = whole["services"]
    assert missing_variables(services, example_variables()) == set()
    for name, service in services.items():
        assert not REGISTRY_IN_IMAGE.match(service.get("image", "")), name
        assert set(service.get("depends_on", {})) <= set(services)
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source in whole["volumes"] or (DEPLOY / source).is_file(), volume
    hosts = re.findall(r"//(?:\w+@)?(\w+)[:/]", " ".join(services["service"]["command"]))
    assert hosts == ["postgres", "cache"]


def test_the_container_file_copies_and_installs_what_is_there() -> None:
    lines = instructions((DEPLOY / "Containerfile").read_text(encoding="utf-8"))
    copied = [
        word
        for name, rest in lines
        if name == "COPY" and not rest.startswith("--from")
        for word in rest.split()[:-1]
    ]
    assert copied
    assert [word for word in copied if not (ROOT / word).exists()] == []
    named = re.findall(r"-r (requirements/[\w-]+\.txt)", " ".join(rest for _, rest in lines))
    assert named == ["requirements/build.txt", "requirements/image.txt"]
    assert set(named) <= set(copied)
    said = dict(lines)
    assert serve_faults(json.loads(said["CMD"])) == []
    assert json.loads(said["ENTRYPOINT"]) == ["turnfold"]
    assert said["USER"] == "10001"


def test_the_unit_runs_a_command_that_exists_and_is_closed() -> None:
    sections = unit((DEPLOY / "turnfold.service").read_text(encoding="utf-8"))
    service = sections["Service"]
    [start] = service["ExecStart"]
    program, *words = shlex.split(start)
    assert program == "/opt/turnfold/bin/turnfold"
    assert serve_faults(words) == []
    assert service["User"] == ["turnfold"]
    closed = (
        "NoNewPrivileges ProtectHome PrivateTmp PrivateDevices RestrictSUIDSGID LockPersonality"
    )
    assert {key: service[key] for key in closed.split()} == {key: ["yes"] for key in closed.split()}
    assert service["ProtectSystem"] == ["strict"]
    assert service["CapabilityBoundingSet"] == [""]


def test_the_unit_is_one_that_systemd_can_read() -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment] # systemd's keys are case-sensitive
    parser.read(DEPLOY / "turnfold.service", encoding="utf-8")
    assert parser.sections() == ["Unit", "Service", "Install"]


@pytest.mark.parametrize(
    ("words", "faults"),
    [
        (["serve", "--store", "sqlite://"], 0),
        (["serve", "--stoer", "sqlite://"], 1),
        (["serv"], 1),
        (["serve", "--host", "192.0.2.7"], 1),
        (["serve", "--host", "192.0.2.7", "--tokens-file", "t"], 0),
    ],
)
def test_the_rule_sees_a_wrong_command(words: list[str], faults: int) -> None:
    assert len(serve_faults(words)) == faults


def test_the_rules_see_what_is_missing() -> None:
    services = {"a": {"environment": {"X": "${SECRET:?set it}", "Y": "${HOST:-localhost}"}}}
    assert missing_variables(services, {"HOST"}) == {"SECRET"}
    assert REGISTRY_IN_IMAGE.match("registry.example/postgres:18")
    assert REGISTRY_IN_IMAGE.match("localhost:5000/postgres:18")
    assert not REGISTRY_IN_IMAGE.match("valkey/valkey:9")
    assert not REGISTRY_IN_IMAGE.match("postgres:18")
    assert unit("[A]\nx=1\nx=2\n# c\n[B]\n") == {"A": {"x": ["1", "2"]}, "B": {}}
    assert instructions("RUN a \\\n  && b\n# c\nUSER x\n") == [("RUN", "a && b"), ("USER", "x")]
