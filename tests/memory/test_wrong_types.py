"""A value of the wrong type is refused at once, by an error that shows the right call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from turnfold import AsyncMemory, Memory, system, user
from turnfold.errors import InvalidOption, InvalidRecord, TurnfoldError

OPTIONS: dict[str, tuple[dict[str, object], str]] = {
    "budget as a number": ({"budget": 8000}, "budget=Budget(max_tokens=8000)"),
    "budget as text": ({"budget": "8k"}, "budget=Budget(max_tokens=8000)"),
    "model": ({"model": 42}, 'model="gpt-4o"'),
    "scope": ({"scope": 42}, 'scope="tenant-1"'),
    "cache": ({"cache": 42}, 'cache="redis://localhost"'),
    "counter": ({"counter": "gpt-4o"}, 'counter=counter_for("gpt-4o")'),
    "embedder": ({"embedder": "local"}, "embedder=LocalEmbedder()"),
    "strategy": ({"strategy": "oldest"}, "strategy=oldest_first"),
    "threshold": ({"threshold": "75%"}, "threshold=0.75"),
    "keep_turns": ({"keep_turns": "8"}, "keep_turns=8"),
    "rules": ({"rules": "off"}, "rules=False"),
    "meter": ({"meter": 3}, "meter=Meter()"),
    "clock": ({"clock": 3}, "clock="),
    "path": ({"store": Path("chat.db")}, 'Memory("sqlite:///chat.db")'),
    "no store": ({"store": None}, 'Memory("sqlite:///chat.db")'),
    "file name": ({"store": "chat.db"}, '"sqlite:///chat.db"'),
    "Chinese file name": ({"store": "聊天.db"}, '"sqlite:///聊天.db"'),
}


@pytest.mark.parametrize("face", [Memory, AsyncMemory])
@pytest.mark.parametrize("case", OPTIONS)
def test_an_option_of_the_wrong_type(case: str, face: Callable[..., object]) -> None:
    options, right = OPTIONS[case]
    with pytest.raises(InvalidOption) as caught:
        face(**options)
    assert right in str(caught.value)


CALLS: dict[str, tuple[Callable[[Memory], object], str]] = {
    "session by number": (lambda memory: memory.session(cast("str", 42)), "write '42'"),
    "session by None": (lambda memory: memory.session(cast("str", None)), "must be text"),
    "session without a name": (lambda memory: memory.session(""), "1 to"),
    "user": (lambda memory: memory.session("a").user(None), 'user("...")'),
    "system": (lambda memory: memory.session("a").system(None), 'system("...")'),
    "user by itself": (lambda _: user(None), 'user("...")'),
    "system by itself": (lambda _: system(None), 'system("...")'),
    "budget of a call": (
        lambda memory: memory.session("a").context(budget=cast("Any", 900)),
        "budget=Budget(max_tokens=900)",
    ),
    "query": (
        lambda memory: memory.session("a").context(cast("str", 42)),
        "query=42 has the wrong type int",
    ),
    "recall": (
        lambda memory: memory.session("a").recall(cast("str", 42)),
        "query=42 has the wrong type int",
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_an_argument_of_the_wrong_type(case: str) -> None:
    call, right = CALLS[case]
    with Memory() as memory:
        with pytest.raises(TurnfoldError) as caught:
            call(memory)
        assert isinstance(caught.value, InvalidOption | InvalidRecord)
        assert right in str(caught.value)
        assert memory.session("a").history() == []  # nothing was stored


def test_a_password_in_a_store_without_a_scheme_is_not_shown() -> None:
    with pytest.raises(InvalidOption) as caught:
        Memory("me:secret@host/db")
    assert "secret" not in str(caught.value)


def test_a_session_says_what_it_is() -> None:
    with Memory() as memory:
        shown = repr(memory.session("会话"))
    assert shown == "Session('会话', store=sqlite://, scope='default')"
