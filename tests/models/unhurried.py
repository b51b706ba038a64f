"""Property tests that take as long as they take: on a busy machine a slow example is no failure."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

__all__ = ("unhurried",)

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
