"""What reaches a tokenizer: every contender's, however deep inside it the text is counted.

Raw tiktoken, which peers count with here, can be listened to from the start. A peer's file that counts with a tokenizer
of its own says how to listen to that one: `can_be_heard(listening)`, where `listening` is a context manager that gives
every text to the function it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

from bench import raw_tiktoken

__all__ = ("Heard", "Listening", "can_be_heard", "heard")

Listening = Callable[[Callable[[str], object]], AbstractContextManager[object]]


@dataclass(slots=True)
class Heard:
    """What was tokenised."""

    texts: int = 0
    characters: int = 0

    def take(self, text: str) -> None:
        """One more text."""
        self.texts += 1
        self.characters += len(text)


_tokenizers: list[Listening] = [raw_tiktoken.listening]


def can_be_heard(listening: Listening) -> None:
    """Name one more tokenizer that can be listened to."""
    _tokenizers.append(listening)


@contextmanager
def heard() -> Iterator[Heard]:
    """Everything that is tokenised meanwhile, by whomever was opened meanwhile."""
    taken = Heard()
    with ExitStack() as listening:
        for each in _tokenizers:
            listening.enter_context(each(taken.take))
        yield taken
