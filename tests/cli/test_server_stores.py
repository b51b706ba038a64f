"""The commands say the same of a PostgreSQL store as of a file, and the doctor sees Redis in front of it."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlencode

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.cli.seeded import LONG, SHORT, invoke, invoke_json, seed, seed_at
from tests.stores.redis_server import shared_url
from tests.stores.servers import fresh_database


@pytest.fixture(scope="module")
def postgres() -> str:
    parts = conninfo_to_dict(fresh_database())
    user = f"{parts['user']}:{parts['password']}" if parts.get("password") else parts["user"]
    where = {key: parts[key] for key in ("host", "port") if parts.get(key)}
    return seed_at(f"postgresql://{user}@/{parts['dbname']}?{urlencode(where)}")


def timeless(value: object) -> object:
    """A value without what the clock put into it."""
    if isinstance(value, dict):
        return {
            k: timeless(v) for k, v in value.items() if k not in ("created", "updated", "store")
        }
    return [timeless(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "command",
    [
        ["context", "ware"],
        ["top", "ware"],
        ["explain", "ware"],
        ["diff", "ware"],
        ["audit"],
        ["top"],
    ],
    ids=" ".join,
)
def test_a_server_and_a_file_are_told_alike(
    postgres: str, tmp_path: Path, command: list[str]
) -> None:
    file = seed(tmp_path)
    ours = invoke_json([*command, "--store", postgres])
    assert timeless(ours) == timeless(invoke_json([*command, "--store", file]))


def test_what_only_a_file_can_do_is_told(postgres: str, tmp_path: Path) -> None:
    refused = invoke(["db", "backup", str(tmp_path / "x.db"), "--store", postgres])
    assert refused.exit_code == 2
    assert "pg_dump" in refused.stderr
    status = invoke(["db", "status", "--store", postgres, "--json"])
    told = json.loads(status.stdout)
    assert (told["backend"], told["conversations"]) == ("postgres", 2)
    # The tests' server runs without fsync, for speed: that is a risk, and it is told.
    assert status.exit_code == 1
    assert "fsync" in told["warnings"][0]
    assert {
        row["session"] for row in invoke_json(["sessions", "--store", postgres])["sessions"]
    } == {LONG, SHORT}


def test_the_doctor_looks_through_redis(postgres: str) -> None:
    result = invoke(["doctor", "--store", postgres, "--cache", shared_url(), "--json"])
    stores = [one for one in json.loads(result.stdout)["findings"] if one["name"] == "store"]
    # The problem, a server without fsync, is before what is fine.
    assert [one["state"] for one in stores] == ["bad", "ok"]
    [cache] = [one for one in json.loads(result.stdout)["findings"] if one["name"] == "cache"]
    assert (cache["state"], cache["detail"].endswith(" answers")) == ("ok", True)
    nobody = invoke(["doctor", "--store", "postgresql://nobody@127.0.0.1:1/x", "--json"])
    assert nobody.exit_code == 1
    bad = [one for one in json.loads(nobody.stdout)["findings"] if one["state"] == "bad"]
    assert [one["name"] for one in bad] == ["store"]
