"""The conformance suite of the store protocol, for the authors of backends; see `StoreConformance` in suite.py."""

from __future__ import annotations

__all__ = ()
