"""The conversation auditor, for tests: it checks that no entry of a conversation is lost.

It is defined in `turnfold.inspect`, because the command line uses it too, without pytest.
"""

from __future__ import annotations

from turnfold.inspect import AuditFault, AuditRule, audit

__all__ = (
    "AuditFault",
    "AuditRule",
    "audit",
)
