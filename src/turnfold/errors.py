"""All errors that turnfold raises, as one class tree.

    TurnfoldError
    ├── InvalidRecord (ValueError)       a message or part that cannot be stored or sent as it is
    ├── InvalidBudget (ValueError)       budget numbers that can never be satisfied together
    ├── BudgetTooSmall                   the budget is valid, but the mandatory parts of a prompt do not fit it
    ├── InvalidOption (ValueError)       an option outside its documented range
    ├── InvalidExport (ValueError)       a file that cannot be imported; names the line
    ├── NotFound (LookupError)           a conversation, call or file that does not exist
    ├── UnknownModel (LookupError)       a model name that is not in the table, where a guess would be wrong
    ├── SummaryFailed                    the summariser returned nothing usable
    ├── ModelFailed                      the model gave no answer
    │   ├── ContextOverflow              the provider refused the prompt because it is too long
    │   └── ModelUnavailable             busy, unreachable or too slow; the retries are used up
    ├── StepsExhausted                   an agent reached its step limit without an answer
    ├── SessionBusy                      another run of an agent has the session: send the message again later
    ├── RequestRefused                   a service rejected the request; has the HTTP status
    │   ├── AccessDenied                 no access token, a wrong one, or one without this right
    │   └── LimitExceeded                too many requests, too large a body, or a full quota
    ├── StoreError                       a store operation failed
    │   ├── Conflict                     another writer was first: read again, then decide
    │   ├── IdReused                     a client id that is already used with another body
    │   ├── ConversationDeleted          the conversation was erased; nothing can be written to it any more
    │   ├── UnsafeStore                  the database has a setting with which acknowledged entries could be lost
    │   ├── WrongKey                     the given keys do not decrypt the conversation
    │   ├── WrongProcess                 a store opened in one process is used in a fork of that process
    │   └── StoreUnavailable             the database cannot be reached, or the store has been closed
    └── MissingExtra (ImportError)       an optional dependency is needed; names the extra

Programming errors (a wrong type, a missing argument) raise Python's built-in errors. Every message states the values
involved and what to change.
"""

from __future__ import annotations

__all__ = (
    "AccessDenied",
    "BudgetTooSmall",
    "Conflict",
    "ContextOverflow",
    "ConversationDeleted",
    "IdReused",
    "InvalidBudget",
    "InvalidExport",
    "InvalidOption",
    "InvalidRecord",
    "LimitExceeded",
    "MissingExtra",
    "ModelFailed",
    "ModelUnavailable",
    "NotFound",
    "RequestRefused",
    "SessionBusy",
    "StepsExhausted",
    "StoreError",
    "StoreUnavailable",
    "SummaryFailed",
    "TurnfoldError",
    "UnknownModel",
    "UnsafeStore",
    "WrongKey",
    "WrongProcess",
)


class TurnfoldError(Exception):
    """Base class of all errors of turnfold. All of them can be pickled."""

    def __reduce__(self) -> tuple[object, ...]:
        # By default Python calls the class with the message, which keyword-only constructors do not accept.
        return _restored, (type(self), self.args, dict(vars(self)))


def _restored(
    kind: type[TurnfoldError], args: tuple[object, ...], state: dict[str, object]
) -> TurnfoldError:
    error = kind.__new__(kind)
    super(TurnfoldError, error).__init__(*args)
    vars(error).update(state)
    return error


