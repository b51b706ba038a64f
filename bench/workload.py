"""The conversations everything is measured on: one seeded generator, and real traces where they are at hand.

The invented ones are agent transcripts: 20 % of the messages are tool calls and their results, some calls run in
parallel, one result in twenty has about 2,000 tokens, a message has about 65 tokens on average, a share is Chinese.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from bench.contender import Call, Item
from bench.phrases import chinese, english, log_line, record, snippet

__all__ = ("Stretch", "Trace", "seeded_traces", "stretch", "traces", "transcript")

_TOOLS = "search_orders read_file run_query list_issues fetch_page".split()
_TRACE_FILES = ("tau_bench_openai", "tau2_bench_openai", "claude_code_anthropic")


class Trace(NamedTuple):
    """One conversation to replay."""

    source: str
    items: list[Item]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A history to hold, and what is said after it. The newest messages are the same for every size."""

    history: list[Item]
    tail: list[Item]


def transcript(messages: int, *, zh: float = 0.3, seed: int = 7, calls: float = 0.19) -> list[Item]:
    """A system message and about `messages` more; `calls` is the chance of a tool call after a message."""
    random = Random(seed)  # noqa: S311 (repeatable, not secret)
    items = [Item("system", _said(random, zh=0.0, sentences=18))]
    while len(items) <= messages:
        items.append(Item("user", _said(random, zh=zh, sentences=random.randint(1, 3))))
        while random.random() < calls:
            items += _calls(random, len(items))
        items.append(Item("assistant", _said(random, zh=zh, sentences=random.randint(1, 5))))
    return items


@cache
def exchanges(many: int) -> list[tuple[Item, Item]]:
    """Questions with their answers, no tools."""
    items = [item for item in transcript(many * 3, seed=23) if item.text]
    asked = [item for item in items if item.role == "user"]
    answered = [item for item in items if item.role == "assistant"]
    return list(zip(asked, answered, strict=False))[:many]


def stretch(messages: int, *, tail: int, longest: int, zh: float = 0.3) -> Stretch:
    """The last `messages` messages of a conversation of `longest`, and the `tail` that follows.

    More messages than `longest` are the same conversation several times over.
    """
    if messages > longest:
        once = stretch(longest, tail=tail, longest=longest, zh=zh)
        said = once.history[1:]
        return Stretch([once.history[0], *(said * (messages // longest))], once.tail)
    items = _long_conversation(longest + tail + 8, zh)
    end = longest + 1
    while items[end].role != "user":
        end += 1
    start = max(end - messages, 1)
    while items[start].role != "user":
        start += 1
    return Stretch([items[0], *items[start:end]], items[end : end + tail])


def traces(*, sample: int) -> list[Trace]:
    """At most `sample` real traces of each source; invented ones where there are none."""
    named = os.environ.get("TURNFOLD_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    found = [
        trace
        for name in _TRACE_FILES
        for trace in _read(folder / "traces" / f"{name}.jsonl.gz", sample)
    ]
    return found or [_invented(seed) for seed in range(min(max(sample // 40, 6), 16))]


def seeded_traces(zh: float) -> list[Trace]:
    """Three invented conversations of an agent with many tools, about 300 turns and 1,500 messages each."""
    return [
        Trace(f"seeded, {zh:.0%} Chinese", transcript(1_500, zh=zh, seed=seed, calls=0.5))
        for seed in (101, 102, 103)
    ]


def _invented(seed: int) -> Trace:
    """A trace of an agent that calls many tools."""
    messages = Random(seed).randint(60, 900)  # noqa: S311 (repeatable, not secret)
    return Trace("invented", transcript(messages, seed=seed, calls=0.5))


@cache
def _long_conversation(messages: int, zh: float) -> list[Item]:
    return transcript(messages, zh=zh)


def _said(random: Random, *, zh: float, sentences: int) -> str:
    if random.random() < zh:
        return "".join(chinese(random) for _ in range(sentences))
    text = " ".join(english(random) for _ in range(sentences))
    return f"{text}\n{snippet(random)}" if random.random() < 0.1 else text


def _calls(random: Random, number: int) -> Iterator[Item]:
    many = 2 if random.random() < 0.15 else 1
    calls = tuple(
        Call(
            f"call_{number:07}{index}",
            random.choice(_TOOLS),
            json.dumps({"query": english(random)[:40], "limit": random.randrange(1, 50)}),
        )
        for index in range(many)
    )
    yield Item("assistant", "", calls)
    for call in calls:
        yield Item("tool", _result(random), answers=call.id)


def _result(random: Random) -> str:
    long = random.random() < 0.05
    if random.random() < 0.3:
        return "\n".join(log_line(random) for _ in range(55 if long else random.randint(1, 4)))
    rows = [record(random) for _ in range(30 if long else random.randint(1, 2))]
    return json.dumps({"ok": True, "rows": rows}, ensure_ascii=False)


def _read(path: Path, sample: int) -> Iterator[Trace]:
    if not path.exists():
        return
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number == sample:
                return
            messages: list[Mapping[str, Any]] = json.loads(line)["messages"]
            items = [item for message in messages for item in _items(message)]
            yield Trace(path.name.partition(".")[0], items)


def _items(message: Mapping[str, Any]) -> Iterator[Item]:
    """A provider's message as items; thinking is left out, because not every contender can hold it."""
    role, content = str(message["role"]), message.get("content")
    if isinstance(content, list):
        yield from _items_of_blocks(role, content)
        return
    calls = tuple(
        Call(call["id"], call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls") or ()
    )
    text = str(content or "")
    if text or calls or role == "tool":
        yield Item(role, text, calls, str(message.get("tool_call_id") or ""))


def _items_of_blocks(role: str, blocks: Sequence[Mapping[str, Any]]) -> Iterator[Item]:
    for block in blocks:
        if block["type"] == "tool_result":
            yield Item("tool", _flat(block.get("content")), answers=block["tool_use_id"])
    text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
    calls = tuple(
        Call(block["id"], block["name"], json.dumps(block["input"], ensure_ascii=False))
        for block in blocks
        if block["type"] == "tool_use"
    )
    if text or calls:
        yield Item(role, text, calls)


def _flat(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(block.get("text", "")) for block in content)
    return str(content or "")
