"""A session that folds by the extract counts little more than what was said, and reads each sentence once per fold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from tests.memory.noting import Noting
from turnfold import Budget, Memory
from turnfold.fold import MemoizedCounter, Passage, ReadCache, extract_summary
from turnfold.fold import summary_input as reading
from turnfold.fold.facts import find_hits
from turnfold.records import Checkpoint
from turnfold.stores import MemoryStore
from turnfold.tokens import TokenCounter

_TURNS = 120
_GOODS = ("slate", "gravel", "瓷砖", "timber", "石板", "copper pipe", "roof felt")
_MOST = 2.4
"""Of what was said: each message once, each summary once against its limit and once as the message it becomes, and the
new lines of each. It was 4.3 before counts were remembered, and 2.2 where sentences of two turns shared a line."""
_MOST_WITH_RULES = 7.7
"""The same where every message lays down a rule: the block of rules, which is then another one in every second context
and has up to 600 tokens of the 2,000, is counted in the tail (4.1 of this), and each rule once against the limit, with
the words it is shown with."""


def _lines(number: int) -> list[str]:
    goods, other = _GOODS[number % 7], _GOODS[number * 3 % 7]
    asked = (
        f"Please order {number * 7} kg of {goods}, batch B-{number * 31}, by 2026-03-{number % 28 + 1:02}. "
        f"不要再订{other}了，上次第{number}批有裂纹。 I will be at the yard all morning if anyone asks."
    )
    answered = (
        f"Batch B-{number * 31} is booked as R-{number * 53}. It leaves from gate {number % 9}. "
        f"Nothing of {other} was ordered. Is there anything else?"
    )
    return [asked, answered]


def _played(*, rules: bool = False) -> tuple[float, list[Checkpoint]]:
    """Characters counted over characters said, and the checkpoints."""
    text = Noting()
    counter = TokenCounter(text)
    memory = Memory(
        MemoryStore(counter=counter),
        recall="off",
        counter=counter,
        budget=Budget(max_tokens=2_000),
        fold="inline",
        rules=rules,
    )
    session = memory.session("talk")
    said = 0
    for number in range(_TURNS):
        asked, answered = _lines(number)
        session.user(asked)
        session.context()
        session.assistant(answered)
        said += len(asked) + len(answered)
    return text.characters / said, session.checkpoints()


def test_folding_by_the_extract_counts_little_more_than_what_was_said() -> None:
    share, checkpoints = _played()
    assert len(checkpoints) > 5
    assert share <= _MOST, f"{share:.2f}x"
    share, _ = _played(rules=True)
    assert share <= _MOST_WITH_RULES, f"{share:.2f}x"


def test_without_what_is_remembered_it_would_count_more_and_choose_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    share, checkpoints = _played()
    monkeypatch.setattr(MemoizedCounter, "__call__", lambda self, text: self._count(text))
    more, same = _played()
    assert more > share + 0.3
    assert [each.text for each in same] == [each.text for each in checkpoints]


def _passages() -> list[Passage]:
    lines = [line for number in range(40) for line in _lines(number)]
    return [Passage(("user", "assistant")[at % 2], line, at) for at, line in enumerate(lines)]


def test_an_extract_counts_no_text_twice_and_no_more_than_there_is() -> None:
    passages, text = _passages(), Noting()
    limit = 400
    summary = extract_summary(passages, limit=limit, count=text.count)
    del text.asked["a"], text.asked["b"], text.asked["a\nb"]
    assert max(text.asked.values()) == 1
    assert text.characters < sum(len(each.text) for each in passages) / 2 + 2 * len(summary)
    assert text.count(summary) <= limit


def test_what_was_read_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read: Counter[str] = Counter()

    def noting(text: str, kind: str) -> Sequence[object]:
        read[text] += 1
        return find_hits(text, kind)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(reading, "find_hits", noting)
    _, checkpoints = _played()
    folds = len(checkpoints)
    most = max(read.values())
    assert most <= folds, f"a sentence was read {most} times in {folds} folds"
    once = sum(read.values())
    monkeypatch.setattr(ReadCache, "hits", lambda _, text, kind: tuple(noting(text, kind)))
    _played()
    assert sum(read.values()) - once > 1.5 * once
