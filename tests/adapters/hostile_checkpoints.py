"""Stored values that run code when LangGraph's serializer reads them permissively, and exports that hold them."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import ormsgpack
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from tests.adapters.langgraph_savers import (
    BODIES,
    checkpoint_documents,
    homes_of,
    place_of,
    put_body,
)
from turnfold import Memory
from turnfold.adapters.langchain import TurnfoldSaver
from turnfold.adapters.langchain.checkpoints.documents import (
    ChannelValue,
    DeltaScript,
    StoredCheckpoint,
    ValueRef,
)
from turnfold.records import Document
from turnfold.runtime import drive
from turnfold.stores import export_to, import_from

Typed = tuple[str, bytes]
Payload = Callable[[Path], Typed]
PLACES = ("channel", "checkpoint", "metadata", "write")


def object_of(code: int, *parts: object) -> ormsgpack.Ext:
    """An object as LangGraph writes it: an extension that holds module, name and content."""
    return ormsgpack.Ext(code, packed(parts))


def packed(value: object) -> bytes:
    return ormsgpack.packb(value, option=ormsgpack.OPT_NON_STR_KEYS)


def msgpack(value: object) -> Typed:
    return "msgpack", packed(value)


class _Reduced:
    """Runs a program when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[object, ...]:
        return exec, (f"open({str(self.canary)!r}, 'w').close()",)


def _program(canary: Path) -> dict[str, object]:
    return {"args": ["touch", str(canary)]}


def _system(canary: Path) -> ormsgpack.Ext:
    return object_of(0, "os", "system", f"touch {canary}")


def _message(canary: Path) -> ormsgpack.Ext:
    fields = {"content": [_system(canary)], "type": "human"}
    name = ("langchain_core.messages.human", "HumanMessage")
    return object_of(5, *name, fields, "model_validate_json")


def _lc2(canary: Path) -> bytes:
    call = {
        "lc": 2,
        "type": "constructor",
        "id": ["subprocess", "check_call"],
        "kwargs": _program(canary),
    }
    return json.dumps({"x": call}).encode()


PAYLOADS: dict[str, Payload] = {
    "os.system": lambda canary: msgpack(_system(canary)),
    "exec": lambda canary: msgpack(
        object_of(0, "builtins", "exec", f"open({str(canary)!r}, 'w').close()")
    ),
    "eval": lambda canary: msgpack(
        object_of(0, "builtins", "eval", f"open({str(canary)!r}, 'w').close()")
    ),
    "positional": lambda canary: msgpack(
        object_of(1, "subprocess", "check_call", [["touch", str(canary)]])
    ),
    "keywords": lambda canary: msgpack(object_of(2, "subprocess", "check_call", _program(canary))),
    "pydantic 1": lambda canary: msgpack(
        object_of(4, "subprocess", "check_call", _program(canary))
    ),
    "pydantic 2": lambda canary: msgpack(
        object_of(5, "subprocess", "check_call", _program(canary), "model_validate_json")
    ),
    "a class that writes": lambda canary: msgpack(
        object_of(1, "logging", "FileHandler", [str(canary)])
    ),
    "an import": lambda canary: msgpack(object_of(0, _module_beside(canary), "nothing", 1)),
    "in a set": lambda canary: msgpack(object_of(0, "builtins", "set", [_system(canary)])),
    "in a message": lambda canary: msgpack({"messages": [_message(canary)]}),
    "in a snapshot": lambda canary: msgpack(ormsgpack.Ext(7, packed([_system(canary)]))),
    "as a key": lambda canary: msgpack({"x": [[{"y": _system(canary)}]]}),
    "pickle": lambda canary: ("pickle", pickle.dumps(_Reduced(canary))),
    "json": lambda canary: ("json", _lc2(canary)),
}


def _module_beside(canary: Path) -> str:
    """The name of a module whose import makes the canary; its folder is on the path of the test."""
    name = f"imported_{canary.parent.name.replace('-', '_')}"
    (canary.parent / f"{name}.py").write_text(f"open({str(canary)!r}, 'w').close()\n")
    return name


