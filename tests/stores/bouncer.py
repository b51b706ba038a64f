"""A real PgBouncer in transaction mode, where there is one: on the PATH, or named by TURNFOLD_PGBOUNCER.

No package index has it as something that can be installed without a package manager of the system, so the tests that
need it are skipped elsewhere; pooling_proxy.py takes its place in the tests that always run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.stores.redis_server import free_port

__all__ = ("Bouncer",)

_START_SECONDS = 60
_SETTINGS = """
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
admin_users = keeper
pool_mode = transaction
default_pool_size = 2
max_client_conn = 500
server_round_robin = 1
logfile = {folder}/log
pidfile = {folder}/pid
[databases]
pgbouncer_needs_one = user=nobody
{places}
"""


class Bouncer:
    """A PgBouncer with two server connections for each place."""

    def __init__(self) -> None:
        binary = os.environ.get("TURNFOLD_PGBOUNCER") or shutil.which("pgbouncer")
        if not binary:
            pytest.skip("needs PgBouncer on the PATH, or TURNFOLD_PGBOUNCER=<its path>")
        self._folder = Path(tempfile.mkdtemp(prefix="turnfold-bouncer-"))
        self._places: dict[str, str] = {}
        self.port = free_port()
        self._write()
        self._process = subprocess.Popen(
            [binary, "-q", str(self._folder / "ini")], user=self._user()
        )
        self._ask("SHOW VERSION")

    def url(self, url: str) -> str:
        """The same place, through PgBouncer."""
        given = conninfo_to_dict(url)
        schema = str(given["options"]).rpartition("=")[2]
        if schema not in self._places:
            wanted = ("host", "port", "dbname", "user", "password")
            words = [f"{name}={given[name]}" for name in wanted if given.get(name)]
            words.append(f"connect_query='SET search_path TO {schema}'")
            self._places[schema] = " ".join(words)
            self._write()
            self._ask("RELOAD")
        return make_conninfo(host="127.0.0.1", port=self.port, user="anybody", dbname=schema)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(_START_SECONDS)
        shutil.rmtree(self._folder)

    def _user(self) -> str | None:
        """PgBouncer does not run as root: there it borrows the user of the server, who may enter its folder."""
        if os.name != "posix" or os.geteuid() != 0:
            return None
        import pwd

        self._folder.chmod(0o777)
        names = {each.pw_name for each in pwd.getpwall()}
        return next(name for name in ("embedded_postgres", "nobody") if name in names)

    def _write(self) -> None:
        places = "\n".join(f"{name} = {words}" for name, words in self._places.items())
        text = _SETTINGS.format(port=self.port, folder=self._folder, places=places)
        (self._folder / "ini").write_text(text, encoding="utf-8")

    def _ask(self, command: str) -> None:
        console = make_conninfo(
            host="127.0.0.1", port=self.port, user="keeper", dbname="pgbouncer", sslmode="disable"
        )
        started = time.monotonic()
        while True:
            try:
                with psycopg.connect(console, autocommit=True) as keeper:
                    keeper.execute(command.encode())
                    return
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() - started > _START_SECONDS:
                    raise
                time.sleep(0.02)
