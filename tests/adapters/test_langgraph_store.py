"""LangGraph's long-term store on turnfold: it does what LangGraph's own does, finds by words, and trusts no row."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from tests.sizes import examples
from turnfold import AsyncMemory, Memory
from turnfold.adapters.langchain import TurnfoldStore
from turnfold.adapters.langchain import item_store as item_store_module
from turnfold.errors import InvalidOption, InvalidRecord, NotFound
from turnfold.records import Document
from turnfold.runtime import drive
from turnfold.stores import list_sessions

LABELS = st.sampled_from(["a", "b", "a/b", "a%2Fb", "%", "用户"])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
KEYS = st.sampled_from(["k", "a/b", "键", "k k"])
VALUES = st.fixed_dictionaries(
    {"n": st.integers(0, 3)}, optional={"tags": st.just(["x"]), "in": st.just({"c": "红"})}
)
PUTS = st.tuples(NAMESPACES, KEYS, st.one_of(st.none(), VALUES)).map(lambda one: PutOp(*one))
FILTERS = st.sampled_from(
    [
        None,
        {"n": 1},
        {"n": {"$gt": 1}},
        {"n": {"$gte": 2}},
        {"n": {"$lt": 2}},
        {"n": {"$lte": 1, "$ne": 0}},
        {"n": {"$eq": 2}, "tags": ["x"]},
        {"in": {"c": "红"}},
        {"tags": ["x"]},
    ]
)
SEARCHES = st.tuples(st.lists(LABELS, max_size=2).map(tuple), FILTERS).map(
    lambda one: SearchOp(*one, limit=1_000)
)
PATHS = st.lists(st.one_of(LABELS, st.just("*")), min_size=1, max_size=2).map(tuple)
CONDITIONS = st.builds(MatchCondition, st.sampled_from(["prefix", "suffix"]), PATHS)
LISTINGS = st.tuples(
    st.lists(CONDITIONS, max_size=2).map(tuple), st.sampled_from([None, 1, 2])
).map(lambda one: ListNamespacesOp(*one, limit=1_000))
GETS = st.tuples(NAMESPACES, KEYS).map(lambda one: GetOp(*one))
BATCHES = st.lists(
    st.lists(st.one_of(PUTS, PUTS, GETS, SEARCHES, LISTINGS), max_size=4), max_size=6
)


def plainly(result: Any) -> object:
    """A result without its times and order, to compare two stores."""
    if isinstance(result, list) and result and hasattr(result[0], "value"):
        return sorted((one.namespace, one.key, json.dumps(one.value)) for one in result)
    if isinstance(result, Item):
        return result.namespace, result.key, result.value
    return result


def live_namespaces(theirs: InMemoryStore, op: ListNamespacesOp) -> list[tuple[str, ...]]:
    """The namespaces of LangGraph's store that have items: it also lists those whose items were all deleted."""
    kept = InMemoryStore()
    for namespace, items in theirs._data.items():
        for item in items.values():
            kept.put(namespace, item.key, item.value)
    return kept.batch([op])[0]  # pyright: ignore[reportReturnType] (a list, for this operation)


@examples(60)
@given(batches=BATCHES)
def test_it_does_what_the_store_of_langgraph_does(batches: list[list[Any]]) -> None:
    theirs = InMemoryStore()
    with Memory("sqlite://") as memory:
        ours = TurnfoldStore(memory)
        for batch in batches:
            spaces = [
                live_namespaces(theirs, op) if isinstance(op, ListNamespacesOp) else None
                for op in batch
            ]
            wanted = [plainly(result) for result in theirs.batch(batch)]
            found = [plainly(result) for result in ours.batch(batch)]
            right = [one if one is not None else wanted[at] for at, one in enumerate(spaces)]
            assert found == right


