"""Audit log of service and proxy: which token called which operation on which conversation, with which status.

It holds no content. Each authorized request is a record of the logger `turnfold.audit`, with fields. `write_audit_log`
writes the records to a file that only its owner can read, one JSON object per line. A conversation, or a user whose
data are erased, appears as a hash, so that its requests can be matched without revealing its id. The records reach no
other log, because they name tenants.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
from collections.abc import Mapping
from io import TextIOWrapper
from itertools import count
from pathlib import Path
from typing import Final

from turnfold.errors import InvalidOption
from turnfold.service.auth import Caller
from turnfold.stores import log_mark

__all__ = ("record_request", "request_id", "write_audit_log")


_AUDIT = logging.getLogger("turnfold.audit")
_AUDIT.propagate = False  # its records name tenants, which belong in no other log
_AUDIT.setLevel(logging.CRITICAL)  # off until write_audit_log() is called
_FIELDS: Final = ("request_id", "token", "tenant", "operation", "conversation", "status")


_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
_PROCESS: Final = secrets.token_hex(4)
"""Prefix that distinguishes the request ids of this process from those of others; not secret."""
_NUMBERS: Final = count(1)


def request_id(headers: Mapping[str, str]) -> str:
    """Return the X-Request-Id of a request, or a new id if it has none that is fit for a log."""
    given = headers.get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else f"{_PROCESS}{next(_NUMBERS) & 0xFFFFFFFF:08x}"


def record_request(
    caller: Caller, operation: str, target: str, *, status: int, request_id: str
) -> None:
    """Log one request of a caller, if the audit log is on; `target` is the conversation or user it was about."""
    if not _AUDIT.isEnabledFor(logging.INFO):
        return
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
            "conversation": log_mark(caller.tenant, target) if target else "",
            "status": status,
        },
    )


def write_audit_log(path: Path) -> None:
    """Turn on the audit log: append its records to a file from now on."""
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
        """Return an audit record as one line of JSON, which escapes every line break."""
        fields = {"at": round(record.created, 3), **{n: getattr(record, n) for n in _FIELDS}}
        return json.dumps(fields, ensure_ascii=True)
