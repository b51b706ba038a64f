"""The protocols of chat models: something that answers a context.

Three methods and no more, so that any client can be wrapped in a page. A model gets the context as records and answers
with one; the wire knows how a provider wants it written. Streaming is a callback, not a generator: the answer is whole
when the call returns, and a caller that is cancelled half way leaves nothing half open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from turnfold.records import Message, Usage
from turnfold.window import Context

__all__ = (
    "Answer",
    "ChatModel",
    "CompletionModel",
    "Prompt",
    "ToolSchemas",
)


Prompt: TypeAlias = Context | Sequence[Message]
ToolSchemas: TypeAlias = Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A model's answer."""

    message: Message
    """Text, thinking and tool calls, exactly as they must be sent back."""
    usage: Usage | None = None
    """What the provider reported; None where it reported nothing."""
    stop: str = ""
    """Why the model stopped, in the provider's word."""
    changes: tuple[str, ...] = ()
    """What of the context had to be converted or left out for this provider, and why."""


@runtime_checkable
class ChatModel(Protocol):
    """Answers contexts."""

    @property
    def name(self) -> str:
        """The model's name, as the provider knows it."""
        ...

    async def complete(self, prompt: Prompt, *, tools: ToolSchemas = ()) -> Answer:
        """Return the answer to a context. A prompt the provider finds too long is a `ContextOverflow`."""
        ...

    async def stream(
        self, prompt: Prompt, *, tools: ToolSchemas = (), on_text: Callable[[str], None]
    ) -> Answer:
        """Return the same, with every piece of text given to `on_text` as it comes."""
        ...

    async def count_tokens(self, prompt: Prompt, *, tools: ToolSchemas = ()) -> int | None:
        """Return what the provider itself would count; None where it cannot say."""
        ...


class CompletionModel(Protocol):
    """A model that can summarise. It may offer `count_tokens` too."""

    async def acompletion(self, messages: list[dict[str, str]], /) -> object:
        """Answer as a string, an OpenAI-style object, or a dictionary."""
        ...
