"""Classify failed model calls by the provider's error, and retry them under one policy for all clients.

The SDKs raise many classes of errors and the providers word them differently, but a caller can do one of three things.
The prompt is too long: send less. The failure is temporary: try again. Anything else: change something first. Prompts
that are too long are recognised by the wording of each service, because most compatible servers have no error code for
them.

A refusal of something the provider wrote itself (a signature, encrypted reasoning, a compaction item, its encrypted
summary) is final for the request and not for the conversation: the same prompt can be sent without it, see
`refuses_items`.

The SDKs' own retries are switched off, so that no call is retried by both. Whether and when to retry is a pure function
of the failure, the attempt and a number between 0 and 1; `call_with_retries` does the waiting.
"""

from __future__ import annotations

import random
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import TypeVar, cast

from turnfold.errors import ContextOverflow, InvalidOption, ModelFailed, ModelUnavailable

__all__ = (
    "CallFailed",
    "Failure",
    "FailureClass",
    "RetryPolicy",
    "Sleep",
    "call_with_retries",
    "classify",
    "error_of",
    "failure_in",
    "failure_of",
    "no_answer",
    "refuses_compaction",
    "refuses_items",
    "retry_delay",
    "stream_cut",
)


_LONGEST_MESSAGE = 1_000
"""The most characters of a provider's error message that are shown, because it may be a whole web page."""

_TOO_LONG_CODES = frozenset({
    "context_length_exceeded",        # OpenAI, Azure, Groq
    "exceed_context_size_error",      # llama.cpp
    "model_context_window_exceeded",  # Z.ai
    "request_too_large",              # Anthropic: more than 32 MB
})  # fmt: skip
_TOO_LONG_WORDINGS = (
    r"context[_ ]length[_ ]exceeded",
    r"maximum context length",  # OpenAI, vLLM, DeepSeek, OpenRouter, Mistral, SGLang
    r"exceeds? the context window",  # OpenAI Responses
    r"input tokens exceed the configured limit",  # OpenAI Responses
    r"prompt (?:\([^)]{0,80}\) )?(?:is )?too long",  # Anthropic, Ollama, Qianfan, vLLM
    r"prompt \([^)]{0,80}\) is longer than the maximum model length",  # vLLM
    r"max_tokens must be at least 1, got -\d",  # vLLM: the prompt alone is longer than the window
    r"exceed context limit",  # Anthropic: input and max_tokens together
    r"exceeds the available context size",  # llama.cpp
    r"requested tokens \(\d+\) exceed context window",  # llama-cpp-python
    r"greater than the context length|context length of only",  # LM Studio
    r"input length (?:\S+ )?exceeds the",  # Ollama, Poolside
    r"longer than the model'?s context length",  # Together
    r"configured context size is",  # ds4
    r"range of input length should be",  # Qwen (DashScope)
    r"exceeded model token limit",  # Kimi
    r"context window exceeds limit",  # MiniMax
    r"prompt exceeds max length",  # GLM
    r"maximum prompt length is",  # xAI
    r"prompt token count of \d+ exceeds",  # GitHub Models
    r"input token count.{0,40}exceeds",  # Gemini
    r"input is too long for requested model",  # Bedrock
    r"reduce the length of the (?:input )?(?:messages|prompt)",
    r"输入内容超长",  # DeepSeek
)
_TOO_LONG = re.compile("|".join(_TOO_LONG_WORDINGS), re.IGNORECASE)
_ONE_REQUEST_TOO_LARGE = re.compile(
    r"request too large .*must be reduced", re.IGNORECASE | re.DOTALL
)
"""Matches the error for a single request above a limit per minute: waiting cannot help."""

