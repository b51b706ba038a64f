"""The measure of summaries tells a message that is nowhere, one that was read in part, and an error from a window."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from bench.contender import Ask, Extract, Item, Summarised
from bench.lanes.summaries import Lane, Outcome

_BUDGET = 4_000
_KEPT = 12


class _Folding:
    """Folds all but the newest messages whenever there are twice as many; `fold` says how."""

    def __init__(self, ask: Ask, fold: Callable[[Ask, str, Sequence[Item]], str]) -> None:
        self._ask, self._fold = ask, fold
        self._system: list[Item] = []
        self._items: list[Item] = []
        self._summary = ""

    def add(self, item: Item) -> None:
        (self._items if item.role != "system" else self._system).append(item)

    def window(self) -> list[Item]:
        if len(self._items) > 2 * _KEPT:
            cut = next(
                at
                for at in range(len(self._items) - _KEPT, 0, -1)
                if self._items[at].role == "user"
            )
            self._summary = self._fold(self._ask, self._summary, self._items[:cut])
            del self._items[:cut]
        summary = [Item("system", self._summary)] if self._summary else []
        return [*self._system, *summary, *self._items]


def _told(previous: str, items: Sequence[Item]) -> str:
    return "\n".join([previous, *(item.text for item in items)])


def _carefully(ask: Ask, previous: str, items: Sequence[Item]) -> str:
    return ask(_told(previous, items))


def _forgetting(ask: Ask, previous: str, items: Sequence[Item]) -> str:
    del previous
    return ask(_told("", items))


def _skimming(ask: Ask, previous: str, items: Sequence[Item]) -> str:
    return ask(_told(previous, [item._replace(text=item.text[:30]) for item in items]))


def _dropping_on_failure(ask: Ask, previous: str, items: Sequence[Item]) -> str:
    try:
        return ask(_told(previous, items))
    except Exception:
        return previous


def _outcome(fold: Callable[[Ask, str, Sequence[Item]], str], failing: str = "never") -> Outcome:
    contender = Summarised(
        name="toy",
        package="",
        convert=list,
        open=lambda _, ask: _Folding(ask, fold),
        read=list,
    )
    return Lane(contender, messages=160, budget=_BUDGET, failing=failing).run()


def test_who_carries_everything_on_has_nothing_nowhere() -> None:
    outcome = _outcome(_carefully)
    assert outcome.asked > 3
    assert (outcome.gaps, outcome.most, outcome.left, outcome.late) == (0, 0, 0, 0)
    assert outcome.record.broken == outcome.record.newest_missing == outcome.record.refused == 0
    # Each message is sent once, the newest not at all; the answers come on top.
    assert 0.7 < outcome.sent / outcome.said < 1.4


@pytest.mark.parametrize("fold", [_forgetting, _skimming])
def test_who_forgets_the_summary_so_far_or_reads_in_part_loses_messages(
    fold: Callable[[Ask, str, Sequence[Item]], str],
) -> None:
    outcome = _outcome(fold)
    assert outcome.gaps > 0
    assert outcome.left > _KEPT
    assert outcome.late > 0


def test_a_failure_that_drops_messages_is_seen_and_one_that_raises_is_an_error_to_the_user() -> (
    None
):
    dropping = _outcome(_dropping_on_failure, "every third")
    assert dropping.failed > 0
    assert dropping.record.refused == 0
    assert dropping.left > 0
    raising = _outcome(_carefully, "every third")
    assert raising.record.refused == raising.failed > 0
    assert raising.left == 0
    assert "ModelDown" in raising.error


def test_a_model_that_was_down_for_a_while_is_asked_again_afterwards() -> None:
    outcome = _outcome(_carefully, "a while")
    assert 0 < outcome.failed < outcome.asked
    assert outcome.late == outcome.left == 0
    assert outcome.sent > _outcome(_carefully).sent


class _StandingIn(_Folding):
    """Folds without the model, and says so; `shows` says whether the text stays in its window."""

    def __init__(self, ask: Ask, *, shows: bool) -> None:
        super().__init__(ask, self._picked)
        self._shows = shows
        self._told: list[Extract] = []
        self._covered = 0

    def _picked(self, ask: Ask, previous: str, items: Sequence[Item]) -> str:
        del ask
        first, self._covered = self._covered + 1, self._covered + len(items)
        text = f"extract up to {self._covered}"
        covers = frozenset(range(first, self._covered + 1))
        self._told.append(Extract(text, previous, covers))
        return text if self._shows else ""

    def extracts(self) -> list[Extract]:
        return self._told


@pytest.mark.parametrize("shows", [True, False])
def test_an_extract_counts_where_its_text_stands_and_nowhere_else(shows: bool) -> None:  # noqa: FBT001 (a parameter)
    contender = Summarised(
        name="toy",
        package="",
        convert=list,
        open=lambda _, ask: _StandingIn(ask, shows=shows),
        read=list,
    )
    outcome = Lane(contender, messages=160, budget=_BUDGET, failing="never").run()
    assert outcome.asked == 0
    assert (outcome.gaps == 0) is shows
