"""The audit log of a service: who did what to which conversation, and whether it was allowed; never what was said.

Each authorized request is a record of the logger `turnfold.audit`, with fields. `write_audit_log` writes them to a
file, one JSON object per line, which only its owner can read. Conversations appear as marks: the same conversation has
the same mark, and the mark does not tell its id. The records reach no other log, because they name tenants.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from turnfold.errors import InvalidOption
from turnfold.service.auth import Caller
from turnfold.stores import log_mark

__all__ = ("record_request", "write_audit_log")


_AUDIT = logging.getLogger("turnfold.audit")
_AUDIT.propagate = False  # it names tenants, which belong in no other log
_AUDIT.setLevel(logging.CRITICAL)  # until somebody asks for it
_FIELDS: Final = ("request_id", "token", "tenant", "operation", "conversation", "status")


def record_request(
    caller: Caller, operation: str, params: Mapping[str, str], *, status: int, request_id: str
) -> None:
    """Record one request of a caller, if anybody asked for the log; `params` are those of its path, percent-encoded."""
    if not _AUDIT.isEnabledFor(logging.INFO):
        return
    name = params.get("session") or params.get("conversation_id") or ""
    _AUDIT.info(
        "%s %s %d",
        caller.name or "-",
        operation,
        status,
        extra={
            "event": "audit",
            "request_id": request_id,
            "token": caller.name,
            "tenant": caller.tenant,
            "operation": operation,
            "conversation": log_mark(caller.tenant, unquote(name)) if name else "",
            "status": status,
        },
    )


def write_audit_log(path: Path) -> None:
    """Write the records of the audit log to a file from now on; it is appended to, and never read."""
    try:
        handler = _PrivateFile(path, encoding="utf-8")
    except OSError as error:
        raise InvalidOption(f"cannot write the audit log {path}: {error.strerror}") from None
    handler.setFormatter(_JsonLines())
    _AUDIT.addHandler(handler)
    _AUDIT.setLevel(logging.INFO)


class _PrivateFile(logging.FileHandler):
    def _open(self) -> TextIOWrapper:
        opened = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        return os.fdopen(opened, "a", encoding="utf-8")


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line; JSON escapes every line break."""
        fields = {"at": round(record.created, 3), **{n: getattr(record, n) for n in _FIELDS}}
        return json.dumps(fields, ensure_ascii=True)
