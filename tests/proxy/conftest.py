"""Providers are local here, and speak plain HTTP."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def plain_http(no_certificates: None) -> None:
    """Use no certificates in this folder."""
