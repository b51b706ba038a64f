"""FOR YOUR TESTS: what turnfold's own tests stand on, shipped so that what you write can stand on it too.

Needs pytest and Hypothesis; nothing else in the library imports this package. Its modules are registered with pytest
before they are imported, so that a failing case shows the values it compared.
"""

from __future__ import annotations

import pkgutil

import pytest

pytest.register_assert_rewrite(
    *(f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__))
)

from turnfold.testing.store_conformance import StoreConformance  # noqa: E402 (after the registration)
from turnfold.testing.store_conformance_trial import Trial, case, drive  # noqa: E402 (likewise)

__all__ = ("StoreConformance", "Trial", "case", "drive")
