"""A difference, put back, gives the original; and it is small where the original is only written differently."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.records.made_messages import json_values
from tests.sizes import examples
from turnfold.wire import difference, restored


def spelt(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


@given(json_values, json_values)
@examples(100)
def test_any_value_is_restored_from_any_other(base: Any, raw: Any) -> None:
    residue = difference(base, raw)
    assert spelt(restored(base, json.loads(json.dumps(residue)))) == spelt(raw)
    assert bool(residue) == (spelt(base) != spelt(raw))


@pytest.mark.parametrize(
    ("base", "raw", "residue"),
    [
        ("hi", [{"type": "text", "text": "hi"}], {"wrap": {"type": "text"}}),
        ([{"type": "text", "text": "hi"}], "hi", {"text": True}),
        ({"parts": [{"text": "hi"}]}, "hi", {"text": True}),
        ({"a": 1, "b": 2}, {"a": 1, "c": 3}, {"add": {"c": 3}, "del": ["b"]}),
        ([{"a": 1}, 2], [{"a": 1.0}, 2], {"at": {"0": {"at": {"a": {"=": 1.0}}}}}),
        (1, True, {"=": True}),
    ],
)
def test_what_a_difference_looks_like(base: Any, raw: Any, residue: Any) -> None:
    assert difference(base, raw) == residue
    assert spelt(restored(base, residue)) == spelt(raw)


@settings(deadline=None)
@given(st.text(max_size=5), st.sampled_from([{"text": True}, {"at": {"9": {"=": 1}}}]))
def test_a_difference_of_something_else_is_refused(text: str, residue: Any) -> None:
    for base in ([text, text], {"a": text}, text):
        with pytest.raises(
            ValueError, match=r"the original form of a message cannot be rebuilt|invalid literal"
        ):
            restored(base, residue)
