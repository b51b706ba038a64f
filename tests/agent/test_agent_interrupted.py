"""An agent that is interrupted or cancelled at any moment: the log stays valid, and nothing more is begun."""

from __future__ import annotations

import _thread
import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.agent.scripts import add, calling, loops, taken_everywhere
from turnfold import AsyncMemory, Budget, Memory
from turnfold.agent import Agent, AsyncAgent, TextCame
from turnfold.models import AnswerStream
from turnfold.testing import ScriptedModel
from turnfold.window import check

WIDE = Budget(max_tokens=4_000)


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, also where a job in the background was started with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


def interrupted(release: threading.Event) -> Callable[[], str]:
    """A tool in which somebody presses Ctrl-C; it ends when it is released."""

    def press() -> str:
        """Press Ctrl-C."""
        _thread.interrupt_main()
        release.wait(30)
        return "pressed"

    return press


def test_ctrl_c_while_tools_run_leaves_a_valid_log_and_begins_nothing_more(tmp_path: Path) -> None:
    release, begun = threading.Event(), list[int]()

    def count(number: int) -> int:
        """Count."""
        begun.append(number)
        return number

    calls = [("c0", "press", "{}"), *((f"c{n}", "count", f'{{"number": {n}}}') for n in (1, 2, 3))]
    model = ScriptedModel([calling(*calls), "after all", "and again"])
    with Memory(f"sqlite:///{tmp_path / 'chat.db'}", budget=WIDE) as memory:
        agent = Agent(memory, model, tools=[interrupted(release), count], parallel=1)
        with pytest.raises(KeyboardInterrupt):
            agent.run("one", "go")
        session = memory.session("one")
        assert check(session.context()) == ()
        assert taken_everywhere(session.context().messages)
        reply = agent.resume("one")
        assert reply is not None
        assert reply.text == "after all"
        release.set()
        for thread in threading.enumerate():
            if thread.name == "turnfold-job":
                thread.join(30)  # the tool itself cannot be stopped
        assert begun == []  # with one at a time, the others were never begun
        roles = [entry.message.role for entry in session.history()]
        assert roles == ["user", "assistant", "assistant", "tool"]  # the result came late
        assert agent.run("one", "and now?").text == "and again"
        assert taken_everywhere(model.asked[-1].messages)


def test_ctrl_c_while_the_model_speaks_silences_it(tmp_path: Path) -> None:
    heard: list[str] = []
    spoke = threading.Event()

    class Slow(ScriptedModel):
        def stream(self, prompt, *, tools=(), on_text=None):  # noqa: ANN001, ANN202
            if self.asked:
                return super().stream(prompt, tools=tools, on_text=on_text)

            async def start(take):  # noqa: ANN001, ANN202
                take("Well, ")
                _thread.interrupt_main()
                try:
                    await asyncio.sleep(30)
                finally:
                    spoke.set()
                take("never said")
                return await self.complete(prompt, tools=tools)

            return AnswerStream(start, on_text)

    model = Slow(["first", "second"])

    def hear(event: object) -> None:
        if isinstance(event, TextCame):
            heard.append(event.text)

    with Memory(f"sqlite:///{tmp_path / 'chat.db'}", budget=WIDE) as memory:
        agent = Agent(memory, model, on_event=hear)
        with pytest.raises(KeyboardInterrupt):
            agent.run("one", "go", client_id="u1")
        assert spoke.wait(30)  # the call was cancelled, not left to go on
        assert "never said" not in heard
        assert [entry.message.role for entry in memory.session("one").history()] == ["user"]


def test_cancelling_anywhere_leaves_a_log_that_goes_on(tmp_path: Path) -> None:
    async def cancelled_after(looks: int, path: Path) -> bool:
        async with AsyncMemory(f"sqlite:///{path}", budget=WIDE) as memory:
            agent = AsyncAgent(memory, ScriptedModel(loops(3)), tools=[add], system="Add. 相加。")
            task = asyncio.create_task(agent.run("one", "count", client_id="u1"))
            for _ in range(looks):
                await asyncio.sleep(0)
            task.cancel()
            finished = (await asyncio.gather(task, return_exceptions=True))[0]
            session = memory.session("one")
            if (await session.status()).turns:
                context = await session.context()
                assert check(context) == ()
                assert taken_everywhere(context.messages)
            after = AsyncAgent(memory, ScriptedModel(["done"]), tools=[add], system="Add. 相加。")
            reply = await after.run("one", "count", client_id="u1")
            messages = [entry.message for entry in await session.history(limit=1_000)]
            # The stored answer if the first run had come to its end, a new one otherwise; never two.
            [answer] = [each for each in messages if each.role == "assistant" and not each.calls]
            assert reply.text == answer.text
            assert (reply.text == "done") == (reply.steps > 0)
            assert check(reply.context) == ()
            roles = [each.role for each in messages]
            assert roles.count("user") == roles.count("system") == 1
            return isinstance(finished, asyncio.CancelledError)

    async def run() -> list[bool]:
        return [
            await cancelled_after(looks, tmp_path / f"{looks}.db") for looks in range(0, 1_200, 37)
        ]

    assert sum(asyncio.run(run())) > 5


def test_plain_tools_run_side_by_side_up_to_the_limit(tmp_path: Path) -> None:
    inside, most, lock = list[int](), list[int](), threading.Lock()
    meeting = threading.Barrier(3, timeout=30)

    def visit(number: int) -> str:
        """Visit."""
        with lock:
            inside.append(number)
            most.append(len(inside))
        meeting.wait()  # passes only if three are here together
        with lock:
            inside.remove(number)
        return f"visited {number}"

    async def run() -> None:
        answer = calling(*((f"c{n}", "visit", f'{{"number": {n}}}') for n in range(6)))
        async with AsyncMemory(f"sqlite:///{tmp_path / 'chat.db'}", budget=WIDE) as memory:
            agent = AsyncAgent(memory, ScriptedModel([answer, "ok"]), tools=[visit], parallel=3)
            assert (await agent.run("one", "go")).text == "ok"

    asyncio.run(run())
    assert max(most) == 3
