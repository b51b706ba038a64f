"""What document 001 becomes when it is written down in the obvious way: a plain memory with the known defects.

It exists to show that each defect is real and that the tests can see it. It was written from a description of the
behaviour; it is not anyone's code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from turnfold import Message, system
from turnfold.tokens import counter_for

__all__ = ("NaiveSummaryMemory", "NaiveTokenMemory", "image_tokens", "text_tokens")

Summarise = Callable[[str], str]


def text_tokens(text: str) -> int:
    """The usual rule of thumb when no tokenizer is at hand."""
    return len(text) // 4


def image_tokens(block: object) -> int:
    """A picture costs less at low detail: read as an attribute, whatever the block is."""
    source = block["image_url"] if isinstance(block, dict) else getattr(block, "image_url", None)
    return 85 if getattr(source, "detail", None) == "low" else 1000


class NaiveTokenMemory:
    """Counts with a cache, and fills backwards, message by message."""

    def __init__(self, max_tokens: int, driver: Callable[[Message], int] | None = None) -> None:
        self.max_tokens = max_tokens
        self.driver = driver
        self.cache: dict[str, int] = {}
        self.tokenizer = counter_for("gpt-3.5-turbo").count_message

    def count_one(self, message: Message) -> int:
        """By the driver where there is one; remembered by what was said."""
        key = f"{message.role}:{message.text}"
        if key not in self.cache:
            self.cache[key] = (self.driver or self.tokenizer)(message)
        return self.cache[key]

    def count_batch(self, messages: Sequence[Message]) -> list[int]:
        """By the tokenizer, in the same cache."""
        for message in messages:
            self.cache.setdefault(f"{message.role}:{message.text}", self.tokenizer(message))
        return [self.cache[f"{message.role}:{message.text}"] for message in messages]

    def history(self, messages: Sequence[Message]) -> list[Message]:
        """The newest messages that fit."""
        opening, spoken = _parted(messages)
        left = self.max_tokens - sum(map(self.tokenizer, opening))
        kept: list[Message] = []
        for message in reversed(spoken):
            left -= self.tokenizer(message)
            if left < 0:
                break
            kept.append(message)
        return [*opening, *reversed(kept)]


class NaiveSummaryMemory(NaiveTokenMemory):
    """Keeps what fits, and has the model sum up everything else, on every call."""

    def __init__(self, max_tokens: int, summarise: Summarise, reserve: int = 500) -> None:
        super().__init__(max_tokens)
        self.summarise = summarise
        self.reserve = reserve
        self.summary = ""

    def history(self, messages: Sequence[Message]) -> list[Message]:
        """System, summary, and whatever fits."""
        opening, spoken = _parted(messages)
        left = self.max_tokens - self.reserve - sum(map(self.tokenizer, opening))
        recent: list[Message] = []
        older: list[Message] = []
        for message in reversed(spoken):
            cost = self.tokenizer(message)
            if cost <= left:  # a smaller, older one may still fit
                left -= cost
                recent.insert(0, message)
            else:
                older.insert(0, message)
        if older:
            self._sum_up(older)
        notice = [system(self.summary)] if self.summary else []
        return [*opening, *notice, *recent]

    def _sum_up(self, older: Sequence[Message]) -> None:
        text = "\n".join(f"{message.role}: {message.text}" for message in older)
        try:
            self.summary = self.summarise(f"{self.summary}\n{text}")
        except RuntimeError:
            return  # what was evicted is in no summary now


def _parted(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    opening = [message for message in messages[:1] if message.role == "system"]
    return opening, list(messages[len(opening) :])
