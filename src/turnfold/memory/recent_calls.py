"""The newest calls of a conversation, without reading the thousands before them.

Calls are named by the entry that was newest when they were made, so the last ones are found from the end of the log:
a stretch of it is asked for, and a longer one when that held too few.
"""

from __future__ import annotations

from turnfold.errors import InvalidOption
from turnfold.memory.manifests import Manifest, call_key
from turnfold.memory.session import AsyncSession

__all__ = ("recent_calls",)

_STRETCH = 128
_PAGE = 500


async def recent_calls(session: AsyncSession, *, most: int = 60) -> list[Manifest]:
    """The newest `most` calls, oldest of them first."""
    if most < 1:
        raise InvalidOption(f"most={most} must be at least 1")
    newest = (await session.status()).entries
    stretch = max(_STRETCH, most)
    while True:
        after = call_key(newest - stretch, 0) if newest > stretch else ""
        found: list[Manifest] = []
        while page := await session.calls(after=found[-1].call if found else after, limit=_PAGE):
            found.extend(page)
            if len(page) < _PAGE:
                break
        if len(found) >= most or not after:
            return found[-most:]
        stretch *= 4
