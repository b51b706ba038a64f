"""The questions of the finding benchmark are fair, and its measure tells a find from a miss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bench.contender import Find, Found, Item
from bench.lanes.finding import BEST, Answers, Lane
from bench.needles import LANGUAGES, NEWEST, planted

_SIZE = 1_500


def _search(find: Callable[[Sequence[Item], str], list[str]]) -> Found:
    def opened(_: Path, items: Sequence[Item]) -> tuple[Find, Callable[[], object]]:
        return (lambda question, limit: find(items, question)[:limit]), lambda: None

    return Found(name="toy", package="", open=opened)


def _reading(items: Sequence[Item], question: str) -> list[str]:
    return [item.text for item in items if question.lower() in item.text.lower().replace(",", "")]


def _newest(items: Sequence[Item], question: str) -> list[str]:
    del question
    return [item.text for item in reversed(items)]


def _answers(find: Callable[[Sequence[Item], str], list[str]], patience: float = 60.0) -> Answers:
    lane = Lane(_search(find), path=Path("unused"), size=_SIZE)
    return lane.ask(patience)


def test_every_question_is_answered_by_reading_and_by_one_message_alone() -> None:
    made = planted(_SIZE)
    assert {probe.kind for probe in made.probes} == set(LANGUAGES)
    older = [item.text for item in made.items[:-NEWEST]]
    for probe in made.probes:
        assert probe.text in older
        found = _reading(made.items, probe.question)
        assert found == [probe.text], probe


def test_the_questions_do_not_depend_on_the_size() -> None:
    small, large = planted(_SIZE), planted(4_000)
    assert sorted(small.probes) == sorted(large.probes)
    assert len(large.items) > len(small.items) + 2_000


def test_a_reader_finds_all_and_five_of_the_newest_find_none() -> None:
    read = _answers(_reading)
    assert all(hit for asked in read.values() for hit, _ in asked)
    assert not any(hit for asked in _answers(_newest).values() for hit, _ in asked)


def test_a_message_that_is_only_the_sixth_best_is_not_found() -> None:
    def late(items: Sequence[Item], question: str) -> list[str]:
        return [item.text for item in items[:BEST]] + _reading(items, question)

    assert not any(hit for asked in _answers(late).values() for hit, _ in asked)


def test_who_takes_too_long_is_asked_a_few_of_each_kind() -> None:
    answers = _answers(_reading, patience=0.0)
    assert {len(asked) for asked in answers.values()} == {3}
