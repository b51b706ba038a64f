"""Errors over HTTP: problem details (RFC 9457) made from errors, and the same errors rebuilt from them.

The `type` of a problem never changes, so programs in any language can tell a conflict from a budget that is too small
without parsing a sentence; the numbers of the error are separate fields. A client raises the error that an embedded
memory would have raised.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, cast

import msgspec

from turnfold.errors import (
    AccessDenied,
    BudgetTooSmall,
    Conflict,
    ContextOverflow,
    ConversationDeleted,
    IdReused,
    InvalidBudget,
    InvalidExport,
    InvalidOption,
    InvalidRecord,
    LimitExceeded,
    MissingExtra,
    ModelFailed,
    ModelUnavailable,
    NotFound,
    RequestRefused,
    SessionBusy,
    StepsExhausted,
    StoreError,
    StoreUnavailable,
    SummaryFailed,
    TurnfoldError,
    UnknownModel,
    UnsafeStore,
    WrongKey,
    WrongProcess,
)

__all__ = (
    "CONTENT_TYPE",
    "KINDS",
    "Problem",
    "ProblemKind",
    "caller_summary",
    "error_from",
    "kind_of",
    "problem_of",
)


CONTENT_TYPE: Final = "application/problem+json"
_PREFIX: Final = "urn:turnfold:problem:"


class Problem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Response body of a request that failed."""

    type: str
    """URI that identifies the kind of problem; it never changes."""
    title: str
    status: int
    detail: str
    """Text that says what happened, with the numbers, and what to do."""
    request_id: str = ""
    fields: dict[str, object] = {}
    """The numbers and names that occur in `detail`, by field name."""


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """One kind of problem: its name, error class, HTTP status and title."""

    name: str
    error: type[TurnfoldError]
    status: int
    title: str

    @property
    def type(self) -> str:
        """URN that identifies this kind of problem; it never changes."""
        return f"{_PREFIX}{self.name}"


KINDS: Final = (
    ProblemKind("invalid-record", InvalidRecord, 422, "Invalid message"),
    ProblemKind("invalid-budget", InvalidBudget, 422, "Budget settings contradict each other"),
    ProblemKind(
        "budget-too-small", BudgetTooSmall, 422, "The mandatory parts do not fit the budget"
    ),
    ProblemKind("invalid-option", InvalidOption, 422, "An option is out of range"),
    ProblemKind("invalid-export", InvalidExport, 422, "The file cannot be imported"),
    ProblemKind("not-found", NotFound, 404, "Not found"),
    ProblemKind("unknown-model", UnknownModel, 422, "Unknown model"),
    ProblemKind("summary-failed", SummaryFailed, 502, "The summarizer returned nothing usable"),
    ProblemKind("model-failed", ModelFailed, 502, "The model returned no answer"),
    ProblemKind(
        "context-overflow", ContextOverflow, 502, "The provider rejected the prompt as too long"
    ),
    ProblemKind("model-unavailable", ModelUnavailable, 503, "The model is busy or unreachable"),
    ProblemKind("steps-exhausted", StepsExhausted, 502, "The agent reached its step limit"),
    ProblemKind("session-busy", SessionBusy, 503, "Another run of an agent has the session"),
    ProblemKind("request-refused", RequestRefused, 400, "Bad request"),
    ProblemKind("access-denied", AccessDenied, 401, "Missing or invalid token, or a missing right"),
    ProblemKind("limit-exceeded", LimitExceeded, 429, "Limit exceeded"),
    ProblemKind("store-error", StoreError, 500, "The store failed"),
    ProblemKind("conflict", Conflict, 409, "Conflict with a concurrent change"),
    ProblemKind("id-reused", IdReused, 422, "The idempotency key was used for another request"),
    ProblemKind("conversation-deleted", ConversationDeleted, 410, "The conversation was deleted"),
    ProblemKind("unsafe-store", UnsafeStore, 500, "The store has an unsafe setting"),
    ProblemKind("wrong-key", WrongKey, 500, "The store is encrypted with another key"),
    ProblemKind("wrong-process", WrongProcess, 500, "The store was opened by another process"),
    ProblemKind("store-unavailable", StoreUnavailable, 503, "The store cannot be reached"),
    ProblemKind("missing-extra", MissingExtra, 501, "An optional package is not installed"),
    ProblemKind("internal", TurnfoldError, 500, "The service failed"),
)
_BY_ERROR: Final = {kind.error: kind for kind in KINDS}
_BY_TYPE: Final = {kind.type: kind for kind in KINDS}
_OPERATORS_ONLY: Final = {
    "store-error": "the store failed; no partial change was made",
    "store-unavailable": "the store cannot be reached; try again",
    "unsafe-store": "the store has an unsafe setting; the operator must fix it",
    "wrong-key": "the store is encrypted with another key; the operator must fix it",
    "wrong-process": "the store was opened by another process; the operator must fix it",
    "internal": "internal error; see the service log for this request id",
}
"""Kind of problem -> text shown to clients, where the real message may name hosts, users and files and is only
logged."""
_REQUESTS: Final = {
    "session.calls() lists": "GET /v1/sessions/{session}/calls lists",
    "session.history() lists": "GET /v1/sessions/{session}/messages lists",
    "session.rules() lists": "GET /v1/sessions/{session}/rules lists",
    "checkpoints() lists": "GET /v1/sessions/{session}/checkpoints lists",
    "conversations() lists": "GET /v1/sessions lists",
}
"""Library calls that errors name as a remedy -> the HTTP requests that do the same."""


