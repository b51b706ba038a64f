"""How good the token estimate is: its figures for every class of message and every vocabulary.

    python bench/fit_estimate.py              the figures, from TURNFOLD_DATA or ../shared/data
    python bench/fit_estimate.py --tables     are the tables of `familiar` what the vocabularies say?

`under` is the share of messages estimated below their true count, `mean` the average of estimate over
truth of the single messages, `sum` the estimate of all over the truth of all, `low` the worst message.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from splintr import AnyTokenizer, Tokenizer

from turnfold.tokens import (
    CL100K_LIKE,
    ENVELOPE,
    MODERN,
    SINGLE_DIGITS,
    EstimateProfile,
    estimate_text,
)
from turnfold.tokens import estimate_profile as familiar

SHOWN = (
    (MODERN, "o200k_base"),
    (MODERN, "llama3"),
    (MODERN, "deepseek_v3"),
    (MODERN, "qwen3"),
    (MODERN, "gemma3"),
    (SINGLE_DIGITS, "qwen3"),
    (SINGLE_DIGITS, "gemma3"),
    (CL100K_LIKE, "cl100k_base"),
    *(
        (ENVELOPE, name)
        for name in ("cl100k_base", "o200k_base", "gemma3", "mistral_v3", "kimi_k2")
    ),
)
AGREEING = ("o200k_base", "llama3", "qwen3", "deepseek_v3", "gemma3", "glm4", "kimi_k2")
HAN = "[\u4e00-\u9fff]"


def data_folder() -> Path:
    named = os.environ.get("TURNFOLD_DATA")
    return Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def conversation_texts(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted((folder / "conversations").glob("*.jsonl.gz")):
        for conversation in lines(path):
            for message in conversation["messages"]:
                yield path.name.partition(".")[0], message["content"]


def openai_texts(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted((folder / "traces").glob("*_openai.jsonl.gz")):
        family = path.name.partition("_")[0]
        for trace in lines(path):
            for message in trace["messages"]:
                kind = "result" if message["role"] == "tool" else message["role"]
                yield f"{family} {kind}", message.get("content") or ""
                for call in message.get("tool_calls") or ():
                    yield f"{family} call", call["function"]["arguments"]


def anthropic_texts(folder: Path) -> Iterator[tuple[str, str]]:
    for trace in lines(folder / "traces" / "claude_code_anthropic.jsonl.gz"):
        for message in trace["messages"]:
            content = message["content"]
            for block in (
                [{"type": "text", "text": content}] if isinstance(content, str) else content
            ):
                kind = block["type"]
                if kind in {"text", "thinking"}:
                    yield f"coding {kind}", block[kind]
                elif kind == "tool_use":
                    yield "coding call", json.dumps(block["input"], ensure_ascii=False)
                elif kind == "tool_result":
                    parts = block["content"]
                    for part in [{"text": parts}] if isinstance(parts, str) else parts:
                        yield "coding result", part.get("text", "")


def is_mixed(text: str) -> bool:
    """Chinese and English together, neither a mere trace."""
    return len(re.findall(HAN, text)) >= 4 and len(re.findall("[A-Za-z]{2,}", text)) >= 2


@cache
def messages_by_class(folder: Path) -> dict[str, list[str]]:
    """The distinct messages of each class; two further classes join or pick Chinese and English."""
    classes: dict[str, dict[str, None]] = {}
    for source in (conversation_texts, openai_texts, anthropic_texts):
        for name, text in source(folder):
            if text:
                classes.setdefault(name, {})[text] = None
    found = {name: list(texts) for name, texts in classes.items()}
    found["zh-en mixed"] = [text for texts in classes.values() for text in texts if is_mixed(text)]
    pairs = zip(found["memorybank_zh"], found["memorybank_en"], strict=False)
    found["zh-en joined"] = [f"{chinese} {english}" for chinese, english in pairs]
    return found


@cache
def tokenizer(name: str) -> AnyTokenizer:
    return Tokenizer.from_pretrained(name)


def figures(
    texts: list[str], *, vocabulary: str, profile: EstimateProfile
) -> tuple[float, float, float, float]:
    """Share under, mean ratio, ratio of sums, lowest ratio."""
    count = tokenizer(vocabulary).encode_ordinary
    pairs = [(estimate_text(text, profile=profile), len(count(text))) for text in texts]
    ratios = [estimate / true for estimate, true in pairs]
    under = sum(estimate < true for estimate, true in pairs) / len(pairs)
    sums = sum(estimate for estimate, _ in pairs) / sum(true for _, true in pairs)
    return under, sum(ratios) / len(ratios), sums, min(ratios)


def show_figures(folder: Path) -> None:
    classes = messages_by_class(folder)
    for profile, vocabulary in SHOWN:
        print(f"\n{profile.name} against {vocabulary}")
        print(f"{'class':16} {'messages':>8} {'under':>7} {'mean':>6} {'sum':>6} {'low':>5}")
        for name, texts in classes.items():
            under, mean, sums, low = figures(texts, vocabulary=vocabulary, profile=profile)
            print(f"{name:16} {len(texts):8} {under:7.2%} {mean:6.3f} {sums:6.3f} {low:5.2f}")


@cache
def entries(vocabulary: str) -> dict[str, int]:
    """What a vocabulary holds as one token, and under which number."""
    known = tokenizer(vocabulary)
    found: dict[str, int] = {}
    for number in range(known.vocab_size):
        try:
            found[known.decode_token_bytes(number).decode()] = number
        except ValueError:  # not a token, or part of a character
            continue
    return found


def derived_tables() -> dict[str, frozenset[str]]:
    """The tables of `familiar`, from the vocabularies themselves."""
    shared = set.intersection(*(set(entries(name)) for name in AGREEING))
    holders = Counter(entry for name in AGREEING for entry in entries(name))
    both = entries("o200k_base").keys() & entries("llama3").keys()
    characters = frozenset(
        entry for entry in both if holders[entry] >= 5 and re.fullmatch(HAN, entry)
    )
    order = entries("o200k_base")
    words = sorted(filter(re.compile(" [A-Za-z][a-z]+").fullmatch, shared), key=order.__getitem__)
    weights: defaultdict[str, float] = defaultdict(float)
    for place, word in enumerate(words):
        ends = f"^{word[1:].lower()}$"
        for at in range(len(ends) - 2):
            weights[ends[at : at + 3]] += 1 / (place + 10)
    print(f"{len(words):,} shared Latin words hold {len(weights):,} letter triples")
    return {
        "HAN_CHARACTERS": characters,
        "HAN_CORE": characters & frozenset(entries("cl100k_base")),
        "HAN_WORDS": frozenset(entry for entry in shared if re.fullmatch(HAN * 2, entry)),
        "LETTER_TRIPLES": frozenset(sorted(weights, key=weights.__getitem__, reverse=True)[:3_000]),
    }


def show_tables() -> bool:
    agree = True
    for name, derived in derived_tables().items():
        written: frozenset[str] = getattr(familiar, name)
        agree = agree and derived == written
        print(f"{name:16} {len(written):5} written, {len(derived):5} derived,", end=" ")
        print("equal" if derived == written else f"{len(derived ^ written)} differ")
    return agree


def main() -> int:
    parser = argparse.ArgumentParser(description="How good the token estimate is.")
    parser.add_argument("--tables", action="store_true", help="derive the tables of `familiar`")
    if parser.parse_args().tables:
        return 0 if show_tables() else 1
    folder = data_folder()
    if not folder.is_dir():
        print(f"no conversations in {folder}; name their folder in TURNFOLD_DATA", file=sys.stderr)
        return 1
    show_figures(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
