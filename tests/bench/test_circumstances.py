"""A benchmark runs with the packages it needs, and names those that are missing."""

from __future__ import annotations

from typing import Any, cast

import pytest

from bench import __main__ as bench


def test_a_missing_package_is_named_and_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_OURS", ("turnfold", "no-such-package"))
    told = bench._circumstances(cast("Any", None), ["search"], quick=True)
    assert "no-such-package not installed" in told
    assert "turnfold 0" in told or "turnfold 1" in told
