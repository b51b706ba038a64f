"""LangGraph's checkpoints in turnfold's stores: its own suite, a saver of its own beside it, and what neither asks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("langchain", reason="the extra langchain is not installed")
pytest.importorskip(
    "langgraph.checkpoint.conformance", reason="langgraph-checkpoint-conformance is not installed"
)

from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver

from tests.adapters.langgraph_savers import (
    BODIES,
    WORDS,
    checkpoint_documents,
    homes_of,
    newest_words,
    place_of,
    put,
    put_body,
)
from tests.sizes import examples
from tests.stores.servers import PostgresPlaces, postgres_places
from turnfold import AsyncMemory, Memory
from turnfold.adapters.langchain import TurnfoldSaver
from turnfold.adapters.langchain.checkpoints import storage
from turnfold.adapters.langchain.checkpoints.documents import (
    CHECKPOINT,
    apply_delta,
    delta_size,
    make_delta,
)
from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.runtime import drive
from turnfold.stores import MemoryStore, Scope
from turnfold.stores.postgres.store import PostgresStore

__all__ = ("postgres_places",)

Made = Callable[[], AsyncIterator[BaseCheckpointSaver[Any]]]
ALL = {
    "put": 17,
    "put_writes": 10,
    "get_tuple": 10,
    "list": 16,
    "delete_thread": 5,
    "delete_for_runs": 7,
    "copy_thread": 8,
    "prune": 8,
}


def passed(make: Made) -> dict[str, int]:
    """How many of LangGraph's own tests a saver passes, by ability."""
    report = asyncio.run(validate(checkpointer_test(name=uuid4().hex)(make)))
    return {name: result.tests_passed or 0 for name, result in report.results.items()}


async def blocking() -> AsyncIterator[BaseCheckpointSaver[Any]]:
    with Memory("sqlite://") as memory:
        yield TurnfoldSaver(memory)


async def awaiting() -> AsyncIterator[BaseCheckpointSaver[Any]]:
    async with AsyncMemory("sqlite://") as memory:
        yield TurnfoldSaver(memory)


async def in_process() -> AsyncIterator[BaseCheckpointSaver[Any]]:
    yield TurnfoldSaver(MemoryStore(), scope="someone")


# ---------------------------------------------------------------------------------- the suite


@pytest.mark.parametrize("make", [blocking, awaiting, in_process])
def test_all_eighty_one_of_langgraphs_tests(make: Made) -> None:
    assert passed(make) == ALL


@pytest.mark.slow
def test_all_eighty_one_of_langgraphs_tests_on_postgresql(
    postgres_places: PostgresPlaces, tmp_path: Path
) -> None:
    async def made() -> AsyncIterator[BaseCheckpointSaver[Any]]:
        async with AsyncMemory(
            PostgresStore(postgres_places.url(tmp_path / uuid4().hex))
        ) as memory:
            yield TurnfoldSaver(memory)
            await memory.store.close()

    assert passed(made) == ALL
    postgres_places.sweep()


def test_sabotage_the_suite_notices_values_that_are_not_found_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def nothing(*_: object) -> dict[str, object]:
        return {}

    monkeypatch.setattr(storage.ChannelValues, "read", nothing)
    assert sum(passed(blocking).values()) < 81


# ---------------------------------------------------------------------------------- beside LangGraph's own

VALUES = st.one_of(
    st.none(),
    st.integers(
        -(2**63), 2**63 - 1
    ),  # more than LangGraph's serialiser takes is no value of a channel
    st.text(max_size=20),
    st.binary(max_size=20),
    st.lists(st.text(max_size=40), max_size=60),
    st.just(["港口水深与潮汐 " * 9] * 9),
)
STEP = st.fixed_dictionaries(
    {
        "parent": st.integers(0, 40),
        "changed": st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3),
        "emptied": st.sets(st.sampled_from("abc"), max_size=1),
        "writes": st.lists(
            st.tuples(st.sampled_from(["t1", "t2"]), st.lists(VALUES, max_size=2)), max_size=2
        ),
        "namespace": st.sampled_from(["", "", "child:1"]),
    }
)


