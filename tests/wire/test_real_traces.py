"""Real agents' conversations, in the format they were held in: the same to the last field, and welcome elsewhere."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.house.source_tree import ROOT
from tests.wire.formats import FORMATS, calls_and_results, canonical, spoken
from turnfold import wire

DATA = Path(os.environ.get("TURNFOLD_DATA") or ROOT.parent / "shared" / "data") / "traces"
TRACES = sorted(DATA.glob("*.jsonl.gz"))
NAMES = {"openai": "openai_chat", "anthropic": "anthropic"}

pytestmark = pytest.mark.skipif(
    not TRACES, reason="no traces: name the folder that holds them in TURNFOLD_DATA"
)


def histories(path: Path) -> Iterator[tuple[str, list[Any]]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            trace = json.loads(line)
            yield NAMES[trace["format"]], trace["messages"]


def name_of(path: Path) -> str:
    return path.name.partition(".")[0]


@pytest.mark.parametrize("path", TRACES, ids=name_of)
def test_every_trace_comes_back_as_it_was(path: Path) -> None:
    refused = 0
    for name, history in histories(path):
        messages = FORMATS[name].accept_all(history)
        exact = FORMATS[name].request(messages, cache=False, repair=False)
        assert canonical(exact.kwargs["messages"]) == canonical(history)
        assert exact.changes == ()
        if wire.lint(history, name):  # what its own provider would refuse is changed, and listed
            sent = FORMATS[name].request(messages, cache=False)
            assert sent.changes
            assert wire.lint(sent.kwargs, name) == ()
            refused += 1
    print(f"{refused} hold something their own provider refuses")  # noqa: T201 - a figure of the report


@pytest.mark.parametrize(
    "one_in",
    [pytest.param(16, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("path", TRACES, ids=name_of)
def test_every_trace_can_go_on_everywhere(path: Path, one_in: int) -> None:
    for number, (name, history) in enumerate(histories(path)):
        if number % one_in:
            continue
        messages = FORMATS[name].accept_all(history)
        said = "".join(spoken(messages))  # one result of several texts may arrive as one text
        for target in FORMATS:
            request = FORMATS[target].request(messages)
            assert wire.lint(request.kwargs, target) == ()
            arrived = FORMATS[target].accept_all(request.kwargs)
            assert "".join(text for text in spoken(arrived) if text != "…") == said
            assert {count for _, count in calls_and_results(arrived)} <= {1}


@pytest.mark.parametrize("path", TRACES[:1], ids=name_of)
def test_the_body_of_a_real_request_in_pieces(path: Path) -> None:
    name, history = next(histories(path))
    kwargs = FORMATS[name].request(FORMATS[name].accept_all(history)).kwargs
    whole = json.dumps(kwargs, ensure_ascii=False, separators=(",", ":")).encode()
    assert b"".join(wire.chunks(kwargs)) == whole
    assert wire.body_bytes(kwargs) == len(whole)
