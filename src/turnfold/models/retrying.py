"""When to ask a model again, and after how long: one policy for all clients.

The SDKs' own retries are switched off, so that nothing is retried twice over and what is decided here is all there is.
The decision is a pure function of the failure, the attempt and a number between 0 and 1; the waiting is the caller's.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from turnfold.errors import InvalidOption
from turnfold.models.failures import CallFailed, Failure, Verdict, error_of, verdict

__all__ = ("RetryPolicy", "Sleep", "retry_delay", "retrying")

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often, and with which pauses."""

    retries: int = 2
    """Attempts after the first."""
    first: float = 0.5
    """Seconds of the first pause, before chance shortens it; each further one is twice as long."""
    longest: float = 8.0
    """Seconds no pause of our own exceeds."""
    patience: float = 60.0
    """The longest wait a provider may ask for; one that asks for more is given up at once."""

    def __post_init__(self) -> None:
        if self.retries < 0:
            raise InvalidOption(f"retries={self.retries} must not be negative")
        if not 0 < self.first <= self.longest or self.patience < 0:
            raise InvalidOption(
                f"pauses need 0 < first={self.first:g} <= longest={self.longest:g} and patience={self.patience:g} >= 0"
            )


def retry_delay(
    failure: Failure, *, attempt: int, policy: RetryPolicy, chance: float
) -> float | None:
    """Seconds to wait after the failed `attempt` (the first is 1), or None to give up.

    Half of a pause is left to `chance`, so that callers who failed together do not come back together. A provider that
    says how long is never asked sooner. What was already handed on of an answer cannot be taken back: no retry then.
    """
    if attempt > policy.retries or failure.spoken or verdict(failure) is not Verdict.PASSING:
        return None
    asked = failure.retry_after or 0.0
    if asked > policy.patience:
        return None
    usual = min(policy.longest, policy.first * 2.0 ** min(attempt - 1, 64))
    return max(usual * (0.5 + 0.5 * chance), asked + policy.first * chance if asked else 0.0)


async def retrying(
    call: Callable[[], Awaitable[T]], *, model: str, policy: RetryPolicy, sleep: Sleep
) -> T:
    """What `call` answers, asked again as the policy says; its last failure as an error of ours."""
    attempt = 0
    while True:
        attempt += 1
        try:
            return await call()
        except CallFailed as failed:
            delay = retry_delay(
                failed.failure,
                attempt=attempt,
                policy=policy,
                chance=random.random(),  # noqa: S311 (spreads callers out, protects nothing)
            )
            if delay is None:
                raise error_of(failed.failure, model=model, attempts=attempt) from failed.__cause__
        await sleep(delay)