def kind_of(error: BaseException) -> ProblemKind:
    """Return the `ProblemKind` of an error's class or, if it has none, of its nearest base class that has one."""
    for each in type(error).__mro__:
        if each in _BY_ERROR:
            return _BY_ERROR[each]
    return _BY_ERROR[TurnfoldError]


@contextmanager
def caller_summary(summary: str | None) -> Generator[None]:
    """Context manager: `SummaryFailed` raised inside gets HTTP status 422 if the caller gave the summary, else 502."""
    try:
        yield
    except SummaryFailed as error:
        if summary is not None:
            vars(error)["status"] = 422
        raise


def problem_of(error: BaseException, *, request_id: str = "") -> Problem:
    """Return the problem details (RFC 9457 response body) of an error."""
    kind = kind_of(error)
    hidden = _OPERATORS_ONLY.get(kind.name)
    fields = {} if hidden else {k: v for k, v in vars(error).items() if not k.startswith("_")}
    status = cast("int", fields.pop("status", kind.status))
    return Problem(
        type=kind.type,
        title=kind.title,
        status=status,
        detail=hidden or _replaced(str(error), _REQUESTS),
        request_id=request_id,
        fields=fields,
    )


def error_from(status: int, body: bytes) -> TurnfoldError:
    """Return the error that the service raised, rebuilt from its failed HTTP response.

    A response that is not from turnfold becomes `StoreUnavailable` (502, 503, 504) or `RequestRefused`.
    """
    try:
        problem = msgspec.json.decode(body, type=Problem)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return _foreign_error(status)
    kind = _BY_TYPE.get(problem.type)
    if kind is None:
        return RequestRefused(f"{problem.title}: {problem.detail}", status=status)
    own_status = {"status": status} if issubclass(kind.error, RequestRefused) else {}
    detail = _replaced(problem.detail, {request: call for call, request in _REQUESTS.items()})
    return _rebuild(kind.error, detail, {**problem.fields, **own_status})


def _replaced(text: str, names: Mapping[str, str]) -> str:
    for name, other in names.items():
        text = text.replace(name, other)
    return text


def _foreign_error(status: int) -> TurnfoldError:
    if status in (502, 503, 504):
        return StoreUnavailable(
            f"HTTP {status} from a proxy in front of the service: the service cannot be reached; try again later"
        )
    return RequestRefused(
        f"HTTP {status} from a server that is not a turnfold service; check the URL", status=status
    )


def _rebuild(kind: type[TurnfoldError], detail: str, fields: Mapping[str, object]) -> TurnfoldError:
    """Make an error with this message, without calling its constructor, which would write another message."""
    error = kind.__new__(kind)
    Exception.__init__(error, detail)
    vars(error).update(fields)
    return error
