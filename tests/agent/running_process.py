"""A program that runs an agent once: `python -m tests.agent.running_process STORE TURN TEXT LEDGER LEASE_SECONDS`.

It says "begun". Its tool adds a line to the file LEDGER, says "paying" and goes on when it is told a line; the answer
is said last.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.agent.scripts import pays_once
from turnfold import Memory
from turnfold.agent import Agent
from turnfold.testing import ScriptedModel

__all__ = ("main",)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(store: str, turn: str, text: str, ledger: str, lease: str) -> None:
    """Ask, pay when told to, and say the answer."""

    def pay(sum: int) -> str:  # noqa: A002 (the model's word for it)
        """Pay."""
        with Path(ledger).open("a", encoding="utf-8") as file:
            file.write(f"{text}: {sum}\n")
        say("paying")
        sys.stdin.readline()
        return f"paid {sum}"

    with Memory(store) as memory:
        model = ScriptedModel([pays_once], repeat=True)
        agent = Agent(memory, model, tools=[pay], lease_seconds=float(lease))
        say("begun")
        say(agent.run("one", text, client_id=turn).text)


if __name__ == "__main__":
    main(*sys.argv[1:])
