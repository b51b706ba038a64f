"""Why a call failed, told from what the provider said about it.

The SDKs raise many classes and the providers behind one interface use many words; what a caller can do about it comes
down to three cases. The prompt is too long: send less. The fault may pass: try again. Anything else: somebody has to
change something. The wordings below are those of the services themselves, because most compatible servers give no
code of their own for a prompt that is too long.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import cast

from turnfold.errors import ContextOverflow, ModelFailed, ModelUnavailable

__all__ = (
    "CallFailed",
    "Failure",
    "Verdict",
    "error_of",
    "failure_in",
    "failure_of",
    "no_answer",
    "verdict",
)

_LONGEST_MESSAGE = 1_000
"""Characters of a provider's message that are shown: a proxy may answer with a whole page."""

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
"""A limit per minute that this one request exceeds alone: waiting cannot help."""

_USED_UP = frozenset({"insufficient_quota", "billing_error", "billing_hard_limit_reached"})
"""Busy by its status, but only money makes it pass."""
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
"""The status an error would have had, had it not come in the middle of an answer."""
_PASSING = frozenset({"connection", "cut", "timeout"})
_BROKEN_LINE = frozenset({"TransportError", "SSEError", "OSError", "TimeoutError"})
"""Classes of whichever HTTP package an SDK was built on: Anthropic's lets them through while it streams."""


class Verdict(StrEnum):
    """What a caller can do about a failure."""

    TOO_LONG = "too long"
    PASSING = "passing"
    FINAL = "final"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One call that gave no answer."""

    message: str
    status: int = 0
    """HTTP status; 0 where there was none."""
    code: str = ""
    """The provider's own word for it; `connection`, `timeout` or `cut` where the provider said nothing."""
    retry_after: float | None = None
    """Seconds the provider asks to wait."""
    should_retry: bool | None = None
    """What the provider says about trying again, if it says it."""
    spoken: int = 0
    """Characters of the answer that were already handed on."""


class CallFailed(Exception):
    """A failure on its way to those who decide about it."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.message)


def verdict(failure: Failure) -> Verdict:
    """What kind of failure it is."""
    if failure.status == 429:
        if _ONE_REQUEST_TOO_LARGE.search(failure.message):
            return Verdict.TOO_LONG
        return Verdict.FINAL if failure.code in _USED_UP else Verdict.PASSING
    if (
        failure.status == 413
        or failure.code in _TOO_LONG_CODES
        or _TOO_LONG.search(failure.message)
    ):
        return Verdict.TOO_LONG
    if failure.should_retry is not None:
        return Verdict.PASSING if failure.should_retry else Verdict.FINAL
    if failure.code in _PASSING or failure.status in (408, 409) or failure.status >= 500:
        return Verdict.PASSING
    return Verdict.FINAL


def error_of(failure: Failure, *, model: str, attempts: int) -> ModelFailed:
    """The error a caller sees."""
    said = " ".join(
        filter(None, (f"HTTP {failure.status}" if failure.status else "", failure.code))
    )
    told = _shown(failure.message or "the provider gave no reason")
    what = f"{said}: {told}" if said else told
    match verdict(failure):
        case Verdict.TOO_LONG:
            return ContextOverflow(
                f"{model} finds the prompt too long ({what}). Send a smaller context"
            )
        case Verdict.PASSING:
            tried = f"after {attempts} attempt{'s' if attempts > 1 else ''}"
            if failure.spoken:
                tried += f", {failure.spoken:,} characters into the answer"
            if failure.retry_after:
                tried += f"; it asks to wait {failure.retry_after:g} s"
            return ModelUnavailable(f"{model} gave no answer {tried} ({what}). Try again later")
        case Verdict.FINAL:
            done = "refused the call" if said else "could not be asked"
            return ModelFailed(f"{model} {done} ({what})")


def failure_of(error: BaseException, *, now: float) -> Failure:
    """What an SDK's error says. Both SDKs give `status_code`, `body` and `response` the same names."""
    status = _number(getattr(error, "status_code", 0))
    fields = _error_fields(getattr(error, "body", None))
    if not status and not fields:
        return Failure(message=_told(error), code=_line_fault(error))
    found = failure_in(fields)
    headers = _headers(error)
    return replace(
        found,
        message=found.message or _told(error),
        status=status if status >= 400 else found.status,
        retry_after=_retry_after(headers, now),
        should_retry={"true": True, "false": False}.get(headers.get("x-should-retry", "")),
    )


def failure_in(fields: Mapping[str, object]) -> Failure:
    """What an error object says that came within an answer."""
    code, kind = _word(fields.get("code")), _word(fields.get("type"))
    code = kind if not code or code.isdigit() else code  # llama.cpp repeats the status as the code
    message = _word(fields.get("message"))
    return Failure(message=message, status=_STATUS_OF.get(code, 0), code=code)


def no_answer(response: Mapping[str, object], missing: str) -> CallFailed:
    """For a success that holds no answer: some servers put an error into one."""
    fields = _error_fields(response)
    if "error" in response and fields:
        return CallFailed(failure_in(fields))
    return CallFailed(Failure(message=f"the answer has no {missing}; is base_url right?"))


def _line_fault(error: BaseException) -> str:
    names = {kind.__name__ for kind in type(error).__mro__}
    if "APITimeoutError" in names or "TimeoutException" in names or "TimeoutError" in names:
        return "timeout"
    if "APIConnectionError" in names or names & _BROKEN_LINE:
        return "connection"
    return "cut" if isinstance(error, ValueError) and "JSONDecodeError" in names else ""


def _told(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    cause = error.__cause__
    return f"{text} ({type(cause).__name__}: {cause})" if cause is not None else text


def _error_fields(body: object) -> dict[str, object]:
    """The error object, whether or not the SDK took it out of its envelope."""
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
    """Seconds, from milliseconds, seconds or a date; None where it says nothing that can be understood."""
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


def _shown(message: str) -> str:
    more = len(message) - _LONGEST_MESSAGE
    return message if more <= 0 else f"{message[:_LONGEST_MESSAGE]}... and {more:,} characters more"


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _word(value: object) -> str:
    return str(value) if isinstance(value, str | int) else ""
