"""The files people deploy with name commands, options, paths and packages: a typo is found here or by an operator."""

from __future__ import annotations

import asyncio
import configparser
import json
import re
import shlex
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

import turnfold
from tests.house.doc_claims import command_faults
from tests.house.source_tree import ROOT
from turnfold.service import ServiceOptions, make_state
from turnfold.service.prometheus import exposition
from turnfold.service.routes import TABLE
from turnfold.telemetry import METRICS

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


CHART = DEPLOY / "helm" / "turnfold"
_REFERENCE = re.compile(r"\.Values((?:\.\w+)+)")


def chart_values() -> dict[str, Any]:
    return yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))


def value_at(values: Mapping[str, Any], path: str) -> Any:
    """The value a template names; a KeyError if the values do not have it."""
    found: Any = values
    for name in path.strip(".").split("."):
        found = found[name]
    return found


def leaves(values: Mapping[str, Any], at: str = "") -> list[str]:
    """The paths of all values; `resources` is used as a whole."""
    paths: list[str] = []
    for name, value in values.items():
        path = f"{at}.{name}"
        paths += leaves(value, path) if isinstance(value, dict) and name != "resources" else [path]
    return paths


def rendered(text: str, values: Mapping[str, Any], helpers: Mapping[str, str]) -> str:
    """A template filled in: the few forms the chart uses, and an error for any other. It is not Helm."""

    def filled(found: re.Match[str]) -> str:
        what, indent = found["what"], int(found["indent"] or 0)
        match what.split():
            case ["include", name, "."]:
                value = helpers[name.strip('"')]
            case ["toYaml", path]:
                value = yaml.safe_dump(value_at(values, path.removeprefix(".Values"))).rstrip()
            case ["add", path, more]:
                value = str(value_at(values, path.removeprefix(".Values")) + int(more))
            case ["printf", '"%s:%s"', first, second]:
                both = (value_at(values, each.removeprefix(".Values")) for each in (first, second))
                value = ":".join(map(str, both))
            case [path] if path.startswith(".Values"):
                value = str(value_at(values, path.removeprefix(".Values")))
            case _:
                raise AssertionError(f"{what!r} is not a form this test can fill in")
        value = json.dumps(value) if found["quoted"] else value
        lines = value.splitlines()
        return "\n" + "\n".join(" " * indent + line for line in lines) if indent else value

    while block := re.search(
        r"\{\{- if \.Values([\w.]+) \}\}\n((?:(?!\{\{- if).)*?)\s*\{\{- end \}\}", text, re.DOTALL
    ):
        kept = block[2] if value_at(values, block[1]) else ""
        text = text[: block.start()].rstrip(" ") + kept.rstrip(" ") + text[block.end() :]
    form = r"\s*\{\{- (?P<a>.*?) \}\}|\{\{ (?P<b>.*?) \}\}"

    def one(found: re.Match[str]) -> str:
        inner = re.fullmatch(
            r"(?P<what>.*?)(?P<quoted> \| quote)?(?: \| nindent (?P<indent>\d+))?",
            found["a"] or found["b"],
        )
        assert inner is not None
        return filled(inner)

    return re.sub(form, one, text)


HELPERS = {
    "turnfold.name": "release",
    "turnfold.labels": "app.kubernetes.io/name: turnfold\napp.kubernetes.io/instance: release",
}


def manifests(values: Mapping[str, Any]) -> dict[str, Any]:
    texts = (each.read_text(encoding="utf-8") for each in sorted(CHART.glob("templates/*.yaml")))
    parsed = (yaml.safe_load(rendered(text, values, HELPERS)) for text in texts)
    return {each["kind"]: each for each in parsed if each}


def test_the_chart_names_the_values_it_has_and_uses_all_of_them() -> None:
    text = "".join(each.read_text(encoding="utf-8") for each in CHART.glob("templates/*"))
    named = set(_REFERENCE.findall(text))
    for path in named:
        value_at(chart_values(), path)
    assert set(leaves(chart_values())) - named == set()
    defined = set(re.findall(r'define "([\w.]+)"', text))
    assert set(re.findall(r'include "([\w.]+)"', text)) == defined == set(HELPERS)
    assert text.count("{{") == text.count("}}")