SPACES = [("a", "x"), ("a", "y"), ("b", "x"), ("b", "x", "v1")]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, SPACES),
        ({"prefix": ("a",)}, SPACES[:2]),
        ({"prefix": ("*", "x")}, [SPACES[0], *SPACES[2:]]),
        ({"suffix": ("x",)}, [SPACES[0], SPACES[2]]),
        ({"suffix": ("x", "*")}, [SPACES[3]]),
        ({"prefix": ("b",), "suffix": ("v1",)}, [SPACES[3]]),
        ({"max_depth": 1}, [("a",), ("b",)]),
        ({"limit": 2, "offset": 1}, SPACES[1:3]),
        ({"prefix": ("a", "x", "v1")}, []),
    ],
)
def test_namespaces_are_listed_by_their_labels(options: Any, wanted: Any) -> None:
    theirs = InMemoryStore()
    with Memory("sqlite://") as memory:
        ours = TurnfoldStore(memory)
        for namespace in SPACES:
            theirs.put(namespace, "k", {})
            ours.put(namespace, "k", {})
        assert ours.list_namespaces(**options) == theirs.list_namespaces(**options) == wanted


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        ({"n": 1}, "1"),
        ({"n": {"$gt": 1}}, "2"),
        ({"n": {"$gte": 1}}, "12"),
        ({"n": {"$lt": 1}}, "0"),
        ({"n": {"$lte": 1}}, "01"),
        ({"n": {"$ne": 1}}, "02"),
        ({"n": {"$eq": 1}}, "1"),
        ({"in": {"even": True}, "n": {"$gt": 0}}, "2"),
    ],
)
def test_filters_compare_as_those_of_langgraph_do(wanted: Any, keys: str) -> None:
    theirs = InMemoryStore()
    with Memory("sqlite://") as memory:
        ours = TurnfoldStore(memory)
        for store in (theirs, ours):
            for number in range(3):
                store.put(("a",), str(number), {"n": number, "in": {"even": number % 2 == 0}})
            assert sorted(one.key for one in store.search(("a",), filter=wanted)) == list(keys)


def test_labels_with_a_slash_are_labels_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def both() -> list[Any]:
        with Memory("sqlite://") as memory:
            store = TurnfoldStore(memory)
            store.put(("a/b",), "k", {"n": 1})
            store.put(("a", "b"), "k", {"n": 2})
            return [store.get(("a/b",), "k"), *store.list_namespaces()]

    item, *namespaces = both()
    assert (item.value, namespaces) == ({"n": 1}, [("a", "b"), ("a/b",)])
    monkeypatch.setattr(item_store_module, "_path_of", "/".join)
    assert both()[0].value == {"n": 2}


def test_items_are_kept_in_a_file_and_their_times_too(tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path}/items.db"
    with Memory(place) as memory:
        store = TurnfoldStore(memory)
        store.put(("ann", "memories"), "food", {"text": "likes lychees"})
        first = store.get(("ann", "memories"), "food")
        store.put(("ann", "memories"), "food", {"text": "likes plums"})
    with Memory(place) as memory:
        item = TurnfoldStore(memory).get(("ann", "memories"), "food")
    assert first is not None
    assert item is not None
    assert (item.value, item.created_at) == ({"text": "likes plums"}, first.created_at)
    assert item.updated_at > first.updated_at


def test_a_query_ranks_by_words_in_both_languages_and_the_others_follow() -> None:
    with Memory("sqlite://") as memory:
        store = TurnfoldStore(memory)
        store.put(("ann",), "food", {"text": "She likes lychees", "about": {"fruit": "荔枝很甜"}})
        store.put(("ann",), "town", {"text": "She lives in Oslo"})
        store.put(("ann",), "secret", {"text": "lychees"}, index=False)
        store.put(("ann",), "title", {"text": "lychees", "title": "plums"}, index=["title"])
        store.put(("bob",), "food", {"text": "lychees"})
        for query, best in (("lychees", "food"), ("荔枝", "food"), ("Oslo", "town")):
            found = store.search(("ann",), query=query)
            assert [one.key for one in found if one.score] == [best]
            assert {one.key for one in found} == {"food", "town", "secret", "title"}
            assert found[0].key == best
        assert [one.key for one in store.search(("ann",), query="plums", limit=1)] == ["title"]
        assert [one.key for one in store.search(("ann",), limit=2, offset=1)] == ["secret", "town"]


