"""The counting threads start when they are needed, stop when told to, and start again."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from tests.house.source_tree import SOURCE
from turnfold import shutdown_token_executor as exported
from turnfold.tokens import shutdown_token_executor, token_executor


@pytest.fixture(autouse=True)
def no_pool_before_or_after() -> Iterator[None]:
    shutdown_token_executor()
    yield
    shutdown_token_executor()


def counting_threads() -> list[str]:
    return [
        thread.name for thread in threading.enumerate() if thread.name.startswith("turnfold-tokens")
    ]


def test_there_is_one_pool_and_it_is_lazy() -> None:
    assert counting_threads() == []
    assert token_executor() is token_executor()
    assert counting_threads() == []
    assert token_executor().submit(len, "abc").result() == 3
    assert len(counting_threads()) == 1


def test_it_stops_and_starts_again() -> None:
    first = token_executor()
    first.submit(len, "abc").result()
    exported()
    assert counting_threads() == []
    with pytest.raises(RuntimeError, match="after shutdown"):
        first.submit(len, "abc")
    second = token_executor()
    assert second is not first
    assert second.submit(len, "abcd").result() == 4


def test_stopping_twice_or_before_starting_is_nothing() -> None:
    shutdown_token_executor()
    shutdown_token_executor(wait=False)
    assert token_executor().submit(len, "a").result() == 1


def test_stopping_waits_for_what_was_asked() -> None:
    gate, done = threading.Event(), threading.Event()

    def work() -> None:
        gate.wait(30)
        done.set()

    token_executor().submit(work)
    stopping = threading.Thread(target=shutdown_token_executor)
    stopping.start()
    assert token_executor() is not None, "a new pool can be had while the old one ends"
    gate.set()
    stopping.join(30)
    assert done.is_set()


def test_threads_that_ask_together_get_the_same_pool() -> None:
    found: list[object] = []
    barrier = threading.Barrier(8)

    def ask() -> None:
        barrier.wait(30)
        found.append(token_executor())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1


FORK = """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from turnfold.tokens import token_executor
assert token_executor().submit(len, "abc").result(timeout=30) == 3
child = os.fork()
if child == 0:
    try:
        os._exit(token_executor().submit(len, "abcd").result(timeout=10))
    except BaseException:
        os._exit(99)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_worker_has_threads_of_its_own() -> None:
    """A web server that forks after counting once must not hang on its first batch."""
    finished = subprocess.run(
        [sys.executable, "-c", FORK],
        capture_output=True,
        check=False,
        encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    assert (finished.stdout.strip(), finished.returncode) == ("4", 0), finished.stderr
