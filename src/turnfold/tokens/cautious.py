"""A count for a model nobody named: the larger of the rule of thumb and a real tokenizer.

The rule of thumb (CJK x 1.5, other characters / 4) is above most vocabularies on prose, and far above recent ones on
Chinese; on numbers, code and JSON it is too low. A real tokenizer knows those, but older vocabularies need more for
Chinese than it says. The larger of the two holds for both.
"""

from __future__ import annotations

from turnfold.records import Message
from turnfold.tokens.counter import TokenCounter
from turnfold.tokens.counts import Certainty
from turnfold.tokens.encodings import Encoding
from turnfold.tokens.estimate import formula_tokens
from turnfold.tokens.framing import OPENAI

__all__ = ("CautiousText", "cautious_counter", "formula_message_tokens")

_FRAMING = 4
"""What the rule of thumb adds for the structure of a message."""


class CautiousText:
    """The larger of the rule of thumb and o200k_base, for text."""

    __slots__ = ("_exact",)

    name = "cautious"
    certainty = Certainty.ESTIMATE

    def __init__(self) -> None:
        self._exact = Encoding("o200k_base")

    def count(self, text: str) -> int:
        """Tokens of `text`, rather too many than too few."""
        return max(formula_tokens(text) - _FRAMING, self._exact.count(text))


def cautious_counter() -> TokenCounter:
    """A counter for a model nobody named."""
    return TokenCounter(CautiousText(), framing=OPENAI)


def formula_message_tokens(message: Message) -> int:
    """The rule of thumb for a whole message: its text and what it asks of tools, and 4 for its structure."""
    if not message.parts:
        return 0
    said = message.text + "".join(call.name + call.arguments for call in message.calls)
    return formula_tokens(said)
