"""The options of a memory: what is refused, and how a user reads them in the docstring and in `repr`."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from turnfold import AsyncMemory, Budget, InvalidOption, Memory
from turnfold.errors import UnknownModel
from turnfold.memory import ExtractiveWriter, FoldMode
from turnfold.service import ServiceOptions, make_state
from turnfold.stores import MemoryStore
from turnfold.window import Choice, Room, SpanView

KINDS = [Memory, AsyncMemory]
OPTIONS = [name for name in inspect.signature(Memory).parameters if name != "store"]
MODES = ("inline", "background", "manual")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", MODES)
def test_fold_has_three_modes(kind: type[Any], mode: str) -> None:
    for given in (mode, FoldMode(mode)):
        memory = kind(MemoryStore(), fold=given)
        assert f"fold={mode!r}" in repr(memory)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given", ["sometimes", "", "INLINE", True, 1, []], ids=repr)
def test_another_mode_is_refused_and_the_three_are_named(kind: type[Any], given: object) -> None:
    with pytest.raises(InvalidOption) as refused:
        kind(MemoryStore(), fold=given)
    assert str(refused.value).startswith(f"fold={given!r} is not one of ")
    assert all(repr(mode) in str(refused.value) for mode in MODES)


def test_a_service_refuses_another_mode_too() -> None:
    with pytest.raises(InvalidOption, match="fold='sometimes' is not one of"):
        make_state(ServiceOptions(fold="sometimes"))


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_mode_nobody_waits_for_a_model(kind: type[Any]) -> None:
    memories = [kind(MemoryStore()), kind(MemoryStore(), summarizer=lambda prompt: prompt)]
    assert ["fold='inline'" in repr(each) for each in memories] == [True, False]
    assert ["fold='background'" in repr(each) for each in memories] == [False, True]


def test_manual_waits_for_fold_and_inline_does_not() -> None:
    made: dict[str, int] = {}
    for mode in ("manual", "inline"):
        with Memory("sqlite://", budget=Budget(max_tokens=600), fold=mode, keep_turns=1) as memory:
            session = memory.session("talk")
            for number in range(30):
                session.user(f"问题 {number}: where is parcel {number}? " * 3)
                session.assistant("On its way. 在路上。")
                session.context()
            made[mode] = len(session.checkpoints())
            if mode == "manual":
                assert session.fold() is not None
    assert made["manual"] == 0
    assert made["inline"] > 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("option", ["store", *OPTIONS])
def test_the_docstring_names_every_option(kind: type[Any], option: str) -> None:
    described = inspect.getdoc(kind) or ""
    listed = [line for line in described.splitlines() if line.startswith("- ")]
    assert any(f"`{option}`" in line.partition(": ")[0] for line in listed), option


@pytest.mark.parametrize("kind", KINDS)
def test_repr_lists_every_option_in_the_order_of_the_constructor(kind: type[Any]) -> None:
    memory = kind(MemoryStore())
    text = repr(memory)
    assert text.startswith(f"{kind.__name__}(<MemoryStore>, cache=None, scope='default', ")
    # Without the values of options that are objects themselves: a budget has shares, and one of them is for recall.
    flat = re.sub(r"(?<=\w)\((?:[^()]|\([^()]*\))*\)", "", text.removeprefix(kind.__name__)[1:-1])
    places = [f" {flat}".find(f" {option}=") for option in OPTIONS]
    assert -1 not in places
    assert places == sorted(places)
    assert f"summarizer=<{ExtractiveWriter.__name__}>" in text
    assert text.endswith("meter=<Meter>, clock=None)")


class Client:
    """A model's client with a key in its `repr`, as some have."""

    name = "my-model"
    dimensions = 4

    def __repr__(self) -> str:
        return "Client(api_key='sk-secret')"

    def __call__(self, view: SpanView, room: Room) -> Choice:
        raise NotImplementedError

    async def write(self, task: object, runtime: object) -> str:
        raise NotImplementedError


def test_repr_shows_values_and_no_secret() -> None:
    memory = Memory(
        "sqlite://",
        cache="redis://me:secret@cache:6379/0",
        scope="租户",
        model="gpt-4o",
        budget=Budget(max_tokens=700),
        summarizer=Client(),
        threshold=0.5,
        strategy=Client(),
        clock=lambda: 1,
    )
    text = repr(memory)
    memory.close()
    assert "secret" not in text
    assert text.startswith(
        "Memory('sqlite://', cache='redis://me:***@cache:6379/0', scope='租户', model='gpt-4o', "
        "budget=Budget(context_window=0, reserve_ratio=0.25, max_tokens=700, "
    )
    assert "summarizer=<Client 'my-model'>, fold='background', threshold=0.5, " in text
    assert "strategy=<Client>, meter=<Meter>, clock=<lambda>)" in text


@pytest.mark.parametrize("wrong", [{"scope": ""}, {"fold": "never"}, {"model": "nobody-knows-it"}])
def test_a_refused_option_leaves_no_file(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises((InvalidOption, UnknownModel)):
        Memory(f"sqlite:///{tmp_path / 'chat.db'}", **wrong)
    assert list(tmp_path.iterdir()) == []
