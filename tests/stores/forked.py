"""Children made by fork: what became of each, told through a pipe, within a limit that a child who hangs exceeds."""

from __future__ import annotations

import os
import select
import signal
import warnings
from collections.abc import Callable
from contextlib import suppress

__all__ = ("error_name", "in_children")

_LONGEST = 60.0
"""Seconds after which a child is taken to hang."""


def in_children(works: list[Callable[[], str]]) -> list[str]:
    """What each work returns in a process forked for it; all are forked before any is waited for."""
    begun = [_fork(work) for work in works]
    return [_told(pid, pipe) for pid, pipe in begun]


def error_name(work: Callable[[], object]) -> str:
    """The name of the error that `work` raises; empty when it raises none."""
    try:
        work()
    except Exception as error:
        return type(error).__name__
    return ""


def _fork(work: Callable[[], str]) -> tuple[int, int]:
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python warns of forks while threads run: what they do to a store is what is tested.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    try:
        told = work()
    except BaseException as error:
        told = f"raised {error!r}"
    with suppress(OSError):
        os.write(writing, told.encode())
    os._exit(0)


def _told(pid: int, pipe: int) -> str:
    parts: list[bytes] = []
    try:
        while select.select([pipe], [], [], _LONGEST)[0]:
            part = os.read(pipe, 1 << 16)
            if not part:
                os.waitpid(pid, 0)
                return b"".join(parts).decode()
            parts.append(part)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise AssertionError(f"child {pid} hangs")
    finally:
        os.close(pipe)