def permissive() -> SerializerProtocol:
    """LangGraph's serializer with everything it can be made to read."""
    return JsonPlusSerializer(
        pickle_fallback=True, allowed_json_modules=True, allowed_msgpack_modules=True
    )


class Forger(SerializerProtocol):
    """Writes a payload wherever the word EVIL is handed over."""

    def __init__(self, payload: Typed, place: str) -> None:
        self._payload, self._place = payload, place
        self._serde = JsonPlusSerializer(allowed_msgpack_modules=None)

    def dumps_typed(self, obj: Any) -> Typed:
        whole = {"checkpoint": "channel_versions", "metadata": "source"}.get(self._place)
        if obj == "EVIL" or (whole and isinstance(obj, dict) and whole in obj):
            return self._payload
        return self._serde.dumps_typed(obj)

    def loads_typed(self, data: Typed) -> Any:
        return self._serde.loads_typed(data)


def forged_export(payload: Typed, place: str) -> bytes:
    """An export of a store with two threads: `good`, and `evil` with a payload at one place."""
    with Memory("sqlite://") as memory:
        put_thread(TurnfoldSaver(memory), "good", "all is well 一切都好")
        put_thread(TurnfoldSaver(memory, serde=Forger(payload, place)), "evil", "EVIL")
        file = BytesIO()
        drive(export_to(memory.awaiting.store, memory.awaiting.scope, file))
        return file.getvalue()


def imported(export: bytes, memory: Memory) -> None:
    drive(import_from(memory.awaiting.store, memory.awaiting.scope, BytesIO(export)))


def put_thread(saver: TurnfoldSaver, thread: str, value: object) -> Any:
    config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    checkpoint: Any = {
        **empty_checkpoint(),
        "channel_values": {"x": value},
        "channel_versions": {"x": 1},
    }
    done = saver.put(config, checkpoint, {"source": "input", "step": 0}, {"x": 1})
    saver.put_writes(done, [("x", value)], "task")
    return done


def read_thread(saver: TurnfoldSaver, thread: str) -> Any:
    found = saver.get_tuple({"configurable": {"thread_id": thread}})
    assert found is not None
    return found.checkpoint["channel_values"]["x"]


# ---------------------------------------------------------------------------------- forged documents

Make = Callable[[str, Document], bytes]
Forge = Callable[[Make], TurnfoldSaver]


@pytest.fixture
def forge() -> Iterator[Forge]:
    """Gives a saver with a small limit over a store in which the body of the one checkpoint was replaced."""
    with Memory("sqlite://") as memory:

        def forged(make: Make) -> TurnfoldSaver:
            put_thread(TurnfoldSaver(memory), "t", ["港口 harbour"] * 50)
            [home] = homes_of(memory)
            document = checkpoint_documents(memory, home)[0]
            put_body(memory, home, document, make(home, document))
            return TurnfoldSaver(memory, max_checkpoint_bytes=1 << 20)

        yield forged


def changed(change: Callable[[StoredCheckpoint], StoredCheckpoint]) -> Make:
    """A body like the saver's own, with a good checksum, of a checkpoint that was changed."""

    def make(home: str, document: Document) -> bytes:
        return BODIES.pack(change(BODIES.checkpoint(home, document)[0]), place_of(home, document))

    return make


def holding(*scripts: DeltaScript, kind: str = "bytes") -> Make:
    """A checkpoint whose value is made of these scripts of its own, beginning with the first."""

    def change(kept: StoredCheckpoint) -> StoredCheckpoint:
        own = [
            msgspec.structs.replace(one, base=ValueRef(one.base.digest, kept.id))
            if one.base
            else one
            for one in scripts
        ]
        values = {"x": ChannelValue(1, kind, ValueRef(scripts[0].digest))}
        return msgspec.structs.replace(kept, scripts=own, values=values)

    return changed(change)


def replaced(**fields: Any) -> Make:
    return changed(lambda kept: msgspec.structs.replace(kept, **fields))
