"""The session handles a process keeps, so that the next call on a conversation finds its window in memory.

A handle holds the window of its conversation, which may be a few kilobytes or many megabytes. The cache is therefore
bounded twice: by the number of handles and by the bytes they hold together. Whatever is evicted is read from the store
again when it is next asked for. A service shares one cache among all its tenants, so that the bounds hold for the
process and not for each of them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from turnfold.errors import InvalidOption
from turnfold.memory.session import AsyncSession
from turnfold.memory.setting import Setting

__all__ = ("Handles",)

_MOST: Final = 256
_MOST_BYTES: Final = 32 << 20
_WEIGH_ALL: Final = 1_024
"""Look-ups between two weighings of all handles."""


class Handles:
    """Handles by tenant and conversation, the least recently used evicted first. Safe across threads."""

    def __init__(self, *, most: int = _MOST, most_bytes: int = _MOST_BYTES) -> None:
        if most < 1 or most_bytes < 0:
            raise InvalidOption(f"most={most} must be at least 1 and most_bytes={most_bytes} 0")
        self._most = most
        self._most_bytes = most_bytes
        self._held: OrderedDict[tuple[str, str], AsyncSession] = OrderedDict()
        self._weights: dict[tuple[str, str], int] = {}
        self._total = 0
        self._last = ("", "")
        """The one asked for last."""
        self._lock = threading.Lock()
        self._asked = 0

    def __len__(self) -> int:
        return len(self._held)

    @property
    def held_bytes(self) -> int:
        """What the handles hold in memory now, about."""
        with self._lock:
            return sum(handle.held_bytes for handle in self._held.values())

    def get(self, conversation: str, setting: Setting) -> AsyncSession:
        """The handle on a conversation, made if there is none."""
        key = setting.scope.tenant, conversation
        with self._lock:
            # A handle grows while it is used, which is after it was handed out: the one before this is weighed now.
            # Of many that are used at the same time some are missed, so all are weighed now and then.
            self._asked += 1
            if self._asked % _WEIGH_ALL == 0:
                for each in self._held:
                    self._weigh(each)
            elif self._last != key:
                self._weigh(self._last)
            self._last = key
            handle = self._held.get(key)
            if handle is None:
                handle = self._held[key] = AsyncSession(conversation, setting)
            self._held.move_to_end(key)
            while len(self._held) > self._most or (
                self._total > self._most_bytes and len(self._held) > 1
            ):
                self._forget(next(iter(self._held)))
            return handle

    def drop(self, conversation: str, setting: Setting) -> None:
        """Forget a handle: its conversation is gone."""
        with self._lock:
            self._forget((setting.scope.tenant, conversation))

    def _weigh(self, key: tuple[str, str]) -> None:
        handle = self._held.get(key)
        if handle is not None:
            weight = handle.held_bytes
            self._total += weight - self._weights.get(key, 0)
            self._weights[key] = weight

    def _forget(self, key: tuple[str, str]) -> None:
        if self._held.pop(key, None) is not None:
            self._total -= self._weights.pop(key, 0)
