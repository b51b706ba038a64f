"""Epochs are drawn a few at a time, and still no two writes of any thread or process have the same one."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from turnfold.stores.log_semantics import new_epoch
from turnfold.stores.sqlite import statements as sqlite_rows

FORKING = """
import os
from turnfold.stores.log_semantics import _epoch_pool, new_epoch
first = new_epoch()
{sabotage}
read, write = os.pipe()
if not os.fork():
    os.write(write, " ".join(str(new_epoch()) for _ in range(20)).encode())
    os._exit(0)
os.wait()
print(os.read(read, 4096).decode())
print(" ".join(str(new_epoch()) for _ in range(20)))
"""
KEEP_OVER_FORK = (
    "kept = list(_epoch_pool); os.register_at_fork(after_in_child=lambda: _epoch_pool.extend(kept))"
)


def drawn_around_a_fork(sabotage: str) -> tuple[set[str], set[str]]:
    script = FORKING.format(sabotage=sabotage)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, encoding="utf-8"
    )
    child, parent = done.stdout.splitlines()
    return set(child.split()), set(parent.split())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_draws_numbers_of_its_own() -> None:
    child, parent = drawn_around_a_fork("")
    assert len(child) == len(parent) == 20
    assert not child & parent
    shared = drawn_around_a_fork(KEEP_OVER_FORK)
    assert shared[0] & shared[1], "numbers that are kept over a fork would be noticed"


def test_threads_draw_different_numbers() -> None:
    with ThreadPoolExecutor(8) as threads:
        drawn = list(threads.map(lambda _: [new_epoch() for _ in range(500)], range(8)))
    numbers = [number for each in drawn for number in each]
    assert len(set(numbers)) == len(numbers) == 4000
    assert all(0 < number < 1 << 63 for number in numbers)
    assert max(numbers) > 1 << 61


def test_those_of_a_sqlite_file_fit_beside_a_generation() -> None:
    numbers = [sqlite_rows.new_epoch() for _ in range(1000)]
    assert all(0 < number < 1 << 31 for number in numbers)
    assert sqlite_rows.revision(0xFFFFFFFF, max(numbers)) < 1 << 63
