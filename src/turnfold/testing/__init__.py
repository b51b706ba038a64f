"""Tools for your own tests: a scripted chat model, a local model server, a store conformance suite, and `audit`.

turnfold's own tests use them too; `audit` checks conversations. The conformance suite needs pytest and Hypothesis (the
extra `testing`) and is loaded on first use; the others need no other package. Nothing else in the library imports this
package.
"""

from __future__ import annotations

from turnfold._lazy_loading import late_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnfold.inspect import AuditFault, AuditRule, audit
    from turnfold.testing.model_replies import ModelReply, ReplyCall
    from turnfold.testing.model_server import (
        ModelServer,
        ReplyBytes,
        ReplyCut,
        ReplyError,
        ReplyStall,
        ReplyTrouble,
        ServedRequest,
    )
    from turnfold.testing.scripted_model import ScriptedModel, ScriptedRequest
    from turnfold.testing.stores import StoreConformance
    from turnfold.testing.stores.case_runner import Trial, case, drive

__all__ = (
    "AuditFault",
    "AuditRule",
    "ModelReply",
    "ModelServer",
    "ReplyBytes",
    "ReplyCall",
    "ReplyCut",
    "ReplyError",
    "ReplyStall",
    "ReplyTrouble",
    "ScriptedModel",
    "ScriptedRequest",
    "ServedRequest",
    "StoreConformance",
    "Trial",
    "audit",
    "case",
    "drive",
)

_HOMES = {
    "turnfold.inspect": "AuditFault AuditRule audit",
    "turnfold.testing.model_replies": "ModelReply ReplyCall",
    "turnfold.testing.model_server": "ModelServer ReplyBytes ReplyCut ReplyError ReplyStall ReplyTrouble ServedRequest",
    "turnfold.testing.scripted_model": "ScriptedModel ScriptedRequest",
    "turnfold.testing.stores": "StoreConformance",
    "turnfold.testing.stores.case_runner": "Trial case drive",
}

__getattr__, __dir__ = late_names(__name__, _HOMES)
