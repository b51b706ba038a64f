"""What went wrong is told apart by what the provider said."""

from __future__ import annotations

import pickle
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.unhurried import unhurried
from turnfold.errors import ContextOverflow, ModelFailed, ModelUnavailable
from turnfold.models.failures import Failure, FailureClass, classify, error_of, failure_of

TOO_LONG = [
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 8227 tokens.",
    "Please reduce the length of the messages or completion.",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "Input tokens exceed the configured limit of 272000 tokens.",
    "prompt is too long: 208656 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length",
    "the request exceeds the available context size. try increasing the context size or enable context shift",
    "Requested tokens (2285) exceed context window of 2048",
    "prompt too long; exceeded max context length by 5000 tokens",
    "the input length exceeds the context length",
    "tokens to keep from the initial prompt is greater than the context length",
    "However, the model is loaded with context length of only 32768 tokens, which is not enough.",
    "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 204800]",
    "Your request exceeded model token limit: 262144 (requested: 300000)",
    "invalid params, context window exceeds limit (2013)",
    "Prompt exceeds max length",
    "API 调用参数有误，请检查文档。Request 182387 input tokens exceeds the model's maximum context length 202750",
    "输入内容超长，请缩短后重试",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens",
    "Prompt contains 140000 tokens and 0 draft tokens, too large for model with 131072 maximum context length",
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    "The input (140000 tokens) is longer than the model's context length (131072 tokens).",
]
NOT_TOO_LONG = [
    "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens",
    "max_tokens is too large: 200000. This model supports at most 16384 completion tokens",
    "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum length 40",
    "messages: text content blocks must be non-empty",
    "Incorrect API key provided",
]


class SdkError(Exception):
    """Shaped like an error of either SDK."""

    def __init__(
        self, status: int, body: object = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(f"Error code: {status}")
        self.status_code = status
        self.body = body
        self.response = type("Response", (), {"headers": headers or {}})()


def told(status: int, body: object = None, **headers: str) -> Failure:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return failure_of(SdkError(status, body, named), now=1_000.0)


@pytest.mark.parametrize("message", TOO_LONG)
def test_every_known_wording_of_a_prompt_that_is_too_long(message: str) -> None:
    for body in ({"message": message}, {"type": "error", "error": {"message": message}}):
        failure = told(400, body)
        assert classify(failure) is FailureClass.TOO_LONG
        assert isinstance(error_of(failure, model="m", attempts=1), ContextOverflow)


@pytest.mark.parametrize("message", NOT_TOO_LONG)
def test_other_refusals_are_not_taken_for_it(message: str) -> None:
    failure = told(400, {"message": message, "type": "invalid_request_error"})
    error = error_of(failure, model="m", attempts=1)
    assert type(error) is ModelFailed
    assert message in str(error)


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, {"message": "no", "code": "context_length_exceeded"}, FailureClass.TOO_LONG),
        (
            500,
            {"message": "no", "code": 500, "type": "exceed_context_size_error"},
            FailureClass.TOO_LONG,
        ),
        (413, None, FailureClass.TOO_LONG),
        (429, {"message": "Too many tokens, please wait"}, FailureClass.PASSING),
        (
            429,
            {"message": "You exceeded your quota", "code": "insufficient_quota"},
            FailureClass.FINAL,
        ),
        (
            429,
            {
                "message": "Request too large for m: Limit 30000, Requested 30601. The input must be reduced"
            },
            FailureClass.TOO_LONG,
        ),
        (408, None, FailureClass.PASSING),
        (409, None, FailureClass.PASSING),
        (500, None, FailureClass.PASSING),
        (503, "<html>busy</html>", FailureClass.PASSING),
        (
            529,
            {"error": {"type": "overloaded_error", "message": "Overloaded"}},
            FailureClass.PASSING,
        ),
        (
            200,
            {"error": {"type": "overloaded_error", "message": "Overloaded"}},
            FailureClass.PASSING,
        ),
        (200, {"error": {"type": "invalid_request_error", "message": "no"}}, FailureClass.FINAL),
        (400, None, FailureClass.FINAL),
        (401, None, FailureClass.FINAL),
        (403, None, FailureClass.FINAL),
        (404, None, FailureClass.FINAL),
        (422, None, FailureClass.FINAL),
    ],
)
def test_what_can_be_done_about_it(status: int, body: object, expected: FailureClass) -> None:
    assert classify(told(status, body)) is expected


def test_a_provider_that_says_whether_to_retry_is_believed() -> None:
    assert classify(told(500, x_should_retry="false")) is FailureClass.FINAL
    assert classify(told(400, x_should_retry="true")) is FailureClass.PASSING


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": formatdate(1_030.0, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(10.0, usegmt=True)}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": ""}, None),
    ],
)
def test_how_long_to_wait_is_read_in_every_form(
    headers: dict[str, str], expected: float | None
) -> None:
    assert failure_of(SdkError(429, None, headers), now=1_000.0).retry_after == expected


@unhurried
@given(
    status=st.integers(0, 599),
    body=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["error", "message", "code", "type", "x"]), inner, max_size=4
            )
        ),
        max_leaves=8,
    ),
    headers=st.dictionaries(
        st.sampled_from(["retry-after", "retry-after-ms", "x-should-retry"]), st.text(max_size=12)
    ),
)
def test_no_answer_is_too_strange_to_be_reported(
    status: int, body: Any, headers: dict[str, str]
) -> None:
    failure = failure_of(SdkError(status, body, headers), now=0.0)
    error = error_of(failure, model="the-model", attempts=2)
    assert "the-model" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - made right here


def test_a_line_that_breaks_is_told_by_the_class_of_the_error() -> None:
    class TransportError(Exception):
        pass

    class ReadError(TransportError):
        pass

    class APITimeoutError(Exception):
        pass

    assert failure_of(ReadError("gone"), now=0.0).code == "connection"
    assert failure_of(ConnectionResetError("gone"), now=0.0).code == "connection"
    assert failure_of(APITimeoutError("slow"), now=0.0).code == "timeout"
    assert classify(failure_of(ReadError("gone"), now=0.0)) is FailureClass.PASSING
    assert classify(failure_of(TypeError("no credentials"), now=0.0)) is FailureClass.FINAL


def test_an_error_says_what_happened_and_what_to_do() -> None:
    busy = Failure(message="Overloaded", status=529, code="overloaded_error", retry_after=90.0)
    error = error_of(busy, model="m", attempts=3)
    assert isinstance(error, ModelUnavailable)
    assert str(error) == (
        "m gave no answer after 3 attempts; it asks to wait 90 s (HTTP 529 overloaded_error: Overloaded). "
        "Try again later"
    )
    page = error_of(Failure(message="x" * 5_000, status=502), model="m", attempts=1)
    assert "... and 4,000 characters more" in str(page)
