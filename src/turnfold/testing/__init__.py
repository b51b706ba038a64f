"""FOR YOUR TESTS: what turnfold's own tests stand on, shipped so that what you write can stand on it too.

Needs pytest and Hypothesis; nothing else in the library imports this package. Its modules are registered with pytest
before they are imported, so that a failing case shows the values it compared.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from turnfold.errors import MissingExtra

try:
    import_module("hypothesis")  # the cases need it; its absence is told here, once and plainly
    import pytest
except ImportError as missing:
    raise MissingExtra(
        package=missing.name or "pytest", extra="testing", purpose="turnfold.testing"
    ) from missing

pytest.register_assert_rewrite(
    *(f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__))
)

from turnfold.testing.audit import AuditFault, AuditRule, audit  # noqa: E402 (after the registration)
from turnfold.testing.scripted_model import Asked, ScriptedModel  # noqa: E402 (likewise)
from turnfold.testing.store_conformance import StoreConformance  # noqa: E402 (likewise)
from turnfold.testing.store_conformance_trial import Trial, case, drive  # noqa: E402 (likewise)

__all__ = (
    "Asked",
    "AuditFault",
    "AuditRule",
    "ScriptedModel",
    "StoreConformance",
    "Trial",
    "audit",
    "case",
    "drive",
)