_ITEM_WORDINGS = (
    r"encrypted[_ ]content",  # OpenAI: could not be verified, decrypted; Anthropic: not permitted
    r"conflicting authenticated continuation",  # Azure (anomalyco/opencode#48942)
    r"\bitem\b.{0,80}(?:not found|without its required)",  # OpenAI: an id without its reasoning, or not stored
    r"in `?(?:redacted_)?thinking`? blocks?\b",  # Anthropic: invalid signature, invalid data
    r"`?(?:redacted_)?thinking`? blocks?\b.{0,80}cannot be modified",  # Anthropic
    r"thought[_ ]?signature",  # Gemini: not valid, corrupted, missing
)
_COMPACTION_WORDINGS = (
    r"context_management",  # the parameter is unknown
    r"\bcompact(?:ion|[_-]20\d\d)",  # Anthropic: block refused, model without it, no such header
)
_REFUSED_ITEM = re.compile("|".join(_ITEM_WORDINGS + _COMPACTION_WORDINGS), re.IGNORECASE)
_REFUSED_COMPACTION = re.compile(r"context_management|compact[_-]20\d\d|not support", re.IGNORECASE)

_NO_CREDIT = frozenset({"insufficient_quota", "billing_error", "billing_hard_limit_reached"})
"""Error codes whose HTTP status looks temporary although only payment resolves them."""
_STATUS_OF = {
    "api_error": 500,
    "authentication_error": 401,
    "connection": 0,
    "invalid_request_error": 400,
    "not_found_error": 404,
    "overloaded_error": 529,
    "permission_error": 403,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "request_too_large": 413,
    "server_error": 500,
    "timeout_error": 504,
}
"""Type of an error that comes in the middle of an answer -> HTTP status that the same error has at the beginning."""
_PASSING = frozenset({"connection", "cut", "timeout"})
"""Values of `Failure.code` that stand for a temporary failure."""
_CONNECTION_ERRORS = frozenset({"TransportError", "SSEError", "OSError", "TimeoutError"})
"""Error classes of the HTTP packages that SDKs use: while streaming, Anthropic's SDK raises these errors unchanged."""


class FailureClass(StrEnum):
    """Classes of failures of model calls, by the reaction they allow: send less, try again, or change something."""

    TOO_LONG = "too long"
    """The prompt is too long: send less."""
    PASSING = "passing"
    """The failure is temporary: try again."""
    FINAL = "final"
    """The same request would fail again: change something first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The reason why one model call returned no answer."""

    message: str
    status: int = 0
    """HTTP status; 0 if there was none."""
    code: str = ""
    """The provider's error code; without one, `connection`, `timeout` or `cut` (the answer broke off)."""
    retry_after: float | None = None
    """Seconds that the provider asks to wait before a retry; None if the provider asks for none."""
    should_retry: bool | None = None
    """The provider's own advice about retrying; None if the provider gives none."""
    delivered: int = 0
    """Number of characters of the answer that the caller already received."""


