"""Settings that hold for every test.

Properties have no deadline: how long one example takes is a fact of the machine and of what else runs on it, and a
test that fails because of that says nothing.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

try:
    from hypothesis import Phase, settings

    from tests.sizes import PROFILES
except ImportError:  # an environment that checks the pins alone
    pass
else:
    for name, number in PROFILES.items():
        settings.register_profile(name, deadline=None, max_examples=number)
    # A sabotage is to be found every time, and need not be made small.
    found = settings.get_profile("sabotage")
    quick = settings(found, derandomize=True, phases=[Phase.explicit, Phase.generate])
    settings.register_profile("sabotage", quick)
    settings.load_profile("turnfold")

# Matrices are small here: with a thread for each core, three quarters of the time is spent waiting for one another.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
MEMORY_DISK = Path("/dev/shm")  # noqa: S108 (pytest makes a folder of its own below it)
ENOUGH_BYTES = 2 * 1024**3


def pytest_configure() -> None:
    """Keep temporary files in memory where there is room, unless TMPDIR is set.

    No test depends on a disk (power loss is tested on a simulated one), and each commit of a SQLite file waits
    milliseconds for a real disk.
    """
    if "TMPDIR" in os.environ or not MEMORY_DISK.is_dir():
        return
    if shutil.disk_usage(MEMORY_DISK).free < ENOUGH_BYTES or not os.access(MEMORY_DISK, os.W_OK):
        return
    os.environ["TMPDIR"] = str(MEMORY_DISK)  # for the processes that tests start
    tempfile.tempdir = None  # it is looked up anew


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Start one process more than there are cores.

    Tests wait for servers, time limits and processes of their own for a tenth of their time: another test runs then.
    """
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector, and let it pass over what was collected from then on.

    Test modules and items are a million objects that live to the end: every full collection of a test that counts what
    is released, and every one in a forked child, would walk all of them.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def own_data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the default store of commands out of the home of whoever runs the tests."""
    before = os.environ.get("XDG_DATA_HOME")
    os.environ["XDG_DATA_HOME"] = str(tmp_path_factory.mktemp("data"))
    yield
    if before is None:
        del os.environ["XDG_DATA_HOME"]
    else:
        os.environ["XDG_DATA_HOME"] = before


@pytest.fixture(scope="session", autouse=True)
def interrupted_as_in_a_terminal() -> Iterator[None]:
    """Let SIGINT interrupt this process and those that tests start, though it is ignored in a job in the background."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def own_settings_of_the_process() -> Iterator[None]:
    """Undo what a server that runs inside a test sets for its whole process."""
    tokenizer = sys.modules.get("turnfold.tokens.tokenizer")
    before, interval = getattr(tokenizer, "_without_lock", False), sys.getswitchinterval()
    yield
    sys.setswitchinterval(interval)
    if tokenizer := sys.modules.get("turnfold.tokens.tokenizer"):
        vars(tokenizer)["_without_lock"] = before


@pytest.fixture(scope="module")
def no_certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let HTTP clients read an empty folder of certificates; reading the usual ones takes longer than a whole test.

    For tests that talk to servers of their own, without TLS.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("SSL_CERT_FILE", raising=False)
        patched.setenv("SSL_CERT_DIR", str(tmp_path_factory.mktemp("certificates")))
        yield


@pytest.fixture(scope="module")
def only_own_garbage() -> None:
    """Collect what earlier tests left, and let collections pass over what is still held from then on.

    For tests that collect often, or fork: each collection walks all that the process holds, and the test uses only what
    it made itself.
    """
    gc.collect()
    gc.freeze()
