"""The process that runs in a peer's environment: it makes lanes and does what they are asked, one request at a time.

`python -m bench.hosts.host PEER` reads pickled requests from its input and writes pickled answers. What a peer prints
goes to the error output, so that it cannot be taken for an answer. Timing happens here, inside the lanes: what the way
between two processes costs is in no figure.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
import traceback
from dataclasses import fields
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any, BinaryIO

__all__ = ("serve",)

KINDS = {
    "appended": "APPENDED",
    "checkpointed": "CHECKPOINTED",
    "counted": "COUNTED",
    "found": "FOUND",
    "held": "HELD",
    "reopened": "REOPENED",
    "stored": "STORED",
    "summarised": "SUMMARISED",
    "windows": "CONTENDERS",
}
"""What can be asked of a peer, and the tuple of its file that offers it."""


def serve(peer: str, requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until the requests end."""
    module = import_module(f"bench.peers.{peer}")
    lanes: dict[int, Any] = {}
    while True:
        try:
            verb, arguments = pickle.load(requests)  # noqa: S301 (from our own parent process)
        except EOFError:
            return
        try:
            answer = (True, _done(module, lanes, verb, arguments))
        except Exception as error:
            shown = f"{type(error).__name__}: {error}".strip()
            answer = (False, (shown, traceback.format_exc()))
        pickle.dump(answer, answers)
        answers.flush()


def _done(module: ModuleType, lanes: dict[int, Any], verb: str, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401
    match verb, arguments:
        case "offers", ():
            return _offers(module)
        case "open", (number, kind, name, task, settings):
            [contender] = [one for one in _tuple(module, KINDS[kind]) if one.name == name]
            lane_type = import_module(f"bench.lanes.{task}").Lane
            lanes[number] = lane_type(contender, **settings)
            return None
        case "ask", (number, method, given):
            return getattr(lanes[number], method)(*given)
        case "close", (number,):
            lane = lanes.pop(number)
            if hasattr(lane, "close"):
                lane.close()
            return None
        case "freeze", ():
            gc.collect()
            gc.freeze()
            return None
        case "thaw", ():
            gc.unfreeze()
            return None
        case _:
            raise ValueError(f"unknown request {verb} {arguments}")


def _offers(module: ModuleType) -> dict[str, Any]:
    """What the peer's file offers, without the functions, which stay here."""
    found = {
        kind: [
            {
                each.name: value
                for each in fields(one)
                if not callable(value := getattr(one, each.name))
            }
            for one in _tuple(module, constant)
        ]
        for kind, constant in KINDS.items()
    }
    packages = {one["package"] for offered in found.values() for one in offered if one["package"]}
    packages |= set(getattr(module, "PACKAGES", ()))
    return {
        "offered": found,
        "imports": list(_tuple(module, "IMPORTS")),
        "versions": {name: _version(name) for name in sorted(packages)},
    }


def _tuple(module: ModuleType, constant: str) -> tuple[Any, ...]:
    """What the file itself offers; a tuple it borrowed from another file is not its own."""
    return getattr(module, constant) if constant in module.__all__ else ()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def main() -> None:
    """Keep the real output for answers, and let everybody else print to the error output."""
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.argv[1], requests, answers)


if __name__ == "__main__":
    main()