def play(steps: list[dict[str, Any]], savers: list[BaseCheckpointSaver[Any]]) -> None:
    """Do the same with several savers: checkpoints on one another, on branches, with writes after them."""
    kept: dict[str, list[tuple[dict[str, Any], dict[str, str]]]] = {"": [], "child:1": []}
    for number, step in enumerate(steps):
        before = kept[step["namespace"]]
        at = step["parent"] % (len(before) + 1)
        config: dict[str, Any] = {"thread_id": "t", "checkpoint_ns": step["namespace"]}
        state: dict[str, Any] = {}
        versions: dict[str, str] = {}
        if at:
            parent, versions = before[at - 1]
            state, versions = dict(parent["channel_values"]), dict(versions)
            config["checkpoint_id"] = parent["id"]
        new = {name: f"{number:04}.{name}" for name in (*step["changed"], *step["emptied"])}
        state |= step["changed"]
        for name in step["emptied"]:
            state.pop(name, None)
        versions |= new
        checkpoint: Any = {
            **empty_checkpoint(),
            "channel_values": state,
            "channel_versions": versions,
        }
        before.append((checkpoint, versions))
        for saver in savers:
            named = saver.put({"configurable": config}, checkpoint, {"step": number}, dict(new))
            for task, written in step["writes"]:
                saver.put_writes(named, [("x", value) for value in written], task, f"~{task}")


def seen(saver: BaseCheckpointSaver[Any], namespace: str) -> list[Any]:
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": namespace}}
    listed = list(saver.list(config))
    newest = saver.get_tuple(config)
    assert (newest.checkpoint if newest else None) == (listed[0].checkpoint if listed else None)
    return [(one.checkpoint, one.metadata, one.parent_config, one.pending_writes) for one in listed]


@examples(25)
@given(st.lists(STEP, max_size=14))
def test_the_same_answers_as_langgraphs_saver_warm_cold_pruned_and_copied(
    steps: list[dict[str, Any]],
) -> None:
    with Memory("sqlite://") as memory:
        ours, theirs = TurnfoldSaver(memory), InMemorySaver()
        play(steps, [ours, theirs])
        for namespace in ("", "child:1"):
            assert seen(ours, namespace) == seen(theirs, namespace)
            assert seen(TurnfoldSaver(memory), namespace) == seen(theirs, namespace)
        ours.copy_thread("t", "other")
        ours.prune(["t"])
        for namespace in ("", "child:1"):
            kept = seen(TurnfoldSaver(memory), namespace)
            newest = [(*one[:2], None, one[3]) for one in seen(theirs, namespace)[:1]]
            assert [(*one[:2], None, one[3]) for one in kept] == newest
        config: Any = {"configurable": {"thread_id": "other"}}
        assert len(list(TurnfoldSaver(memory).list(config))) == len(steps)


@given(st.binary(max_size=400), st.binary(max_size=400))
def test_a_difference_leads_back(base: bytes, new: bytes) -> None:
    assert apply_delta(base, make_delta(base, new)) == new


@examples(60)
@given(
    st.lists(
        st.tuples(st.integers(0, 5_000), st.integers(0, 90), st.binary(max_size=60)), max_size=4
    )
)
def test_a_difference_is_as_small_as_what_changed(edits: list[tuple[int, int, bytes]]) -> None:
    base = random.Random(1).randbytes(5_000)  # noqa: S311 (the same every time)
    new = base
    for at, gone, more in edits:
        new = new[:at] + more + new[at + gone :]
    pieces = make_delta(base, new)
    assert apply_delta(base, pieces) == new
    assert delta_size(pieces) <= sum(len(more) + 150 for *_, more in edits) + 8


# ---------------------------------------------------------------------------------- what it costs


def kept_bytes(turns: int) -> int:
    """Bytes of all documents of a conversation in which a list grows by one message a turn."""
    words = random.Random(7)  # noqa: S311
    with Memory("sqlite://") as memory:
        saver = TurnfoldSaver(memory)
        said: list[str] = []
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        for turn in range(1, turns + 1):
            said.append(words.randbytes(100).hex())
            checkpoint: Any = {
                **empty_checkpoint(),
                "channel_values": {"messages": list(said)},
                "channel_versions": {"messages": turn},
            }
            config = saver.put(config, checkpoint, {"step": turn}, {"messages": turn})
        found = saver.get_tuple(config)
        assert found is not None
        assert found.checkpoint["channel_values"]["messages"] == said
        place = drive(saver._threads.find("t"))[0]
        assert place is not None
        store, scope = memory.awaiting.store, memory.awaiting.scope
        documents = drive(store.documents(scope, place.home, CHECKPOINT, limit=turns))
        return sum(len(document.body) for document in documents)


def test_what_is_kept_grows_with_what_is_said_and_not_with_its_square() -> None:
    assert kept_bytes(400) < 5 * kept_bytes(100)


