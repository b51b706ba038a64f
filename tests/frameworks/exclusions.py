"""pytest plugin: reads the list of the tests that cannot pass with turnfold, each with its reason.

A line is `node id = reason`; a node id without parameters stands for all of them. A test that needs something which is
not there (`needs ...`) is skipped. Every other listed test must fail, so that a line that is no longer true is seen;
with `--plain`, where turnfold is not swapped in, it is not expected to.
"""

from __future__ import annotations

from pathlib import Path

import pytest

NEEDS = "needs "


def reasons(text: str) -> dict[str, str]:
    """Return the reasons of a list, by node id."""
    listed = (
        line.partition(" = ") for line in text.splitlines() if line and not line.startswith("#")
    )
    return {name: reason for name, _, reason in listed}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the name of the list."""
    parser.addoption("--excluded", help="list of tests that cannot pass with turnfold")
    parser.addoption("--plain", action="store_true", help="turnfold is not swapped in")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Expect the listed tests to fail, and nothing else."""
    listed = reasons(Path(str(config.getoption("--excluded"))).read_text(encoding="utf-8"))
    for item in items:
        reason = listed.get(item.nodeid) or listed.get(item.nodeid.partition("[")[0])
        if reason is None:
            continue
        if reason.startswith(NEEDS):
            item.add_marker(pytest.mark.skip(reason=reason))
        elif not config.getoption("--plain"):
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
