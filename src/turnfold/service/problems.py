"""Errors on their way through HTTP: a problem detail (RFC 9457) from an error, and the same error back from it.

The type of a problem is a name that never changes, so programs in any language can tell a conflict from a budget that
is too small without reading a sentence; the numbers of the error travel as members of their own. Both directions
stand here, and a client raises what an embedded memory would have raised.
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
    StepsExhausted,
    StoreError,
    StoreUnavailable,
    SummaryFailed,
    TurnfoldError,
    UnknownModel,
    UnsafeStore,
    WrongProcess,
)

__all__ = (
    "CONTENT_TYPE",
    "KINDS",
    "Kind",
    "Problem",
    "error_from",
    "given_by_the_caller",
    "kind_of",
    "problem_of",
)

CONTENT_TYPE: Final = "application/problem+json"
_PREFIX: Final = "urn:turnfold:problem:"


class Problem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a refused request is answered with."""

    type: str
    """Names the kind of problem; never changes."""
    title: str
    status: int
    detail: str
    """What happened here, with the numbers and the remedy."""
    request_id: str = ""
    fields: dict[str, object] = {}
    """The numbers of `detail`, by name."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of problem."""

    name: str
    error: type[TurnfoldError]
    status: int
    title: str

    @property
    def type(self) -> str:
        """Its stable name."""
        return f"{_PREFIX}{self.name}"


KINDS: Final = (
    Kind("invalid-record", InvalidRecord, 422, "A message that cannot be kept as it is"),
    Kind("invalid-budget", InvalidBudget, 422, "Budget numbers that can never work together"),
    Kind("budget-too-small", BudgetTooSmall, 422, "The mandatory parts do not fit the budget"),
    Kind("invalid-option", InvalidOption, 422, "An option outside its documented range"),
    Kind("invalid-export", InvalidExport, 422, "A file that cannot be imported"),
    Kind("not-found", NotFound, 404, "What was named is not there"),
    Kind("unknown-model", UnknownModel, 422, "A model name the table does not know"),
    Kind("summary-failed", SummaryFailed, 502, "The summariser gave nothing that can be used"),
    Kind("model-failed", ModelFailed, 502, "The model gave no answer"),
    Kind("context-overflow", ContextOverflow, 502, "The provider says the prompt is too long"),
    Kind("model-unavailable", ModelUnavailable, 503, "The model is busy or unreachable"),
    Kind("steps-exhausted", StepsExhausted, 502, "An agent took as many steps as it may"),
    Kind("request-refused", RequestRefused, 400, "The request was not taken"),
    Kind("access-denied", AccessDenied, 401, "No token, or one without this right"),
    Kind("limit-exceeded", LimitExceeded, 429, "More than the service takes"),
    Kind("store-error", StoreError, 500, "The store could not do what was asked"),
    Kind("conflict", Conflict, 409, "Somebody else was first"),
    Kind("id-reused", IdReused, 422, "The idempotency key names another body"),
    Kind("conversation-deleted", ConversationDeleted, 410, "The conversation was erased"),
    Kind("unsafe-store", UnsafeStore, 500, "The store refuses an unsafe setting"),
    Kind("wrong-process", WrongProcess, 500, "The store belongs to another process"),
    Kind("store-unavailable", StoreUnavailable, 503, "The store cannot be reached"),
    Kind("missing-extra", MissingExtra, 501, "An optional package is not installed"),
    Kind("internal", TurnfoldError, 500, "The service failed"),
)
_BY_ERROR: Final = {kind.error: kind for kind in KINDS}
_BY_TYPE: Final = {kind.type: kind for kind in KINDS}
_OPERATORS_ONLY: Final = {
    "store-error": "the store could not do it; nothing was half done",
    "store-unavailable": "the store cannot be reached now; try again",
    "unsafe-store": "the store is not set up safely; its operator has to see to it",
    "wrong-process": "the store was opened in another process; its operator has to see to it",
    "internal": "the service failed; its log has the reason under this request id",
}
"""Kinds whose own words name hosts, users and files: these go to the log, not to whoever asked."""


def kind_of(error: BaseException) -> Kind:
    """The kind of an error, or of the nearest it is derived from."""
    for each in type(error).__mro__:
        if each in _BY_ERROR:
            return _BY_ERROR[each]
    return _BY_ERROR[TurnfoldError]


@contextmanager
def given_by_the_caller(summary: str | None) -> Generator[None]:
    """A summary the caller wrote that cannot be used is the caller's fault, not that of a summariser behind us."""
    try:
        yield
    except SummaryFailed as error:
        if summary is not None:
            vars(error)["status"] = 422
        raise


def problem_of(error: BaseException, *, request_id: str = "") -> Problem:
    """What is answered where `error` was raised."""
    kind = kind_of(error)
    hidden = _OPERATORS_ONLY.get(kind.name)
    fields = {} if hidden else {k: v for k, v in vars(error).items() if not k.startswith("_")}
    status = cast("int", fields.pop("status", kind.status))
    return Problem(
        type=kind.type,
        title=kind.title,
        status=status,
        detail=hidden or str(error),
        request_id=request_id,
        fields=fields,
    )


def error_from(status: int, body: bytes) -> TurnfoldError:
    """The error a service answered with; one that no service of ours wrote is a `RequestRefused`."""
    try:
        problem = msgspec.json.decode(body, type=Problem)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return _foreign(status)
    kind = _BY_TYPE.get(problem.type)
    if kind is None:
        return RequestRefused(f"{problem.title}: {problem.detail}", status=status)
    return _made(kind.error, problem.detail, {**problem.fields, **_status(kind.error, status)})


def _foreign(status: int) -> TurnfoldError:
    if status in (502, 503, 504):
        return StoreUnavailable(f"the service cannot be reached: HTTP {status}")
    return RequestRefused(f"HTTP {status} from what is no turnfold service", status=status)


def _status(error: type[TurnfoldError], status: int) -> dict[str, object]:
    return {"status": status} if issubclass(error, RequestRefused) else {}


def _made(kind: type[TurnfoldError], detail: str, fields: Mapping[str, object]) -> TurnfoldError:
    """An error with its finished message: constructors would write it anew from numbers they were not given."""
    error = kind.__new__(kind)
    Exception.__init__(error, detail)
    vars(error).update(fields)
    return error
