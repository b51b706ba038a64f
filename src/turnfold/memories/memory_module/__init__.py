"""Document 002's memory module: workspace contexts, thinking phases and recall."""

from __future__ import annotations

__all__ = ()
