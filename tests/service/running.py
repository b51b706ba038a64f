"""A real service for a test: uvicorn on a free port, in a thread or in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import httpx2
import pytest

from tests.house.source_tree import ROOT

pytest.importorskip("uvicorn", reason="the service needs the extra 'service'")

from tests.service.server_thread import (
    PATIENCE,
    served_in_a_thread,
)
from turnfold.service import (
    ServiceOptions,
    ServiceState,
    TokenFile,
    make_app,
    make_state,
    new_token,
)
from turnfold.service.server import server_config

__all__ = ("PATIENCE", "Running", "ServiceProcess", "make_tokens", "running")


class Running:
    """A service in a thread, and how to reach it."""

    def __init__(self, url: str, state: ServiceState) -> None:
        self.url = url
        self.state = state

    def client(self, token: str = "", **options: Any) -> httpx2.Client:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        # Without certificates, which take longer to load than most tests take.
        return httpx2.Client(
            base_url=self.url, headers=headers, trust_env=False, verify=False, **options
        )


@contextmanager
def running(options: ServiceOptions, **more: Any) -> Iterator[Running]:
    """Serve in a thread until the end of the block; `more` goes to `make_app`.

    `besides` are made from the state, as `turnfold.service.server.serve` makes them.
    """
    summarizer, embedder = more.pop("summarizer", None), more.pop("embedder", None)
    besides = more.pop("besides", ())
    state = make_state(replace(options, port=0), summarizer=summarizer, embedder=embedder)
    for each in [make(state) for make in besides]:
        more["mounts"] = [*more.get("mounts", ()), *each.mounts]
        more["beside"] = [*more.get("beside", ()), *each.running]
        more["home"] = more.get("home") or each.home
    app = make_app(state, **more)
    config = server_config(app, options.limits, drain=options.drain, gate=state.gate)
    with served_in_a_thread(config) as url:
        try:
            yield Running(url, state)
        finally:
            state.stop()


def make_tokens(path: Path, *wanted: tuple[str, str, Sequence[str]]) -> dict[str, str]:
    """A file with (name, tenant, rights) each; the tokens by name."""
    made: dict[str, str] = {}
    for name, tenant, rights in wanted:
        token, line = new_token(name, tenant, rights, now=time.time())
        TokenFile(path).add(line)
        made[name] = token
    return made


class ServiceProcess:
    """`turnfold serve` in a process of its own, which a test may kill."""

    def __init__(
        self,
        *words: str,
        module: str = "turnfold",
        interpreter: str = sys.executable,
        secret: bool = False,
    ) -> None:
        named = module != "turnfold" or words[:1] == ("mcp",)
        command = list(words) if named else ["serve", *words, "--port", "0"]
        if module == "turnfold" and not secret and "--tokens-file" not in words:
            command.append("--no-secret")
        self.process = subprocess.Popen(
            [interpreter, "-m", module, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
        )
        self.url = self._address()

    def _address(self) -> str:
        assert self.process.stderr is not None
        said = ""
        for line in self.process.stderr:
            said += line
            if "listening on " in line:
                return line.split("listening on ")[1].strip()
        self.__exit__()
        raise AssertionError(f"the service did not start: {said}")

    def complained(self, begins: str) -> str:
        """The rest of the next line on stderr that begins so."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if line.startswith(begins):
                return line.removeprefix(begins).strip()
        raise AssertionError(f"no line begins with {begins!r}")

    def heard(self) -> str:
        """The next line it says."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def say(self) -> None:
        """Let it go on."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def ended(self) -> int:
        """Its exit code, once it has ended."""
        return self.process.wait(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
