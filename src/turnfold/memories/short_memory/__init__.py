"""Document 003's short-term memory: sessions with a summary and the newest turns."""

from __future__ import annotations

__all__ = ()
