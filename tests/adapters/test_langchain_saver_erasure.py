"""Erasing a session erases the thread of LangGraph with its id, which the saver keeps in conversations of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain", reason="the extra langchain is not installed")

from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint

from tests.cli.seeded import invoke
from tests.stores.servers import PostgresPlaces, postgres_places
from turnfold import AsyncMemory, Memory
from turnfold.adapters.langchain import TurnfoldSaver, turnfold_middleware
from turnfold.adapters.langchain.checkpoints import storage
from turnfold.errors import ConversationDeleted
from turnfold.memory import erasure
from turnfold.records import Message
from turnfold.runtime import drive
from turnfold.stores import LANGGRAPH_HOMES, MemoryStore, Scope, Store, new_home
from turnfold.stores.postgres.store import PostgresStore

__all__ = ("postgres_places",)

IDS = ("user-42/refund", "用户-42/退款", "a:b", "digest:x", "long " * 60, "line\nbreak")
SAID = "my card is 4711 我的卡号"


@pytest.fixture(params=["sqlite", "memory", "postgres"])
def memory(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_places: PostgresPlaces
) -> Iterator[Memory]:
    store: Any = f"sqlite:///{tmp_path / 'chat.db'}"
    if request.param == "memory":
        store = MemoryStore()
    elif request.param == "postgres":
        store = PostgresStore(postgres_places.url(tmp_path), blocking=True)
    with Memory(store) as memory:
        yield memory
    if request.param == "postgres":
        drive(store.close())
        postgres_places.sweep()


def config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


def checkpoint() -> Any:
    return {
        **empty_checkpoint(),
        "channel_values": {"said": SAID},
        "channel_versions": {"said": 1},
    }


def put(saver: TurnfoldSaver, thread: str) -> None:
    saver.put(config(thread), checkpoint(), {}, {"said": 1})


def names(memory: Memory) -> list[str]:
    return [info.conversation for info in memory.conversations(internal=True)]


def by_session(memory: Memory, name: str) -> None:
    memory.session(name).delete()


def by_memory(memory: Memory, name: str) -> None:
    memory.delete(name)


def by_receipt(memory: Memory, name: str) -> None:
    receipt = memory.erase_session(name)
    assert [each.derived for each in receipt.conversations] == [False, True]
    assert receipt.conversations[1].documents["langgraph-checkpoint"] == 1
    assert memory.verify_erasure(receipt).ok


def by_user(memory: Memory, name: str) -> None:
    receipt = memory.erase_user(f"owner of {name[:50]}")
    assert memory.verify_erasure(receipt).ok


@pytest.mark.parametrize("erase", [by_session, by_memory, by_receipt, by_user])
def test_the_thread_goes_with_the_session_and_no_other_does(
    memory: Memory, erase: Callable[[Memory, str], None]
) -> None:
    saver = TurnfoldSaver(memory)
    others = ["user-42/refund2", "user-42", "a", "b", "a:b:c", "x"]
    for name in (*IDS, *others):
        user = {"user_id": f"owner of {name[:50]}"}
        memory.session(name).add(Message("user", SAID, metadata=user))
        put(saver, name)
    for name in IDS:
        erase(memory, name)
        assert saver.get_tuple(config(name)) is None
        for late in (saver, TurnfoldSaver(memory)):
            with pytest.raises(ConversationDeleted, match="has been erased"):
                put(late, name)
        with pytest.raises(ConversationDeleted, match="has been erased"):
            saver.copy_thread("x", name)
        assert TurnfoldSaver(memory).get_tuple(config(name)) is None
    assert [each for each in others if saver.get_tuple(config(each)) is None] == []
    assert len(names(memory)) == 2 * len(others) + 1
    saver.delete_thread("x")
    put(saver, "x")  # a thread that LangGraph deleted may begin anew
    assert saver.get_tuple(config("x")) is not None


def test_a_run_that_goes_on_after_the_erasure_writes_nothing_back(tmp_path: Path) -> None:
    """The tool of the second turn erases the user, as another process would."""
    url = f"sqlite:///{tmp_path / 'chat.db'}"
    receipts: list[Any] = []

    def refund() -> str:
        """Pay the money back."""
        with Memory(url) as other:
            receipts.append(other.erase_user("ann"))
        return "paid"

    calls = [{"name": "refund", "args": {}, "id": "r1"}]
    answers = [AIMessage("noted"), AIMessage("", tool_calls=calls), AIMessage("done")]
    with Memory(url) as memory:
        model: Any = _Scripted(messages=iter(answers))
        agent: Any = create_agent(
            model,
            tools=[refund],
            middleware=[turnfold_middleware(memory, recall=False)],
            checkpointer=TurnfoldSaver(memory),
        )
        agent.invoke({"messages": [HumanMessage(SAID)]}, config("ann/1"))
        with pytest.raises(ConversationDeleted, match="has been erased"):
            agent.invoke({"messages": [HumanMessage("Refund it.")]}, config("ann/1"))
        with pytest.raises(ConversationDeleted, match="has been erased"):
            agent.invoke({"messages": [HumanMessage("And now?")]}, config("ann/1"))
        assert agent.get_state(config("ann/1")).values == {}
        assert memory.verify_erasure(receipts[0]).ok
    with Memory(url) as memory:
        assert TurnfoldSaver(memory).get_tuple(config("ann/1")) is None


class _Scripted(GenericFakeChatModel):
    """Answers in order; tools are offered to it, and it ignores them."""

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        return self


def test_an_erasure_between_the_creation_of_a_thread_and_its_check_is_noticed(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer asks before the session is erased, and creates the thread when the erasure is over."""
    asked = storage.refuse_erased
    calls: list[str] = []

    async def late(store: Store, scope: Scope, owner: str) -> None:
        calls.append(owner)
        await asked(store, scope, owner)
        if len(calls) == 1:
            await erasure.delete_session(store, scope, owner)

    memory.session("a").user(SAID)
    monkeypatch.setattr(storage, "refuse_erased", late)
    with pytest.raises(ConversationDeleted):
        put(TurnfoldSaver(memory), "a")
    assert [each for each in names(memory) if each != "langgraph:threads"] == []
    assert TurnfoldSaver(memory).get_tuple(config("a")) is None


