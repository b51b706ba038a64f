"""Documents of the saver that somebody forged, moved or damaged: refused with a typed error, in bounded memory."""

from __future__ import annotations

import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import pytest

pytest.importorskip("langchain", reason="the extra langchain is not installed")

import msgspec
from langgraph.checkpoint.base import empty_checkpoint

from tests.adapters.hostile_checkpoints import (
    Forge,
    Make,
    forge,
    holding,
    msgpack,
    packed,
    put_thread,
    read_thread,
    replaced,
)
from tests.adapters.langgraph_savers import (
    BODIES,
    checkpoint_documents,
    homes_of,
    place_of,
    put_body,
)
from tests.stores.audit import nothing_runs
from turnfold import Memory
from turnfold.adapters.langchain import TurnfoldSaver
from turnfold.adapters.langchain.checkpoints.documents import (
    BodySeal,
    DeltaScript,
    ValueRef,
    Write,
    Writes,
    decoded_size,
)
from turnfold.errors import InvalidRecord
from turnfold.records import Document
from turnfold.runtime import drive

__all__ = ("forge",)


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < limit, f"{peak:,} bytes"


@pytest.mark.parametrize("sealed", [False, True])
def test_a_body_that_unpacks_to_much_more_is_not_unpacked(forge: Forge, *, sealed: bool) -> None:
    packer = zlib.compressobj()
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(64)) + packer.flush()
    assert len(bomb) < 80_000

    def make(home: str, document: Document) -> bytes:
        seal = BodySeal(key=None, max_bytes=1)
        return b"\x01" + seal.seal(bomb, place_of(home, document)) + bomb if sealed else bomb

    saver = forge(make)
    with (
        memory_below(16 << 20),
        pytest.raises(InvalidRecord, match=r"more than 3,145,728.*max_checkpoint_bytes"),
    ):
        read_thread(saver, "t")


def test_differences_that_double_a_value_are_not_applied(forge: Forge) -> None:
    scripts = [DeltaScript(b"00", 0, None, [b"x" * 1024])]
    for step in range(1, 40):
        half = (0, 1024 << (step - 1))
        scripts.insert(
            0, DeltaScript(f"{step:02}".encode(), step, ValueRef(scripts[0].digest), [half, half])
        )
    saver = forge(holding(*scripts))
    with memory_below(32 << 20), pytest.raises(InvalidRecord, match="max_checkpoint_bytes"):
        read_thread(saver, "t")


@pytest.mark.parametrize(
    ("scripts", "told"),
    [
        (
            [DeltaScript(b"a", 1, ValueRef(b"b"), []), DeltaScript(b"b", 1, ValueRef(b"a"), [])],
            "which is not earlier",
        ),
        ([DeltaScript(b"a", 1, ValueRef(b"a"), [])], "which is not earlier"),
        ([DeltaScript(b"a", 0, None, [(0, 5)])], "bytes are missing"),
        ([DeltaScript(b"a", 0, None, [b"x", (-1, 1)])], "bytes are missing"),
        ([DeltaScript(b"a", 1, ValueRef(b"z"), [])], "lacks a value"),
        ([DeltaScript(b"a", -1, None, [])], "cannot be decoded"),
        ([DeltaScript(b"a", 0, None, [b"x"])], "digest"),
    ],
)
def test_differences_that_lead_nowhere_are_refused(
    forge: Forge, scripts: list[DeltaScript], told: str
) -> None:
    with pytest.raises(InvalidRecord, match=told):
        read_thread(forge(holding(*scripts)), "t")


def test_a_new_value_is_not_written_onto_a_circle(forge: Forge) -> None:
    circle = [DeltaScript(b"a", 7, ValueRef(b"b"), []), DeltaScript(b"b", 7, ValueRef(b"a"), [])]
    saver = forge(holding(*circle, kind="msgpack"))
    place, _ = drive(saver._threads.find("t"))
    assert place is not None
    [parent] = drive(saver._storage.all(place.home))
    config: Any = {
        "configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": parent.id}
    }
    checkpoint: Any = {
        **empty_checkpoint(),
        "channel_values": {"x": ["long enough for a difference"] * 40},
        "channel_versions": {"x": 2},
    }
    with pytest.raises(InvalidRecord, match="which is not earlier"):
        saver.put(config, checkpoint, {}, {"x": 2})


def test_few_megabytes_are_not_made_into_millions_of_objects() -> None:
    items = 9 << 19
    body = b"\xdd" + items.to_bytes(4, "big") + b"\x80" * items
    with Memory("sqlite://") as memory:
        put_thread(TurnfoldSaver(memory), "t", "short")
        [home] = homes_of(memory)
        [document] = checkpoint_documents(memory, home)
        digest = blake2b(body, digest_size=16).digest()
        make = holding(DeltaScript(digest, 0, None, [body]), kind="msgpack")
        put_body(memory, home, document, make(home, document))
        saver = TurnfoldSaver(memory, max_checkpoint_bytes=5 << 20)
        with memory_below(24 << 20), pytest.raises(InvalidRecord, match="objects"):
            read_thread(saver, "t")


