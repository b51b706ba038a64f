"""Nothing vanishes: the auditor for your tests.

It lives in `turnfold.memory.auditing`, because the command line audits too and needs no pytest for it.
"""

from __future__ import annotations

from turnfold.memory.auditing import AuditFault, AuditRule, audit

__all__ = ("AuditFault", "AuditRule", "audit")
