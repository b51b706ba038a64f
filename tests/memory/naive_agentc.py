"""What document 000 becomes when its pseudo-code is taken at its word: a linked list with the known defects.

Like its neighbour for document 001 it was written from a description, to show that the tests can see each defect.
"""

from __future__ import annotations

from turnfold import Message
from turnfold.tokens import counter_for

__all__ = ("LinkedMemory", "byte_estimate")

_SIZE_T = 1 << 64


def byte_estimate(text: str) -> int:
    """The documented formula on UTF-8 bytes, in unsigned arithmetic, with every multi-byte character taken for CJK."""
    data = text.encode("utf-8")
    cjk = sum(byte >= 0xC0 for byte in data)
    others = (len(data) - cjk * 3) % _SIZE_T
    return cjk * 3 // 2 + others // 4 + 4


class _Node:
    def __init__(self, message: Message) -> None:
        self.message = message
        self.next: _Node | None = None


class LinkedMemory:
    """Appends by walking to the end; truncates message by message, and only when asked."""

    def __init__(self, max_messages: int = 0) -> None:
        self.max_messages = max_messages
        self.first: _Node | None = None
        self.tokens = counter_for("gpt-4o").count_message

    def add(self, message: Message) -> None:
        """Append. The limit is for a later version."""
        if self.first is None:
            self.first = _Node(message)
            return
        node = self.first
        while node.next is not None:
            node = node.next
        node.next = _Node(message)

    def get_messages(self) -> list[Message]:
        """Everything, in order."""
        found: list[Message] = []
        node = self.first
        while node is not None:
            found.append(node.message)
            node = node.next
        return found

    def truncate(self, target_tokens: int) -> None:
        """Drop the oldest message until the rest fits."""
        total = sum(map(self.tokens, self.get_messages()))
        while self.first is not None and total > target_tokens:
            total -= self.tokens(self.first.message)
            self.first = self.first.next
