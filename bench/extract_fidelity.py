"""How many hard facts the extractive summary keeps, beside the two cuts that cost nothing.

Each conversation is folded to a share of its own tokens three ways: the extractive summary, its
first tokens, its last tokens. The figure is the mean share of the conversation's distinct hard
facts that the result still states. System messages are left out, because a fold never covers them.

    PYTHONPATH=src python bench/extract_fidelity.py [--sample 100] [--speed]
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from splintr import Tokenizer

from turnfold.fold import Passage, check_fidelity, extract_summary
from turnfold.text import cut_to_fit

SETS = (
    "conversations/cmtmedqa_zh",
    "conversations/kdconv_zh",
    "conversations/memorybank_zh",
    "conversations/memorybank_en",
    "conversations/locomo",
    "traces/tau_bench_openai",
    "traces/tau2_bench_openai",
    "traces/claude_code_anthropic",
)
SHARES = (0.1, 0.2)
Count = Callable[[str], int]


def data_folder() -> Path:
    named = os.environ.get("TURNFOLD_DATA")
    return Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"


def read_set(name: str, sample: int) -> Iterator[list[Passage]]:
    path = data_folder() / f"{name}.jsonl.gz"
    if not path.exists():
        raise SystemExit(
            f"{path} is absent: set TURNFOLD_DATA to the folder that holds the conversations"
        )
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number == sample:
                return
            yield passages_of(json.loads(line)["messages"])


def passages_of(messages: list[dict[str, Any]]) -> list[Passage]:
    spoken = [
        piece
        for message in messages
        if message["role"] != "system"
        for piece in spoken_pieces(message)
    ]
    return [Passage(speaker, text, position) for position, (speaker, text) in enumerate(spoken)]


def spoken_pieces(message: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The texts of a message in either provider's shape, each with its speaker."""
    role = str(message["role"])
    content = message.get("content")
    if isinstance(content, str) and content.strip():
        yield (f"tool:{message['name']}" if role == "tool" and "name" in message else role), content
    for block in cast("list[dict[str, Any]]", content if isinstance(content, list) else []):
        if block["type"] == "text":
            yield role, str(block["text"])
        elif block["type"] == "tool_use":
            yield role, f"{block['name']} {json.dumps(block['input'], ensure_ascii=False)}"
        elif block["type"] == "tool_result":
            yield "tool", flat_result(block.get("content"))
    for call in cast("list[dict[str, Any]]", message.get("tool_calls") or []):
        yield role, f"{call['function']['name']} {call['function']['arguments']}"


def flat_result(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = cast("list[dict[str, Any]]", content or [])
    return "\n".join(str(block.get("text", "")) for block in blocks)


def last_tokens(text: str, *, limit: int, count: Count) -> str:
    return cut_to_fit(text[::-1], limit=limit, count=lambda part: count(part[::-1]))[::-1]


def kept_shares(passages: list[Passage], share: float, count: Count) -> tuple[float, float, float]:
    whole = "\n".join(f"{p.speaker}: {p.text}" for p in passages)
    limit = max(16, int(share * count(whole)))
    results = (
        extract_summary(passages, limit=limit, count=count),
        cut_to_fit(whole, limit=limit, count=count),
        last_tokens(whole, limit=limit, count=count),
    )
    for result in results:
        assert count(result) <= limit
    extract, first, last = (check_fidelity(passages, result).score for result in results)
    return extract, first, last


def print_table(sample: int, count: Count) -> None:
    print(f"{'set':32} {'limit':>6} {'n':>4} {'extract':>8} {'first':>8} {'last':>8}")
    for name in SETS:
        conversations = list(read_set(name, sample))
        for share in SHARES:
            rows = [kept_shares(passages, share, count) for passages in conversations]
            means = [sum(row[column] for row in rows) / len(rows) for column in range(3)]
            figures = " ".join(f"{mean:8.3f}" for mean in means)
            print(f"{name:32} {share:6.0%} {len(rows):4} {figures}", flush=True)


def print_speed(count: Count) -> None:
    """Seconds to fold one megabyte of each set into 2,000 tokens."""
    for name in SETS:
        passages = megabyte_of(name)
        size = sum(len(p.text.encode()) for p in passages)
        start = time.perf_counter()
        summary = extract_summary(passages, limit=2000, count=count)
        folded = time.perf_counter()
        check_fidelity(passages, summary)
        checked = time.perf_counter()
        print(
            f"{name:32} {size:>9,} B  fold {folded - start:5.2f} s  check {checked - folded:5.2f} s"
        )


def megabyte_of(name: str) -> list[Passage]:
    texts: list[Passage] = []
    size = 0
    for passages in read_set(name, -1):
        for passage in passages:
            texts.append(Passage(passage.speaker, passage.text, len(texts)))
            size += len(passage.text.encode())
            if size >= 1_000_000:
                return texts
    return texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=100, help="conversations per set (-1: all)")
    parser.add_argument(
        "--speed", action="store_true", help="time one megabyte of each set instead"
    )
    options = parser.parse_args()
    encode = Tokenizer.from_pretrained("o200k_base").encode_ordinary

    def count(text: str) -> int:
        return len(encode(text))

    if options.speed:
        print_speed(count)
    else:
        print_table(options.sample, count)


if __name__ == "__main__":
    main()
