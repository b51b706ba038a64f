"""WHO ELSE USES IT: one folder per framework, each giving the framework its own objects over a session.

Nothing is imported here: a framework's SDK is loaded only by whoever imports its adapter.
"""

from __future__ import annotations

__all__ = ()