class InvalidRecord(TurnfoldError, ValueError):
    """A message or part that cannot be stored or sent as it is.

    `path` is the place in the value, e.g. `messages[3].content[0].text`.
    """

    def __init__(self, problem: str, *, path: str = "", remedy: str = "") -> None:
        self.problem = problem
        self.path = path
        self.remedy = remedy
        where = f"{path}: " if path else ""
        super().__init__(f"{where}{problem}{f'. {remedy}' if remedy else ''}")

    def within(self, outer: str) -> InvalidRecord:
        """Return the same error for a value inside a larger one: `outer` is put before its path."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        return InvalidRecord(self.problem, path=f"{outer}{joint}{self.path}", remedy=self.remedy)


class InvalidBudget(TurnfoldError, ValueError):
    """The numbers of a budget contradict each other or leave no room, so that no prompt could ever fit."""


class BudgetTooSmall(TurnfoldError):
    """The mandatory parts of a prompt need more than the budget allows.

    `needed` and `allowed` are numbers of `unit`; `parts` has the size of each mandatory part by name, in order.
    `budget` is the whole budget where `allowed` is only a share of it, else 0.
    """

    def __init__(
        self,
        *,
        needed: int,
        allowed: int,
        parts: dict[str, int],
        unit: str = "tokens",
        remedy: str,
        budget: int = 0,
    ) -> None:
        self.needed = needed
        self.allowed = allowed
        self.parts = dict(parts)
        self.unit = unit
        self.remedy = remedy
        self.budget = budget
        sum_text = " + ".join(f"{name}: {cost:,}" for name, cost in parts.items())
        limit = "the budget allows" if not budget else f"their share of the budget of {budget:,} is"
        enough = ""
        if budget and allowed > 0:
            enough = f": a budget of {-(-needed * budget // allowed):,} has room for them"
        super().__init__(
            f"mandatory parts need {needed:,} {unit} ({sum_text}) but {limit} {allowed:,}{enough}. {remedy}"
        )

    def within(self, budget: int) -> BudgetTooSmall:
        """Return the same error for a share of a `budget`, which its text names too."""
        return BudgetTooSmall(
            needed=self.needed,
            allowed=self.allowed,
            parts=self.parts,
            unit=self.unit,
            remedy=self.remedy,
            budget=budget,
        )


class InvalidOption(TurnfoldError, ValueError):
    """An option or argument has a value that is not allowed; values are never adjusted silently."""


class InvalidExport(TurnfoldError, ValueError):
    """A file that is not an export of this format, or is damaged; nothing was imported.

    `line` counts from 1; it is 0 if no single line is at fault, as in a binary file.
    """

    def __init__(self, problem: str, *, line: int = 0, remedy: str = "") -> None:
        self.problem = problem
        self.line = line
        self.remedy = remedy
        place = f"line {line:,}: " if line else ""
        super().__init__(f"{place}{problem}{f'. {remedy}' if remedy else ''}")


class NotFound(TurnfoldError, LookupError):
    """The conversation, entry, call or file that was asked for does not exist."""


class UnknownModel(TurnfoldError, LookupError):
    """A model name that is not in the table of models; its limits are not guessed."""


class SummaryFailed(TurnfoldError):
    """The summariser raised, timed out, or returned nothing usable."""


class ModelFailed(TurnfoldError):
    """The model gave no answer; the log is as it was before the call."""


class ContextOverflow(ModelFailed):
    """The provider refused the prompt because it is too long."""


class ModelUnavailable(ModelFailed):
    """The model is busy, unreachable or too slow; the retries are used up."""


class StepsExhausted(TurnfoldError):
    """An agent reached its step limit without an answer; its log is complete and can be continued."""


class SessionBusy(TurnfoldError):
    """Another run of an agent has the session, and did not end within the time limit; nothing was logged."""


class RequestRefused(TurnfoldError):
    """A service refused a request, for a reason that no other error covers. `status` is the HTTP status."""

    def __init__(self, message: str, *, status: int = 400) -> None:
        self.status = status
        super().__init__(message)


class AccessDenied(RequestRefused):
    """The request had no access token, an unknown token, or a token without the right for this request."""

    def __init__(self, message: str, *, status: int = 401) -> None:
        super().__init__(message, status=status)


class LimitExceeded(RequestRefused):
    """A limit of a service is exceeded: `used` + `asked` is above `allowed`. Retry after `again` seconds.

    `unit` names the limit where a quota has several: "tokens" or "bytes".
    """

    def __init__(
        self,
        message: str,
        *,
        allowed: float = 0,
        used: float = 0,
        asked: float = 0,
        again: float = 0.0,
        unit: str = "",
        status: int = 429,
    ) -> None:
        self.allowed = allowed
        self.used = used
        self.asked = asked
        self.again = again
        self.unit = unit
        super().__init__(message, status=status)


class StoreError(TurnfoldError):
    """A store operation failed as a whole: no part of it was carried out."""


class Conflict(StoreError):
    """Another writer was first, and nothing was written. Read the data again before you retry."""


class IdReused(StoreError):
    """A client id is already used for an entry with other content; nothing was written."""


class ConversationDeleted(StoreError):
    """The conversation was erased; nothing can be written to it any more."""


class UnsafeStore(StoreError):
    """The database has a setting with which acknowledged entries could be lost; the store is not opened."""


class WrongKey(StoreError):
    """A conversation cannot be decrypted with these keys; no part of it was read.

    The message names the conversation by a pseudonym, because messages are logged; `conversation` is its id, if known.
    """

    conversation: str = ""

    def __init__(self, message: str, *, conversation: str = "") -> None:
        super().__init__(message)
        self.conversation = conversation


class WrongProcess(StoreError):
    """A store of one process is used, or its file is opened, in a fork of that process; no operation was done."""


class StoreUnavailable(StoreError):
    """The database of the store cannot be reached, or the store has been closed."""


class MissingExtra(TurnfoldError, ImportError):
    """An optional package is not installed; `extra` is empty if no extra of turnfold installs it."""

    def __init__(self, *, package: str, extra: str, purpose: str) -> None:
        self.package = package
        self.extra = extra
        wanted = f"'turnfold[{extra}]'" if extra else package
        super().__init__(f"{purpose} needs the package {package!r}: pip install {wanted}")
