"""An environment per peer, made once from the `NEEDS` of its file and made again when those change.

`NEEDS` is read without running the file, because the packages it imports are the very ones that are not there yet.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ("EnvironmentFailed", "made", "needs_of", "peer_names", "python_of")

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / "bench" / "peers"
_FOLDER = ROOT / "build" / "bench"
_JUDGE = ("bpe-openai==0.1.4", "tiktoken==0.14.0")
"""What counting and judging need in every environment."""
_PATIENCE = 900.0


class EnvironmentFailed(Exception):
    """The environment of a peer could not be made."""


def peer_names() -> list[str]:
    """The files in `peers`, ours first."""
    names = sorted(path.stem for path in PEERS.glob("*.py") if path.stem != "__init__")
    return sorted(names, key=lambda name: needs_of(name) is not None)


def needs_of(peer: str) -> tuple[str, ...] | None:
    """The requirements a peer's file names; None where it runs in the environment of the benchmarks."""
    tree = ast.parse((PEERS / f"{peer}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "NEEDS":
            found: Sequence[str] | None = ast.literal_eval(node.value)
            return None if found is None else tuple(found)
    raise EnvironmentFailed(
        f"peers/{peer}.py does not say what it NEEDS (None: nothing of its own)"
    )


def python_of(peer: str) -> str:
    """The interpreter a peer runs in; makes its environment if it is not there."""
    needs = needs_of(peer)
    return sys.executable if needs is None else str(made(peer, (*_JUDGE, *needs)))


def made(name: str, needs: Sequence[str], *, python: str = sys.executable) -> Path:
    """The interpreter of an environment with these requirements, made by another interpreter if it is not there."""
    folder = _FOLDER / name
    own, stamp = folder / "bin" / "python", folder / "made-of"
    wanted = hashlib.sha256("\n".join((sys.version, python, *needs)).encode()).hexdigest()
    with _alone(name):
        if not (stamp.exists() and stamp.read_text(encoding="utf-8") == wanted):
            print(f"making {folder.relative_to(ROOT)} with {', '.join(needs)}", flush=True)
            _run([python, "-m", "venv", "--clear", str(folder)])
            _install(str(own), needs)
            stamp.write_text(wanted, encoding="utf-8")
    return own


@contextmanager
def _alone(name: str) -> Generator[None]:
    """Two runs at once would clear the environment that the other is filling."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with (_FOLDER / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(python: str, needs: Sequence[str]) -> None:
    """By uv, which takes seconds, or by pip where uv is not there or finds no package index."""
    try:
        _run([sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python, *needs])
    except EnvironmentFailed:
        _run([python, "-m", "pip", "install", "--quiet", *needs])


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(  # noqa: S603 (commands written above)
            command, capture_output=True, text=True, check=False, timeout=_PATIENCE, cwd=ROOT
        )
    except subprocess.TimeoutExpired as late:
        raise EnvironmentFailed(f"not made within {_PATIENCE:.0f} s: {command[-1]}") from late
    except OSError as missing:
        raise EnvironmentFailed(str(missing)) from missing
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise EnvironmentFailed(lines[-1] if lines else f"exit code {done.returncode}")