def test_savers_with_other_names_are_found_by_an_erasure_and_do_not_lose_threads_of_each_other() -> (
    None
):
    with Memory("sqlite://") as memory:
        plain, longer = TurnfoldSaver(memory), TurnfoldSaver(memory, name="langgraph:a")
        own = TurnfoldSaver(memory, name="我的图")
        put(longer, "b")  # its home looks like one of thread "a:b" of the plain saver
        put(own, "a:b")
        put(plain, "a:b")
        receipt = memory.erase_session("a:b")
        assert [each.derived for each in receipt.conversations] == [False, True, True]
        assert plain.get_tuple(config("a:b")) is own.get_tuple(config("a:b")) is None
        assert longer.get_tuple(config("b")) is not None
        check = memory.verify_erasure(receipt)
        assert (check.ok, check.found) == (True, ())
        assert len(memory.erase_session("b").conversations) == 2
        assert longer.get_tuple(config("b")) is None


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_it_goes_with_an_awaiting_memory_too(
    kind: str, tmp_path: Path, postgres_places: PostgresPlaces
) -> None:
    async def main() -> None:
        store: Any = "sqlite://"
        if kind == "postgres":
            store = PostgresStore(postgres_places.url(tmp_path))
        async with AsyncMemory(store) as memory:
            saver = TurnfoldSaver(memory)
            for name in IDS:
                await memory.session(name).user(SAID)
                await saver.aput(config(name), checkpoint(), {}, {"said": 1})
            await memory.session(IDS[0]).delete()
            await memory.delete(IDS[1])
            receipt = await memory.erase_session(IDS[2])
            assert (await memory.verify_erasure(receipt)).ok
            left = [name for name in IDS if await saver.aget_tuple(config(name)) is not None]
            assert left == list(IDS[3:])
        if kind == "postgres":
            await store.close()

    asyncio.run(main())
    if kind == "postgres":
        postgres_places.sweep()


