"""An agent killed at any moment leaves a log that goes on: valid contexts, nothing said twice, nothing lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.agent.scripts import add, loops, taken_everywhere
from tests.sizes import AGENT_KILLS
from turnfold import Budget, Memory
from turnfold.agent import Agent
from turnfold.testing import ScriptedModel
from turnfold.window import check

WORKER = """
import sys
from tests.agent.scripts import add, loops
from turnfold import Budget, Memory
from turnfold.agent import Agent, Answered
from turnfold.testing import ScriptedModel

def tell(event):
    if isinstance(event, Answered):
        print(event.step, flush=True)

with Memory(f"sqlite:///{sys.argv[1]}", budget=Budget(max_tokens=700)) as memory:
    model = ScriptedModel(loops(500))
    agent = Agent(
        memory, model, tools=[add], max_steps=1000, lease_seconds=1.5, on_event=tell
    )
    agent.run("one", "count for a long while 请数很久", client_id="first")
"""


def _killed_run(path: Path, rng: random.Random) -> int:
    """Steps the agent was told are stored, before it was killed at a random moment."""
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(path)], stdout=subprocess.PIPE, cwd=root
    )
    assert process.stdout is not None
    wanted = rng.randint(1, 30)
    told = 0
    try:
        while told < wanted and (line := process.stdout.readline()):
            told = int(line)
        time.sleep(rng.random() * 0.02)  # somewhere inside the next step
    finally:
        os.kill(process.pid, signal.SIGKILL)
        rest = process.stdout.read()
        process.wait()
        process.stdout.close()
    return int(rest.split()[-1]) if rest.split() else told


def _after(path: Path, told: int) -> None:
    with Memory(f"sqlite:///{path}", budget=Budget(max_tokens=700)) as memory:
        session = memory.session("one")
        entries = session.history(limit=10_000)
        answers = [entry for entry in entries if entry.message.role == "assistant"]
        assert len(answers) >= told
        assert [entry.message.role for entry in entries].count("user") == 1
        context = session.context()
        assert check(context) == ()
        assert taken_everywhere(context.messages)
        agent = Agent(memory, ScriptedModel(["done"]), tools=[add])
        reply = agent.resume("one")
        assert reply is not None
        assert reply.text == "done"
        assert check(reply.context) == ()
        assert taken_everywhere(reply.context.messages)
        results = [result.call_id for entry in entries for result in entry.message.results]
        assert len(results) == len(set(results))


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize("kills", AGENT_KILLS.values())
def test_every_resume_goes_on_with_a_valid_context(tmp_path: Path, kills: int) -> None:
    rng = random.Random(kills)  # noqa: S311 (when to kill, the same each time)
    for number in range(kills):
        path = tmp_path / f"{number}.db"
        _after(path, _killed_run(path, rng))


def test_the_check_sees_a_lost_answer(tmp_path: Path) -> None:
    path = tmp_path / "one.db"
    with Memory(f"sqlite:///{path}", budget=Budget(max_tokens=700)) as memory:
        agent = Agent(memory, ScriptedModel(loops(5)), tools=[add], max_steps=1)
        with pytest.raises(Exception, match="no answer after 1 step:"):
            agent.run("one", "count")
    with pytest.raises(AssertionError):
        _after(path, 2)
