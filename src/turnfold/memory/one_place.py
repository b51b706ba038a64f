"""What a model sees is decided in one place: whoever else may add to a request, and may not rewrite it.

Frameworks let others work on the same request. What they put there is kept; but a history that another one changed
would be put back as the log has it, which would undo, for example, a redaction. That is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from turnfold.errors import InvalidOption

__all__ = ("added_to",)

_Message = TypeVar("_Message")


def added_to(
    history: Sequence[_Message], asked: Sequence[_Message], *, other: str, remedy: str
) -> list[_Message]:
    """Messages of this request alone; refuses one in which messages of the history are missing or replaced."""
    kept = {id(message) for message in history}
    added = [message for message in asked if id(message) not in kept]
    if len(asked) - len(added) != len(history):
        raise InvalidOption(
            f"{other} left {len(asked) - len(added)} of the {len(history)} messages as they are; what a model sees can "
            f"be decided in one place only: {remedy}"
        )
    return added
