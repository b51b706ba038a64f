"""PydanticAI's conversation store on turnfold's: the same answers as PydanticAI's own, and what ours adds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")
pytest.importorskip(
    "pydantic_ai.conversation_store", reason="this release of PydanticAI has no conversation store"
)

from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    UserPromptPart,
)

from tests.adapters.model_messages import messages as any_message
from tests.adapters.pydantic_agents import Watched, answering, dumped
from tests.sizes import examples
from tests.stores.servers import PostgresPlaces, postgres_places
from turnfold import AsyncMemory
from turnfold.adapters.pydantic_ai import conversation_store, turnfold_capability
from turnfold.adapters.pydantic_ai.conversation_store import TurnfoldConversationStore
from turnfold.errors import ConversationDeleted
from turnfold.records import Document
from turnfold.stores import Store
from turnfold.stores.postgres.store import PostgresStore

__all__ = ("postgres_places",)

Opened = AsyncMemory
Work = Callable[[AsyncMemory, TurnfoldConversationStore], Awaitable[None]]


def with_store(work: Work, address: str | Store = "sqlite://") -> None:
    async def main() -> None:
        async with AsyncMemory(address) as memory:
            await work(memory, TurnfoldConversationStore(memory))
        if not isinstance(address, str):
            await address.close()

    asyncio.run(main())


def said(*words: str) -> list[ModelMessage]:
    return [
        ModelRequest([UserPromptPart(word)]) if at % 2 == 0 else ModelResponse([TextPart(word)])
        for at, word in enumerate(words)
    ]


async def shown(store: ConversationStore) -> list[object]:
    """Everything that can be seen of a store but the ids it made up."""
    seen: list[object] = []
    for record in await store.list_conversations():
        whole = await store.load(record.conversation_id)
        end = await store.load(record.conversation_id, limit=2)
        assert whole is not None
        assert end is not None
        branches = [
            dumped([one.message for one in await store.read_history(tip)])
            for tip in record.branches
        ]
        forked = (record.scope, record.forked_from, record.usage, branches)
        seen.append((record.conversation_id, dumped(whole.messages), dumped(end.messages), forked))
    return seen


def as_loaded(message: ModelMessage) -> ModelMessage:
    """A message as it is after JSON: PydanticAI then makes a `BinaryImage` of an image, which equals no content."""
    return ModelMessagesTypeAdapter.validate_json(dumped([message]))[0]


MESSAGES = st.lists(any_message.map(as_loaded), max_size=2)
CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.sampled_from("ab"), MESSAGES),
        st.tuples(st.just("branch"), st.sampled_from("ab"), st.integers(0, 4)),
        st.tuples(st.just("fork"), st.sampled_from("ab"), st.sampled_from("abc")),
        st.tuples(st.just("delete"), st.sampled_from("abc"), st.none()),
        st.tuples(st.just("rewrite"), st.sampled_from("ab"), MESSAGES),
    ),
    max_size=6,
)


async def carried_out(store: ConversationStore, call: tuple[str, str, object]) -> str:
    verb, name, more = call
    try:
        loaded = await store.load(name)
        if verb == "say":
            conversation = loaded or Conversation(conversation_id=name)
            conversation.messages.extend(more)  # pyright: ignore[reportArgumentType]
            await store.save(conversation, scope="mine")
        elif verb == "rewrite":
            rewritten = Conversation(
                conversation_id=name,
                messages=list(more),  # pyright: ignore[reportArgumentType]
                revision=loaded.revision if loaded else None,
            )
            await store.save(rewritten)
        elif verb == "branch" and loaded is not None:
            await store.branch(name, at=more, expected_revision=loaded.revision)  # pyright: ignore[reportArgumentType]
        elif verb == "fork":
            await store.fork(name, new_conversation_id=str(more))
        elif verb == "delete":
            await store.delete(name)
    except UserError as error:
        return type(error).__name__
    return "done"


@examples(25)
@given(CALLS)
def test_it_answers_as_pydantic_ais_own_store_does(calls: list[tuple[str, str, object]]) -> None:
    async def work(_: Opened, ours: TurnfoldConversationStore) -> None:
        theirs = InMemoryConversationStore()
        for call in calls:
            assert await carried_out(ours, call) == await carried_out(theirs, call)
            assert await shown(ours) == await shown(theirs)

    with_store(work)


def test_a_run_is_saved_loaded_and_continued_in_another_process(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/chat.db"
    watched = Watched(answering("Noted.", "Blue."))

    async def first(memory: Opened, store: TurnfoldConversationStore) -> None:
        agent = Agent(watched.model, capabilities=[turnfold_capability(memory)])
        conversation = Conversation(conversation_id="boat")
        await store.save(await agent.run("My boat is blue.", conversation=conversation))

    async def second(memory: Opened, store: TurnfoldConversationStore) -> None:
        agent = Agent(watched.model, capabilities=[turnfold_capability(memory)])
        conversation = await store.load("boat")
        assert conversation is not None
        result = await agent.run("Which colour?", conversation=conversation)
        await store.save(result)
        again = await store.load("boat")
        assert again is not None
        assert dumped(again.messages) == dumped(result.all_messages())
        status = await memory.session("boat").status()
        assert status.turns == 2

    with_store(first, address)
    with_store(second, address)


async def two_writers(store: TurnfoldConversationStore) -> tuple[list[str], int]:
    """What two who loaded the same conversation are told when both save it, and how many messages there are then."""
    await store.save(Conversation(conversation_id="c", messages=said("one", "two")))
    mine, yours = await store.load("c"), await store.load("c")
    assert mine is not None
    assert yours is not None
    mine.messages += said("three")
    yours.messages += said("four")
    put, both = store._documents.put, asyncio.Barrier(2)

    async def together(home: str, entry: ConversationEntry) -> None:
        await both.wait()  # each has seen that the conversation is still the one it loaded
        await put(home, entry)

    store._documents.put = together
    results = await asyncio.gather(store.save(mine), store.save(yours), return_exceptions=True)
    after = await store.load("c")
    assert after is not None
    return sorted(type(one).__name__ for one in results), len(after.messages)


def test_of_two_writers_one_is_told() -> None:
    async def work(_: Opened, store: TurnfoldConversationStore) -> None:
        assert await two_writers(store) == (["ConversationConflict", "list"], 3)

    with_store(work)


def test_sabotage_without_compare_and_swap_a_writer_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def anyway(self: Any, placed: Any, *, expect: int) -> None:
        del expect
        body = conversation_store._placed.dump_json([placed])
        document = Document(conversation_store._RECORD, placed.record.conversation_id, body, 0)
        await self._store.put_document(self._scope, self._index, document)

    monkeypatch.setattr(conversation_store._Documents, "place", anyway)

    async def work(_: Opened, store: TurnfoldConversationStore) -> None:
        told, messages = await two_writers(store)
        assert told == ["list", "list"]
        assert messages == 3  # of the four that were saved

    with_store(work)


def test_deleting_erases_the_messages_and_the_name_can_be_used_again() -> None:
    async def work(memory: Opened, store: TurnfoldConversationStore) -> None:
        await store.save(Conversation(conversation_id="c", messages=said("a secret", "kept")))
        await store.fork("c", new_conversation_id="d")
        await store.delete("c")
        assert await store.load("c") is None
        fork = await store.load("d")
        assert fork is not None
        assert len(fork.messages) == 2
        await store.delete("d")
        left = await memory.conversations()
        documents = [
            document
            for info in left
            for kind in ("pydantic-ai-entry", "pydantic-ai-conversation")
            for document in await memory.store.documents(memory.scope, info.conversation, kind)
        ]
        assert documents == []
        await store.save(Conversation(conversation_id="c", messages=said("new")))
        again = await store.load("c")
        assert again is not None
        assert len(again.messages) == 1

    with_store(work)


def test_an_unknown_entry_is_a_lookup_error_and_a_known_one_is_found_by_a_fresh_store() -> None:
    async def work(memory: Opened, store: TurnfoldConversationStore) -> None:
        entries = await store.save(Conversation(conversation_id="c", messages=said("one", "two")))
        fresh = TurnfoldConversationStore(memory)
        assert (await fresh.read_entry(entries[0].id)).message == entries[0].message
        with pytest.raises(LookupError):
            await fresh.read_entry("nothing")
        with pytest.raises(ConversationConflict):
            await fresh.delete_record("c", expected_revision="another")

    with_store(work)


def test_two_tenants_share_nothing() -> None:
    async def main() -> None:
        async with AsyncMemory("sqlite://") as memory:
            other = AsyncMemory(memory.store, scope="other")
            ours, theirs = TurnfoldConversationStore(memory), TurnfoldConversationStore(other)
            await ours.save(Conversation(conversation_id="c", messages=said("one")))
            assert await theirs.load("c") is None
            assert await theirs.list_conversations() == []

    asyncio.run(main())


async def unchecked(*_: object) -> None:
    return None


@pytest.mark.parametrize("name", ["boat", "船:蓝", "boat:blue"])
def test_it_is_erased_with_the_session_of_its_id(name: str) -> None:
    async def work(memory: Opened, store: TurnfoldConversationStore) -> None:
        for each in (name, f"{name}:2", "other"):
            await memory.session(each).user("My boat is blue. 我的船是蓝色的。")
            await store.save(Conversation(conversation_id=each, messages=said("Blue 蓝")))
        receipt = await memory.erase_session(name)
        assert [each.derived for each in receipt.conversations] == [False, True]
        assert (await memory.verify_erasure(receipt)).ok
        assert await store.load(name) is None
        again = Conversation(conversation_id=name, messages=said("again 再来"))
        with pytest.raises(ConversationDeleted, match="has been erased"):
            await store.save(again)
        assert await store.load(name) is None
        assert (await memory.verify_erasure(receipt)).ok
        with pytest.MonkeyPatch.context() as patch:  # a late writer that does not look
            patch.setattr(conversation_store, "refuse_erased", unchecked)
            await store.save(again)
        assert len((await memory.verify_erasure(receipt)).found) == 2
        await memory.session(name).delete()
        assert (await memory.verify_erasure(receipt)).ok
        await memory.session(f"{name}:2").delete()
        assert await store.load(f"{name}:2") is None
        assert await store.load("other") is not None

    with_store(work)


def test_on_postgresql(postgres_places: PostgresPlaces, tmp_path: Path) -> None:
    async def work(_: Opened, store: TurnfoldConversationStore) -> None:
        theirs = InMemoryConversationStore()
        for call in (
            ("say", "a", said("one", "two")),
            ("say", "a", said("three")),
            ("branch", "a", 1),
            ("say", "a", said("four")),
            ("fork", "a", "b"),
            ("delete", "a", None),
        ):
            assert await carried_out(store, call) == await carried_out(theirs, call)
            assert await shown(store) == await shown(theirs)

    with_store(work, PostgresStore(postgres_places.url(tmp_path)))
    postgres_places.sweep()
