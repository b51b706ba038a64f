"""A process that takes snapshots for as long as it lives, and says which were taken; killed by a test.

Each holds the same files with one edit, and its own number, so that what a reader finds can be told from the number
alone. `hasty` says a snapshot is taken before it is.
"""

from __future__ import annotations

import sys

from tests.memory.workspaces import made_files, snapshots_in
from turnfold.records import Snapshot
from turnfold.runtime import drive
from turnfold.stores import SqliteStore

__all__ = ("files_of", "main")


def files_of(number: int, name: str) -> dict[str, str]:
    """The workspace of a writer at its n-th snapshot."""
    files = made_files(4, 6_000)
    path = f"src/part{number % 4:03}.{'md' if number % 2 else 'py'}"
    return {**files, path: f"{name} {number}\n{files[path]}", "number": f"{name} {number}"}


def main(path: str, name: str, most: int, *, hasty: bool) -> None:
    """Take snapshots."""
    store = SqliteStore(path, blocking=True)
    handle = snapshots_in(store)
    for number in range(most):
        if hasty:
            print(name, number, 0, flush=True)  # noqa: T201 (the test reads it)
        taken = handle.take(Snapshot(files=files_of(number, name), state={"number": number}))
        if not hasty:
            print(name, number, taken.turn, flush=True)  # noqa: T201 (the test reads it)
    drive(store.close())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), hasty="hasty" in sys.argv)
