"""Runs of agents on one session at once: one after the other, each question answered once, no tool run twice."""

from __future__ import annotations

import _thread
import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.agent.scripts import calling, pays_once
from tests.house.source_tree import ROOT
from turnfold import AsyncMemory, Budget, Memory
from turnfold.agent import Agent, AgentReply, AsyncAgent
from turnfold.errors import (
    Conflict,
    IdReused,
    InvalidOption,
    InvalidRecord,
    ModelUnavailable,
    SessionBusy,
)
from turnfold.memory.leases import StoredLease
from turnfold.records import RUN, SESSION, RunNote, read_note, write_note
from turnfold.redaction import Secret
from turnfold.runtime import AsyncRuntime, drive
from turnfold.testing import ScriptedModel

WIDE = Budget(max_tokens=4_000)
PATIENCE = 60.0
SHORT = 1.5
"""Seconds of a lease that a test waits for."""


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'chat.db'}"


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, also where a job in the background was started with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


def payer() -> ScriptedModel:
    return ScriptedModel([pays_once], repeat=True)


class Till:
    """A tool that notes each payment, and ends a payment when it is let."""

    def __init__(self, *, open_at_once: bool = False) -> None:
        self.paid: list[int] = []
        self.paying = threading.Event()
        self.let = threading.Event()
        if open_at_once:
            self.let.set()

    def pay(self, sum: int) -> str:  # noqa: A002 (the model's word for it)
        """Pay."""
        self.paid.append(sum)
        self.paying.set()
        assert self.let.wait(PATIENCE)
        return f"paid {sum}"


def lines(memory: Memory) -> list[str]:
    """The log of the session, each entry on a line."""
    return [
        f"{entry.message.role}: {entry.message.text or 'a call'}"
        for entry in memory.session("one").history()
    ]


ONE_RUN = ["user: refund", "assistant: a call", "tool: paid 88", "assistant: answer to refund"]


def lease(memory: Memory) -> RunNote:
    return read_note(drive(memory.store.get_document(memory.scope, "one", SESSION, RUN)), RunNote)


def in_threads(*runs: Callable[[], object]) -> list[threading.Thread]:
    threads = [threading.Thread(target=run) for run in runs]
    for thread in threads:
        thread.start()
    return threads


def test_the_same_turn_twice_at_once_runs_the_tool_once(store: str) -> None:
    async def run() -> tuple[list[AgentReply], list[int]]:
        till = Till(open_at_once=True)
        async with AsyncMemory(store, budget=WIDE) as memory:
            # As in a web app: each request makes its own agent.
            agents = [AsyncAgent(memory, payer(), tools=[till.pay]) for _ in range(2)]
            runs = [each.run("one", "refund", client_id="t1") for each in agents]
            return list(await asyncio.gather(*runs)), till.paid

    replies, paid = asyncio.run(run())
    assert [reply.text for reply in replies] == ["answer to refund"] * 2
    assert sorted(reply.steps for reply in replies) == [0, 2]
    assert paid == [88]
    with Memory(store) as memory:
        assert lines(memory) == ONE_RUN
        assert lease(memory).owner == ""


def test_two_turns_at_once_are_answered_one_after_the_other(store: str) -> None:
    async def run() -> tuple[list[str], list[str]]:
        model = ScriptedModel([lambda messages: f"answer to {messages[-1].text}"], repeat=True)
        said = {"t1": "hello", "t2": "where is order", "t3": "and the other"}
        async with AsyncMemory(store, budget=WIDE) as memory:
            agent = AsyncAgent(memory, model)
            at_once = [agent.run("one", text, client_id=turn) for turn, text in said.items()]
            replies = await asyncio.gather(*at_once)
            again = [await agent.run("one", text, client_id=turn) for turn, text in said.items()]
        assert len(model.asked) == 3
        return [reply.text for reply in replies], [reply.text for reply in again]

    first, again = asyncio.run(run())
    assert first == ["answer to hello", "answer to where is order", "answer to and the other"]
    assert again == first
    with Memory(store) as memory:
        assert lines(memory) == [
            "user: hello",
            "assistant: answer to hello",
            "user: where is order",
            "assistant: answer to where is order",
            "user: and the other",
            "assistant: answer to and the other",
        ]


