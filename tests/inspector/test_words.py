"""Every label the inspector uses has its Chinese, and no label is there that nothing uses."""

from __future__ import annotations

import ast
import string
from collections.abc import Iterator
from typing import get_args

import pytest

from tests.house.source_tree import ROOT
from turnfold.api import KINDS
from turnfold.rules import RuleKind, RuleState
from turnfold.service.inspector.labels import CHINESE, PageLabels, language_of
from turnfold.service.inspector.page import TABS
from turnfold.tokens import Certainty

SOURCE = sorted((ROOT / "src/turnfold/service/inspector").rglob("*.py"))
COMPUTED = {
    *(set(TABS) - {"memory"}),
    *("added", "removed", "changed"),
    *("kept", "shrunk", "moved", "injected", "folded", "dropped"),
    *(
        "system",
        "user",
        "assistant",
        "tool",
        "tools",
        "window",
        "tail",
        "turn",
        "free",
        "summary",
        "recalled",
    ),
    "reply opening",
    *("neutral", "raw"),
    *(str(each) for each in Certainty),
    *("mixed", "none", "caller"),
    *(kind.title for kind in KINDS),
    *get_args(RuleKind),
    *get_args(RuleState),
}
"""Words that come from the data."""


def used() -> Iterator[str]:
    """Every text in the source; a label is one of them."""
    for path in SOURCE:
        if path.name == "labels.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def asked() -> Iterator[str]:
    """What `words(...)` is called with, where that is written there."""
    for path in SOURCE:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "words":
                first = node.args[0]
                if isinstance(first, ast.Constant):
                    yield str(first.value)


def test_every_label_has_its_chinese() -> None:
    assert len(set(asked())) > 60
    assert set(asked()) - set(CHINESE) == set()
    assert COMPUTED - set(CHINESE) == set()


def test_no_label_is_left_over() -> None:
    assert set(CHINESE) - set(used()) - COMPUTED == set()


@pytest.mark.parametrize("english", CHINESE, ids=lambda each: each[:30])
def test_twins_have_the_same_figures(english: str) -> None:
    def figures(text: str) -> set[tuple[str | None, str | None]]:
        return {(name, form) for _, name, form, _ in string.Formatter().parse(text) if name}

    assert figures(english) == figures(CHINESE[english])
    same = english == "id"  # the term is the same in both languages
    assert same or any("\u4e00" <= sign <= "\u9fff" for sign in CHINESE[english])


def test_one_is_written_in_the_singular() -> None:
    words = PageLabels("en")
    assert words("the newest {shown:,} calls", shown=1) == "the newest 1 call"
    assert words("the newest {shown:,} calls", shown=21) == "the newest 21 calls"
    assert words("{tokens:,} tokens", tokens=1_001) == "1,001 tokens"
    note = "{calls:,} calls have no price: the model is not known, or not in the price list"
    assert words(note, calls=1).startswith("1 call has no price")


def test_a_label_without_its_chinese_would_be_noticed() -> None:
    with pytest.raises(KeyError):
        PageLabels("zh")("a label nobody translated")


@pytest.mark.parametrize(
    ("chosen", "accepted", "language"),
    [
        ("", "", "en"),
        ("zh", "en", "zh"),
        ("", "zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("", "fr,en;q=0.5,zh", "en"),
        ("<script>", "fr", "en"),
    ],
)
def test_which_language_is_spoken(chosen: str, accepted: str, language: str) -> None:
    assert language_of(chosen, accepted) == language
