"""A process whose children each run one verb and die by SIGKILL at its n-th statement: `BASE FOLDER VERBS [torn]`.

Verbs are separated by commas. It tells, line by line, the file each child left behind (in a folder named like the
verb), the statement it died at, and whether that statement had run. With `torn` the children's stores do not begin
transactions: every statement is committed by itself.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from tests.stores.sqlite_faults import Faulty, _Watched
from tests.stores.sqlite_file import ALICE, settled
from tests.stores.test_sqlite_atomic import VERBS, opened


def _tell(line: str) -> None:
    os.write(1, f"{line}\n".encode())  # at once: who is about to die flushes nothing


def _run(path: Path, verb: str, point: int, *, late: bool) -> None:
    store = opened(path)
    settled(store.head(ALICE, "talk"))  # so that there is a reader to die with
    faulty: Faulty

    def die(_text: str) -> BaseException:
        _tell(f"{verb}\t{path.name}\t{int(late)} {faulty.statements[-1]!r}")
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("nobody comes here")

    faulty = Faulty(store, point, error=die, late=late)
    with faulty:
        settled(VERBS[verb](store))


def _tear() -> None:
    execute: Any = _Watched.execute

    def alone(self: Any, statements: str, bindings: Any = ()) -> Any:
        if statements.startswith(("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")):
            return execute(self, "SELECT 1")
        return execute(self, statements, bindings)

    setattr(_Watched, "execute", alone)  # noqa: B010 (a method is replaced on purpose)


def main(base: Path, folder: Path, verb: str) -> None:
    """Let children die until one lives to the end, before and after each statement."""
    (folder / verb).mkdir()
    for late in (False, True):
        point = died = 1
        while died:
            path = Path(shutil.copy(base, folder / verb / f"{late}-{point}.db"))
            child = os.fork()
            if not child:
                _run(path, verb, point, late=late)
                os._exit(0)
            died = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert died in (0, -signal.SIGKILL)
            point += 1
    _tell(f"{verb}\tlived\t")


if __name__ == "__main__":
    if "torn" in sys.argv:
        _tear()
    for each in sys.argv[3].split(","):
        main(Path(sys.argv[1]), Path(sys.argv[2]), each)
