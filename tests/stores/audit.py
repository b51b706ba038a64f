"""A guard around loading: while it is up, the interpreter reports every attempt to run code, and it fails.

Python tells an audit hook before it compiles, executes, imports, unpickles, starts a process, calls the system or
opens a connection. A hook cannot be taken out again, so there is one, installed at the first use, and a switch.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ("CodeRan", "nothing_runs")

FORBIDDEN = frozenset(
    "exec compile import pickle.find_class marshal.loads marshal.load code.__new__ function.__new__ "
    "os.system os.exec os.fork os.forkpty os.spawn os.posix_spawn os.startfile pty.spawn "
    "subprocess.Popen ctypes.dlopen ctypes.dlsym ctypes.cdata ctypes.call_function "
    "socket.connect socket.bind socket.getaddrinfo socket.sendto urllib.Request webbrowser.open "
    "shutil.rmtree os.remove os.rename os.mkdir os.putenv sqlite3.enable_load_extension".split()
)


class CodeRan(BaseException):
    """Raised in the middle of the attempt. Not an `Exception`: nobody's fallback shall swallow it."""


class _Watch:
    def __init__(self) -> None:
        self.allowed: frozenset[str] | None = None
        self.seen: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, args: tuple[object, ...]) -> None:
        if self.allowed is not None and event in FORBIDDEN and event not in self.allowed:
            self.seen.append(f"{event} {args!r}"[:200])
            raise CodeRan(self.seen[-1])


_watches: list[_Watch] = []


@contextmanager
def nothing_runs(*allowed: str) -> Iterator[None]:
    """Nothing but the events named may happen inside, in any thread."""
    if not _watches:
        _watches.append(_Watch())
    watch = _watches[0]
    watch.allowed, watch.seen = frozenset(allowed), []
    try:
        yield
    finally:
        watch.allowed = None
    if watch.seen:
        raise CodeRan(watch.seen[0])
