"""Loading stored bytes never runs code: they are a message, or refused with a typed error, and nothing else happens.

What the decoder is given here, test_hostile_stores.py writes into databases.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.sizes import MUTATED_BODIES
from tests.stores.audit import CodeRan, nothing_runs
from tests.stores.hostile_blobs import HOSTILE_BLOBS, SOUND_BODIES, mutations
from turnfold.errors import TurnfoldError
from turnfold.records import Message, decode_message, encode_message

Decode = Callable[[bytes], object]
DEFAULTS: dict[str, Any] = {
    "name": None,
    "extra": "",
    "labels": "",
    "detail": None,
    "media_type": "application/octet-stream",
    "filename": "",
    "signature": "",
    "redacted": "",
    "provider": "",
    "arguments": "{}",
    "is_error": False,
}


def without_defaults(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: without_defaults(inner)
            for key, inner in value.items()
            if key not in DEFAULTS or inner != DEFAULTS[key]
        }
    return [without_defaults(inner) for inner in value] if isinstance(value, list) else value


def same(message: Message, data: bytes) -> bool:
    """Whether the message says what the bytes say."""
    return without_defaults(json.loads(encode_message(message))) == without_defaults(
        json.loads(data)
    )


def load_all(blobs: list[bytes], decode: Decode = decode_message) -> int:
    """How many blobs were messages; any outcome but a message or a typed error fails."""
    values = 0
    with nothing_runs():
        for data in blobs:
            try:
                message = decode(data)
            except TurnfoldError:
                continue
            assert isinstance(message, Message)
            assert same(message, data), data
            values += 1
    return values


@pytest.mark.parametrize("name", HOSTILE_BLOBS)
def test_a_hostile_blob_is_a_message_or_refused(name: str) -> None:
    decode_message(SOUND_BODIES[0])  # what is loaded on first use is loaded now
    load_all([HOSTILE_BLOBS[name]])


@pytest.mark.parametrize("count", MUTATED_BODIES.values())
def test_so_is_any_mutation_of_a_sound_body(count: int) -> None:
    values = done = 0
    for seed in range(count // 10_000):
        blobs = list(mutations(SOUND_BODIES, 10_000, seed=seed))
        values += load_all(blobs)
        done += len(blobs)
    assert done == count
    assert count // 50 < values < count // 2  # both outcomes were really tried


def test_sound_bodies_are_messages() -> None:
    assert load_all(list(SOUND_BODIES)) == len(SOUND_BODIES)


# ------------------------------------------------------------------------------------------ sabotage


def _unpickled(data: bytes) -> object:
    return pickle.loads(data)  # noqa: S301 (the fault that must be seen)


def _evaluated(data: bytes) -> object:
    return eval(data.decode())  # noqa: S307 (the fault that must be seen)


def _with_fallback(data: bytes) -> object:
    """As the stores of published attacks did it: what is no JSON is tried as a pickle, and errors are swallowed."""
    try:
        return decode_message(data)
    except TurnfoldError:
        try:
            return pickle.loads(data)  # noqa: S301 (the fault that must be seen)
        except Exception:
            return None


def _imported(_data: bytes) -> object:
    sys.modules.pop("colorsys", None)
    return __import__("colorsys")


def _started(_data: bytes) -> object:
    return subprocess.run([sys.executable, "-c", ""], check=False)


@pytest.mark.parametrize(
    ("decode", "event"),
    [
        (_unpickled, "pickle.find_class"),
        (_with_fallback, "pickle.find_class"),
        (_evaluated, "compile"),
        (_imported, "import"),
        (_started, "subprocess.Popen"),
    ],
    ids=["pickle", "fallback", "eval", "import", "process"],
)
def test_a_decoder_that_runs_code_is_caught(decode: Decode, event: str) -> None:
    with pytest.raises(CodeRan, match=event):
        load_all([HOSTILE_BLOBS["pickle 4"] if "pickle" in event else b"1"], decode)


def test_a_decoder_that_changes_what_it_reads_is_caught() -> None:
    def careless(data: bytes) -> Message:
        found = decode_message(data)
        return Message.of(found.role, found.parts)

    with pytest.raises(AssertionError):
        load_all(list(SOUND_BODIES), careless)


def test_the_guard_is_down_afterwards() -> None:
    assert compile("1 + 1", "here", "eval")
