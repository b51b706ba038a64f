"""Tools for your tests: a store conformance suite, a scripted chat model, an auditor of conversations.

These are the tools of turnfold's own tests. They need pytest and Hypothesis; nothing else in the library imports this
package. Its modules are registered with pytest before they are imported, so that a failed assertion shows its values.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from turnfold.errors import MissingExtra

try:
    import_module("hypothesis")  # needed by the cases; reported here if it is missing
    import pytest
except ImportError as missing:
    raise MissingExtra(
        package=missing.name or "pytest", extra="testing", purpose="turnfold.testing"
    ) from missing

pytest.register_assert_rewrite(
    "turnfold.testing.stores",
    *(f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__)),
)

from turnfold.testing.audit import AuditFault, AuditRule, audit  # noqa: E402 (after the registration)
from turnfold.testing.scripted_model import ScriptedModel, ScriptedRequest  # noqa: E402 (likewise)
from turnfold.testing.stores import StoreConformance  # noqa: E402 (likewise)
from turnfold.testing.stores.trial import Trial, case, drive  # noqa: E402 (likewise)

__all__ = (
    "AuditFault",
    "AuditRule",
    "ScriptedModel",
    "ScriptedRequest",
    "StoreConformance",
    "Trial",
    "audit",
    "case",
    "drive",
)