def test_what_it_does_not_do_is_refused() -> None:
    with Memory("sqlite://") as memory:
        store = TurnfoldStore(memory)
        with pytest.raises(NotImplementedError, match="TTL"):
            store.put(("a",), "k", {"n": 1}, ttl=5)
        for value in ({"t": (1, 2)}, {1: 2}, {"x": float("nan")}, {"x": object()}, {"x": "\ud83d"}):
            with pytest.raises(InvalidRecord, match="'k'"):
                store.put(("a",), "k", value)  # pyright: ignore[reportArgumentType] (of any caller)
        store.put(("a",), "k", {"n": 1})
        with pytest.raises(InvalidOption, match=r"\$near"):
            store.search(("a",), filter={"n": {"$near": 1}})
        with pytest.raises(InvalidOption, match="limit=-1"):
            store.search(("a",), limit=-1)
        with pytest.raises(InvalidOption, match="labels"):
            store.batch([PutOp((), "k", {"n": 1})])
        with pytest.raises(InvalidOption, match="unknown operation str"):
            store.batch(["put"])  # pyright: ignore[reportArgumentType] (of any caller)
        bad = [PutOp(("b",), "good", {"n": 1}), PutOp(("b",), "bad", {"x": object()})]
        with pytest.raises(InvalidRecord):
            store.batch(bad)
        assert store.get(("b",), "good") is None  # nothing of a batch with a fault was written


def test_a_namespace_that_was_erased_begins_anew() -> None:
    with Memory("sqlite://") as memory:
        store = TurnfoldStore(memory)
        store.put(("ann",), "k", {"n": 1})
        [home] = [
            one.conversation
            for one in memory.conversations(internal=True)
            if one.conversation.startswith("langgraph-store:ann:")
        ]
        memory.delete(home)
        assert store.get(("ann",), "k") is None
        assert store.search(("ann",)) == store.list_namespaces() == []
        store.put(("ann",), "k", {"n": 2})
        found = store.get(("ann",), "k")
        assert found is not None
        assert found.value == {"n": 2}


LONG = "long " * 60
OWN = (("ann",), ("memories", "ann"), ("ann", "food", LONG), ("a%b", "x/y", "ann"), ("ann/x", "y"))
OTHERS = (("bob",), ("memories", "bob"), ("annie",), ("org", "z"))


@pytest.mark.parametrize("name", ["langgraph-store", "own"])
def test_erasing_a_user_erases_the_namespaces_with_this_label(tmp_path: Path, name: str) -> None:
    file = tmp_path / "chat.db"
    with Memory(f"sqlite:///{file}") as memory:
        store = TurnfoldStore(memory, name=name)
        for namespace in (*OWN, *OTHERS):
            store.put(namespace, "k", {"text": f"{namespace[0]} likes lychees 荔枝"})
        memory.session("memories/ann").user("a session of nobody")
        receipt = memory.erase_user("ann")
        assert [each.documents for each in receipt.conversations] == [{"langgraph-item": 1}] * 5
        assert store.list_namespaces() == sorted(OTHERS)
        assert memory.session("memories/ann").status().entries == 1
        assert memory.verify_erasure(receipt).ok
        with pytest.raises(NotFound):
            memory.erase_user("ann")
        store.put(("notes", "ann"), "k", {"text": "again"})
        check = memory.verify_erasure(receipt)
        assert (check.ok, len(check.found)) == (False, 1)
        assert check.found[0].startswith(f"{name}:notes/ann:")
        memory.erase_user("ann")
    left = b"".join(one.read_bytes() for one in tmp_path.iterdir())
    assert b"x%2Fy" not in left
    assert LONG.encode() not in left


