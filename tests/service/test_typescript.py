"""The TypeScript client: its own tests under Node, and a table of operations that is the service's."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.service.node_client import CLIENT, need_client
from tests.service.running import running
from turnfold.api import OPERATIONS
from turnfold.service import ServiceOptions


def test_the_client_passes_its_tests_under_node(tmp_path: Path) -> None:
    need_client()
    with running(ServiceOptions(store=f"sqlite:///{tmp_path / 'talk.db'}")) as service:
        done = subprocess.run(
            ["node", "--test", "test/client.test.mjs"],
            cwd=CLIENT,
            env={**os.environ, "TURNFOLD_URL": service.url},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"# pass [1-9]", done.stdout), done.stdout


def test_the_built_client_knows_every_operation() -> None:
    need_client()
    table = (CLIENT / "dist" / "operations.js").read_text(encoding="utf-8")
    for each in OPERATIONS:
        line = f'{each.name}: ["{each.method}", "{each.path}", {str(each.keyed or each.grows).lower()}]'
        assert line in table
