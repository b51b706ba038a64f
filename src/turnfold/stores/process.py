"""Guard against using a store in a process that did not open it.

A forked child inherits its parent's sockets, open files and locks. Two processes that talk through one socket read each
other's answers; SQLite's locks belong to one process only; a lock that another thread held at the fork is never
released in the child. So every engine has a `ProcessGuard`, asked before anything else: a handle inherited through a
fork raises `WrongProcess`, and closing it in the child does nothing.

Finalizers would still do harm: they close connections, and closing ends the parent's session on the server or changes
memory that SQLite shares between processes. Therefore what a child inherits is never freed there.
"""

from __future__ import annotations

import os
import weakref
from contextlib import suppress

from turnfold.errors import WrongProcess

__all__ = ("ProcessGuard", "check_not_inherited")

_FileId = tuple[int, int]
_guards: weakref.WeakSet[ProcessGuard] = weakref.WeakSet()
_inherited_files: dict[_FileId, int] = {}
"""Files a parent had open at the fork, and in which process: SQLite believes their locks to be held here."""
_never_freed: list[object] = []


class ProcessGuard:
    """Remembers which process opened a handle, and refuses its use in any other.

    `owner` is the object that holds the connections. A `file` it has open may not be opened by processes that are
    forked meanwhile.
    """

    def __init__(self, owner: object, *, file: str = "") -> None:
        self.owner = weakref.ref(owner)
        self.opened_in = os.getpid()
        self.file = _file_id(file) if file else None
        _guards.add(self)

    @property
    def is_own(self) -> bool:
        """Whether this is the process that opened the handle."""
        return os.getpid() == self.opened_in

    def check(self) -> None:
        """Raise `WrongProcess` in any process but the one that opened the handle."""
        if os.getpid() != self.opened_in:
            close = "close it before the fork and " if self.file else ""
            raise WrongProcess(
                f"this store was opened in process {self.opened_in} and is used in process {os.getpid()}, a fork of "
                f"it: {close}open it anew after the fork, in each process that uses it"
            )

    def release(self) -> None:
        """Forget the handle: its connections have been closed."""
        _guards.discard(self)


def check_not_inherited(path: str) -> None:
    """Refuse to open a file that a parent of this process had open when it forked."""
    opened_in = _inherited_files.get(_file_id(path) or (-1, -1)) if _inherited_files else None
    if opened_in is not None:
        raise WrongProcess(
            f"{path!r} was open in process {opened_in} when process {os.getpid()} was forked from it, so SQLite takes "
            "its locks there for locks held here, and entries written here could be lost: close the store before the "
            "fork, or start this process without forking (spawn)"
        )


def _file_id(path: str) -> _FileId | None:
    with suppress(OSError):
        found = os.stat(path)  # noqa: PTH116 (a Path is of no use here)
        return found.st_dev, found.st_ino
    return None


def _after_fork() -> None:
    """Runs in the child: note what was inherited, and keep it from ever being freed."""
    for guard in list(_guards):
        if guard.file is not None:
            _inherited_files[guard.file] = guard.opened_in
        owner = guard.owner()
        if owner is not None:
            _never_free(owner)


def _never_free(owner: object) -> None:
    _never_freed.append(owner)
    # At its end the interpreter empties modules, this one too. A count that is one too high outlasts that.
    with suppress(ImportError, AttributeError):
        import ctypes

        ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
