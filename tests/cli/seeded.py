"""A store with two sessions, English and Chinese, folded and unfolded, as a program would have left it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from typer.testing import CliRunner, Result

from turnfold import Budget, Memory
from turnfold.cli.app import app
from turnfold.cli.demo.replay import fixed_clock

__all__ = (
    "LONG",
    "MODEL",
    "SHORT",
    "TOKENS",
    "address",
    "invoke",
    "invoke_json",
    "seed",
    "seed_at",
)

LONG = "warehouse-搬仓库"
SHORT = "weather-1"
MODEL = "gpt-4o"
TOKENS = 1500


def address(folder: Path) -> str:
    return f"sqlite:///{folder / 'seeded.db'}"


def seed(folder: Path) -> str:
    """The address of a new store: 12 turns with tools, folded once or more, and a short chat."""
    return seed_at(address(folder))


def seed_at(url: str) -> str:
    """The same in the store at this address."""
    # Recalled passages show times: with a clock of its own every store has the same token counts.
    budget = Budget(max_tokens=TOKENS)
    with Memory(url, model=MODEL, budget=budget, clock=fixed_clock()) as memory:
        long = memory.session(LONG)
        long.system("You plan a warehouse move. 你负责搬仓库。")
        long.pin("Never move the cold store before the 14th. 14 号之前不要动冷库。")
        for turn in range(12):
            long.user(
                f"第 {turn} 步：合同号 HT-2026-{turn:03d}，定金 {4471 + turn}.50 欧元。"
                + "细节 " * 20
            )
            long.context()
            call = {"name": "look_up", "arguments": json.dumps({"turn": turn})}
            long.assistant(tool_calls=[{"id": f"c{turn}", "type": "function", "function": call}])
            long.tool("shelf " * 30 + f"item {turn}", tool_call_id=f"c{turn}")
            long.context()
            long.assistant(f"Step {turn} is noted; the truck costs {100 + turn} EUR.")
        short = memory.session(SHORT)
        short.user("Is it raining? 下雨了吗？")
        short.assistant("No. 没有。")
    return url


def invoke(
    arguments: Sequence[str], *, width: int = 100, typed: str | None = None, **environment: str
) -> Result:
    """The command as a pipe sees it, with what is typed."""
    plain = {"COLUMNS": str(width), "LC_ALL": "C.UTF-8", "TURNFOLD_STORE": "", **environment}
    return CliRunner().invoke(app, list(arguments), input=typed, env=plain)


def invoke_json(arguments: Sequence[str]) -> dict:
    """What a command says with --json; nothing else may be on the standard output."""
    result = invoke([*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
