"""A coroutine that a plain function returns after nobody waits for it any more is closed, not dropped."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings

import pytest

from turnfold.runtime import AsyncRuntime, SyncRuntime, drive


@pytest.mark.parametrize("face", ["blocking", "awaiting"])
def test_a_coroutine_that_comes_too_late_is_closed(face: str) -> None:
    release, made = threading.Event(), threading.Event()

    async def never() -> str:
        return "never"

    def late() -> object:
        release.wait(60)
        try:
            return never()
        finally:
            made.set()

    async def ask() -> None:
        with pytest.raises(TimeoutError):
            await AsyncRuntime().ask(late, seconds=0.05)
        release.set()
        await asyncio.to_thread(made.wait, 60)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if face == "blocking":
            with pytest.raises(TimeoutError):
                drive(SyncRuntime().ask(late, seconds=0.05))
            release.set()
            assert made.wait(60)
            for thread in threading.enumerate():
                if thread.name == "turnfold-ask":
                    thread.join(60)
        else:
            asyncio.run(ask())
        gc.collect()
    assert [str(one.message) for one in caught] == []