@pytest.mark.parametrize("more", [False, True])
def test_the_chart_runs_a_command_that_exists(more: bool) -> None:  # noqa: FBT001 (parametrised)
    values = chart_values()
    if more:
        values |= {"mcp": True, "cache": {"address": "redis://cache:6379/0"}}
        values["serviceMonitor"]["enabled"] = True
    found = manifests(values)
    assert set(found) == {"Deployment", "Service"} | ({"ServiceMonitor"} if more else set())
    pod = found["Deployment"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert serve_faults(container["args"]) == []
    assert ("--mcp" in container["args"]) is ("--cache" in container["args"]) is more
    drain = int(container["args"][container["args"].index("--drain") + 1])
    assert pod["terminationGracePeriodSeconds"] == drain + 30
    assert not REGISTRY_IN_IMAGE.match(container["image"])
    assert container["image"].endswith(f":{turnfold.__version__}")
    assert pod["securityContext"]["runAsUser"] == 10001
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    paths = {operation.path for operation in TABLE}
    assert {
        container[f"{each}Probe"]["httpGet"]["path"] for each in ("liveness", "readiness")
    } <= paths
    mounted = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert set(mounted) == {each["name"] for each in pod["volumes"]}
    file = container["args"][container["args"].index("--tokens-file") + 1]
    assert file == f"{mounted['tokens']}/tokens.json"
    selector = found["Service"]["spec"]["selector"]
    assert selector == found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    ports = [each["name"] for each in container["ports"]]
    assert found["Service"]["spec"]["ports"][0]["targetPort"] in ports
    if more:
        [endpoint] = found["ServiceMonitor"]["spec"]["endpoints"]
        assert endpoint["path"] in paths


def test_the_chart_is_of_this_release() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["appVersion"] == turnfold.__version__
    assert chart["apiVersion"] == "v2"


def test_the_rules_of_the_chart_see_what_is_wrong() -> None:
    with pytest.raises(KeyError):
        rendered("a: {{ .Values.missing }}\n", {}, {})
    with pytest.raises(AssertionError, match="not a form"):
        rendered("a: {{ lookup x y }}\n", {}, {})
    text = "a:\n  {{- if .Values.x }}\n  - 1\n  {{- end }}\n  - {{ .Values.y | quote }}\n"
    assert yaml.safe_load(rendered(text, {"x": True, "y": 2}, {})) == {"a": [1, "2"]}
    assert yaml.safe_load(rendered(text, {"x": False, "y": 2}, {})) == {"a": ["2"]}


def dashboard_metrics(dashboard: Mapping[str, Any]) -> set[str]:
    return set(re.findall(r"turnfold_\w+", json.dumps(dashboard)))


def exposed_metrics(tmp_path: Path) -> set[str]:
    """The names a running service exposes, as they are scraped."""
    state = make_state(ServiceOptions(store=f"sqlite:///{tmp_path / 'chat.db'}"))
    try:
        state.answered["healthz", 200] += 1
        text = exposition(state)[0].decode()
    finally:
        asyncio.run(state.close())
    return {re.split("[{ ]", line)[0] for line in text.splitlines() if not line.startswith("#")}


def test_every_metric_of_the_dashboard_is_one_the_service_has(tmp_path: Path) -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "turnfold.json").read_text(encoding="utf-8"))
    named, exposed = dashboard_metrics(dashboard), exposed_metrics(tmp_path)
    assert len(named) > 20
    assert named - exposed == set()
    shown = {re.sub("_(bucket|sum|count|total)$", "", name) for name in named}
    left_out = {f"turnfold_{each.name}" for each in METRICS} - shown
    assert left_out == {"turnfold_meaning_entries", "turnfold_fold_input_tokens"}
    assert {"turnfold_nothing"} == dashboard_metrics(
        {"expr": "rate(turnfold_nothing[1m])"}
    ) - exposed


def test_the_dashboard_can_be_drawn() -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "turnfold.json").read_text(encoding="utf-8"))
    panels = dashboard["panels"]
    assert len({each["id"] for each in panels}) == len(panels)
    places: set[tuple[int, int]] = set()
    for each in panels:
        at = each["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & places, each["title"]
        assert at["x"] + at["w"] <= 24
        places |= cells
        for target in each.get("targets", ()):
            assert target["datasource"]["uid"] == "${datasource}"
            assert target["expr"].count("(") == target["expr"].count(")")
        assert each["type"] == "row" or each["description"]
