"""A graph's checkpoints that somebody forged: no code runs, no memory is filled, and the rest can still be read.

The payloads are proved live: with LangGraph's permissive serializer put back, each of them does run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain", reason="the extra langchain is not installed")

import numpy as np
import ormsgpack
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from tests.adapters.hostile_checkpoints import (
    PAYLOADS,
    PLACES,
    forged_export,
    imported,
    msgpack,
    object_of,
    packed,
    permissive,
    read_thread,
)
from tests.stores.audit import nothing_runs
from turnfold import Memory
from turnfold.adapters.langchain import TurnfoldSaver
from turnfold.adapters.langchain.checkpoints.serializer import StrictSerializer, safe_names
from turnfold.errors import InvalidRecord

KNOWN = {"numpy", *(module for _, module, _ in safe_names())}
"""Modules of the types that the saver rebuilds; their names come from its own table."""


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is there once code of a payload ran."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "canary"


# ---------------------------------------------------------------------------------- code


@pytest.mark.parametrize("name", PAYLOADS)
def test_each_payload_runs_when_it_is_read_as_langgraph_does(name: str, canary: Path) -> None:
    made = permissive().loads_typed(PAYLOADS[name](canary))
    for handler in [made] if name == "a class that writes" else []:
        handler.close()
    assert canary.exists()


@pytest.mark.parametrize("name", PAYLOADS)
def test_no_payload_runs_when_the_saver_reads_it(name: str, canary: Path) -> None:
    payload = PAYLOADS[name](canary)
    with nothing_runs(), pytest.raises(InvalidRecord):
        StrictSerializer().loads_typed(payload)
    assert not canary.exists()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ["os.system", "in a message", "pickle", "json"])
def test_an_import_cannot_run_code_and_hides_nothing_else(
    name: str, place: str, canary: Path
) -> None:
    export = forged_export(PAYLOADS[name](canary), place)
    with Memory("sqlite://") as memory:
        imported(export, memory)
        saver = TurnfoldSaver(memory)
        assert read_thread(saver, "good") == "all is well 一切都好"
        evil: Any = {"configurable": {"thread_id": "evil"}}
        with nothing_runs():
            for read in (
                lambda: saver.get_tuple(evil),
                lambda: list(saver.list(evil)),
                lambda: list(saver.list(None)),
            ):
                with pytest.raises(InvalidRecord):
                    read()
            assert read_thread(saver, "good") == "all is well 一切都好"
        saver.delete_thread("evil")
        assert saver.get_tuple(evil) is None
        assert [read_thread(saver, "good")] == ["all is well 一切都好"]
        assert len(list(saver.list(None))) == 1
    assert not canary.exists()


def test_sabotage_with_the_permissive_serializer_the_same_import_runs_code(canary: Path) -> None:
    export = forged_export(PAYLOADS["os.system"](canary), "channel")
    with Memory("sqlite://") as memory:
        imported(export, memory)
        read_thread(TurnfoldSaver(memory, serde=JsonPlusSerializer()), "evil")
    assert canary.exists()


def test_the_error_names_the_type_and_the_option(canary: Path) -> None:
    with pytest.raises(InvalidRecord, match=r"os\.system.*allowed_types"):
        StrictSerializer().loads_typed(PAYLOADS["os.system"](canary))


@pytest.mark.parametrize(
    "stored",
    [
        msgpack(object_of(3, "pathlib", "Path", "x", "touch")),
        msgpack(object_of(3, "datetime", "datetime", "x", "strptime")),
        msgpack(object_of(3, "datetime", "datetime", 5, "fromisoformat")),
        msgpack(object_of(0, "pathlib", "Path", ["x"])),
        msgpack(object_of(1, "re", "compile", ["a", 128])),  # prints what it compiles
        msgpack(object_of(1, "re", "compile", ["(" * 5000, 0])),
        msgpack(object_of(0, "zoneinfo", "ZoneInfo", "../../etc/passwd")),
        msgpack(
            object_of(0, "zoneinfo", "ZoneInfo", "os.path/x")
        ),  # would import tzdata.zoneinfo.os.path
        msgpack(object_of(0, "uuid", "UUID", "nonsense")),
        msgpack(object_of(0, "builtins", "set", [{}])),
        msgpack(object_of(2, "datetime", "time", {"nonsense": 1})),
        msgpack(object_of(2, "langgraph.types", "Command", {"nonsense": 1})),
        msgpack(object_of(0, "langgraph.types", "Command", "x")),
        msgpack(object_of(1, "langgraph.types", "interrupt", ["x"])),
        msgpack(object_of(5, "langchain_core.messages.human", "HumanMessage", {1: 2}, "")),
        msgpack(object_of(5, "langchain_core.messages.human", "HumanMessage", 5, "")),
        msgpack(object_of(5, "langchain_core.messages.human", "HumanMessage")),
        msgpack(object_of(0, 5, 6, 7)),
        msgpack(object_of(99, "a", "b", "c")),
        msgpack(object_of(6, "|O", [1], "C", b"12345678")),
        msgpack(object_of(6, "<i8", [1 << 60], "C", b"12345678")),
        msgpack(object_of(6, "<i8", [-1, -1], "C", b"12345678")),
        msgpack(object_of(6, "<i8", ["x"], "C", b"12345678")),
        msgpack(object_of(6, "<i8", ["x" * 1000, 1 << 40], "C", b"12345678")),
        msgpack(object_of(6, "<i8", [1 << 62] * 1000, "C", b"12345678")),
        ("msgpack", b"\xc7\x00\x00"),
        ("msgpack", b"\xdd\xff\xff\xff\xff"),
        ("msgpack", b""),
        ("msgpack", b"\xc1"),
        ("nonsense", b""),
    ],
    ids=str,
)
def test_what_is_no_value_is_refused_with_a_typed_error(stored: tuple[str, bytes]) -> None:
    assert np.__version__  # loaded: only what a payload asks for is to be seen
    with nothing_runs(modules=KNOWN), pytest.raises(InvalidRecord):
        StrictSerializer().loads_typed(stored)


def test_a_stored_message_of_wrong_types_is_data_and_nothing_else() -> None:
    """As LangGraph does: a program may have made such a message, and gets it back."""
    fields = {"content": 5, "additional_kwargs": "x", "type": "human"}
    name = ("langchain_core.messages.human", "HumanMessage")
    with nothing_runs(modules=KNOWN):
        made: Any = StrictSerializer().loads_typed(msgpack(object_of(5, *name, fields, "")))
    assert (type(made), made.content) == (HumanMessage, 5)


# ---------------------------------------------------------------------------------- depth and size


def tower(levels: int, brackets: int) -> bytes:
    """Objects inside one another, each with so many brackets around what it holds."""
    data = b"\x01"
    for _ in range(levels):
        data = packed(ormsgpack.Ext(7, b"\x91" * brackets + data))
    return data


@pytest.mark.parametrize(
    "data",
    [b"\x91" * 100_000 + b"\x01", tower(3_000, 0), tower(150, 0), tower(60, 900), tower(99, 300)],
    ids=["brackets", "objects", "just too many objects", "both", "more of both"],
)
def test_nesting_is_refused_and_does_not_overflow_the_stack(data: bytes) -> None:
    with pytest.raises(InvalidRecord, match="nested"):
        StrictSerializer().loads_typed(("msgpack", data))


def test_reasonable_nesting_is_read() -> None:
    assert StrictSerializer().loads_typed(("msgpack", tower(20, 3))) is not None
