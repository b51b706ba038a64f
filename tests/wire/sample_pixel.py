"""The smallest picture there is, for samples that show one."""

from __future__ import annotations

__all__ = ("PIXEL",)

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