class CallFailed(Exception):
    """Internal: carries the failure of one model call to the retry loop, which retries or raises `ModelFailed`."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.message)


def classify(failure: Failure) -> FailureClass:
    """Return the class of a failure, which says how a caller can react."""
    if failure.status == 429:
        if _ONE_REQUEST_TOO_LARGE.search(failure.message):
            return FailureClass.TOO_LONG
        return FailureClass.FINAL if failure.code in _NO_CREDIT else FailureClass.PASSING
    if (
        failure.status == 413
        or failure.code in _TOO_LONG_CODES
        or _TOO_LONG.search(failure.message)
    ):
        return FailureClass.TOO_LONG
    if failure.should_retry is not None:
        return FailureClass.PASSING if failure.should_retry else FailureClass.FINAL
    if failure.code in _PASSING or failure.status in (408, 409) or failure.status >= 500:
        return FailureClass.PASSING
    return FailureClass.FINAL


def refuses_items(failure: Failure) -> bool:
    """Return True if the provider refused a signature, encrypted item or compaction, without which a retry may work."""
    if classify(failure) is not FailureClass.FINAL:
        return False
    return bool(_REFUSED_ITEM.search(f"{failure.code} {failure.message}"))


def refuses_compaction(failure: Failure) -> bool:
    """Return True if the error message says that this model or server cannot compact conversations at all."""
    return bool(_REFUSED_COMPACTION.search(failure.message))


def error_of(failure: Failure, *, model: str, attempts: int) -> ModelFailed:
    """Return the turnfold error to raise for a failed model call after `attempts` attempts."""
    label = " ".join(
        filter(None, (f"HTTP {failure.status}" if failure.status else "", failure.code))
    )
    message = _clipped(failure.message or "the provider gave no reason")
    details = f"{label}: {message}" if label else message
    match classify(failure):
        case FailureClass.TOO_LONG:
            return ContextOverflow(
                f"{model} refused the prompt as too long ({details}). Send a smaller context"
            )
        case FailureClass.PASSING:
            tried = f"after {attempts} attempt{'s' if attempts > 1 else ''}"
            if failure.delivered:
                tried += f", {failure.delivered:,} characters into the answer"
            if failure.retry_after:
                tried += f"; it asks to wait {failure.retry_after:g} s"
            if (
                failure.code == "connection"
            ):  # more often a wrong address than a provider that is down
                return ModelUnavailable(
                    f"{model} gave no answer {tried} ({details}). Check the base URL and that the server runs, or try "
                    "again later"
                )
            return ModelUnavailable(f"{model} gave no answer {tried} ({details}). Try again later")
        case FailureClass.FINAL:
            done = "refused the call" if label else "could not be called"
            remedy = "The same call would fail again: change the request, the options or the key"
            return ModelFailed(f"{model} {done} ({details}). {remedy}")


def failure_of(error: BaseException, *, now: float) -> Failure:
    """Return the failure (status, code, message, time to wait) that an exception of a provider's SDK states."""
    status = _number(getattr(error, "status_code", 0))
    fields = _error_fields(getattr(error, "body", None))
    if not status and not fields:
        return Failure(message=_error_text(error), code=_connection_code(error))
    found = failure_in(fields)
    headers = _headers(error)
    return replace(
        found,
        message=found.message or _error_text(error),
        status=status if status >= 400 else found.status,
        retry_after=_retry_after(headers, now),
        should_retry={"true": True, "false": False}.get(headers.get("x-should-retry", "")),
    )


def failure_in(fields: Mapping[str, object]) -> Failure:
    """Read a failure from an error object inside a response, which some servers send with status 200."""
    code, kind = _text(fields.get("code")), _text(fields.get("type"))
    code = kind if not code or code.isdigit() else code  # llama.cpp repeats the status as the code
    details = fields.get("details")
    if isinstance(
        details, Mapping
    ):  # Anthropic's own code, for example compaction_signature_invalid
        code = _text(cast("Mapping[str, object]", details).get("error_code")) or code
    message = _text(fields.get("message"))
    return Failure(message=message, status=_STATUS_OF.get(code, 0), code=code)


def stream_cut() -> CallFailed:
    """Return the error for a stream that ended before the answer was complete."""
    return CallFailed(
        Failure(message="the stream ended before the answer was complete", code="cut")
    )


def no_answer(response: Mapping[str, object], missing: str) -> CallFailed:
    """Return the error for a response with HTTP status 200 but no answer: some servers send errors that way."""
    fields = _error_fields(response)
    if "error" in response and fields:
        return CallFailed(failure_in(fields))
    return CallFailed(
        Failure(message=f"the response has no {missing!r}, so it is not an answer; check base_url")
    )


def _connection_code(error: BaseException) -> str:
    names = {kind.__name__ for kind in type(error).__mro__}
    if "APITimeoutError" in names or "TimeoutException" in names or "TimeoutError" in names:
        return "timeout"
    if "APIConnectionError" in names or names & _CONNECTION_ERRORS:
        return "connection"
    return "cut" if isinstance(error, ValueError) and "JSONDecodeError" in names else ""


