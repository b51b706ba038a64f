"""The other major version of the package, in an environment of its own; and the protocol's own conformance suite.

Each version of the client is put before each version of the server. Both need packages from an index, so they are slow,
and skip, saying why, where these cannot be had.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.source_tree import ROOT
from tests.service.mcp.clients import MAJOR
from tests.service.mcp.seeded import seed
from tests.service.running import ServiceProcess

pytestmark = pytest.mark.slow

OTHER = "mcp>=1.30,<2" if MAJOR >= 2 else "mcp>=2,<3"
NEEDED = (
    *("apsw", "msgspec", "splintr-rs", "typer", "rich", "starlette", "uvicorn"),
    *("pytest", "pytest-timeout", "hypothesis", "httpx2"),
)
CONFORMANCE = "@modelcontextprotocol/conformance@0.1.16"
GENERIC = (
    "server-initialize",
    "ping",
    "tools-list",
    "resources-list",
    "prompts-list",
    "dns-rebinding-protection",
)
"""Scenarios that need no tool, resource or prompt made for them.

Of the 32 for servers, these are excepted: `logging-set-level` and `completion-complete`, abilities this server does not
claim; `server-sse-polling` and `server-sse-multiple-streams`, which need sessions of the transport and are
skipped by the suite itself on a server that keeps none; and the 22 that call fixtures by name (`tools-call-*`,
`elicitation-*`, `json-schema-2020-12`, `resources-read-*`, `resources-templates-read`, `resources-subscribe`,
`resources-unsubscribe`, `prompts-get-*`).
"""


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The interpreter of an environment with the other major version."""
    folder = tmp_path_factory.mktemp("other") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = str(folder / "bin" / "python")
    fast = Path(sys.executable).parent / "uv"
    install = [str(fast), "pip", "install", "--python", python]
    if not fast.exists():
        install = [python, "-m", "pip", "install"]
    done = subprocess.run(
        [*install, "--quiet", OTHER, *NEEDED], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"{OTHER} cannot be installed here: {done.stderr[-300:]}")
    return python


def the_body(client: str, server: str) -> None:
    """The one body of tests, by one interpreter, against a server of another."""
    done = subprocess.run(
        [client, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/service/mcp"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "TURNFOLD_MCP_SERVER": server, "PYTHONPATH": ""},
    )
    assert done.returncode == 0, done.stdout[-3_000:]
    assert int(re.findall(r"(\d+) passed", done.stdout)[-1]) > 50
    assert "failed" not in done.stdout


def test_the_other_version_of_the_client_and_of_the_server(other: str) -> None:
    the_body(other, other)


def test_this_client_and_the_other_version_of_the_server(other: str) -> None:
    the_body(sys.executable, other)


def test_the_other_version_of_the_client_and_this_server(other: str) -> None:
    the_body(other, sys.executable)


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the conformance suite, with a node it runs on."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("the conformance suite needs npm")
    folder = tmp_path_factory.mktemp("suite")
    done = subprocess.run(
        [npm, "install", "--silent", "--no-audit", "--no-fund", CONFORMANCE, "node@22"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    found = folder / "node_modules" / ".bin"
    if done.returncode or not (found / "conformance").exists():
        pytest.skip(f"{CONFORMANCE} cannot be had here: {done.stderr[-300:]}")
    return [str(found / "node"), str(found / "conformance")]


@pytest.fixture(scope="module", params=["this", "other"])
def listening(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of a server, of either version."""
    python = sys.executable
    if request.param == "other":
        python = request.getfixturevalue("other")
    store = seed(tmp_path_factory.mktemp("conformance"))
    words = ("mcp", "--http", "--port", "0", "--store", store)
    with ServiceProcess(*words, interpreter=python) as service:
        yield f"{service.url}/mcp"


@pytest.mark.parametrize("scenario", GENERIC)
def test_the_conformance_suite_passes(suite: list[str], listening: str, scenario: str) -> None:
    done = subprocess.run(
        [*suite, "server", "--url", listening, "--scenario", scenario],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(suite[0]).parent.parent,
    )
    [(passed, of, failed, warned)] = re.findall(
        r"Passed: (\d+)/(\d+), (\d+) failed, (\d+) warnings", done.stdout
    )
    assert (int(failed), int(warned)) == (0, 0), done.stdout[-2_000:]
    assert int(passed) == int(of) > 0
