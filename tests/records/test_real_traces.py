"""Real agents' messages: each is taken, and OpenAI's come out as they went in."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.house.source_tree import ROOT
from turnfold.records import as_message, decode_message, encode_message

DATA = Path(os.environ.get("TURNFOLD_DATA") or ROOT.parent / "shared" / "data") / "traces"
TRACES = sorted(DATA.glob("*.jsonl.gz"))

pytestmark = pytest.mark.skipif(
    not TRACES, reason="no traces: name the folder that holds them in TURNFOLD_DATA"
)


def raw_messages(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            trace = json.loads(line)
            for raw in trace["messages"]:
                yield trace["format"], raw


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name.partition(".")[0])
def test_every_message_of_every_trace_is_kept_whole(path: Path) -> None:
    seen = 0
    for form, raw in raw_messages(path):
        seen += 1
        message = as_message(raw)
        assert as_message(message.model_dump()) == message
        assert decode_message(encode_message(message)) == message
        if form == "openai":
            assert message.model_dump() == raw
        else:
            assert blocks_of(raw) == blocks_of(message.model_dump())
    assert seen > 500


def blocks_of(raw: dict[str, Any]) -> list[tuple[object, ...]]:
    """What a message says, however it is written: texts, thoughts, calls and results in order."""
    content = raw["content"] or []
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    if raw.get("tool_call_id"):
        blocks = [{"type": "tool_result", "tool_use_id": raw["tool_call_id"], "content": content}]
    for call in raw.get("tool_calls", ()):
        arguments = json.loads(call["function"]["arguments"])
        blocks.append(
            {
                "type": "tool_use",
                "id": call["id"],
                "name": call["function"]["name"],
                "input": arguments,
            }
        )
    return [_said(block) for block in blocks]


def _said(block: dict[str, Any]) -> tuple[object, ...]:
    match block["type"]:
        case "text":
            return ("text", block["text"])
        case "thinking":
            return ("thinking", block["thinking"], block.get("signature"))
        case "tool_use":
            return ("call", block["id"], block["name"], json.dumps(block["input"]))
        case "tool_result":
            content = block.get("content")
            if isinstance(content, list) and [part["type"] for part in content] == ["text"]:
                content = content[0]["text"]
            return (
                "result",
                block["tool_use_id"],
                json.dumps(content),
                bool(block.get("is_error")),
            )
        case other:
            return (other, json.dumps(block))
