"""Serves a small model from a package over OpenAI's interface, in a process of its own; prints the address.

One thread for the model: on two cores the threads of a second one wait for each other more than they work.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from typing import Any


def main(model: str, window: int) -> None:
    xllamacpp: Any = import_module("xllamacpp")  # not among the packages every test has
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_ctx = window
    params.n_parallel = 1
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.warmup = False
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)  # noqa: T201 - read by whoever started this
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
