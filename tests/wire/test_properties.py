"""The properties of the wire, tried in every run and, marked slow, at length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.wire.properties import PROPERTIES, missing_texts, tried
from turnfold import wire
from turnfold.wire import lint_and_repair as repairing


def name_of(check: Callable[[Any], None]) -> str:
    return check.__name__


@pytest.mark.parametrize("check", PROPERTIES, ids=name_of)
def test_it_holds(check: Callable[[Any], None]) -> None:
    tried(check, 40, same=True)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("check", PROPERTIES, ids=name_of)
def test_it_holds_at_length(check: Callable[[Any], None]) -> None:
    tried(check, 1500, same=False)


ORPHAN = {
    "messages": [
        {"role": "user", "content": "keep me"},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "a", "content": "orphan"}],
        },
    ]
}


def test_a_repair_that_drops_text_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_texts(ORPHAN, wire.repair(ORPHAN, "anthropic")) == []

    def careless(listing: object, notes: object) -> dict[str, object]:
        del listing, notes
        return {"messages": [{"role": "user", "content": "keep me"}]}

    monkeypatch.setitem(repairing._REPAIRS, "anthropic", careless)
    assert missing_texts(ORPHAN, wire.repair(ORPHAN, "anthropic")) == ["orphan"]


def test_a_repair_that_leaves_a_fault_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(repairing._REPAIRS, "anthropic", lambda listing, _: listing.fields)
    left = wire.lint(wire.repair(ORPHAN, "anthropic").payload, "anthropic")
    assert [fault.rule for fault in left] == ["result-called"]
