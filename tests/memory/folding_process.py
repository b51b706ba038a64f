"""A process that opens a conversation, makes a call and folds in the background; killed or let go on by a test.

It says `asked` when its model is asked, waits for a line before it answers, and says `done` when all folding is over.
"""

from __future__ import annotations

import sys

from turnfold.budget import Budget
from turnfold.memory import Memory

__all__ = ("BUDGET", "main")

BUDGET = Budget(max_tokens=2_000)


def main(url: str) -> None:
    """Make one call on the conversation at `url`."""

    def model(prompt: str) -> str:
        assert prompt
        print("asked", flush=True)  # noqa: T201 (the test reads it)
        sys.stdin.readline()
        return "what was said, in short"

    with Memory(url, budget=BUDGET, summarizer=model, fold="background", keep_turns=1) as memory:
        memory.session("c").context()
        memory.drain()
    print("done", flush=True)  # noqa: T201 (the test reads it)


if __name__ == "__main__":
    main(sys.argv[1])
