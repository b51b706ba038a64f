"""Errors of counts have the right sign, and what reaches a tokenizer is heard, ours and the raw one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.contender import Contender, Item
from bench.counted import _errors, texts_by_kind
from bench.heard import heard
from bench.lanes.whole_run import Lane
from bench.peers.turnfold_itself import CONTENDERS
from bench.raw_tiktoken import count_text, loaded


def test_texts_are_of_every_kind_and_the_same_each_time() -> None:
    texts = texts_by_kind()
    assert {"Chinese", "English", "code", "JSON", "emoji"} <= set(texts)
    assert texts_by_kind() == texts


def test_a_count_that_is_too_low_has_an_error_below_zero_and_names_its_worst_text() -> None:
    texts = {"a": ["x", "y"], "b": ["z"]}
    errors = _errors(texts, [50, 100, 33], [100, 100, 30])
    assert errors.by_kind == {"a": pytest.approx(-0.25), "b": pytest.approx(0.1)}
    assert errors.worst == pytest.approx(-0.5)
    assert errors.wrong == 2
    assert _errors(texts, [100, 100, 30], [100, 100, 30]).worst == 0.0


def test_both_vocabularies_count_as_they_are_known_to() -> None:
    assert [len(loaded(name)("你好，世界")) for name in ("o200k_base", "cl100k_base")] == [3, 6]


def test_listening_hears_raw_tiktoken_and_ends() -> None:
    with heard() as taken:
        count_text("four")
        count_text("words")
    count_text("unheard")
    assert (taken.texts, taken.characters) == (2, 9)


class _Recounting:
    """Counts everything anew for every window."""

    def __init__(self) -> None:
        self.items: list[Item] = []

    def add(self, item: Item) -> None:
        self.items.append(item)

    def window(self) -> Sequence[Item]:
        return [item for item in self.items if count_text(item.text) >= 0]


def _tokenised(contender: Contender, path: Path) -> float:
    lane = Lane(contender, path=path, turns=30, budget=8_000)
    played = lane.play(100)
    assert played.turns == 30
    assert lane.record().windows >= 30
    result = lane.tokenised(30)
    return result.tokenised / result.said


def test_who_counts_once_and_who_counts_for_every_window_are_told_apart(tmp_path: Path) -> None:
    recounting = Contender(
        name="toy", package="", convert=list, open=lambda *_: _Recounting(), read=list
    )
    assert _tokenised(recounting, tmp_path / "one") > 10
    ours = next(each for each in CONTENDERS if each.name == "turnfold MessageMemory")
    assert 0.9 < _tokenised(ours, tmp_path / "two") < 1.3
