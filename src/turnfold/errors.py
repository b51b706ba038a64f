"""Every error turnfold raises, as one tree.

    TurnfoldError
    ├── InvalidRecord (ValueError)       a message or part that cannot be stored or sent as it is
    ├── InvalidBudget (ValueError)       numbers that can never be satisfied together
    ├── BudgetTooSmall                   valid numbers, but the mandatory parts do not fit
    ├── InvalidOption (ValueError)       an option outside its documented range
    ├── InvalidExport (ValueError)       a file that cannot be imported; names the line
    ├── NotFound (LookupError)           a conversation, call or file that was named and is not there
    ├── UnknownModel (LookupError)       a model name the table does not know, where a guess would be wrong
    ├── SummaryFailed                    the summariser gave nothing that can be used
    ├── ModelFailed                      the model gave no answer
    │   ├── ContextOverflow              the provider says the prompt is too long, whatever was counted
    │   └── ModelUnavailable             busy, unreachable or too slow; the retries are used up
    ├── StepsExhausted                   an agent took as many steps as it may without an answer
    ├── RequestRefused                   a service did not take the request; has its status
    │   ├── AccessDenied                 no token, a wrong one, or one without this right
    │   └── LimitExceeded                too many requests, too large a body, or a full quota
    ├── StoreError                       the log could not do what was asked
    │   ├── Conflict                     somebody else was first: read again, then decide
    │   ├── IdReused                     a client id that already names another body
    │   ├── ConversationDeleted          erased; nothing may be written to it any more
    │   ├── UnsafeStore                  a setting under which acknowledged entries could be lost
    │   ├── WrongProcess                 opened in one process, used in a fork of it
    │   └── StoreUnavailable             the backend cannot be reached or has been closed
    └── MissingExtra (ImportError)       an optional dependency is needed; names the extra

Misuse of Python itself (a wrong type, a missing argument) stays a built-in error. Every message states the
numbers involved and what to change, because the reader of a budget error is usually in the middle of an incident.
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
    "StepsExhausted",
    "StoreError",
    "StoreUnavailable",
    "SummaryFailed",
    "TurnfoldError",
    "UnknownModel",
    "UnsafeStore",
    "WrongProcess",
)


class TurnfoldError(Exception):
    """Root of everything turnfold raises on purpose. Every error survives pickling, on its way out of a process."""

    def __reduce__(self) -> tuple[object, ...]:
        # Python's own way calls the class with the finished message, which keyword-only constructors refuse.
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

    `path` says where in the value the fault sits, e.g. `messages[3].content[0].text`.
    """

    def __init__(self, problem: str, *, path: str = "", remedy: str = "") -> None:
        self.problem = problem
        self.path = path
        self.remedy = remedy
        where = f"{path}: " if path else ""
        super().__init__(f"{where}{problem}{f'. {remedy}' if remedy else ''}")

    def within(self, outer: str) -> InvalidRecord:
        """The same fault, located inside `outer`."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        return InvalidRecord(self.problem, path=f"{outer}{joint}{self.path}", remedy=self.remedy)


class InvalidBudget(TurnfoldError, ValueError):
    """Budget numbers that can never be satisfied together."""


class BudgetTooSmall(TurnfoldError):
    """The parts that may not be left out cost more than the budget allows.

    `needed` and `allowed` are in `unit`s; `parts` names each mandatory part with its cost, in order.
    """

    def __init__(
        self, *, needed: int, allowed: int, parts: dict[str, int], unit: str = "tokens", remedy: str
    ) -> None:
        self.needed = needed
        self.allowed = allowed
        self.parts = dict(parts)
        self.unit = unit
        self.remedy = remedy
        sum_text = " + ".join(f"{name} {cost:,}" for name, cost in parts.items())
        super().__init__(
            f"mandatory parts need {needed:,} {unit} ({sum_text}) but the budget allows {allowed:,}. {remedy}"
        )


class InvalidOption(TurnfoldError, ValueError):
    """An option outside its documented range; nothing is clamped."""


class InvalidExport(TurnfoldError, ValueError):
    """A file that is no export of this format, or is damaged; nothing of it was written. `line` counts from 1."""

    def __init__(self, problem: str, *, line: int, remedy: str = "") -> None:
        self.problem = problem
        self.line = line
        self.remedy = remedy
        super().__init__(f"line {line:,}: {problem}{f'. {remedy}' if remedy else ''}")


class NotFound(TurnfoldError, LookupError):
    """A conversation, a call or a file that was named and is not there; the message says what is."""


class UnknownModel(TurnfoldError, LookupError):
    """A model name the table does not know, where guessing would give a wrong answer."""


class SummaryFailed(TurnfoldError):
    """The summariser raised, timed out, or returned nothing that can be used."""


class ModelFailed(TurnfoldError):
    """The model gave no answer; the log is as it was before it was asked."""


class ContextOverflow(ModelFailed):
    """The provider says the prompt is too long, whatever was counted."""


class ModelUnavailable(ModelFailed):
    """The model is busy, unreachable or too slow; the retries are used up."""


class StepsExhausted(TurnfoldError):
    """An agent took as many steps as it may without an answer; its log is whole and can be continued."""


class RequestRefused(TurnfoldError):
    """A service did not take a request, for a reason that is none of the others here. `status` is that of HTTP."""

    def __init__(self, message: str, *, status: int = 400) -> None:
        self.status = status
        super().__init__(message)


class AccessDenied(RequestRefused):
    """No token, one the service does not know, or one without the right this takes."""

    def __init__(self, message: str, *, status: int = 401) -> None:
        super().__init__(message, status=status)


class LimitExceeded(RequestRefused):
    """More than a service takes. `used` + `asked` is above `allowed`; `again` says in how many seconds it may fit.

    `unit` says what was counted where a limit may be one of several: "tokens" or "bytes" of a quota.
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
    """The log could not do what was asked; nothing was half done."""


class Conflict(StoreError):
    """Somebody else was first. Read again, then decide; nothing was written."""


class IdReused(StoreError):
    """A client id that already names an entry with another body; nothing was written."""


class ConversationDeleted(StoreError):
    """The conversation was erased; nothing may be written to it any more."""


class UnsafeStore(StoreError):
    """A setting under which acknowledged entries could be lost; the store refuses to open."""


class WrongProcess(StoreError):
    """A store opened in one process is used in a fork of it, or its file opened there; nothing was done."""


class StoreUnavailable(StoreError):
    """The backend cannot be reached, or has been closed."""


class MissingExtra(TurnfoldError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, *, package: str, extra: str, purpose: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(
            f"{purpose} needs the package {package!r}: pip install 'turnfold[{extra}]'"
        )
