"""What a program may rely on when it holds a session."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.memory.talking import SMALL, talk
from turnfold import AsyncMemory, Budget, Memory, Message, assistant, system, user
from turnfold.errors import Conflict, ConversationDeleted, IdReused, InvalidOption, SummaryFailed
from turnfold.records import NewEntry
from turnfold.runtime import drive
from turnfold.stores import MemoryStore, Scope, open_store
from turnfold.window import Outcome, Section, check


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'chat.db'}"


@pytest.fixture
def memory(address: str) -> Iterator[Memory]:
    with Memory(address, budget=SMALL) as opened:
        yield opened


# ----------------------------------------------------------------------------------------------- saying


def test_what_is_said_is_in_the_log_and_in_the_next_context(memory: Memory) -> None:
    session = memory.session("one")
    session.system("Be brief.")
    session.user("你好")
    session.assistant("Hello!")
    assert [entry.message for entry in session.history()] == [
        system("Be brief."),
        user("你好"),
        assistant("Hello!"),
    ]
    context = session.context()
    assert list(context.messages) == [system("Be brief."), user("你好"), assistant("Hello!")]
    assert check(context) == ()


def test_messages_are_taken_in_any_shape_and_several_are_one_batch(memory: Memory) -> None:
    session = memory.session("one")
    done = session.add([{"role": "user", "content": "a"}, assistant("b")], client_id="x")
    assert (done.first, done.last) == (1, 2)
    again = session.add([{"role": "user", "content": "a"}, assistant("b")], client_id="x")
    assert again.repeated
    assert [entry.client_id for entry in session.history()] == ["x.1", "x.2"]
    with pytest.raises(IdReused):
        session.add([user("a"), assistant("c")], client_id="x")
    with pytest.raises(Conflict):
        session.add(user("late"), expect=1)
    assert session.add(user("in time"), expect=2).first == 3


def test_the_system_message_is_replaced_and_repeating_it_writes_nothing(memory: Memory) -> None:
    session = memory.session("one")
    assert session.system("first") is not None
    assert session.system("first") is None
    session.user("hi")
    session.system("second")
    assert list(session.context().messages) == [system("second"), user("hi")]
    assert len(session.history()) == 3
    fates = {fate.reason for fate in session.context().fates}
    assert fates == {"replaced by a newer system message", "system message: sent first"}
    assert check(session.context()) == ()


def test_added_system_messages_join_the_present_ones(memory: Memory) -> None:
    session = memory.session("one")
    session.system("rules")
    session.add([system("and more"), user("hi")])
    assert list(session.context().messages) == [system("rules"), system("and more"), user("hi")]


def test_leading_system_messages_of_a_log_written_elsewhere_are_found(address: str) -> None:
    store = open_store(address, blocking=True)
    entries = [NewEntry(system("rules")), NewEntry(user("hi"))]
    drive(store.append(Scope("default"), "one", entries))
    drive(store.close())
    with Memory(address, budget=SMALL) as memory:
        session = memory.session("one")
        assert list(session.context().messages) == [system("rules"), user("hi")]
        assert session.system("rules") is None


# --------------------------------------------------------------------------------------------- contexts


def test_a_long_talk_is_folded_and_every_context_is_sound(memory: Memory) -> None:
    session = memory.session("one")
    session.system("You ship goods. 说中文。")
    for number in range(1, 60):
        session.user(f"问题 {number}：订单 A-{1000 + number} 何时到？")
        context = session.context()
        assert check(context) == ()
        assert context.tokens <= SMALL.tokens
        assert context.messages[-1].text.startswith(f"问题 {number}：")
        session.assistant(f"Order A-{1000 + number} arrives on 2026-03-{number % 28 + 1:02d}.")
    status = session.status()
    assert status.mode == "SUMMARY_N"
    assert status.covered > 60
    covered = session.checkpoints()
    assert [each.previous for each in covered] == ["", *(each.id for each in covered[:-1])]
    assert covered[-1].upto == status.covered
    context = session.context()
    assert context.section(Section.SUMMARY)
    [folded] = [fate for fate in context.fates if fate.outcome is Outcome.FOLDED]
    assert (folded.start, folded.stop) == (2, status.covered + 1)  # the system message is sent


def test_one_fold_is_not_followed_by_another_at_the_same_place(memory: Memory) -> None:
    session = memory.session("one")
    folds = 0
    for number in range(1, 80):
        session.user(f"问题 {number}：订单 A-{1000 + number} 的 {number * 7} 吨货何时到？")
        first = session.context()
        folds = len(session.checkpoints())
        second = session.context()
        assert first.messages == second.messages
        assert len(session.checkpoints()) == folds
        session.assistant("ok " * (number % 40))
    assert folds > 2


def test_by_hand_means_by_hand(address: str) -> None:
    with Memory(address, budget=SMALL, fold="manual") as memory:
        session = memory.session("one")
        talk(session, 40)
        context = session.context()
        assert check(context) == ()
        assert session.checkpoints() == []
        assert context.receipt.count(Outcome.DROPPED) > 0
        landed = session.fold()
        assert landed is not None
        assert session.context().section(Section.SUMMARY)
        assert session.context().receipt.count(Outcome.DROPPED) == 0


def test_a_summary_by_hand_stands_word_for_word(memory: Memory) -> None:
    session = memory.session("one")
    talk(session, 3)
    text = "三个订单都在路上。"
    landed = session.fold(summary=text)
    assert landed is not None
    assert landed.text == text
    assert landed.upto == 4  # with no more turns than are kept, the oldest is what it stands for
    assert text in session.context().section(Section.SUMMARY)[0].text
    with pytest.raises(SummaryFailed, match="empty"):
        session.fold(summary="   ")


def test_there_may_be_nothing_to_fold(memory: Memory) -> None:
    session = memory.session("one")
    assert session.fold() is None
    talk(session, 2)
    assert session.fold() is None
    assert session.fold(keep_turns=1) is not None


def test_a_call_may_have_a_budget_of_its_own(memory: Memory) -> None:
    session = memory.session("one")
    talk(session, 6)
    wide, narrow = session.context(), session.context(budget=Budget(max_tokens=250))
    assert narrow.tokens <= 250 < wide.tokens
    assert check(narrow) == ()
    assert session.context().messages == wide.messages


def test_tools_are_counted(memory: Memory) -> None:
    session = memory.session("one")
    session.user("hi")
    schema = {"type": "function", "function": {"name": "track", "parameters": {}}}
    with_tools, without = session.context(tools=[schema]), session.context()
    assert with_tools.tokens > without.tokens
    assert with_tools.messages == without.messages


def test_an_oversized_message_is_shortened_with_a_reference_to_its_entry(memory: Memory) -> None:
    session = memory.session("one")
    session.user("look")
    call = {"id": "c", "function": {"name": "read", "arguments": "{}"}}
    session.assistant(tool_calls=[call])
    session.tool("line of a long file\n" * 2_000, tool_call_id="c")
    context = session.context()
    assert check(context) == ()
    assert "#3" in context.messages[-1].text
    assert session.history(after=2, limit=1)[0].message.text == "line of a long file\n" * 2_000


def test_two_handles_build_the_same_context_byte_for_byte(address: str) -> None:
    with Memory(address, budget=SMALL) as ours, Memory(address, budget=SMALL) as theirs:
        left, right = ours.session("one"), theirs.session("one")
        left.system("rules")
        left.pin("Never promise a date.")
        for number in range(1, 40):
            talk(left if number % 2 else right, 1, first=number)
            first, second = left.context(), right.context()
            assert first.messages == second.messages
            assert first.fates == second.fates
            assert first.anchor == second.anchor
        with Memory(address, budget=SMALL) as late:
            assert late.session("one").context().messages == left.context().messages


def test_the_window_of_a_long_log_is_read_from_its_end(address: str) -> None:
    store = open_store(address, blocking=True)
    entries = [
        NewEntry(user(f"question {n}") if n % 2 else assistant(f"answer {n}")) for n in range(4_000)
    ]
    drive(store.append(Scope("default"), "one", entries))
    reads: list[int] = []
    read = store.read

    async def counted(*args: object, **options: object) -> object:
        found = await read(*args, **options)  # pyright: ignore[reportArgumentType]
        reads.append(len(found))
        return found

    store.read = counted  # pyright: ignore[reportAttributeAccessIssue]
    with Memory(store, budget=SMALL, fold="manual", recall="off") as memory:
        context = memory.session("one").context()
    assert check(context) == ()
    assert context.messages[-1] == user("question 3999")
    assert sum(reads) < 600 + 2 * 512, "the window, and a page for rules when it is built"
    drive(store.close())


def test_a_window_that_begins_inside_a_turn_shows_its_question(address: str) -> None:
    with Memory(address, budget=SMALL, fold="manual", recall="off") as memory:
        session = memory.session("one")
        talk(session, 3)
        session.user("the long task")
        for number in range(60):
            call = {"id": f"t{number}", "function": {"name": "step", "arguments": "{}"}}
            session.assistant(tool_calls=[call])
            session.tool(f"step {number} is done, 第 {number} 步完成", tool_call_id=f"t{number}")
            assert check(session.context()) == ()
        warm = session.context()
        assert warm.messages[0] == user("the long task")
    with Memory(address, budget=SMALL, fold="manual", recall="off") as again:
        assert again.session("one").context().messages == warm.messages


# ------------------------------------------------------------------------------- clear, delete, fork


def test_clearing_starts_over_and_loses_nothing(memory: Memory) -> None:
    session = memory.session("one")
    session.system("rules")
    talk(session, 40)
    assert session.checkpoints() == [] or session.context()
    session.clear()
    assert list(session.context().messages) == [system("rules")]
    session.user("again")
    context = session.context()
    assert list(context.messages) == [system("rules"), user("again")]
    assert check(context) == ()
    assert len(session.history(limit=1_000)) == 162
    talk(session, 40, first=100)
    later = session.context()
    assert check(later) == ()
    [summary] = later.section(Section.SUMMARY)
    assert "A-1001" not in summary.text
    assert "cleared by the caller" in {fate.reason for fate in later.fates}


def test_what_is_deleted_stays_deleted(memory: Memory) -> None:
    session = memory.session("one")
    talk(session, 2)
    session.context()
    receipt = session.delete()
    assert (receipt.entries, receipt.already) == (8, False)
    with pytest.raises(ConversationDeleted):
        session.user("hello?")
    with pytest.raises(ConversationDeleted):
        session.context()
    assert memory.conversations() == []


def test_a_fork_goes_its_own_way(memory: Memory) -> None:
    session = memory.session("one")
    session.system("rules")
    session.pin("a rule")
    session.state.set("a", 1)
    talk(session, 30)
    session.context()
    branch = session.fork(41, conversation="two")
    assert [entry.message for entry in branch.history(limit=1_000)] == [
        entry.message for entry in session.history(limit=41)
    ]
    assert branch.state.all() == {"a": 1}
    branch.user("elsewhere")
    assert check(branch.context()) == ()
    assert branch.context().messages[0] == system("rules")
    assert len(session.history(limit=1_000)) == 121
    with pytest.raises(Conflict, match="exists already"):
        session.fork(3, conversation="two")
    with pytest.raises(InvalidOption, match="cannot fork at 500"):
        session.fork(500, conversation="three")


def test_a_conversation_without_messages_cannot_be_forked(memory: Memory) -> None:
    with pytest.raises(InvalidOption, match="cannot fork 'one': it has no messages yet"):
        memory.session("one").fork(conversation="two")


# ------------------------------------------------------------------------------------------ both faces


def test_a_blocking_memory_works_inside_a_running_loop(address: str) -> None:
    async def inside() -> int:
        with Memory(address, budget=SMALL) as memory:
            session = memory.session("one")
            talk(session, 20)
            return len(session.context().messages)

    assert asyncio.run(inside()) > 1


def test_the_two_faces_say_the_same(tmp_path: Path) -> None:
    async def awaiting() -> list[tuple[Message, ...]]:
        async with AsyncMemory(f"sqlite:///{tmp_path / 'a.db'}", budget=SMALL) as memory:
            session = memory.session("one")
            await session.system("rules")
            sent: list[tuple[Message, ...]] = []
            for number in range(30):
                await session.user(f"question {number} 关于订单 {number}")
                sent.append((await session.context()).messages)
                await session.assistant(f"answer {number} " * 9)
            return sent

    with Memory(f"sqlite:///{tmp_path / 'b.db'}", budget=SMALL) as memory:
        session = memory.session("one")
        session.system("rules")
        sent: list[tuple[Message, ...]] = []
        for number in range(30):
            session.user(f"question {number} 关于订单 {number}")
            sent.append(session.context().messages)
            session.assistant(f"answer {number} " * 9)
    assert asyncio.run(awaiting()) == sent


def test_tasks_and_threads_may_share_a_session(address: str) -> None:
    async def many() -> None:
        async with AsyncMemory(address, budget=SMALL) as memory:
            session = memory.session("one")

            async def one(number: int) -> None:
                await session.user(f"question {number}")
                assert check(await session.context()) == ()
                await session.assistant(f"answer {number}")

            await asyncio.gather(*(one(number) for number in range(40)))
            texts = sorted(entry.message.text for entry in await session.history(limit=100))
            assert len(texts) == len(set(texts)) == 80

    asyncio.run(many())
    with Memory(address, budget=SMALL) as memory:
        session = memory.session("one")
        errors: list[Exception] = []

        def work(number: int) -> None:
            try:
                session.user(f"thread {number}")
                assert check(session.context()) == ()
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert len(session.history(limit=200)) == 96


def test_options_that_cannot_work_are_refused() -> None:
    with pytest.raises(InvalidOption, match="is not one of 'manual', 'inline', 'background'"):
        Memory(fold="sometimes")
    with pytest.raises(InvalidOption, match="threshold"):
        Memory(threshold=0)
    with pytest.raises(InvalidOption, match="keep_turns"):
        Memory(keep_turns=-1)
    with pytest.raises(InvalidOption, match="summarizer=object cannot summarise"):
        Memory(summarizer=object())  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidOption, match="needs the address"):
        Memory(MemoryStore(), cache="redis://localhost")
