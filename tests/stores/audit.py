"""A guard around loading: while it is up, every attempt to run code or to write a file is reported, and it fails.

Python tells an audit hook before it compiles, executes, unpickles, starts a process, calls the system, opens a file or
a connection, or loads a module that is not loaded yet. A hook cannot be taken out again, so there is one, installed at
the first use, and a switch. What Python does not tell is an import by name (`importlib.import_module`, `__import__`) of
a module that is loaded or built in: the two functions behind those are replaced while the guard is up. An `import`
statement of a module that is loaded is no name from stored data, and passes, as does C code's own (`re` does it).
"""

from __future__ import annotations

import builtins
import dis
import importlib
import os
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, cast

__all__ = ("CodeRan", "nothing_runs")

FORBIDDEN = frozenset(
    "exec compile import pickle.find_class marshal.loads marshal.load code.__new__ function.__new__ "
    "os.system os.exec os.fork os.forkpty os.spawn os.posix_spawn os.startfile pty.spawn "
    "subprocess.Popen ctypes.dlopen ctypes.dlsym ctypes.cdata ctypes.call_function "
    "socket.connect socket.bind socket.getaddrinfo socket.sendto urllib.Request webbrowser.open "
    "shutil.rmtree shutil.copyfile shutil.move os.remove os.rename os.mkdir os.rmdir os.link os.symlink "
    "os.truncate os.chmod os.chown os.putenv sqlite3.enable_load_extension".split()
)
WRITING = "open for writing"
"""The event `open` where it is not for reading alone."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_IMPORT = dis.opmap["IMPORT_NAME"]
_bootstrap: Any = cast("Any", importlib)._bootstrap


class CodeRan(BaseException):
    """Raised in the middle of the attempt. Not an `Exception`: nobody's fallback shall swallow it."""


class _Watch:
    def __init__(self) -> None:
        self.allowed: frozenset[str] | None = None
        self.seen: list[str] = []
        sys.addaudithook(self._hear)

    def tell(self, event: str, args: object) -> None:
        if self.allowed is not None and event not in self.allowed:
            self.seen.append(f"{event} {args!r}"[:200])
            raise CodeRan(self.seen[-1])

    def _hear(self, event: str, args: tuple[object, ...]) -> None:
        if event == "open":
            if _opens_for_writing(args):
                self.tell(WRITING, args)
        elif event in FORBIDDEN:
            self.tell(event, args)


def _opens_for_writing(args: tuple[object, ...]) -> bool:
    _, mode, flags = args
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & _WRITES)


@contextmanager
def _imports_told(tell: Callable[[str, object], None], modules: Collection[str]) -> Iterator[None]:
    """Imports by name are told while this lasts, but for some modules."""
    by_name, by_statement = _bootstrap._gcd_import, builtins.__import__

    def gcd_import(name: str, *more: Any) -> object:
        if name not in modules:
            tell("import", (name,))
        return by_name(name, *more)

    def import_(name: str, *more: Any, **options: Any) -> object:
        caller = sys._getframe(1)
        # PyImport_Import names one namespace twice, and a list where a statement has a tuple.
        by_c = len(more) == 4 and more[0] is more[1] and isinstance(more[2], list)
        if caller.f_code.co_code[caller.f_lasti] != _IMPORT and not by_c and name not in modules:
            tell("import", (name,))
        return by_statement(name, *more, **options)

    _bootstrap._gcd_import = gcd_import
    builtins.__import__ = import_
    try:
        yield
    finally:
        _bootstrap._gcd_import, builtins.__import__ = by_name, by_statement


_watches: list[_Watch] = []


@contextmanager
def nothing_runs(*allowed: str, modules: Collection[str] = ()) -> Iterator[None]:
    """Nothing but the events named may happen inside, in any thread.

    `modules` may be imported by name where they are loaded.
    """
    if not _watches:
        _watches.append(_Watch())
    watch = _watches[0]
    watch.allowed, watch.seen = frozenset(allowed), []
    try:
        with _imports_told(watch.tell, modules):
            yield
    except CodeRan:
        raise
    except BaseException as error:
        if watch.seen:  # and made another error of
            raise CodeRan(watch.seen[0]) from error
        raise
    finally:
        watch.allowed = None
    if watch.seen:
        raise CodeRan(watch.seen[0])
