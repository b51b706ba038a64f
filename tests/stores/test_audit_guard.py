"""The guard that other tests rely on sees every way to run code or to write a file, and nothing else."""

from __future__ import annotations

import ctypes
import importlib
import json
import marshal
import os
import pickle
import pkgutil
import pydoc
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import FunctionType

import pytest

from tests.stores.audit import CodeRan, nothing_runs

UNLOADED = "colorsys"
"""A module that nothing here uses."""


def _import_unloaded() -> object:
    sys.modules.pop(UNLOADED, None)
    import colorsys

    return colorsys


def _named(name: str, load: Callable[[str], object]) -> Callable[[], object]:
    def attempt() -> object:
        sys.modules.pop(UNLOADED, None)
        return load(name)

    return attempt


def _function() -> object:
    return FunctionType((lambda: 1).__code__, {})


ATTEMPTS: dict[str, Callable[[Path], object]] = {
    "import_module, loaded": lambda _: importlib.import_module("json"),
    "import_module, bound earlier": lambda _: import_module("os"),
    "import_module, relative": lambda _: importlib.import_module(".decoder", "json"),
    "import_module, built in": lambda _: importlib.import_module("_imp"),
    "import_module, not loaded": lambda _: _named(UNLOADED, importlib.import_module)(),
    "__import__, loaded": lambda _: __import__("json"),
    "__import__, by another name": lambda _: _named("json", __import__)(),
    "__import__, not loaded": lambda _: _named(UNLOADED, __import__)(),
    "import statement, not loaded": lambda _: _import_unloaded(),
    "pkgutil.resolve_name": lambda _: pkgutil.resolve_name("os:system"),
    "pydoc.locate": lambda _: pydoc.locate("os.system"),
    "reload": lambda _: importlib.reload(json),
    "os.system": lambda _: os.system("true"),  # noqa: S605
    "os.popen": lambda _: os.popen("true"),  # noqa: S605
    "os.execv": lambda _: os.execv("/bin/true", ["true"]),  # noqa: S606
    "os.fork": lambda _: os.fork(),
    "os.posix_spawn": lambda _: os.posix_spawn("/bin/true", ["true"], {}),
    "subprocess.Popen": lambda _: subprocess.Popen(["true"]),
    "subprocess.run": lambda _: subprocess.run(["true"], check=False),
    "exec": lambda _: exec("1"),  # noqa: S102
    "eval": lambda _: eval("1"),  # noqa: S307
    "compile": lambda _: compile("1", "x", "eval"),
    "a function of given code": lambda _: _function(),
    "code.replace": lambda _: _function.__code__.replace(co_name="x"),
    "pickle": lambda _: pickle.loads(b"cos\nsystem\n."),  # noqa: S301
    "marshal": lambda _: marshal.loads(marshal.dumps(1)),  # noqa: S302
    "ctypes.dlopen": lambda _: ctypes.CDLL(None),
    "ctypes.dlsym": lambda _: ctypes.pythonapi.PyRun_SimpleString,
    "open, w": lambda folder: (folder / "x").open("w"),
    "open, a": lambda folder: (folder / "x").open("ab"),
    "open, x": lambda folder: (folder / "x").open("x"),
    "open, r+": lambda folder: (folder / "there").open("r+"),
    "os.open": lambda folder: os.open(folder / "x", os.O_WRONLY | os.O_CREAT),
    "write_text": lambda folder: (folder / "x").write_text("x"),
    "truncate": lambda folder: os.truncate(folder / "there", 0),
    "remove": lambda folder: (folder / "there").unlink(),
    "rename": lambda folder: (folder / "there").rename(folder / "x"),
    "mkdir": lambda folder: (folder / "x").mkdir(),
    "symlink": lambda folder: (folder / "x").symlink_to(folder),
    "rmtree": shutil.rmtree,
    "copy": lambda folder: shutil.copy(folder / "there", folder / "x"),
    "connect": lambda _: socket.create_connection(("127.0.0.1", 1)),
    "setenv": lambda _: os.environ.__setitem__("TURNFOLD_X", "1"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "there").write_text("it")
    return tmp_path


@pytest.mark.parametrize("name", ATTEMPTS)
def test_the_guard_stops_it(name: str, folder: Path) -> None:
    with pytest.raises(CodeRan), nothing_runs():
        ATTEMPTS[name](folder)
    assert sorted(path.name for path in folder.iterdir()) == ["there"]
    assert (folder / "there").read_text() == "it"


@pytest.mark.parametrize("name", ["import_module, loaded", "__import__, loaded", "open, w", "exec"])
def test_what_is_swallowed_or_done_in_a_thread_is_told_at_the_end(name: str, folder: Path) -> None:
    def attempt() -> None:
        try:
            ATTEMPTS[name](folder)
        except BaseException:
            return

    with pytest.raises(CodeRan), nothing_runs():
        attempt()
    with pytest.raises(CodeRan), nothing_runs():
        in_a_thread(attempt)


def in_a_thread(attempt: Callable[[], None]) -> None:
    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()


def test_reading_is_allowed(folder: Path) -> None:
    with nothing_runs():
        import json as loaded  # a statement of the program's own
        from json import decoder

        assert (folder / "there").read_text() == "it"
        assert loaded.loads("[1]") == [1]
        assert decoder.JSONDecoder().decode("1") == 1
        assert re.sub("(a)", r"\1b", "a") == "ab"  # C code, which imports a module of `re`
        assert os.read(os.open(folder / "there", os.O_RDONLY), 2) == b"it"


def test_a_module_may_be_allowed() -> None:
    with nothing_runs(modules=("json", UNLOADED)):
        assert importlib.import_module("json") is json
        assert __import__("json") is json
    with pytest.raises(CodeRan), nothing_runs(modules=("json",)):
        importlib.import_module("os")
    # A module that is not loaded yet runs its code when it is: it is not enough that its name is known.
    with pytest.raises(CodeRan), nothing_runs(modules=(UNLOADED,)):
        _named(UNLOADED, importlib.import_module)()


def test_what_is_named_is_allowed_and_everything_is_as_it_was_afterwards(folder: Path) -> None:
    with nothing_runs("import", "open for writing"):
        assert importlib.import_module("json") is json
        (folder / "there").write_text("more")
    assert importlib.import_module("json") is json
    assert __import__("json") is json
    exec("1")  # noqa: S102