def test_sabotage_a_receipt_does_not_hold_if_the_thread_is_written_again_or_was_never_erased(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = TurnfoldSaver(memory)
    store, scope = memory.awaiting.store, memory.awaiting.scope

    async def unchecked(*_: object) -> None:
        return None

    for name in IDS[:3]:
        memory.session(name).user(SAID)
        put(saver, name)
        receipt = memory.erase_session(name)
        assert memory.verify_erasure(receipt).ok
        with monkeypatch.context() as patch:
            patch.setattr(storage, "refuse_erased", unchecked)
            put(TurnfoldSaver(memory), name)  # a late writer, in a new home
        check = memory.verify_erasure(receipt)
        assert not check.ok
        assert len(check.found) == 2
        [home] = [each for each in check.found if each != "langgraph:threads"]
        drive(store.delete(scope, home))  # only the document that names the home is left
        assert memory.verify_erasure(receipt).found == ("langgraph:threads",)
        assert memory.verify_erasure(memory.erase_session(name)).ok
        orphan = new_home(LANGGRAPH_HOMES.prefix(name))  # of a process that died
        memory.session(orphan).user(SAID)
        assert memory.verify_erasure(receipt).found == (orphan,)
        memory.delete(name)
        assert memory.verify_erasure(receipt).ok

    async def nothing(*_: object) -> None:
        return None

    monkeypatch.setattr(erasure, "erase_derived", nothing)
    memory.session("last").user(SAID)
    put(saver, "last")
    assert not memory.verify_erasure(memory.erase_session("last")).ok


def test_the_command_erases_the_thread_of_an_agent_and_does_not_list_it(tmp_path: Path) -> None:
    store = str(tmp_path / "chat.db")

    def run(*words: str) -> str:
        done = invoke([*words, "--store", store])
        assert done.exit_code == 0, done.output
        return done.stdout

    with Memory(f"sqlite:///{store}") as memory:
        saver = TurnfoldSaver(memory)
        model = GenericFakeChatModel(messages=iter([AIMessage("noted 记下了")] * 2))
        agent: Any = create_agent(
            model, middleware=[turnfold_middleware(memory, recall=False)], checkpointer=saver
        )
        for name in IDS[:2]:
            agent.invoke({"messages": [HumanMessage(SAID)]}, config(name))
        put(saver, "without a session")
    listed = run("sessions", "--json")
    assert ("langgraph" in listed, all(name in listed for name in IDS[:2])) == (False, True)
    assert "langgraph:threads" in run("sessions", "langgraph:", "--json")
    receipt = tmp_path / "receipt.json"
    for name in (*IDS[:2], "without a session"):
        receipt.write_text(run("delete", name, "--yes", "--json"), encoding="utf-8")
        run("delete", "--verify", str(receipt))
        with Memory(f"sqlite:///{store}") as memory:
            assert TurnfoldSaver(memory).get_tuple(config(name)) is None
    with Memory(f"sqlite:///{store}") as memory:
        assert names(memory) == ["langgraph:threads"]


@pytest.mark.parametrize("user", ["user-42", "用户/甲"])
def test_a_user_is_erased_with_threads_that_have_no_session(user: str) -> None:
    with Memory("sqlite://") as memory:
        saver = TurnfoldSaver(memory)
        for name in (user, f"{user}/refund", "somebody-else"):
            put(saver, name)
        receipt = memory.erase_user(user)
        assert saver.get_tuple(config(user)) is saver.get_tuple(config(f"{user}/refund")) is None
        assert saver.get_tuple(config("somebody-else")) is not None
        assert memory.verify_erasure(receipt).ok
