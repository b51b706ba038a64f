"""Reading: ranges, turns and ids give exactly the entries asked for, oldest first, and leave no trace."""

# ruff: noqa: D102, S101 (the name of a case is its sentence, and assert is what a case is made of)

from __future__ import annotations

import pytest

from turnfold.errors import InvalidOption
from turnfold.records import NewEntry, assistant, system, user
from turnfold.testing.store_conformance_trial import StoreCases, Trial, case
from turnfold.testing.store_conformance_values import (
    ALICE,
    BOB,
    TALK,
    exchange,
    named,
    said,
    seqs,
    texts,
)

__all__ = ("FindCases", "ReadCases", "TurnCases")

TOO_LARGE = 1 << 63
"""The first number a 64-bit column cannot hold."""


class ReadCases(StoreCases):
    """Ranges of the log."""

    @pytest.mark.parametrize(
        ("after", "upto", "limit", "expected"),
        [
            (0, None, 1000, range(1, 11)),
            (0, 10, 10, range(1, 11)),
            (3, None, 1000, range(4, 11)),
            (3, 7, 1000, range(4, 8)),
            (3, 4, 1000, [4]),
            (3, 3, 1000, []),
            (7, 3, 1000, []),
            (0, 0, 1000, []),
            (9, None, 1000, [10]),
            (10, None, 1000, []),
            (11, None, 1000, []),
            (5, 99, 1000, range(6, 11)),
            (0, None, 0, []),
            (0, None, 1, [1]),
            (2, 8, 3, range(3, 6)),
            (7, None, 99, range(8, 11)),
            (0, TOO_LARGE - 1, TOO_LARGE - 1, range(1, 11)),
            (TOO_LARGE - 1, None, 1, []),
        ],
    )
    @case
    async def test_a_range_is_what_lies_after_and_up_to(
        self, trial: Trial, after: int, upto: int | None, limit: int, expected: list[int]
    ) -> None:
        await trial.store.append(ALICE, TALK, said(*"abcdefghij"))
        found = await trial.store.read(ALICE, TALK, after=after, upto=upto, limit=limit)
        assert seqs(found) == list(expected)

    @pytest.mark.parametrize("wrong", [-1, -1000, TOO_LARGE])
    @pytest.mark.parametrize("option", ["after", "upto", "limit"])
    @case
    async def test_a_number_outside_its_range_is_refused(
        self, trial: Trial, option: str, wrong: int
    ) -> None:
        await trial.store.append(ALICE, TALK, said("a", "b"))
        with pytest.raises(InvalidOption):
            await trial.store.read(ALICE, TALK, **{option: wrong})

    @case
    async def test_an_unknown_conversation_reads_as_nothing(self, trial: Trial) -> None:
        assert await trial.store.read(ALICE, TALK) == []

    @case
    async def test_a_read_is_limited_to_a_thousand_unless_told(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, said(*"x" * 1005))
        assert seqs(await trial.store.read(ALICE, TALK)) == list(range(1, 1001))
        assert len(await trial.store.read(ALICE, TALK, limit=2000)) == 1005

    @pytest.mark.parametrize("size", [1, 3, 7, 50])
    @case
    async def test_pages_show_every_entry_once(self, trial: Trial, size: int) -> None:
        await trial.store.append(ALICE, TALK, said(*map(str, range(21))))
        pages: list[str] = []
        after = 0
        while page := await trial.store.read(ALICE, TALK, after=after, limit=size):
            pages += texts(page)
            after = page[-1].seq
        assert pages == list(map(str, range(21)))

    @case
    async def test_the_same_question_has_the_same_answer(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, exchange("a", "b"))
        first = await trial.store.read(ALICE, TALK)
        assert await trial.store.read(ALICE, TALK) == first

    @case
    async def test_an_answer_belongs_to_the_caller(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, said("a", "b"))
        (await trial.store.read(ALICE, TALK)).clear()
        assert texts(await trial.store.read(ALICE, TALK)) == ["a", "b"]


