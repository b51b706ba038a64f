"""Where a store left the conversations it wrote last: a guess that saves a round trip when nobody else has written.

Nothing depends on a guess being right: the statement that uses one names the generation it was made at and its epoch,
and the database does nothing when the conversation has moved on, or lost what it had acknowledged.
"""

from __future__ import annotations

import threading

from turnfold.stores.postgres_keys import Place
from turnfold.stores.protocol import Head

__all__ = ("RememberedHeads",)

_MOST = 4096


class RememberedHeads:
    """The heads of the conversations written last. Safe across threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_keys: dict[tuple[str, str], Head] = {}

    def take(self, place: Place) -> Head | None:
        """The head, which is then forgotten until it is known again: a second writer must not use the same guess."""
        with self._lock:
            return self._by_keys.pop(place.keys, None)

    def put(self, place: Place, head: Head) -> None:
        """Remember a head; of too many the oldest is forgotten."""
        with self._lock:
            self._by_keys[place.keys] = head
            if len(self._by_keys) > _MOST:
                del self._by_keys[next(iter(self._by_keys))]
