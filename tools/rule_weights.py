"""Learn `src/turnfold/rules/weights_*.txt` from the sentences of `tests/rules/sentences`.

A sentence is kept if the weights of its features add up to enough, and has the kind whose weights add up to most.
Both are logistic regressions. Talk that lays nothing down is read from the sets of `TURNFOLD_DATA` as well, where
they are present; nothing of them is stored but weights. `make` does not run this: the tables are in the repository.

    python tools/rule_weights.py
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from bench.extract_fidelity import data_folder  # noqa: E402
from tests.rules.generator import TALK, half_of, planted, read_pairs, read_sentences  # noqa: E402
from turnfold.rules.act_classifier import KIND_SCALE, KINDS, MIDDLE, SCALE, WEIGHTS  # noqa: E402
from turnfold.rules.own_words import own_sentences  # noqa: E402
from turnfold.rules.sentence_features import chinese_features, english_features  # noqa: E402

TALK_SETS = {
    "en": {"conversations/memorybank_en": 2000, "traces/tau_bench_openai": 1200},
    "zh": {
        "conversations/memorybank_zh": 2000,
        "conversations/kdconv_zh": 4000,
        "conversations/cmtmedqa_zh": 2000,
    },
}
"""Sets with talk, and how many sentences of each are read at most. Of KdConv only one half of the conversations is."""
TIMES = {"assistant": 4, "passing": 2}
"""How often a sentence of these files counts: they are told to an assistant, alone or amid chatter; most others to
anybody."""
FEATURES = {"en": english_features, "zh": chinese_features}
MOST_FEATURES = 9000
_OWN_VOICE = re.compile(
    r"^(?:my|i'm a|i am a|i live|i prefer|i need|i want|please)\b", re.IGNORECASE
)


def messages(name: str) -> Iterator[str]:
    """Yield what users say in a set; nothing if the set is not there."""
    path = data_folder() / f"{name}.jsonl.gz"
    if not path.exists():
        return
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            read = json.loads(line)
            named = str(read.get("conversation_id", ""))
            if "kdconv" in name and hashlib.md5(named.encode()).digest()[0] % 2 == 0:  # noqa: S324 - a split
                continue
            for message in read["messages"]:
                if message["role"] == "user" and isinstance(message["content"], str):
                    yield message["content"]


def talk(language: str) -> list[str]:
    """Return sentences of real talk that lay nothing down; those that begin like a rule or a fact are left out."""
    found: list[str] = []
    for name, most in TALK_SETS[language].items():
        said = dict.fromkeys(
            s.text for text in messages(name) for s in own_sentences(text) if len(s.text) < 240
        )
        plain = [text for text in said if not _OWN_VOICE.match(text)]
        found += sorted(plain, key=lambda text: hashlib.md5(text.encode()).digest())[:most]  # noqa: S324 - a sample
    return found


def sentences(language: str) -> tuple[list[tuple[str, str]], list[str]]:
    """Return sentences with their kinds ("" if unknown), and sentences that lay nothing down."""
    read = read_sentences("develop", language)
    known = [(text, kind) for kind in KINDS for text in read[kind]]
    done = read_pairs("develop", language, "done")
    known += [(text, "") for pair in read_pairs("develop", language, "change") for text in pair]
    known += [(task, "task") for task, _ in done]
    known += [
        (each.text, each.kind) for each in planted("develop", each=2) if each.language == language
    ]
    other = [*read["none"], *(report for _, report in done)]
    for name, times in TIMES.items():
        told = read_sentences(name, language)
        known += times * [(text, kind) for kind in KINDS for text in told[kind]]
        other += times * told["none"]
    other += [text for text in TALK[language] if half_of(text) == "develop"]
    return [(_own(text), kind) for text, kind in known], [*map(_own, other), *talk(language)]


def _own(text: str) -> str:
    """Return a sentence as it is read: what it quotes is blank."""
    return " ".join(sentence.text for sentence in own_sentences(text)) or text


class Matrix:
    """Rows of features, each row of length 1."""

    def __init__(self, rows: Sequence[set[str]], column: dict[str, int]) -> None:
        found = [[column[name] for name in sorted(row) if name in column] for row in rows]
        self.rows = len(rows)
        self.columns = len(column)
        self.row = np.repeat(np.arange(self.rows), [len(each) for each in found])
        self.column = np.array([name for each in found for name in each])
        self.value = np.array([1 / np.sqrt(len(each)) for each in found for _ in each])

    def dot(self, weights: np.ndarray) -> np.ndarray:
        """Return the score of each row."""
        return np.bincount(self.row, weights=weights[self.column] * self.value, minlength=self.rows)

    def gradient(self, error: np.ndarray) -> np.ndarray:
        """Return the slope of each weight."""
        return np.bincount(
            self.column, weights=error[self.row] * self.value, minlength=self.columns
        )


def fit(
    rows: Matrix, wanted: np.ndarray, *, decay: float = 0.03, rounds: int = 150
) -> tuple[np.ndarray, float]:
    """Return the weights and the bias of a logistic regression (Adam over all rows)."""
    weights = np.zeros(rows.columns + 1)
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for turn in range(1, rounds + 1):
        score = rows.dot(weights[:-1]) + weights[-1]
        error = 1 / (1 + np.exp(-np.clip(score, -30, 30))) - wanted
        slope = np.append(rows.gradient(error) + decay * weights[:-1], error.sum())
        mean = 0.9 * mean + 0.1 * slope
        square = 0.99 * square + 0.01 * slope**2
        step = 0.1 * (1 - turn / (rounds + 20)) / (1 - 0.9**turn)
        weights -= step * mean / (np.sqrt(square / (1 - 0.99**turn)) + 1e-8)
    return weights[:-1], float(weights[-1])


def learn(language: str) -> str:
    """Return the table of a language: a line per feature with its weights, the bias in the first line."""
    known, other = sentences(language)
    rows = [set(FEATURES[language](text)) for text in (*(text for text, _ in known), *other)]
    counts = Counter(name for row in rows for name in row)
    column = {
        name: number for number, name in enumerate(sorted(n for n, c in counts.items() if c > 1))
    }
    kept = np.array([1.0] * len(known) + [0.0] * len(other))
    weights, _ = fit(Matrix(rows, column), kept)
    best = np.argsort(-np.abs(weights))[:MOST_FEATURES]
    names = sorted(np.array(sorted(column))[best])
    column = {str(name): number for number, name in enumerate(names)}
    matrix = Matrix(rows, column)
    keep, bias = fit(matrix, kept)
    named = [number for number, (_, kind) in enumerate(known) if kind]
    positive = Matrix([rows[number] for number in named], column)
    kinds = [
        fit(positive, np.array([float(known[number][1] == each) for number in named]), rounds=80)
        for each in KINDS
    ]
    lines = [_line("", [bias, *(offset for _, offset in kinds)])]
    for name, number in column.items():
        lines.append(_line(name, [keep[number], *(given[number] for given, _ in kinds)]))
    return "".join(lines)


def _line(name: str, values: Sequence[float]) -> str:
    keep, *kinds = values
    signs = [chr(MIDDLE + max(-46, min(46, round(KIND_SCALE * value)))) for value in kinds]
    return f"{name}\t{round(SCALE * keep)}\t{''.join(signs)}\n"


if __name__ == "__main__":
    for language, path in WEIGHTS.items():
        path.write_text(learn(language), "utf-8")
