"""The body in pieces is the body, whatever is in it and wherever it is cut; and it is never held whole."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records.made_messages import json_values
from tests.sizes import examples
from turnfold import wire
from turnfold.errors import InvalidOption, InvalidRecord
from turnfold.wire import request as streaming

NASTY = '"\\/\b\f\n\r\t\x00\x1f\x7f\u2028é中👩‍👩‍👧𝄞</script>'


def whole(payload: Any) -> bytes:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


@given(json_values | st.dictionaries(st.text(max_size=5), json_values), st.integers(1, 40))
@examples(80)
def test_the_pieces_joined_are_the_compact_json(payload: Any, size: int) -> None:
    pieces = list(wire.chunks(payload, size=size))
    assert b"".join(pieces) == whole(payload)
    assert all(len(piece) == size for piece in pieces[:-1])
    assert all(1 <= len(piece) <= size for piece in pieces)
    assert wire.body_bytes(payload) == len(whole(payload))


@pytest.mark.parametrize("shift", range(12))
def test_a_long_text_may_be_cut_anywhere(shift: int) -> None:
    text = "x" * shift + NASTY * 3000
    payload = {
        "messages": [{"role": "user", "content": text}],
        NASTY * 500: [text, 1.5, None, True],
    }
    assert b"".join(wire.chunks(payload, size=1000 + shift)) == whole(payload)
    assert wire.body_bytes(payload) == len(whole(payload))


def test_a_cut_inside_an_escape_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(text: str, path: str) -> Any:
        del path
        encoded = json.dumps(text, ensure_ascii=False)
        yield from (encoded[at : at + 9].strip("\\") for at in range(0, len(encoded), 9))

    monkeypatch.setattr(streaming, "_text", careless)
    payload = [NASTY * 20]
    assert b"".join(wire.chunks(payload)) != whole(payload)


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        ({"a": ["\ud800"]}, "a[0]"),
        ({"a": "x" * 5000 + "\udc00"}, "a"),
        ({"\ud800": 1}, ""),
        ({"a": float("nan")}, "a"),
        ([{"b": float("inf")}], "[0].b"),
        ({"a": b"bytes"}, "a"),
        ({"a": {1: 2}}, "a"),
    ],
)
def test_what_has_no_json_form_is_refused_with_its_place(payload: Any, path: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        list(wire.chunks(payload))
    assert caught.value.path == path
    with pytest.raises(InvalidRecord):
        wire.body_bytes(payload)


def test_nesting_without_end_is_refused() -> None:
    payload: Any = []
    for _ in range(5000):
        payload = [payload]
    with pytest.raises(InvalidRecord, match="nested deeper"):
        wire.body_bytes(payload)


@pytest.mark.parametrize("size", [0, -1])
def test_a_piece_holds_at_least_a_byte(size: int) -> None:
    with pytest.raises(InvalidOption):
        wire.chunks({}, size=size)


def extra_memory(payload: Any) -> int:
    """The most that writing the payload holds at once, beside the payload."""
    tracemalloc.start()
    try:
        for _ in wire.chunks(payload):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_extra_memory_does_not_grow_with_the_body() -> None:
    block = "0123456789 中文文本 \n" * 100
    small = {"messages": [{"role": "user", "content": block}] * 200}
    large = {"messages": [{"role": "user", "content": block}] * 2000, "one": block * 1000}
    assert wire.body_bytes(large) > 7_000_000
    peaks = extra_memory(small), extra_memory(large)
    print(f"extra memory for {wire.body_bytes(large):,} bytes: {peaks[1]:,}")  # noqa: T201 - a figure of the report
    assert max(peaks) < 600_000