def _error_text(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    cause = error.__cause__
    return f"{text} ({type(cause).__name__}: {cause})" if cause is not None else text


def _error_fields(body: object) -> dict[str, object]:
    """Return the error object of a response body, which some SDKs have already taken out of the object around it."""
    if not isinstance(body, Mapping):
        return {}
    fields = dict(cast("Mapping[str, object]", body))
    inner = fields.get("error")
    return dict(cast("Mapping[str, object]", inner)) if isinstance(inner, Mapping) else fields


def _headers(error: BaseException) -> Mapping[str, str]:
    headers = getattr(getattr(error, "response", None), "headers", None)
    if not isinstance(headers, Mapping):
        return {}
    pairs = cast("Mapping[str, str]", headers).items()
    return {name.lower(): value for name, value in pairs}


def _retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds to wait that the headers state, as a number or a date; None if they state neither."""
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) / scale
        except (KeyError, ValueError):
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        return max(parsedate_to_datetime(headers["retry-after"]).timestamp() - now, 0.0)
    except (KeyError, ValueError, OverflowError):
        return None


def _clipped(message: str) -> str:
    more = len(message) - _LONGEST_MESSAGE
    return message if more <= 0 else f"{message[:_LONGEST_MESSAGE]}... and {more:,} characters more"


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _text(value: object) -> str:
    return str(value) if isinstance(value, str | int) else ""


T = TypeVar("T")
Sleep = Callable[[float], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Settings for retries: how many, and how long to wait before each."""

    retries: int = 2
    """The most retries after the first attempt."""
    first: float = 0.5
    """Seconds of the first pause, before jitter (a random part) shortens it; each further pause is twice as long."""
    longest: float = 8.0
    """Longest pause in seconds, unless the provider asks for a longer one."""
    patience: float = 60.0
    """Longest wait in seconds that a provider may ask for; if the provider asks for more, the call is not retried."""

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise InvalidOption(f"retries={self.retries} must not be negative: 0 turns retries off")
        if self.first <= 0:
            raise InvalidOption(
                f"first={self.first:g}, the seconds of the first pause, must be above 0"
            )
        if self.longest < self.first:
            raise InvalidOption(
                f"longest={self.longest:g}, the seconds of the longest pause, must be at least first={self.first:g}"
            )
        if self.patience < 0:
            raise InvalidOption(
                f"patience={self.patience:g}, the longest wait in seconds, must not be negative"
            )


def retry_delay(
    failure: Failure, *, attempt: int, policy: RetryPolicy, chance: float
) -> float | None:
    """Return the seconds to wait after the failed `attempt` (the first is 1); None to give up.

    Half of a pause depends on `chance` (jitter), so that callers that failed together do not retry together. If the
    provider states a time to wait, the pause is never shorter. After text was delivered, there is no retry, because
    it would be delivered twice.
    """
    if (
        attempt > policy.retries
        or failure.delivered
        or classify(failure) is not FailureClass.PASSING
    ):
        return None
    requested = failure.retry_after or 0.0
    if requested > policy.patience:
        return None
    usual = min(policy.longest, policy.first * 2.0 ** min(attempt - 1, 64))
    return max(
        usual * (0.5 + 0.5 * chance), requested + policy.first * chance if requested else 0.0
    )


async def call_with_retries(
    call: Callable[[], Awaitable[T]],
    *,
    model: str,
    policy: RetryPolicy,
    sleep: Sleep,
    recover: Callable[[Failure], bool] = lambda _: False,
) -> T:
    """Return the result of `call`, with retries by the policy; raise the last failure as a turnfold error.

    If `recover` returns True for a failure, it has changed the request: `call` is called again at once, and this does
    not count as a retry.
    """
    attempt = 0
    while True:
        attempt += 1
        try:
            return await call()
        except CallFailed as failed:
            if recover(failed.failure):
                attempt -= 1  # another request, not another attempt at the same
                continue
            delay = retry_delay(
                failed.failure,
                attempt=attempt,
                policy=policy,
                chance=random.random(),  # noqa: S311 (spreads callers out, protects nothing)
            )
            if delay is None:
                raise error_of(failed.failure, model=model, attempts=attempt) from failed.__cause__
        await sleep(delay)
