"""Peers in processes of their own: what fails is told in the peer's words, and never as a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.attempts import Attempt
from bench.hosts import Guests, Offered, PeerFailed
from bench.hosts import environments as made_environments
from bench.hosts.environments import EnvironmentFailed, made, needs_of, peer_names
from bench.lanes.replay import Choice, Tally

PEER = "raw_windows"
SEEDED = Choice(0, 0, seeded_zh=1.0)


@pytest.fixture
def guests() -> Iterator[Guests]:
    with Guests(only=frozenset({PEER})) as found:
        yield found


def everything(guests: Guests) -> Offered:
    [offered] = guests.offered("windows")
    return offered


def test_a_lane_works_in_a_process_of_its_own(guests: Guests) -> None:
    lane = guests.lane(everything(guests), "replay", budget=8_000, choice=SEEDED)
    tally: Tally = lane.ask("replay", 600.0)
    assert tally.replayed == tally.traces == 3
    assert tally.record.windows == len(tally.calls) > 1_000
    assert tally.record.broken == tally.record.newest_missing == 0
    assert 0 < tally.record.over < tally.record.windows  # it has no budget
    assert set(tally.kept) == {1.0}  # nothing is ever cut


def test_who_is_not_waited_for_says_how_far_it_came(guests: Guests) -> None:
    lane = guests.lane(everything(guests), "replay", budget=8_000, choice=SEEDED)
    tally: Tally = lane.ask("replay", 0.0)
    assert tally.replayed < tally.traces


def test_an_error_in_the_peer_is_a_failure_in_its_words(guests: Guests) -> None:
    with pytest.raises(PeerFailed, match=r"ModuleNotFoundError.*no_such_task"):
        guests.lane(everything(guests), "no_such_task")
    attempt = Attempt(everything(guests))
    lane = guests.lane(attempt.offered, "replay", budget=8_000, choice=SEEDED)
    attempt.attempt(lambda: lane.ask("no_such_method"))
    assert "no_such_method" in attempt.failure
    attempt.attempt(lambda: pytest.fail("asked again after a failure"))
    assert not attempt.cold.rounds


def test_a_killed_process_is_a_failure_and_the_next_lane_gets_another(guests: Guests) -> None:
    offered = everything(guests)
    lane = guests.lane(offered, "replay", budget=8_000, choice=SEEDED)
    guests.restart(PEER)
    with pytest.raises((PeerFailed, ValueError)):  # its pipe is closed
        lane.ask("replay", 600.0)
    again = guests.lane(offered, "replay", budget=8_000, choice=SEEDED)
    assert again.ask("replay", 0.0).traces == 3


def test_every_peer_says_what_it_needs_with_exact_versions() -> None:
    assert "turnfold_itself" in peer_names()
    for name in peer_names():
        for need in needs_of(name) or ():
            assert "==" in need or need == "--editable=.", f"{name}: {need}"


def test_what_does_not_install_is_told_and_leaves_no_stamp(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(made_environments, "ROOT", tmp_path)
    monkeypatch.setattr(made_environments, "_FOLDER", tmp_path / "build")
    with pytest.raises(EnvironmentFailed, match="no-such-python"):
        made("nobody", ("nothing==1",), python=str(tmp_path / "no-such-python"))
    assert not (tmp_path / "build" / "nobody" / "made-of").exists()


def test_a_borrowed_tuple_is_not_offered_twice() -> None:
    with Guests(only=frozenset({"turnfold_itself", "turnfold_memory"})) as found:
        names = [each.name for each in found.offered("stored")]
    assert len(names) == len(set(names)) > 1
    assert found.failures == {}
