"""Everything a memory offers, asked after it was closed: a typed error, or an answer that needs no store."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from pathlib import Path

import pytest

from turnfold import AsyncMemory, Memory, MemoryModule, ShortMemory
from turnfold.agent import Agent, AsyncAgent
from turnfold.errors import StoreUnavailable
from turnfold.memories import AsyncMemoryModule, AsyncShortMemory
from turnfold.memory import ErasureReceipt
from turnfold.records import Snapshot, Usage
from turnfold.stores import MemoryStore
from turnfold.testing import ScriptedModel

CALL = {"name": "look", "arguments": '{"place": "花园"}'}
RECEIPT = ErasureReceipt(
    kind="session", subject="", salt="0" * 32, at=0, conversations=(), forks=(), digest=""
)
GIVEN: dict[str, tuple[object, ...]] = {
    "Memory.delete": ("one",),
    "Memory.erase_session": ("one",),
    "Memory.erase_tenant": ("default",),
    "Memory.erase_user": ("u1",),
    "Memory.verify_erasure": (RECEIPT,),
    "Memory.search": ("words",),
    "Memory.session": ("one",),
    "Session.add": ({"role": "user", "content": "late 晚了"},),
    "Session.assistant": ("late",),
    "Session.diff": ("00000001.00", "00000001.01"),
    "Session.explain": ("00000001.00",),
    "Session.by_client_id": (["u1"],),
    "Session.erase": (1,),
    "Session.pin": ("late",),
    "Session.recall": ("words",),
    "Session.record_usage": (Usage(input=1, output=1),),
    "Session.system": ("late",),
    "Session.tool": ("late",),
    "Session.turn": (1,),
    "Session.unpin": ("key",),
    "Session.add_rule": ("be late",),
    "Session.drop_checkpoint": ("checkpoint",),
    "Session.drop_rule": ("key",),
    "Session.user": ("late 晚了",),
    "State.get": ("name",),
    "State.remove": ("name",),
    "State.set": ("name", 1),
    "State.update": ({"name": 1},),
    "Findings.drop": ("look",),
    "Findings.get": ("look",),
    "Findings.note": (CALL, "roses"),
    "Findings.ran": ("look",),
    "Findings.serve": (CALL,),
    "Findings.use": ([],),
    "Snapshots.before": (2,),
    "Snapshots.diff": (1, 2),
    "Snapshots.files": (1,),
    "Snapshots.get": (1,),
    "Snapshots.read": (1, "a.txt"),
    "Snapshots.recall": ({"turnNumbers": [1]},),
    "Snapshots.search": ("words",),
    "Snapshots.take": (Snapshot(turn=1),),
    "ShortMemory.checkpoint_history": ("one",),
    "ShortMemory.checkpoint_short_memory": ("one",),
    "ShortMemory.create_short_memory": ("one",),
    "ShortMemory.delete_short_memory": ("one",),
    "ShortMemory.get_short_memory": ("one",),
    "ShortMemory.import_messages": ([{"message_id": "m", "conversation_id": "c", "query": "q"}],),
    "ShortMemory.import_session_value": ('{"meta": {"conversation_id": "c"}}',),
    "ShortMemory.query_message_by_conversation_id_asc_from_checkpoint": ("one", "two"),
    "ShortMemory.query_message_by_conversation_id_asc_with_limit": ("one",),
    "ShortMemory.query_memory_context": ("one",),
    "ShortMemory.reset_short_memory": ("one",),
    "ShortMemory.write_turn": ("one",),
    "MemoryModule.attach": ("one",),
    "MemoryModule.answer_recall": ({"turnNumbers": [1]},),
    "MemoryModule.import_": ({"version": 1},),
    "MemoryModule.look_up": ({"turnNumbers": [1]},),
    "MemoryModule.perform_thinking_phase": ("late",),
    "MemoryModule.recall_context": ({"turnNumbers": [1]},),
    "MemoryModule.search": ("words",),
    "MemoryModule.within": ("one",),
}
NAMED: dict[str, Mapping[str, object]] = {
    "Findings.text": {"tokens": 100},
    "Session.fork": {"conversation": "two"},
    "Session.tool": {"tool_call_id": "c1"},
    "ShortMemory.write_turn": {"user_query": "late", "agent_response": "too late 太晚"},
}
WITHOUT_A_STORE = {
    "Memory.close",
    "Memory.drain",
    "Memory.health",  # says that it cannot serve
    "Memory.session",
    "Findings.serve",  # where no rule says so nothing is served
    "Findings.use",
    "MemoryModule.close",
    "MemoryModule.recall_tool",
    "MemoryModule.attach",
    "MemoryModule.within",
    "ShortMemory.close",
}
NOT_ASKED = {
    "Memory.over",
    "MemoryModule.over",
    "ShortMemory.over",
    "Session.index_meaning",  # refused: there is no embedder
    "MemoryModule.import_",  # refused: that is no export
    "ShortMemory.set_short_memory",  # takes a value the closed memory cannot give
}


def verbs(thing: object) -> list[str]:
    """The methods of a thing, with its class before it as the blocking face calls it."""
    kind = type(thing).__name__.removeprefix("Async")
    return [
        f"{kind}.{name}"
        for name, found in inspect.getmembers(type(thing), callable)
        if not name.startswith("_") and f"{kind}.{name}" not in NOT_ASKED
    ]


async def answered(thing: object, verb: str) -> object:
    """What a method answers, awaited where that has to be; what it raises is raised."""
    found = getattr(thing, verb.partition(".")[2])(*GIVEN.get(verb, ()), **NAMED.get(verb, {}))
    return await asyncio.wait_for(found, 60) if inspect.isawaitable(found) else found


async def all_are_refused(*things: object) -> None:
    asked: list[str] = []
    for thing in things:
        for verb in verbs(thing):
            asked.append(verb)
            try:
                await answered(thing, verb)
                served = True
            except StoreUnavailable as error:
                assert "closed" in str(error)  # noqa: PT017 (or it is served)
                served = False
            assert served is (verb in WITHOUT_A_STORE), verb
    assert len(asked) > 5


@pytest.fixture(params=["file", "in memory", "in the process"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str | MemoryStore:
    kinds: dict[str, str | MemoryStore] = {
        "file": f"sqlite:///{tmp_path / 'chat.db'}",
        "in memory": "sqlite://",
        "in the process": MemoryStore(),
    }
    return kinds[request.param]


def test_a_blocking_memory(store: str | MemoryStore) -> None:
    memory = Memory(store)
    session = memory.session("one")
    session.user("hello 你好", client_id="u1")
    session.context()
    parts = (session, session.state, session.findings, session.snapshots)
    memory.close()
    if isinstance(store, MemoryStore):
        asyncio.run(store.close())
    asyncio.run(all_are_refused(memory, *parts))


def test_an_awaiting_memory(store: str | MemoryStore) -> None:
    async def run() -> None:
        memory = AsyncMemory(store)
        session = memory.session("one")
        await session.user("hello 你好", client_id="u1")
        await session.context()
        parts = (session, session.state, session.findings, session.snapshots)
        await memory.close()
        if isinstance(store, MemoryStore):
            await store.close()
        await all_are_refused(memory, *parts)

    asyncio.run(run())


def test_memories_of_the_documents(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'chat.db'}"

    async def run() -> None:
        short, module = AsyncShortMemory(url), AsyncMemoryModule(None, url)
        await short.close()
        await module.close()
        await all_are_refused(short)
        await all_are_refused(module)

    asyncio.run(run())
    short, module = ShortMemory(url), MemoryModule(None, url)
    short.close()
    module.close()
    asyncio.run(all_are_refused(short))
    asyncio.run(all_are_refused(module))


def test_an_agent() -> None:
    memory = Memory("sqlite://")
    agent = Agent(memory, ScriptedModel(["hello"]))
    memory.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        agent.run("one", "hello")
    with pytest.raises(StoreUnavailable, match="closed"):
        agent.resume("one")

    async def run() -> None:
        awaited = AsyncMemory("sqlite://")
        await awaited.close()
        with pytest.raises(StoreUnavailable, match="closed"):
            await AsyncAgent(awaited, ScriptedModel(["hello"])).run("one", "hello")

    asyncio.run(run())
