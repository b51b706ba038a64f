"""`turnfold ui` serves pages of a store that exists, to this machine, and nothing that writes; `serve` has them too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.house.source_tree import ROOT
from tests.inspector.seeded import store_at
from tests.service.running import PATIENCE, ServiceProcess
from turnfold.memory import Memory

pytest.importorskip("typer", reason="the command needs the extra 'cli'")


@contextmanager
def ui(*words: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """The command, with its address as the first line it says."""
    process = subprocess.Popen(
        [sys.executable, "-m", "turnfold", "ui", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def store(tmp_path: Path) -> str:
    address = store_at(tmp_path)
    with Memory(address) as memory:
        memory.session("talk").user("hello")
    return address


def test_a_file_is_accepted_as_the_store(store: str) -> None:
    file = store.removeprefix("sqlite:///")
    with ui(file, "--port", "0", "--no-browser") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("http://127.0.0.1:")
    with ui(file, "--store", store) as process:
        assert process.wait(PATIENCE) == 2


def test_it_prints_its_address_and_serves_pages_only(store: str) -> None:
    with ui("--store", store, "--port", "0", "--no-browser") as process:
        assert process.stdout is not None
        link = process.stdout.readline().strip()
        assert link.startswith("http://127.0.0.1:")
        address = link.partition("/open?key=")[0]
        with httpx2.Client(trust_env=False, verify=False) as client:
            assert client.get(address).status_code == 401  # another user of the machine
            assert client.get(link).status_code == 303
            assert "talk" in client.get(address).text
            base = address.removesuffix("/ui")
            for path in ("/v1/sessions", "/v1/sessions/talk/messages", "/metrics"):
                assert client.get(base + path).status_code == 404
            assert (
                client.post(f"{base}/v1/sessions/talk/user", json={"content": "x"}).status_code
                == 404
            )
            assert client.get(address, headers={"host": "outside.invalid"}).status_code == 403
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize(("language", "title"), [("zh", 'lang="zh'), ("en", 'lang="en')])
def test_a_client_that_asks_for_no_language_gets_that_of_the_command(
    store: str, language: str, title: str
) -> None:
    words = ("--store", store, "--port", "0", "--no-browser")
    with ui(*words, TURNFOLD_LANG=language) as process:
        assert process.stdout is not None
        link = process.stdout.readline().strip()
        address = link.partition("/open?key=")[0]
        with httpx2.Client(trust_env=False, verify=False) as client:
            assert client.get(link).status_code == 303
            assert title in client.get(address).text
            asked = client.get(address, headers={"accept-language": "zh-CN,en;q=0.5"}).text
            assert 'lang="zh' in asked


def test_it_makes_no_store(tmp_path: Path) -> None:
    with ui("--store", str(tmp_path / "none.db"), "--port", "0", "--no-browser") as process:
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode not in (0, None)
    assert "no store at" in said
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("command", ["ui", "serve", "explain", "replay", "eval"])
def test_a_price_table_that_cannot_be_read_is_refused_at_once(
    store: str, tmp_path: Path, command: str
) -> None:
    talk = ["talk"] if command in ("explain", "replay", "eval") else ["--port", "0"]
    missing = str(tmp_path / "none.json")
    done = subprocess.run(
        [sys.executable, "-m", "turnfold", command, *talk, "--store", store, "--prices", missing],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TURNFOLD_LANG": "en"},
    )
    assert done.returncode == 2, done.stderr
    assert "cannot read the price file" in done.stderr


def test_serve_has_the_inspector_beside_its_api(store: str) -> None:
    with (
        ServiceProcess("--store", store) as service,
        httpx2.Client(trust_env=False, verify=False) as client,
    ):
        assert "talk" in client.get(f"{service.url}/ui").text
        assert client.get(f"{service.url}/v1/sessions").status_code == 200
