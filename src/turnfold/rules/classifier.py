"""Scores sentences by tables of weights: how likely a sentence is a standing rule, and of which kind.

The tables are learnt from labelled sentences (`tools/rule_weights.py`). The score is a sum of weights, so the same
sentence always has the same score, and no model is called.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from turnfold.rules.sentence_features import chinese_features, english_features, has_known_word
from turnfold.rules.standing_rule import RuleKind

__all__ = (
    "KINDS",
    "KIND_SCALE",
    "MIDDLE",
    "SCALE",
    "UNKNOWN",
    "WEIGHTS",
    "Language",
    "kind_of",
    "likely_rule",
    "score",
)


Language: TypeAlias = Literal["en", "zh"]
KINDS: tuple[RuleKind, ...] = ("rule", "prohibition", "decision", "preference", "task", "fact")
SCALE = 16
"""The weight for being a rule is stored as a whole number of sixteenths."""
KIND_SCALE, MIDDLE = 8, 79
"""The weight for a kind is stored as a character: code 79 means 0, each step 1/8."""
UNKNOWN = -9.0
"""The score of an English sentence in which no word is known."""
WEIGHTS: dict[Language, Path] = {
    "en": Path(__file__).with_name("weights_en.txt"),
    "zh": Path(__file__).with_name("weights_zh.txt"),
}
"""Files of weights, by language: a line for the bias, then per feature its weight for a rule and for each kind."""
_FEATURES = {"en": english_features, "zh": chinese_features}


@cache
def _table(language: Language) -> dict[str, tuple[int, str]]:
    rows = (line.split("\t") for line in WEIGHTS[language].read_text("utf-8").splitlines())
    return {name: (int(keep), kinds) for name, keep, kinds in rows}


def score(text: str, language: Language) -> float:
    """Return the log-odds that a sentence is a standing rule: above 0 more likely than not; -9 if no word is known."""
    table = _table(language)
    names = set(_FEATURES[language](text))
    rows = [table[name] for name in names if name in table]
    if language == "en" and not has_known_word(text):
        return UNKNOWN
    total = sum(keep for keep, _ in rows) / math.sqrt(len(rows) or 1)
    return (total + table[""][0]) / SCALE


def likely_rule(text: str, *, chinese: bool) -> float:
    """Return the probability that a sentence is a standing rule, 0 to 1."""
    return 1 / (1 + math.exp(-score(text, "zh" if chinese else "en")))


def kind_of(text: str, language: Language) -> RuleKind:
    """Return the most likely kind of a sentence that is a standing rule."""
    table = _table(language)
    rows = [table[name][1] for name in set(_FEATURES[language](text)) if name in table]
    length = math.sqrt(len(rows) or 1)
    bias = table[""][1]
    totals = [
        sum(ord(kinds[number]) - MIDDLE for kinds in rows) / length + ord(bias[number])
        for number in range(len(KINDS))
    ]
    return KINDS[totals.index(max(totals))]