def test_the_memory_of_a_value_is_estimated_from_above() -> None:
    for value in ([1] * 5000, [{}] * 5000, [[]] * 5000, [{"a": 1.5}] * 5000, ["港口"] * 5000):
        data = packed(value)
        tracemalloc.start()
        made = msgspec.msgpack.decode(data)
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(made) == 5000
        assert size * 0.8 < decoded_size(data, 1 << 40), value[0]
    assert decoded_size(packed([{}] * 5000), 10_000) < 11_000  # and no further than asked


def test_more_than_agreed_is_refused_when_it_is_written() -> None:
    with Memory("sqlite://") as memory:
        saver = TurnfoldSaver(memory, max_checkpoint_bytes=10_000)
        with pytest.raises(InvalidRecord, match=r"channel 'x'.*max_checkpoint_bytes"):
            put_thread(saver, "t", "x" * 10_001)
        assert saver.get_tuple({"configurable": {"thread_id": "t"}}) is None
        put_thread(saver, "t", "x" * 9_000)
        assert read_thread(saver, "t") == "x" * 9_000


# ---------------------------------------------------------------------------------- shape and place


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (replaced(checkpoint=msgpack([1, 2])), "must be a mapping with text keys, got list"),
        (replaced(checkpoint=msgpack({1: 2})), "must be a mapping with text keys, got dict"),
        (replaced(checkpoint=msgpack({"id": "another"})), "another checkpoint, 'another'"),
        (replaced(metadata=msgpack(7)), "metadata.*must be a mapping with text keys, got int"),
        (replaced(id="another"), "holds checkpoint 'another'"),
        (replaced(id="二"), "holds checkpoint"),
        (replaced(namespace="child"), "of namespace 'child'"),
        (lambda *_: b"", "damaged"),
        (lambda *_: b"\x01" + b"0" * 40, "damaged"),
        (lambda *_: b"\x78 is no zlib", "cannot be decompressed"),
        (lambda *_: zlib.compress(b"\xc1"), "cannot be decoded"),
        (lambda *_: zlib.compress(b"\x91" * 90_000), "cannot be decoded"),
        (lambda *_: zlib.compress(b"\x90")[:-1], "cut off"),
        (lambda *_: zlib.compress(b"\x90") + b"more", "trailing bytes"),
    ],
)
def test_a_checkpoint_of_a_wrong_shape_is_refused(forge: Forge, make: Make, told: str) -> None:
    saver = forge(make)
    with nothing_runs(), pytest.raises(InvalidRecord, match=told):
        read_thread(saver, "t")
    put_thread(saver, "good", "fine")
    assert read_thread(saver, "good") == "fine"
    saver.delete_thread("t")
    assert saver.get_tuple({"configurable": {"thread_id": "t"}}) is None


def test_writes_of_another_task_are_refused() -> None:
    with Memory("sqlite://") as memory:
        saver = TurnfoldSaver(memory)
        put_thread(saver, "t", "x")
        [home] = homes_of(memory)
        store, scope = memory.awaiting.store, memory.awaiting.scope
        [document] = drive(store.documents(scope, home, "langgraph-writes"))
        [kept] = checkpoint_documents(memory, home)
        own = BODIES.checkpoint(home, kept)[0].id
        for checkpoint, task in ((own, "another"), ("another", "task")):
            forged = Writes(checkpoint, task, [Write(0, "x", ("null", b""), "")])
            put_body(memory, home, document, BODIES.pack(forged, place_of(home, document)))
            with pytest.raises(InvalidRecord, match="holds writes of task"):
                read_thread(TurnfoldSaver(memory), "t")


def test_ancestors_in_a_circle_are_refused_and_not_walked_for_ever() -> None:
    with Memory("sqlite://") as memory:
        saver = TurnfoldSaver(memory)
        first = put_thread(saver, "t", "one")
        checkpoint: Any = {**empty_checkpoint(), "channel_values": {}, "channel_versions": {}}
        counted: Any = {"counters_since_delta_snapshot": {"y": [1, 1]}}
        second = saver.put(first, checkpoint, counted, {})
        [home] = homes_of(memory)
        newest, oldest = checkpoint_documents(memory, home)
        make = replaced(parent=BODIES.checkpoint(home, newest)[0].id)
        put_body(memory, home, oldest, make(home, oldest))
        fresh = TurnfoldSaver(memory)
        with pytest.raises(InvalidRecord, match="its own ancestor"):
            fresh.get_delta_channel_history(config=second, channels=["y"])
        with pytest.raises(InvalidRecord, match="its own ancestor"):
            fresh.prune(["t"])