def test_deleting_a_session_leaves_what_is_remembered_for_longer() -> None:
    with Memory("sqlite://") as memory:
        memory.session("ann").user("hi")
        TurnfoldStore(memory).put(("ann",), "k", {"n": 1})
        memory.erase_session("ann")
        memory.session("ann/2").user("hi")
        memory.session("ann/2").delete()
        assert TurnfoldStore(memory).get(("ann",), "k") is not None


def test_namespaces_are_not_listed_as_sessions(tmp_path: Path) -> None:
    with Memory(f"sqlite:///{tmp_path / 'chat.db'}") as memory:
        memory.session("s").user("hi")
        TurnfoldStore(memory).put(("ann",), "k", {"n": 1})
        inner = memory.awaiting
        listed = drive(list_sessions(inner.store, inner.scope))
        assert [one.conversation for one in listed] == ["s"]


def test_forged_rows_are_refused_and_the_others_are_read() -> None:
    with Memory("sqlite://") as memory:
        memory.session("precious").user("Keep this. 留下这个。")
        store = TurnfoldStore(memory)
        store.put(("ann",), "k", {"n": 1})
        store.put(("bob",), "k", {"n": 2})
        inner, scope = memory.awaiting.store, memory.awaiting.scope
        for body in (b'{"home": "precious"}', b"[]", b"[" * 100_000, b"\xff", b"{}"):
            forged = Document("langgraph-namespace", "ann", body, 0)
            drive(inner.put_document(scope, "langgraph-store:namespaces", forged))
            for work in (lambda: store.get(("ann",), "k"), lambda: store.put(("ann",), "k", {})):
                with pytest.raises(InvalidRecord):
                    work()
            found = store.get(("bob",), "k")
            assert found is not None
        [home] = [
            one.conversation
            for one in memory.conversations(internal=True)
            if one.conversation.startswith("langgraph-store:bob:")
        ]
        for body in (b'{"value": 5}', b"[]", b'{"value": {}, "created": "x", "updated": "y"}'):
            drive(inner.put_document(scope, home, Document("langgraph-item", "k", body, 0)))
            with pytest.raises(InvalidRecord):
                store.get(("bob",), "k")


def test_writers_at_the_same_time_lose_nothing() -> None:
    async def main() -> None:
        async with AsyncMemory("sqlite://") as memory:
            stores = [TurnfoldStore(memory) for _ in range(4)]
            await asyncio.gather(
                *(
                    store.aput(("new",), f"k{number}{at}", {"n": at})
                    for at, store in enumerate(stores)
                    for number in range(5)
                )
            )
            assert len(await stores[0].asearch(("new",), limit=100)) == 20
            with pytest.raises(InvalidOption, match="TurnfoldStore"):
                stores[0].get(("new",), "k00")

    asyncio.run(main())


@pytest.mark.parametrize("awaited", [False, True])
def test_a_graph_uses_it(awaited: bool) -> None:  # noqa: FBT001
    def remember(state: dict[str, Any], *, store: BaseStore) -> dict[str, Any]:
        store.put(("ann",), "said", {"text": state["text"]})
        return state

    async def aremember(state: dict[str, Any], *, store: BaseStore) -> dict[str, Any]:
        await store.aput(("ann",), "said", {"text": state["text"]})
        return state

    with Memory("sqlite://") as memory:
        store = TurnfoldStore(memory)
        make: Any = StateGraph
        graph = make(dict)
        graph.add_node("remember", aremember if awaited else remember)
        graph.add_edge(START, "remember")
        graph.add_edge("remember", END)
        ready = graph.compile(store=store)
        said = {"text": "我住在北京"}
        asyncio.run(ready.ainvoke(said)) if awaited else ready.invoke(said)
        [item] = store.search((), query="北京")
        assert item.value == said
