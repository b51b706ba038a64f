"""Tools for your tests: a store conformance suite, a scripted chat model, an auditor of conversations.

These are the tools of turnfold's own tests. The scripted model and the auditor need nothing else; the conformance suite
needs pytest and Hypothesis (the extra `testing`), and is loaded on first use. Nothing else in the library imports this
package.
"""

from __future__ import annotations

from turnfold._late_names import late_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnfold.inspect import AuditFault, AuditRule, audit
    from turnfold.testing.scripted_model import ScriptedModel, ScriptedRequest
    from turnfold.testing.stores import StoreConformance
    from turnfold.testing.stores.trial import Trial, case, drive

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

_HOMES = {
    "turnfold.inspect": "AuditFault AuditRule audit",
    "turnfold.testing.scripted_model": "ScriptedModel ScriptedRequest",
    "turnfold.testing.stores": "StoreConformance",
    "turnfold.testing.stores.trial": "Trial case drive",
}

__getattr__, __dir__ = late_names(__name__, _HOMES)
