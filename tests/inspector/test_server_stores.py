"""The inspector draws the same from PostgreSQL as from a file: it only asks what every store answers alike."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

psycopg = pytest.importorskip("psycopg", reason="PostgreSQL needs the extra 'postgres'")

from psycopg.conninfo import conninfo_to_dict  # noqa: E402

from tests.inspector.seeded import TALK, inspected, seed, store_at  # noqa: E402
from tests.stores.servers import fresh_database  # noqa: E402
from turnfold.memory import Memory  # noqa: E402
from turnfold.service import ServiceOptions  # noqa: E402
from turnfold.service.inspector.html import address  # noqa: E402

CLOCK = re.compile(r"<time .*?</time>|after=\d{15,}|\b\d+-[0-9a-f]{12}\b")
"""What differs between two runs: moments, and the ids of checkpoints."""


@pytest.fixture
def postgres() -> str:
    parts = conninfo_to_dict(fresh_database())
    user = f"{parts['user']}:{parts['password']}" if parts.get("password") else parts["user"]
    where = {key: parts[key] for key in ("host", "port") if parts.get(key)}
    return f"postgresql://{user}@/{parts['dbname']}?{urlencode(where)}"


def pages(store: str) -> Iterator[str]:
    seed(store)
    with Memory(store, scope="acme") as memory:
        calls = [each.call for each in memory.session(TALK).calls()]
    at = ("sessions", TALK)
    with (
        inspected(ServiceOptions(store=store, tenant="acme")) as service,
        service.client() as client,
    ):
        for where in (
            address(name="talk"),
            address(*at),
            address(*at, "calls", calls[-1]),
            address(*at, "diff", before=calls[8], after=calls[11]),
            address(*at, "log"),
            address(*at, "checkpoints"),
            address(*at, "recall", query="第 7 个问题"),
            address(*at, "snapshots", 2),
            address(*at, "snapshots", "diff", before=1, after=5),
        ):
            answer = client.get(where)
            assert answer.status_code == 200, where
            yield CLOCK.sub("", answer.text)


@pytest.mark.slow
def test_a_server_and_a_file_are_drawn_alike(postgres: str, tmp_path: Path) -> None:
    ours, theirs = list(pages(postgres)), list(pages(store_at(tmp_path)))
    assert ours == theirs
