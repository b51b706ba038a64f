"""How much one caller may take: of the body of a request, of the time of the service, of the room in its store.

Each refusal shows the sum that did not fit and, where waiting helps, how long. The pace is kept per token and per
process; how the room of a tenant is counted, `quota` says.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from turnfold.errors import InvalidOption, LimitExceeded

__all__ = ("Limits", "Pace")

_MOST_BUCKETS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the service takes."""

    body: int = 8 * 1024 * 1024
    """Bytes of a request."""
    rate: float = 0.0
    """Requests a second for each token; 0 for no limit."""
    burst: int = 100
    """Requests at once before the rate tells."""
    quota: int = 0
    """Tokens in all the logs of a tenant; 0 for no limit."""
    stored: int = 0
    """Bytes of everything a tenant keeps, messages and what stands beside them; 0 for no limit."""
    answer_hours: float = 24.0
    """Hours an answer is kept under its Idempotency-Key; 0 for ever."""
    streams: int = 32
    """Event streams of one token at a time."""

    def __post_init__(self) -> None:
        at_least_one = ("body", "burst")
        for name in (*at_least_one, "rate", "quota", "stored", "answer_hours", "streams"):
            least, given = int(name in at_least_one), getattr(self, name)
            if not given >= least:
                raise InvalidOption(f"{name}={given} must be at least {least}")

    def check_body(self, size: int) -> None:
        """Refuse a body of more bytes than are taken."""
        if size > self.body:
            raise LimitExceeded(
                f"a body of more than {self.body:,} bytes is not taken; send it in parts",
                allowed=self.body,
                asked=size,
                status=413,
            )


@dataclass(slots=True)
class Pace:
    """How often each token may ask: a bucket that fills at `rate` and holds `burst`."""

    rate: float = 0.0
    burst: int = 100
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])

    def take(self, name: str) -> None:
        """One request more."""
        if not self.rate:
            return
        now = self.clock()
        held, at = self._buckets.get(name, (float(self.burst), now))
        held = min(self.burst, held + (now - at) * self.rate)
        if held < 1.0:
            self._buckets[name] = held, now
            again = (1.0 - held) / self.rate
            raise LimitExceeded(
                f"more than {self.burst} requests at once and {self.rate:g} a second; try again in {again:.2f} s",
                allowed=self.rate,
                asked=1,
                again=again,
            )
        self._buckets[name] = held - 1.0, now
        if len(self._buckets) > _MOST_BUCKETS:
            self._forget_idle(now)

    def _forget_idle(self, now: float) -> None:
        """Forget the buckets that are full again, which are as good as new, or else the fullest ones."""

        def room(name: str) -> float:
            held, at = self._buckets[name]
            return max(0.0, self.burst - held - (now - at) * self.rate)

        by_room = sorted(self._buckets, key=room)
        full = sum(not room(name) for name in by_room)
        for name in by_room[: max(full, len(by_room) - _MOST_BUCKETS // 2)]:
            del self._buckets[name]