class TurnCases(StoreCases):
    """One turn of the log."""

    @pytest.mark.parametrize(
        ("turn", "expected"),
        [(0, ["s"]), (1, ["q1", "a1"]), (2, ["q2"]), (3, ["q3", "a3", "b3"]), (4, []), (99, [])],
    )
    @case
    async def test_a_turn_is_read_whole(self, trial: Trial, turn: int, expected: list[str]) -> None:
        await trial.store.append(ALICE, TALK, [NewEntry(system("s")), *exchange("q1", "a1")])
        await trial.store.append(ALICE, TALK, said("q2"))
        await trial.store.append(ALICE, TALK, exchange("q3", "a3"))
        await trial.store.append(ALICE, TALK, [NewEntry(assistant("b3"))])
        assert texts(await trial.store.read_turn(ALICE, TALK, turn)) == expected

    @case
    async def test_turn_zero_is_empty_when_the_user_spoke_first(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, exchange("q", "a"))
        assert await trial.store.read_turn(ALICE, TALK, 0) == []

    @case
    async def test_a_log_without_user_messages_is_turn_zero(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, [NewEntry(assistant(word)) for word in "abc"])
        assert texts(await trial.store.read_turn(ALICE, TALK, 0)) == ["a", "b", "c"]
        assert await trial.store.read_turn(ALICE, TALK, 1) == []

    @pytest.mark.parametrize("turn", [0, 1])
    @case
    async def test_an_unknown_conversation_has_no_turns(self, trial: Trial, turn: int) -> None:
        assert await trial.store.read_turn(ALICE, TALK, turn) == []

    @pytest.mark.parametrize("turn", [-1, TOO_LARGE])
    @case
    async def test_a_turn_outside_its_range_is_refused(self, trial: Trial, turn: int) -> None:
        await trial.store.append(ALICE, TALK, exchange("q", "a"))
        with pytest.raises(InvalidOption):
            await trial.store.read_turn(ALICE, TALK, turn)

    @case
    async def test_the_turns_together_are_the_log(self, trial: Trial) -> None:
        for number in range(9):
            await trial.store.append(ALICE, TALK, exchange(f"q{number}", "a")[: 1 + number % 2])
        turns = [await trial.store.read_turn(ALICE, TALK, turn) for turn in range(11)]
        assert [entry for turn in turns for entry in turn] == await trial.store.read(ALICE, TALK)


class FindCases(StoreCases):
    """Entries by client id."""

    @case
    async def test_ids_are_found_oldest_first(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, named(*"abcd"))
        found = await trial.store.find(ALICE, TALK, ["d", "a", "c"])
        assert found == [entry for entry in await trial.store.read(ALICE, TALK) if entry.seq != 2]

    @case
    async def test_unknown_ids_are_not_among_them(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, named("a", "b"))
        await trial.store.append(ALICE, TALK, said("c"))
        assert texts(await trial.store.find(ALICE, TALK, ["c", "b", "nothing"])) == ["b"]

    @case
    async def test_an_id_asked_for_twice_is_found_once(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, named("a", "b"))
        assert texts(await trial.store.find(ALICE, TALK, ["a", "a", "a"])) == ["a"]

    @case
    async def test_no_ids_find_nothing(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, named("a"))
        await trial.store.append(ALICE, TALK, said("b"))
        assert await trial.store.find(ALICE, TALK, []) == []

    @case
    async def test_ids_are_found_in_their_own_conversation_only(self, trial: Trial) -> None:
        await trial.store.append(ALICE, "one", named("a"))
        await trial.store.append(BOB, TALK, named("a"))
        await trial.store.append(ALICE, TALK, [NewEntry(user("mine"), "m")])
        assert await trial.store.find(ALICE, TALK, ["a"]) == []
        assert await trial.store.find(ALICE, "unknown", ["a", "m"]) == []

    @case
    async def test_many_ids_are_found_at_once(self, trial: Trial) -> None:
        await trial.store.append(ALICE, TALK, named(*map(str, range(1200))))
        wanted = [str(number) for number in range(0, 2400, 2)]
        found = await trial.store.find(ALICE, TALK, wanted)
        assert seqs(found) == list(range(1, 1201, 2))