@pytest.mark.slow  # shows that the tests above can fail
def test_sabotage_without_differences_it_grows_with_the_square(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(storage, "make_delta", lambda _, new: [new])
    assert kept_bytes(400) > 10 * kept_bytes(100)


# ---------------------------------------------------------------------------------- odds and ends


def test_a_checkpoint_stored_again_keeps_what_others_hold_on_to() -> None:
    with Memory("sqlite://") as memory:
        saver = TurnfoldSaver(memory)
        first: Any = {
            **empty_checkpoint(),
            "channel_values": {"words": WORDS},
            "channel_versions": {"words": 1},
        }
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        parent = saver.put(config, first, {}, {"words": 1})
        put(saver, [*WORDS, "more"], parent)
        changed: Any = {**first, "channel_values": {"words": ["other"]}}
        saver.put(config, changed, {}, {"words": 1})
        fresh = TurnfoldSaver(memory)
        found = fresh.get_tuple(parent)
        assert found is not None
        assert found.checkpoint["channel_values"]["words"] == ["other"]
        assert newest_words(fresh) == [*WORDS, "more"]


def test_a_damaged_value_is_told_and_not_given() -> None:
    with Memory("sqlite://") as memory:
        saver = TurnfoldSaver(memory)
        put(saver, WORDS)
        [home] = homes_of(memory)
        [document] = checkpoint_documents(memory, home)
        kept, _ = BODIES.checkpoint(home, document)
        kept.scripts[0].pieces[0] = b"something else"
        put_body(memory, home, document, BODIES.pack(kept, place_of(home, document)))
        with pytest.raises(InvalidRecord, match="digest"):
            newest_words(TurnfoldSaver(memory))


@pytest.mark.parametrize("name", ["线程", "a" * 900, "new\nline", "\x1f", "a b\x7f"])
def test_any_name_of_a_thread_and_of_a_namespace(name: str) -> None:
    with Memory("sqlite://") as memory:
        saver = TurnfoldSaver(memory)
        for thread, namespace in ((name, ""), ("t", name), (name, name)):
            config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": namespace}}
            put(saver, [thread, namespace], config)
        for thread, namespace in ((name, ""), ("t", name), (name, name)):
            config = {"configurable": {"thread_id": thread, "checkpoint_ns": namespace}}
            [found] = saver.list(config)
            assert found.checkpoint["channel_values"]["words"] == [thread, namespace]
            assert found.config.get("configurable", {})["checkpoint_ns"] == namespace
        assert len(list(saver.list(None))) == 3


@pytest.mark.parametrize("name", ["a" * 900, "new\nline"])
def test_a_name_that_looks_like_a_digest_is_not_anothers(name: str) -> None:
    with Memory("sqlite://") as memory:
        saver = TurnfoldSaver(memory)
        put(saver, ["mine"], {"configurable": {"thread_id": name, "checkpoint_ns": ""}})
        digest = f"digest:{blake2b(name.encode(), digest_size=20).hexdigest()}"
        assert saver.get_tuple({"configurable": {"thread_id": digest}}) is None


def test_names_and_scopes_share_nothing() -> None:
    with Memory("sqlite://", scope="one") as memory:
        put(TurnfoldSaver(memory), ["mine"])
        assert newest_words(TurnfoldSaver(memory, name="other")) == []
        assert newest_words(TurnfoldSaver(memory.awaiting.store, scope="two")) == []
        assert newest_words(TurnfoldSaver(memory.awaiting.store, scope=Scope("one"))) == ["mine"]


def test_what_is_asked_wrongly_is_refused() -> None:
    with Memory("sqlite://") as memory:
        saver = TurnfoldSaver(memory)
        with pytest.raises(InvalidOption, match="thread_id"):
            saver.get_tuple({"configurable": {}})
        for nobody in (
            None,
            "",
            "half a \ud83d pair",
        ):  # "None" would be one thread for all who forgot theirs
            with pytest.raises(InvalidOption, match="thread_id"):
                put(saver, ["x"], {"configurable": {"thread_id": nobody, "checkpoint_ns": ""}})
        with pytest.raises(InvalidOption, match="keep_latest"):
            saver.prune(["t"], strategy="keep_oldest")
        with pytest.raises(InvalidOption, match="must be a list"):
            saver.prune("t")
        config: Any = {"configurable": {"thread_id": "t", "checkpoint_id": "with space"}}
        put(saver, ["x"])
        with pytest.raises(InvalidOption, match="checkpoint id"):
            saver.get_tuple(config)
    with pytest.raises(InvalidOption, match="ainvoke"):
        newest_words(TurnfoldSaver(AsyncMemory("sqlite://")))


def test_versions_go_on_in_the_form_they_came_in() -> None:
    saver: Any = TurnfoldSaver(MemoryStore())
    assert [saver.get_next_version(at, None) for at in (None, 1, 41)] == [1, 2, 42]
    one = "00000000000000000000000000000009.0.8243"
    assert saver.get_next_version(one, None) > one
    assert saver.get_next_version(one, None).startswith("00000000000000000000000000000010.")