def test_who_came_first_is_next_although_it_looks_less_often(store: str) -> None:
    async def run() -> None:
        till = Till()
        async with AsyncMemory(store, budget=WIDE) as memory:
            agent = AsyncAgent(memory, payer(), tools=[till.pay])
            runs = [asyncio.create_task(agent.run("one", "refund"))]
            assert await asyncio.to_thread(till.paying.wait, PATIENCE)
            after = AsyncAgent(memory, ScriptedModel(["next", "last"]))
            runs.append(asyncio.create_task(after.run("one", "second")))
            await asyncio.sleep(1)  # a run that waits looks less and less often
            runs.append(asyncio.create_task(after.run("one", "third")))
            await asyncio.sleep(0.02)
            till.let.set()
            await asyncio.gather(*runs)

    asyncio.run(run())
    with Memory(store) as memory:
        said = ["user: second", "assistant: next", "user: third", "assistant: last"]
        assert lines(memory) == [*ONE_RUN, *said]


def test_threads_with_a_blocking_agent_wait_for_each_other(store: str) -> None:
    till, replies = Till(), list[AgentReply]()
    with Memory(store, budget=WIDE) as memory:
        agent = Agent(memory, payer(), tools=[till.pay])

        def run() -> None:
            replies.append(agent.run("one", "refund", client_id="t1"))

        threads = [threading.Thread(target=run) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert till.paying.wait(PATIENCE)
        till.let.set()
        for thread in threads:
            thread.join(PATIENCE)
        assert [reply.text for reply in replies] == ["answer to refund"] * 3
        assert till.paid == [88]
        assert lines(memory) == ONE_RUN


@pytest.mark.slow  # shows that the test above can fail
def test_without_the_lease_the_tool_runs_twice(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StoredLease, "is_taken", lambda *_: False)
    with pytest.raises(AssertionError):
        test_threads_with_a_blocking_agent_wait_for_each_other(store)


@contextmanager
def process(
    store: str, turn: str, text: str, ledger: Path, lease: float = 30.0
) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.agent.running_process",
            store,
            turn,
            text,
            str(ledger),
            str(lease),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
    )
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def heard(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def tell(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()


def test_the_same_turn_in_two_processes_runs_the_tool_once(store: str, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    with (
        process(store, "t1", "refund", ledger) as one,
        process(store, "t1", "refund", ledger) as other,
    ):
        assert [heard(one), heard(other)] == ["begun", "begun"]
        for child in (one, other):  # whichever pays may go on; the other never does
            tell(child)
        said = [heard(one), heard(other)]
        said += [
            heard(child) for child, word in zip((one, other), said, strict=True) if word == "paying"
        ]
    assert sorted(said) == ["answer to refund", "answer to refund", "paying"]
    assert ledger.read_text("utf-8") == "refund: 88\n"
    with Memory(store) as memory:
        assert lines(memory) == ONE_RUN


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_killed_run_is_taken_over_when_its_lease_is_over(store: str, tmp_path: Path) -> None:
    ledger, till = tmp_path / "ledger", Till(open_at_once=True)
    with process(store, "t1", "refund", ledger, lease=SHORT) as one:
        assert [heard(one), heard(one)] == ["begun", "paying"]
        os.kill(one.pid, signal.SIGKILL)
        one.wait(PATIENCE)
    with Memory(store, budget=WIDE) as memory:
        assert lease(memory).owner != ""
        agent = Agent(memory, ScriptedModel(["it is not known"]), tools=[till.pay])
        assert agent.run("one", "refund", client_id="t1").text == "it is not known"
        assert lease(memory).owner == ""
    assert till.paid == []  # the model was told that the call has no result


def test_a_run_longer_than_its_lease_is_not_taken_over(store: str) -> None:
    till, told = Till(), list[str]()
    with Memory(store, budget=WIDE) as memory, Memory(store, budget=WIDE) as other:
        agent = Agent(memory, payer(), tools=[till.pay], lease_seconds=SHORT)

        def wait() -> None:
            later = Agent(other, ScriptedModel(["taken over"]), tools=[till.pay])
            told.append(later.run("one", "refund", client_id="t1").text)

        first = in_threads(lambda: agent.run("one", "refund", client_id="t1"))
        assert till.paying.wait(PATIENCE)
        ends = {lease(memory).until}
        second = in_threads(wait)
        until = time.monotonic() + PATIENCE
        while len(ends) < 6 and time.monotonic() < until:  # five renewals are longer than a lease
            ends.add(lease(memory).until)
        till.let.set()
        for thread in (*first, *second):
            thread.join(PATIENCE)
        assert len(ends) == 6
        assert told == ["answer to refund"]
        assert till.paid == [88]
        assert lines(memory) == ONE_RUN


def test_a_run_waits_no_longer_than_it_is_told(store: str) -> None:
    till = Till()
    with Memory(store, budget=WIDE) as memory, Memory(store, budget=WIDE) as other:
        first = in_threads(lambda: Agent(memory, payer(), tools=[till.pay]).run("one", "refund"))
        assert till.paying.wait(PATIENCE)
        agent = Agent(other, ScriptedModel([]), wait_seconds=0.05)
        with pytest.raises(SessionBusy, match=r"'one' for more than 0.05 s: send the same message"):
            agent.run("one", "hello", client_id="t2")
        till.let.set()
        first[0].join(PATIENCE)
        assert lines(other) == ONE_RUN  # nothing of the run that gave up


def test_a_stored_answer_is_returned_while_another_run_has_the_session(store: str) -> None:
    till = Till()
    with Memory(store, budget=WIDE) as memory:
        assert Agent(memory, ScriptedModel(["Hi."])).run("one", "hello", client_id="t0").steps == 1
        first = in_threads(lambda: Agent(memory, payer(), tools=[till.pay]).run("one", "refund"))
        assert till.paying.wait(PATIENCE)
        agent = Agent(memory, ScriptedModel([]), wait_seconds=0)
        reply = agent.run("one", "hello", client_id="t0")
        assert (reply.text, reply.steps) == ("Hi.", 0)
        with pytest.raises(IdReused):
            agent.run("one", "another text", client_id="t0")
        till.let.set()
        first[0].join(PATIENCE)


def test_ctrl_c_gives_the_session_back(store: str) -> None:
    release = threading.Event()

    def press() -> str:
        """Press Ctrl-C."""
        _thread.interrupt_main()
        release.wait(PATIENCE)
        return "pressed"

    model = ScriptedModel([calling(("c1", "press", "{}")), "after all"])
    with Memory(store, budget=WIDE) as memory:
        agent = Agent(memory, model, tools=[press], wait_seconds=0)
        with pytest.raises(KeyboardInterrupt):
            agent.run("one", "go", client_id="t1")
        assert lease(memory).owner == ""
        assert agent.run("one", "go", client_id="t1").text == "after all"
        release.set()
        for thread in threading.enumerate():
            if thread.name in ("turnfold-job", "turnfold-repeat"):
                thread.join(PATIENCE)  # the tool cannot be stopped; the renewals were


def test_a_cancelled_run_gives_the_session_back_wherever_it_is(tmp_path: Path) -> None:
    async def cancelled_after(looks: int) -> bool:
        store = f"sqlite:///{tmp_path / f'{looks}.db'}"
        async with AsyncMemory(store, budget=WIDE) as memory:
            till = Till(open_at_once=True)
            agent = AsyncAgent(memory, payer(), tools=[till.pay])
            task = asyncio.create_task(agent.run("one", "refund", client_id="t1"))
            for _ in range(looks):
                await asyncio.sleep(0)
            task.cancel()
            [finished] = await asyncio.gather(task, return_exceptions=True)
            after = AsyncAgent(memory, ScriptedModel(["done"]), wait_seconds=0)
            assert (await after.run("one", "and now?")).text == "done"
            return isinstance(finished, asyncio.CancelledError)

    async def run() -> list[bool]:
        return [await cancelled_after(looks) for looks in (*range(40), *range(40, 400, 29))]

    assert sum(asyncio.run(run())) > 40


def test_a_lease_is_given_back_by_a_write_that_no_cancellation_cuts_off() -> None:
    async def run() -> list[str]:
        did, entered, go_on = list[str](), asyncio.Event(), asyncio.Event()

        async def work() -> None:
            entered.set()
            await go_on.wait()
            did.append("written")

        task = asyncio.create_task(AsyncRuntime().complete(work))
        await entered.wait()
        task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return did

    assert asyncio.run(run()) == ["written"]


def test_failures_give_the_session_back(store: str) -> None:
    script = [ModelUnavailable("down"), "up again"]
    with Memory(store, budget=WIDE) as memory:
        agent = Agent(memory, ScriptedModel(script), wait_seconds=0)
        with pytest.raises(ModelUnavailable):
            agent.run("one", "hello", client_id="t1")
        assert agent.run("one", "hello", client_id="t1").text == "up again"


INSIDE = "SessionBusy: a tool of a run on session 'one' runs an agent on the same session"


def results(memory: Memory, conversation: str = "one") -> list[str]:
    entries = memory.session(conversation).history()
    return [result.text for entry in entries for result in entry.message.results]


@pytest.mark.parametrize("through", ["one", "another"])
def test_a_tool_cannot_run_an_agent_on_its_own_session(store: str, through: str) -> None:
    with Memory(store, budget=WIDE) as memory, Memory(store, budget=WIDE) as other:

        def ask(question: str) -> str:
            """Ask an agent on the same session, of a memory of its own."""
            inner = Agent(other, ScriptedModel(["never"]), wait_seconds=5)
            return inner.run("one", question).text

        def pass_on(question: str) -> str:
            """Ask an agent on another session, which asks one on this session."""
            asks = calling(("c2", "ask", '{"question": "why?"}'))
            agent = Agent(memory, ScriptedModel([asks, "passed on"]), tools=[ask])
            return agent.run("another", question).text

        name = "ask" if through == "one" else "pass_on"
        call = calling(("c1", name, '{"question": "why?"}'))
        agent = Agent(memory, ScriptedModel([call, "done"]), tools=[ask, pass_on])
        assert agent.run("one", "go").text == "done"
        [result] = results(memory, through)
        assert INSIDE in result
        assert "such as 'one/helper'" in result
        if through == "another":
            assert results(memory) == ["passed on"]


def test_a_tool_in_an_event_loop_cannot_either(store: str) -> None:
    async def run() -> None:
        async with AsyncMemory(store, budget=WIDE) as memory:

            async def ask(question: str) -> str:
                """Ask an agent on the same session."""
                inner = AsyncAgent(memory, ScriptedModel(["never"]), wait_seconds=5)
                return (await inner.run("one", question)).text

            def wait(question: str) -> object:
                """A plain function that returns a coroutine."""
                return ask(question)

            calls = [(f"c-{name}", name, '{"question": "why?"}') for name in ("ask", "wait")]
            model = ScriptedModel([calling(*calls), "done"])
            assert (
                await AsyncAgent(memory, model, tools=[ask, wait]).run("one", "go")
            ).text == "done"

    asyncio.run(run())
    with Memory(store) as memory:
        assert [INSIDE in result for result in results(memory)] == [True, True]


def test_work_that_a_tool_began_may_run_an_agent_after_the_run(store: str) -> None:
    async def run() -> str:
        async with AsyncMemory(store, budget=WIDE) as memory:
            over, later = asyncio.Event(), list[asyncio.Task[AgentReply]]()

            async def follow_up() -> AgentReply:
                await over.wait()
                return await AsyncAgent(memory, ScriptedModel(["followed up"])).run("one", "and?")

            async def begin() -> str:
                """Begin work that outlives the run."""
                later.append(asyncio.create_task(follow_up()))
                return "begun"

            model = ScriptedModel([calling(("c1", "begin", "{}")), "done"])
            await AsyncAgent(memory, model, tools=[begin]).run("one", "go")
            over.set()
            return (await later[0]).text

    assert asyncio.run(run()) == "followed up"


def take_over(memory: Memory) -> None:
    """Give the lease of the session to another run, as after a long suspension of this process."""
    note = RunNote(owner="another", until=time.time_ns() // 1000 + 30_000_000, seconds=30.0)
    drive(memory.store.put_document(memory.scope, "one", write_note(SESSION, RUN, note)))


def test_a_run_that_lost_its_lease_does_nothing_more(store: str) -> None:
    paid = list[int]()
    with Memory(store, budget=WIDE) as memory:

        def sleep() -> str:
            """Sleep until the lease is seen to be lost."""
            take_over(memory)
            time.sleep(SHORT * 2 / 3)
            return "slept"

        def pay(sum: int) -> str:  # noqa: A002 (the model's word for it)
            """Pay."""
            paid.append(sum)
            return "paid"

        calls = calling(("c1", "sleep", "{}"), ("c2", "pay", '{"sum": 88}'))
        agent = Agent(
            memory, ScriptedModel([calls]), tools=[sleep, pay], parallel=1, lease_seconds=SHORT
        )
        with pytest.raises(Conflict, match=r"another run took session 'one' over"):
            agent.run("one", "go", client_id="t1")
        assert paid == []
        assert results(memory) == ["slept"]
        assert lease(memory).owner == "another"  # it is not given back by who lost it


def test_a_question_that_was_passed_over_is_not_answered_by_the_answer_to_another(
    store: str,
) -> None:
    with Memory(store, budget=WIDE) as memory:
        model = ScriptedModel([ModelUnavailable("down"), "It is on its way."])
        agent = Agent(memory, model)
        with pytest.raises(ModelUnavailable):
            agent.run("one", "hello", client_id="t1")
        assert agent.run("one", "where is order", client_id="t2").text == "It is on its way."
        with pytest.raises(
            Conflict, match=r"entry 1, .* entry 2 is a later question: send it again"
        ):
            agent.run("one", "hello", client_id="t1")


def test_an_answer_is_found_although_another_message_came_during_its_run(store: str) -> None:
    with Memory(store, budget=WIDE) as memory:

        def interrupt() -> str:
            """Add a message by a program that runs no agent."""
            memory.session("one").user("by the way")
            return "added"

        model = ScriptedModel([calling(("c1", "interrupt", "{}")), "done"])
        agent = Agent(memory, model, tools=[interrupt])
        assert agent.run("one", "go", client_id="t1").text == "done"
        assert agent.run("one", "go", client_id="t1").text == "done"


def test_a_continued_run_stores_its_answer_under_the_id_of_its_question(store: str) -> None:
    with Memory(store, budget=WIDE) as memory:
        agent = Agent(memory, ScriptedModel([ModelUnavailable("down"), "up again"]))
        with pytest.raises(ModelUnavailable):
            agent.run("one", "hello", client_id="t1")
        assert agent.resume("one") is not None
        [answer] = memory.session("one").by_client_id("t1/answer")
        assert answer.message.text == "up again"
        assert agent.resume("one") is None
        assert agent.resume("never begun") is None
        assert [each.conversation for each in memory.conversations()] == ["one"]


def test_a_message_that_cannot_be_stored_begins_no_session(store: str) -> None:
    with Memory(store, budget=WIDE) as memory:
        with pytest.raises(InvalidRecord):
            Agent(memory, ScriptedModel([])).run("one", object())
        assert memory.conversations() == []


def test_a_long_client_id_is_answered_once_too(store: str) -> None:
    with Memory(store, budget=WIDE) as memory:
        agent = Agent(memory, ScriptedModel(["Hi."]))
        for _ in range(2):
            assert agent.run("one", "hello", client_id="t" * 512).text == "Hi."


def test_wrong_limits_are_refused(store: str) -> None:
    with Memory(store) as memory:
        with pytest.raises(InvalidOption, match="wait_seconds=-1 must not be negative"):
            Agent(memory, ScriptedModel([]), wait_seconds=-1)
        with pytest.raises(InvalidOption, match="lease_seconds=0 must be above 0"):
            Agent(memory, ScriptedModel([]), lease_seconds=0)


def test_secrets_are_replaced_and_the_lease_is_not(store: str) -> None:
    def every_number(text: str) -> list[Secret]:
        return [Secret("number", *each.span()) for each in re.finditer(r"\d+", text)]

    with Memory(store, budget=WIDE, redact=every_number) as memory:
        till = Till(open_at_once=True)
        agent = Agent(memory, payer(), tools=[till.pay], lease_seconds=SHORT)
        assert agent.run("one", "refund 88", client_id="t1").text.startswith("answer to refund")
        assert lease(memory) == RunNote()
