"""Under which names snapshots and their summaries lie beside the log.

Apart from the rest, so that who only has to tell them from other documents loads nothing else.
"""

from __future__ import annotations

from typing import Final

from turnfold.errors import InvalidRecord

__all__ = ("SNAPSHOT", "SNAPSHOT_SUMMARY", "turn_key", "turn_of")

SNAPSHOT: Final = "snapshot"
"""Kind of the documents that hold a snapshot."""
SNAPSHOT_SUMMARY: Final = "snapshot-summary"
"""Kind of the documents that hold what was made of one."""
_DIGITS: Final = 12


def turn_key(turn: int) -> str:
    """The key of a turn's document; keys are in the order of turns."""
    return f"{turn:0{_DIGITS}}"


def turn_of(key: str) -> int:
    """The turn a key names; another writer's key is refused."""
    if len(key) != _DIGITS or not (key.isascii() and key.isdigit()):
        raise InvalidRecord(f"a snapshot under the key {key!r}, which is no turn", path=SNAPSHOT)
    return int(key)