def test_a_thread_cannot_be_said_to_live_where_others_do() -> None:
    """Deleting a thread erases its homes: a forged place would erase whatever it names."""
    with Memory("sqlite://") as memory:
        memory.session("precious").user("Keep this. 留下这个。")
        saver = TurnfoldSaver(memory)
        put_thread(saver, "mine", "x")
        put_thread(saver, "other", "y")
        store, scope = memory.awaiting.store, memory.awaiting.scope
        documents = drive(store.documents(scope, "langgraph:threads", "langgraph-thread"))
        homes = {one.key: msgspec.json.decode(one.body)["home"] for one in documents}
        for home, left in (
            ("precious", []),
            (homes["mine"], ["precious"]),
            (homes["other"], []),
            ("langgraph:mine:" + "g" * 32, []),
        ):
            place = {"thread": "mine", "home": home, "left": left}
            body = msgspec.json.encode(place)
            drive(
                store.put_document(
                    scope, "langgraph:threads", Document("langgraph-thread", "mine", body, 0)
                )
            )
            fresh = TurnfoldSaver(memory)
            with pytest.raises(InvalidRecord, match="does not belong to it"):
                read_thread(fresh, "mine")
        fresh.delete_thread("mine")
        assert fresh.get_tuple({"configurable": {"thread_id": "mine"}}) is None
        assert homes["mine"] not in homes_of(memory)
        assert read_thread(fresh, "other") == "y"
        assert [one.message.text for one in memory.session("precious").history()] == [
            "Keep this. 留下这个。"
        ]


# ---------------------------------------------------------------------------------- seals

KEY = b"a secret that is not in the store"


def test_with_a_key_nothing_is_read_that_was_not_written_with_it() -> None:
    with Memory("sqlite://") as memory:
        put_thread(TurnfoldSaver(memory, seal_key=KEY), "t", "sealed 密封")
        assert read_thread(TurnfoldSaver(memory, seal_key=KEY), "t") == "sealed 密封"
        with pytest.raises(InvalidRecord, match="not sealed with this seal_key"):
            read_thread(TurnfoldSaver(memory, seal_key=KEY + b"!"), "t")
        with pytest.raises(InvalidRecord, match="seal_key"):
            read_thread(TurnfoldSaver(memory), "t")
        put_thread(TurnfoldSaver(memory), "open", "not sealed")
        with pytest.raises(InvalidRecord, match="not sealed with this seal_key"):
            read_thread(TurnfoldSaver(memory, seal_key=KEY), "open")


@pytest.mark.parametrize("key", [None, KEY])
def test_a_body_that_was_moved_to_another_document_is_not_read(key: bytes | None) -> None:
    with Memory("sqlite://") as memory:
        saver = TurnfoldSaver(memory, seal_key=key)
        for thread in ("one", "two"):
            put_thread(saver, thread, thread)
        homes = {name.split(":")[1]: name for name in homes_of(memory)}
        [one], [two] = (checkpoint_documents(memory, homes[name]) for name in ("one", "two"))
        put_body(memory, homes["two"], two, one.body)
        with pytest.raises(
            InvalidRecord, match="moved" if key is None else "moved from another place"
        ):
            read_thread(TurnfoldSaver(memory, seal_key=key), "two")
        assert read_thread(TurnfoldSaver(memory, seal_key=key), "one") == "one"


def test_every_changed_bit_of_a_body_is_noticed() -> None:
    with Memory("sqlite://") as memory:
        put_thread(TurnfoldSaver(memory), "t", "x")
        [home] = homes_of(memory)
        [document] = checkpoint_documents(memory, home)
        for at in range(len(document.body)):
            body = bytearray(document.body)
            body[at] ^= 1
            with pytest.raises(InvalidRecord):
                BODIES.checkpoint(home, Document(document.kind, document.key, bytes(body), 0))


def test_a_body_without_a_seal_of_an_earlier_release_is_read_where_no_key_is_given(
    forge: Forge,
) -> None:
    def unsealed(home: str, document: Document) -> bytes:
        kept, _ = BODIES.checkpoint(home, document)
        values = {name: [*msgspec.to_builtins(held)][:3] for name, held in kept.values.items()}
        fields = [*msgspec.to_builtins(kept, builtin_types=(bytes,))]
        old = [*fields[:5], {"x": [1, "msgpack", [kept.values["x"].ref.digest, ""]]}, fields[6]]
        assert len(values["x"]) == 3
        return zlib.compress(msgspec.msgpack.encode(old), 6)

    saver = forge(unsealed)
    assert read_thread(saver, "t") == ["港口 harbour"] * 50
