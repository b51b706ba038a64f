"""Coroutines that never wait run anywhere; those that wait are refused and cleaned up."""

from __future__ import annotations

import asyncio
import threading

import pytest

from turnfold.errors import InvalidOption
from turnfold.runtime import drive


async def answer(value: int) -> int:
    return value


async def nested(value: int) -> int:
    return await answer(value) + await answer(1)


def test_the_result_comes_back_through_several_awaits() -> None:
    assert drive(nested(41)) == 42


def test_an_error_passes_as_it_is() -> None:
    async def failing() -> None:
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        drive(failing())


def test_it_works_inside_a_running_loop() -> None:
    async def program() -> int:
        return drive(nested(41))

    assert asyncio.run(program()) == 42


def test_it_works_in_a_thread_without_a_loop() -> None:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(drive(nested(41))))
    thread.start()
    thread.join()
    assert found == [42]


def test_a_coroutine_that_waits_is_closed_and_the_remedy_named() -> None:
    closed: list[bool] = []

    async def waiting() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            closed.append(True)

    coroutine = waiting()  # held here, or the interpreter would close it for us
    with pytest.raises(InvalidOption, match=r"waiting has to wait.*blocking=True"):
        drive(coroutine)
    assert closed == [True]
