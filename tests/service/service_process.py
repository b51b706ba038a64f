"""A service in a process of its own whose summariser says `asked`, and answers when it is sent a line."""

from __future__ import annotations

import logging
import sys

from turnfold.budget import Budget
from turnfold.service import ServiceOptions, run

__all__ = ("main",)


def main(store: str, fold: str, drain: str) -> None:
    """Serve on a free port."""
    logging.basicConfig(format="%(message)s")
    logging.getLogger("turnfold.service.server").setLevel(logging.INFO)  # the address

    def model(prompt: str) -> str:
        assert prompt
        print("asked", flush=True)  # noqa: T201 (the test reads it)
        sys.stdin.readline()
        return "what was said, in short"

    options = ServiceOptions(
        store=store,
        port=0,
        budget=Budget(max_tokens=2_000),
        fold=fold,
        keep_turns=1,
        drain=float(drain),
    )
    run(options, summarizer=model)


if __name__ == "__main__":
    main(*sys.argv[1:])
