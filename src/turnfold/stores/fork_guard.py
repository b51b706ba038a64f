"""Guard against the use of a store in a forked process, and a helper that runs blocking work off the event loop.

A forked child inherits its parent's sockets, open files and locks. Two processes that talk through one socket read each
other's responses; SQLite's locks belong to one process only; a lock that another thread held at the fork is never
released in the child. So every engine checks its `ProcessGuard` before anything else: using a handle inherited through
a fork raises `WrongProcess`, and closing it in the child does nothing.

Finalizers would still do harm: they close connections, which ends the parent's session on the server or changes memory
that SQLite shares between processes. So a child keeps a reference to every handle it inherits, and none is finalized.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from turnfold.errors import WrongProcess

__all__ = (
    "ProcessGuard",
    "check_not_inherited",
    "run_off_loop",
)


_Result = TypeVar("_Result")
_FileId = tuple[int, int]
_guards: weakref.WeakSet[ProcessGuard] = weakref.WeakSet()
_inherited_files: dict[_FileId, int] = {}
"""Files that a parent had open at the fork, with its process id; in this process SQLite would mistake the parent's
locks for its own."""
_never_freed: list[object] = []


class ProcessGuard:
    """Remembers which process opened a store, and refuses its use in any other process.

    `owner` is the object with the connections. A process that was forked while `file` is open may not open that file.
    """

    def __init__(self, owner: object, *, file: str = "") -> None:
        self.owner = weakref.ref(owner)
        self.opened_in = os.getpid()
        self.file = _file_id(file) if file else None
        _guards.add(self)

    @property
    def is_own(self) -> bool:
        """True in the process that opened the store, False in a fork of it."""
        return os.getpid() == self.opened_in

    def check(self) -> None:
        """Raise `WrongProcess` unless this is the process that opened the store."""
        if os.getpid() != self.opened_in:
            close = "close it before the fork and " if self.file else ""
            raise WrongProcess(
                f"this store was opened in process {self.opened_in} and is used in process {os.getpid()}, a fork of "
                f"it: {close}open it again after the fork, in each process that uses it"
            )

    def release(self) -> None:
        """Stop guarding a store whose connections are closed: a forked process may open its file again."""
        _guards.discard(self)


async def run_off_loop(work: Callable[[], _Result], *, blocking: bool) -> _Result:
    """Return the result of `work`, run in the calling thread if `blocking`, else in another thread."""
    return work() if blocking else await asyncio.to_thread(work)


def check_not_inherited(path: str) -> None:
    """Raise `WrongProcess` for a file that a parent of this process had open when it forked."""
    opened_in = _inherited_files.get(_file_id(path) or (-1, -1)) if _inherited_files else None
    if opened_in is not None:
        raise WrongProcess(
            f"{path!r} was open in process {opened_in} when process {os.getpid()} was forked from it, so SQLite "
            "would treat the locks of that process as its own, and entries written here could be lost: close the store "
            "before the fork, or start this process without forking (spawn)"
        )


def _file_id(path: str) -> _FileId | None:
    with suppress(OSError):
        found = os.stat(path)  # noqa: PTH116 (a Path is of no use here)
        return found.st_dev, found.st_ino
    return None


def _after_fork() -> None:
    """In a forked child, record which files its parent had open, and keep inherited stores from being finalized.

    A finalizer would close connections that the parent still uses.
    """
    for guard in list(_guards):
        if guard.file is not None:
            _inherited_files[guard.file] = guard.opened_in
        owner = guard.owner()
        if owner is not None:
            _never_free(owner)


def _never_free(owner: object) -> None:
    _never_freed.append(owner)
    # The interpreter clears modules at exit, this list too; the extra reference survives that.
    with suppress(ImportError, AttributeError):
        import ctypes

        ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
