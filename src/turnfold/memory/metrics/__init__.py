"""What a memory tells an operator: plain counters, and two exporters that read them.

The counters cost nothing to keep and need no package; OpenTelemetry and Prometheus are extras that look at the same
figures, so that all three agree.
"""

from __future__ import annotations

__all__ = ()
