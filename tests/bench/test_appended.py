"""The measure of durable appends tells what a store lost, doubled, halved or put out of order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from bench.appenders import TaskAppender, ThreadAppender
from bench.contender import Appended, Settings, Told, Turn
from bench.lanes.appended import Lane

_Keep = Callable[[list[str], Turn], None]


class _Listed(ThreadAppender):
    """A store in memory that keeps texts as a test says."""

    def __init__(self, keep: _Keep) -> None:
        self.kept: defaultdict[str, list[str]] = defaultdict(list)
        self._keep = keep

    def write(self, turn: Turn) -> None:
        self._keep(self.kept[turn.talk], turn)

    def texts(self, talk: str) -> list[str]:
        return self.kept[talk]

    def settings(self) -> Settings:
        return Settings("wal", 2)

    def close(self) -> None:
        self.kept.clear()


def _all(kept: list[str], turn: Turn) -> None:
    kept += [item.text for item in turn.items]


def _once(kept: list[str], turn: Turn) -> None:
    if not any(text.startswith(f"{turn.name}:") for text in kept):
        _all(kept, turn)


def _all_but(number: int) -> _Keep:
    return lambda kept, turn: None if turn.name.endswith(f".{number}") else _all(kept, turn)


def _questions(kept: list[str], turn: Turn) -> None:
    kept.append(turn.items[0].text)


def _newest_first(kept: list[str], turn: Turn) -> None:
    kept[:0] = [item.text for item in turn.items]


def _lane(keep: _Keep, path: Path, *, writers: int = 1, own: bool = True) -> Lane:
    contender = Appended(name="listed", package="", open=lambda _: _Listed(keep))
    return Lane(contender, path=path, writers=writers, own=own)


@pytest.mark.parametrize("own", [True, False])
def test_what_was_told_and_kept_is_found_whole(tmp_path: Path, *, own: bool) -> None:
    lane = _lane(_all, tmp_path / "a.db", writers=3, own=own)
    done = lane.round(4)
    assert len(done.waits) == 12
    assert lane.found() == (12, 0, 0, 0, 0, "")


@pytest.mark.parametrize(
    ("keep", "told", "fault"),
    [
        (_all_but(2), 4, {"missing": 1}),
        (_questions, 4, {"missing": 4, "halves": 4}),
        (_newest_first, 4, {"disordered": 3}),
    ],
    ids=["lost", "halved", "out of order"],
)
def test_every_fault_is_told(tmp_path: Path, keep: _Keep, told: int, fault: dict[str, int]) -> None:
    lane = _lane(keep, tmp_path / "a.db")
    lane.round(4)
    found = lane.found()._asdict()
    assert found.pop("told") == told
    assert {name: value for name, value in found.items() if value} == fault


def test_a_repetition_that_is_stored_again_is_told(tmp_path: Path) -> None:
    assert _lane(_all, tmp_path / "a.db", writers=2).twice(5).twice == 20
    assert _lane(_once, tmp_path / "a.db", writers=2).twice(5).twice == 0


def test_what_another_process_was_told_is_looked_for(tmp_path: Path) -> None:
    side = tmp_path / "told"
    side.write_text("a.0.0\na.0.1\na.0.2\na.0.99\na.0.10", encoding="utf-8")  # the last was cut off
    (tmp_path / "a.db").write_bytes(
        b"no database at all, and longer than a header of one has to be" * 20
    )
    lane = _lane(_all, tmp_path / "a.db")
    lane.round(3)
    found = lane.survived(side)
    assert (found.told, found.missing) == (4, 1)
    assert found.damage


def test_the_first_failure_of_a_task_is_raised_when_all_have_ended() -> None:
    class Refusing(TaskAppender):
        async def write(self, turn: Turn) -> None:
            _refuse(turn)

    appender = Refusing()
    try:
        _check_failure(appender.append)
    finally:
        appender.close()


def test_the_first_failure_of_a_thread_is_raised_when_all_have_ended() -> None:
    class Refusing(ThreadAppender):
        def write(self, turn: Turn) -> None:
            _refuse(turn)

    _check_failure(Refusing().append)


def _refuse(turn: Turn) -> None:
    if turn.name == "1":
        raise OSError("no room")


def _check_failure(append: Callable[[Sequence[Iterable[Turn]], Told], None]) -> None:
    told: list[str] = []
    writers = [[_turn("0")], [_turn("1"), _turn("3")], [_turn("2")]]
    with pytest.raises(OSError, match="no room"):
        append(writers, lambda turn: told.append(turn.name))
    assert sorted(told) == ["0", "2"]


def _turn(name: str) -> Turn:
    return Turn("talk", name, ())


@pytest.mark.parametrize(
    ("settings", "durable"),
    [(("wal", 2), True), (("delete", 2), True), (("wal", 1), False), (("off", 2), False)],
)
def test_durable_is_a_commit_that_waits(settings: tuple[str, int], *, durable: bool) -> None:
    assert Settings(*settings).durable is durable
